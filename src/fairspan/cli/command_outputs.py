"""Check of the path of an output."""

from collections.abc import Sequence
from pathlib import Path

from fairspan.cli.command import usage_error_if
from fairspan.report.report_outputs import check_output_path


def check_output_file(
    path: Path, kind: str, *inputs: object, suffixes: Sequence[str] = (), as_folder: bool = False
) -> None:
    """Reject standard output, unwritable paths, and file names of another kind.

    Standard output ("-") is rejected because the file is binary or a page, and not text to print.

    Parameters
    ----------
    path : Path
        Output path.
    kind : str
        Start of the message, such as "a model is".
    *inputs : object
        Inputs that must not be overwritten.
    suffixes : sequence of str
        Allowed suffixes of the file name.
    as_folder : bool
        Whether the output is a folder, which may exist.

    Raises
    ------
    click.UsageError, InvalidParameter
    """
    check_output_path(path, *inputs, as_folder=as_folder)
    usage_error_if(
        str(path) == "-", f"{kind[0].upper()}{kind[1:]} no text to print; name a file with -o."
    )
    from fairspan.storage.atomic import check_suffix  # slow to import

    check_suffix(path, kind, *suffixes)
