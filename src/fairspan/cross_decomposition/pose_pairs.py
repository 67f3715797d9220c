"""Pose the problem of two tables: cross-covariances from moments of the joined table.

Weights map standardized rows to scores, (x - c_x) @ x_rotations. For partial least squares they are
orthonormal; for canonical correlation the tables are whitened first, so that they are S^(-1/2) U
with S the pooled second moment of the table, and the scores of all rows have unit variance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from fairspan.cross_decomposition.cross_covariances import CrossCovariances, cross_rounding
from fairspan.cross_decomposition.paired_criteria import (
    PairedCriterion,
    PairedProblem,
    get_paired_criterion,
)
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.linalg.complement import OrthogonalComplement
from fairspan.linalg.rounding import EPS, ZERO_EIGENVALUE
from fairspan.moments.base_moments import Center, check_center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.parameters import check_bool, check_choice, check_number, is_integer
from fairspan.problem.feature_scale import compute_feature_scale
from fairspan.problem.restrictions.restriction import Restriction, differences_of
from fairspan.problem.restrictions.restriction_catalog import get_restriction
from fairspan.typing import FloatArray
from fairspan.verification.check_components import forbidden_rotation

METHODS = ("pls", "cca")
TABLES = ("both", "x", "y")
# Largest gap that counts as optimal, relative to the objective.
DEFAULT_TOL = 1e-9


@dataclass(frozen=True)
class PairedSettings:
    """Parameters of a fit of two tables, checked.

    Attributes
    ----------
    method : {"pls", "cca"}
        Whether the tables are used as they are, or whitened.
    n_components : int
        d.
    criterion : PairedCriterion
    restriction : Restriction or None
        Equal means of the groups' scores.
    restricted_tables : {"both", "x", "y"}
        Tables whose scores the restriction is about.
    center : {"global", "group", "none"}
    scale : bool
        Whether columns are divided by their standard deviation.
    regularization : float
        Share by which the pooled covariance of each table is shrunk towards a multiple of the
        identity before whitening.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    """

    method: str
    n_components: int
    criterion: PairedCriterion = field(default_factory=lambda: get_paired_criterion("minimax_loss"))
    restriction: Restriction | None = None
    restricted_tables: str = "both"
    center: Center = "global"
    scale: bool = True
    regularization: float = 0.0
    tol: float = DEFAULT_TOL

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("restricted_tables", self.restricted_tables, TABLES)
        check_center(self.center)
        check_bool("scale", self.scale)
        check_number("tol", self.tol, 0)
        check_number("regularization", self.regularization, 0, 1)
        if self.tol >= 1:
            raise InvalidParameter(
                f"tol is {self.tol!r}", "Allowed: a number of at least 0, below 1", "Use 1e-9"
            )
        n_components = self.n_components
        if not is_integer(n_components) or n_components < 1:
            raise InvalidParameter(
                f"n_components is {n_components!r}",
                "Allowed: an integer from 1 to the number of columns of the smaller table minus 1",
                "Choose a number in that range",
            )

    @classmethod
    def parse(
        cls,
        method: str,
        n_components: int,
        criterion: object,
        restriction: object,
        **options: object,
    ) -> "PairedSettings":
        """Check the parameters of an estimator.

        Raises
        ------
        InvalidParameter, InvalidType, IncompatibleParameters
        """
        parsed_restriction = get_restriction(restriction)
        _check_restriction(parsed_restriction)
        return cls(
            method,
            n_components,
            get_paired_criterion(criterion),
            parsed_restriction,
            **options,  # type: ignore[arg-type]
        )


def _check_restriction(restriction: Restriction | None) -> None:
    """Check that a restriction only makes means of scores agree.

    Raises
    ------
    IncompatibleParameters
    """
    if restriction is None:
        return
    affects_means_only = restriction.forbids_mean_differences_only and not restriction.columns
    if affects_means_only and not restriction.needs_classes:
        return
    raise IncompatibleParameters(
        f"{restriction!r} was requested of a pair of tables",
        "Allowed: MeanParity() and MeanParity(attributes='marginal')",
        "Use one of these, or no restriction",
    )


@dataclass(frozen=True, eq=False)
class PosedPairs:
    """Problem of two tables, and the way back to their columns.

    Attributes
    ----------
    problem : PairedProblem
        In coordinates: columns, whitened if the method says so, along the allowed directions.
    x_axes, y_axes : (p, a) and (q, b) arrays
        Maps from these coordinates to weights of the standardized columns.
    feature_scale : (p + q,) array or None
        Divisor of each column; None without scaling.
    """

    problem: PairedProblem
    x_axes: FloatArray
    y_axes: FloatArray
    feature_scale: FloatArray | None


def pose_pairs(
    moments: GroupMoments,
    n_targets: int,
    settings: PairedSettings,
    feature_scale: FloatArray | None = None,
) -> PosedPairs:
    """Pose the problem of the joined table.

    Parameters
    ----------
    moments : GroupMoments
        Of the columns of X, followed by the `n_targets` columns of Y.
    n_targets : int
        q.
    settings : PairedSettings
    feature_scale : (p + q,) array, optional
        Divisors of the columns, if they are known; by default those of the moments, if the settings
        scale.

    Raises
    ------
    IncompatibleParameters
        Too many components for these tables, no covariance, or a table that cannot be whitened.
    """
    if settings.scale and feature_scale is None:
        feature_scale = compute_feature_scale(moments)
    scaled = moments.in_units(feature_scale)
    n_features = moments.n_features - n_targets
    x_part = slice(0, n_features)
    y_part = slice(n_features, None)
    second_moments = scaled.second_moments_about(scaled.center_point(settings.center))
    covariances = _cross_covariances(second_moments, moments.proportions, x_part, y_part)
    covariances.check_has_covariance()
    x_axes = np.eye(n_features)
    y_axes = np.eye(n_targets)
    if settings.method == "cca":
        pooled = np.tensordot(moments.proportions, second_moments.matrices, axes=1)
        x_whitener = _whitener(pooled[x_part, x_part], "X", settings.regularization)
        y_whitener = _whitener(pooled[y_part, y_part], "Y", settings.regularization)
        spread = second_moments.column_rms
        covariances = _whitened(
            covariances, x_whitener, y_whitener, spread[:, x_part], spread[:, y_part]
        )
        x_axes = x_whitener.matrix
        y_axes = y_whitener.matrix
    problem = PairedProblem(
        covariances,
        best_covariances=covariances.best_covariances(settings.n_components),
        best_rounding=covariances.kept_rounding(settings.n_components),
        n_components=settings.n_components,
        criterion=settings.criterion,
    )
    posed = PosedPairs(problem, x_axes, y_axes, feature_scale)
    if settings.restriction is not None:
        posed = _restrict(posed, settings, scaled)
    _check_n_components(settings, posed.problem.covariances.shape)
    settings.criterion.check_problem(posed.problem)
    return posed


def _cross_covariances(
    second_moments: DenseSecondMoments, proportions: FloatArray, x_part: slice, y_part: slice
) -> CrossCovariances:
    """Return the groups' covariances of the columns of X with those of Y, and their rounding.

    Parameters
    ----------
    second_moments : DenseSecondMoments
        Of the joined table.
    proportions : (k,) array
    x_part, y_part : slice
        Positions of the columns of each table in the joined one.
    """
    spread = second_moments.column_rms
    rounding = cross_rounding(spread[:, x_part], spread[:, y_part])
    if second_moments.uncertainty is not None:
        # Moments that were fitted to incomplete rows are inexact themselves.
        rounding = rounding + second_moments.uncertainty.absolute
    matrices = np.ascontiguousarray(second_moments.matrices[:, x_part, y_part])
    return CrossCovariances(matrices, rounding, proportions)


def _restrict(posed: PosedPairs, settings: PairedSettings, scaled: GroupMoments) -> PosedPairs:
    """Restrict a problem to the directions along which the means of the groups agree.

    Losses are still measured against the best pair of all directions.

    Parameters
    ----------
    posed : PosedPairs
        Without the restriction.
    settings : PairedSettings
        With a restriction.
    scaled : GroupMoments
        Of the standardized columns of both tables.
    """
    n_features = len(posed.x_axes)
    parts = {
        "x": scaled.select_features(range(n_features)),
        "y": scaled.select_features(range(n_features, scaled.n_features)),
    }
    x_allowed = _allowed_axes(settings, "x", parts["x"], posed.x_axes)
    y_allowed = _allowed_axes(settings, "y", parts["y"], posed.y_axes)
    covariances = posed.problem.covariances
    # Beside mean differences, what the restriction forbids may be large.
    rotation = _rotation_rounding(settings, parts, covariances)
    allowed_covariances = covariances.along(x_allowed, y_allowed)
    allowed_covariances = replace(
        allowed_covariances, rounding=allowed_covariances.rounding + rotation
    )
    return replace(
        posed,
        problem=replace(posed.problem, covariances=allowed_covariances),
        x_axes=posed.x_axes @ x_allowed,
        y_axes=posed.y_axes @ y_allowed,
    )


def _rotation_rounding(
    settings: PairedSettings, parts: Mapping[str, GroupMoments], covariances: CrossCovariances
) -> FloatArray:
    """Bound on the effect of rounded mean differences on covariances kept, shape (k,).

    Rounding rotates the directions that the restriction forbids by an angle of at most a. A basis
    in the directions that it allows is then rotated as much, which changes what is kept of a matrix
    by at most twice a times its norm, for each column.

    Parameters
    ----------
    settings : PairedSettings
    parts : mapping of "x" and "y" to GroupMoments
        Of the standardized columns of each table.
    covariances : CrossCovariances
    """
    angle = sum(
        forbidden_rotation(parts[table], settings.restriction)
        for table in ("x", "y")
        if settings.restricted_tables in ("both", table)
    )
    return np.asarray(2 * angle * covariances.largest_singular_values)


def _check_n_components(settings: PairedSettings, shape: tuple[int, int]) -> None:
    """Check that the number of components is below the number of directions of each table.

    With as many, both subspaces are fixed, and pairs of them differ by a rotation alone: the set of
    what the groups keep has holes, and no bound is tight.

    Raises
    ------
    InvalidParameter, IncompatibleParameters
    """
    smaller = min(shape)
    if settings.n_components < smaller:
        return
    suffix = ""
    remedy = "Add columns"
    if settings.restriction is not None:
        suffix = " that the restriction leaves"
        remedy = "Add columns, or drop the restriction"
    if smaller < 2:
        raise IncompatibleParameters(
            f"X and Y have {shape[0]} and {shape[1]} directions{suffix}",
            "Allowed: at least two in each table",
            remedy,
        )
    raise IncompatibleParameters(
        f"n_components is {settings.n_components}, and X and Y have {shape[0]} and {shape[1]} "
        f"directions{suffix}",
        f"Allowed: from 1 to {smaller - 1}, fewer than the directions of either table",
        "Choose fewer components",
    )


@dataclass(frozen=True, eq=False)
class _Whitener:
    """Symmetric inverse square root of a covariance.

    Attributes
    ----------
    matrix : (p, p) array
        S^(-1/2).
    rounding : float
        Relative rounding error of whitened covariances.
    """

    matrix: FloatArray
    rounding: float


def _whitener(covariance: FloatArray, table: str, regularization: float) -> _Whitener:
    """Inverse square root of a covariance, shrunk towards a multiple of the identity.

    Parameters
    ----------
    covariance : (p, p) array
    table : {"X", "Y"}
        Its table, for messages.
    regularization : float
        r, from 0 to 1: (1 - r) S + r tr(S) / p I is whitened.

    Raises
    ------
    IncompatibleParameters
        The covariance is singular.
    """
    p = len(covariance)
    mean_variance = float(np.trace(covariance)) / p
    shrunk = (1 - regularization) * covariance + regularization * mean_variance * np.eye(p)
    values, vectors = np.linalg.eigh(shrunk)
    if values[0] <= ZERO_EIGENVALUE * values[-1]:
        raise IncompatibleParameters(
            f"The rows of {table} do not vary along every direction, so they cannot be whitened",
            "Allowed: columns of which none depends on the others, or regularization above 0",
            "Scale columns of very different size (scale=True), drop columns, use "
            "FairCCA(regularization=0.01), or FairPLS",
        )
    matrix = (vectors / np.sqrt(values)) @ vectors.T
    condition = float(values[-1] / values[0])
    return _Whitener(matrix, EPS * p * condition)


def _whitened(
    covariances: CrossCovariances,
    x_whitener: _Whitener,
    y_whitener: _Whitener,
    x_spread: FloatArray,
    y_spread: FloatArray,
) -> CrossCovariances:
    """Cross-covariances of the whitened tables, with their rounding errors.

    An entry of C_g is rounded relative to the root mean squares of its columns (`x_spread` and
    `y_spread`), which the entries of the whiteners multiply.
    """
    matrices = x_whitener.matrix @ covariances.matrices @ y_whitener.matrix
    rounding = cross_rounding(
        x_spread @ np.abs(x_whitener.matrix), y_spread @ np.abs(y_whitener.matrix)
    )
    norms = np.linalg.norm(matrices, axis=(1, 2))
    rounding = rounding + (x_whitener.rounding + y_whitener.rounding) * norms
    return replace(covariances, matrices=matrices, rounding=rounding)


def _allowed_axes(
    settings: PairedSettings, table: str, moments: GroupMoments, axes: FloatArray
) -> FloatArray:
    """Orthonormal axes, in coordinates, along which the means of the groups agree.

    Parameters
    ----------
    settings : PairedSettings
        With a restriction.
    table : {"x", "y"}
    moments : GroupMoments
        Of the standardized columns of that table.
    axes : (p, p) array
        Maps coordinates to weights of these columns.
    """
    identity = np.eye(axes.shape[1])
    if settings.restricted_tables not in ("both", table):
        return identity
    directions = differences_of(cast(Restriction, settings.restriction), moments)
    if not directions.shape[1]:
        return identity
    # Along coordinates u the means differ by directions' axes u.
    forbidden = axes.T @ directions
    if directions.shape[1] >= axes.shape[1]:
        return np.empty((axes.shape[1], 0))
    return OrthogonalComplement.from_differences(
        forbidden / np.linalg.norm(forbidden, axis=0)
    ).basis
