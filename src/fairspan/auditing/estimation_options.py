"""Options for the estimates on new rows."""

import numbers
from dataclasses import dataclass

from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.parameters import check_integer
from fairspan.random_state import as_generator
from fairspan.rows.folds import Folds


@dataclass(frozen=True)
class EstimationOptions:
    """Options for the estimates on new rows.

    Attributes
    ----------
    folds : int or None
        Number K of folds; None for no estimates.
    level : float
        Confidence level of the intervals.
    materiality : float
        Materiality threshold, as a share of the group's variance.
    seed : int
        Seed of the fold assignment.
    has_clusters : bool
        Whether rows have clusters, so that standard errors are by cluster.
    max_memory : int or None
        Memory budget in bytes for moments by fold; the number of folds is reduced to fit it.
    repeats : int
        Number of fold assignments.
    is_pointwise : bool
        Whether intervals and states hold for one model at a time, as on a curve over numbers of
        dimensions, and not for all models of an audit at once.
    n_tests : int, optional
        Number of losses that intervals and states hold for at once; by default, all groups of all
        models.
    """

    folds: int | None = 10
    level: float = 0.95
    materiality: float = 0.01
    seed: int = 0
    has_clusters: bool = False
    max_memory: int | None = None
    repeats: int = 1
    is_pointwise: bool = False
    n_tests: int | None = None


DEFAULT_OPTIONS = EstimationOptions()
"""The defaults of :func:`fairspan.audit`."""


def estimation_options(
    folds: int | None,
    level: float,
    materiality: float,
    random_state: object,
    *,
    has_clusters: bool,
    repeats: int = 1,
) -> EstimationOptions:
    """Validate the user's settings and return them as options.

    Raises
    ------
    InvalidParameter, InvalidType, IncompatibleParameters
    """
    if not isinstance(level, numbers.Real) or not 0.5 < level < 1:
        raise InvalidParameter(
            f"level is {level!r}",
            "Allowed: a number above 0.5 and below 1",
            "Use the default, 0.95",
        )
    if not isinstance(materiality, numbers.Real) or not 0 <= materiality < 1:
        raise InvalidParameter(
            f"materiality is {materiality!r}",
            "Allowed: a share of a group's variance, at least 0 and below 1",
            "Use the default, 0.01",
        )
    if folds is None and has_clusters:
        raise IncompatibleParameters(
            "clusters was given, but folds is None",
            "Allowed: clusters together with folds",
            "Leave folds at its default, 10",
        )
    check_integer("repeats", repeats)
    if folds is not None:
        Folds(folds)  # raises InvalidParameter for a number of folds that is not allowed
    elif repeats > 1:
        raise IncompatibleParameters(
            f"repeats is {repeats}, but folds is None",
            "Allowed: repeats together with folds",
            "Leave folds at its default, 10",
        )
    # A nonnegative integer is the seed itself; generators and None draw one.
    is_seed = isinstance(random_state, numbers.Integral) and random_state >= 0
    seed = int(random_state) if is_seed else int(as_generator(random_state).integers(2**31))
    return EstimationOptions(
        folds, float(level), float(materiality), seed, has_clusters, repeats=repeats
    )
