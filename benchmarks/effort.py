"""Number of repetitions and size of the data, and the error of a benchmark that cannot run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Number of repetitions, size of the data, and time limit.

    Attributes
    ----------
    repetitions : int
        Number of runs whose median is reported.
    quick : bool
        Whether to take fewer rows, cases and points: enough to see that everything works, not to
        compare with a goal.
    limit : float
        Seconds after which a case that runs in its own process is stopped and skipped.
    """

    repetitions: int
    quick: bool
    limit: float


FULL = Effort(repetitions=7, quick=False, limit=400)
QUICK = Effort(repetitions=3, quick=True, limit=40)


class SkippedError(Exception):
    """A benchmark cannot run on this machine; the message gives the reason for the results."""
