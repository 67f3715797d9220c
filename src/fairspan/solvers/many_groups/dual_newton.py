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
from fairspan.solvers.exact_rank.descent import Point
from fairspan.solvers.exact_rank.rank_reduction import reduced
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
        kind: type[PiecewiseSearch | RobustSearch | NashSearch] = PiecewiseSearch
        if problem.pieces is None:
            kind = RobustSearch if problem.criterion.has_concave_scores else NashSearch
        search = kind(problem, tol)
        return certify(
            problem,
            search.run(),
            search.weights,
            tol=tol,
            n_eigenproblems=search.n_eigenproblems,
            trace=search.trace,
            solver=self.name,
        )


class RobustSearch(Search):
    """The robust error gap of more than two groups: descents, and the error gap's dual as bound.

    The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g), and the
    error gap with the same penalty is the largest of sum_g v_g e_g. Since h(v, e, eps) >= v e, no
    subspace has a robust error gap below its error gap, which is at least what the dual of the
    error gap proves. For v >= 0, v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps,
    0 <= sqrt(e) - sqrt(eps) <= sqrt(e), so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps,
    h = 0 >= v e. The bound lacks what the radii add, so the gap is usually open.
    """

    def run(self) -> FloatArray:
        """Descend from principal components, relax, and descend from what there is: a basis."""
        problem, first = self.problem, self.problem.pooled_optimum.vectors
        plain = ErrorGap(cast(ErrorGap, problem.criterion).penalty).pieces(problem)
        relaxation = Relaxation(problem, cast(Pieces, plain))
        self.descend_from(first)
        relaxation.run(self.tolerance / 2)
        self.prove(relaxation.lower, relaxation.weights)
        self.n_eigenproblems += 1 + problem.n_groups + relaxation.n_eigenproblems
        rng = np.random.default_rng(0)
        starts = [next(starts_around(relaxation.relaxed.basis, problem.n_components))]
        starts += [relaxation.nearest.basis, *(best.vectors for best in problem.group_optima)]
        starts += [np.linalg.qr(rng.standard_normal(first.shape))[0] for _ in range(_RANDOM_STARTS)]
        self.descend_from_each(starts, patiently=True)
        return self.best.basis


class PiecewiseSearch(Search):
    """Upper and lower bounds of a sum of maxima of pieces."""

    def run(self) -> FloatArray:
        """Relax; if no atom is the answer, descend from what that found, and from other starts."""
        problem, pieces = self.problem, cast(Pieces, self.problem.pieces)
        self.relaxation = relaxation = Relaxation(problem, pieces)
        # Half of the gap is left for the descent. The value falls on the way, and so the goal.
        for _ in range(_MOST_RUNS):
            tolerance = self.sought(Point.at(problem, relaxation.nearest.basis))
            if relaxation.gap > tolerance / 2:
                relaxation.run(_AIM * tolerance)
        self.n_eigenproblems = relaxation.n_eigenproblems
        self.prove(relaxation.lower, relaxation.weights)
        self.take(Point.at(problem, relaxation.nearest.basis, relaxation.multipliers))
        if self.closed:
            # Where a soft projection met the bound first, the subspace can still be made precise.
            if self.upper - self.lower > _AIM * self.tolerance:
                self.descend_from(self.best.basis)
            return self.best.basis
        # With two groups the relaxed solution itself, reduced, has d dimensions.
        soft = reduced(problem.second_moments, pieces, relaxation.relaxed.basis)
        if soft.shape[1] == problem.n_components:
            self.descend_from(soft)
        starts = starts_around(relaxation.relaxed.basis, problem.n_components)
        self.descend_from_each([*starts, problem.pooled_optimum.vectors])
        if not self.closed:
            self.descend_from_each(further_starts(problem, pieces), patiently=True)
        return self.best_or(soft)

    def sought(self, point: Point) -> float:
        """The gap to reach: a share of the value that is soon the least, or a few roundings."""
        size = cast(Pieces, self.problem.pieces).size(point.errors)
        value = max(min(point.value, self.relaxation.upper), self.relaxation.lower)
        return max(self.share / 2 * abs(value), _LEAST * size)

    def improved(self, local: Point) -> None:
        """Take the bound of its multipliers."""
        self.relaxation.at(local.multipliers)
        self.n_eigenproblems += 1
        self.prove(self.relaxation.lower, self.relaxation.weights)
