"""Steps of the report's slider, along the frontier of two groups or over the dimensions.

Each step stores its figures and the loadings of a few components and features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairspan.auditing.group_names import format_group
from fairspan.auditing.results import ModelResult
from fairspan.formatting.names import display_name
from fairspan.formatting.numbers import format_count, format_share, to_ascii
from fairspan.moments.second_moments import figure_roundings
from fairspan.pareto import Frontier
from fairspan.problem.problem import Problem
from fairspan.report.dimensions import DimensionResult, clip_negligible
from fairspan.report.fitted_criterion import FittedCriterion
from fairspan.typing import FloatArray, Record

# Number of slider steps; all of them are stored in the page.
MAX_STEPS = 40
# Steps whose errors differ by less than this share of the total variance are merged.
_MERGE_TOL = 1e-7
# Components and features whose loadings a page shows; a table of 5 x 20 cells fits on a screen.
MAX_COMPONENTS = 5
MAX_FEATURES = 20
# Decimals of the stored loadings, which are at most one.
_LOADING_DECIMALS = 4
# Decimals used to rank features, so that rounding errors do not decide between equal loadings.
_RANKING_DECIMALS = 9


class SliderPoint(NamedTuple):
    """A point on the slider's path.

    Attributes
    ----------
    label : str
    components : (d, p) array
    errors, losses : (k,) arrays
        Errors of the groups, and their losses over the groups' best errors.
    weights : (2,) array or None
        Weights of the two groups at a point of the frontier.
    """

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
        """Create a step from a point.

        Parameters
        ----------
        point : SliderPoint
        components : (d, p) array
            Components of the point, in the order and with the signs of the neighboring steps.
        problem : Problem
            Problem with the second moments from which the errors come, and the groups' proportions
            of the rows.
        features : sequence of int
            Features whose loadings are kept, of the first `MAX_COMPONENTS` components.

        Returns
        -------
        SliderStep
            Errors and losses within their rounding error bounds are zero.
        """
        shown = components[:MAX_COMPONENTS]
        second_moments = problem.second_moments
        traces = second_moments.traces
        # Rounding error bound of each group's error. If no error exceeds its bound, the total error
        # is zero, too.
        roundings = figure_roundings(second_moments, point.errors)
        has_error = (point.errors > roundings).any()
        with np.errstate(invalid="ignore", divide="ignore"):
            variance_kept = np.where(traces > 0, 1.0 - point.errors / traces, np.nan)
        # With v_i the i-th component shown and S_g the second moments of group g, images[g] holds
        # the columns S_g v_i, and captured[g, i] = v_i' S_g v_i is the variance of the group along
        # v_i.
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

    def to_dict(self) -> Record:
        """Return JSON-serializable values."""
        return {
            "label": self.label,
            "n_components": self.n_components,
            "weights": None if self.weights is None else self.weights.tolist(),
            "observed_errors": self.errors.tolist(),
            "observed_losses": self.losses.tolist(),
            "observed_variance_kept": self.variance_kept.tolist(),
            "observed_total_error": self.total_error,
            "components": self.loadings.tolist(),
            "observed_variances": self.variances.tolist(),
        }


class SliderPath(NamedTuple):
    """Points of the slider, and the indices of the main model and of ordinary PCA among them."""

    points: list[SliderPoint]
    main_step: int
    pca_step: int | None


def dimension_path(dimensions: Sequence[DimensionResult], requested: int) -> SliderPath:
    """Return the main criterion's solutions by number of dimensions, omitting infeasible ones.

    The main step is the solution with the requested number of dimensions, or the first solution if
    that one is missing. PCA has no step of its own. Without a certificate, a dimension is
    infeasible.
    """
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
    main_step = 0
    if requested in sizes:
        main_step = sizes.index(requested)
    return SliderPath(points, main_step, pca_step=None)


def frontier_path(
    frontier: Frontier, pca: ModelResult, pca_fit: FittedCriterion, main: FittedCriterion
) -> SliderPath:
    """Return points along the frontier, from the first group's optimum to the second group's.

    Ordinary PCA and the main solution are among them; they are one point if their errors agree.
    """
    # Smallest error of each group, at its end of the frontier. Its loss is its error minus this.
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
    fixed_points = [pca_point]
    if main_point is not pca_point:
        fixed_points.append(main_point)
    points = [
        *fixed_points,
        *_points_between(frontier, groups, fixed_points, main.problem.total_variance, point_at),
    ]
    # Along the frontier, and beyond its ends, the difference of the errors increases.
    points.sort(key=lambda point: float(point.errors[0] - point.errors[1]))
    main_step = next(i for i, point in enumerate(points) if point is main_point)
    pca_step = next(i for i, point in enumerate(points) if point is pca_point)
    return SliderPath(points, main_step, pca_step)


def _points_between(
    frontier: Frontier,
    groups: Sequence[str],
    fixed_points: Sequence[SliderPoint],
    total_variance: float,
    point_at: Callable[..., SliderPoint],
) -> list[SliderPoint]:
    """Return evenly spaced vertices of the frontier that do not coincide with fixed points.

    With the fixed points, they are at most `MAX_STEPS`.

    Parameters
    ----------
    frontier : Frontier
    groups : sequence of 2 str
        Names of the groups.
    fixed_points : sequence of SliderPoint
        Points of ordinary PCA and the main solution, for which steps are reserved.
    total_variance : float
        Variance of all rows; errors that differ by a tiny share of it coincide.
    point_at : callable
        Creates a point from its label, components, errors and the weights of the two groups.
    """
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
    """Return increasing indices of points evenly spaced along a curve, including both ends.

    At most `max_count` points of the curve, an (n, c) array, are selected: those nearest to evenly
    spaced lengths of arc, with each coordinate scaled to the range [0, 1].

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
    # Several targets may have the same nearest point, so there may be fewer points.
    targets = np.linspace(0.0, arc_length[-1], max_count)
    return sorted(set(np.abs(arc_length[:, None] - targets).argmin(axis=0).tolist()))


def align_components(components: Sequence[FloatArray], start: int) -> list[FloatArray]:
    """Order and sign the components of each step to match its neighbor, starting from `start`.

    Eigenvectors have arbitrary signs, and swap where eigenvalues cross. Without this, loadings
    would jump when the slider moves.

    Parameters
    ----------
    components : sequence of (d, p) arrays
        Orthonormal components of each step; d may differ.
    start : int
        Step whose components remain unchanged.
    """
    aligned = list(components)
    for i in range(start + 1, len(aligned)):
        aligned[i] = _match(aligned[i - 1], aligned[i])
    for i in range(start - 1, -1, -1):
        aligned[i] = _match(aligned[i + 1], aligned[i])
    return aligned


def _match(neighbor: FloatArray, components: FloatArray) -> FloatArray:
    """Greedily match each component of the neighbor with the most similar remaining component.

    Returns the components, (d, p), in the order of the neighbor's and with signs that make the
    inner products nonnegative; components without a counterpart are last.
    """
    # Inner products of unit vectors, at most as many rows as there are components to assign.
    agreement = neighbor @ components.T
    order: list[int] = []
    for similarities in np.abs(agreement[: len(components)]):
        remaining = set(range(len(components))) - set(order)
        # Of equally similar components, take the first.
        order.append(max(remaining, key=lambda i: (similarities[i], -i)))
    signs = np.where(agreement[range(len(order)), order] < 0, -1.0, 1.0)
    unmatched = [i for i in range(len(components)) if i not in order]
    return np.vstack([components[order] * signs[:, None], components[unmatched]])


def most_loaded_features(components: Sequence[FloatArray]) -> list[int]:
    """Return the at most 20 features with the largest absolute loadings in any step, in order.

    They are indices, in increasing order. `components` are the components of each step, (d, p)
    arrays.

    Examples
    --------
    >>> most_loaded_features([np.array([[0.8, 0.0, 0.6]])])
    [0, 1, 2]
    """
    largest = np.max([np.abs(loadings).max(axis=0) for loadings in components], axis=0)
    largest = largest.round(_RANKING_DECIMALS)
    return sorted(np.argsort(-largest, kind="stable")[:MAX_FEATURES].tolist())
