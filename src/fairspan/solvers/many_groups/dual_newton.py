"""Any number of groups: the relaxation for the bound, descents for the subspace.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by Newton's method on the dual, and the best
subspace, by descent. Their gap is reported; it is called optimal only if it is closed.

The descent finds multipliers too, which balance the pieces at its subspace and prove a bound. The
gap they leave is narrowed by the relaxation from below and by further descents from above.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver
from fairspan.certificates.optimality import certify
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import Point, Scores
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis, reduced
from fairspan.solvers.exact_rank.starts import Search, further_starts, starts_around
from fairspan.solvers.many_groups.nash import NashSearch
from fairspan.solvers.many_groups.relaxation import Relaxation
from fairspan.typing import FloatArray

# The relaxation converges so fast that this share of the tolerance takes one step more.
_AIM = 1e-3
# How often the relaxation is solved anew for a gap that is smaller than was thought at first.
_MOST_RUNS = 3
# A few roundings of the errors in a piece.
_LEAST = 1e-15
# Of the robust error gap, beside the groups' own optima and the relaxed one.
_RANDOM_STARTS = 2


@dataclass(frozen=True)
class DualNewton(Solver):
    """Solver for every criterion but equal error and any number of groups, with a proven gap.

    Notes
    -----
    Piecewise linear criteria: the dual first, by Newton steps whose model holds the eigenvalues
    around the cut as a block (:mod:`fairspan.solvers.many_groups.relaxation`); then, if a gap
    remains, descents from its result. With `allow_extra` the relaxed solution itself is returned if
    exactly d components do not reach it, at d + floor(sqrt(2 k + 1/4) - 3/2) dimensions at most.
    The robust error gap takes the bound of the error gap; Nash welfare has a relaxation of its own
    (:mod:`fairspan.solvers.many_groups.nash`).

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

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
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
        Certificate

        Raises
        ------
        Incompatible
            NashWelfare where a group has no variance.
        """
        if problem.pieces is not None:
            search: PiecewiseSearch | NashSearch = PiecewiseSearch(problem, problem.pieces, tol)
        elif not problem.criterion.has_concave_scores:
            search = NashSearch(problem, tol)
        else:
            return solve_robust(problem, tol, self.name)
        search.run()
        return certify(
            problem,
            search.basis(),
            search.weights,
            tol=tol,
            n_eigenproblems=search.n_eigenproblems,
            trace=search.trace,
            solver=self.name,
        )


def solve_robust(problem: Problem, tol: float, solver: str) -> Certificate:
    """The robust error gap of more than two groups: descents, and the error gap's dual as bound.

    The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g), and the
    error gap with the same penalty is the largest of sum_g v_g e_g. Since h(v, e, eps) >= v e, no
    subspace has a robust error gap below its error gap, which is at least what the dual of the
    error gap proves. For v >= 0, v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps,
    0 <= sqrt(e) - sqrt(eps) <= sqrt(e), so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps,
    h = 0 >= v e. The bound lacks what the radii add, so the gap is usually open.
    """
    plain = cast(Pieces, ErrorGap(cast(ErrorGap, problem.criterion).penalty).pieces(problem))
    relaxation = Relaxation(problem, plain)
    search = Search(problem, Scores.of(problem), tol)
    first = problem.pooled_optimum.vectors
    search.descend_from(first)
    relaxation.run(search.tolerance / 2)
    search.lower = relaxation.lower
    search.n_eigenproblems += 1 + problem.n_groups + relaxation.n_eigenproblems
    rng = np.random.default_rng(0)
    starts = [next(starts_around(relaxation.projector, problem.n_components))]
    starts.append(relaxation.nearest.basis)
    starts += [optimum.vectors for optimum in problem.group_optima]
    starts += [np.linalg.qr(rng.standard_normal(first.shape))[0] for _ in range(_RANDOM_STARTS)]
    for start in starts:
        if not search.closed:
            search.descend_from(start)
    assert search.best is not None
    return certify(
        problem,
        search.best.basis,
        relaxation.weights,
        tol=tol,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=solver,
    )


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
        super().__init__(problem, Scores.affine(pieces), share)
        self.pieces, self.relaxation = pieces, Relaxation(problem, pieces)
        self._n_counted = 0

    @property
    def weights(self) -> FloatArray:
        """Those that prove the bound, shape (k,)."""
        return self.relaxation.weights

    @property
    def tolerance(self) -> float:
        """The gap to reach, absolute: a share of the best value, or a few roundings."""
        best, nearest = self.best, self.relaxation.nearest
        errors = nearest.errors if best is None else self.problem.errors(best.basis)
        # What is lost in rounding may make a relaxed value seem lower than its bound.
        value = max(min(self.upper, self.relaxation.upper), self.relaxation.lower)
        return max(self.share / 2 * abs(value), _LEAST * self.pieces.size(errors))

    def run(self) -> None:
        """Relax; if no atom is the answer, descend from what that found, and from other starts."""
        relaxation, pieces = self.relaxation, self.pieces
        # Half of the gap is left for the descent. The value falls on the way, and so the goal.
        for _ in range(_MOST_RUNS):
            if relaxation.gap > self.tolerance / 2:
                relaxation.run(_AIM * self.tolerance)
        heights = pieces.at(relaxation.nearest.errors)
        self.best = Point(
            relaxation.nearest.basis, pieces.blocks.value(heights), heights, relaxation.multipliers
        )
        self._take_bound()
        self.note()
        if self.closed:
            # Where a soft projection met the bound first, the subspace can still be made precise.
            if self.upper - self.lower > _AIM * self.tolerance:
                self.descend_from(self.best.basis)
            return
        # With two groups the relaxed solution itself, reduced, has d dimensions.
        soft = self.soft_basis()
        if not len(soft.shares):
            self.descend_from(soft.whole)
        first = self.problem.pooled_optimum.vectors
        self.descend_from_each(
            starts_around(relaxation.projector, self.problem.n_components, first)
        )
        for further in further_starts(
            self.problem, lambda errors: pieces.blocks.largest(pieces.at(errors)).sum(axis=1)
        ):
            if self.closed:
                return
            self.descend_from(further)

    def improved(self, local: Point) -> None:
        """Take the bound of its multipliers."""
        self.relaxation.at(local.multipliers)
        self._take_bound()

    def _take_bound(self) -> None:
        self.n_eigenproblems += self.relaxation.n_eigenproblems - self._n_counted
        self._n_counted, self.lower = self.relaxation.n_eigenproblems, self.relaxation.lower

    def soft_basis(self) -> SoftBasis:
        """The relaxed solution at the least rank."""
        soft = SoftBasis.of(self.relaxation.projector, self.problem.n_components)
        return reduced(self.problem.second_moments, self.pieces, soft)

    def basis(self) -> FloatArray:
        """The best subspace, or with `allow_extra` a soft projection if that is better."""
        assert self.best is not None
        if self.problem.allow_extra and not self.closed:
            soft = self.soft_basis()
            if self.pieces.value(soft.errors(self.problem.second_moments)) < self.upper:
                return soft.basis
        return self.best.basis
