"""Local minimisation of maxima of smooth functions of the errors, at exactly d components.

What is minimised is the largest score, or a sum of the largest scores of several blocks.

Each step is the better of two: one along a quadratic model made convex, which goes down, and
Newton's on the scores that stay largest, which ends it. Both are corrected for scores that bend
differently, and damped as far as needed. Where that ends at a saddle point, it is left along the
direction of negative curvature.
"""

from dataclasses import dataclass, replace

import numpy as np

from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent_model import Model, Scores, Step
from fairspan.typing import FloatArray

_MAX_STEPS = 200
# A step that keeps less than this share of its promise is corrected; less than that, damped.
_KEPT, _ENOUGH = 0.5, 0.1
# Damping, as a share of the largest curvature: its range, and by what it grows and shrinks.
_LEAST_DAMPING, _MOST_DAMPING, _MORE, _EASED = 1e-4, 1e8, 8.0, 16.0
# How far from a saddle point is looked, as lengths of X.
_LENGTHS = (0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True, eq=False)
class LocalOptimum:
    """Where a descent ended.

    Attributes
    ----------
    basis : (p, d) array
    value : float
        Of its scores.
    weights : (k,) array
        w of the last model: the groups' second moments whose mixture balances the scores there.
    multipliers : (m,) array
        Of the scores, on a simplex for each block.
    n_eigenproblems : int
        One a step.
    """

    basis: FloatArray
    value: float
    weights: FloatArray
    multipliers: FloatArray
    n_eigenproblems: int


def descend(
    problem: Problem, scores: Scores, basis: FloatArray, target: float = -np.inf
) -> LocalOptimum:
    """Walk downhill from a basis until no step lowers the value, or the target is met.

    Parameters
    ----------
    problem : Problem
    scores : Scores
    basis : (p, d) array
    target : float
        Good enough, for example a lower bound plus the tolerance.

    Returns
    -------
    LocalOptimum
        Never above the start.
    """
    values = scores(problem.errors(basis))[0]
    value, n_steps, damping = scores.blocks.value(values), 0, 0.0
    is_largest = values == scores.blocks.largest(values)[scores.blocks.of(len(values))]
    multipliers = scores.blocks.normalised(is_largest.astype(np.float64))
    if basis.shape[0] > basis.shape[1]:
        while n_steps < _MAX_STEPS and value > target:
            n_steps += 1
            model = Model.at(problem, scores, basis, multipliers)
            found, damping = _downhill(problem, scores, model, damping)
            if value - found.value <= model.rounding:
                away = _beside_saddle(problem, scores, model, found.multipliers)
                if away is None:
                    if found.value < value:
                        basis, value = found.basis, found.value
                    multipliers = found.multipliers
                    break
                found, damping = away, 0.0
            basis, value, multipliers = found.basis, found.value, found.multipliers
    slopes = scores(problem.errors(basis))[1]
    return LocalOptimum(basis, value, multipliers @ slopes, multipliers, n_steps)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Where a step leads: its basis, and the scores there."""

    basis: FloatArray
    scores: FloatArray
    multipliers: FloatArray
    value: float


def _downhill(
    problem: Problem, scores: Scores, model: Model, damping: float
) -> tuple[_Trial, float]:
    """The best of the steps tried, damped more and more until one keeps its promise.

    Also the damping to begin the next with.
    """
    value = model.value
    damping = damping / _EASED if damping > _LEAST_DAMPING else 0.0
    safe = model.safe_step(model.scores, damping)
    trial = _tried(problem, scores, model, safe)
    newton = _by_newton(problem, scores, model, safe, trial)
    best = min([trial, *newton], key=lambda each: each.value)
    while True:
        if not model.is_smooth and value - best.value < _KEPT * safe.promise:
            level = model.corrected(trial.scores, safe.along)
            corrected = _tried(problem, scores, model, model.safe_step(level, damping))
            best = min([best, corrected], key=lambda each: each.value)
        enough = max(_ENOUGH * safe.promise, model.rounding)
        if value - best.value >= enough or safe.promise <= enough or damping > _MOST_DAMPING:
            return best, damping
        damping = max(_MORE * damping, _LEAST_DAMPING)
        safe = model.safe_step(model.scores, damping)
        trial = _tried(problem, scores, model, safe)
        best = min([best, trial], key=lambda each: each.value)


def _tried(problem: Problem, scores: Scores, model: Model, step: Step) -> _Trial:
    basis = model.moved(step.along)
    values = scores(problem.errors(basis))[0]
    return _Trial(basis, values, step.multipliers, scores.blocks.value(values))


def _by_newton(
    problem: Problem, scores: Scores, model: Model, safe: Step, trial: _Trial
) -> list[_Trial]:
    """Newton's step, and where it does not go down as the safe one promises, the corrected one."""
    newton = model.newton_step(safe.multipliers, model.scores)
    if newton is None:
        return []
    first = _tried(problem, scores, model, newton)
    falls = model.value - first.value
    kept = falls >= _KEPT * safe.promise and first.value <= trial.value
    if kept or model.is_smooth:  # a score alone has no other to part from
        return [first]
    level = model.corrected(first.scores, newton.along)
    second = model.newton_step(safe.multipliers, level)
    return [first] if second is None else [first, _tried(problem, scores, model, second)]


def _beside_saddle(
    problem: Problem, scores: Scores, model: Model, multipliers: FloatArray
) -> _Trial | None:
    """A point below a saddle point; None at a local minimum."""
    direction = model.escape(multipliers)
    if direction is None:
        return None
    least = model.value - model.rounding
    for length in _LENGTHS:
        for along in (length * direction, -length * direction):
            reached = scores(problem.errors(model.moved(along)))[0]
            back = model.safe_step(reached)
            found = _tried(problem, scores, model, replace(back, along=along + back.along))
            if found.value < least:
                return found
    return None
