"""What is reached with each number of dimensions, and the walk that the slider of a page follows.

The walk goes along the frontier of two groups, or over the dimension. Of each step few components
and few features are kept, and its figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairspan.auditing.audit import Audit
from fairspan.auditing.expected_losses import USUAL, ExpectedFigures, known
from fairspan.auditing.judging import expected_in_folds
from fairspan.auditing.models import (
    TOLERANCE_OF_CURVES,
    chosen_dimensions,
    estimated_of,
    pca_by_dimension,
)
from fairspan.auditing.results import ModelResult, group_name
from fairspan.certificates.certificate import Certificate
from fairspan.errors import Incompatible
from fairspan.formatting.text import called, count, in_ascii, share
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments, SummedFolds
from fairspan.moments.operators import figure_roundings
from fairspan.problem.problem import Problem, WarmStart
from fairspan.progress import track
from fairspan.rows.groups import Label
from fairspan.solvers.solve import Auto
from fairspan.trade_off import Frontier, frontier_to_look_at
from fairspan.typing import FloatArray

PCA = "PCA"
NO_ANSWER = "no answer"
MOST = 40
# Of many features, or of more than two groups, each dimension takes its time.
_MANY_FEATURES, _MOST_OF_MANY = 300, 16
MOST_STEPS = 40
# Steps with errors this near, as a share of the total variance, are one.
_SAME = 1e-7
MOST_COMPONENTS, MOST_FEATURES = 5, 20
# Corners of the region in a picture.
_MOST_CORNERS = 120
# Decimals of a loading, which is at most one; and digits that decide which are the largest.
_DECIMALS, _TELLING = 4, 9


@dataclass(frozen=True, eq=False)
class Fit:
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
        return self.subspace.proven


@dataclass(frozen=True, eq=False)
class AtDimension:
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
    expected : sequence of k ExpectedFigures
        What new rows would show of each group under PCA; empty where that was not estimated.
    fair_expected : sequence of k ExpectedFigures
        The same under the main answer.
    """

    n_components: int
    best: FloatArray
    plain: FloatArray
    fair: FloatArray
    certificate: Certificate | None
    roundings: FloatArray
    expected: Sequence[ExpectedFigures] = ()
    fair_expected: Sequence[ExpectedFigures] = ()

    @property
    def plain_losses(self) -> FloatArray:
        """What each group loses under PCA."""
        return nonnegative(self.plain - self.best, self.roundings)

    @property
    def fair_losses(self) -> FloatArray:
        """What each group loses at the main criterion's answer; NaN if it has none."""
        return nonnegative(self.fair - self.best, self.roundings)


class Reached(NamedTuple):
    """An answer on the way of the slider: its name, components, and figures of each group."""

    label: str
    components: FloatArray
    errors: FloatArray
    losses: FloatArray
    weights: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Step:
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
    kept: FloatArray
    total_error: float
    loadings: FloatArray
    variances: FloatArray

    @classmethod
    def of(
        cls,
        reached: Reached,
        components: FloatArray,
        problem: Problem,
        features: Sequence[int],
    ) -> "Step":
        """An answer with the first of its components in their order, and some of the features."""
        shown, second = components[:MOST_COMPONENTS], problem.second_moments
        total = float(problem.proportions @ reached.errors)
        roundings = figure_roundings(second, reached.errors)
        with np.errstate(invalid="ignore", divide="ignore"):
            kept = np.where(second.traces > 0, 1.0 - reached.errors / second.traces, np.nan)
        captured = np.einsum("ip,gpi->gi", shown, second.applied(np.ascontiguousarray(shown.T)))
        return cls(
            reached.label,
            len(components),
            reached.weights,
            nonnegative(reached.errors, roundings),
            nonnegative(reached.losses, roundings),
            kept,
            total if (reached.errors > roundings).any() else 0.0,
            # Adding zero leaves no minus zero.
            shown[:, features].round(_DECIMALS) + 0.0,
            problem.proportions @ captured,
        )


@dataclass(frozen=True, eq=False)
class Curves:
    """Figures over the dimension, and the steps of the slider in order.

    Attributes
    ----------
    groups : sequence of k labels
    dimensions : tuple of AtDimension
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
    dimensions: tuple[AtDimension, ...]
    frontier: Frontier | None
    region: FloatArray | None
    steps: tuple[Step, ...]
    start: int
    plain: int | None
    features: tuple[int, ...]

    @property
    def has_expected(self) -> bool:
        """Whether it is known what new rows would show under PCA."""
        return any(each.expected for each in self.dimensions)

    def to_dict(self, name: str, features: Sequence[str]) -> dict[str, Any]:
        """Plain values, with the names of the main answer and of all features."""
        curve = self.frontier
        return {
            "by_dimension": self.records(name),
            "frontier": curve
            and {
                "errors_here": curve.errors.tolist(),
                "region_here": None if self.region is None else self.region.tolist(),
                "largest_height": curve.largest_height,
            },
            "steps": {
                "start": self.start,
                "plain": self.plain,
                "features": [features[i] for i in self.features],
                "points": [
                    {
                        "label": step.label,
                        "n_components": step.n_components,
                        "weights": None if step.weights is None else step.weights.tolist(),
                        "errors_here": step.errors.tolist(),
                        "losses_here": step.losses.tolist(),
                        "kept_here": step.kept.tolist(),
                        "total_error_here": step.total_error,
                        "components": step.loadings.tolist(),
                        "variances_here": step.variances.tolist(),
                    }
                    for step in self.steps
                ],
            },
        }

    def records(self, name: str) -> list[dict[str, Any]]:
        """One record a model, dimension and group, with the names of the records of an audit."""
        unknown = [ExpectedFigures()] * len(self.groups)
        records = []
        for each in self.dimensions:
            status = NO_ANSWER if each.certificate is None else str(each.certificate.status)
            for model, errors, losses, expected, ended in (
                (PCA, each.plain, each.plain_losses, each.expected, None),
                (name, each.fair, each.fair_losses, each.fair_expected, status),
            )[: 1 if name == PCA else 2]:
                records += [
                    {
                        "model": model,
                        "n_components": each.n_components,
                        "group": group,
                        "error_here": known(float(errors[g])),
                        "best_error_here": float(each.best[g]),
                        "loss_here": known(float(losses[g])),
                        **figures.expected_error.columns("expected_error"),
                        **figures.expected_loss.columns("expected_loss"),
                        "state": figures.state if expected else None,
                        "status": ended,
                    }
                    for g, (group, figures) in enumerate(
                        zip(self.groups, expected or unknown, strict=True)
                    )
                ]
        return records


def curves_of(
    moments: GroupMoments,
    audit: Audit,
    plain: Fit,
    main: Fit,
    folds: FoldMoments | None,
    center: Center,
) -> Curves:
    """Solve for several dimensions and along the frontier, and align the steps of the slider."""
    pca = audit.models[0]
    expected = expected_of(pca, audit, folds)
    of_main = next(model for model in audit.models if model.name == main.name)
    dimensions = along_dimensions(plain.problem, main, expected)
    if expected and of_main.why_no_estimates is None:
        dimensions = [
            replace(each, fair_expected=of_main.groups)
            if each.n_components == pca.n_components
            else each
            for each in dimensions
        ]
    frontier = region = first = None
    if moments.n_groups == 2:
        frontier = frontier_to_look_at(moments, pca.n_components, center, scale=pca.scaled)
        region = frontier.region()
        region = region[spread_along(region, _MOST_CORNERS)]
        way, start, first = along_frontier(frontier, pca, plain, main)
    else:
        way = [
            Reached(
                in_ascii(count(each.n_components, "dimension")),
                each.certificate.components,
                each.fair,
                each.fair_losses,
            )
            for each in dimensions
            if each.certificate is not None
        ]
        sizes = [len(each.components) for each in way]
        start = sizes.index(pca.n_components) if pca.n_components in sizes else 0
    components = aligned([each.components for each in way], start)
    chosen = telling_features([each[:MOST_COMPONENTS] for each in components])
    steps = (
        Step.of(each, own, main.problem, chosen) for each, own in zip(way, components, strict=True)
    )
    return Curves(
        moments.labels,
        tuple(dimensions),
        frontier,
        region,
        tuple(steps),
        start,
        first,
        tuple(chosen),
    )


def expected_of(
    pca: ModelResult, audit: Audit, folds: FoldMoments | None
) -> dict[int, Sequence[ExpectedFigures]]:
    """What new rows would show under PCA, by number of dimensions; nothing if that is not known.

    Estimates come from moments by fold, and intervals from how folds differ. At the dimension that
    was requested the figures are those of the audit of the rows, whose intervals are narrower.
    """
    if not isinstance(folds, SummedFolds) or not pca.has_estimates:
        return {}
    looked_at = _dimensions(folds.whole.n_features, folds.whole.n_groups, pca.n_components)
    dimensions = estimated_of(looked_at, pca.n_components)
    models = pca_by_dimension(folds.whole, dimensions, pca.center, scale=pca.scaled)
    options = replace(USUAL, level=audit.level, material=audit.material)
    expected = [each.groups for each in expected_in_folds(models, folds, options)]
    return {**dict(zip(dimensions, expected, strict=True)), pca.n_components: pca.groups}


def _dimensions(n_features: int, n_groups: int, asked: int) -> list[int]:
    """40 at most, 16 of three groups or more, the requested one among them."""
    is_quick = n_groups <= 2 and n_features <= _MANY_FEATURES
    return chosen_dimensions(n_features, asked, MOST if is_quick else _MOST_OF_MANY)


def along_dimensions(
    plain: Problem,
    main: Fit,
    expected: dict[int, Sequence[ExpectedFigures]],
) -> list[AtDimension]:
    """Solve for each number of dimensions."""
    own, asked = main.certificate, main.certificate.n_components
    dimensions = _dimensions(plain.n_features, plain.n_groups, asked)
    found, known = list[AtDimension](), None
    for d in track("comparing numbers of dimensions", dimensions, "dimensions"):
        problem = replace(main.problem, n_components=d)
        if known is not None:
            problem = replace(problem, start=WarmStart(known.weights))
        solution = own if d == asked else _solved(problem)
        known = solution or known
        leading = replace(plain, n_components=d).pooled_optimum.vectors
        errors = problem.errors(leading)
        roundings = figure_roundings(problem.second_moments, errors)
        fair_errors = np.full(len(problem.labels), np.nan)
        if solution is not None:
            fair_errors = problem.errors(solution.components.T)
        found.append(
            AtDimension(
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


def _solved(problem: Problem) -> Certificate | None:
    """The answer; None if there is none, such as equal errors that are out of reach."""
    try:
        return Auto().solve(problem, TOLERANCE_OF_CURVES)
    except Incompatible:
        return None


def nonnegative(values: FloatArray, roundings: FloatArray) -> FloatArray:
    """Return figures that cannot be negative, with zero for what is only rounding."""
    return np.where(values <= roundings, 0.0, values)


def along_frontier(
    curve: Frontier, pca: ModelResult, plain: Fit, main: Fit
) -> tuple[list[Reached], int, int]:
    """From the optimum of the first group to that of the second, PCA and the answer on the way."""
    best = np.array([curve.errors[0, 0], curve.errors[-1, 1]])
    groups = [called(group_name(label)) for label in curve.groups]

    def step(
        label: str, components: FloatArray, errors: FloatArray, weights: Any = None
    ) -> Reached:
        return Reached(label, components, errors, errors - best, weights)

    errors = np.array([group.error_here.value for group in pca.groups])
    named = [step(plain.name, plain.certificate.components, errors)]
    if main is not plain:
        named.append(step(main.name, main.certificate.components, main.certificate.errors))
    near = _SAME * main.problem.total_variance
    if len(named) == 2 and np.abs(named[0].errors - named[1].errors).max() <= near:
        named = [named[1]._replace(label=f"{plain.name}, {main.name}")]
    others = [
        step(_label(curve.weights[i], groups), curve.subspace(i).components, *both)
        for i in spread_along(curve.errors, MOST_STEPS - len(named))
        for both in [(curve.errors[i], curve.weights[i])]
        if all(np.abs(both[0] - each.errors).max() > near for each in named)
    ]
    # Along the curve, and past its ends, the first error rises beside the second one.
    steps = sorted([*named, *others], key=lambda each: float(each.errors[0] - each.errors[1]))
    places = [
        next(i for i, step in enumerate(steps) if step is each) for each in (named[-1], named[0])
    ]
    return steps, places[0], places[1]


def _label(weights: FloatArray, groups: Sequence[str]) -> str:
    first, second = (in_ascii(share(each)) for each in weights.tolist())
    return f"weight {first} on {groups[0]}, {second} on {groups[1]}"


def spread_along(points: FloatArray, most: int) -> list[int]:
    """Positions of points that are spread evenly along a curve, both ends among them.

    Examples
    --------
    >>> spread_along(np.array([[0.0, 4], [1, 3], [1.1, 2.9], [2, 2], [4, 0]]), 3)
    [0, 3, 4]
    """
    if len(points) <= most:
        return list(range(len(points)))
    size = np.ptp(points, axis=0)
    sides = np.linalg.norm(np.diff(points, axis=0) / np.where(size > 0, size, 1.0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(sides)])
    wanted = np.linspace(0.0, along[-1], most)
    return sorted(set(np.abs(along[:, None] - wanted).argmin(axis=0).tolist()))


def aligned(components: Sequence[FloatArray], start: int) -> list[FloatArray]:
    """The components of each step, in the order and with the signs of its neighbour's.

    From the start outwards: eigenvectors have no signs of their own, and change places where their
    variances cross.
    """
    walk = list(components)
    for i in range(start + 1, len(walk)):
        walk[i] = _like(walk[i - 1], walk[i])
    for i in range(start - 1, -1, -1):
        walk[i] = _like(walk[i + 1], walk[i])
    return walk


def _like(neighbour: FloatArray, own: FloatArray) -> FloatArray:
    """Each of the neighbour's in turn gets the one, of those that are left, that is most alike."""
    agreement, order = neighbour @ own.T, list[int]()
    for row in np.abs(agreement[: len(own)]):
        order.append(max(set(range(len(own))) - set(order), key=lambda i: (row[i], -i)))
    signs = np.where(agreement[range(len(order)), order] < 0, -1.0, 1.0)
    left = [i for i in range(len(own)) if i not in order]
    return np.vstack([own[order] * signs[:, None], own[left]])


def telling_features(components: Sequence[FloatArray]) -> list[int]:
    """The features with the largest loadings anywhere on the walk, in their own order.

    Examples
    --------
    >>> telling_features([np.array([[0.8, 0.0, 0.6]])])
    [0, 1, 2]
    """
    largest = np.max([np.abs(each).max(axis=0) for each in components], axis=0).round(_TELLING)
    return sorted(np.argsort(-largest, kind="stable")[:MOST_FEATURES].tolist())
