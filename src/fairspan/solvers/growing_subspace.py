"""Solve problems of many features within a growing search subspace, and bound what it misses.

The problem is solved exactly within a subspace W of few dimensions, whose projected second moments
are small matrices. The mixtures that its bound rests on are then examined in all p dimensions:
their leading eigenvectors are added to W and the problem is solved again, until W contains them.
Errors always refer to the full second moments.

What W may miss is then bounded. If the second moments are matrices, the bound is proven, or else
the problem is solved without a subspace, as when the spectrum is nearly flat, or one column is so
large that rounding would be as large as the gap. Without matrices the bound rests on iteratively
computed eigenvectors, which cannot exclude a missed eigenvalue, so a closed gap is reported as
estimated.
"""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import RunRecord
from fairspan.certificates.eigensolver import OPTIMA_TOL, Eigensolver
from fairspan.certificates.error_rounding import measure_errors
from fairspan.certificates.evaluate_solution import evaluate_solution, reorthonormalize
from fairspan.certificates.proofs import SupportingLinesProof
from fairspan.certificates.status import Status
from fairspan.errors import IncompatibleParameters
from fairspan.linalg import LeadingSubspace, normalize_signs
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING
from fairspan.moments.projector import Projector
from fairspan.problem.criteria.equal_error import EqualError
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.problem.warm_start import WarmStart
from fairspan.solvers.search_subspace import IterativeMoments, SearchSubspace
from fairspan.solvers.solver import Solver
from fairspan.solvers.support import run_solver
from fairspan.typing import FloatArray, RandomSource


@dataclass(frozen=True)
class _SearchLimits:
    """Limits of the rounds, and shares of the gap that inexact parts of a round may use.

    Attributes
    ----------
    max_refining_rounds : int
        Rounds that refine a solution that misses nothing, without matrices: components then agree
        with those of matrices to seven digits, and further rounds would gain next to nothing each
        if eigenvalues are close.
    max_rounds : int
        Rounds without matrices.
    max_dense_rounds : int
        Rounds with matrices; fewer, since LAPACK takes over.
    inner_gap_fraction : float
        Fraction of the gap for the solver of the problem within W.
    missing_fraction : float
        Fraction of the gap for what W misses of an eigenvalue sum. With that of the inner solver it
        makes half of the gap.
    estimated_missing_fraction : float
        The same if nothing is proven, where what W misses is only estimated.
    safety_factor : float
        Residuals are made smaller than needed by this factor, so that a complement bound close to
        eigenvalue d suffices.
    initial_mixture_tol : float
        Accuracy of the leading eigenvectors of mixtures, relative to what is missing; they need not
        be more accurate, since the weights still change.
    slope_step : float
        Relative step over which the slope of the bound is estimated.
    max_new_mixtures : int
        Mixtures added per round; the robust error gap depends on dozens.
    max_residual_ratio : float
        If W misses at most this many times the target of a mixture, its residuals are added instead
        of its leading eigenvectors, which take an eigenproblem. Measured, residuals reduce what is
        missing to a hundredth.
    """

    max_refining_rounds: int = 8
    max_rounds: int = 60
    max_dense_rounds: int = 6
    inner_gap_fraction: float = 0.25
    missing_fraction: float = 0.25
    estimated_missing_fraction: float = 1e-3
    safety_factor: float = 0.2
    initial_mixture_tol: float = 1e-6
    slope_step: float = 1e-3
    max_new_mixtures: int = 4
    max_residual_ratio: float = 30.0


_LIMITS = _SearchLimits()


def solve_growing(
    problem: Problem, solver: Solver, tol: float, random_state: RandomSource = None
) -> Certificate:
    """Find a subspace with a gap of at most `tol`, relative to the objective, for many features.

    The problem is solved within a search subspace W of few dimensions, which is expanded until the
    bound within W nearly holds in all features.

    Parameters
    ----------
    problem : Problem
        Its second moments are matrices or, for sparse rows, only products with vectors.
    solver : Solver
        Solver for the problems projected onto W.
    tol : float
    random_state : object

    Returns
    -------
    Certificate
        With matrices the bound is proven, by solving without a subspace if need be; without them a
        closed gap is reported as estimated.

    Raises
    ------
    IncompatibleParameters
        Raised by the solver.
    """
    # The search caches eigenvectors that it may fail to prove, so it gets a copy with a cache of
    # its own. A search that ends without an error has proven the groups' optima: only then they are
    # copied to the cache of the problem.
    search_problem = (
        _without_solved_eigenproblems(problem) if problem.second_moments.has_matrices else problem
    )
    search = _SubspaceSearch(search_problem, solver, tol, random_state)
    try:
        solution = search.run()
    except (SubspaceInsufficient, IncompatibleParameters):
        # Solve without a subspace, if there are matrices: infeasibility within W does not imply
        # infeasibility in all dimensions.
        if not problem.second_moments.has_matrices:
            raise
        solution = run_solver(solver, problem, tol, random_state)
        n_eigenproblems = search.n_eigenproblems + solution.n_eigenproblems
        return replace(solution, run=replace(solution.run, n_eigenproblems=n_eigenproblems))
    if problem.second_moments.has_matrices:
        # Cache the groups' optima, which losses refer to; a unit vector of weights selects a group.
        eigen_cache = problem.unrestricted.dense_moments.eigen_cache
        optima = search_problem.unrestricted.group_optima
        for weights, optimum in zip(np.eye(problem.n_groups), optima, strict=True):
            eigen_cache.add(weights, optimum)
    return solution


def _without_solved_eigenproblems(problem: Problem) -> Problem:
    """Copy of a problem without its cached eigenproblems."""
    embedding = problem.embedding
    if embedding.parent is not None:
        embedding = replace(embedding, parent=_without_solved_eigenproblems(embedding.parent))
    return replace(problem, second_moments=replace(problem.dense_moments), embedding=embedding)


class SubspaceInsufficient(Exception):
    """No small subspace proves the bound; never raised to users."""


def _bound_mixtures(problem: Problem, solution: Certificate) -> list[FloatArray]:
    """Weights of the mixtures that the lower bound of a solution rests on."""
    if isinstance(solution.proof, SupportingLinesProof):
        return list(np.unique(solution.proof.lines, axis=0))
    return [problem.criterion.dual_feasible_weights(solution.weights, problem)]


class _SubspaceSearch:
    """Search for the solution of a problem within a growing subspace W.

    Parameters
    ----------
    problem : Problem
        Problem in all features.
    solver : Solver
        Solver of the problem projected onto W.
    tol : float
        Relative gap to reach.
    random_state : object
        Passed to the solver.

    Attributes
    ----------
    n_eigenproblems : int
        Number of eigenproblems solved so far.
    optima_missing : float
        Bound on the part that W misses of the d largest eigenvalues of any group, summed.
    """

    def __init__(
        self, problem: Problem, solver: Solver, tol: float, random_state: RandomSource
    ) -> None:
        self.problem = problem
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        # Whether the second moments are matrices. Otherwise only their products with vectors can be
        # computed, and nothing is proven.
        self.is_dense = problem.second_moments.has_matrices
        self.n_components = problem.n_components
        self.second_moments = cast(IterativeMoments, problem.second_moments)
        # A criterion compares each group's error divided by its divisor, such as its variance. In
        # these units the second moment of a group is the mixture of all in which it has the weight
        # 1 / divisor and the others zero, and its variance is its trace divided by the divisor.
        self.group_weights = list(np.diag(1 / problem.divisors))
        variances = self.second_moments.traces / problem.divisors
        # How much W may miss of the sum of the d largest eigenvalues of a group, in these units.
        self.optima_goal = OPTIMA_TOL * tol * float(problem.proportions @ variances)
        # Rounding error of eigenvalue sums: smaller errors and sums are not resolved.
        self.variance_rounding = EIGENVALUE_ROUNDING * float(variances.max())
        self.n_eigenproblems = 0
        # Bound on the part that W misses of the d largest eigenvalues of any group, summed, without
        # the restriction; losses refer to these sums.
        self.optima_missing = 0.0
        # Dual weights of the last solution within W.
        self.weights: FloatArray | None = None

    def run(self) -> Certificate:
        """Solve within W and expand it until nothing relevant is missing.

        W is the search subspace. A mixture is a weighted sum of the groups' second moments; the
        lower bound rests on sums of the d largest eigenvalues of some mixtures, so W has to contain
        their leading eigenvectors.

        Raises
        ------
        SubspaceInsufficient
            The second moments are matrices, and something is still missing after all rounds.
        """
        expanded = self._initial_subspace()
        # The groups' optima matter if losses are measured against them. Those of a problem with a
        # restriction are in all directions; they were found with the initial subspace.
        uses_excess_loss = self.problem.criterion.uses_excess_loss
        needs_optima = uses_excess_loss and self.problem.embedding.parent is None and self.is_dense
        optima_mixtures = self.group_weights if needs_optima else []
        n_refined = 0
        for _ in range(_LIMITS.max_dense_rounds if self.is_dense else _LIMITS.max_rounds):
            # One round: solve within W, then expand W by leading eigenvectors of the mixtures that
            # prove the bound, and by directions outside of W in which the solution would gain.
            space = expanded
            reduction, solution = self._solve_inside(space)
            # The goal is a part of the sum that the bound rests on, so it is computed for a mixture
            # of the bound: the last one.
            mixtures = optima_mixtures + _bound_mixtures(reduction.problem, solution)
            goal = self._missing_sum_tol(reduction.problem, solution, mixtures[-1])
            is_closed = solution.status == Status.OPTIMAL
            # Only without matrices: refine a closed solution by any gain. Rounds count towards the
            # maximum once W misses no mixture, so that nothing else is left to do.
            is_refining = (
                is_closed and not self.is_dense and n_refined < _LIMITS.max_refining_rounds
            )
            if is_refining and not self._misses_any(space, mixtures, goal):
                n_refined += 1
            # If the gap within W is closed, only the leading eigenvectors are needed: no columns.
            residuals = space.basis[:, :0]
            if not (is_closed and self.is_dense):
                coordinates = Projector(solution.components).basis
                min_gain = 0.0 if is_refining else _LIMITS.safety_factor * goal
                residuals = space.residual_directions(solution.weights, coordinates, min_gain)
            expanded = self._expand(space, mixtures, goal, residuals)
            # Nothing relevant is missing: proven with matrices, estimated without.
            if expanded is space:
                return self._lift_solution(space, reduction, solution)
        if self.is_dense:
            raise SubspaceInsufficient
        # After all rounds, report the last solution with a bound that allows for what W misses.
        self._estimate_missing_sums(space, mixtures)
        return self._lift_solution(space, reduction, solution)

    def _solve_inside(self, space: SearchSubspace) -> tuple[Reduction, Certificate]:
        """Solve the problem within the search subspace W.

        The gap may use part of the tolerance; the rest is for what W misses.

        Returns
        -------
        Reduction
            The problem within W, and the way back to all features.
        Certificate
            Of the solution in coordinates of W.
        """
        # Defaults of the criterion, such as its protected group, depend on ordinary PCA. They are
        # set from all features, so that they do not change with W.
        inside = self.problem.along(
            space.basis,
            second_moments=space.projected_moments,
            criterion=self.problem.criterion.with_defaults(self.problem),
        )
        # Within an expanded W, weights change little.
        if self.problem.n_groups == 2 and self.weights is not None:
            inside = replace(inside, warm_start=WarmStart(self.weights))
        solution = run_solver(
            self.solver, inside, _LIMITS.inner_gap_fraction * self.tol, self.random_state
        )
        self.n_eigenproblems += solution.n_eigenproblems
        self.weights = solution.weights
        return Reduction(inside, space.basis), solution

    def _misses_any(self, space: SearchSubspace, mixtures: list[FloatArray], goal: float) -> bool:
        """Whether W is estimated to miss too much of one of the mixtures."""
        estimates = [
            space.project_on_ritz_vectors(weights).missing_sum_estimate(self.n_components)
            for weights in mixtures
        ]
        return any(missing > _LIMITS.safety_factor * goal for missing in estimates)

    def _initial_subspace(self) -> SearchSubspace:
        """Return the initial subspace: the leading eigenvectors of each group, or approximations.

        A restriction allows only some directions. The initial subspace then contains the leading
        eigenvectors of the groups in all directions, projected onto the allowed ones.
        """
        problem = self.problem
        embedding = problem.embedding
        if not self.is_dense:
            # Computed iteratively by the problem itself.
            optima = (*problem.group_optima, problem.pooled_optimum)
            columns = [optimum.vectors for optimum in optima]
        elif embedding.parent is None or embedding.axes is None:
            columns = self._approximate_group_optima()
        else:
            # The parent is the problem without the restriction, the axes are the allowed
            # directions. The restricted optima are close to those in all directions, which have to
            # be found anyway, since losses refer to them.
            search = _SubspaceSearch(embedding.parent, self.solver, self.tol, self.random_state)
            unrestricted_optima = search.find_group_optima()
            self.n_eigenproblems += search.n_eigenproblems
            self.optima_missing = search.optima_missing
            columns = [np.linalg.qr(embedding.axes.T @ unrestricted_optima)[0]]
        if isinstance(problem.criterion, EqualError) and problem.n_groups > 1:
            # Whether errors can be equal depends on the directions in which the two groups differ
            # most. The goal is the accuracy of the eigenvalue sum, here the level of rounding.
            difference = np.array([1.0, -1.0])
            for weights in (difference, -difference):
                columns.append(self._find_leading(weights, sum_tol=self.variance_rounding))
        first, *others = columns
        # Number of leading eigenvectors of a mixture that W should contain: d and some guards.
        n_ritz = self.second_moments.n_ritz(self.n_components)
        space = SearchSubspace.from_basis(self.second_moments, n_ritz, first)
        no_columns = first[:, :0]  # There may be no others.
        return space.expand(np.hstack([no_columns, *others]))

    def _approximate_group_optima(self) -> list[FloatArray]:
        """Approximate leading eigenvectors of each group: a list of (p, m) arrays."""
        warm_start = self.problem.warm_start
        starts = () if warm_start is None else warm_start.directions
        columns: list[FloatArray] = []
        for group, weights in enumerate(self.group_weights):
            start = None
            if starts:
                start = starts[group]
            elif columns:
                # Warm-started with the previous group, since groups often vary alike.
                start = columns[-1]
            columns.append(self._find_leading(weights, self.optima_goal, start))
        return columns

    def find_group_optima(self) -> FloatArray:
        """Find, prove and cache the leading eigenvectors of each group in all features.

        Returns
        -------
        (p, m) array
            Orthonormal basis of a search subspace that contains them, up to the goal.

        Raises
        ------
        SubspaceInsufficient
            Something is still missing after all rounds.
        """
        space = self._initial_subspace()
        for _ in range(_LIMITS.max_dense_rounds):
            no_residuals = space.basis[:, :0]
            expanded = self._expand(space, self.group_weights, self.optima_goal, no_residuals)
            # The same object: the subspace misses little of any group, which is proven.
            if expanded is space:
                self._cache_group_optima(space)
                return space.basis
            space = expanded
        raise SubspaceInsufficient

    def _find_leading(
        self, weights: FloatArray, sum_tol: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Leading eigenvectors of a mixture of the second moments in all features, shape (p, m).

        m exceeds the number of components by a few guard vectors, which the iteration needs for
        fast convergence.

        Parameters
        ----------
        weights : (k,) array
            Weights of the groups in the mixture.
        sum_tol : float
            Error of their eigenvalue sum at which the iteration may stop: a bound is then proven
            that allows for the error. Ignored if the second moments are no matrices, for which no
            bound is proven: the iteration then goes on to the accuracy of double precision.
        start : (p, r) array, optional
            Directions near the eigenvectors.
        """
        self.n_eigenproblems += 1
        leading = self.second_moments.approximate_leading(
            weights,
            self.n_components,
            start=start,
            sum_tol=sum_tol if self.is_dense else None,
        )
        return leading.vectors

    def _missing_sum_tol(
        self, inside: Problem, solution: Certificate, weights: FloatArray
    ) -> float:
        """Part of an eigenvalue sum that the search subspace W may miss.

        The lower bound of the objective is a function of the sum of the d largest eigenvalues of a
        mixture, which is smaller within W. What is missing may cost the bound a fraction of the
        allowed gap, so the goal is this fraction divided by the slope of the bound in the sum, and
        at least the rounding error of the sum.

        Parameters
        ----------
        inside : Problem
            The problem within W.
        solution : Certificate
            Solution within W.
        weights : (k,) array
            Weights of the mixture that proves its bound.
        """
        if isinstance(solution.proof, SupportingLinesProof):
            # This bound (of the robust error gap) is made of lines in the errors of two groups. Its
            # slope is estimated by that of the scores, the functions of the errors whose maximum is
            # the objective. It is infinite at zero error, so errors are kept above rounding.
            errors = inside.errors(Projector(solution.components).basis)
            slopes = self.problem.criterion.score_gradients(
                np.maximum(errors, self.variance_rounding), self.problem
            )
            bound_slope = max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
        else:
            # This bound is a function of the sum of the p - d smallest eigenvalues, the trace less
            # the d largest. Estimate its slope by a finite difference: for a logarithm (Nash
            # welfare) it depends on the sum.
            top = inside.second_moments.leading(weights, self.n_components).eigenvalue_sum
            step = _LIMITS.slope_step * top
            smallest = float(weights @ self.second_moments.traces) - top
            bound = inside.criterion.lower_bound(smallest, weights, inside)
            lowered_bound = inside.criterion.lower_bound(smallest - step, weights, inside)
            bound_slope = (bound - lowered_bound) / step if bound > lowered_bound else 1.0
        # Smaller without matrices, where what is missing is only estimated.
        fraction = _LIMITS.missing_fraction if self.is_dense else _LIMITS.estimated_missing_fraction
        # For Nash welfare, weights are inverse variances, so the rounding error is that of the
        # mixture.
        rounding = EIGENVALUE_ROUNDING * float(np.abs(weights) @ self.second_moments.traces)
        # The tolerance is relative to the scale of the objective.
        return max(fraction * self.tol * solution.scale / bound_slope, rounding)

    def _expand(
        self,
        space: SearchSubspace,
        mixtures: list[FloatArray],
        goal: float,
        residuals: FloatArray,
    ) -> SearchSubspace:
        """Expand W by what it misses of the worst mixtures; return W itself if it misses little.

        W misses part of a mixture M = sum_g weights_g S_g if the d largest eigenvalues of M within
        W sum to less than those in all features. If estimates find nothing missing and nothing is
        added to W, the missing part is bounded by a proof (with matrices) or computed by an
        iteration in all features (without). It is recorded in the projected moments of W, whose
        bounds then allow for it.

        Parameters
        ----------
        space : SearchSubspace
            W.
        mixtures : list of (k,) arrays
            Weights of the mixtures whose leading eigenvectors W should contain.
        goal : float
            Part of the sum of d eigenvalues that W may miss of each mixture.
        residuals : (p, r) array
            Further directions to add to W; r may be zero.

        Raises
        ------
        SubspaceInsufficient
            The second moments are matrices, and it cannot be proven that little is missing.
        """
        target = _LIMITS.safety_factor * goal
        estimates: list[tuple[float, FloatArray]] = []
        for weights in mixtures:
            mixture = space.project_on_ritz_vectors(weights)
            estimates.append((mixture.missing_sum_estimate(self.n_components), mixture.weights))
        insufficient = [(missing, weights) for missing, weights in estimates if missing > target]
        insufficient.sort(key=lambda pair: -pair[0])
        columns = [
            self._columns_for(space, weights, missing, target)
            for missing, weights in insufficient[: _LIMITS.max_new_mixtures]
        ]
        expanded = space.expand(np.hstack([residuals, *columns]))
        # The same object if the columns add nothing.
        if expanded is not space:
            if self.is_dense and expanded.is_large:
                for missing, weights in estimates:
                    if missing <= target:
                        expanded.inherit_ritz_vectors(space, weights, self.n_components)
            return expanded
        # Estimates presume that W contains approximations of all leading eigenvectors; check that.
        missing_sums = space.projected_moments.missing_sums
        missing_sums.clear()
        if self.is_dense:
            missing_sums.update(space.prove_missing_sums(mixtures, self.n_components, goal))
            if max(missing_sums.values()) > goal:
                raise SubspaceInsufficient
            return space
        columns = self._estimate_missing_sums(space, mixtures, goal)
        no_columns = space.basis[:, :0]  # The list may be empty.
        return space.expand(np.hstack([no_columns, *columns]))

    def _columns_for(
        self, space: SearchSubspace, weights: FloatArray, missing: float, target: float
    ) -> FloatArray:
        """Columns (p, m) by which to extend W so that it misses less of a mixture.

        Parameters
        ----------
        space : SearchSubspace
            W.
        weights : (k,) array
            Weights of the mixture.
        missing : float
            Estimate of what W misses of the sum of its d largest eigenvalues.
        target : float
            What W may miss.
        """
        if self.is_dense and missing <= _LIMITS.max_residual_ratio * target:
            return space.ritz_residuals(weights)[:, : self.n_components]
        # Far more accurate than W, but no more than the goal requires.
        sum_tol = max(_LIMITS.initial_mixture_tol * missing, target / 4)
        # Warm-started with what W contains of the eigenvectors.
        return self._find_leading(weights, sum_tol, space.ritz_vectors(weights))

    def _estimate_missing_sums(
        self, space: SearchSubspace, mixtures: list[FloatArray], goal: float = 0.0
    ) -> list[FloatArray]:
        """Record what W misses of each mixture, estimated by an iteration in all features.

        W misses the amount by which the d largest eigenvalues in all features sum to more than
        those within W. The record is `missing_sums` of the projected moments, by which their bounds
        are lowered.

        Parameters
        ----------
        space : SearchSubspace
            W.
        mixtures : list of (k,) arrays
            Weights of the mixtures.
        goal : float
            Amount that W may miss.

        Returns
        -------
        list of (p, m) arrays
            Leading eigenvectors of the mixtures of which W misses more than the goal.
        """
        columns = []
        for weights in mixtures:
            self.n_eigenproblems += 1
            approximation = self.second_moments.approximate_leading(weights, self.n_components)
            max_sum = approximation.leading.eigenvalue_sum + approximation.sum_error
            ritz_sum = space.project_on_ritz_vectors(weights).ritz_sum(self.n_components)
            missing = max(max_sum - ritz_sum, 0.0)
            space.projected_moments.missing_sums[weights.tobytes()] = missing
            if missing > goal:
                columns.append(approximation.vectors)
        return columns

    def _cache_group_optima(self, space: SearchSubspace) -> None:
        """Cache the groups' optima within W, and set `optima_missing` to the most that W misses.

        The optimum of a group is the subspace of its d leading eigenvectors. W misses the amount by
        which the d largest eigenvalues of a group in all features sum to more than those within W,
        bounded by the entry of `missing_sums` (zero without an entry). Losses refer to these
        optima, so solving their eigenproblems again is avoided.
        """
        missing_sums = space.projected_moments.missing_sums
        missing = [missing_sums.get(weights.tobytes(), 0.0) for weights in self.group_weights]
        self.optima_missing = max(missing, default=0.0)
        eigen_cache = self.problem.dense_moments.eigen_cache
        # The cache holds the groups' own second moments, with unit weights. The record above is in
        # units of the criterion, like `optima_missing`.
        for weights in np.eye(self.problem.n_groups):
            values = space.project_on_ritz_vectors(weights).leading.eigenvalues
            vectors = space.ritz_vectors(weights)
            # Only equal values count as ties.
            optimum = LeadingSubspace.from_eigenpairs(
                values, vectors, self.n_components, tolerance=0.0
            )
            eigen_cache.add(weights, optimum)

    def _lift_solution(
        self, space: SearchSubspace, reduction: Reduction, solution: Certificate
    ) -> Certificate:
        """Lift the solution to all features and lower its bound by what W may miss.

        Its bound holds within W, up to the missing parts of eigenvalue sums that are recorded in
        the projected moments. With matrices they are proven, and so is the result; without, a
        closed gap gets the status "estimated".

        Parameters
        ----------
        space : SearchSubspace
            W.
        reduction : Reduction
            The problem within W, and the way back to all features.
        solution : Certificate
            Solution in coordinates of W.

        Raises
        ------
        SubspaceInsufficient
            The second moments are matrices, and rounding prevents a proof. A solution without a
            search subspace has smaller rounding errors.
        """
        problem = self.problem
        inside = reduction.problem
        coordinates = Projector(solution.components).basis
        assert solution.proof is not None
        # Losses refer to the best subspace of each group (its optimum): record those within W, and
        # what W misses of them. Under a restriction losses refer to the optima of the parent, the
        # problem without it, which were found with the initial subspace.
        if self.is_dense and problem.embedding.parent is None:
            self._cache_group_optima(space)
        # Principal axes within W are those in all features.
        basis = normalize_signs(reorthonormalize(reduction.lift(coordinates)))
        errors = measure_errors(problem, basis)
        objective = problem.criterion.value(errors.values, problem)
        # The gap within W already allows for the missing sums. No gap exceeds a nonnegative
        # objective, whose bound is at least zero. Under a restriction it may be negative: the error
        # that all groups share in the forbidden directions is left out.
        gap, _ = solution.proof.gap(inside, coordinates, inside.errors(coordinates))
        if problem.embedding.parent is None and problem.criterion.is_nonnegative:
            gap = min(gap, objective)
        certificate = evaluate_solution(
            problem,
            basis,
            solution.proof,
            tol=self.tol,
            lower_bound=objective - gap - self.optima_missing,
            known_errors=errors,
        )
        # With more than two groups, a solver may leave a gap open within W, as it would without W.
        # Any other open gap is due to rounding or to what W misses: solve without W.
        is_open_in_subspace = solution.status == Status.OPEN_GAP and problem.n_groups > 2
        is_optimal = certificate.status == Status.OPTIMAL
        if self.is_dense and not is_open_in_subspace and not is_optimal:
            raise SubspaceInsufficient
        return self._with_uncertain_optima(certificate, solution)

    def _with_uncertain_optima(
        self, certificate: Certificate, solution: Certificate
    ) -> Certificate:
        """Return a certificate in all features that allows for inexact optima of the groups.

        The objective is as uncertain as the groups' optima that it is measured against. Without
        matrices, an optimal solution is reported as estimated.

        Parameters
        ----------
        certificate : Certificate
            Certificate in all features, whose resolution is that of exact optima.
        solution : Certificate
            Solution within W, whose run is reported.
        """
        uses_excess_loss = self.problem.criterion.uses_excess_loss
        optima_uncertainty = self.optima_missing if uses_excess_loss else 0.0
        resolution = certificate.resolution + optima_uncertainty
        # A tolerance that was raised to the resolution follows it.
        absolute_tol = certificate.absolute_tol
        if absolute_tol == certificate.resolution:
            absolute_tol = resolution
        is_proven = self.is_dense or certificate.status != Status.OPTIMAL
        assessment = replace(
            certificate.assessment,
            absolute_tol=absolute_tol,
            resolution=resolution,
            status=certificate.status if is_proven else Status.ESTIMATED,
        )
        # Bounds in the trace hold within W: limit them to the one in all features.
        max_bound = certificate.lower_bound
        trace = [
            replace(point, lower_bound=min(point.lower_bound, max_bound))
            for point in solution.trace
        ]
        run = RunRecord(
            solver=solution.solver,
            n_eigenproblems=self.n_eigenproblems,
            trace=tuple(trace),
            eigensolver=Eigensolver.PROJECTED if self.is_dense else Eigensolver.MATRIX_FREE,
        )
        return replace(certificate, assessment=assessment, run=run)
