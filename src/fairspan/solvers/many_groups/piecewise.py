"""Any number of groups, piecewise linear criteria: bounds from both sides.

The descent finds a subspace of exactly d dimensions, and multipliers that balance its pieces; these
prove a bound. The gap they leave is narrowed by the relaxation from below and by further descents
from above.
"""

import numpy as np

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import LocalOptimum
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis, reduced
from fairspan.solvers.exact_rank.rounding import (
    LITTLE_PATIENCE,
    Search,
    affine_scores,
    descend_from_each,
    further_starts,
    patience_of,
    starts_around,
)
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.many_groups.newton import Relaxation
from fairspan.typing import FloatArray

# The relaxation converges so fast that this share of the tolerance takes one step more.
_AIM = 1e-3
# How often the relaxation is solved anew for a gap that is smaller than was thought at first.
_MOST_RUNS = 3
# A few roundings of the errors in a piece.
_LEAST = 1e-15


class PiecewiseSearch(Search):
    """Upper and lower bounds of a sum of maxima of pieces.

    Parameters
    ----------
    problem : Problem
    pieces : Pieces
    share : float
        The gap to reach, as a share of the value.
    """

    def __init__(self, problem: Problem, pieces: Pieces, share: float) -> None:
        super().__init__(problem, affine_scores(pieces), share)
        self.pieces, self.dual = pieces, Dual(problem, pieces)
        self.relaxation = Relaxation(self.dual)

    @property
    def lower(self) -> float:
        """No subspace, and no relaxed one, has a smaller value."""
        return self.relaxation.lower

    @property
    def n_eigenproblems(self) -> int:
        """Of descents and relaxation together."""
        return self.dual.n_eigenproblems + self.n_steps

    @property
    def tolerance(self) -> float:
        """The gap to reach, absolute: a share of the best value, or a few roundings."""
        errors = self._errors_so_far
        least = _LEAST * self.pieces.size(errors)
        # What is lost in rounding may make a relaxed value seem lower than its bound.
        value = max(min(self.upper, self.relaxation.upper), self.lower)
        return max(self.share / 2 * abs(value), least)

    @property
    def _errors_so_far(self) -> FloatArray:
        if self.best is not None:
            return self.problem.errors(self.best.basis)
        return self.relaxation.nearest.errors

    def run(self, start: FloatArray | None = None, *, thoroughly: bool = True) -> None:
        """Relax; if no atom is the answer, descend from what that found, and from a basis.

        Thoroughly means from many more starts, as long as the gap is open.
        """
        self._relax()
        self._take_atom()
        if self.closed:
            # Where a soft projection met the bound first, the subspace can still be made precise.
            if self.upper - self.lower > _AIM * self.tolerance:
                assert self.best is not None
                self.descend_from(self.best.basis)
            return
        # With two groups the relaxed solution itself, reduced, has d dimensions.
        soft = self.soft_basis()
        if not len(soft.shares):
            self.descend_from(soft.whole)
        first = self.problem.pooled_optimum.vectors if start is None else start
        around = starts_around(self.relaxation.projector, self.problem.n_components, first)
        patience = patience_of(self.problem) if thoroughly else LITTLE_PATIENCE
        descend_from_each(self, around, patience)
        if not thoroughly:
            return
        for further in further_starts(self.problem, self._values_at):
            if self.closed:
                return
            self.descend_from(further)

    def _relax(self) -> None:
        """Close the gap of the relaxed problem; half of it leaves half for the descent."""
        for _ in range(_MOST_RUNS):
            # The value falls on the way, and with it the gap to reach.
            goal = self.tolerance
            if self.relaxation.gap > goal / 2:
                self.relaxation.run(_AIM * goal)
            if self.relaxation.gap <= self.tolerance / 2:
                return

    def improved(self, local: LocalOptimum) -> None:
        """Take the bound of its multipliers."""
        self.relaxation.take(self.dual.at(local.multipliers))

    def _values_at(self, errors: FloatArray) -> FloatArray:
        """Of (n, k) errors, shape (n,)."""
        pieces = self.pieces
        values = errors @ pieces.coefficients.T - pieces.offsets
        return np.asarray(pieces.blocks.largest(values).sum(axis=1))

    def _take_atom(self) -> None:
        """Take the relaxation's best subspace, without a descent."""
        relaxation, problem = self.relaxation, self.problem
        basis = relaxation.nearest.basis
        value = self.pieces.value(problem.errors(basis))
        if value < self.upper:
            multipliers = relaxation.multipliers
            self.best = LocalOptimum(basis, value, self.dual.weights(multipliers), multipliers, 0)
        self.note()

    def soft_basis(self) -> SoftBasis:
        """The relaxed solution at the least rank."""
        soft = SoftBasis.of(self.relaxation.projector, self.problem.n_components)
        return reduced(self.dual, soft)

    def solution(self, solver: str) -> Solution:
        """The best subspace, or with `allow_extra` a soft projection if that is better."""
        assert self.best is not None
        basis = self.best.basis
        if self.problem.allow_extra and not self.closed:
            soft = self.soft_basis()
            value = self.dual.value(soft.errors(self.problem.second_moments))
            basis = soft.basis if value < self.upper else basis
        return certified(
            self.problem,
            basis,
            self.dual.weights(self.relaxation.multipliers),
            tol=self.share,
            n_eigenproblems=self.n_eigenproblems,
            trace=self.trace,
            solver=solver,
        )
