"""How much to measure, and what to say where a benchmark cannot run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes
    ----------
    repetitions : int
        Turns of which the median counts.
    quick : bool
        Fewer rows, cases and points: enough to see that all is well, not to compare with a goal.
    limit : float
        Seconds after which a case that runs in a process of its own is given up.
    """

    repetitions: int
    quick: bool
    limit: float


WHOLE = Effort(repetitions=7, quick=False, limit=400)
QUICK = Effort(repetitions=3, quick=True, limit=40)


class SkippedError(Exception):
    """Why a benchmark cannot run here, in words for the results."""
