"""Criteria and restrictions by name, or as the objects themselves."""

from typing import Any, cast

from fairspan.problem.criteria import Criterion
from fairspan.problem.restrictions import Restriction
from fairspan.registry import object_of


def criterion_of(criterion: object, **parameters: Any) -> Criterion:
    """A criterion from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor an object that has what a criterion has.

    Examples
    --------
    >>> criterion_of("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    return cast(Criterion, object_of("criterion", criterion, Criterion, parameters))


def restriction_of(restriction: object, **parameters: Any) -> Restriction | None:
    """A restriction from its name and parameters, the object itself, or None.

    Raises
    ------
    InvalidParameter, InvalidType
        As of :func:`criterion_of`.

    Examples
    --------
    >>> restriction_of("mean_parity")
    MeanParity(tolerance=0.0)
    """
    if restriction is None:
        return None
    return cast(Restriction, object_of("restriction", restriction, Restriction, parameters))
