"""Solver for any number of groups: a relaxation for the bound, local descents for the subspace.

With more than two groups, there may be no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; deciding this is NP-hard if the number of groups is part of the
input). So both sides are computed: the bound by Newton's method on the dual, and the best subspace
by local descent. Their gap is reported, and the solution is called optimal only if it is closed.
"""

from dataclasses import dataclass
from typing import ClassVar

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.evaluate_solution import certify
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion
from fairspan.problem.criteria.equal_error import EqualError
from fairspan.problem.criteria.nash_welfare import NashWelfare
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.nash_search import NashSearch
from fairspan.solvers.many_groups.searches import PiecewiseSearch, RobustSearch
from fairspan.solvers.solver import Solver
from fairspan.solvers.support import not_supported
from fairspan.typing import RandomSource

_NO_SEARCH = (
    "it supports sums of maxima of affine functions of the errors, maxima of concave scores, and "
    "Nash welfare"
)


@dataclass(frozen=True)
class DualNewton(Solver):
    """Solver for any number of groups and every criterion but equal error, with a proven bound.

    Piecewise linear criteria: the dual is solved first, by Newton steps whose model treats the
    eigenvalues around the cut as a cluster (:mod:`fairspan.solvers.many_groups.relaxation`); if a
    gap remains, local descents follow from its solution. With `allow_extra` the relaxed solution
    itself is returned if no subspace of exactly d components attains its value, with at most d +
    floor(sqrt(2 k + 1/4) - 3/2) dimensions. The robust error gap uses the bound of the error gap;
    Nash welfare has its own relaxation (:mod:`fairspan.solvers.many_groups.nash_search`).

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

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        if isinstance(problem.criterion, EqualError):
            return "equal errors are supported by 'boundary' only, for one or two groups"
        has_own_search = isinstance(problem.criterion, ConcaveScoresCriterion | NashWelfare)
        # The pieces of excess losses cost an eigenproblem per group: `solve` finds out for those.
        if has_own_search or problem.criterion.uses_excess_loss or problem.pieces is not None:
            return None
        return _NO_SEARCH

    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
        """Find a subspace with a small objective, and a bound.

        Parameters
        ----------
        problem : Problem
        tol : float
            Relative gap to reach.
        random_state : object
            Ignored: random starts use a fixed seed.

        Returns
        -------
        Certificate

        Raises
        ------
        IncompatibleParameters
            There is no search for the criterion.
        """
        # Each search returns its best basis and keeps the group weights that prove the bound.
        search: PiecewiseSearch | RobustSearch | NashSearch
        if problem.pieces is not None:
            search = PiecewiseSearch(problem, tol)
        elif isinstance(problem.criterion, ConcaveScoresCriterion):
            search = RobustSearch(problem, tol)
        elif isinstance(problem.criterion, NashWelfare):
            search = NashSearch(problem, tol)
        else:
            raise not_supported(self.name, problem, _NO_SEARCH)
        return certify(
            problem,
            search.run(),
            search.weights,
            tol=tol,
            n_eigenproblems=search.n_eigenproblems,
            trace=search.trace,
            solver=self.name,
        )
