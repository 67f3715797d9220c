"""Estimated number of rows of files, for progress."""

from collections.abc import Sequence
from pathlib import Path

# Bytes that are sampled for the estimate of the number of rows.
_SAMPLE_BYTES = 1 << 16
# Suffixes of compressed files and workbooks, whose bytes do not show lines.
_WITHOUT_ESTIMATE = (".gz", ".bz2", ".zst", ".zip", ".xlsx", ".xlsm")
# Significant digits of the estimate, so few that it does not look like an exact count.
_ESTIMATE_DIGITS = 2


def estimate_n_rows(paths: Sequence[Path]) -> int | None:
    """Estimate the number of rows of CSV files from the first lines of one; None if impossible.

    If other files have far shorter lines, such as only a header, the estimate may not be positive;
    it counts as impossible then.
    """
    try:
        with paths[0].open("rb") as file:
            start = file.read(_SAMPLE_BYTES)
        size = sum(path.stat().st_size for path in paths)
    except OSError:  # reported when the file is read
        return None
    n_lines = start.count(b"\n")
    # Too few lines to estimate, or compressed.
    if n_lines < 2 or paths[0].suffix.lower() in _WITHOUT_ESTIMATE:
        return None
    total = size / len(start) * n_lines - len(paths)  # without header lines
    if total < 1:
        return None
    n_digits = len(str(int(total)))
    return int(round(total, _ESTIMATE_DIGITS - n_digits))  # to significant digits
