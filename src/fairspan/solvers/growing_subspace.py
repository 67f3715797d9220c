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

Let M be a mixture of the second moments, W orthonormal columns, H = W'MW, G = MW - WH, and beta an
upper bound on the eigenvalues of M on the orthogonal complement of W. For every eta > 0, Young's
inequality gives M <= (H + G'G / eta) + (beta + eta) I on the two subspaces, so the d largest
eigenvalues of the right-hand side bound those of M. If beta is below eigenvalue d by delta, the sum
of the d largest exceeds the Ritz sum by at most |G|_F^2 / delta: a residual of 1e-5 proves ten
digits.

Residuals cannot exclude that W misses an eigenvalue, but beta can. It is proven by a floating-point
Cholesky factorization (Rump 2006). One factorization serves all mixtures: second moments are
positive semidefinite, so each mixture is at most the one that gives every group its largest weight.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import blas, lapack

from fairspan.certificates.certificate import Certificate, Solver, Status, certify
from fairspan.certificates.proofs import SupportingLinesProof
from fairspan.errors import IncompatibleParameters
from fairspan.linalg import (
    LeadingSubspace,
    SmallestEigenvalueSum,
    leading_subspace,
    normalize_signs,
    orthonormalize_against,
    symmetrize,
)
from fairspan.linalg.resources import limit_blas_threads
from fairspan.moments.operators import CANCELLATION_RATIO, DenseSecondMoments, Projector
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray

# Second moments whose leading eigenvectors can be computed iteratively.
IterativeMoments = DenseSecondMoments | SparseSecondMoments

_EPSILON = float(np.finfo(np.float64).eps)
# Added where a number may be zero, so that it can be divided by; its square is still a normal
# number.
_TINY = 1e-150
# Resolution of sums of eigenvalues in float64, relative to the trace: some hundred epsilon.
TRACE_ROUNDING = 1e-13
# Smallest relevant norm of the residual of a solution, relative to its image: eigenvalue sums miss
# the square of it, which float64 does not resolve.
_RESIDUAL_TOL = 1e-9
# Smallest relative distance of the complement bound from eigenvalue d, to allow for rounding.
_MIN_MARGIN = 1e-6


def complement_eigenvalue_bound(
    matrix: FloatArray, basis: FloatArray, image: FloatArray, bound: float, size: float
) -> float:
    """Proven bound on the eigenvalues on the complement of W; infinite if a trial value fails.

    The bound is close to the trial value. If bound I - (I - WW') M (I - WW') has a floating-point
    Cholesky factor, its smallest eigenvalue is at least minus (p + 1) epsilon times its trace (Rump
    2006).

    Parameters
    ----------
    matrix : (p, p) array
        M, symmetric.
    basis, image : (p, m) arrays
        W, orthonormal, and MW.
    bound : float
        Trial value.
    size : float
        At least |M|_F; larger if M is a difference of larger matrices and carries their rounding.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> matrix, basis = np.diag([3.0, 2.0, 1.0]), np.eye(3)[:, :1]
    >>> round(complement_eigenvalue_bound(matrix, basis, matrix @ basis, 2.1, 4.0), 6)
    2.1
    >>> complement_eigenvalue_bound(matrix, basis, matrix @ basis, 1.9, 4.0)
    inf
    """
    p, m = basis.shape
    shifted = -matrix
    shifted.flat[:: p + 1] += bound
    with limit_blas_threads("scipy"):
        if m:
            half_image = image - basis @ ((basis.T @ image) / 2)
            shifted = blas.dsyr2k(1.0, basis, half_image, 1.0, shifted.T, lower=1, overwrite_c=1).T
        trace = float(np.trace(shifted))
        # The lower triangle of the transposed array, which LAPACK reads without a copy.
        info = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]
    # Rounding error of the products, with every term at its largest.
    rounding = 4 * (p + m) * _EPSILON * np.sqrt(m + 1) * size
    if info:
        return np.inf
    return float(bound + 2 * (p + 1) * _EPSILON * trace + rounding)


@dataclass(frozen=True, eq=False)
class ProjectedMixture:
    """Rayleigh-Ritz projection of a mixture M of second moments onto a subspace W.

    Attributes
    ----------
    weights : (k,) array
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G, G = MW - WH.
    complement_dim : int
        p - m, the dimension of the complement.
    leading : LeadingSubspace
        At least the d leading eigenvectors of H (Ritz vectors).
    """

    weights: FloatArray
    compressed: FloatArray
    residual_gram: FloatArray
    complement_dim: int
    leading: LeadingSubspace

    def ritz_sum(self, n_components: int) -> float:
        """Ritz sum t_d(H)."""
        return float(self.leading.eigenvalues[:n_components].sum())

    def missing_sum_estimate(self, n_components: int) -> float:
        """First-order estimate of t_d(M) - t_d(H).

        It presumes that W contains approximations of all leading eigenvectors.
        """
        return self.residual_gain(self.leading.vectors[:, :n_components], n_components)

    def residual_gain(self, coordinates: FloatArray, n_components: int) -> float:
        """First-order estimate of what a basis captures more of M once its residual is in W.

        It presumes that W contains approximations of all leading eigenvectors.

        Parameters
        ----------
        coordinates : (m, r) array
            Coordinates of the basis within W.
        n_components : int
            d.
        """
        values = self.leading.eigenvalues
        squared_norm = max(float(np.vdot(coordinates, self.residual_gram @ coordinates)), 0.0)
        distance = float(values[n_components - 1] - values[-1])
        if distance > 0:
            return squared_norm / distance
        return float(np.sqrt(squared_norm * n_components))

    def complement_bound_target(self, n_components: int, goal: float) -> float:
        """Bound on the complement eigenvalues for which the excess stays within the goal."""
        values = self.leading.eigenvalues
        eigenvalue_d = float(values[n_components - 1])
        margin = max((eigenvalue_d - float(values[-1])) / 2, _MIN_MARGIN * abs(eigenvalue_d))
        # Complement eigenvalues below a fraction of the goal per component do not matter.
        negligible = goal / (4 * n_components)
        rounding = _EPSILON * float(values[0]) + _TINY
        return max(eigenvalue_d - margin, negligible, rounding)

    def restrict_to_leading(self) -> "ProjectedMixture":
        """Project onto the leading Ritz vectors only, since others may have large residuals."""
        values = self.leading.eigenvalues
        ritz_coordinates = self.leading.vectors
        n = len(values)
        return ProjectedMixture(
            self.weights,
            np.diag(values),
            ritz_coordinates.T @ self.residual_gram @ ritz_coordinates,
            self.complement_dim + len(ritz_coordinates) - n,
            LeadingSubspace(values, np.eye(n), n, ritz_coordinates[:, :0], 0.0),
        )

    def top_sum_excess(self, n_components: int, complement_bound: float) -> float:
        """Upper bound on t_d(M) - t_d(H), given an upper bound on the complement eigenvalues.

        The excess of the d leading eigenvalues over the last of them is subtracted from both: t_d
        is subadditive, and large numbers then leave no rounding error.
        """
        if self.complement_dim == 0:
            return 0.0
        if not np.isfinite(complement_bound):
            return np.inf
        d = n_components
        values = self.leading.eigenvalues
        eigenvalue_d = float(values[d - 1])
        vectors = self.leading.vectors[:, :d]
        # eta equal to the full distance raises eigenvalues in W least, and those of the complement
        # up to eigenvalue d.
        eta = eigenvalue_d - complement_bound
        if not eigenvalue_d > complement_bound:
            mean_squared_residual = max(float(np.trace(self.residual_gram)) / d, _TINY**2)
            eta = float(np.sqrt(mean_squared_residual))
        shifted = self.compressed - (vectors * (values[:d] - eigenvalue_d)) @ vectors.T
        shifted = shifted + self.residual_gram / eta
        shifted.flat[:: len(shifted) + 1] -= eigenvalue_d
        raised = np.maximum(np.linalg.eigvalsh(shifted)[-d:], 0.0)
        raised_complement = max(complement_bound + eta - eigenvalue_d - float(raised[0]), 0.0)
        complement_excess = raised_complement * min(d, self.complement_dim)
        rounding = 4 * len(shifted) * abs(eigenvalue_d) + 8 * float(np.abs(values[:d]).sum())
        return float(raised.sum()) + complement_excess + _EPSILON * rounding


@dataclass(frozen=True, eq=False)
class _ProjectedMoments(DenseSecondMoments):
    """Projected second moments W'S_gW, whose eigenvalue sums allow for what W misses.

    Attributes
    ----------
    missing_sums : dict of bytes to float
        Bound on t_d(M) - t_d(H) of each mixture, keyed by the bytes of its weights.
    """

    missing_sums: dict[bytes, float] = field(default_factory=dict)

    def smallest_eigenvalue_sum(
        self, weights: FloatArray, n_components: int
    ) -> SmallestEigenvalueSum:
        """Sum of the smallest eigenvalues; a bound in all features once it allows for W."""
        smallest = super().smallest_eigenvalue_sum(weights, n_components)
        missing = self.missing_sums.get(weights.tobytes(), 0.0)
        return smallest._replace(rounding_error=smallest.rounding_error + missing)


@dataclass(frozen=True, eq=False)
class SearchSubspace:
    """Search subspace W with the images S_gW.

    Attributes
    ----------
    full_moments : IterativeMoments
        Second moments S_g in all features.
    n_ritz : int
        Number of leading eigenvectors of a mixture that W should contain, at least d.
    basis : (p, m) array
    images : (k, p, m) array
    compressed : (k, m, m) array
        W'S_gW.
    """

    full_moments: IterativeMoments
    n_ritz: int
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, ProjectedMixture] = field(default_factory=dict, repr=False)

    @classmethod
    def from_basis(
        cls, full_moments: IterativeMoments, n_ritz: int, basis: FloatArray
    ) -> "SearchSubspace":
        """Subspace spanned by (p, m) orthonormal columns."""
        images = full_moments.apply(basis)
        return cls(full_moments, n_ritz, basis, images, symmetrize(basis.T @ images))

    @cached_property
    def projected_moments(self) -> _ProjectedMoments:
        """Projected second moments, with the variance outside of W."""
        outside = self.full_moments.traces - np.einsum("gii->g", self.compressed)
        # The difference is accurate unless nearly all variance lies within W.
        if (outside <= CANCELLATION_RATIO * self.full_moments.traces).any():
            outside = self.full_moments.residual_variances(self.basis)
        return _ProjectedMoments(self.compressed, outside)

    def expand(self, columns: FloatArray) -> "SearchSubspace":
        """Return the subspace extended by (p, r) columns; the same object if they add nothing."""
        existing = self.basis
        if isinstance(self.full_moments, SparseSecondMoments):
            # Otherwise components along forbidden directions would be amplified in columns that add
            # little.
            existing = np.hstack([self.full_moments.forbidden, existing])
        max_columns = len(existing) - existing.shape[1]
        new_columns = orthonormalize_against(existing, columns)[:, :max_columns]
        if new_columns.shape[1] == 0:
            return self
        images = self.full_moments.apply(new_columns)
        cross_products = self.basis.T @ images
        new_products = symmetrize(new_columns.T @ images)
        rows = [
            [self.compressed, cross_products],
            [cross_products.transpose(0, 2, 1), new_products],
        ]
        return SearchSubspace(
            self.full_moments,
            self.n_ritz,
            np.hstack([self.basis, new_columns]),
            np.concatenate([self.images, images], axis=2),
            np.concatenate([np.concatenate(row, axis=2) for row in rows], axis=1),
        )

    def project_mixture(self, weights: FloatArray) -> ProjectedMixture:
        """Projection of the mixture sum_g weights_g S_g, computed once."""
        key = weights.tobytes()
        if key not in self._mixtures:
            compressed = np.tensordot(weights, self.compressed, axes=1)
            residual = self._image(weights) - self.basis @ compressed
            gram = residual.T @ residual
            p, m = self.basis.shape
            leading = leading_subspace(compressed, min(self.n_ritz, m))
            self._mixtures[key] = ProjectedMixture(weights, compressed, gram, p - m, leading)
        return self._mixtures[key]

    def _image(self, weights: FloatArray) -> FloatArray:
        """Image MW of the mixture, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """Ritz vectors of a mixture, shape (p, n_ritz)."""
        return np.asarray(self.basis @ self.project_mixture(weights).leading.vectors)

    def residual_directions(
        self, weights: FloatArray, coordinates: FloatArray, min_gain: float
    ) -> FloatArray:
        """Residual of a mixture applied to an (m, d) basis within W: the directions outside of W.

        A solution need not be spanned by leading eigenvectors. If the solution would gain at most
        `min_gain` from these directions, none is returned: until a basis has converged, each
        direction added makes others appear, without end.
        """
        mixture = self.project_mixture(weights)
        if mixture.residual_gain(coordinates, coordinates.shape[1]) <= min_gain:
            return self.basis[:, :0]
        image = self._image(weights) @ coordinates
        residual = image - self.basis @ (self.basis.T @ image)
        rounding = TRACE_ROUNDING * float(np.abs(weights) @ self.full_moments.traces)
        min_norm = max(_RESIDUAL_TOL * float(np.linalg.norm(image)), rounding)
        if float(np.linalg.norm(residual)) > min_norm:
            return residual
        return residual[:, :0]

    def prove_missing_sums(
        self, mixtures: list[FloatArray], n_components: int, goal: float
    ) -> dict[bytes, float]:
        """Proven bounds on t_d(M) - t_d(H) for all mixtures, keyed by the bytes of their weights.

        One joint factorization on the complement of W; if it fails, or leaves more than the goal
        for a mixture, a separate one on the complement of that mixture's Ritz vectors.
        """
        second_moments = self.full_moments
        d = n_components
        assert isinstance(second_moments, DenseSecondMoments)
        projected = [self.project_mixture(weights) for weights in mixtures]
        targets = [mixture.complement_bound_target(d, goal) for mixture in projected]
        # Each mixture divided by its target: the envelope must have complement eigenvalues of at
        # most one.
        scaled_weights = np.maximum(mixtures, 0.0) / np.array(targets)[:, None]
        order = np.argsort(-scaled_weights.max(axis=1))
        joint_bounds = np.full(len(mixtures), np.inf)
        # Mixtures with the largest weights are set apart until a factorization succeeds: 1, 3, 7,
        # ...
        n_separate = 0
        while n_separate < len(mixtures) and not np.isfinite(joint_bounds).any():
            joint = order[n_separate:]
            envelope = scaled_weights[joint].max(axis=0)
            image = np.tensordot(envelope, self.images, axes=1)
            matrix = second_moments.mixture(envelope)
            size = second_moments.norm_bound(envelope)
            joint_bounds[joint] = complement_eigenvalue_bound(matrix, self.basis, image, 1.0, size)
            n_separate = 2 * n_separate + 1
        missing_sums: dict[bytes, float] = {}
        for mixture, target, joint_bound in zip(projected, targets, joint_bounds, strict=True):
            excess = mixture.top_sum_excess(d, float(joint_bound) * target)
            if excess > goal:
                excess = min(excess, self._prove_separately(mixture, d, target))
            missing_sums[mixture.weights.tobytes()] = excess
        return missing_sums

    def _prove_separately(
        self, mixture: ProjectedMixture, n_components: int, target: float
    ) -> float:
        """Proven bound on t_d(M) - t_d(H) of one mixture, with its own factorization."""
        second_moments = self.full_moments
        assert isinstance(second_moments, DenseSecondMoments)
        weights = mixture.weights
        ritz_coordinates = mixture.leading.vectors
        matrix = second_moments.mixture(weights)
        size = second_moments.norm_bound(weights)
        basis = self.basis @ ritz_coordinates
        image = self._image(weights) @ ritz_coordinates
        separate_bound = complement_eigenvalue_bound(matrix, basis, image, target, size)
        return mixture.restrict_to_leading().top_sum_excess(n_components, separate_bound)


# Without matrices, a solution that misses nothing is refined in at most this many rounds:
# components then agree with those of matrices to seven digits, and further rounds would gain next
# to nothing each if eigenvalues are close.
_MAX_REFINING_ROUNDS = 8
# Maximum number of rounds; fewer with matrices, where LAPACK takes over.
_MAX_ROUNDS = 60
_MAX_DENSE_ROUNDS = 6
# Fractions of the gap: for the inner solver, and for what W may miss of an eigenvalue sum; together
# half of it.
_INNER_GAP_FRACTION = 0.25
_MISSING_FRACTION = 0.25
# The latter if nothing is proven.
_MISSING_FRACTION_ESTIMATED = 1e-3
# Residuals are made smaller than needed, so that a complement bound close to eigenvalue d suffices.
_SAFETY_FACTOR = 0.2
# Accuracy of the groups' optima, relative to the gap if the objective were the total variance.
OPTIMA_TOL = 1e-4
# Accuracy of the leading eigenvectors of mixtures, relative to what is missing; they need not be
# more accurate, since the weights still change.
_INITIAL_MIXTURE_TOL = 1e-6
# Relative step over which the slope of the bound is estimated.
_SLOPE_STEP = 1e-3
# Mixtures added per round; the robust error gap depends on dozens.
_MAX_NEW_MIXTURES = 4


def solve_growing(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Find a subspace with a gap of at most `tol`, relative to the objective, for many features.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        Solver for the projected problems.
    tol : float
    random_state : object

    Raises
    ------
    IncompatibleParameters
        Raised by the inner solver.
    """
    # Eigenvectors found on the way are kept only if they are proven.
    search_problem = _without_solved_eigenproblems(problem) if problem.has_matrices else problem
    search = _SubspaceSearch(search_problem, solver, tol, random_state)
    try:
        solution = search.run()
    except (SubspaceInsufficient, IncompatibleParameters):
        # Infeasibility within W does not imply infeasibility in all dimensions.
        if not problem.has_matrices:
            raise
        solution = solver.solve(problem, tol, random_state)
        n_eigenproblems = search.n_eigenproblems + solution.n_eigenproblems
        return replace(solution, n_eigenproblems=n_eigenproblems)
    if problem.has_matrices:
        # Cache the groups' optima, which losses refer to.
        eigen_cache = problem.unrestricted.dense_moments.eigen_cache
        optima = search_problem.unrestricted.group_optima
        for weights, optimum in zip(np.eye(problem.n_groups), optima, strict=True):
            eigen_cache.add(weights, optimum)
    return solution


def _without_solved_eigenproblems(problem: Problem) -> Problem:
    """Copy of a problem without its cached eigenproblems."""
    parent = None if problem.parent is None else _without_solved_eigenproblems(problem.parent)
    return replace(problem, second_moments=replace(problem.dense_moments), parent=parent)


class SubspaceInsufficient(Exception):
    """No small subspace proves the bound; never raised to users."""


def _bound_mixtures(problem: Problem, solution: Certificate) -> list[FloatArray]:
    """Weights of the mixtures that the lower bound of a solution rests on."""
    if isinstance(solution.proof, SupportingLinesProof):
        return list(np.unique(solution.proof.lines, axis=0))
    return [problem.criterion.dual_feasible_weights(solution.weights, problem)]


class _SubspaceSearch:
    """Search for one problem."""

    def __init__(self, problem: Problem, solver: Solver, tol: float, random_state: Any) -> None:
        self.problem = problem
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        self.is_dense = problem.has_matrices
        self.n_components = problem.n_components
        self.second_moments = cast(IterativeMoments, problem.second_moments)
        # Unit weights of each group in the units of the criterion, and the groups' variances in
        # these units.
        self.group_weights = list(np.diag(1 / problem.divisors))
        variances = self.second_moments.traces / problem.divisors
        self.optima_goal = OPTIMA_TOL * tol * float(problem.proportions @ variances)
        self.variance_floor = TRACE_ROUNDING * float(variances.max())
        self.n_eigenproblems = 0
        # Bound on what W misses of the unrestricted groups' optima, under a restriction.
        self.optima_missing = 0.0

    def run(self) -> Certificate:
        """Solve within W and expand it until nothing relevant is missing.

        Raises
        ------
        SubspaceInsufficient
            The second moments are matrices, and something is still missing after all rounds.
        """
        expanded = self._initial_subspace()
        # The groups' optima matter if losses are measured against them.
        uses_excess_loss = self.problem.criterion.uses_excess_loss
        needs_optima = uses_excess_loss and self.problem.parent is None and self.is_dense
        optima_mixtures = self.group_weights if needs_optima else []
        n_refined = 0
        for _ in range(_MAX_DENSE_ROUNDS if self.is_dense else _MAX_ROUNDS):
            space = expanded
            reduction, solution = self._solve_inside(space)
            mixtures = optima_mixtures + _bound_mixtures(reduction.problem, solution)
            goal = self._missing_sum_goal(reduction.problem, solution, mixtures[-1])
            # If the gap within W is closed, only the leading eigenvectors are needed.
            residuals = space.basis[:, :0]
            is_closed = solution.status == Status.OPTIMAL
            if not (is_closed and self.is_dense):
                min_gain = _SAFETY_FACTOR * goal
                if is_closed and n_refined < _MAX_REFINING_ROUNDS:
                    min_gain = 0.0
                    n_refined += not self._misses_any(space, mixtures, goal)
                coordinates = Projector(solution.components).basis
                residuals = space.residual_directions(solution.weights, coordinates, min_gain)
            expanded = self._expand(space, mixtures, goal, residuals)
            if expanded is space:
                return self._lift_solution(space, reduction, solution)
        if self.is_dense:
            raise SubspaceInsufficient
        self._estimate_missing_sums(space, mixtures)
        return self._lift_solution(space, reduction, solution)

    def _solve_inside(self, space: SearchSubspace) -> tuple[Reduction, Certificate]:
        """Solve the problem within W."""
        inside = self.problem.along(
            space.basis,
            second_moments=space.projected_moments,
            criterion=self.problem.criterion.with_defaults(self.problem),
        )
        solution = self.solver.solve(inside, _INNER_GAP_FRACTION * self.tol, self.random_state)
        self.n_eigenproblems += solution.n_eigenproblems
        return Reduction(inside, space.basis), solution

    def _misses_any(self, space: SearchSubspace, mixtures: list[FloatArray], goal: float) -> bool:
        """Whether W is estimated to miss too much of one of the mixtures."""
        estimates = [
            space.project_mixture(weights).missing_sum_estimate(self.n_components)
            for weights in mixtures
        ]
        return any(missing > _SAFETY_FACTOR * goal for missing in estimates)

    def _initial_subspace(self) -> SearchSubspace:
        """Return the initial subspace, from the groups' optima."""
        problem = self.problem
        if not self.is_dense:
            optima = (*problem.group_optima, problem.pooled_optimum)
            columns = [optimum.vectors for optimum in optima]
        elif problem.parent is None or problem.axes is None:
            columns = self._approximate_group_optima()
        else:
            # The restricted optima are close to those in all directions, which losses refer to.
            search = _SubspaceSearch(problem.parent, self.solver, self.tol, self.random_state)
            unrestricted_optima = search.find_group_optima()
            self.n_eigenproblems += search.n_eigenproblems
            self.optima_missing = search.optima_missing
            columns = [np.linalg.qr(problem.axes.T @ unrestricted_optima)[0]]
        if problem.criterion.requires_equal_errors and problem.n_groups > 1:
            # Whether errors can be equal depends on the directions in which the two groups differ
            # most.
            difference = np.array([1.0, -1.0])
            for weights in (difference, -difference):
                columns.append(self._find_leading(weights, self.variance_floor))
        first, *others = columns
        n_ritz = self.second_moments.n_ritz(self.n_components)
        space = SearchSubspace.from_basis(self.second_moments, n_ritz, first)
        return space.expand(np.hstack([first[:, :0], *others]))

    def _approximate_group_optima(self) -> list[FloatArray]:
        """Leading eigenvectors of each group, (p, m) columns."""
        columns: list[FloatArray] = []
        for weights in self.group_weights:
            # Warm-started with the previous group, since groups often vary alike.
            start = columns[-1] if columns else None
            columns.append(self._find_leading(weights, self.optima_goal, start))
        return columns

    def find_group_optima(self) -> FloatArray:
        """Find, prove and cache the groups' optima; return (p, m) columns that contain them.

        Raises
        ------
        SubspaceInsufficient
            Something is still missing after all rounds.
        """
        space = self._initial_subspace()
        for _ in range(_MAX_DENSE_ROUNDS):
            expanded = self._expand(space, self.group_weights, self.optima_goal, space.basis[:, :0])
            if expanded is space:
                self._cache_group_optima(space)
                return space.basis
            space = expanded
        raise SubspaceInsufficient

    def _find_leading(
        self, weights: FloatArray, sum_goal: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Leading eigenvectors of a mixture in all dimensions, with some guard vectors."""
        self.n_eigenproblems += 1
        leading = self.second_moments.approximate_leading(
            weights,
            self.n_components,
            start=start,
            sum_goal=sum_goal if self.is_dense else None,
        )
        return leading.vectors

    def _missing_sum_goal(
        self, inside: Problem, solution: Certificate, weights: FloatArray
    ) -> float:
        """Part of an eigenvalue sum that W may miss: it costs the bound a fraction of the gap."""
        if isinstance(solution.proof, SupportingLinesProof):
            errors = inside.errors(Projector(solution.components).basis)
            slopes = self.problem.criterion.score_gradients(
                np.maximum(errors, self.variance_floor), self.problem
            )
            bound_slope = max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
        else:
            # The bound of a logarithm decreases with the relative change of the sum.
            top = inside.second_moments.leading(weights, self.n_components).eigenvalue_sum
            step = _SLOPE_STEP * top
            smallest = float(weights @ self.second_moments.traces) - top
            bound = inside.criterion.lower_bound(smallest, weights, inside)
            lowered_bound = inside.criterion.lower_bound(smallest - step, weights, inside)
            bound_slope = (bound - lowered_bound) / step if bound > lowered_bound else 1.0
        fraction = _MISSING_FRACTION if self.is_dense else _MISSING_FRACTION_ESTIMATED
        # For Nash welfare, weights are inverse variances, so the rounding error is that of the
        # mixture.
        rounding = TRACE_ROUNDING * float(np.abs(weights) @ self.second_moments.traces)
        return max(fraction * self.tol * solution.scale / bound_slope, rounding)

    def _expand(
        self,
        space: SearchSubspace,
        mixtures: list[FloatArray],
        goal: float,
        residuals: FloatArray,
    ) -> SearchSubspace:
        """Expand W by what it misses of the worst mixtures; return W itself if it misses little.

        Raises
        ------
        SubspaceInsufficient
            The second moments are matrices, and it cannot be proven that little is missing.
        """
        target = _SAFETY_FACTOR * goal
        estimates = [
            (space.project_mixture(weights).missing_sum_estimate(self.n_components), weights)
            for weights in mixtures
        ]
        insufficient = [(missing, weights) for missing, weights in estimates if missing > target]
        insufficient.sort(key=lambda pair: -pair[0])
        columns = []
        for missing, weights in insufficient[:_MAX_NEW_MIXTURES]:
            sum_goal = max(_INITIAL_MIXTURE_TOL * missing, target / 4)
            columns.append(self._find_leading(weights, sum_goal, space.ritz_vectors(weights)))
        expanded = space.expand(np.hstack([residuals, *columns]))
        if expanded is not space:
            return expanded
        missing_sums = space.projected_moments.missing_sums
        missing_sums.clear()
        if self.is_dense:
            missing_sums.update(space.prove_missing_sums(mixtures, self.n_components, goal))
            if max(missing_sums.values()) > goal:
                raise SubspaceInsufficient
            return space
        columns = self._estimate_missing_sums(space, mixtures, goal)
        return space.expand(np.hstack([space.basis[:, :0], *columns]))

    def _estimate_missing_sums(
        self, space: SearchSubspace, mixtures: list[FloatArray], goal: float = 0.0
    ) -> list[FloatArray]:
        """Record what W misses of each mixture, estimated by an iteration in all features.

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
            ritz_sum = space.project_mixture(weights).ritz_sum(self.n_components)
            missing = max(max_sum - ritz_sum, 0.0)
            space.projected_moments.missing_sums[weights.tobytes()] = missing
            if missing > goal:
                columns.append(approximation.vectors)
        return columns

    def _cache_group_optima(self, space: SearchSubspace) -> None:
        """Cache the groups' optima, which losses refer to."""
        missing_sums = space.projected_moments.missing_sums
        missing = [missing_sums.get(weights.tobytes(), 0.0) for weights in self.group_weights]
        self.optima_missing = max(missing, default=0.0)
        eigen_cache = self.problem.dense_moments.eigen_cache
        for weights in np.eye(self.problem.n_groups):
            values = space.project_mixture(weights).leading.eigenvalues
            vectors = space.ritz_vectors(weights)
            optimum = LeadingSubspace.from_eigenpairs(values, vectors, self.n_components, 0.0)
            eigen_cache.add(weights, optimum)

    def _lift_solution(
        self, space: SearchSubspace, reduction: Reduction, solution: Certificate
    ) -> Certificate:
        """Lift the solution to all features and lower its bound by what W may miss.

        Raises
        ------
        SubspaceInsufficient
            The second moments are matrices and rounding prevents a proof; without a subspace there
            is less.
        """
        problem = self.problem
        inside = reduction.problem
        coordinates = Projector(solution.components).basis
        assert solution.proof is not None
        if self.is_dense and problem.parent is None:
            self._cache_group_optima(space)
        basis = normalize_signs(reduction.lift(coordinates))
        objective = problem.objective(basis)
        gap, _ = solution.proof.gap(inside, coordinates, inside.errors(coordinates))
        if problem.parent is None and problem.criterion.is_nonnegative:
            gap = min(gap, objective)
        certificate = certify(
            problem,
            basis,
            solution.proof,
            tol=self.tol,
            n_eigenproblems=self.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
            lower_bound=objective - gap - self.optima_missing,
        )
        # With two groups, a gap stays open for no other reason.
        is_open_in_subspace = solution.status == Status.OPEN_GAP and problem.n_groups > 2
        is_optimal = certificate.status == Status.OPTIMAL
        if self.is_dense and not is_open_in_subspace and not is_optimal:
            raise SubspaceInsufficient
        is_proven = self.is_dense or not is_optimal
        # The objective is as uncertain as the groups' optima it is measured against.
        optima_uncertainty = self.optima_missing if problem.criterion.uses_excess_loss else 0.0
        max_bound = certificate.lower_bound
        trace = [
            replace(point, lower_bound=min(point.lower_bound, max_bound))
            for point in certificate.trace
        ]
        return replace(
            certificate,
            resolution=certificate.resolution + optima_uncertainty,
            status=certificate.status if is_proven else Status.ESTIMATED,
            eigensolver="projected" if self.is_dense else "matrix-free",
            trace=tuple(trace),
        )
