"""Any number of groups, piecewise linear criteria: bounds from both sides; and equal errors.

The descent finds a subspace of exactly d dimensions, and multipliers that balance its pieces; these
prove a bound. The gap they leave is narrowed by the relaxation from below and by further descents
from above.

Errors are made equal by a penalty on the error gap, raised until the gap is gone. From some penalty
on, total error plus penalty times the largest gap has the same optimum as total error subject to no
gap, if there is a subspace without one; its bound holds for any penalty.
"""

from dataclasses import replace

import numpy as np

from fairspan.certificates.optimality import certified, rounding_at
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.errors import Incompatible
from fairspan.problem.criteria import ErrorGap
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
from fairspan.solvers.two_groups.equal_errors import proven_gap
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
        best, nearest = self.best, self.relaxation.nearest
        errors = nearest.errors if best is None else self.problem.errors(best.basis)
        least = _LEAST * self.pieces.size(errors)
        # What is lost in rounding may make a relaxed value seem lower than its bound.
        value = max(min(self.upper, self.relaxation.upper), self.lower)
        return max(self.share / 2 * abs(value), least)

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
        pieces = self.pieces
        for further in further_starts(
            self.problem, lambda errors: pieces.blocks.largest(pieces.at(errors)).sum(axis=1)
        ):
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
            value = self.dual.pieces.value(soft.errors(self.problem.second_moments))
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


_PENALTIES = (1.0, 4.0, 16.0, 64.0, 256.0)
# Nearly identical groups take a penalty of one over what they differ by.
_LARGE_PENALTIES = tuple(256.0 * 16.0**power for power in range(1, 7))
# A gap that shrinks to more than this share under a larger penalty stays open.
_LESS = 0.99
# To prove that no penalty will do, the bound on the gap need not be the best.
_STEPS = 30


def solve_equal_error(problem: Problem, tol: float, solver: str) -> Solution:
    """Total error subject to the same error for every group.

    Raises
    ------
    Incompatible
        No subspace with equal errors was found; states the least gap found, and the bound on it.
    """
    # Errors are seldom equal in any subspace, and then that is soon proven.
    gap = PiecewiseSearch(problem, Pieces.total_and_gap(np.zeros(problem.n_groups), 1.0), tol)
    gap.relaxation.run(0.0, 0.0, _STEPS)
    proven = proven_gap(problem, gap.dual.weights(gap.relaxation.multipliers))
    equal = tol * float(problem.proportions @ gap.relaxation.nearest.errors)
    n_searched, trace = 0, [TracePoint(gap.n_eigenproblems, 0.0, np.inf)]
    start: FloatArray | None = None
    weights, apart = problem.proportions, np.inf

    def judged_at(basis: FloatArray) -> Solution:
        count = gap.n_eigenproblems + n_searched
        last = TracePoint(count, trace[-1].lower_bound, problem.value(basis))
        return certified(
            problem,
            basis,
            weights,
            tol=tol,
            n_eigenproblems=count,
            trace=[*trace, last],
            solver=solver,
        )

    for penalty in _PENALTIES + _LARGE_PENALTIES:
        if penalty == _LARGE_PENALTIES[0]:
            start = _least_apart(gap)
            if not _is_equal(problem, start, tol):
                break
        if proven > equal:
            break
        penalised = replace(problem, criterion=ErrorGap(penalty), allow_extra=False)
        assert penalised.pieces is not None
        search = PiecewiseSearch(penalised, penalised.pieces, tol)
        # With a large penalty only the search from before is refined: other starts take long.
        search.run(start, thoroughly=penalty < _LARGE_PENALTIES[0])
        for step in search.trace:
            # A penalised value is no upper bound: errors differ there.
            count = gap.n_eigenproblems + n_searched + step.n_eigenproblems
            lower = max(trace[-1].lower_bound, step.lower_bound)
            trace.append(TracePoint(count, lower, np.inf))
        n_searched += search.n_eigenproblems
        assert search.best is not None
        start = search.best.basis
        weights = search.dual.weights(search.relaxation.multipliers)
        if _is_equal(problem, start, tol):
            return judged_at(start)
        before, apart = apart, float(np.ptp(problem.errors(start)))
        if apart > _LESS * before and not _is_equal(problem, _least_apart(gap), tol):
            break  # a larger penalty finds no smaller gap
        # What the penalty multiplies has weights of its own.
        alone = (weights - problem.proportions) / penalty
        proven = max(proven, proven_gap(problem, alone))
    start = _least_apart(gap)
    if proven <= equal and _is_equal(problem, start, tol):
        return judged_at(start)
    raise Incompatible(
        f"The criterion 'equal_error' was requested, but no subspace of {problem.n_components} "
        f"dimensions with the same error for all {problem.n_groups} groups was found: the least "
        f"gap found is {gap.upper:.6g}, and none is below {max(proven, 0.0):.6g}",
        "Allowed: tables for which equal errors are achievable",
        "Use 'error_gap' with a large penalty, another n_components, or another center",
    )


def _least_apart(gap: PiecewiseSearch) -> FloatArray:
    """The subspace of least gap between errors, found once."""
    if gap.best is None:
        for start in (gap.relaxation.nearest.basis, gap.problem.pooled_optimum.vectors):
            gap.descend_from(start)
    assert gap.best is not None
    return gap.best.basis


def _is_equal(problem: Problem, basis: FloatArray, tol: float) -> bool:
    """Whether errors differ by no more than the tolerance, or than rounding."""
    errors = problem.errors(basis)
    allowed = tol * float(problem.proportions @ errors)
    return bool(np.ptp(errors) <= max(allowed, 2 * rounding_at(problem, basis)))
