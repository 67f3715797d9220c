"""Any solver, for many features: inside a subspace that grows as needed.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

What W may lack is then bounded (:mod:`fairspan.solvers.projected.subspace_proof`). Where the second
moments are matrices the bound is proven, and where no small W will do, as with nearly flat spectra,
the problem is soon solved without one. Where they are no matrices, it rests on eigenvectors found
by iteration, which cannot exclude that a larger eigenvalue was missed, and a closed gap is called
estimated.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.certificates.solution import Solution, Status
from fairspan.errors import Incompatible
from fairspan.linalg import IterativeSubspace
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import declares
from fairspan.problem.problem import Problem
from fairspan.solvers.projected.grown_space import GrownSpace, SoughtMoments
from fairspan.solvers.projected.in_all_features import (
    coordinates_of,
    fall_of_bound,
    in_all_features,
    mixtures_of,
)
from fairspan.solvers.projected.subspace_proof import GOOD_ENOUGH, SubspaceProof
from fairspan.solvers.protocol import Solver
from fairspan.typing import FloatArray

_MOST_ROUNDS = 60
# After so many LAPACK takes over, where it can; and where so many in a row left a gap open within.
_ROUNDS_OF_MATRICES, _ROUNDS_LEFT_OPEN = 12, 5
# What W may lack of an eigenvalue sum, as a share of the gap to reach.
_SHARE = 0.25
# The same where nothing is proven.
_SHARE_ESTIMATED = 1e-3
# The share of that gap within W: up to GOOD_ENOUGH of the other share come on top.
_WITHIN = 0.25
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
        """Find a subspace whose gap is at most `tolerance`, a share of the objective.

        Raises
        ------
        Incompatible
            As the solver inside.
        """
        growth = _Growth(problem, self.solver, tolerance, random_state)
        if not isinstance(problem.second_moments, DenseSecondMoments):
            return growth.run(_MOST_ROUNDS)
        try:
            return growth.run(_ROUNDS_OF_MATRICES)
        except (NoSmallSubspace, Incompatible):
            # That nothing is compatible within W says nothing of all dimensions.
            anew = _from_matrices_alone(problem)
        solution = self.solver.solve(anew, tolerance, random_state)
        n_eigenproblems = growth.n_eigenproblems + solution.n_eigenproblems
        return replace(solution, n_eigenproblems=n_eigenproblems)


def _from_matrices_alone(problem: Problem) -> Problem:
    """The same, with nothing that was found by iteration, be it wrong; that is forgotten."""
    second = cast(DenseSecondMoments, problem.second_moments)
    anew = DenseSecondMoments(second.matrices, second.outside, second.offset_rounding)
    second.known.clear()
    problem.forget_group_optima()
    return replace(problem, second_moments=anew)


class NoSmallSubspace(Exception):
    """A subspace of few dimensions proves nothing: it is never raised to users."""


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
        self.n_held = self.second.n_held(problem.n_components)
        self.proof = SubspaceProof(problem, self.n_held)
        self.n_first = self.n_sharpened = 0

    @property
    def iterates(self) -> bool:
        """Whether leading eigenvectors are sought by iteration, not by LAPACK."""
        second: object = self.second
        if not isinstance(second, DenseSecondMoments):
            return True
        return second.iterates(self.problem.n_components)

    @property
    def is_linear(self) -> bool:
        """Whether the answer is the leading eigenvectors of a mixture known beforehand."""
        pieces = self.problem.pieces
        return pieces is not None and pieces.is_linear

    def run(self, n_rounds: int) -> Solution:
        """Solve within, and grow, until nothing is lacking.

        Raises
        ------
        NoSmallSubspace
            Second moments are matrices, and something is lacking after all rounds.
        """
        first, *others = self._start()
        wider = GrownSpace.of(self.second, first).with_columns(np.hstack([first[:, :0], *others]))
        self.n_first = wider.n_dimensions
        # Branch and bound takes dozens of steps, and what it finds first is not in all dimensions.
        loose = declares(self.problem.criterion, "has_concave_scores")
        n_open, matrices = 0, self.proof.is_proven
        for _ in range(n_rounds):
            space = wider
            solution = self._within(space, self.tolerance * (_LOOSE if loose else _WITHIN))
            n_open = n_open + 1 if solution.status == Status.OPEN_GAP else 0
            wider = self._grown(space, solution, loose=loose)
            if (wider is space and not loose) or (matrices and n_open == _ROUNDS_LEFT_OPEN):
                break
            loose = False
        self.n_eigenproblems += self.proof.n_eigenproblems
        if matrices and wider is not space:
            raise NoSmallSubspace
        if self.proof.uncertainty_of_losses(space) > self.tolerance * solution.scale:
            raise NoSmallSubspace
        found = in_all_features(
            self.problem, space, solution, self.proof, self.tolerance, self.n_eigenproblems
        )
        # Two groups leave a gap open for no other reason.
        closes = solution.status in (Status.OPTIMAL, Status.UNRESOLVED)
        closes |= self.problem.n_groups == 2
        if matrices and closes and found.status is not Status.OPTIMAL:
            # Rounding is in the way here, of which there is less without a subspace.
            raise NoSmallSubspace
        return found

    def _grown(self, space: GrownSpace, solution: Solution, *, loose: bool) -> GrownSpace:
        """With all directions that W lacks; the same object if what it may lack is bounded."""
        mixtures = mixtures_of(solution)
        mixtures += self.proof.open_groups()
        goal = self._goal(space, solution)
        wider = self._wider(space, solution, mixtures, goal)
        if wider is space and not loose:
            return space.with_columns(self.proof.missing(space, mixtures, goal))
        return wider

    def _wider(
        self, space: GrownSpace, solution: Solution, mixtures: list[FloatArray], goal: float
    ) -> GrownSpace:
        """With directions that W lacks, as far as its own residuals tell; else the same object."""
        second, problem = self.second, self.problem
        matrices = isinstance(second, DenseSecondMoments)
        # A closed gap within needs its leading eigenvectors only.
        settled = solution.status == Status.OPTIMAL and matrices
        columns = [space.basis[:, :0] if settled else _pull(space, solution)]
        d, lacking = problem.n_components, self._lacking(space, mixtures, goal)
        around = settled and not self.iterates and problem.n_groups == 2
        if around and problem.pieces is not None and lacking:
            return self._around(mixtures[0])
        n_looked_at = min(self.n_held, space.n_dimensions)
        found = []
        for sum_goal, weights in lacking[:_MIXTURES]:
            start = space.ritz_vectors(weights, n_looked_at)
            found.append((weights, self._sought(weights, sum_goal, start)))
        columns += [each.vectors for _, each in found]
        most = max(_MOST_DIMENSIONS * d, self.n_first + 2 * self.n_held)
        n_dimensions = space.n_dimensions + sum(each.shape[1] for each in columns)
        if not matrices or problem.pieces is None or n_dimensions <= most:
            return space.with_columns(np.hstack(columns))
        # Where it gets large, only what it began with and what is needed now.
        known = space.ritz_vectors(mixtures[0], n_looked_at)
        self.proof.start_anew()
        if not self.iterates:
            for weights, each in found:
                self.proof.take_exact(weights, each)
        return space.first(self.n_first).with_columns(np.hstack([known, *columns]))

    def _around(self, weights: FloatArray) -> GrownSpace:
        """The leading eigenvectors of a mixture, and how they turn with its weights.

        To first order they turn within their images by either second moment.
        """
        self.proof.start_anew()
        space = GrownSpace.of(self.second, self._sought(weights, self.least).vectors)
        return space.with_columns(space.images[0][:, : self.problem.n_components])

    def _start(self) -> list[FloatArray]:
        """Orthonormal columns each: first the groups' own optima, which all is reported against."""
        problem, k = self.problem, self.problem.n_groups
        if isinstance(self.second, DenseSecondMoments):
            columns = self._optima_of_groups(self.second)
        else:
            columns = [each.vectors for each in problem.group_optima]
            columns.append(problem.pooled_optimum.vectors)
        if declares(problem.criterion, "wants_equal_errors"):
            # Whether errors can be equal shows where each group differs most from the others.
            for alone in np.eye(k)[: 1 if k == 2 else k]:
                apart = alone - (1 - alone) / max(k - 1, 1)
                for weights in (apart, -apart):
                    columns.append(self._sought(weights, self.least).vectors)
        return columns

    def _optima_of_groups(self, second: DenseSecondMoments) -> list[FloatArray]:
        problem = self.problem
        d, k = problem.n_components, problem.n_groups
        several = min(_OF_A_GROUP * d, _OF_ALL * d // k, _MOST_OF_A_GROUP)
        n_vectors = min(max(self.n_held, several), second.n_features)
        goal = max(_MARGIN * _FIRST * self.tolerance * problem.total_variance, self.least)
        columns = []
        for group, alone in enumerate(np.eye(k)):
            found = self._sought(alone, goal, n_vectors=n_vectors)
            second.known.put(alone, d, found.leading)
            self.proof.beyond[group] = found.beyond
            columns.append(found.vectors)
        return columns

    def _sought(
        self,
        weights: FloatArray,
        sum_goal: float,
        start: FloatArray | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """Leading eigenvectors of a mixture in all dimensions."""
        self.n_eigenproblems += 1
        second, d = self.second, self.problem.n_components
        if not isinstance(second, DenseSecondMoments):
            return second.sought(weights, d, start=start)
        found = second.sought(weights, d, start=start, sum_goal=sum_goal, n_vectors=n_vectors)
        if not self.iterates:
            self.proof.take_exact(weights, found)
        return found

    def _within(self, space: GrownSpace, tolerance: float) -> Solution:
        problem = self.problem
        inside = replace(problem, second_moments=space.second_moments, unrestricted=problem)
        try:
            solution = self.solver.solve(inside, tolerance, self.random_state)
        except Incompatible as error:
            if not declares(problem.criterion, "wants_equal_errors"):
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
        gap = self.tolerance * solution.scale
        share = _SHARE if self.proof.is_proven else _SHARE_ESTIMATED
        least = self.least
        if declares(self.problem.criterion, "is_logarithmic"):
            # Its weights are the inverse of variances; others may be those of a group without any.
            least = _ROUNDING * float(solution.weights @ self.second.traces)
        return max(share * gap / fall_of_bound(self.problem, space, solution), least)

    def _lacking(
        self, space: GrownSpace, mixtures: list[FloatArray], goal: float
    ) -> list[tuple[float, FloatArray]]:
        """Mixtures of which W lacks more than it may, worst first, after the uncertainty wanted."""
        found: list[tuple[float, float, FloatArray]] = []
        for index, weights in enumerate(mixtures):
            # The answer is made of the first one's eigenvectors, so these are to be exact too.
            sharpen = self.n_sharpened < _SHARPENED or not self.proof.is_proven
            exact = index == 0 and sharpen and (self.iterates or self.is_linear)
            least = _MARGIN * goal if self.iterates else GOOD_ENOUGH * goal
            excess, wanted = self._estimated(space, weights, least, exact=exact)
            if excess > wanted:
                found.append((excess / wanted, max(_FIRST * excess, wanted / 4), weights))
        found.sort(key=lambda each: -each[0])
        self.n_sharpened += all(wanted < _MARGIN * goal / 4 for _, wanted, _ in found)
        return [(sum_goal, weights) for _, sum_goal, weights in found]

    def _estimated(
        self, space: GrownSpace, weights: FloatArray, wanted: float, *, exact: bool
    ) -> tuple[float, float]:
        """What W lacks of an eigenvalue sum, if it holds all leading vectors; and what it may."""
        known = self.proof.exact_excess(space, weights)
        if known is not None:
            return known, wanted
        d, within = self.problem.n_components, space.mixture(weights)
        values = within.top_values(min(self.n_held, space.n_dimensions))
        distance, squares = float(values[d - 1] - values[-1]), within.residual(d)
        if distance <= 0:
            return float(np.sqrt(squares * d)), wanted
        if exact:
            rounding = _ROUNDING * float(np.abs(weights) @ self.second.traces)
            residual = max(_ANGLE * float(values[d - 1] - values[d]), rounding)
            wanted = min(wanted, residual**2 / distance)
        return squares / distance, wanted


def _pull(space: GrownSpace, solution: Solution) -> FloatArray:
    """Directions outside of the subspace in which the solution's mixture pulls its basis.

    A solution with an open gap need not be made of leading eigenvectors.
    """
    basis = coordinates_of(solution)
    image = space.image(solution.weights) @ basis
    outside = image - space.basis @ (space.basis.T @ image)
    size = float(np.abs(solution.weights) @ space.full.traces)
    least = max(_DIRECTION * float(np.linalg.norm(image, 2)), _ROUNDING * size)
    if float(np.linalg.norm(outside)) <= least:
        return outside[:, :0]
    return outside
