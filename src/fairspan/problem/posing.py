"""From moments, and criteria by name, to the problem that solvers receive or verification poses."""

import numbers
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fairspan.errors import Incompatible, warn
from fairspan.moments.group_means import Center, GroupMeans
from fairspan.moments.held_rows.frame import InCoordinates
from fairspan.moments.of_rows import Moments
from fairspan.problem.criteria import Criterion
from fairspan.problem.mean_free_directions import (
    mean_free_directions,
)
from fairspan.problem.posed import Posed
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import CovarianceParity, Restriction
from fairspan.registry import object_of
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray

# A column that is so many times as large as most may leave the others few digits.
_FAR_LARGER = 100.0


def pose(
    moments: Moments,
    n_components: int | float,
    criterion: Criterion,
    *,
    restriction: Restriction | None = None,
    center: Center = "global",
    divisor: FloatArray | None = None,
    allow_extra: bool = False,
    nested: bool = False,
) -> Posed:
    """The problem of a criterion.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
        Thin ones are posed in the coordinates of the rows.
    n_components : int or float
        d, or a share of every group's variance.
    criterion : Criterion
    restriction : Restriction or None
    center : {"global", "group", "none"}
    divisor : (p,) array, optional
        What each feature is divided by.
    allow_extra : bool
    nested : bool
        Whether components are chosen one after the other.

    Returns
    -------
    Posed

    Raises
    ------
    Incompatible, UnknownGroup
        The criterion or the restriction is not defined for these groups.
    """
    scaled = moments if divisor is None else moments.divided_by(divisor)
    whole = isinstance(n_components, numbers.Integral)
    deviations = scaled.standard_deviations
    varying = deviations[deviations > 0]
    inside: GroupMeans = scaled
    # Coordinates of few rows turn the features, which a restriction may treat differently.
    turns = restriction is None or restriction.follows_rotations
    thin = scaled.in_coordinates(n_components, center, nested=nested) if turns else None
    if thin is None:
        inside = scaled if scaled.matrix_free else scaled.matrices()
        point = scaled.center_point(center)
    else:
        inside, point, n_components = thin.frame.moments, thin.point, thin.n_components
    problem = Problem(
        inside.operator_about(point),
        moments.labels,
        moments.weights,
        int(n_components) if whole else 1,
        criterion,
        allow_extra,
        least_column_variance=float(varying.min() ** 2) if len(varying) else None,
    )
    if restriction is not None:
        restriction.check(moments.labels, criterion, allow_extra=allow_extra)
        _check_center(restriction, center)
    within, means = restriction, inside.means
    if restriction is not None:
        means = restriction.means_of(inside)
    if restriction is not None and thin is not None:
        within = _in_coordinates(restriction, thin)
    offsets = np.zeros_like(inside.means) if point is None else inside.means - point
    scatters = variances = np.empty(0)
    if restriction is not None and inside.matrix_free:
        variances = inside.variances
    elif restriction is not None:
        scatters = inside.matrices().scatters
        variances = np.einsum("gii->gi", scatters) / inside.weights[:, None]
    return Posed(problem, within, means, offsets, scatters, variances, thin, n_components)


def deviations_of(moments: Moments) -> FloatArray:
    """What features are divided by where they are to be scaled: 1 for those that are constant."""
    deviations = moments.standard_deviations
    constant = deviations == 0
    if constant.any():
        names = moments.feature_names or tuple(map(str, range(moments.n_features)))
        columns = [name for name, is_constant in zip(names, constant, strict=True) if is_constant]
        warn(
            f"These columns are constant and stay unscaled: {listed(columns)}. Scaling needs "
            "columns that vary. They carry no variance, so you can leave them out."
        )
    return np.where(constant, 1.0, deviations)


def largest_column(moments: Moments, center: Center) -> str | None:
    """Which feature is so large that others are rounding beside it, in words; None of none."""
    spreads = moments.standard_deviations
    if center == "none":
        spreads = np.hypot(spreads, moments.mean)
    largest = int(np.argmax(spreads))
    names = moments.feature_names or tuple(map(str, range(moments.n_features)))
    others = np.delete(spreads, largest)
    typical = float(np.median(others[others > 0])) if (others > 0).any() else 0.0
    times = float(spreads[largest]) / typical if typical > 0 else np.inf
    if times < _FAR_LARGER:
        return None
    told = f", {times:.0e} times as large as most" if np.isfinite(times) else ""
    return f"the column {names[largest]!r} is the largest{told}"


def _check_center(restriction: Restriction, center: Center) -> None:
    if center != "global" and restriction.oblique:
        raise Incompatible(
            f"{restriction!r} was requested with center={center!r}",
            "Allowed: center='global': rows are moved about the mean of all of them",
            "Use center='global', or an orthogonal restriction",
        )


def _in_coordinates(restriction: Restriction, within: InCoordinates) -> Restriction:
    """The restriction in coordinates that is equivalent to that of all features.

    Rows that are fewer than their features have coordinates in which most directions without
    variance are left out (:mod:`fairspan.moments.held_rows`). A restriction counts those as well.

    Raises
    ------
    Incompatible
        Fewer directions are left than components or directions were requested, or it is not said
        how many.
    """
    # A restriction that counts no directions means the same in all coordinates.
    if not restriction.is_exact or restriction.oblique:
        return restriction
    moments, n_features = within.frame.moments, within.frame.n_features
    means = restriction.means_of(moments)
    free = mean_free_directions(means, moments.second_moments("group"), 1)
    most = n_features - moments.n_features + free.shape[1]
    least = int(within.asked) if isinstance(within.asked, numbers.Integral) else 1
    if least > most:
        raise Incompatible(
            f"n_components is {least} with {restriction!r}",
            f"Allowed: at most {most}: of {n_features} features, the means that are to agree "
            f"differ along {n_features - most} direction(s)",
            "Choose fewer components, or leave the restriction out",
        )
    if not restriction.counts_directions or moments.n_groups == 1:
        return restriction
    wanted = cast(CovarianceParity, restriction).n_directions
    if wanted is None or not least <= wanted <= most:
        varying = within.frame.n_known
        raise Incompatible(
            f"{restriction!r} was requested with rows that vary along only {varying} of "
            f"{n_features} directions",
            f"Allowed: a number n_directions from {least} to {most}; unless it is above "
            f"{n_features - varying}, no direction with variance needs to be among them",
            "Choose such a number, or another n_components",
        )
    # Directions without variance, which the coordinates leave out, are taken last.
    fewer: Any = replace(cast(Any, restriction), n_directions=min(wanted, free.shape[1]))
    return cast(Restriction, fewer)


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
