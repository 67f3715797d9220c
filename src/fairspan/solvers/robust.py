"""The robust error gap of more than two groups: descents from many starts, and a bound.

The criterion is the largest of concave functions J_i(e) = sum_g h(v_ig, e_g, eps_g). On a box of
errors each h is at least its chord, so the largest of the chords' sums, which is piecewise linear,
bounds the criterion from below wherever errors lie in the box. The box need only hold subspaces
that beat the best one known. So bounding its sides by the relaxed problem, and taking the chords
anew, shrinks it; the gap shrinks with the square of its width.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap, worst_case
from fairspan.solvers.certificate import certified, resolution
from fairspan.solvers.descent import LocalOptimum, descend
from fairspan.solvers.dual import Atom, Dual
from fairspan.solvers.relaxation import Relaxation
from fairspan.solvers.rounding import scores_of
from fairspan.solvers.solution import Solution, TracePoint

FloatArray = npt.NDArray[np.float64]

_ROUNDS = 12
_RANDOM_STARTS = 8
# A round that leaves more than this share of the box is the last.
_SHRINKS = 0.9
# Sides of the box are bounded to this share of its width.
_SIDE = 1e-2
# Bounds and sides hold wherever the relaxed problem is left; rounding can stall it for long.
_BOUND_ROUNDS, _SIDE_ROUNDS = 150, 30
# With many groups the box is shrunk slowly; this many end the search after the round.
_MOST_EIGENPROBLEMS = 4000
# Errors are uncertain by this share of the variance, and the sides of the box are moved by it.
_UNSURE = 1e-14
# Bounds of the relaxed problem are uncertain by this share of the variances in them.
_ROUNDING = 2e-15
# A linear program with larger coefficients than this is solved badly.
_HIGHEST_PRICE = 1e5


@dataclass
class RobustSearch:
    """Upper and lower bounds of the robust error gap."""

    problem: Problem
    tolerance: float
    best: LocalOptimum | None = None
    lower: float = -np.inf
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    n_eigenproblems: int = 0
    trace: list[TracePoint] = field(default_factory=list)
    _atoms: list[Atom] = field(default_factory=list)

    @property
    def criterion(self) -> RobustErrorGap:
        """That of the problem."""
        assert isinstance(self.problem.criterion, RobustErrorGap)
        return self.problem.criterion

    @property
    def upper(self) -> float:
        """The best value so far."""
        return np.inf if self.best is None else self.best.value

    @property
    def closed(self) -> bool:
        """Whether the best value is proven."""
        return self.upper - self.lower <= self.goal

    @property
    def goal(self) -> float:
        """The gap to reach."""
        if self.best is None:
            return self.tolerance
        errors = self.problem.errors(self.best.basis)
        return max(self.tolerance, resolution(self.problem, errors))

    def run(self) -> None:
        """Descend from several starts, then shrink the box of errors until the gap is closed."""
        for start in self._starts():
            self._descend_from(start)
        low, high = self._first_box()
        for _ in range(_ROUNDS):
            relaxation, lower = self._relaxed(self.chords(low, high), self.goal / 4, _BOUND_ROUNDS)
            assert relaxation.best is not None
            if lower > self.lower:
                self.lower = lower
                self.weights = relaxation.dual.weights(relaxation.best.multipliers)
            for atom in relaxation.mixed:
                self._descend_from(atom.leading(self.problem.n_components))
            width = high - low
            if self.closed or self.n_eigenproblems > _MOST_EIGENPROBLEMS:
                return
            low, high = self._shrunk(low, high)
            if (high - low).sum() > _SHRINKS * width.sum():
                return

    def solution(self, solver: str) -> Solution:
        """The best subspace with the bound."""
        assert self.best is not None
        return certified(
            self.problem,
            self.best.basis,
            self.lower,
            self.weights,
            tolerance=self.tolerance,
            n_eigenproblems=self.n_eigenproblems,
            trace=self.trace,
            solver=solver,
        )

    def chords(self, low: FloatArray, high: FloatArray) -> Pieces:
        """Affine functions below every score on a box of errors."""
        weights = self.criterion.pair_weights(self.problem)
        radii = self.criterion.radii(self.problem)
        at_low, at_high = worst_case(weights, low, radii), worst_case(weights, high, radii)
        width = high - low
        wide = width > 1e-12 * np.maximum(high, np.finfo(np.float64).tiny)
        slopes = np.where(wide, (at_high - at_low) / np.where(wide, width, 1.0), weights)
        return Pieces(slopes, (slopes * low - at_low).sum(axis=1))

    def _starts(self) -> list[FloatArray]:
        problem, rng = self.problem, np.random.default_rng(0)
        shape = (problem.n_features, problem.n_components)
        drawn = [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(_RANDOM_STARTS)]
        own = [optimum.vectors for optimum in problem.group_optima]
        self.n_eigenproblems += 1 + len(own)
        return [problem.pooled_optimum.vectors, *own, *drawn]

    def _descend_from(self, start: FloatArray) -> None:
        local = descend(self.problem, scores_of(self.problem), start)
        self.n_eigenproblems += local.n_eigenproblems
        if local.value < self.upper:
            self.best = local
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    @property
    def _unsure(self) -> FloatArray:
        """By how much the errors of each group may be off: their roots are steep near zero."""
        return _UNSURE * self.problem.second_moments.traces

    def _first_box(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest error of any subspace on each group."""
        second, d = self.problem.second_moments, self.problem.n_components
        if d == second.n_features:
            whole = self.problem.errors(self.problem.pooled_optimum.vectors)
            return whole, whole
        least = [-second.leading(-alone, d).top_eigenvalue_sum for alone in np.eye(second.n_groups)]
        self.n_eigenproblems += second.n_groups
        own = np.array([optimum.top_eigenvalue_sum for optimum in self.problem.group_optima])
        low, high = second.traces - own, second.traces - np.array(least)
        return np.maximum(low - self._unsure, 0.0), np.maximum(high, 0.0) + self._unsure

    def _shrunk(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the errors of every subspace in the box that is not worse than the best."""
        chords, ahead, unsure = self.chords(low, high), self.upper + self.goal, self._unsure
        low, high = low.copy(), high.copy()
        for group, alone in enumerate(np.eye(len(low))):
            width = high[group] - low[group]
            if width <= 4 * unsure[group]:
                continue
            # Beyond the best value the side is paid for, so it is no constraint but a penalty.
            price = min(width / max(self.upper - self.lower, self.goal), _HIGHEST_PRICE)
            for sign in (1.0, -1.0):
                rows = np.vstack([sign * alone, sign * alone + price * chords.coefficients])
                offsets = np.append(0.0, price * (chords.offsets + ahead))
                _, bound = self._relaxed(Pieces(rows, offsets), _SIDE * width, _SIDE_ROUNDS)
                side = bound - unsure[group]
                if sign > 0:
                    low[group] = max(low[group], side)
                else:
                    high[group] = min(high[group], -side)
        return low, np.maximum(high, low)

    def _relaxed(self, pieces: Pieces, tolerance: float, rounds: int) -> tuple[Relaxation, float]:
        """The relaxed problem, and its bound less what rounding may have added."""
        dual = Dual(self.problem, pieces)
        variances = np.abs(pieces.coefficients) @ self.problem.second_moments.traces
        rounding = _ROUNDING * (variances + np.abs(pieces.offsets))
        relaxation = Relaxation(dual, list(self._atoms))
        relaxation.run(max(tolerance, float(rounding.max())), rounds)
        assert relaxation.best is not None
        self.n_eigenproblems += dual.n_eigenproblems
        self._atoms = [*self._atoms, *relaxation.mixed][-60:]
        return relaxation, relaxation.lower - float(relaxation.best.multipliers @ rounding)
