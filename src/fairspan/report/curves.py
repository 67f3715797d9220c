"""Results by number of dimensions, and the steps of the report's slider.

The slider moves along the frontier of two groups, or over the number of dimensions. Each step
stores its figures and the loadings of a few components and features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairspan.auditing.audit import Audit
from fairspan.auditing.evaluation import estimate_from_folds
from fairspan.auditing.expected_losses import DEFAULT_OPTIONS, GroupEstimates, none_if_nan
from fairspan.auditing.models import (
    CURVE_TOL,
    pca_by_dimension,
    select_dimensions,
    select_estimated,
)
from fairspan.auditing.results import ModelResult, format_group
from fairspan.certificates.certificate import Certificate
from fairspan.displays.base import INFEASIBLE
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.names import display_name
from fairspan.formatting.numbers import format_count, format_share, to_ascii
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import DenseFoldMoments, FoldMoments
from fairspan.moments.operators import figure_roundings
from fairspan.pareto import Frontier, frontier_for_display
from fairspan.problem.problem import Problem, WarmStart
from fairspan.progress import track
from fairspan.rows.labels import Label
from fairspan.solvers.auto import AutoSolver
from fairspan.typing import FloatArray

PCA = "PCA"
# Number of dimensions that are fitted; as many points as a figure can show apart.
MAX_DIMENSIONS = 40
# With more features, or with more than two groups, each dimension is slow, so fewer are fitted.
_MAX_FEATURES_FAST = 300
_MAX_DIMENSIONS_SLOW = 16
# Number of slider steps; all of them are stored in the page.
MAX_STEPS = 40
# Steps whose errors differ by less than this share of the total variance are merged.
_MERGE_TOL = 1e-7
# Components and features whose loadings a page shows; a table of 5 x 20 cells fits on a screen.
MAX_COMPONENTS = 5
MAX_FEATURES = 20
# Maximum number of vertices of the achievable region; more cannot be distinguished in a figure.
_MAX_VERTICES = 120
# Decimals of the stored loadings, which are at most one.
_LOADING_DECIMALS = 4
# Decimals used to rank features, so that rounding errors do not decide between equal loadings.
_RANKING_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class FittedCriterion:
    """The minimizer of a criterion.

    Attributes
    ----------
    name : str
        Name in the audit; unique within a report.
    subspace : FairSubspace
    problem : Problem
        The unrestricted problem.
    """

    name: str
    subspace: FairSubspace
    problem: Problem

    @property
    def certificate(self) -> Certificate:
        """Certificate of the subspace."""
        return self.subspace.require_certificate()


@dataclass(frozen=True, eq=False)
class DimensionResult:
    """Results with d components.

    Attributes
    ----------
    n_components : int
    best_errors : (k,) array
        Best error of each group.
    pca_errors : (k,) array
        Errors of ordinary PCA.
    fair_errors : (k,) array
        Errors of the main criterion's solution; NaN if infeasible.
    certificate : Certificate or None
        Certificate of this solution.
    roundings : (k,) array
        Rounding error bounds: smaller losses are set to zero.
    pca_estimates : sequence of k GroupEstimates
        Estimates for new rows under PCA; empty if not estimated.
    fair_estimates : sequence of k GroupEstimates
        Estimates for new rows under the main criterion's solution.
    """

    n_components: int
    best_errors: FloatArray
    pca_errors: FloatArray
    fair_errors: FloatArray
    certificate: Certificate | None
    roundings: FloatArray
    pca_estimates: Sequence[GroupEstimates] = ()
    fair_estimates: Sequence[GroupEstimates] = ()

    @property
    def pca_losses(self) -> FloatArray:
        """Losses under PCA."""
        return clip_negligible(self.pca_errors - self.best_errors, self.roundings)

    @property
    def fair_losses(self) -> FloatArray:
        """Losses of the main criterion's solution; NaN if infeasible."""
        return clip_negligible(self.fair_errors - self.best_errors, self.roundings)


class SliderPoint(NamedTuple):
    """A point on the slider's path: label, components, and errors and losses of the groups."""

    label: str
    components: FloatArray
    errors: FloatArray
    losses: FloatArray
    weights: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class SliderStep:
    """One step of the slider.

    Attributes
    ----------
    label : str
    n_components : int
    weights : (k,) array or None
        Weights of the mixture whose leading eigenvectors span the subspace.
    errors, losses, variance_kept : (k,) arrays
    total_error : float
    loadings : (c, f) array
        Loadings of the components and features shown.
    variances : (c,) array
        Variance of all rows along these components.
    """

    label: str
    n_components: int
    weights: FloatArray | None
    errors: FloatArray
    losses: FloatArray
    variance_kept: FloatArray
    total_error: float
    loadings: FloatArray
    variances: FloatArray

    @classmethod
    def from_point(
        cls,
        point: SliderPoint,
        components: FloatArray,
        problem: Problem,
        features: Sequence[int],
    ) -> "SliderStep":
        """Create a step from a point with aligned components.

        Keeps the loadings of the first components and of the selected features.
        """
        shown = components[:MAX_COMPONENTS]
        second_moments = problem.second_moments
        traces = second_moments.traces
        roundings = figure_roundings(second_moments, point.errors)
        has_error = (point.errors > roundings).any()
        with np.errstate(invalid="ignore", divide="ignore"):
            variance_kept = np.where(traces > 0, 1.0 - point.errors / traces, np.nan)
        images = second_moments.apply(np.ascontiguousarray(shown.T))
        captured = np.einsum("ip,gpi->gi", shown, images)
        return cls(
            label=point.label,
            n_components=len(components),
            weights=point.weights,
            errors=clip_negligible(point.errors, roundings),
            losses=clip_negligible(point.losses, roundings),
            variance_kept=variance_kept,
            total_error=float(problem.proportions @ point.errors) if has_error else 0.0,
            # Adding zero turns -0.0 into 0.0.
            loadings=shown[:, features].round(_LOADING_DECIMALS) + 0.0,
            variances=problem.proportions @ captured,
        )


@dataclass(frozen=True, eq=False)
class ReportCurves:
    """Results by dimension, and the ordered steps of the slider.

    Attributes
    ----------
    groups : sequence of k labels
    dimensions : tuple of DimensionResult
    frontier : Frontier or None
        Frontier of two groups, which the slider follows; None otherwise, and the slider runs over
        dimensions.
    region : (r, 2) array or None
        Vertices of the achievable region.
    steps : tuple of SliderStep
    main_step : int
        Index of the main criterion's step.
    pca_step : int or None
        Index of ordinary PCA's step, if there is one.
    features : tuple of int
        Indices of the features whose loadings are shown.
    """

    groups: Sequence[Label]
    dimensions: tuple[DimensionResult, ...]
    frontier: Frontier | None
    region: FloatArray | None
    steps: tuple[SliderStep, ...]
    main_step: int
    pca_step: int | None
    features: tuple[int, ...]

    @property
    def has_estimates(self) -> bool:
        """Whether any dimension has estimates for new rows under PCA."""
        return any(result.pca_estimates for result in self.dimensions)

    def to_dict(self, name: str, features: Sequence[str]) -> dict[str, Any]:
        """Return JSON-serializable values.

        Parameters
        ----------
        name : str
            Name of the main model.
        features : sequence of p str
            Names of all features.
        """
        frontier = None
        if self.frontier is not None:
            frontier = {
                "observed_errors": self.frontier.errors.tolist(),
                "observed_region": None if self.region is None else self.region.tolist(),
                "max_deviation": self.frontier.max_deviation,
            }
        return {
            "by_dimension": self.records(name),
            "frontier": frontier,
            "slider": {
                "main_step": self.main_step,
                "pca_step": self.pca_step,
                "features": [features[i] for i in self.features],
                "steps": [
                    {
                        "label": step.label,
                        "n_components": step.n_components,
                        "weights": None if step.weights is None else step.weights.tolist(),
                        "observed_errors": step.errors.tolist(),
                        "observed_losses": step.losses.tolist(),
                        "observed_variance_kept": step.variance_kept.tolist(),
                        "observed_total_error": step.total_error,
                        "components": step.loadings.tolist(),
                        "observed_variances": step.variances.tolist(),
                    }
                    for step in self.steps
                ],
            },
        }

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return one record per model, dimension and group, with the keys of audit records."""
        no_estimates = [GroupEstimates()] * len(self.groups)
        records = []
        for result in self.dimensions:
            status = INFEASIBLE if result.certificate is None else str(result.certificate.status)
            models: list[tuple[str, FloatArray, FloatArray, Sequence[GroupEstimates], str | None]]
            models = [(PCA, result.pca_errors, result.pca_losses, result.pca_estimates, None)]
            if name != PCA:
                models.append(
                    (name, result.fair_errors, result.fair_losses, result.fair_estimates, status)
                )
            for model, errors, losses, estimates, fit_status in models:
                records += [
                    {
                        "model": model,
                        "n_components": result.n_components,
                        "group": group,
                        "observed_error": none_if_nan(float(errors[g])),
                        "observed_best_error": float(result.best_errors[g]),
                        "observed_loss": none_if_nan(float(losses[g])),
                        **group_estimates.expected_error.to_record("expected_error"),
                        **group_estimates.expected_loss.to_record("expected_loss"),
                        "state": group_estimates.state if estimates else None,
                        "status": fit_status,
                    }
                    for g, (group, group_estimates) in enumerate(
                        zip(self.groups, estimates or no_estimates, strict=True)
                    )
                ]
        return records


class _SliderPath(NamedTuple):
    """Points of the slider, and the indices of the main model and of ordinary PCA among them."""

    points: list[SliderPoint]
    main_step: int
    pca_step: int | None


def build_curves(
    moments: GroupMoments,
    audit: Audit,
    pca_fit: FittedCriterion,
    main: FittedCriterion,
    folds: FoldMoments | None,
    center: Center,
) -> ReportCurves:
    """Solve for several dimensions and along the frontier, and align the slider's components."""
    pca = audit.models[0]
    estimates = pca_estimates_by_dimension(pca, audit, folds)
    main_result = next(model for model in audit.models if model.name == main.name)
    dimensions = solve_by_dimension(pca_fit.problem, main, estimates)
    if estimates and main_result.no_estimates_reason is None:
        dimensions = [
            replace(result, fair_estimates=main_result.groups)
            if result.n_components == pca.n_components
            else result
            for result in dimensions
        ]
    frontier = None
    region = None
    if moments.n_groups == 2:
        frontier = frontier_for_display(moments, pca.n_components, center, scale=pca.is_scaled)
        region = frontier.achievable_region()
        region = region[evenly_spaced(region, _MAX_VERTICES)]
        path = frontier_path(frontier, pca, pca_fit, main)
    else:
        path = _dimension_path(dimensions, pca.n_components)
    components = align_components([point.components for point in path.points], path.main_step)
    features = most_loaded_features([aligned[:MAX_COMPONENTS] for aligned in components])
    steps = tuple(
        SliderStep.from_point(point, aligned, main.problem, features)
        for point, aligned in zip(path.points, components, strict=True)
    )
    return ReportCurves(
        groups=moments.labels,
        dimensions=tuple(dimensions),
        frontier=frontier,
        region=region,
        steps=steps,
        main_step=path.main_step,
        pca_step=path.pca_step,
        features=tuple(features),
    )


def pca_estimates_by_dimension(
    pca: ModelResult, audit: Audit, folds: FoldMoments | None
) -> dict[int, Sequence[GroupEstimates]]:
    """Estimates for new rows under PCA by number of dimensions; empty if unavailable.

    Estimates come from moments by fold, and intervals from the variation between folds. At the
    requested dimension, the narrower intervals of the row audit are used.
    """
    if not isinstance(folds, DenseFoldMoments) or not pca.has_estimates:
        return {}
    audited_dimensions = _select_dimensions(
        folds.total.n_features, folds.total.n_groups, pca.n_components
    )
    dimensions = select_estimated(audited_dimensions, pca.n_components)
    models = pca_by_dimension(folds.total, dimensions, pca.center, scale=pca.is_scaled)
    options = replace(DEFAULT_OPTIONS, level=audit.level, materiality=audit.materiality)
    estimates = [result.groups for result in estimate_from_folds(models, folds, options)]
    return {**dict(zip(dimensions, estimates, strict=True)), pca.n_components: pca.groups}


def _select_dimensions(n_features: int, n_groups: int, requested: int) -> list[int]:
    """Select at most 40 dimensions, or 16 if they are slow, including the requested one."""
    is_fast = n_groups <= 2 and n_features <= _MAX_FEATURES_FAST
    max_dimensions = MAX_DIMENSIONS if is_fast else _MAX_DIMENSIONS_SLOW
    return select_dimensions(n_features, requested, max_dimensions)


def solve_by_dimension(
    pca_problem: Problem,
    main: FittedCriterion,
    estimates: dict[int, Sequence[GroupEstimates]],
) -> list[DimensionResult]:
    """Solve for each number of dimensions."""
    requested = main.certificate.n_components
    dimensions = _select_dimensions(pca_problem.n_features, pca_problem.n_groups, requested)
    results = []
    previous = None
    for d in track("comparing numbers of dimensions", dimensions, "dimensions"):
        problem = replace(main.problem, n_components=d)
        if previous is not None:
            problem = replace(problem, warm_start=WarmStart(previous.weights))
        solution = main.certificate if d == requested else _solve_or_none(problem)
        fair_errors = np.full(len(problem.group_labels), np.nan)
        if solution is not None:
            fair_errors = problem.errors(solution.components.T)
            previous = solution
        pca_basis = replace(pca_problem, n_components=d).pooled_optimum.vectors
        pca_errors = problem.errors(pca_basis)
        roundings = figure_roundings(problem.second_moments, pca_errors)
        results.append(
            DimensionResult(
                n_components=d,
                best_errors=clip_negligible(problem.best_errors, roundings),
                pca_errors=clip_negligible(pca_errors, roundings),
                fair_errors=clip_negligible(fair_errors, roundings),
                certificate=solution,
                roundings=roundings,
                pca_estimates=estimates.get(d, ()),
            )
        )
    return results


def _solve_or_none(problem: Problem) -> Certificate | None:
    """Solve the problem; None if it is infeasible, as when equal errors cannot be achieved."""
    try:
        return AutoSolver().solve(problem, CURVE_TOL)
    except IncompatibleParameters:
        return None


def clip_negligible(values: FloatArray, roundings: FloatArray) -> FloatArray:
    """Set values that are negative or within their rounding error bound to zero."""
    return np.where(values <= roundings, 0.0, values)


def _dimension_path(dimensions: Sequence[DimensionResult], requested: int) -> _SliderPath:
    """Return the main criterion's solutions by number of dimensions."""
    points = [
        SliderPoint(
            to_ascii(format_count(result.n_components, "dimension")),
            result.certificate.components,
            result.fair_errors,
            result.fair_losses,
        )
        for result in dimensions
        if result.certificate is not None
    ]
    sizes = [len(point.components) for point in points]
    main_step = sizes.index(requested) if requested in sizes else 0
    return _SliderPath(points, main_step, None)


def frontier_path(
    frontier: Frontier, pca: ModelResult, pca_fit: FittedCriterion, main: FittedCriterion
) -> _SliderPath:
    """Return points along the frontier, from the first group's optimum to the second group's.

    Ordinary PCA and the main solution are among them.
    """
    best = np.array([frontier.errors[0, 0], frontier.errors[-1, 1]])
    groups = [display_name(format_group(label)) for label in frontier.groups]

    def point_at(
        label: str, components: FloatArray, errors: FloatArray, weights: FloatArray | None = None
    ) -> SliderPoint:
        return SliderPoint(label, components, errors, errors - best, weights)

    pca_errors = np.array([group.observed_error.value for group in pca.groups])
    pca_point = point_at(pca_fit.name, pca_fit.certificate.components, pca_errors)
    main_point = pca_point
    if main is not pca_fit:
        main_point = point_at(main.name, main.certificate.components, main.certificate.errors)
        merge_distance = _MERGE_TOL * main.problem.total_variance
        if np.abs(pca_errors - main_point.errors).max() <= merge_distance:
            main_point = main_point._replace(label=f"{pca_fit.name}, {main.name}")
            pca_point = main_point
    fixed_points = [pca_point] if pca_point is main_point else [pca_point, main_point]
    points = [
        *fixed_points,
        *_points_between(frontier, groups, fixed_points, main.problem.total_variance, point_at),
    ]
    # Along the frontier, and beyond its ends, the difference of the errors increases.
    points.sort(key=lambda point: float(point.errors[0] - point.errors[1]))
    main_step = next(i for i, point in enumerate(points) if point is main_point)
    pca_step = next(i for i, point in enumerate(points) if point is pca_point)
    return _SliderPath(points, main_step, pca_step)


def _points_between(
    frontier: Frontier,
    groups: Sequence[str],
    fixed_points: Sequence[SliderPoint],
    total_variance: float,
    point_at: Callable[..., SliderPoint],
) -> list[SliderPoint]:
    """Return evenly spaced vertices of the frontier that do not coincide with fixed points."""
    merge_distance = _MERGE_TOL * total_variance
    points = []
    for i in evenly_spaced(frontier.errors, MAX_STEPS - len(fixed_points)):
        errors = frontier.errors[i]
        weights = frontier.weights[i]
        distances = [np.abs(errors - point.errors).max() for point in fixed_points]
        if min(distances) > merge_distance:
            label = _weights_label(weights, groups)
            points.append(point_at(label, frontier.subspace(i).components, errors, weights))
    return points


def _weights_label(weights: FloatArray, groups: Sequence[str]) -> str:
    first, second = (to_ascii(format_share(weight)) for weight in weights.tolist())
    return f"weight {first} on {groups[0]}, {second} on {groups[1]}"


def evenly_spaced(points: FloatArray, max_count: int) -> list[int]:
    """Return indices of points evenly spaced along a curve, including both ends.

    Examples
    --------
    >>> evenly_spaced(np.array([[0.0, 4], [1, 3], [1.1, 2.9], [2, 2], [4, 0]]), 3)
    [0, 3, 4]
    """
    if len(points) <= max_count:
        return list(range(len(points)))
    extent = np.ptp(points, axis=0)
    segments = np.diff(points, axis=0) / np.where(extent > 0, extent, 1.0)
    segment_lengths = np.linalg.norm(segments, axis=1)
    arc_length = np.concatenate([[0.0], np.cumsum(segment_lengths)])
    targets = np.linspace(0.0, arc_length[-1], max_count)
    return sorted(set(np.abs(arc_length[:, None] - targets).argmin(axis=0).tolist()))


def align_components(components: Sequence[FloatArray], start: int) -> list[FloatArray]:
    """Order and sign the components of each step to match its neighbor, starting from `start`.

    Eigenvectors have arbitrary signs, and swap where eigenvalues cross.
    """
    aligned = list(components)
    for i in range(start + 1, len(aligned)):
        aligned[i] = _match(aligned[i - 1], aligned[i])
    for i in range(start - 1, -1, -1):
        aligned[i] = _match(aligned[i + 1], aligned[i])
    return aligned


def _match(neighbor: FloatArray, components: FloatArray) -> FloatArray:
    """Greedily match each component of the neighbor with the most similar remaining component."""
    agreement = neighbor @ components.T
    order: list[int] = []
    for similarities in np.abs(agreement[: len(components)]):
        remaining = set(range(len(components))) - set(order)
        order.append(max(remaining, key=lambda i: (similarities[i], -i)))
    signs = np.where(agreement[range(len(order)), order] < 0, -1.0, 1.0)
    unmatched = [i for i in range(len(components)) if i not in order]
    return np.vstack([components[order] * signs[:, None], components[unmatched]])


def most_loaded_features(components: Sequence[FloatArray]) -> list[int]:
    """Return the features with the largest loadings in any step, in feature order.

    Examples
    --------
    >>> most_loaded_features([np.array([[0.8, 0.0, 0.6]])])
    [0, 1, 2]
    """
    largest = np.max([np.abs(loadings).max(axis=0) for loadings in components], axis=0)
    largest = largest.round(_RANKING_DECIMALS)
    return sorted(np.argsort(-largest, kind="stable")[:MAX_FEATURES].tolist())
