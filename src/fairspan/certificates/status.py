"""Status of a solution, and its meaning."""

from enum import StrEnum

from fairspan.linalg.rounding import LOOSE_TOL


class Status(StrEnum):
    """Status of a solution; compares equal to plain text: ``solution.status == "optimal"``.

    Examples
    --------
    >>> Status.OPTIMAL == "optimal", Status.OPTIMAL.message
    (True, 'no subspace is better by more than the tolerance')
    """

    OPTIMAL = "optimal"
    ESTIMATED = "estimated"
    OPEN_GAP = "open gap"
    UNRESOLVED = "unresolved"

    @property
    def message(self) -> str:
        """Meaning of the status and possible remedies."""
        return _STATUS_MESSAGES[self]


_STATUS_MESSAGES = {
    Status.OPTIMAL: "no subspace is better by more than the tolerance",
    Status.UNRESOLVED: "the gap is at most what double precision can resolve for these data, which "
    "exceeds the tolerance",
    Status.ESTIMATED: "no subspace was found that is better by more than the tolerance, but the "
    "bound relies on iteratively computed eigenvectors, which cannot prove that none was missed",
    Status.OPEN_GAP: "a better subspace may exist, by at most the gap if there is a bound; accept "
    "the gap or raise the tolerance (tol), or with more than two groups try allow_extra=True",
}


def tolerance_suffix(status: str, tol: float) -> str:
    """Suffix for the status "optimal" if the tolerance is loose.

    Examples
    --------
    >>> tolerance_suffix("optimal", 0.01), tolerance_suffix("optimal", 1e-9)
    (' within 1 %', '')
    >>> tolerance_suffix("open gap", 0.01)
    ''
    """
    if status == Status.OPTIMAL and tol > LOOSE_TOL:
        return f" within {tol * 100:.2g} %"
    return ""


# An objective of at most this many resolutions cannot be distinguished from zero: it may be one
# above the exact value, which may be one above zero.
ZERO_RESOLUTIONS = 2.0
