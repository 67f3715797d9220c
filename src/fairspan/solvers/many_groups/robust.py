"""The robust error gap of more than two groups: descents from many starts, and a bound.

The criterion is the largest of concave functions J_i(e) = sum_g h(v_ig, e_g, eps_g). On a box of
errors each h is at least its chord, so the largest of the chords' sums, which is piecewise linear,
bounds the criterion from below wherever errors lie in the box. The box need only hold subspaces
that beat the best one known. So bounding its sides by the relaxed problem, and taking the chords
again, shrinks it; the gap shrinks with the square of its width.
"""

import numpy as np

from fairspan.certificates.boxes import BoxesProof, chords_of, first_box
from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.rounding import Search, scores_of
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.many_groups.newton import Relaxation
from fairspan.typing import FloatArray

_ROUNDS = 12
_RANDOM_STARTS = 8
# A round that leaves more than this share of the box is the last.
_SHRINKS = 0.9
# Sides of the box are bounded to this share of its width.
_SIDE = 1e-2
# Bounds and sides hold wherever the relaxed problem is left; rounding can stall it for long.
_SIDE_STEPS = 6
# Of the penalty on the value, at least this share to begin with.
_LEAST_SHARE = 0.01
# With many groups the box is shrunk slowly; this many end the search after the round.
_MOST_EIGENPROBLEMS = 4000
# Errors are uncertain by this share of the variance, and the sides of the box are moved by it.
_UNSURE = 1e-14
# Bounds of the relaxed problem are uncertain by this share of the variances in them.
_ROUNDING = 2e-15
# A linear program with larger coefficients than this is solved badly.
_HIGHEST_PRICE = 1e5


class RobustSearch(Search):
    """Upper and lower bounds of the robust error gap."""

    def __init__(self, problem: Problem, tol: float) -> None:
        super().__init__(problem, scores_of(problem), tol)
        self._multipliers: FloatArray | None = None
        self._levels: list[float] = []
        self._n_sides: list[int] = []
        self._sides: list[tuple[int, float, FloatArray]] = []
        self._proof: BoxesProof | None = None

    def run(self) -> None:
        """Descend, then shrink the box of errors until the gap is closed.

        If that leaves a gap, descend from random starts too, and continue from their results.
        """
        first = self.problem.pooled_optimum.vectors
        for start in (first, *(optimum.vectors for optimum in self.problem.group_optima)):
            self.descend_from(start)
        # Of all groups together, and the least and largest error on each.
        self.n_steps += 1 + 3 * self.problem.n_groups
        box = self._narrowed(first_box(self.problem))
        if self.closed:
            return
        before, rng = self.upper, np.random.default_rng(0)
        for _ in range(_RANDOM_STARTS):
            self.descend_from(np.linalg.qr(rng.standard_normal(first.shape))[0])
        if self.upper < before:
            self._narrowed(box)

    def _narrowed(self, box: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Bound and shrink in turn, as long as that helps."""
        low, high = box
        for step in range(_ROUNDS):
            relaxation = self._bounded(low, high)
            start = relaxation.relaxed.leading(self.problem.n_components)
            # Later ones lie where earlier ones led to, unless they are better at once.
            if step == 0 or self.problem.value(start) < self.upper:
                self.descend_from(start)
            if self.closed or self.n_eigenproblems > _MOST_EIGENPROBLEMS:
                break
            width = high - low
            low, high = self._shrunk(low, high, relaxation)
            if (high - low).sum() > _SHRINKS * width.sum():
                break
        return low, high

    def _bounded(self, low: FloatArray, high: FloatArray) -> Relaxation:
        """Solve the relaxed problem of the chords of a box, and take its bound."""
        relaxation, rounding = self._relaxation(
            chords_of(self.problem, low, high), self._multipliers
        )
        relaxation.run(max(self.tolerance / 4, float(rounding.max())))
        lower = self._proven(relaxation, rounding)
        if lower > self.lower:
            self.proven = lower
            weights = relaxation.dual.weights(relaxation.multipliers)
            n_chords = len(relaxation.multipliers)
            self._proof = BoxesProof(
                weights,
                relaxation.multipliers,
                np.array(self._levels),
                np.array(self._n_sides, dtype=np.float64),
                np.array([float(group) for group, _, _ in self._sides]),
                np.array([sign for _, sign, _ in self._sides]),
                np.array([each for _, _, each in self._sides]).reshape(-1, n_chords),
            )
        self._multipliers = relaxation.multipliers
        return relaxation

    def solution(self, solver: str) -> Solution:
        """The best subspace with the bound."""
        assert self.best is not None
        return certified(
            self.problem,
            self.best.basis,
            self._proof if self._proof is not None else self.problem.proportions,
            tol=self.share,
            n_eigenproblems=self.n_eigenproblems,
            trace=self.trace,
            solver=solver,
        )

    def _shrunk(
        self, low: FloatArray, high: FloatArray, relaxation: Relaxation
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds on the errors of every subspace in the box that is not worse than the best."""
        chords, ahead, unsure = (
            chords_of(self.problem, low, high),
            self.upper + self.tolerance,
            # Errors may be off by so much: their roots are steep near zero.
            _UNSURE * self.problem.second_moments.traces,
        )
        model, shares = relaxation.settled
        stiffness = (model.group_factor(shares) ** 2).sum(axis=1)
        open_gap = max(self.upper - relaxation.lower, self.tolerance)
        low, high, n_before = low.copy(), high.copy(), len(self._sides)
        for group, alone in enumerate(np.eye(len(low))):
            width = high[group] - low[group]
            if width <= 4 * unsure[group]:
                continue
            # Beyond the best value the side is paid for, so it is no constraint but a penalty: that
            # which bounds it best if the bound bends there as at its own optimum, and up to twice.
            wanted = float(np.sqrt(stiffness[group] / (2 * open_gap)))
            price = min(max(2 * wanted, width / open_gap), _HIGHEST_PRICE)
            share = min(max(wanted / price, _LEAST_SHARE), 1.0)
            start = np.append(1 - share, share * relaxation.multipliers)
            for sign in (1.0, -1.0):
                rows = np.vstack([sign * alone, sign * alone + price * chords.coefficients])
                offsets = np.append(0.0, price * (chords.offsets + ahead))
                pieces = Pieces(rows, offsets)
                bound, rounding = self._relaxation(pieces, start)
                bound.run(0.0, _SIDE * width, _SIDE_STEPS)
                multipliers = bound.multipliers
                side = self._proven(bound, rounding) - unsure[group]
                self._sides.append((group, sign, price * multipliers[1:]))
                if sign > 0:
                    low[group] = max(low[group], side)
                else:
                    high[group] = min(high[group], -side)
        self._levels.append(ahead)
        self._n_sides.append(len(self._sides) - n_before)
        return low, np.maximum(high, low)

    def _relaxation(
        self, pieces: Pieces, start: FloatArray | None
    ) -> tuple[Relaxation, FloatArray]:
        """The relaxed problem, and what rounding may add to the bound of each piece."""
        variances = np.abs(pieces.coefficients) @ self.problem.second_moments.traces
        rounding = _ROUNDING * (variances + np.abs(pieces.offsets))
        return Relaxation(Dual(self.problem, pieces), start), rounding

    def _proven(self, relaxation: Relaxation, rounding: FloatArray) -> float:
        """The bound of a relaxed problem, less what rounding may have added."""
        self.n_steps += relaxation.dual.n_eigenproblems
        return relaxation.lower - float(relaxation.multipliers @ rounding)
