"""Built-in criteria by name."""

from typing import cast

from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.equal_error import EqualError
from fairspan.problem.criteria.error_gap import ErrorGap, RobustErrorGap
from fairspan.problem.criteria.linear import Disparity, TotalError
from fairspan.problem.criteria.minimax import LeastVariance, MinimaxError, MinimaxLoss
from fairspan.problem.criteria.nash_welfare import NashWelfare
from fairspan.registry import resolve_object

# Criteria by name.
CRITERIA = {
    criterion.name: criterion
    for criterion in (
        MinimaxLoss,
        MinimaxError,
        LeastVariance,
        TotalError,
        Disparity,
        EqualError,
        ErrorGap,
        RobustErrorGap,
        NashWelfare,
    )
}


def get_criterion(criterion: object, **parameters: object) -> Criterion:
    """Get a criterion by name, with parameters, or return the given object.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a criterion object.

    Examples
    --------
    >>> get_criterion("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    return cast(
        Criterion,
        resolve_object("criterion", criterion, Criterion, CRITERIA.__getitem__, parameters),
    )
