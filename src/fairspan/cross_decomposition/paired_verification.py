"""Verify a pair of subspaces: recompute what its certificate claims, without any solver."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.certificates.status import GapAssessment, Status
from fairspan.cross_decomposition.joined_tables import open_joined
from fairspan.cross_decomposition.paired_certificate import PairedFigures, evaluate_pair
from fairspan.cross_decomposition.paired_criteria import PairedProblem
from fairspan.cross_decomposition.paired_subspace import PairedSubspace
from fairspan.cross_decomposition.pose_pairs import PosedPairs, pose_pairs
from fairspan.cross_decomposition.table_weights import TableWeights
from fairspan.errors import FairspanError
from fairspan.linalg.rounding import ANGLE_TOL, EPS, LOOSE_TOL, SUM_ROUNDING, TINY
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import format_list
from fairspan.typing import FloatArray, LabelsLike, TableLike, WeightsLike
from fairspan.verification.compare_recomputed import Comparison
from fairspan.verification.verification_result import Verification, failed_verification

# Factor on rounding error bounds: those of the fit, and those of the verification, both count, and
# moments of rows in another order differ by a few roundings.
_ROUNDING_FACTOR = 10.0
# Largest rotation of the directions of a problem, in radians, that rounding may explain.
_MAX_ROTATION = 1e-6


def verify_pairs(
    model: object,
    X_or_moments: TableLike,
    Y: object = None,
    *,
    sensitive_features: LabelsLike = None,
    sample_weight: WeightsLike = None,
) -> Verification:
    """Verify the certificate of a pair of subspaces from rows or moments, without a solver.

    Parameters
    ----------
    model : FairPLS, FairCCA or PairedSubspace
        Fitted or loaded.
    X_or_moments : (n, p) table, or GroupMoments
        The data of the fit. Moments have the columns of X, followed by those of Y.
    Y : (n, q) table, or names of columns of X
        Not needed with moments.
    sensitive_features : (n,) or (n, a) array-like, or column name(s), optional
        Not needed with moments.
    sample_weight : (n,) array-like, or column name of X, optional

    Returns
    -------
    Verification
        With other data, or a modified model, ``holds`` is False.

    Raises
    ------
    InvalidInput
        Rows without groups or Y, or rows that are not tables of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.cross_decomposition import FairPLS, verify_pairs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> Y = X @ rng.normal(size=(4, 3))
    >>> groups = ["a", "b"] * 30
    >>> fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    >>> verify_pairs(fair, X, Y, sensitive_features=groups).holds
    True
    >>> verify_pairs(fair, 2 * X + Y[:, :1], Y, sensitive_features=groups).holds
    False
    """
    pair = model if isinstance(model, PairedSubspace) else getattr(model, "subspace_", None)
    if not isinstance(pair, PairedSubspace):
        return failed_verification(
            f"The model is a {type(model).__name__} without a pair of subspaces: there is nothing "
            "to verify."
        )
    moments = _moments(X_or_moments, Y, sensitive_features, sample_weight)
    try:
        known = KnownLabels.from_groups(pair.certificate.statement.groups)
        return _verify(pair, moments.matched_to(known))
    # Models may come from untrusted sources and hold any values.
    except (FairspanError, LookupError, ValueError, TypeError, ArithmeticError) as error:
        return failed_verification(f"The problem cannot be posed for these data: {error}")


def _moments(
    X_or_moments: TableLike,
    Y: object,
    sensitive_features: LabelsLike,
    sample_weight: WeightsLike,
) -> GroupMoments:
    """Moments of the joined table."""
    if isinstance(X_or_moments, GroupMoments):
        return X_or_moments
    joined = open_joined(X_or_moments, Y, sensitive_features, sample_weight, "error")
    return compute_group_moments(joined.rows)


def _verify(pair: PairedSubspace, moments: GroupMoments) -> Verification:
    """Recompute everything, and compare."""
    certificate = pair.certificate
    statement = certificate.statement
    failures = list(_data_failures(pair, moments))
    if failures:
        return Verification(False, np.nan, -np.inf, np.nan, tuple(failures))
    settings = pair.settings
    posed = pose_pairs(moments, pair.y.n_features, settings)
    failures += _frame_failures(pair, moments, posed)
    x = _coordinates(pair.x, posed.x_axes)
    y = _coordinates(pair.y, posed.y_axes)
    figures, assessment = evaluate_pair(
        posed.problem,
        x.basis,
        y.basis,
        certificate.weights,
        settings.tol,
        tolerance_factor=_ROUNDING_FACTOR,
    )
    # Whitening, and rounded mean differences, rotate directions by as much as they change what is
    # kept, relative to it.
    covariances = posed.problem.covariances
    norms = np.maximum(covariances.largest_singular_values, TINY)
    rotation = min(float((covariances.rounding / norms).max()), _MAX_ROTATION)
    for table, coordinates in (("X", x), ("Y", y)):
        failures += _coordinate_failures(table, coordinates, rotation)
    failures += _statement_failures(pair)
    failures += _figure_failures(pair, posed.problem, figures, assessment)
    summary = (
        f"{statement.criterion.name} is {figures.objective:.9g} for this pair (the model says "
        f"{certificate.objective:.9g}), and its weights prove the lower bound "
        f"{figures.lower_bound:.9g} (the model says {certificate.lower_bound:.9g})."
    )
    return Verification(
        holds=not failures,
        objective=figures.objective,
        lower_bound=figures.lower_bound,
        gap=figures.objective - figures.lower_bound,
        messages=(*failures, summary),
    )


def _data_failures(pair: PairedSubspace, moments: GroupMoments) -> Iterator[str]:
    """Yield a message for each way in which the data differ from those of the fit."""
    statement = pair.certificate.statement
    n_columns = pair.x.n_features + pair.y.n_features
    if moments.n_features != n_columns:
        yield f"The model has {n_columns} columns in all; the data have {moments.n_features}."
        return
    names = None
    if pair.x.feature_names is not None and pair.y.feature_names is not None:
        names = (*pair.x.feature_names, *pair.y.feature_names)
    if names is not None and moments.feature_names not in (None, names):
        yield "The columns of the data differ from those of the model, at least in their order."
    if tuple(moments.labels) != statement.groups:
        yield (
            f"The model was fitted on the groups {format_list(list(statement.groups))}; the data "
            f"have {format_list(moments.labels)}."
        )
    elif tuple(moments.counts.tolist()) != statement.counts:
        yield "These are not the rows of the fit: the groups have different numbers of rows."


def _frame_failures(
    pair: PairedSubspace, moments: GroupMoments, posed: PosedPairs
) -> Iterator[str]:
    """Yield a message if the means or scales of the model are not those of the data."""
    center = pair.certificate.statement.center
    mean = np.zeros(moments.n_features) if center == "none" else moments.mean
    deviations = moments.standard_deviations
    model_mean = np.concatenate([pair.x.mean, pair.y.mean])
    allowed = _ROUNDING_FACTOR * (SUM_ROUNDING * deviations + EPS * np.abs(mean))
    if (np.abs(model_mean - mean) > allowed).any():
        yield "The means of the model are not those of the data."
    x_scale = pair.x.scale
    y_scale = pair.y.scale
    if x_scale is None or y_scale is None or posed.feature_scale is None:
        is_scaled = [scale is not None for scale in (x_scale, y_scale, posed.feature_scale)]
        if any(is_scaled):
            yield "The model does not scale both tables, or neither, as its settings say."
        return
    model_scale = np.concatenate([x_scale, y_scale])
    if (np.abs(model_scale / posed.feature_scale - 1) > _ROUNDING_FACTOR * SUM_ROUNDING).any():
        yield "The scales of the model are not those of the data."


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Weights of one table in the coordinates of the problem.

    Attributes
    ----------
    basis : (a, d) array
        Orthonormal columns nearest to the weights.
    departure : float
        Largest entry by which products of the weights differ from those of orthonormal columns.
    outside : float
        Largest part of the weights outside of the allowed directions, relative to their length.
    """

    basis: FloatArray
    departure: float
    outside: float


def _coordinates(table: TableWeights, axes: FloatArray) -> _Coordinates:
    """Express the weights of a table along the axes of the problem."""
    coordinates = np.linalg.lstsq(axes, table.rotations, rcond=None)[0]
    lengths = np.linalg.norm(table.rotations, axis=0)
    outside = np.linalg.norm(table.rotations - axes @ coordinates, axis=0)
    departure = np.abs(coordinates.T @ coordinates - np.eye(coordinates.shape[1])).max()
    left, _, right = np.linalg.svd(coordinates, full_matrices=False)
    return _Coordinates(
        basis=np.asarray(left @ right, dtype=np.float64),
        departure=float(departure),
        outside=float((outside / np.where(lengths > 0, lengths, 1.0)).max()),
    )


def _coordinate_failures(table: str, coordinates: _Coordinates, rotation: float) -> Iterator[str]:
    """Yield a message if weights are not orthonormal, or violate the restriction.

    Parameters
    ----------
    table : {"X", "Y"}
    coordinates : _Coordinates
    rotation : float
        Angle by which rounding may have rotated the directions of the problem.
    """
    allowed = ANGLE_TOL + _ROUNDING_FACTOR * rotation
    if not coordinates.departure <= allowed:
        yield f"The weights of {table} are not orthonormal: by {coordinates.departure:.1e}."
    if not coordinates.outside <= allowed:
        yield f"The weights of {table} leave the directions that the restriction allows."


def _statement_failures(pair: PairedSubspace) -> Iterator[str]:
    """Yield a message if the number of components is not that of both tables."""
    stated = pair.certificate.statement.n_components
    actual = {pair.x.rotations.shape[1], pair.y.rotations.shape[1]}
    if actual != {stated}:
        yield f"The model states {stated} components, and its tables have {sorted(actual)}."


def _figure_failures(
    pair: PairedSubspace,
    problem: PairedProblem,
    figures: PairedFigures,
    assessment: GapAssessment,
) -> Iterator[str]:
    """Yield a message for each figure of the certificate that differs from what was recomputed."""
    certificate = pair.certificate
    claimed = certificate.assessment
    resolution = _ROUNDING_FACTOR * assessment.resolution
    kept_rounding = _ROUNDING_FACTOR * (problem.kept_rounding + problem.best_rounding)
    comparisons = {
        "objective": Comparison(figures.objective, certificate.objective, resolution),
        "lower bound": Comparison(figures.lower_bound, certificate.lower_bound, resolution),
        "covariances kept": Comparison(figures.kept, certificate.figures.kept, kept_rounding),
        "best covariances": Comparison(figures.best, certificate.figures.best, kept_rounding),
    }
    for name, comparison in comparisons.items():
        recomputed = np.asarray(comparison.recomputed)
        differences = np.abs(np.asarray(comparison.claimed) - recomputed)
        if not np.all(differences <= comparison.tol + SUM_ROUNDING * np.abs(recomputed)):
            yield (
                f"The {name} of the model: {comparison.claimed}; recomputed: "
                f"{comparison.recomputed}."
            )
    if not math.isclose(claimed.scale, assessment.scale, rel_tol=LOOSE_TOL, abs_tol=resolution):
        yield f"The magnitude of the objective is {assessment.scale:.6g}, not {claimed.scale:.6g}."
    if not _is_near(claimed.resolution, assessment.resolution):
        yield (
            f"The model says a resolution of {claimed.resolution:.1e}; recomputed: "
            f"{assessment.resolution:.1e}."
        )
    allowed_tols = (claimed.tol * claimed.scale, claimed.resolution)
    if not any(math.isclose(claimed.absolute_tol, tol, rel_tol=LOOSE_TOL) for tol in allowed_tols):
        yield f"The absolute tolerance of the model is {claimed.absolute_tol:.6g}."
    if claimed.status is Status.OPTIMAL and assessment.status is not Status.OPTIMAL:
        yield f"The model says optimal; the recomputed status is {assessment.status}."
    # A gap near the tolerance may fall on either side, so a model may claim less than is proven.
    if claimed.status is Status.UNRESOLVED and assessment.status is Status.OPEN_GAP:
        yield "The model says unresolved; the recomputed gap is open."


def _is_near(first: float, second: float) -> bool:
    """Whether two rounding error bounds are of the same order of magnitude."""
    return first <= _ROUNDING_FACTOR * second and second <= _ROUNDING_FACTOR * first
