"""Any number of groups: Newton's method on the dual for the bound, descent for the subspace.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by Newton's method on the dual, and the best
subspace, by descent. Their gap is reported; it is called optimal only if it is closed.

The descent finds multipliers too, which balance the pieces at its subspace and prove a bound. The
gap they leave is narrowed by the relaxation from below and by further descents from above.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import LocalOptimum
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis, reduced
from fairspan.solvers.exact_rank.rounding import (
    Search,
    affine_scores,
    descend_from_each,
    further_starts,
    scores_of,
    starts_around,
)
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.many_groups.nash import NashSearch
from fairspan.solvers.many_groups.newton import Relaxation
from fairspan.solvers.projected.growing_subspace import GrowingSubspace, pays
from fairspan.solvers.protocol import Solver


@dataclass(frozen=True)
class DualNewton(Solver):
    """Solver for every criterion but equal error and any number of groups, with a proven gap.

    Notes
    -----
    Piecewise linear criteria: the dual first, by Newton steps whose model holds the eigenvalues
    around the cut as a block (:mod:`fairspan.solvers.many_groups.newton`); then, if a gap remains,
    descents from its result. With `allow_extra` the relaxed solution itself is returned if exactly
    d components do not reach it, at d + floor(sqrt(2 k + 1/4) - 3/2) dimensions at most. The
    robust error gap takes the bound of the error gap; Nash welfare has a relaxation of its own,
    solved by the method of Frank and Wolfe.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import DualNewton, FairPCA
    >>> X = np.array([[2.0, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "c", "c"]
    >>> fair = FairPCA(1, solver=DualNewton()).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(3), fair.solution_.status.value
    (array([2.667, 2.667, 2.667]), 'optimal')
    """

    name: ClassVar[str] = "dual_newton"

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if problem.criterion.wants_equal_errors:
            return "equal errors are made for one or two groups alone, by 'boundary'"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Find a subspace with a small objective, and a bound.

        Parameters
        ----------
        problem : Problem
        tol : float
            The gap to reach, as a share of the objective.
        random_state : object
            Not used: starts are taken from a fixed sequence.

        Returns
        -------
        Solution

        Raises
        ------
        Incompatible
            NashWelfare where a group has no variance.
        """
        if pays(problem, tol):
            return GrowingSubspace(self).solve(problem, tol)
        return self.solve_dense(problem, tol)

    def solve_dense(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Find it by eigenproblems of whole matrices, and not in a subspace that grows."""
        if problem.pieces is not None:
            search: PiecewiseSearch | NashSearch = PiecewiseSearch(problem, problem.pieces, tol)
        elif problem.criterion.is_logarithmic:
            search = NashSearch(problem, tol)
        else:
            return solve_robust(problem, tol, self.name)
        search.run()
        return search.solution(self.name)


# The relaxation converges so fast that this share of the tolerance takes one step more.
_AIM = 1e-3
# How often the relaxation is solved anew for a gap that is smaller than was thought at first.
_MOST_RUNS = 3
# A few roundings of the errors in a piece.
_LEAST = 1e-15
# Of the robust error gap, beside the groups' own optima and the relaxed one.
_RANDOM_STARTS = 2


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

    def run(self) -> None:
        """Relax; if no atom is the answer, descend from what that found, and from other starts."""
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
        first = self.problem.pooled_optimum.vectors
        around = starts_around(self.relaxation.projector, self.problem.n_components, first)
        descend_from_each(self, around)
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


def solve_robust(problem: Problem, tol: float, solver: str) -> Solution:
    """The robust error gap of more than two groups: descents, and the error gap's dual as bound.

    The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g), and the
    error gap with the same penalty is the largest of sum_g v_g e_g. Since h(v, e, eps) >= v e, no
    subspace has a robust error gap below its error gap, which is at least what the dual of the
    error gap proves. For v >= 0, v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps,
    0 <= sqrt(e) - sqrt(eps) <= sqrt(e), so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps,
    h = 0 >= v e. The bound lacks what the radii add, so the gap is usually open.
    """
    pieces = ErrorGap(problem.robust.penalty).pieces(problem)
    relaxation = Relaxation(Dual(problem, pieces))
    search = Search(problem, scores_of(problem), tol)
    first = problem.pooled_optimum.vectors
    search.descend_from(first)
    relaxation.run(search.tolerance / 2)
    search.proven = relaxation.lower
    search.n_steps += 1 + problem.n_groups + relaxation.dual.n_eigenproblems
    rng = np.random.default_rng(0)
    starts = [relaxation.relaxed.leading(problem.n_components), relaxation.nearest.basis]
    starts += [optimum.vectors for optimum in problem.group_optima]
    starts += [np.linalg.qr(rng.standard_normal(first.shape))[0] for _ in range(_RANDOM_STARTS)]
    for start in starts:
        if not search.closed:
            search.descend_from(start)
    assert search.best is not None
    return certified(
        problem,
        search.best.basis,
        relaxation.dual.weights(relaxation.multipliers),
        tol=tol,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=solver,
    )
