"""Any solver, for many features: inside a subspace that grows as needed.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

What W may lack is then bounded (:mod:`fairspan.solvers.subspace_proof`). Where the second moments
are matrices the bound is proven; where they are not, it rests on eigenvectors found by iteration,
which cannot exclude that a larger eigenvalue was missed, and a closed gap is called estimated.
"""

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible
from fairspan.linalg import with_positive_signs
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import EqualError, NashWelfare
from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap
from fairspan.soft_projection import is_soft, retained
from fairspan.solvers.certificate import certified
from fairspan.solvers.grown_space import GrownSpace, SoughtMoments
from fairspan.solvers.protocol import Solver
from fairspan.solvers.solution import Solution, Status
from fairspan.solvers.subspace_proof import SubspaceProof
from fairspan.solvers.supporting_polygon import least_beyond_lines

FloatArray = npt.NDArray[np.float64]

_MOST_ROUNDS = 60
# What W may lack of an eigenvalue sum, as a share of the gap to reach.
_SHARE = 1e-2
# Residuals are made smaller than needed: a ceiling near eigenvalue d is then enough.
_MARGIN = 0.05
# The weights of a mixture still move, so its eigenvectors are first found to this share only.
_FIRST = 1e-6
# A first look at the robust error gap needs no more than this multiple of the gap to reach.
_LOOSE = 1e5
# What float64 can resolve, as a share of the trace.
_ROUNDING = 1e-13
# The angle between the leading eigenvectors found and the true ones, where there is a gap.
_ANGLE = 1e-8
# Rounds that may be spent on that angle alone: the weights move within the gap that is allowed.
_SHARPENED = 2
# Mixtures that join W in one round; the robust error gap rests on dozens.
_MIXTURES = 4
# Directions in which a solution is pulled out of W, as a share of the pull.
_DIRECTION = 1e-9
# Vectors of each group that W starts with, in dimensions of the answer; of all groups together; and
# no more than a number.
_OF_A_GROUP, _OF_ALL, _MOST_OF_A_GROUP = 3, 9, 100
# A subspace of more dimensions than this multiple is cut back.
_MOST_DIMENSIONS = 10
_GUARD = 6


@dataclass(frozen=True)
class GrowingSubspace:
    """A solver of small problems, for large ones.

    Attributes
    ----------
    solver : Solver
    """

    solver: Solver

    @property
    def name(self) -> str:
        """That of the solver inside."""
        return self.solver.name

    def objection(self, problem: Problem) -> str | None:
        """Why the solver cannot take this problem; None if it can."""
        return self.solver.objection(problem)

    def solve(self, problem: Problem, tolerance: float, random_state: Any = None) -> Solution:
        """Find a subspace whose gap is at most `tolerance`.

        Raises
        ------
        Incompatible
            As the solver inside.
        """
        return _Growth(problem, self.solver, tolerance, random_state).run()


class _Growth:
    """One problem, the subspace so far, and what is proven of it."""

    def __init__(
        self, problem: Problem, solver: Solver, tolerance: float, random_state: Any
    ) -> None:
        self.problem, self.solver = problem, solver
        self.tolerance, self.random_state = tolerance, random_state
        self.second = cast(SoughtMoments, problem.second_moments)
        self.n_eigenproblems = 0
        self.least = _ROUNDING * float(self.second.traces.max())
        self.beyond = np.zeros(problem.n_groups)
        self.n_first = self.n_sharpened = 0

    def run(self) -> Solution:
        """Solve within, and grow, until nothing is lacking."""
        space = GrownSpace.of(self.second, self._start())
        self.n_first = space.n_dimensions
        proof = SubspaceProof(self.problem, self.beyond)
        # Branch and bound takes dozens of steps, and what it finds first is not in all dimensions.
        branches = isinstance(self.problem.criterion, RobustErrorGap)
        tolerance = self.tolerance * (_LOOSE if branches else 1.0)
        wider = space
        for _ in range(_MOST_ROUNDS):
            space = wider
            solution = self._within(space, tolerance)
            mixtures = _mixtures_of(solution)
            if proof.is_proven and proof.losses_count:
                mixtures += list(np.eye(self.problem.n_groups))
            goal = self._goal(space, solution)
            lacking = self._lacking(space, solution, mixtures, goal)
            wider = self._wider(space, mixtures, lacking)
            if wider is space and tolerance > self.tolerance:
                tolerance = self.tolerance
                continue
            tolerance = self.tolerance
            if wider is space:
                wider = self._wider(space, mixtures, proof.missing(space, mixtures, goal))
            if wider is space:
                break
        self.n_eigenproblems += proof.n_eigenproblems
        return self._finished(space, solution, proof)

    def _wider(
        self, space: GrownSpace, mixtures: list[FloatArray], columns: FloatArray
    ) -> GrownSpace:
        """With these columns; where it gets large, only what it began with and is needed now."""
        d, n_new = self.problem.n_components, columns.shape[1]
        most = max(_MOST_DIMENSIONS * d, self.n_first + 2 * (d + _GUARD))
        bounded = isinstance(self.second, DenseSecondMoments) and self.problem.pieces is not None
        if n_new == 0 or not bounded or space.n_dimensions + n_new <= most:
            return space.with_columns(columns)
        known = space.ritz_vectors(mixtures[0], min(d + _GUARD, space.n_dimensions))
        return space.first(self.n_first).with_columns(np.hstack([known, columns]))

    def _start(self) -> FloatArray:
        """The groups' own optima, which every criterion is reported against."""
        problem, d, k = self.problem, self.problem.n_components, self.problem.n_groups
        if isinstance(self.second, DenseSecondMoments):
            columns = self._optima_of_groups(self.second)
        else:
            columns = [each.vectors for each in problem.group_optima]
            columns.append(problem.pooled_optimum.vectors)
        if isinstance(problem.criterion, EqualError):
            # Whether errors can be equal shows between the groups' largest differences.
            alone = np.eye(k)
            for a, b in permutations(range(k), 2):
                columns.append(self._sought(alone[a] - alone[b], self.least, d))
        return np.hstack(columns)

    def _optima_of_groups(self, second: DenseSecondMoments) -> list[FloatArray]:
        d, k = self.problem.n_components, self.problem.n_groups
        several = min(_OF_A_GROUP * d, _OF_ALL * d // k, _MOST_OF_A_GROUP)
        n_vectors = min(max(d + _GUARD, several), second.n_features)
        goal = max(_SHARE * _FIRST * self.tolerance, self.least)
        columns = []
        for group, alone in enumerate(np.eye(k)):
            found = second.sought(alone, d, sum_goal=goal, n_vectors=n_vectors)
            self.n_eigenproblems += 1
            second.known.put(alone, d, found.leading)
            self.beyond[group] = found.beyond
            columns.append(found.vectors)
        return columns

    def _sought(
        self, weights: FloatArray, sum_goal: float, d: int, start: FloatArray | None = None
    ) -> FloatArray:
        """Leading eigenvectors of a mixture in all dimensions."""
        self.n_eigenproblems += 1
        goal = sum_goal if isinstance(self.second, DenseSecondMoments) else None
        return self.second.sought(weights, d, start=start, sum_goal=goal).vectors

    def _within(self, space: GrownSpace, tolerance: float) -> Solution:
        problem = self.problem
        inside = replace(problem, second_moments=space.second_moments, unrestricted=problem)
        try:
            solution = self.solver.solve(inside, tolerance, self.random_state)
        except Incompatible as error:
            if not isinstance(problem.criterion, EqualError):
                raise
            raise Incompatible(
                error.args[0],
                "Allowed are tables where some subspace has equal errors",
                "Use 'error_gap' with a large penalty, another n_components, or another center",
            ) from error
        self.n_eigenproblems += solution.n_eigenproblems
        return solution

    def _goal(self, space: GrownSpace, solution: Solution) -> float:
        """What W may lack of an eigenvalue sum."""
        gap, total = self.tolerance, self.problem.total_variance
        # A value far below the total variance is to be as good as its own size asks for.
        if not isinstance(self.problem.criterion, NashWelfare) and total > 0:
            gap *= min(abs(solution.objective) / total, 1.0)
        return max(_SHARE * gap / self._fall(space, solution), self.least)

    def _fall(self, space: GrownSpace, solution: Solution) -> float:
        """By how much the bound falls, at most, per unit that W lacks of an eigenvalue sum."""
        criterion, weight = self.problem.criterion, float(solution.weights.sum())
        if isinstance(criterion, EqualError) and weight > 0:
            # Its bound is that of the mixture divided by the weight of the total error.
            return 1 / weight
        if isinstance(criterion, RobustErrorGap):
            errors = space.second_moments.residual_variances(_coordinates(solution))
            least = max(_ROUNDING * float(self.second.traces.max()), np.finfo(float).tiny)
            errors = np.maximum(errors, least)
            slopes = criterion.gradients(errors, self.problem)
            return max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
        return 1.0

    def _lacking(
        self,
        space: GrownSpace,
        solution: Solution,
        mixtures: list[FloatArray],
        goal: float,
    ) -> FloatArray:
        """Directions that W lacks, as far as its own residuals tell."""
        n_looked_at = min(self.problem.n_components + _GUARD, space.n_dimensions)
        found: list[tuple[float, float, FloatArray]] = []
        for index, weights in enumerate(mixtures):
            # The answer is made of the first one's eigenvectors, so these are to be exact too.
            exact = index == 0 and self.n_sharpened < _SHARPENED
            excess, wanted = self._estimated(space, weights, _MARGIN * goal, exact=exact)
            if excess > wanted:
                found.append((excess / wanted, max(_FIRST * excess, wanted / 4), weights))
        found.sort(key=lambda each: -each[0])
        self.n_sharpened += all(wanted < _MARGIN * goal / 4 for _, wanted, _ in found)
        # A closed gap within needs its leading eigenvectors only.
        settled = solution.status == Status.OPTIMAL and isinstance(self.second, DenseSecondMoments)
        columns = [space.basis[:, :0] if settled else _pull(space, solution)]
        for _, sum_goal, weights in found[:_MIXTURES]:
            start = space.ritz_vectors(weights, n_looked_at)
            columns.append(self._sought(weights, sum_goal, self.problem.n_components, start))
        return np.hstack(columns)

    def _estimated(
        self, space: GrownSpace, weights: FloatArray, wanted: float, *, exact: bool
    ) -> tuple[float, float]:
        """What W lacks of an eigenvalue sum, if it holds all leading vectors; and what it may."""
        d, within = self.problem.n_components, space.mixture(weights)
        values = within.top_values(min(d + _GUARD, space.n_dimensions))
        distance, squares = float(values[d - 1] - values[-1]), within.residual(d)
        if distance <= 0:
            return float(np.sqrt(squares * d)), wanted
        if exact:
            rounding = _ROUNDING * float(np.abs(weights) @ self.second.traces)
            residual = max(_ANGLE * float(values[d - 1] - values[d]), rounding)
            wanted = min(wanted, residual**2 / distance)
        return squares / distance, wanted

    def _finished(self, space: GrownSpace, solution: Solution, proof: SubspaceProof) -> Solution:
        """The solution in all dimensions, with a bound lowered by what W may lack."""
        problem = self.problem
        found = certified(
            problem,
            with_positive_signs(space.basis @ _coordinates(solution)),
            self._lower_bound(space, solution, proof),
            solution.weights,
            tolerance=self.tolerance,
            n_eigenproblems=self.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
            supporting_weights=solution.supporting_weights,
        )
        # With more groups the robust error gap is bounded on a box that is found within W.
        by_box = isinstance(problem.criterion, RobustErrorGap) and problem.n_groups > 2
        proven = proof.is_proven and not by_box
        closed = found.status == Status.OPTIMAL
        eigen = "projected" if isinstance(self.second, DenseSecondMoments) else "matrix-free"
        status = Status.ESTIMATED if closed and not proven else found.status
        trace = [
            replace(step, lower_bound=min(step.lower_bound, found.lower_bound))
            for step in found.trace
        ]
        return replace(found, status=status, eigen=eigen, trace=tuple(trace))

    def _lower_bound(self, space: GrownSpace, solution: Solution, proof: SubspaceProof) -> float:
        problem, lines = self.problem, solution.supporting_weights
        slack = np.array([proof.excess(weights) for weights in _mixtures_of(solution)])
        if lines is None or problem.n_groups != 2 or not slack.any():
            fall = self._fall(space, solution) if slack.any() else 0.0
            bound = solution.lower_bound - fall * float(slack.max())
            return bound - proof.uncertainty_of_losses(space)
        criterion = cast(RobustErrorGap, problem.criterion)
        d = problem.n_components
        within = [float(space.mixture(w).top_values(d).sum()) for w in lines]
        offsets = lines @ self.second.traces - np.array(within) - slack[1:]
        return least_beyond_lines(
            lambda errors: criterion.scores(errors, problem),
            lines,
            offsets,
            self.second.traces,
            _SHARE * self.tolerance,
        )


def _mixtures_of(solution: Solution) -> list[FloatArray]:
    """Weights of all mixtures that the bound rests on, the last one first."""
    lines = solution.supporting_weights
    return [solution.weights, *([] if lines is None else lines)]


def _pull(space: GrownSpace, solution: Solution) -> FloatArray:
    """Directions outside of the subspace in which the solution's mixture pulls its basis.

    A solution with an open gap need not be made of leading eigenvectors.
    """
    basis = _coordinates(solution)
    image = space.image(solution.weights) @ basis
    outside = image - space.basis @ (space.basis.T @ image)
    size = float(np.abs(solution.weights) @ space.full.traces)
    least = max(_DIRECTION * float(np.linalg.norm(image, 2)), _ROUNDING * size)
    if float(np.linalg.norm(outside)) <= least:
        return outside[:, :0]
    return outside


def _coordinates(solution: Solution) -> FloatArray:
    components = solution.components
    return retained(components) if is_soft(components) else components.T
