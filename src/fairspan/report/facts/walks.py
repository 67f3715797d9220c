"""What is reached with each number of dimensions, and the walks that a slider of the page follows.

A walk goes along the frontier of two groups, or over the dimension. Of each step few components and
few features are facts, and its figures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from fairspan.auditing.audit import Audit
from fairspan.auditing.expected_losses import USUAL, ExpectedFigures
from fairspan.auditing.judging import expected_in_folds
from fairspan.auditing.models import chosen_dimensions, estimated_of, pca_by_dimension
from fairspan.certificates.certificate import Certificate
from fairspan.errors import Incompatible
from fairspan.formatting.text import count, in_ascii, share
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments, SummedFolds
from fairspan.problem.problem import Problem
from fairspan.progress import track
from fairspan.report.facts.answers import PCA, Answers
from fairspan.solvers.solve import Auto
from fairspan.trade_off import Frontier
from fairspan.typing import FloatArray

MOST = 40
# Of many features, or of more than two groups, each dimension takes its time.
_MANY_FEATURES, _MOST_OF_MANY = 300, 16
# As a share of the objective, as fits have it by default.
_TOLERANCE = 1e-9
MOST_STEPS = 40
# Steps with errors this near, as a share of the total variance, are one.
_SAME = 1e-7
MOST_COMPONENTS, MOST_FEATURES = 5, 20
# Decimals of a loading, which is at most one; and digits that decide which are the largest.
_DECIMALS, _TELLING = 4, 9


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
    solution : Certificate or None
        The main criterion's answer; None if it has none.
    fair : (k,) array or None
        Errors at this answer.
    """

    n_components: int
    best: FloatArray
    plain: FloatArray
    fair: FloatArray | None
    solution: Certificate | None


def along_dimensions(answers: Answers) -> list[AtDimension]:
    """Solve for 40 dimensions at most, 16 of three groups or more, the requested one among them."""
    main, pca = answers.main, answers.plain
    judged = main.problem
    is_quick = len(judged.labels) <= 2 and judged.n_features <= _MANY_FEATURES
    dimensions = chosen_dimensions(
        judged.n_features, main.subspace.dimension, MOST if is_quick else _MOST_OF_MANY
    )
    found = []
    for d in track("comparing numbers of dimensions", dimensions, "dimensions"):
        problem = replace(judged, n_components=d)
        plain = replace(pca.problem, n_components=d).pooled_optimum.vectors
        solution = main.certificate if d == main.subspace.dimension else _solved(problem)
        fair = None if solution is None else problem.errors(solution.components.T)
        found.append(AtDimension(d, problem.best_errors, problem.errors(plain), fair, solution))
    return found


def dimensions_facts(
    found: Sequence[AtDimension], criterion: str, rounding: float
) -> dict[str, Any]:
    """By dimension, one number for each group; None where the criterion has no answer."""
    fair = [(each.fair, each.best) for each in found]
    return {
        "dimensions": [each.n_components for each in found],
        "best_errors_here": [without_rounding(each.best, rounding) for each in found],
        "plain": {
            "errors_here": [without_rounding(each.plain, rounding) for each in found],
            "losses_here": [without_rounding(each.plain - each.best, rounding) for each in found],
        },
        "fair": {
            "criterion": criterion,
            "errors_here": [
                None if errors is None else without_rounding(errors, rounding) for errors, _ in fair
            ],
            "losses_here": [
                None if errors is None else without_rounding(errors - best, rounding)
                for errors, best in fair
            ],
            "status": [
                None if each.solution is None else str(each.solution.status) for each in found
            ],
        },
    }


def expected_by_dimension(
    found: Sequence[AtDimension], audit: Audit, folds: FoldMoments | None
) -> dict[str, Any] | None:
    """The expected loss of each group under PCA for some numbers of dimensions; None if unknown.

    Estimates come from moments by fold, and intervals from how folds differ. At the dimension that
    was requested the figures are those of the audit of the rows, whose intervals are narrower.
    """
    pca = audit.models[0]
    if not isinstance(folds, SummedFolds) or not pca.has_estimates:
        return None
    asked = pca.n_components
    dimensions = estimated_of([each.n_components for each in found], asked)
    models = pca_by_dimension(folds.whole, dimensions, pca.center, scale=pca.scaled)
    options = replace(USUAL, level=audit.level, material=audit.material)
    estimates = dict(zip(dimensions, expected_in_folds(models, folds, options), strict=True))
    estimates[asked] = list(pca.groups)
    return {
        "dimensions": dimensions,
        "plain": {
            "expected_losses": _each(estimates, lambda figures: figures.expected_loss.value),
            "expected_losses_low": _each(estimates, lambda figures: figures.expected_loss.low),
            "expected_losses_high": _each(estimates, lambda figures: figures.expected_loss.high),
            "expected_errors": _each(estimates, lambda figures: figures.expected_error.value),
            "states": [[each.state for each in groups] for groups in estimates.values()],
        },
    }


def _each(
    estimates: Mapping[int, Sequence[ExpectedFigures]],
    figure: Callable[[ExpectedFigures], float | None],
) -> list[list[float | None]]:
    """One figure of every group, by dimension."""
    return [
        [figure(each) if each.is_estimated else None for each in groups]
        for groups in estimates.values()
    ]


def without_rounding(values: FloatArray, rounding: float) -> list[float]:
    """Figures of which none is negative; zero for what is only rounding."""
    return np.where(values <= rounding, 0.0, values).tolist()  # type: ignore[no-any-return]


def _solved(problem: Problem) -> Certificate | None:
    """The answer; None if there is none, such as equal errors that are out of reach."""
    try:
        return Auto().solve(problem, _TOLERANCE)
    except Incompatible:
        return None


@dataclass(frozen=True, eq=False)
class Step:
    """One position of the slider.

    Attributes
    ----------
    label : str
    components : (d, p) array
    errors, best : (k,) arrays
    weights : (k,) array or None
        Of the mixture whose leading eigenvectors the components span.
    """

    label: str
    components: FloatArray
    errors: FloatArray
    best: FloatArray
    weights: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Walk:
    """Steps in order.

    Attributes
    ----------
    kind : {"frontier", "dimension"}
    steps : tuple of Step
    start : int
        Where the main criterion's answer is.
    plain : int or None
        Where ordinary PCA is, if it is on the walk.
    """

    kind: str
    steps: tuple[Step, ...]
    start: int
    plain: int | None


def along_frontier(
    curve: Frontier, answers: Answers, plain_errors: FloatArray, groups: Sequence[str]
) -> Walk:
    """From the optimum of the first group to that of the second, PCA and the answer on the way."""
    best = np.array([curve.errors[0, 0], curve.errors[-1, 1]])
    main = answers.main
    named = [Step(PCA, answers.plain.subspace.components, plain_errors, best)]
    if not answers.plain.is_main:
        named.append(Step(main.name, main.subspace.components, main.certificate.errors, best))
    near = _SAME * main.problem.total_variance
    if len(named) == 2 and np.abs(named[0].errors - named[1].errors).max() <= near:
        named = [replace(named[1], label=f"{PCA}, {main.name}")]
    others = [
        Step(
            _label(curve.weights[i], groups),
            curve.subspace(i).components,
            curve.errors[i],
            best,
            curve.weights[i],
        )
        for i in spread_along(curve.errors, MOST_STEPS - len(named))
        if all(np.abs(curve.errors[i] - each.errors).max() > near for each in named)
    ]
    # Along the curve, and past its ends, the first error rises beside the second one.
    steps = sorted([*named, *others], key=lambda step: float(step.errors[0] - step.errors[1]))
    return Walk("frontier", tuple(steps), steps.index(named[-1]), steps.index(named[0]))


def _label(weights: FloatArray, groups: Sequence[str]) -> str:
    first, second = (in_ascii(share(each)) for each in weights.tolist())
    return f"weight {first} on {groups[0]}, {second} on {groups[1]}"


def along_found(found: Iterable[AtDimension], start: int) -> Walk:
    """Over the dimension, at the main criterion's answers."""
    steps = [
        Step(
            in_ascii(count(each.n_components, "dimension")),
            each.solution.components,
            each.fair,
            each.best,
        )
        for each in found
        if each.solution is not None and each.fair is not None
    ]
    first = next((i for i, step in enumerate(steps) if len(step.components) == start), 0)
    return Walk("dimension", tuple(steps), first, None)


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


def aligned(walk: Walk) -> Walk:
    """The same, each step's components in the order and with the signs of its neighbour's.

    From the start outwards: eigenvectors have no signs of their own, and change places where their
    variances cross.
    """
    steps = list(walk.steps)
    for i in range(walk.start + 1, len(steps)):
        steps[i] = _like(steps[i - 1], steps[i])
    for i in range(walk.start - 1, -1, -1):
        steps[i] = _like(steps[i + 1], steps[i])
    return replace(walk, steps=tuple(steps))


def _like(neighbour: Step, step: Step) -> Step:
    agreement = neighbour.components @ step.components.T
    theirs, mine = scipy.optimize.linear_sum_assignment(-np.abs(agreement))
    left = [i for i in range(len(step.components)) if i not in set(mine.tolist())]
    signs = np.where(agreement[theirs, mine] < 0, -1.0, 1.0)
    return replace(
        step, components=np.vstack([step.components[mine] * signs[:, None], step.components[left]])
    )


def steps_facts(
    walk: Walk, scaled: GroupMoments, second: FloatArray, names: Sequence[str], rounding: float
) -> dict[str, Any]:
    """Everything that a slider shows.

    Parameters
    ----------
    walk : Walk
    scaled : GroupMoments
        In the units of the errors.
    second : (k, p, p) array
        Their second moments about the centre of the errors.
    names : sequence of p str
    rounding : float
        Figures up to this size are none.
    """
    walk = aligned(walk)
    chosen = telling_features([step.components[:MOST_COMPONENTS] for step in walk.steps])
    pooled = np.tensordot(scaled.proportions, second, axes=1)
    traces = np.einsum("gii->g", second)
    return {
        "walk": walk.kind,
        "start": walk.start,
        "plain": walk.plain,
        "features": [names[i] for i in chosen],
        "points": [
            _point(step, scaled.proportions, traces, rounding, pooled, chosen)
            for step in walk.steps
        ],
    }


def telling_features(components: Sequence[FloatArray]) -> list[int]:
    """The features with the largest loadings anywhere on the walk, in their own order.

    Examples
    --------
    >>> telling_features([np.array([[0.8, 0.0, 0.6]])])
    [0, 1, 2]
    """
    largest = np.max([np.abs(each).max(axis=0) for each in components], axis=0).round(_TELLING)
    return sorted(np.argsort(-largest, kind="stable")[:MOST_FEATURES].tolist())


def _point(
    step: Step,
    proportions: FloatArray,
    traces: FloatArray,
    rounding: float,
    pooled: FloatArray,
    chosen: Sequence[int],
) -> dict[str, Any]:
    shown = step.components[:MOST_COMPONENTS]
    total = float(proportions @ step.errors)
    with np.errstate(invalid="ignore", divide="ignore"):
        kept = np.where(traces > 0, 1.0 - step.errors / traces, np.nan)
    return {
        "label": step.label,
        "weights": None if step.weights is None else step.weights.tolist(),
        "n_components": len(step.components),
        "errors_here": without_rounding(step.errors, rounding),
        "losses_here": without_rounding(step.errors - step.best, rounding),
        "kept_here": kept.tolist(),
        "total_error_here": total if total > rounding else 0.0,
        # Adding zero leaves no minus zero.
        "components": (shown[:, chosen].round(_DECIMALS) + 0.0).tolist(),
        "variances_here": np.einsum("ij,jk,ik->i", shown, pooled, shown).tolist(),
    }
