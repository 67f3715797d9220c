"""What each criterion asks for, in one plain sentence."""

from fairspan.problem.criteria import Criterion

_ASKS = {
    "total_error": "The least error over all rows together, whichever group they are of.",
    "minimax_loss": "The largest excess loss of a group is as small as it can be. A group's excess "
    "loss is its error above what as many dimensions could do for that group alone.",
    "minimax_error": "The largest error of a group is as small as it can be.",
    "disparity": "A mixture of the error over all rows and the protected group's error minus the "
    "other's is as small as it can be; it does not stop where the two are equal.",
    "equal_error": "All groups have the same error; among such projections the error over all rows "
    "is the least.",
    "error_gap": "The error over all rows, plus a penalty for the largest difference in error "
    "between two groups, is as small as it can be.",
    "robust_error_gap": "The same as of the error gap, for the worst rows near those that "
    "were seen.",
    "nash_welfare": "The product of the variances that the groups keep is as large as it can be.",
}


def asked_of(criterion: Criterion) -> str:
    """What a criterion asks for.

    Examples
    --------
    >>> from fairspan.problem.criteria import MinimaxError
    >>> asked_of(MinimaxError())
    'The largest error of a group is as small as it can be.'
    """
    own: str | None = getattr(criterion, "sentence", None)
    return own or _ASKS.get(criterion.name) or f"The criterion {criterion.name} is minimised."
