"""What is reached with each number of dimensions, and the walk that the slider of a page follows.

The walk goes along the frontier of two groups, or over the dimension. Of each step few components
and few features are kept, and its figures.
"""

from collections.abc import Sequence
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
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.text import display_name, format_count, format_share, to_ascii
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import DenseFoldMoments, FoldMoments
from fairspan.moments.operators import figure_roundings
from fairspan.pareto import Frontier, frontier_for_display
from fairspan.problem.problem import Problem, WarmStart
from fairspan.progress import track
from fairspan.rows.groups import Label
from fairspan.solvers.solve import AutoSolver
from fairspan.typing import FloatArray

PCA = "PCA"
INFEASIBLE = "no answer"
MAX_DIMENSIONS = 40
# Of many features, or of more than two groups, each dimension takes its time.
_MAX_FEATURES_FAST, _MAX_DIMENSIONS_SLOW = 300, 16
MAX_STEPS = 40
# Steps with errors this near, as a share of the total variance, are one.
_MERGE_TOL = 1e-7
MAX_COMPONENTS, MAX_FEATURES = 5, 20
# Corners of the region in a picture.
_MAX_VERTICES = 120
# Decimals of a loading, which is at most one; and digits that decide which are the largest.
_LOADING_DECIMALS, _RANKING_DECIMALS = 4, 9


@dataclass(frozen=True, eq=False)
class FittedCriterion:
    """What minimises a criterion.

    Attributes
    ----------
    name : str
        As the audit has it; different for each fit of a report.
    subspace : FairSubspace
    problem : Problem
        Without a restriction.
    """

    name: str
    subspace: FairSubspace
    problem: Problem

    @property
    def certificate(self) -> Certificate:
        """What proves how good the subspace is."""
        return self.subspace.require_certificate()


@dataclass(frozen=True, eq=False)
class DimensionResult:
    """What is reached with d components.

    Attributes
    ----------
    n_components : int
    best : (k,) array
        The least error that any subspace has on each group alone.
    plain : (k,) array
        Errors of ordinary PCA.
    fair : (k,) array
        Errors at the main criterion's answer; NaN if it has none.
    certificate : Certificate or None
        Of this answer.
    roundings : (k,) array
        Losses up to this size are none.
    expected : sequence of k GroupEstimates
        What new rows would show of each group under PCA; empty where that was not estimated.
    fair_estimates : sequence of k GroupEstimates
        The same under the main answer.
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
        """What each group loses under PCA."""
        return nonnegative(self.pca_errors - self.best_errors, self.roundings)

    @property
    def fair_losses(self) -> FloatArray:
        """What each group loses at the main criterion's answer; NaN if it has none."""
        return nonnegative(self.fair_errors - self.best_errors, self.roundings)


class SliderPoint(NamedTuple):
    """An answer on the way of the slider: its name, components, and figures of each group."""

    label: str
    components: FloatArray
    errors: FloatArray
    losses: FloatArray
    weights: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class SliderStep:
    """One position of the slider.

    Attributes
    ----------
    label : str
    n_components : int
    weights : (k,) array or None
        Of the mixture whose leading eigenvectors the components span.
    errors, losses, kept : (k,) arrays
    total_error : float
    loadings : (c, f) array
        Of the components and features that are shown.
    variances : (c,) array
        What these components have of the variance of all rows.
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
        reached: SliderPoint,
        components: FloatArray,
        problem: Problem,
        features: Sequence[int],
    ) -> "SliderStep":
        """An answer with the first of its components in their order, and some of the features."""
        shown, second = components[:MAX_COMPONENTS], problem.second_moments
        total = float(problem.proportions @ reached.errors)
        roundings = figure_roundings(second, reached.errors)
        with np.errstate(invalid="ignore", divide="ignore"):
            kept = np.where(second.traces > 0, 1.0 - reached.errors / second.traces, np.nan)
        captured = np.einsum("ip,gpi->gi", shown, second.apply(np.ascontiguousarray(shown.T)))
        return cls(
            reached.label,
            len(components),
            reached.weights,
            nonnegative(reached.errors, roundings),
            nonnegative(reached.losses, roundings),
            kept,
            total if (reached.errors > roundings).any() else 0.0,
            # Adding zero leaves no minus zero.
            shown[:, features].round(_LOADING_DECIMALS) + 0.0,
            problem.proportions @ captured,
        )


@dataclass(frozen=True, eq=False)
class ReportCurves:
    """Figures over the dimension, and the steps of the slider in order.

    Attributes
    ----------
    groups : sequence of k labels
    dimensions : tuple of DimensionResult
    frontier : Frontier or None
        Of two groups, along which the steps go; of others they go over the dimension.
    region : (r, 2) array or None
        Corners of what can be reached.
    steps : tuple of Step
    start : int
        The step of the main criterion's answer.
    plain : int or None
        That of ordinary PCA, if it is among them.
    features : tuple of int
        Positions of those whose loadings are shown.
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
        """Whether it is known what new rows would show under PCA."""
        return any(each.pca_estimates for each in self.dimensions)

    def to_dict(self, name: str, features: Sequence[str]) -> dict[str, Any]:
        """Plain values, with the names of the main answer and of all features."""
        frontier = self.frontier
        return {
            "by_dimension": self.records(name),
            "frontier": frontier
            and {
                "observed_errors": frontier.errors.tolist(),
                "region_here": None if self.region is None else self.region.tolist(),
                "max_deviation": frontier.max_deviation,
            },
            "steps": {
                "start": self.main_step,
                "plain": self.pca_step,
                "features": [features[i] for i in self.features],
                "points": [
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
        """One record a model, dimension and group, with the names of the records of an audit."""
        unknown = [GroupEstimates()] * len(self.groups)
        records = []
        for each in self.dimensions:
            status = INFEASIBLE if each.certificate is None else str(each.certificate.status)
            for model, errors, losses, expected, ended in (
                (PCA, each.pca_errors, each.pca_losses, each.pca_estimates, None),
                (name, each.fair_errors, each.fair_losses, each.fair_estimates, status),
            )[: 1 if name == PCA else 2]:
                records += [
                    {
                        "model": model,
                        "n_components": each.n_components,
                        "group": group,
                        "observed_error": none_if_nan(float(errors[g])),
                        "observed_best_error": float(each.best_errors[g]),
                        "observed_loss": none_if_nan(float(losses[g])),
                        **figures.expected_error.to_record("expected_error"),
                        **figures.expected_loss.to_record("expected_loss"),
                        "state": figures.state if expected else None,
                        "status": ended,
                    }
                    for g, (group, figures) in enumerate(
                        zip(self.groups, expected or unknown, strict=True)
                    )
                ]
        return records


def build_curves(
    moments: GroupMoments,
    audit: Audit,
    plain: FittedCriterion,
    main: FittedCriterion,
    folds: FoldMoments | None,
    center: Center,
) -> ReportCurves:
    """Solve for several dimensions and along the frontier, and align the steps of the slider."""
    pca = audit.models[0]
    expected = pca_estimates_by_dimension(pca, audit, folds)
    main_result = next(model for model in audit.models if model.name == main.name)
    dimensions = solve_by_dimension(plain.problem, main, expected)
    if expected and main_result.no_estimates_reason is None:
        dimensions = [
            replace(each, fair_estimates=main_result.groups)
            if each.n_components == pca.n_components
            else each
            for each in dimensions
        ]
    frontier = region = pca_step = None
    if moments.n_groups == 2:
        frontier = frontier_for_display(moments, pca.n_components, center, scale=pca.is_scaled)
        region = frontier.achievable_region()
        region = region[evenly_spaced(region, _MAX_VERTICES)]
        points, start, pca_step = frontier_steps(frontier, pca, plain, main)
    else:
        points = [
            SliderPoint(
                to_ascii(format_count(each.n_components, "dimension")),
                each.certificate.components,
                each.fair_errors,
                each.fair_losses,
            )
            for each in dimensions
            if each.certificate is not None
        ]
        sizes = [len(each.components) for each in points]
        start = sizes.index(pca.n_components) if pca.n_components in sizes else 0
    components = align_components([each.components for each in points], start)
    feature_indices = most_loaded_features([each[:MAX_COMPONENTS] for each in components])
    steps = (
        SliderStep.from_point(each, aligned_components, main.problem, feature_indices)
        for each, aligned_components in zip(points, components, strict=True)
    )
    return ReportCurves(
        moments.labels,
        tuple(dimensions),
        frontier,
        region,
        tuple(steps),
        start,
        pca_step,
        tuple(feature_indices),
    )


def pca_estimates_by_dimension(
    pca: ModelResult, audit: Audit, folds: FoldMoments | None
) -> dict[int, Sequence[GroupEstimates]]:
    """What new rows would show under PCA, by number of dimensions; nothing if that is not known.

    Estimates come from moments by fold, and intervals from how folds differ. At the dimension that
    was requested the figures are those of the audit of the rows, whose intervals are narrower.
    """
    if not isinstance(folds, DenseFoldMoments) or not pca.has_estimates:
        return {}
    audited_dimensions = _select_dimensions(
        folds.total.n_features, folds.total.n_groups, pca.n_components
    )
    dimensions = select_estimated(audited_dimensions, pca.n_components)
    models = pca_by_dimension(folds.total, dimensions, pca.center, scale=pca.is_scaled)
    options = replace(DEFAULT_OPTIONS, level=audit.level, materiality=audit.materiality)
    expected = [each.groups for each in estimate_from_folds(models, folds, options)]
    return {**dict(zip(dimensions, expected, strict=True)), pca.n_components: pca.groups}


def _select_dimensions(n_features: int, n_groups: int, asked: int) -> list[int]:
    """40 at most, 16 of three groups or more, the requested one among them."""
    is_quick = n_groups <= 2 and n_features <= _MAX_FEATURES_FAST
    return select_dimensions(
        n_features, asked, MAX_DIMENSIONS if is_quick else _MAX_DIMENSIONS_SLOW
    )


def solve_by_dimension(
    plain: Problem,
    main: FittedCriterion,
    expected: dict[int, Sequence[GroupEstimates]],
) -> list[DimensionResult]:
    """Solve for each number of dimensions."""
    aligned_components, asked = main.certificate, main.certificate.n_components
    dimensions = _select_dimensions(plain.n_features, plain.n_groups, asked)
    found, previous = list[DimensionResult](), None
    for d in track("comparing numbers of dimensions", dimensions, "dimensions"):
        problem = replace(main.problem, n_components=d)
        if previous is not None:
            problem = replace(problem, warm_start=WarmStart(previous.weights))
        solution = aligned_components if d == asked else _solve_or_none(problem)
        previous = solution or previous
        pca_basis = replace(plain, n_components=d).pooled_optimum.vectors
        errors = problem.errors(pca_basis)
        roundings = figure_roundings(problem.second_moments, errors)
        fair_errors = np.full(len(problem.group_labels), np.nan)
        if solution is not None:
            fair_errors = problem.errors(solution.components.T)
        found.append(
            DimensionResult(
                d,
                nonnegative(problem.best_errors, roundings),
                nonnegative(errors, roundings),
                nonnegative(fair_errors, roundings),
                solution,
                roundings,
                expected.get(d, ()),
            )
        )
    return found


def _solve_or_none(problem: Problem) -> Certificate | None:
    """The answer; None if there is none, such as equal errors that are out of reach."""
    try:
        return AutoSolver().solve(problem, CURVE_TOL)
    except IncompatibleParameters:
        return None


def nonnegative(values: FloatArray, roundings: FloatArray) -> FloatArray:
    """Return figures that cannot be negative, with zero for what is only rounding."""
    return np.where(values <= roundings, 0.0, values)


def frontier_steps(
    frontier: Frontier, pca: ModelResult, plain: FittedCriterion, main: FittedCriterion
) -> tuple[list[SliderPoint], int, int]:
    """From the optimum of the first group to that of the second, PCA and the answer on the way."""
    best = np.array([frontier.errors[0, 0], frontier.errors[-1, 1]])
    groups = [display_name(format_group(label)) for label in frontier.groups]

    def step(
        label: str, components: FloatArray, errors: FloatArray, weights: Any = None
    ) -> SliderPoint:
        return SliderPoint(label, components, errors, errors - best, weights)

    errors = np.array([group.observed_error.value for group in pca.groups])
    fixed_points = [step(plain.name, plain.certificate.components, errors)]
    if main is not plain:
        fixed_points.append(step(main.name, main.certificate.components, main.certificate.errors))
    merge_distance = _MERGE_TOL * main.problem.total_variance
    if (
        len(fixed_points) == 2
        and np.abs(fixed_points[0].errors - fixed_points[1].errors).max() <= merge_distance
    ):
        fixed_points = [fixed_points[1]._replace(label=f"{plain.name}, {main.name}")]
    others = [
        step(_weights_label(frontier.weights[i], groups), frontier.subspace(i).components, *both)
        for i in evenly_spaced(frontier.errors, MAX_STEPS - len(fixed_points))
        for both in [(frontier.errors[i], frontier.weights[i])]
        if all(np.abs(both[0] - each.errors).max() > merge_distance for each in fixed_points)
    ]
    # Along the curve, and past its ends, the first error rises beside the second one.
    steps = sorted(
        [*fixed_points, *others], key=lambda each: float(each.errors[0] - each.errors[1])
    )
    places = [
        next(i for i, step in enumerate(steps) if step is each)
        for each in (fixed_points[-1], fixed_points[0])
    ]
    return steps, places[0], places[1]


def _weights_label(weights: FloatArray, groups: Sequence[str]) -> str:
    pca_step, second = (to_ascii(format_share(each)) for each in weights.tolist())
    return f"weight {pca_step} on {groups[0]}, {second} on {groups[1]}"


def evenly_spaced(points: FloatArray, max_count: int) -> list[int]:
    """Positions of points that are spread evenly along a curve, both ends among them.

    Examples
    --------
    >>> evenly_spaced(np.array([[0.0, 4], [1, 3], [1.1, 2.9], [2, 2], [4, 0]]), 3)
    [0, 3, 4]
    """
    if len(points) <= max_count:
        return list(range(len(points)))
    size = np.ptp(points, axis=0)
    segment_lengths = np.linalg.norm(
        np.diff(points, axis=0) / np.where(size > 0, size, 1.0), axis=1
    )
    arc_length = np.concatenate([[0.0], np.cumsum(segment_lengths)])
    targets = np.linspace(0.0, arc_length[-1], max_count)
    return sorted(set(np.abs(arc_length[:, None] - targets).argmin(axis=0).tolist()))


def align_components(components: Sequence[FloatArray], start: int) -> list[FloatArray]:
    """The components of each step, in the order and with the signs of its neighbour's.

    From the start outwards: eigenvectors have no signs of their own, and change places where their
    variances cross.
    """
    aligned = list(components)
    for i in range(start + 1, len(aligned)):
        aligned[i] = _match(aligned[i - 1], aligned[i])
    for i in range(start - 1, -1, -1):
        aligned[i] = _match(aligned[i + 1], aligned[i])
    return aligned


def _match(neighbor: FloatArray, components: FloatArray) -> FloatArray:
    """Each of the neighbour's in turn gets the one, of those that are left, that is most alike."""
    agreement, order = neighbor @ components.T, list[int]()
    for row in np.abs(agreement[: len(components)]):
        order.append(max(set(range(len(components))) - set(order), key=lambda i: (row[i], -i)))
    signs = np.where(agreement[range(len(order)), order] < 0, -1.0, 1.0)
    left = [i for i in range(len(components)) if i not in order]
    return np.vstack([components[order] * signs[:, None], components[left]])


def most_loaded_features(components: Sequence[FloatArray]) -> list[int]:
    """The features with the largest loadings anywhere on the walk, in their own order.

    Examples
    --------
    >>> most_loaded_features([np.array([[0.8, 0.0, 0.6]])])
    [0, 1, 2]
    """
    largest = np.max([np.abs(each).max(axis=0) for each in components], axis=0).round(
        _RANKING_DECIMALS
    )
    return sorted(np.argsort(-largest, kind="stable")[:MAX_FEATURES].tolist())
