"""Options for the estimates on new rows."""

from dataclasses import dataclass

from fairspan.auditing.intervals import DEFAULT_LEVEL
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.parameters import check_integer, is_integer, is_number
from fairspan.random_state import as_generator
from fairspan.rows.folds import Folds
from fairspan.typing import RandomSource


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
    level: float = DEFAULT_LEVEL
    materiality: float = 0.01
    seed: int = 0
    has_clusters: bool = False
    max_memory: int | None = None
    repeats: int = 1
    is_pointwise: bool = False
    n_tests: int | None = None


DEFAULT_OPTIONS = EstimationOptions()
"""The defaults of :func:`fairspan.audit`."""


def check_level(level: object) -> None:
    """Check that a confidence level is above 0.5 and below 1.

    Raises
    ------
    InvalidParameter
    """
    if not is_number(level) or not 0.5 < level < 1:
        raise InvalidParameter(
            f"level is {level!r}",
            "Allowed: a number above 0.5 and below 1",
            f"Use the default, {DEFAULT_LEVEL}",
        )


def check_materiality(materiality: object, whole: str) -> None:
    """Check that a materiality threshold is a share of at least 0 and below 1.

    `whole` says what it is a share of.

    Raises
    ------
    InvalidParameter
    """
    if not is_number(materiality) or not 0 <= materiality < 1:
        raise InvalidParameter(
            f"materiality is {materiality!r}",
            f"Allowed: a share of {whole}, at least 0 and below 1",
            "Use the default, 0.01",
        )


def estimation_options(
    folds: int | None,
    level: float,
    materiality: float,
    random_state: RandomSource,
    *,
    has_clusters: bool,
    repeats: int = 1,
) -> EstimationOptions:
    """Validate the user's settings and return them as options.

    Raises
    ------
    InvalidParameter, InvalidType, IncompatibleParameters
    """
    check_level(level)
    check_materiality(materiality, "a group's variance")
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
    if is_integer(random_state) and random_state >= 0:
        seed = int(random_state)
    else:
        seed = int(as_generator(random_state).integers(2**31))
    return EstimationOptions(
        folds, float(level), float(materiality), seed, has_clusters, repeats=repeats
    )
