"""What is not proven of answers along a path."""

from collections.abc import Sequence

OPTIMAL, NONE = "optimal", "no answer"


def unproven(statuses: Sequence[str]) -> str:
    """How many answers of a criterion are not proven optimal, as a sentence; or nothing.

    Examples
    --------
    >>> unproven(["optimal", "open gap", "optimal"])
    'Of 3 answers, 1 is not proven optimal.'
    >>> unproven(["optimal", "no answer"])
    ''
    """
    answers = [status for status in statuses if status != NONE]
    n = sum(status != OPTIMAL for status in answers)
    if not n:
        return ""
    return f"Of {len(answers)} answers, {n} {'is' if n == 1 else 'are'} not proven optimal."
