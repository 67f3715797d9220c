"""Any number of groups: Newton's method on the dual for the bound, descent for the subspace.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by Newton's method on the dual, and the best
subspace, by descent. Their gap is reported; it is called optimal only if it is closed.
"""

from dataclasses import dataclass
from typing import ClassVar

from fairspan.certificates.solution import Solution
from fairspan.problem.criteria import declares
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.nash import NashSearch
from fairspan.solvers.many_groups.piecewise import PiecewiseSearch, solve_robust
from fairspan.solvers.projected.growing_subspace import GrowingSubspace, pays


@dataclass(frozen=True)
class DualNewton:
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
        if declares(problem.criterion, "wants_equal_errors"):
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
        elif declares(problem.criterion, "is_logarithmic"):
            search = NashSearch(problem, tol)
        else:
            return solve_robust(problem, tol, self.name)
        search.run()
        return search.solution(self.name)
