"""Exact solutions on the boundary of the two groups' trade-off.

Every boundary point of conv W, W = {(c_1(V), c_2(V))}, is reached by a basis of rank exactly d (see
:mod:`fairspan.solvers.two_groups.contact`), and all criteria here take their optimum there. So
nothing is relaxed and no extra dimension is needed: one symmetric eigenproblem gives one boundary
point together with its supporting line, and the search is over a single weight.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairspan.certificates.optimality import certified, goal
from fairspan.certificates.proof import LinesProof
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.problem.criteria import declares
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.projected.growing_subspace import GrowingSubspace, pays
from fairspan.solvers.two_groups.branch_and_bound import BranchAndBound
from fairspan.solvers.two_groups.equal_errors import solve_equal_errors
from fairspan.solvers.two_groups.root_search import Reached, RootSearch
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class BoundarySearch:
    """Exact solver for one or two groups, for every criterion except Nash welfare.

    Notes
    -----
    A linear criterion takes one eigenproblem. The largest of two linear ones (minimax loss,
    minimax error, error gap) and equal error require a root along a segment of weights, with about
    seven eigenproblems. The robust error gap is not convex; branch and bound on the angle of the
    weights takes 10 to 30.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import BoundarySearch, FairPCA
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> fair = FairPCA(1, solver=BoundarySearch()).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(3), fair.solution_.status.value
    (array([2.421, 2.421]), 'optimal')
    """

    name: ClassVar[str] = "boundary"

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        # The pieces of losses take an eigenproblem for each group, so only others are looked at.
        many = problem.n_groups > 2 and not declares(problem.criterion, "measures_losses")
        linear = many and problem.pieces is not None and problem.pieces.is_linear
        nash = declares(problem.criterion, "is_logarithmic")
        if nash and problem.has_group_without_variance:
            return "a group without variance has no logarithm"
        if problem.n_groups == 1 or linear:
            return None
        if problem.n_groups > 2:
            return "it takes one or two groups, except for 'total_error'"
        if nash:
            return "the logarithm needs a search beyond one segment of weights"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Find the optimum.

        Parameters
        ----------
        problem : Problem
        tol : float
            The gap to reach, as a share of the objective.
        random_state : object
            Not used: nothing here is random.

        Returns
        -------
        Solution

        Raises
        ------
        Incompatible
            EqualError where no subspace has equal errors.
        """
        if pays(problem, tol):
            return GrowingSubspace(self).solve(problem, tol)
        return self.solve_dense(problem, tol)

    def solve_dense(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Find it by eigenproblems of whole matrices, and not in a subspace that grows."""
        if problem.n_groups == 1:
            # Ordinary PCA: every criterion grows with the error of the only group.
            return _linear(problem, problem.proportions, tol)
        if declares(problem.criterion, "wants_equal_errors"):
            return solve_equal_errors(problem, tol, self.name)
        if problem.pieces is None:
            # Branch and bound on the angle of the weights.
            search = BranchAndBound(problem, tol)
            search.run()
            return certified(
                problem,
                search.best.basis,
                LinesProof(search.best.face.weights, np.array(search.supporting_weights)),
                tol=tol,
                n_eigenproblems=search.n_eigenproblems,
                trace=search.trace,
                solver=self.name,
            )
        if problem.pieces.is_linear:
            return _linear(problem, problem.pieces.coefficients.sum(axis=0), tol)
        return _largest_of_two(problem, problem.pieces, tol)


def _linear(problem: Problem, weights: FloatArray, tol: float) -> Solution:
    """The leading eigenvectors of one mixture."""
    basis = problem.second_moments.leading(weights, problem.n_components).vectors
    solution = certified(
        problem,
        basis,
        weights,
        tol=tol,
        n_eigenproblems=1,
        trace=[],
        solver=BoundarySearch.name,
    )
    return replace(solution, trace=(TracePoint(1, solution.lower_bound, solution.objective),))


def _largest_of_two(problem: Problem, pieces: Pieces, tol: float) -> Solution:
    """Where both pieces agree, or the end at which one stays larger."""

    def reached_at(basis: FloatArray) -> Reached:
        errors = problem.errors(basis)
        first, second = pieces.at(errors)
        return Reached((float(first), float(second)), goal(problem, errors, tol))

    search = RootSearch(
        problem.second_moments,  # type: ignore[arg-type]
        problem.n_components,
        pieces.coefficients,
        reached_at,
    )
    left = search.contact(0.0)
    # At an end where the piece that is least there is the larger one as well, that is the optimum.
    if search.excess(left.values) > 0:
        right = search.contact(1.0)
        if search.excess(right.values) < 0:
            search.close(left, right)
    return certified(
        problem,
        search.basis,
        search.weights,
        tol=tol,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=BoundarySearch.name,
    )
