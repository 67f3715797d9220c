"""Names of files that results go to: what their endings promise."""

from pathlib import Path

import click

# Endings of names that say what is in a file, and what has another kind of result.
_OTHER_KINDS = {
    ".csv": "a table",
    ".tsv": "a table",
    ".xlsx": "a table",
    ".json": "JSON, which --json prints",
    ".parquet": "a table",
    ".arrow": "a table",
    ".feather": "a table",
    ".pdf": "a document in PDF",
    ".html": "a page",
    ".htm": "a page",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".joblib": "a pickle",
}


def refuse_text(out: Path, what: str, *endings: str) -> None:
    """Raise a usage error where a result would go to standard output, or be named as another kind.

    Parameters
    ----------
    out : Path
    what : str
        Such as "A model is".
    endings : str
        Those of its own kind.
    """
    if str(out) == "-":
        raise click.UsageError(f"{what} no text to print; name a file with -o.")
    ending = out.suffix.lower()
    if ending in _OTHER_KINDS and ending not in endings:
        own = f"a name that ends in {endings[0]}" if endings else "a name with another ending"
        raise click.UsageError(
            f"{out} is named as {_OTHER_KINDS[ending]}, and {what[0].lower()}{what[1:]} not that; "
            f"choose {own}."
        )
