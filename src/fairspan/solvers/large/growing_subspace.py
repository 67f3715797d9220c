"""Any solver, for many features: inside a subspace that grows as needed.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

What W may lack is then bounded (:mod:`fairspan.solvers.large.grown_space`). Where the second
moments are matrices the bound is proven, or the problem is solved without a subspace: its spectrum
is nearly flat, or one column is so large that rounding would be as large as the gap. Where they are
no matrices, it rests on eigenvectors found by iteration, which cannot exclude that a larger
eigenvalue was missed, and a closed gap is called estimated.
"""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver, Status
from fairspan.certificates.optimality import certify
from fairspan.certificates.proofs import LinesProof
from fairspan.errors import Incompatible
from fairspan.linalg import LeadingSubspace, with_positive_signs
from fairspan.moments.operators import Projector
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.solvers.large.grown_space import ROUNDING, GrownSpace, SoughtMoments
from fairspan.typing import FloatArray

# Where second moments are matrices, LAPACK takes over after so many rounds.
_MOST_ROUNDS, _ROUNDS_OF_MATRICES = 60, 6
# Of the gap to reach: what the solver within may leave; what W may lack of an eigenvalue sum; and
# where nothing is proven.
_WITHIN, _LACKING, _LACKING_ESTIMATED = 0.25, 0.25, 1e-3
# Residuals are made smaller than needed: a ceiling near eigenvalue d is then enough.
_MARGIN = 0.2
# The share of the gap, were the objective all variance, to which the groups' own optima are found
# first; and of what is missed at first that of mixtures, whose weights still move.
_FIRST_OPTIMA, _FIRST = 1e-4, 1e-6
# The share of an eigenvalue sum over which the slope of the bound is taken.
_STEP = 1e-3
# Mixtures that join W in one round; the robust error gap rests on dozens.
_MIXTURES = 4


def solve_growing(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Find a subspace whose gap is at most `tol`, a share of the objective, for many features.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        Of the small problems.
    tol : float
    random_state : object

    Raises
    ------
    Incompatible
        As the solver inside.
    """
    # What is found on the way counts only where it is proven.
    tried = _apart(problem) if problem.has_matrices else problem
    growth = _Growth(tried, solver, tol, random_state)
    try:
        solution = growth.run()
    except (NoSmallSubspace, Incompatible):
        # That nothing is compatible within W says nothing of all dimensions.
        if not problem.has_matrices:
            raise
        solution = solver.solve(problem, tol, random_state)
        count = growth.n_eigenproblems + solution.n_eigenproblems
        return replace(solution, n_eigenproblems=count)
    if problem.has_matrices:
        # The groups' own optima, which all is reported against, are not found again.
        whole, found = problem.unrestricted or problem, tried.unrestricted or tried
        for alone, best in zip(np.eye(problem.n_groups), found.group_optima, strict=True):
            whole.dense.solved.remember(alone, best)
    return solution


def _apart(problem: Problem) -> Problem:
    """The same without what is known of its eigenvectors."""
    whole = None if problem.unrestricted is None else _apart(problem.unrestricted)
    return replace(problem, second_moments=replace(problem.dense), unrestricted=whole)


class NoSmallSubspace(Exception):
    """A subspace of few dimensions proves nothing: it is never raised to users."""


class _Growth:
    """One problem, and the subspaces that grow for it."""

    def __init__(self, problem: Problem, solver: Solver, tol: float, random_state: Any) -> None:
        self.problem, self.solver = problem, solver
        self.tol, self.random_state = tol, random_state
        self.matrices, self.n_components = problem.has_matrices, problem.n_components
        self.second = cast(SoughtMoments, problem.second_moments)
        # Each group's second moment as the criterion counts it, and its variance.
        self.alone = list(np.diag(1 / problem.divisors))
        counted = self.second.traces / problem.divisors
        self.first = _FIRST_OPTIMA * tol * float(problem.proportions @ counted)
        self.least = ROUNDING * float(counted.max())
        self.n_eigenproblems = 0
        # What W may lack of the groups' own optima in all directions, beside a restriction.
        self.of_whole = 0.0

    def run(self) -> Certificate:
        """Solve within, and grow, until nothing is lacking.

        Raises
        ------
        NoSmallSubspace
            Second moments are matrices, and something is lacking after all rounds.
        """
        criterion = self.problem.criterion
        wider = self._start()
        # The groups' own optima count where losses are measured against them.
        losses = criterion.measures_losses and self.problem.unrestricted is None and self.matrices
        groups = self.alone if losses else []
        for _ in range(_ROUNDS_OF_MATRICES if self.matrices else _MOST_ROUNDS):
            space = wider
            inside = replace(
                self.problem,
                second_moments=space.second_moments,
                criterion=criterion.settled(self.problem),
            )
            reduction = Reduction(inside, space.basis)
            solution = self.solver.solve(inside, _WITHIN * self.tol, self.random_state)
            self.n_eigenproblems += solution.n_eigenproblems
            mixtures = groups + (
                list(np.unique(solution.proof.lines, axis=0))
                if isinstance(solution.proof, LinesProof)
                else [inside.criterion.dual_weights(solution.weights, inside)]
            )
            goal = self._goal(inside, solution, mixtures[-1])
            # A closed gap within needs its leading eigenvectors only.
            pull = space.basis[:, :0]
            if solution.status != Status.OPTIMAL or not self.matrices:
                pull = space.pull(solution.weights, Projector(solution.components).basis)
            wider = self._grown(space, mixtures, goal, pull)
            if wider is space:
                return self._in_all_features(space, reduction, solution)
        if self.matrices:
            raise NoSmallSubspace
        for weights in mixtures:
            # What was not bounded, as rounds ran out, may lack anything.
            space.second_moments.lacking.setdefault(weights.tobytes(), np.inf)
        return self._in_all_features(space, reduction, solution)

    def _start(self) -> GrownSpace:
        """First that of the groups' own optima, which all is reported against."""
        problem, columns = self.problem, list[FloatArray]()
        whole, to_coordinates = problem.unrestricted, problem.to_coordinates
        if not self.matrices:
            columns = [each.vectors for each in (*problem.group_optima, problem.pooled_optimum)]
        elif whole is None or to_coordinates is None:
            for alone in self.alone:  # from those of the one before: groups often vary alike
                start = columns[-1] if columns else None
                columns.append(self._sought(alone, self.first, start))
        else:
            # Near those of all directions, which losses are measured against.
            growth = _Growth(whole, self.solver, self.tol, self.random_state)
            held = growth.optima()
            self.n_eigenproblems += growth.n_eigenproblems
            self.of_whole = growth.of_whole
            columns = [np.linalg.qr(to_coordinates(held))[0]]
        if problem.criterion.wants_equal_errors and problem.n_groups > 1:
            # Whether errors can be equal shows where the two groups differ most.
            apart = np.array([1.0, -1.0])
            columns += [self._sought(each, self.least) for each in (apart, -apart)]
        first, *others = columns
        space = GrownSpace.of(self.second, self.second.n_held(self.n_components), first)
        return space.with_columns(np.hstack([first[:, :0], *others]))

    def optima(self) -> FloatArray:
        """Find the groups' own optima, prove and remember them: (p, m) columns that hold them.

        Raises
        ------
        NoSmallSubspace
            Something is lacking after all rounds.
        """
        space = self._start()
        for _ in range(_ROUNDS_OF_MATRICES):
            wider = self._grown(space, self.alone, self.first, space.basis[:, :0])
            if wider is space:
                self._remember(space)
                return space.basis
            space = wider
        raise NoSmallSubspace

    def _sought(
        self, weights: FloatArray, sum_goal: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Leading eigenvectors of a mixture in all dimensions, and some beyond them."""
        self.n_eigenproblems += 1
        goal = sum_goal if self.matrices else None
        return self.second.sought(weights, self.n_components, start=start, sum_goal=goal).vectors

    def _goal(self, inside: Problem, solution: Certificate, weights: FloatArray) -> float:
        """What W may lack of an eigenvalue sum, such that the bound falls by a share of the gap."""
        if isinstance(solution.proof, LinesProof):
            errors = inside.errors(Projector(solution.components).basis)
            slopes = self.problem.criterion.gradients(np.maximum(errors, self.least), self.problem)
            fall = max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
        else:
            # That of a logarithm falls with a share of the sum, of any size.
            top = inside.second_moments.leading(weights, self.n_components).top_eigenvalue_sum
            step, least = _STEP * top, float(weights @ self.second.traces) - top
            bounds = [inside.criterion.bound(least - x, weights, inside) for x in (0.0, step)]
            fall = (bounds[0] - bounds[1]) / step if bounds[0] > bounds[1] else 1.0
        share = _LACKING if self.matrices else _LACKING_ESTIMATED
        # Weights of a logarithm are inverse variances, so rounding is that of the mixture itself.
        rounding = ROUNDING * float(np.abs(weights) @ self.second.traces)
        return max(share * self.tol * solution.scale / fall, rounding)

    def _grown(
        self,
        space: GrownSpace,
        mixtures: list[FloatArray],
        goal: float,
        pull: FloatArray,
    ) -> GrownSpace:
        """With what W lacks of the worst mixtures; the same object if it lacks little of all.

        Raises
        ------
        NoSmallSubspace
            More may be lacking of matrices than the goal, for all that can be proven.
        """
        wanted = _MARGIN * goal
        missed = [
            (space.mixture(weights).missed(self.n_components), weights) for weights in mixtures
        ]
        worst = sorted((each for each in missed if each[0] > wanted), key=lambda each: -each[0])
        columns = [
            self._sought(weights, max(_FIRST * lack, wanted / 4), space.ritz_vectors(weights))
            for lack, weights in worst[:_MIXTURES]
        ]
        wider = space.with_columns(np.hstack([pull, *columns]))
        if wider is not space:
            return wider
        lacking = space.second_moments.lacking
        lacking.clear()
        if self.matrices:
            lacking.update(space.proven(mixtures, self.n_components, goal))
            if max(lacking.values()) > goal:
                raise NoSmallSubspace
            return space
        columns = []
        for weights in mixtures:
            self.n_eigenproblems += 1
            sought = self.second.sought(weights, self.n_components)
            most = sought.leading.top_eigenvalue_sum + sought.uncertainty
            lack = max(most - space.mixture(weights).top_sum(self.n_components), 0.0)
            lacking[weights.tobytes()] = lack
            if lack > goal:
                columns.append(sought.vectors)
        return space.with_columns(np.hstack([space.basis[:, :0], *columns]))

    def _remember(self, space: GrownSpace) -> None:
        """The groups' own optima, which all is reported against: they are not found again."""
        solved, lacking = self.problem.dense.solved, space.second_moments.lacking
        self.of_whole = max((lacking.get(each.tobytes(), 0.0) for each in self.alone), default=0.0)
        for alone in np.eye(self.problem.n_groups):
            values, vectors = space.mixture(alone).leading.eigenvalues, space.ritz_vectors(alone)
            solved.remember(alone, LeadingSubspace.of(values, vectors, self.n_components, 0.0))

    def _in_all_features(
        self, space: GrownSpace, reduction: Reduction, solution: Certificate
    ) -> Certificate:
        """The solution in all features, with a bound lowered by what the subspace may lack.

        Raises
        ------
        NoSmallSubspace
            Second moments are matrices, and rounding is in the way, of which there is less without
            a subspace.
        """
        problem, inside = self.problem, reduction.problem
        coordinates = Projector(solution.components).basis
        assert solution.proof is not None
        if self.matrices and problem.unrestricted is None:
            self._remember(space)
        basis = with_positive_signs(reduction.lift(coordinates))
        objective = problem.value(basis)
        gap, _ = solution.proof.gap(inside, coordinates, inside.errors(coordinates))
        if problem.unrestricted is None and problem.criterion.is_never_negative:
            gap = min(gap, objective)
        found = certify(
            problem,
            basis,
            solution.proof,
            tol=self.tol,
            n_eigenproblems=self.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
            lower_bound=objective - gap - self.of_whole,
        )
        # Two groups leave a gap open for no other reason.
        open_within = solution.status == Status.OPEN_GAP and problem.n_groups > 2
        if self.matrices and not open_within and found.status != Status.OPTIMAL:
            raise NoSmallSubspace
        proven = self.matrices or found.status != Status.OPTIMAL
        return replace(
            found,
            status=found.status if proven else Status.ESTIMATED,
            eigen="projected" if self.matrices else "matrix-free",
            trace=tuple(
                replace(step, lower_bound=min(step.lower_bound, found.lower_bound))
                for step in found.trace
            ),
        )
