"""Where results may not go that are no text."""

from pathlib import Path

import click


def refuse_text(out: Path, what: str, *endings: str) -> None:
    """Refuse standard output, and a name of another kind of file, before anything is read.

    Parameters
    ----------
    out : Path
    what : str
        Such as "a model is".
    endings : str
        Those of its own kind.

    Raises
    ------
    click.UsageError, InvalidParameter
    """
    if str(out) == "-":
        raise click.UsageError(
            f"{what[0].upper()}{what[1:]} no text to print; name a file with -o."
        )
    from fairspan.storage import check_name  # takes its time

    check_name(out, what, *endings)
