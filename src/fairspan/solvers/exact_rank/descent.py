"""Local minimisation of maxima of smooth functions of the errors, at exactly d components.

What is minimised is the largest score, or a sum of the largest scores of several blocks.

Each step is the better of two: one along a quadratic model made convex, which goes down, and
Newton's on the scores that stay largest, which ends it. Both are corrected for scores that bend
differently, and damped as far as needed. A search begins at a relaxed solution, and at other
starts, so that a saddle point that one of them leads to decides nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.certificates.certificate import TracePoint
from fairspan.certificates.optimality import goal
from fairspan.linalg import eigh
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent_model import Model, Scores, Step
from fairspan.typing import FloatArray

_MAX_STEPS = 200
# A step that keeps less than this share of its promise is corrected; less than that, damped.
_KEPT, _ENOUGH = 0.5, 0.1
# Damping, as a share of the largest curvature: its range, and by what it grows and shrinks.
_LEAST_DAMPING, _MOST_DAMPING, _MORE, _EASED = 1e-4, 1e8, 8.0, 16.0
# Descents in a row that bring nothing, after which a gap is left open; those that lead to the best
# optimum again count twice.
_PATIENCE = 8
# Of so many groups a descent takes long, and its end tells nearly all.
_MANY_GROUPS, _LITTLE_PATIENCE = 20, 2
# How many random subspaces in the span of the relaxed solution are tried.
_STARTS = 12
# Share of a group's variance below which the slope of the robust error gap is taken at it.
_LEAST_ERROR = 1e-9


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
                if found.value < value:
                    basis, value = found.basis, found.value
                multipliers = found.multipliers
                break
            basis, value, multipliers = found.basis, found.value, found.multipliers
    weights = multipliers @ scores(problem.errors(basis))[1]
    return LocalOptimum(basis, value, weights, multipliers, n_steps)


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
            step = model.safe_step(model.corrected(trial.scores, safe.along), damping)
            best = min([best, _tried(problem, scores, model, step)], key=lambda each: each.value)
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
    kept = model.value - first.value >= _KEPT * safe.promise and first.value <= trial.value
    if kept or model.is_smooth:  # a score alone has no other to part from
        return [first]
    second = model.newton_step(safe.multipliers, model.corrected(first.scores, newton.along))
    return [first] if second is None else [first, _tried(problem, scores, model, second)]


def affine_scores(pieces: Pieces) -> Scores:
    """Pieces as smooth functions of the errors."""
    return Scores(lambda errors: (pieces.at(errors), pieces.coefficients), pieces.blocks)


def scores_of(problem: Problem) -> Scores:
    """The criterion of a problem as a sum of maxima of smooth functions of the errors."""
    if problem.pieces is not None:
        return affine_scores(problem.pieces)
    criterion: Any = problem.criterion
    traces = problem.second_moments.traces
    floor = np.zeros(len(traces))
    if criterion.has_concave_scores:
        # At an error of zero the slope is infinite; just beyond it is finite and says the same.
        floor = _LEAST_ERROR * np.where(traces > 0, traces, max(float(traces.max()), 1.0))
    return Scores(
        lambda errors: (
            criterion.scores(errors, problem),
            criterion.gradients(np.maximum(errors, floor), problem),
        )
    )


def best_rounding(
    problem: Problem, projector: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """The best subspace found by descent from a relaxed solution and from other subspaces.

    Parameters
    ----------
    problem : Problem
    projector : (p, p) array
        P; its d leading eigenvectors are the first start.
    candidates : sequence of (p, d) arrays
        Further starts.

    Returns
    -------
    (p, d) array
        Orthonormal columns.
    """
    leading = eigh(projector)[1][:, ::-1][:, : problem.n_components]
    scores = scores_of(problem)
    found = (descend(problem, scores, start) for start in (leading, *candidates))
    return min(found, key=lambda local: local.value).basis


class Search:
    """Bounds from both sides, narrowed from above by descents at exactly d components.

    Parameters
    ----------
    problem : Problem
    scores : Scores
        What is minimised.
    share : float
        The gap to reach, as a share of the value.

    Attributes
    ----------
    best : LocalOptimum or None
        The best subspace so far.
    proven : float
        The best bound that was noted.
    n_steps : int
        Eigenproblems solved so far.
    """

    def __init__(self, problem: Problem, scores: Scores, share: float) -> None:
        self.problem, self.scores, self.share = problem, scores, share
        self.best: LocalOptimum | None = None
        self.proven, self.n_steps = -np.inf, 0
        self.trace: list[TracePoint] = []

    @property
    def n_eigenproblems(self) -> int:
        """How many were solved so far."""
        return self.n_steps

    @property
    def lower(self) -> float:
        """The best bound: no subspace has a smaller value."""
        return self.proven

    @property
    def upper(self) -> float:
        """The best value of exactly d components so far."""
        return np.inf if self.best is None else self.best.value

    @property
    def tolerance(self) -> float:
        """The gap to reach, absolute."""
        if self.best is None:
            return np.inf
        return goal(self.problem, self.problem.errors(self.best.basis), self.share)

    @property
    def closed(self) -> bool:
        """Whether exactly d components reach the bound."""
        return self.upper - self.lower <= self.tolerance

    def descend_from(self, start: FloatArray) -> float:
        """Take the local optimum below a subspace if it is the best, and return its value."""
        local = descend(self.problem, self.scores, start)
        self.n_steps += local.n_eigenproblems
        if local.value < self.upper:
            self.best = local
            self.improved(local)
        self.note()
        return local.value

    def improved(self, local: LocalOptimum) -> None:
        """Take what a new best subspace proves, if anything."""

    def note(self) -> None:
        """Add the bounds so far to the trace."""
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))


def descend_from_each(search: Search, starts: Iterable[FloatArray]) -> None:
    """Descend from one start after another until the gap is closed, or several brought nothing."""
    patience = _PATIENCE if search.problem.n_groups <= _MANY_GROUPS else _LITTLE_PATIENCE
    in_vain = 0
    for start in starts:
        if search.closed or in_vain >= patience:
            return
        before = search.upper
        reached = search.descend_from(start)
        if reached < before - search.tolerance:
            in_vain = 0
        else:
            # That many starts lead to the same optimum tells more than that they lead elsewhere.
            in_vain += 2 if reached <= before + search.tolerance else 1


def starts_around(
    projector: FloatArray, n_components: int, first: FloatArray | None = None
) -> Iterator[FloatArray]:
    """Leading eigenvectors of a relaxed solution P, and random subspaces in its span.

    The eigenvectors may be a saddle point, at which a descent stops at once: where groups vary
    along axes of their own, every choice of axes is one. A basis to start from, if any, comes last.
    """
    values, vectors = eigh(projector)
    values, vectors = np.clip(values[::-1], 0, 1), vectors[:, ::-1]
    yield vectors[:, :n_components]
    # Seeded, so that the same input gives the same answer.
    rng = np.random.default_rng(0)
    for _ in range(_STARTS):
        yield np.linalg.qr(
            (vectors * np.sqrt(values)) @ rng.standard_normal((len(values), n_components))
        )[0]
    if first is not None:
        yield first
