"""Where results may be written, checked before anything slow begins."""

from pathlib import Path

from fairspan.errors import InvalidParameter


def check_output_path(out: Path, *inputs: object, as_folder: bool = False) -> None:
    """Raise InvalidParameter if the output would replace an input, or has no place to go to.

    Parameters
    ----------
    out : Path
    *inputs : object
        Of which paths are compared.
    as_folder : bool
        Whether the output is a folder, which may be there already.
    """
    if str(out) == "-":
        return
    if as_folder and out.exists() and not out.is_dir():
        raise InvalidParameter(
            f"The output {out} is not a folder",
            "Allowed: a new name or a folder, for the moments of each file of a folder",
            "Choose another name; with one that ends in .moments, all are added up in that file",
        )
    if not as_folder and out.exists() and not out.is_file():
        raise InvalidParameter(
            f"The output {out} is not an ordinary file",
            "Allowed: a new name, or a file to be replaced",
            "Choose another name",
        )
    if any(_is_or_contains(path, out) for path in inputs if isinstance(path, Path)):
        raise InvalidParameter(
            f"The output {out} is also an input, or lies in the folder that is read",
            "Allowed: another name",
            "Choose another name",
        )
    if not out.parent.is_dir():
        raise InvalidParameter(
            f"There is no folder {out.parent}", "Allowed: a folder that exists", "Make it first"
        )


def _is_or_contains(path: Path, out: Path) -> bool:
    """Whether the output is this file (by any name), or lies in this folder."""
    return (
        path.exists() and out.exists() and out.samefile(path)
    ) or path.resolve() in out.resolve().parents
