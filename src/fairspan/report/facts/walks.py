"""Walks that a slider follows: along the frontier of two groups, or over the dimension."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from fairspan.formatting.numbers import in_ascii, share
from fairspan.report.facts.answers import PCA, Answers
from fairspan.report.facts.dimensions import AtDimension
from fairspan.trade_off.curve import Frontier
from fairspan.typing import FloatArray

MOST_STEPS = 40
# Steps with errors this near, as a share of the total variance, are one.
_SAME = 1e-7


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
    named = [Step(PCA, answers.plain.fit.subspace.components, plain_errors, best)]
    if not answers.plain.is_main:
        fit = main.fit
        named.append(Step(main.name, fit.subspace.components, fit.errors, best))
    near = _SAME * main.fit.problem.total_variance
    if len(named) == 2 and np.abs(named[0].errors - named[1].errors).max() <= near:
        named = [replace(named[1], label=f"{PCA}, {main.name}")]
    kept = spread_along(curve.errors, MOST_STEPS - len(named))
    others = [
        Step(
            _label(curve.weights[i], groups),
            curve.subspace(i).components,
            curve.errors[i],
            best,
            curve.weights[i],
        )
        for i in kept
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
    steps: list[Step] = []
    first = 0
    for each in found:
        if each.solution is None or each.fair is None:
            continue
        first = len(steps) if each.n_components == start else first
        plural = "" if each.n_components == 1 else "s"
        steps.append(
            Step(
                f"{each.n_components} dimension{plural}",
                each.solution.components,
                each.fair,
                each.best,
            )
        )
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
    nearest = np.abs(along[:, None] - wanted).argmin(axis=0)
    return sorted(set(nearest.tolist()))


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
    theirs, mine = linear_sum_assignment(-np.abs(agreement))
    left = [i for i in range(len(step.components)) if i not in set(mine.tolist())]
    signs = np.where(agreement[theirs, mine] < 0, -1.0, 1.0)
    matched = step.components[mine] * signs[:, None]
    return replace(step, components=np.vstack([matched, step.components[left]]))
