"""Comparisons of our figures with the printed ones."""

import csv
from importlib.resources import files

# Differences beyond this share need a reason.
WANTS_A_REASON = 0.10


def relative_difference(ours: float | None, printed: float | None) -> float | None:
    """Return (ours - printed) / |printed|, or None without a printed value or if it is zero.

    Examples
    --------
    >>> relative_difference(11.0, 10.0), relative_difference(1.0, None)
    (0.1, None)
    """
    if ours is None or printed is None:
        return None
    if printed == 0:
        return 0.0 if ours == 0 else None
    return (ours - printed) / abs(printed)


def mark(difference: float | None, reason: str) -> str:
    """Return the reason if the difference is over a tenth, else an empty text.

    Examples
    --------
    >>> mark(0.2, "another draw"), mark(-0.01, "another draw"), mark(None, "another draw")
    ('another draw', '', '')
    """
    return reason if difference is not None and abs(difference) > WANTS_A_REASON else ""


def printed_table(name: str, package: str = "reproduction") -> list[dict[str, str]]:
    """Rows of ``printed/NAME.csv`` of a package, as text by column."""
    text = (files(package) / "printed" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
