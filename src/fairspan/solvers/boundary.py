"""Exact solutions on the boundary of the two groups' trade-off.

Every boundary point of conv W, W = {(c_1(V), c_2(V))}, is reached by a basis of rank exactly d (see
:mod:`fairspan.solvers.face`), and all criteria here take their optimum there. So nothing is relaxed
and no extra dimension is needed: one symmetric eigenproblem gives one boundary point together with
its supporting line, and the search is over a single weight.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible
from fairspan.problem.criteria import EqualError, MinimaxLoss, NashWelfare
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.branch_and_bound import BranchAndBound
from fairspan.solvers.certificate import certified, mixture_bound, resolution
from fairspan.solvers.eigen_path import check_eigen, projected_solver
from fairspan.solvers.questions import LargestOfTwo, Question, Reach
from fairspan.solvers.segment import SegmentSearch
from fairspan.solvers.solution import Solution, TracePoint

FloatArray = npt.NDArray[np.float64]

# Along (1, -1) the captured variances of the two groups are compared.
_FIRST_AGAINST_SECOND = np.array([1.0, -1.0])


@dataclass(frozen=True)
class BoundarySearch:
    """Every criterion of one and two groups except Nash welfare; total error of any number.

    Parameters
    ----------
    eigen : {"auto", "dense", "projected"}
        How eigenproblems are solved: by LAPACK, of p x p matrices; or inside a subspace of about
        ten times n_components dimensions, which grows until a bound proves that nothing is missed.
        "auto" projects where there are many features for each component; `solution_.eigen` says
        which it was.

    Raises
    ------
    InvalidParameter
        Another word for `eigen`.

    Notes
    -----
    A linear criterion is one eigenproblem. The largest of two linear ones (minimax loss, minimax
    error, error gap) and equal error are a root along a segment of weights, some five of them, ten
    at most on the data sets measured. The robust error gap is not convex: branch and bound on the
    angle of the weights, 10 to 30.

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

    eigen: str = "auto"
    name: ClassVar[str] = "boundary"

    def __post_init__(self) -> None:
        check_eigen(self.eigen)

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        # The pieces of losses take an eigenproblem for each group, so only others are looked at.
        many = problem.n_groups > 2 and not isinstance(problem.criterion, MinimaxLoss)
        linear = many and problem.pieces is not None and len(problem.pieces.offsets) == 1
        nash = isinstance(problem.criterion, NashWelfare)
        if nash and (problem.second_moments.traces <= 0).any():
            return "a group without variance has no logarithm"
        if problem.n_groups == 1 or linear:
            return None
        if problem.n_groups > 2:
            return "it takes one or two groups, except for 'total_error'"
        if nash:
            return "the logarithm needs a search beyond one segment of weights"
        return None

    def solve(self, problem: Problem, tolerance: float, random_state: object = None) -> Solution:
        """Find the optimum.

        Parameters
        ----------
        problem : Problem
        tolerance : float
            Absolute, in squared units of the features.
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
        projected = projected_solver(
            self.eigen, problem, tolerance, lambda: replace(self, eigen="dense")
        )
        if projected is not None:
            return projected.solve(problem, tolerance)
        if problem.n_groups == 1:
            return _single_group(problem, tolerance)
        if isinstance(problem.criterion, EqualError):
            return _equal_error(problem, tolerance)
        if problem.pieces is None:
            return _robust(problem, tolerance)
        if len(problem.pieces.offsets) == 1:
            return _linear(problem, problem.pieces, tolerance)
        return _largest_of_two(problem, problem.pieces, tolerance)


def _linear(problem: Problem, pieces: Pieces, tolerance: float) -> Solution:
    """The leading eigenvectors of one mixture."""
    weights = pieces.coefficients[0]
    if (weights == problem.proportions).all():
        leading = problem.pooled_optimum
    else:
        leading = problem.second_moments.leading(weights, problem.n_components)
    top_sum = leading.top_eigenvalue_sum
    references = pieces.references(problem.second_moments.traces)
    bound = mixture_bound(references, np.ones(1), top_sum)
    return _at_once(problem, leading.vectors, bound, weights, tolerance)


def _single_group(problem: Problem, tolerance: float) -> Solution:
    """Ordinary PCA: every criterion grows with the error of the only group."""
    leading = problem.pooled_optimum
    least = problem.second_moments.traces - leading.top_eigenvalue_sum
    bound = problem.criterion.value(np.maximum(least, 0.0), problem)
    return _at_once(problem, leading.vectors, bound, problem.proportions, tolerance)


def _at_once(
    problem: Problem, basis: FloatArray, bound: float, weights: FloatArray, tolerance: float
) -> Solution:
    return certified(
        problem,
        basis,
        bound,
        weights,
        tolerance=tolerance,
        n_eigenproblems=1,
        trace=[TracePoint(1, bound, problem.value(basis))],
        solver=BoundarySearch.name,
    )


def _largest_of_two(problem: Problem, pieces: Pieces, tolerance: float) -> Solution:
    """Where both pieces agree, or the end at which one stays larger."""
    search = _search(
        problem,
        LargestOfTwo(pieces.coefficients, pieces.references(problem.second_moments.traces)),
        tolerance,
    )
    # At an end with the sign turned, the piece minimised there is the larger one: optimal. That of
    # the larger reference is the likelier one, and then the other end need not be looked at.
    ends = {}
    for which in (1, 0) if search.question.target > 0 else (0, 1):
        # Of an edge at an end, the point nearer to the other end.
        ends[which] = search.end_at(search.touch(float(which)), -np.inf if which else np.inf)
        if ends[which].excess <= 0 if which else ends[which].excess >= 0:
            return _certified(problem, search, tolerance)
    search.close(ends[0], ends[1])
    return _certified(problem, search, tolerance)


def _equal_error(problem: Problem, tolerance: float) -> Solution:
    """The root of e_1 - e_2 along the boundary, from ordinary PCA on."""
    traces = problem.second_moments.traces
    target = float(traces[0] - traces[1])
    if problem.spectra.are_shared(problem.n_components):
        problem.spectra.known(problem.proportions)  # the search starts there
    pca = problem.pooled_optimum
    captured = problem.second_moments.captured_variances(pca.vectors)
    # Turned so that ordinary PCA lies below the target.
    sign = 1.0 if _FIRST_AGAINST_SECOND @ captured <= target else -1.0
    question = Reach(
        problem.proportions,
        problem.total_variance,
        sign * _FIRST_AGAINST_SECOND,
        sign * target,
        exactly=True,
    )
    search = _search(problem, question, tolerance)
    search.close_on_target()
    if search.best.violation > max(tolerance, search.resolution):
        remedy = "Use 'error_gap' with a large penalty, another n_components, or another center"
        if problem.unrestricted is None:
            condition = (
                "zero lies between the sums of the p - d smallest and the p - d largest "
                "eigenvalues of S_1 - S_2"
            )
        else:
            condition = "the restriction leaves such a subspace"
            remedy += ", or leave the restriction out"
        raise Incompatible(
            "The criterion 'equal_error' was asked for, but no subspace of "
            f"{problem.n_components} dimensions has the same error for both groups: "
            f"the least reachable gap is {search.best.violation:.6g}",
            f"Allowed are tables where {condition}",
            remedy,
        )
    return _certified(problem, search, tolerance)


def _robust(problem: Problem, tolerance: float) -> Solution:
    """Branch and bound on the angle of the weights."""
    search = BranchAndBound(problem, tolerance)
    search.run()
    return certified(
        problem,
        search.best.basis,
        search.lower,
        search.best.face.weights,
        tolerance=tolerance,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=BoundarySearch.name,
        supporting_weights=np.array(search.supporting_weights),
    )


def _search(problem: Problem, question: Question, tolerance: float) -> SegmentSearch:
    total = problem.total_variance
    return SegmentSearch(
        problem.second_moments,
        problem.n_components,
        question,
        tolerance,
        share=tolerance / total if total > 0 else 0.0,
        resolution=resolution(problem),
        spectra=problem.spectra,
    )


def _certified(problem: Problem, search: SegmentSearch, tolerance: float) -> Solution:
    return certified(
        problem,
        search.basis,
        search.lower,
        search.weights,
        tolerance=tolerance,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=BoundarySearch.name,
    )
