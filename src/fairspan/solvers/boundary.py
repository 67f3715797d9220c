"""Exact solutions on the boundary of the two groups' trade-off.

Every boundary point of conv W, W = {(c_1(V), c_2(V))}, is reached by a basis of rank exactly d (see
:mod:`fairspan.solvers.face`), and all criteria here take their optimum there. So nothing is relaxed
and no extra dimension is needed: one symmetric eigenproblem gives one boundary point together with
its supporting line, and the search is over a single weight.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible, InvalidParameter
from fairspan.problem.criteria import MinimaxLoss, TotalError
from fairspan.problem.problem import Problem
from fairspan.solvers.bracket import Bracket, BracketEnd
from fairspan.solvers.certificate import certified, mixture_bound, resolution
from fairspan.solvers.face import Face
from fairspan.solvers.solution import Solution, TracePoint

FloatArray = npt.NDArray[np.float64]

# Along h = (1, -1) the captured variances of the two groups are compared.
_DIRECTION = np.array([1.0, -1.0])
# Near-ties count as ties up to this share of the gap to reach for each component, so that a nearly
# flat edge is walked along instead of bisected down to rounding.
_TIE_SHARE = 1 / 16
# Bisection alone would reach float64's resolution in 53 steps.
_MAX_STEPS = 120


@dataclass(frozen=True)
class BoundarySearch:
    """Total error for any number of groups, minimax loss and error for one or two groups.

    Parameters
    ----------
    eigen : {"auto", "dense"}
        How eigenproblems are solved; both are dense LAPACK.
    """

    eigen: str = "auto"
    name: ClassVar[str] = "boundary"

    def __post_init__(self) -> None:
        if self.eigen not in ("auto", "dense"):
            raise InvalidParameter(
                f"eigen is {self.eigen!r}", "Allowed are 'auto' and 'dense'", "Use 'auto'"
            )

    def check(self, problem: Problem) -> None:
        """Raise Incompatible for a minimax criterion of more than two groups."""
        if problem.n_groups > 2 and not isinstance(problem.criterion, TotalError):
            raise Incompatible(
                f"The criterion {problem.criterion.name!r} was asked for {problem.n_groups} groups",
                "The solver 'boundary' takes it for one or two groups; "
                "'total_error' and fairspan.audit work for any number",
                "Join groups until two are left, or use criterion='total_error'",
            )

    def solve(self, problem: Problem, tolerance: float) -> Solution:
        """Find the optimum.

        Parameters
        ----------
        problem : Problem
        tolerance : float
            Absolute, in squared units of the features.

        Returns
        -------
        Solution
        """
        self.check(problem)
        if isinstance(problem.criterion, TotalError) or problem.n_groups == 1:
            return _pooled(problem, tolerance)
        return _minimax(problem, tolerance)


def _pooled(problem: Problem, tolerance: float) -> Solution:
    """Ordinary PCA: the leading eigenvectors of the pooled second moment."""
    weights = problem.proportions
    leading = problem.second_moments.leading(weights, problem.n_components)
    references, best_errors = problem.second_moments.traces, np.zeros(problem.n_groups)
    if isinstance(problem.criterion, MinimaxLoss):  # of a single group
        references = np.array([leading.top_eigenvalue_sum])
        best_errors = problem.errors(leading.vectors)
    bound = mixture_bound(references, weights, leading.top_eigenvalue_sum)
    solution = certified(
        problem,
        leading.vectors,
        best_errors,
        bound,
        weights,
        tolerance=tolerance,
        n_eigenproblems=1,
        trace=[],
        solver=BoundarySearch.name,
    )
    only = TracePoint(1, solution.lower_bound, solution.objective)
    return replace(solution, trace=(only,))


@dataclass
class _Search:
    """Bounds found so far on min over V of max_g (a_g - c_g(V))."""

    problem: Problem
    references: FloatArray
    tolerance: float
    n_eigenproblems: int = 2
    lower: float = -np.inf
    upper: float = np.inf
    weights: FloatArray = field(default_factory=lambda: np.empty(2))
    basis: FloatArray = field(default_factory=lambda: np.empty(0))
    trace: list[TracePoint] = field(default_factory=list)

    @property
    def target(self) -> float:
        """The difference c_1 - c_2 at which both groups have the same value."""
        return float(self.references[0] - self.references[1])

    @property
    def closed(self) -> bool:
        """Whether the best subspace is proven as good as can be asked for."""
        return self.upper - self.lower <= self.goal

    @property
    def goal(self) -> float:
        """The gap to reach: the tolerance, taken as a share of the value itself if that is less.

        One column of large numbers can make the total variance exceed every loss by far. A gap that
        is small beside the total may then still be larger than the loss of ordinary PCA.
        """
        total = self.problem.total_variance
        share = self.tolerance / total if total > 0 else 0.0
        return max(min(self.tolerance, share * self.upper), resolution(self.problem))

    def face_at(self, weight: float) -> Face:
        """Leading subspaces of t S_1 + (1 - t) S_2, and the bound that they prove."""
        weights = np.array([weight, 1 - weight])
        tie = _TIE_SHARE * self.goal / self.problem.n_components
        leading = self.problem.second_moments.leading(weights, self.problem.n_components, tie)
        self.n_eigenproblems += 1
        return self.looked_at(Face.of(self.problem.second_moments, weights, leading, _DIRECTION))

    def looked_at(self, face: Face) -> Face:
        """Take the bound of a face."""
        total = face.leading.top_eigenvalue_sum
        bound = mixture_bound(self.references, face.weights, total)
        if bound > self.lower:
            self.lower, self.weights = bound, face.weights
        return face

    def try_basis(self, basis: FloatArray) -> FloatArray:
        """Take a subspace if it is the best so far; return a_g - c_g of both groups."""
        values = self.references - self.problem.second_moments.captured_variances(basis)
        if values.max() < self.upper:
            self.upper, self.basis = float(values.max()), basis
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))
        return values


def _minimax(problem: Problem, tolerance: float) -> Solution:
    """Find the weight t at which both values a_g - c_g agree, or the end at which one stays larger.

    c_1 - c_2 at the leading subspace of t S_1 + (1 - t) S_2 does not decrease in t. Where it jumps
    over the target, the leading subspace is tied and the edge between both sides is walked along.
    """
    is_loss = isinstance(problem.criterion, MinimaxLoss)
    totals = problem.top_eigenvalue_sums
    search = _Search(problem, totals if is_loss else problem.second_moments.traces, tolerance)
    second_alone, first_alone = (
        search.looked_at(Face.of(problem.second_moments, np.array([t, 1 - t]), own, _DIRECTION))
        for t, own in ((0.0, problem.group_optima[1]), (1.0, problem.group_optima[0]))
    )
    left = _end(search, second_alone, second_alone.high)
    right = _end(search, first_alone, first_alone.low)
    # At an end with the sign turned, the group served best already has the larger value: optimal.
    if left.excess < 0 < right.excess:
        _close_bracket(search, Bracket(left, right))
    return certified(
        problem,
        search.basis,
        problem.best_errors,
        search.lower,
        search.weights,
        tolerance=tolerance,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=BoundarySearch.name,
    )


def _end(search: _Search, face: Face, position: float) -> BracketEnd:
    values = search.try_basis(face.basis_at(position))
    return BracketEnd(float(face.weights[0]), position - search.target, values)


def _close_bracket(search: _Search, bracket: Bracket) -> None:
    """Narrow the bracket until the gap is closed or no weight is left between its ends."""
    for _ in range(_MAX_STEPS):
        weight = bracket.next_weight()
        if search.closed or weight is None:
            return
        face = search.face_at(weight)
        if face.low <= search.target <= face.high:
            search.try_basis(face.basis_at(search.target))
            # On an edge no other weight can do better; at a point the gap tells.
            if face.leading.is_tied:
                return
        position = face.low if face.low > search.target else face.high
        bracket.narrow(_end(search, face, position))
