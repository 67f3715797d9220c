"""Any number of groups: Newton's method on the dual for the bound, descent for the subspace.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by Newton's method on the dual, and the best
subspace, by descent. Their gap is reported; it is called optimal only if it is closed.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from fairspan.certificates.solution import Solution
from fairspan.problem.criteria import declares
from fairspan.problem.parameters import check_choice
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.nash import NashSearch
from fairspan.solvers.many_groups.piecewise import PiecewiseSearch, solve_equal_error
from fairspan.solvers.many_groups.robust import RobustSearch
from fairspan.solvers.projected.eigen_path import EIGEN, projected_solver


@dataclass(frozen=True)
class DualNewton:
    """Solver for every criterion and any number of groups, with a proven gap.

    Parameters
    ----------
    eigen : {"auto", "dense", "projected"}
        As of :class:`fairspan.BoundarySearch`. With more than two groups "auto" does not project
        the robust error gap, whose bound it could only estimate.

    Raises
    ------
    InvalidParameter
        Another word for `eigen`.

    Notes
    -----
    Piecewise linear criteria: the dual first, by Newton steps whose model holds the eigenvalues
    around the cut as a block (:mod:`fairspan.solvers.many_groups.newton`); then, if a gap remains,
    descents from its result. With `allow_extra` the relaxed solution itself is returned if exactly
    d components do not reach it, at d + floor(sqrt(2 k + 1/4) - 3/2) dimensions at most. Equal
    error and the robust error gap build on the same relaxation; Nash welfare has one of its own,
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

    eigen: str = "auto"
    name: ClassVar[str] = "dual_newton"

    def __post_init__(self) -> None:
        check_choice("eigen", self.eigen, EIGEN)

    def objection(self, problem: Problem) -> str | None:
        """None: it takes every problem."""
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
            EqualError where no subspace with equal errors was found; NashWelfare where a group has
            no variance.
        """
        projected = projected_solver(self.eigen, problem, tol, lambda: replace(self, eigen="dense"))
        if projected is not None:
            return projected.solve(problem, tol)
        if problem.pieces is not None:
            search: PiecewiseSearch | NashSearch | RobustSearch
            search = PiecewiseSearch(problem, problem.pieces, tol)
        elif declares(problem.criterion, "wants_equal_errors"):
            return solve_equal_error(problem, tol, self.name)
        elif declares(problem.criterion, "is_logarithmic"):
            search = NashSearch(problem, tol)
        else:
            search = RobustSearch(problem, tol)
        search.run()
        return search.solution(self.name)
