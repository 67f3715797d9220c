"""Names of files that results go to: what their endings promise."""

import os
from pathlib import Path

from fairspan.errors import InvalidParameter

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


def check_name(path: str | os.PathLike[str], what: str, *endings: str) -> None:
    """Make sure that a result is not named as another kind of file.

    Parameters
    ----------
    path : path
    what : str
        Such as "a model is".
    endings : str
        Those of its own kind.

    Raises
    ------
    InvalidParameter
    """
    ending = Path(os.fsdecode(path)).suffix.lower()
    if ending in _OTHER_KINDS and ending not in endings:
        own = f"that ends in {endings[0]}" if endings else "with another ending"
        raise InvalidParameter(
            f"{os.fsdecode(path)} is named as {_OTHER_KINDS[ending]}, and {what} not that",
            f"Allowed: a name {own}",
            "Choose such a name",
        )
