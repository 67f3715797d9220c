"""Early checks of output paths."""

from pathlib import Path

from fairspan.errors import InvalidParameter


def check_output_path(out: Path, *inputs: object, as_folder: bool = False) -> None:
    """Raise InvalidParameter if the output would overwrite an input or cannot be created.

    Parameters
    ----------
    out : Path
    *inputs : object
        Inputs; those that are paths are compared with `out`.
    as_folder : bool
        Whether the output is a folder, which may exist.
    """
    if str(out) == "-":  # standard output
        return
    if as_folder and out.exists() and not out.is_dir():
        raise InvalidParameter(
            f"The output {out} is not a folder",
            "Allowed: a new or existing folder, for the moments of each file",
            "Choose another name; a name ending in .moments merges all into one file",
        )
    if not as_folder and out.exists() and not out.is_file():
        raise InvalidParameter(
            f"The output {out} is not a regular file",
            "Allowed: a new name, or an existing regular file",
            "Choose another name",
        )
    if any(_is_or_contains(path, out) for path in inputs if isinstance(path, Path)):
        raise InvalidParameter(
            f"The output {out} is also an input, or is inside an input folder",
            "Allowed: another path",
            "Choose another path",
        )
    if not out.parent.is_dir():
        raise InvalidParameter(
            f"The folder {out.parent} does not exist",
            "Allowed: an existing folder",
            "Create it first",
        )


def _is_or_contains(path: Path, out: Path) -> bool:
    """Whether the output is the same file as the path, or is inside it."""
    is_same_file = path.exists() and out.exists() and out.samefile(path)
    return is_same_file or path.resolve() in out.resolve().parents
