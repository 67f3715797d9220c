"""About how many rows there are in files that do not tell, from the length of their first lines."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairspan.rows.files.file_rows import FileRows

_START = 1 << 16
# Rounded to so many digits, so that nobody takes it for a count.
_DIGITS = 2


def estimated_rows(sources: Iterable[Any]) -> int | None:
    """About how many rows there are; None where the files do not show it.

    Parameters
    ----------
    sources : iterable of FileRows
        Of anything else nothing is known.
    """
    total = 0.0
    for source in sources:
        if not isinstance(source, FileRows):
            return None
        for part in source.table.parts:
            n_rows = part.n_rows if part.n_rows is not None else _of_lines(part.path)
            if n_rows is None:
                return None
            total += n_rows
    return int(round(total, _DIGITS - len(str(int(total)))))


def _of_lines(path: Path) -> float | None:
    try:
        with path.open("rb") as file:
            start = file.read(_START)
        size = path.stat().st_size
    except OSError:  # who reads it will say so
        return None
    n_lines = start.count(b"\n")
    if n_lines < 2 or path.suffix == ".gz":  # long lines, or no lines at all
        return None
    return size / len(start) * n_lines - 1  # without the heading
