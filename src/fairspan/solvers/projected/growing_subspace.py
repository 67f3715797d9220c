"""Any solver, for many features: inside a subspace that grows as needed.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

What W may lack is then bounded (:mod:`fairspan.solvers.projected.grown_space`). Where the second
moments are matrices the bound is proven, and where no small W will do, as with nearly flat spectra,
the problem is soon solved without one. Where they are no matrices, it rests on eigenvectors found
by iteration, which cannot exclude that a larger eigenvalue was missed, and a closed gap is called
estimated.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver, Status
from fairspan.certificates.optimality import certify
from fairspan.errors import Incompatible
from fairspan.linalg import IterativeSubspace, LeadingSubspace, with_positive_signs
from fairspan.problem.problem import Problem
from fairspan.solvers.projected.grown_space import (
    GOOD_ENOUGH,
    ROUNDING,
    GrownSpace,
    SoughtMoments,
    SubspaceBounds,
    coordinates_of,
    fall_of_bound,
    mixtures_of,
)
from fairspan.typing import FloatArray

# After so many rounds LAPACK takes over, where it can; and where so many in a row left a gap open
# within.
_MOST_ROUNDS, _ROUNDS_OF_MATRICES, _ROUNDS_LEFT_OPEN = 60, 12, 5
# What W may lack of an eigenvalue sum, as a share of the gap to reach; and where nothing is proven.
_SHARE, _SHARE_ESTIMATED = 0.25, 1e-3
# The share of that gap within W: up to GOOD_ENOUGH of the other share come on top.
_WITHIN = 0.25
# Residuals are made smaller than needed: a ceiling near eigenvalue d is then enough.
_MARGIN = 0.05
# The weights of a mixture still move, so its eigenvectors are first found to this share only.
_FIRST = 1e-6
# A first look at the robust error gap needs no more than this multiple of the gap to reach.
_LOOSE = 1e5
# The angle between the leading eigenvectors found and the true ones, where there is a gap.
_ANGLE = 1e-8
# Rounds that may be spent on that angle alone: the weights move within the gap that is allowed.
_SHARPENED = 2
# What W may lack of the groups' own optima in all directions, beside a restriction, in roundings:
# the bound falls by what it lacks; where that is too much for the objective, no W is used.
_OPTIMA_OF_WHOLE = 100.0
# Scores of the robust error gap this near to the largest, as a share of it, are balanced.
_LARGEST = 1e-6
# Mixtures that join W in one round; the robust error gap rests on dozens.
_MIXTURES = 4
# Vectors of each group that W starts with, in dimensions of the answer; of all groups together; and
# no more than a number.
_OF_A_GROUP, _OF_ALL, _MOST_OF_A_GROUP = 3, 9, 100


# Measured with one thread, over LAPACK's time: 0.45 to 0.95 at p = 500, d = 5 to 20, and 0.8 to 1.4
# at d = 40; at p = 1000 0.24 to 0.6 at d = 5 to 10, and up to 1.1 at d = 125.
_PROJECTED_FROM_FEATURES, _MANY_FEATURES = 500, 1000
_PROJECTED_UP_TO_SHARE, _UP_TO_SHARE_OF_MANY = 1 / 25, 1 / 8
# (tr M)^2 / |M|_F^2 counts the eigenvalues that matter. Rows of noise have p / 3 and more, and take
# 1.2 to 3.9 times as long; eigenvalues that fall like 1 / i or exp(-40 i / p) have p / 18 and less.
_PROJECTED_UP_TO_SHARE_THAT_MATTERS = 1 / 8
# As a share of the objective, what a subspace is not grown to prove.
_LEAST_TOLERANCE = 1e-12


def pays(problem: Problem, tol: float) -> bool:
    """Whether a small subspace is faster, and proves as much as is requested."""
    p, d = problem.n_features, problem.n_components
    share = _UP_TO_SHARE_OF_MANY if p >= _MANY_FEATURES else _PROJECTED_UP_TO_SHARE
    many = p >= _PROJECTED_FROM_FEATURES and d <= share * p
    # With more groups the answer to the robust error gap is not made of leading eigenvectors.
    holds = not (problem.criterion.has_concave_scores and problem.n_groups > 2)
    # Operators that are no matrices come with a subspace around them.
    return (
        many
        and problem.has_matrices
        and tol >= _LEAST_TOLERANCE
        and holds
        and not _is_flat(problem)
    )


def _is_flat(problem: Problem) -> bool:
    """Whether so many eigenvalues matter that iterations converge slowly."""
    second, q = problem.dense, problem.proportions
    variance = float(q @ (second.traces - second.outside))
    matter = _PROJECTED_UP_TO_SHARE_THAT_MATTERS * problem.n_features
    return variance**2 > matter * second.squared_norm(q)


@dataclass(frozen=True)
class GrowingSubspace(Solver):
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

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find a subspace whose gap is at most `tol`, a share of the objective.

        Raises
        ------
        Incompatible
            As the solver inside.
        """
        growth = _Growth(problem, self.solver, tol, random_state)
        if not problem.has_matrices:
            return growth.run(_MOST_ROUNDS)
        try:
            return growth.run(_ROUNDS_OF_MATRICES)
        except (NoSmallSubspace, Incompatible):
            # That nothing is compatible within W says nothing of all dimensions.
            solution = growth.solver.solve_dense(problem, tol, random_state)
        return replace(solution, n_eigenproblems=growth.n_eigenproblems + solution.n_eigenproblems)


class NoSmallSubspace(Exception):
    """A subspace of few dimensions proves nothing: it is never raised to users."""


class _Growth:
    """One problem, and what is proven of the subspaces that grow for it."""

    def __init__(self, problem: Problem, solver: Solver, tol: float, random_state: Any) -> None:
        self.problem, self.solver = problem, solver
        self.tol, self.random_state = tol, random_state
        self.second = cast(SoughtMoments, problem.second_moments)
        # Each group's second moment as the criterion counts it, and its variance.
        self.alone = np.diag(1 / problem.divisors)
        counted = self.second.traces / problem.divisors
        self.variance = float(problem.proportions @ counted)
        self.least = ROUNDING * float(counted.max())
        self.bounds = SubspaceBounds(problem)
        # Whether leading eigenvectors are sought by iteration, not by LAPACK.
        self.iterates = not problem.has_matrices or problem.dense.iterates(problem.n_components)
        self.n_eigenproblems = self.n_sharpened = 0

    def run(self, n_rounds: int) -> Certificate:
        """Solve within, and grow, until nothing is lacking.

        Raises
        ------
        NoSmallSubspace
            Second moments are matrices, and something is lacking after all rounds.
        """
        wider = self._first_space()
        # Branch and bound takes dozens of steps, and what it finds first is not in all dimensions.
        loose = self.problem.criterion.has_concave_scores
        n_open, matrices = 0, self.problem.has_matrices
        for _ in range(n_rounds):
            space = wider
            solution = self._within(space, self.tol * (_LOOSE if loose else _WITHIN))
            n_open = n_open + 1 if solution.status == Status.OPEN_GAP else 0
            wider = self._grown(space, solution, loose=loose)
            if (wider is space and not loose) or (matrices and n_open == _ROUNDS_LEFT_OPEN):
                break
            loose = False
        self.n_eigenproblems += self.bounds.n_eigenproblems
        if matrices and wider is not space:
            raise NoSmallSubspace
        found = self._in_all_features(space, solution)
        # Two groups leave a gap open for no other reason.
        closes = (
            solution.status in (Status.OPTIMAL, Status.UNRESOLVED) or self.problem.n_groups == 2
        )
        if matrices and closes and found.status not in (Status.OPTIMAL, Status.ESTIMATED):
            # Rounding is in the way here, of which there is less without a subspace.
            raise NoSmallSubspace
        return found

    def group_optima(self, n_rounds: int) -> FloatArray:
        """Find the groups' own optima, prove and remember them, and solve no problem.

        Returns
        -------
        (p, m) array
            The basis of a subspace that holds them.

        Raises
        ------
        NoSmallSubspace
            Something is lacking after all rounds.
        """
        groups, goal = list(self.alone), _OPTIMA_OF_WHOLE * self.least
        self.bounds.groups = []  # bounds that serve mixtures of groups, too, take longer
        wider = self._first_space()
        for _ in range(n_rounds):
            space = wider
            wider = self._with_lacking(space, groups, goal, space.basis[:, :0])
            if wider is space:
                wider = space.with_columns(self.bounds.missing(space, groups, goal))
            if wider is space:
                self._remember(space)
                return space.basis
        raise NoSmallSubspace

    def _first_space(self) -> GrownSpace:
        first, *others = self._start()
        space = GrownSpace.of(self.second, self.second.n_held(self.problem.n_components), first)
        return space.with_columns(np.hstack([first[:, :0], *others]))

    def _start(self) -> list[FloatArray]:
        """Orthonormal columns each: first the groups' own optima, which all is reported against."""
        problem, k, d = self.problem, self.problem.n_groups, self.problem.n_components
        if problem.has_matrices:
            several = min(_OF_A_GROUP * d, _OF_ALL * d // k, _MOST_OF_A_GROUP)
            n_vectors = min(max(self.second.n_held(d), several), problem.n_features)
            goal = max(_MARGIN * _FIRST * self.tol * self.variance, self.least)
            columns = self._optima_of_whole()
            if not columns:
                columns = [self._sought(each, goal, None, n_vectors).vectors for each in self.alone]
                if not self.iterates:
                    self.bounds.groups_by_lapack(columns)
        else:
            columns = [each.vectors for each in problem.group_optima]
            columns.append(problem.pooled_optimum.vectors)
        if problem.criterion.wants_equal_errors:
            # Whether errors can be equal shows where each group differs most from the others.
            for alone in np.eye(k)[: 1 if k == 2 else k]:
                apart = alone - (1 - alone) / max(k - 1, 1)
                columns += [self._sought(each, self.least).vectors for each in (apart, -apart)]
        return columns

    def _optima_of_whole(self) -> list[FloatArray]:
        """What the groups' own optima in all directions are in those of a restriction; none if not.

        Losses are measured against these, and they are near those within the restriction.
        """
        whole, to_coordinates = self.problem.unrestricted, self.problem.to_coordinates
        if whole is None or to_coordinates is None:
            return []
        growth = _Growth(whole, self.solver, self.tol, self.random_state)
        try:
            held = growth.group_optima(_ROUNDS_OF_MATRICES)
        except NoSmallSubspace:
            return []
        finally:
            self.n_eigenproblems += growth.n_eigenproblems + growth.bounds.n_eigenproblems
        self.bounds.of_whole = max(growth.bounds.slack.values())
        return [np.linalg.qr(to_coordinates(held))[0]]

    def _sought(
        self,
        weights: FloatArray,
        sum_goal: float,
        start: FloatArray | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """Leading eigenvectors of a mixture in all dimensions."""
        self.n_eigenproblems += 1
        d = self.problem.n_components
        if not self.problem.has_matrices:
            return self.second.sought(weights, d, start=start)
        return self.second.sought(weights, d, start=start, sum_goal=sum_goal, n_vectors=n_vectors)

    def _within(self, space: GrownSpace, tol: float) -> Certificate:
        criterion = self.problem.criterion
        inside = replace(
            self.problem,
            second_moments=space.second_moments,
            criterion=criterion.settled(self.problem),
        )
        for alone in np.eye(inside.n_groups) if self.bounds.groups else ():
            known = space.mixture(alone).leading
            inside.dense.solved.remember(
                alone,
                LeadingSubspace.of(known.eigenvalues, known.vectors, inside.n_components, 0.0),
            )
        try:
            solution = self.solver.solve_dense(inside, tol, self.random_state)
        except Incompatible as error:
            if not criterion.wants_equal_errors:
                raise
            raise Incompatible(
                error.args[0],
                "Allowed: tables for which equal errors are achievable",
                "Use 'error_gap' with a large penalty, another n_components, or another center",
            ) from error
        self.n_eigenproblems += solution.n_eigenproblems
        return solution

    def _grown(self, space: GrownSpace, solution: Certificate, *, loose: bool) -> GrownSpace:
        """With all directions that W lacks; the same object if what it may lack is bounded."""
        mixtures = [*mixtures_of(solution), *self.bounds.groups]
        goal = self._goal(space, solution)
        # A closed gap within needs its leading eigenvectors only.
        settled = solution.status == Status.OPTIMAL and self.problem.has_matrices
        coordinates = coordinates_of(solution)
        pull = np.hstack(
            [space.pull(each, coordinates) for each in self._balanced(space, solution)]
        )
        wider = self._with_lacking(space, mixtures, goal, pull[:, :0] if settled else pull)
        if wider is space and not loose:
            return space.with_columns(self.bounds.missing(space, mixtures, goal))
        return wider

    def _balanced(self, space: GrownSpace, solution: Certificate) -> FloatArray:
        """Weights of the mixtures that the answer balances, (m, k): those of its bound.

        More than two groups are bounded by the error gap, whose weights are not those of the
        robust error gap's own slopes.
        """
        problem = self.problem
        if not problem.criterion.has_concave_scores or problem.n_groups == 2:
            return solution.weights[None]
        errors = space.second_moments.residual_variances(coordinates_of(solution))
        scores = problem.robust.scores(errors, problem)
        slopes = problem.robust.gradients(np.maximum(errors, self.least), problem)
        return np.asarray(slopes[scores >= scores.max() - _LARGEST * abs(scores.max())])

    def _with_lacking(
        self, space: GrownSpace, mixtures: list[FloatArray], goal: float, pull: FloatArray
    ) -> GrownSpace:
        """With what W lacks of the worst mixtures; the same object if it lacks little of all."""
        columns = [pull]
        for sum_goal, weights in self._lacking(space, mixtures, goal)[:_MIXTURES]:
            columns.append(self._sought(weights, sum_goal, space.ritz_vectors(weights)).vectors)
        return space.with_columns(np.hstack(columns))

    def _goal(self, space: GrownSpace, solution: Certificate) -> float:
        """What W may lack of an eigenvalue sum."""
        gap = self.tol * solution.scale
        share = _SHARE if self.problem.has_matrices else _SHARE_ESTIMATED
        least = self.least
        if self.problem.criterion.is_logarithmic:
            # Its weights are the inverse of variances; others may be those of a group without any.
            least = ROUNDING * float(solution.weights @ self.second.traces)
        return max(share * gap / fall_of_bound(self.problem, space, solution), least)

    def _lacking(
        self, space: GrownSpace, mixtures: list[FloatArray], goal: float
    ) -> list[tuple[float, FloatArray]]:
        """Mixtures of which W lacks more than it may, worst first, after the uncertainty wanted."""
        found: list[tuple[float, float, FloatArray]] = []
        for index, weights in enumerate(mixtures):
            # The answer is made of the first one's eigenvectors, so these are to be exact too.
            sharpen = self.n_sharpened < _SHARPENED or not self.problem.has_matrices
            least = _MARGIN * goal if self.iterates else GOOD_ENOUGH * goal
            exact = index == 0 and sharpen and self.iterates
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
        d, within = self.problem.n_components, space.mixture(weights)
        values = within.leading.eigenvalues
        distance, squares = float(values[d - 1] - values[-1]), within.residual(d)
        if distance <= 0:
            return float(np.sqrt(squares * d)), wanted
        if exact:
            rounding = ROUNDING * float(np.abs(weights) @ self.second.traces)
            residual = max(_ANGLE * float(values[d - 1] - values[d]), rounding)
            wanted = min(wanted, residual**2 / distance)
        return squares / distance, wanted

    def _remember(self, space: GrownSpace) -> None:
        """The groups' own optima, which all is reported against: they are not found again."""
        d, solved = self.problem.n_components, self.problem.dense.solved
        for alone in np.eye(self.problem.n_groups):
            values = space.mixture(alone).leading.eigenvalues
            solved.remember(alone, LeadingSubspace.of(values, space.ritz_vectors(alone), d, 0.0))

    def _in_all_features(self, space: GrownSpace, solution: Certificate) -> Certificate:
        """The solution in all features, with a bound lowered by what the subspace may lack."""
        problem = self.problem
        assert solution.proof is not None
        if problem.has_matrices and problem.unrestricted is None:
            self._remember(space)
        found = certify(
            problem,
            with_positive_signs(space.basis @ coordinates_of(solution)),
            solution.proof,
            tol=self.tol,
            n_eigenproblems=self.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
            lower_bound=self.bounds.lower_bound(space, solution, self.tol),
        )
        estimated = found.status == Status.OPTIMAL and not problem.has_matrices
        return replace(
            found,
            status=Status.ESTIMATED if estimated else found.status,
            eigen="projected" if problem.has_matrices else "matrix-free",
            trace=tuple(
                replace(step, lower_bound=min(step.lower_bound, found.lower_bound))
                for step in found.trace
            ),
        )
