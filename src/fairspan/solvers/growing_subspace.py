"""Any solver, for many features: inside a subspace that grows as needed, and what that may lack.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

What W may lack is then bounded. Where the second moments are matrices the bound is proven, or the
problem is solved without a subspace: its spectrum is nearly flat, or one column is so large that
rounding would be as large as the gap. Where they are no matrices, it rests on eigenvectors found by
iteration, which cannot exclude that a larger eigenvalue was missed, and a closed gap is called
estimated.

Let M be a mixture of the second moments, W orthonormal columns, H = W'MW and G = MW - WH; and let
beta be at least every eigenvalue of M on the complement of W. For each eta > 0 Young's inequality
gives M <= (H + G'G / eta) + (beta + eta) I on the two parts, so the d largest eigenvalues of the
right side bound those of M. If beta lies below eigenvalue d by delta, the sum of the d largest
exceeds that within W by |G|_F^2 / delta at most: a residual of 1e-5 proves ten digits.

A residual cannot exclude that W misses an eigenvalue; beta does. It is proven by a Cholesky
factorisation, in floating point (Rump 2006). One serves all mixtures: second moments have no
negative eigenvalues, so each is at most the sum that gives every group its largest weight.
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

# Second moments whose leading eigenvectors are found by iteration.
IterativeMoments = DenseSecondMoments | SparseSecondMoments

_EPSILON, _TINY = float(np.finfo(np.float64).eps), 1e-150
# What float64 can resolve, as a share of the trace.
TRACE_ROUNDING = 1e-13
# Directions in which a solution is pulled out of W, as a share of the pull.
_RESIDUAL_TOL = 1e-9
# Bounds are looked for this share below eigenvalue d at least, so that rounding has room.
_MIN_MARGIN = 1e-6


def complement_eigenvalue_bound(
    matrix: FloatArray, basis: FloatArray, image: FloatArray, bound: float, size: float
) -> float:
    """Bound on every eigenvalue beside W, near a level; infinite if the level is too low.

    If level I - (I - WW') M (I - WW') has a Cholesky factor in floating point, its least eigenvalue
    is at least minus (p + 1) epsilon times its trace (Rump 2006).

    Parameters
    ----------
    matrix : (p, p) array
        M, symmetric.
    basis, image : (p, m) arrays
        W, orthonormal, and MW.
    level : float
        What is to be proven.
    size : float
        At least |M|_F; more, where M is a difference of larger matrices and has their rounding.

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
    # Rounding in the products, each term at its largest.
    rounding = 4 * (p + m) * _EPSILON * np.sqrt(m + 1) * size
    return np.inf if info else float(bound + 2 * (p + 1) * _EPSILON * trace + rounding)


@dataclass(frozen=True, eq=False)
class ProjectedMixture:
    """A mixture M of the second moments as a subspace W sees it.

    Attributes
    ----------
    weights : (k,) array
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G, G = MW - WH.
    n_beside : int
        p - m.
    leading : LeadingSubspace
        Some leading eigenvectors of H, d or more.
    """

    weights: FloatArray
    compressed: FloatArray
    residual_gram: FloatArray
    complement_dim: int
    leading: LeadingSubspace

    def ritz_sum(self, n_components: int) -> float:
        """t_d(H)."""
        return float(self.leading.eigenvalues[:n_components].sum())

    def missing_sum_estimate(self, n_components: int) -> float:
        """What W lacks of t_d(M), to first order, if it holds all leading vectors."""
        return self.gained(self.leading.vectors[:, :n_components], n_components)

    def gained(self, coordinates: FloatArray, n_components: int) -> float:
        """Return what a basis within W captures more of M where its residual joins W.

        To first order, and if W holds all leading vectors of M.

        Parameters
        ----------
        coordinates : (m, r) array
            Of the basis within W.
        n_components : int
            d.
        """
        values = self.leading.eigenvalues
        squares = max(float(np.vdot(coordinates, self.residual_gram @ coordinates)), 0.0)
        distance = float(values[n_components - 1] - values[-1])
        return squares / distance if distance > 0 else float(np.sqrt(squares * n_components))

    def complement_bound_target(self, n_components: int, goal: float) -> float:
        """A bound on M beside W with which the excess stays within the goal."""
        values = self.leading.eigenvalues
        eigenvalue_d = float(values[n_components - 1])
        margin = max((eigenvalue_d - float(values[-1])) / 2, _MIN_MARGIN * abs(eigenvalue_d))
        # Below a share of the goal for each component, eigenvalues beside do not matter.
        return max(
            eigenvalue_d - margin, goal / (4 * n_components), _EPSILON * float(values[0]) + _TINY
        )

    def restrict_to_leading(self) -> "ProjectedMixture":
        """As the leading eigenvectors alone see it: others may be far from what they stand for."""
        values, turn = self.leading.eigenvalues, self.leading.vectors
        n = len(values)
        return ProjectedMixture(
            self.weights,
            np.diag(values),
            turn.T @ self.residual_gram @ turn,
            self.complement_dim + len(turn) - n,
            LeadingSubspace(values, np.eye(n), n, turn[:, :0], 0.0),
        )

    def top_sum_excess(self, n_components: int, complement_bound: float) -> float:
        """By how much t_d(M) may exceed t_d(H), if `ceiling` bounds M beside W.

        What the d leading eigenvalues have above the last of them is left out of both: t_d of a sum
        is at most the sum of both t_d, and large numbers then leave no rounding.
        """
        d, values = n_components, self.leading.eigenvalues
        if self.complement_dim == 0 or not np.isfinite(complement_bound):
            return np.inf if self.complement_dim else 0.0
        eigenvalue_d, vectors = float(values[d - 1]), self.leading.vectors[:, :d]
        # The whole distance raises eigenvalues within the least, and those beside to the last.
        size = max(float(np.trace(self.residual_gram)) / d, _TINY**2)
        eta = (
            eigenvalue_d - complement_bound
            if eigenvalue_d > complement_bound
            else float(np.sqrt(size))
        )
        shifted = self.compressed - (vectors * (values[:d] - eigenvalue_d)) @ vectors.T
        shifted = shifted + self.residual_gram / eta
        shifted.flat[:: len(shifted) + 1] -= eigenvalue_d
        raised = np.maximum(np.linalg.eigvalsh(shifted)[-d:], 0.0)
        beside = max(complement_bound + eta - eigenvalue_d - float(raised[0]), 0.0) * min(
            d, self.complement_dim
        )
        rounding = 4 * len(shifted) * abs(eigenvalue_d) + 8 * float(np.abs(values[:d]).sum())
        return float(raised.sum()) + beside + _EPSILON * rounding


@dataclass(frozen=True, eq=False)
class _ProjectedMoments(DenseSecondMoments):
    """W'S_gW, whose sums of smallest eigenvalues have room for what W lacks.

    Attributes
    ----------
    lacking : dict of bytes to float
        By how much t_d of a mixture may exceed what is within, by the bytes of its weights.
    """

    missing_sums: dict[bytes, float] = field(default_factory=dict)

    def smallest_eigenvalue_sum(
        self, weights: FloatArray, n_components: int
    ) -> SmallestEigenvalueSum:
        """That of a mixture; a proven bound on that in all features once what is lacking is."""
        least = super().smallest_eigenvalue_sum(weights, n_components)
        return least._replace(
            rounding_error=least.rounding_error + self.missing_sums.get(weights.tobytes(), 0.0)
        )


@dataclass(frozen=True, eq=False)
class SearchSubspace:
    """A subspace W with the images S_gW.

    Attributes
    ----------
    full : IterativeMoments
    n_held : int
        How many leading eigenvectors of a mixture W is to hold, d or more.
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
    def from_basis(cls, full: IterativeMoments, n_held: int, basis: FloatArray) -> "SearchSubspace":
        """The span of (p, m) orthonormal columns."""
        images = full.apply(basis)
        return cls(full, n_held, basis, images, symmetrize(basis.T @ images))

    @cached_property
    def projected_moments(self) -> _ProjectedMoments:
        """W'S_gW, and what lies outside of W."""
        outside = self.full_moments.traces - np.einsum("gii->g", self.compressed)
        # The difference is good enough unless nearly everything lies within.
        if (outside <= CANCELLATION_RATIO * self.full_moments.traces).any():
            outside = self.full_moments.residual_variances(self.basis)
        return _ProjectedMoments(self.compressed, outside)

    def expand(self, columns: FloatArray) -> "SearchSubspace":
        """The space with the span of (p, r) columns too; the same object if they add nothing."""
        existing = self.basis
        if isinstance(self.full_moments, SparseSecondMoments):
            # What a restriction forbids would grow with columns that add little.
            existing = np.hstack([self.full_moments.forbidden, existing])
        new_columns = orthonormalize_against(existing, columns)[
            :, : len(existing) - existing.shape[1]
        ]
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
        """The mixture sum_g weights_g S_g within; looked at once."""
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
        """MW of the mixture sum_g weights_g S_g, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """What the space knows of the leading eigenvectors of a mixture, shape (p, n_held)."""
        return np.asarray(self.basis @ self.project_mixture(weights).leading.vectors)

    def residual_directions(
        self, weights: FloatArray, basis: FloatArray, least_gain: float
    ) -> FloatArray:
        """Return where to, outside of W, a mixture pulls a basis within, in (m, d) coordinates.

        A solution need not be made of leading eigenvectors. Directions along which it would gain
        less than `least_gain` are left out: of a basis that is not converged, each makes others
        appear, and there is no end of them.
        """
        if self.project_mixture(weights).gained(basis, basis.shape[1]) <= least_gain:
            return self.basis[:, :0]
        image = self._image(weights) @ basis
        outside = image - self.basis @ (self.basis.T @ image)
        rounding = TRACE_ROUNDING * float(np.abs(weights) @ self.full_moments.traces)
        least = max(_RESIDUAL_TOL * float(np.linalg.norm(image)), rounding)
        return outside if float(np.linalg.norm(outside)) > least else outside[:, :0]

    def prove_missing_sums(
        self, mixtures: list[FloatArray], n_components: int, goal: float
    ) -> dict[bytes, float]:
        """By how much t_d of each mixture may exceed what is within, by the bytes of its weights.

        One factorisation for all, beside W; where that is too much to ask, or leaves more than the
        goal, one of the mixture alone, beside its own leading vectors.
        """
        second, d = self.full_moments, n_components
        assert isinstance(second, DenseSecondMoments)
        projected = [self.project_mixture(weights) for weights in mixtures]
        targets = [each.complement_bound_target(d, goal) for each in projected]
        # Each mixture divided by the bound that it needs: the sum is to stay below one.
        scaled_weights = np.maximum(mixtures, 0.0) / np.array(targets)[:, None]
        order = np.argsort(-scaled_weights.max(axis=1))
        joint_bounds, n_separate = np.full(len(mixtures), np.inf), 0
        while n_separate < len(mixtures) and not np.isfinite(joint_bounds).any():
            joint = order[n_separate:]
            envelope = scaled_weights[joint].max(axis=0)
            image = np.tensordot(envelope, self.images, axes=1)
            matrix, size = second.mixture(envelope), second.norm_bound(envelope)
            joint_bounds[joint] = complement_eigenvalue_bound(matrix, self.basis, image, 1.0, size)
            n_separate = 2 * n_separate + 1
        found: dict[bytes, float] = {}
        for mixture, level, complement_bound in zip(projected, targets, joint_bounds, strict=True):
            excess = mixture.top_sum_excess(d, float(complement_bound) * level)
            if excess > goal:
                weights, ritz_coordinates = mixture.weights, mixture.leading.vectors
                matrix, size = second.mixture(weights), second.norm_bound(weights)
                basis, image = (
                    self.basis @ ritz_coordinates,
                    self._image(weights) @ ritz_coordinates,
                )
                separate_bound = complement_eigenvalue_bound(matrix, basis, image, level, size)
                excess = min(
                    excess, mixture.restrict_to_leading().top_sum_excess(d, separate_bound)
                )
            found[mixture.weights.tobytes()] = excess
        return found


# Without matrices, a solution that lacks nothing is made more precise in at most so many rounds:
# components then agree with those of matrices to seven digits, and where eigenvalues lie close
# together further rounds would each gain next to nothing.
_REFINING_ROUNDS = 8
# Where second moments are matrices, LAPACK takes over after so many rounds.
_MAX_ROUNDS, _MAX_DENSE_ROUNDS = 60, 6
# Of the gap to reach: what the solver within may leave; what W may lack of an eigenvalue sum; and
# where nothing is proven.
_INNER_GAP_SHARE, _MISSING_SHARE, _MISSING_SHARE_ESTIMATED = 0.25, 0.25, 1e-3
# Residuals are made smaller than needed: a ceiling near eigenvalue d is then enough.
_SAFETY_FACTOR = 0.2
# The share of the gap, were the objective all variance, to which the groups' own optima are found.
OPTIMA_SHARE = 1e-4
# Of what is missed at first, the share to which mixtures are found, whose weights still move.
_INITIAL_MIXTURE_TOL = 1e-6
# The share of an eigenvalue sum over which the slope of the bound is taken.
_SLOPE_STEP = 1e-3
# Mixtures that join W in one round; the robust error gap rests on dozens.
_MAX_NEW_MIXTURES = 4


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
    search_problem = _without_solved_eigenproblems(problem) if problem.has_matrices else problem
    growth = _SubspaceSearch(search_problem, solver, tol, random_state)
    try:
        solution = growth.run()
    except (SubspaceInsufficient, IncompatibleParameters):
        # That nothing is compatible within W says nothing of all dimensions.
        if not problem.has_matrices:
            raise
        solution = solver.solve(problem, tol, random_state)
        count = growth.n_eigenproblems + solution.n_eigenproblems
        return replace(solution, n_eigenproblems=count)
    if problem.has_matrices:
        # The groups' own optima, which all is reported against, are not found again.
        whole, found = problem.parent or problem, search_problem.parent or search_problem
        for separate_bound, best in zip(np.eye(problem.n_groups), found.group_optima, strict=True):
            whole.dense_moments.eigen_cache.add(separate_bound, best)
    return solution


def _without_solved_eigenproblems(problem: Problem) -> Problem:
    """The same without what is known of its eigenvectors."""
    whole = None if problem.parent is None else _without_solved_eigenproblems(problem.parent)
    return replace(problem, second_moments=replace(problem.dense_moments), parent=whole)


class SubspaceInsufficient(Exception):
    """A subspace of few dimensions proves nothing: it is never raised to users."""


class _SubspaceSearch:
    """One problem, and the subspaces that grow for it."""

    def __init__(self, problem: Problem, solver: Solver, tol: float, random_state: Any) -> None:
        self.problem, self.solver = problem, solver
        self.tol, self.random_state = tol, random_state
        self.is_dense, self.n_components = problem.has_matrices, problem.n_components
        self.second_moments = cast(IterativeMoments, problem.second_moments)
        # Each group's second moment as the criterion counts it, and its variance.
        self.group_weights = list(np.diag(1 / problem.divisors))
        counted = self.second_moments.traces / problem.divisors
        self.optima_goal = OPTIMA_SHARE * tol * float(problem.proportions @ counted)
        self.variance_floor = TRACE_ROUNDING * float(counted.max())
        self.n_eigenproblems = 0
        # What W may lack of the groups' own optima in all directions, beside a restriction.
        self.optima_missing = 0.0

    def run(self) -> Certificate:
        """Solve within, and grow, until nothing is lacking.

        Raises
        ------
        SubspaceInsufficient
            Second moments are matrices, and something is lacking after all rounds.
        """
        criterion = self.problem.criterion
        expanded = self._initial_subspace()
        # The groups' own optima count where losses are measured against them.
        losses = criterion.uses_excess_loss and self.problem.parent is None and self.is_dense
        groups = self.group_weights if losses else []
        n_refined = 0
        for _ in range(_MAX_DENSE_ROUNDS if self.is_dense else _MAX_ROUNDS):
            space = expanded
            inside = self.problem.along(
                space.basis,
                second_moments=space.projected_moments,
                criterion=criterion.with_defaults(self.problem),
            )
            reduction = Reduction(inside, space.basis)
            solution = self.solver.solve(inside, _INNER_GAP_SHARE * self.tol, self.random_state)
            self.n_eigenproblems += solution.n_eigenproblems
            mixtures = groups + (
                list(np.unique(solution.proof.lines, axis=0))
                if isinstance(solution.proof, SupportingLinesProof)
                else [inside.criterion.dual_feasible_weights(solution.weights, inside)]
            )
            goal = self._missing_sum_goal(inside, solution, mixtures[-1])
            # A closed gap within needs its leading eigenvectors only.
            residuals = space.basis[:, :0]
            is_closed = solution.status == Status.OPTIMAL
            if not (is_closed and self.is_dense):
                least_gain = _SAFETY_FACTOR * goal
                if is_closed and n_refined < _REFINING_ROUNDS:
                    least_gain = 0.0
                    n_refined += not any(
                        space.project_mixture(weights).missing_sum_estimate(self.n_components)
                        > _SAFETY_FACTOR * goal
                        for weights in mixtures
                    )
                basis = Projector(solution.components).basis
                residuals = space.residual_directions(solution.weights, basis, least_gain)
            expanded = self._expand(space, mixtures, goal, residuals)
            if expanded is space:
                return self._lift_solution(space, reduction, solution)
        if self.is_dense:
            raise SubspaceInsufficient
        self._estimate_lacking(space, mixtures)
        return self._lift_solution(space, reduction, solution)

    def _initial_subspace(self) -> SearchSubspace:
        """First that of the groups' own optima, which all is reported against."""
        problem, columns = self.problem, list[FloatArray]()
        whole, axes = problem.parent, problem.axes
        if not self.is_dense:
            columns = [each.vectors for each in (*problem.group_optima, problem.pooled_optimum)]
        elif whole is None or axes is None:
            for (
                separate_bound
            ) in self.group_weights:  # from those of the one before: groups often vary alike
                start = columns[-1] if columns else None
                columns.append(self._find_leading(separate_bound, self.optima_goal, start))
        else:
            # Near those of all directions, which losses are measured against.
            growth = _SubspaceSearch(whole, self.solver, self.tol, self.random_state)
            ritz_coordinates = growth.find_group_optima()
            self.n_eigenproblems += growth.n_eigenproblems
            self.optima_missing = growth.optima_missing
            columns = [np.linalg.qr(axes.T @ ritz_coordinates)[0]]
        if problem.criterion.requires_equal_errors and problem.n_groups > 1:
            # Whether errors can be equal shows where the two groups differ most.
            apart = np.array([1.0, -1.0])
            columns += [self._find_leading(each, self.variance_floor) for each in (apart, -apart)]
        first, *others = columns
        space = SearchSubspace.from_basis(
            self.second_moments, self.second_moments.n_ritz(self.n_components), first
        )
        return space.expand(np.hstack([first[:, :0], *others]))

    def find_group_optima(self) -> FloatArray:
        """Find the groups' own optima, prove and remember them: (p, m) columns that hold them.

        Raises
        ------
        SubspaceInsufficient
            Something is lacking after all rounds.
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
        """Leading eigenvectors of a mixture in all dimensions, and some beyond them."""
        self.n_eigenproblems += 1
        goal = sum_goal if self.is_dense else None
        return self.second_moments.approximate_leading(
            weights, self.n_components, start=start, sum_goal=goal
        ).vectors

    def _missing_sum_goal(
        self, inside: Problem, solution: Certificate, weights: FloatArray
    ) -> float:
        """What W may lack of an eigenvalue sum, such that the bound falls by a share of the gap."""
        if isinstance(solution.proof, SupportingLinesProof):
            errors = inside.errors(Projector(solution.components).basis)
            slopes = self.problem.criterion.score_gradients(
                np.maximum(errors, self.variance_floor), self.problem
            )
            bound_slope = max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
        else:
            # That of a logarithm falls with a share of the sum, of any size.
            top = inside.second_moments.leading(weights, self.n_components).eigenvalue_sum
            step, least = _SLOPE_STEP * top, float(weights @ self.second_moments.traces) - top
            bounds = [inside.criterion.lower_bound(least - x, weights, inside) for x in (0.0, step)]
            bound_slope = (bounds[0] - bounds[1]) / step if bounds[0] > bounds[1] else 1.0
        share = _MISSING_SHARE if self.is_dense else _MISSING_SHARE_ESTIMATED
        # Weights of a logarithm are inverse variances, so rounding is that of the mixture itself.
        rounding = TRACE_ROUNDING * float(np.abs(weights) @ self.second_moments.traces)
        return max(share * self.tol * solution.scale / bound_slope, rounding)

    def _expand(
        self,
        space: SearchSubspace,
        mixtures: list[FloatArray],
        goal: float,
        residuals: FloatArray,
    ) -> SearchSubspace:
        """With what W lacks of the worst mixtures; the same object if it lacks little of all.

        Raises
        ------
        SubspaceInsufficient
            More may be lacking of matrices than the goal, for all that can be proven.
        """
        target = _SAFETY_FACTOR * goal
        estimates = [
            (space.project_mixture(weights).missing_sum_estimate(self.n_components), weights)
            for weights in mixtures
        ]
        insufficient = sorted(
            (each for each in estimates if each[0] > target), key=lambda each: -each[0]
        )
        columns = [
            self._find_leading(
                weights,
                max(_INITIAL_MIXTURE_TOL * missing, target / 4),
                space.ritz_vectors(weights),
            )
            for missing, weights in insufficient[:_MAX_NEW_MIXTURES]
        ]
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
        columns = self._estimate_lacking(space, mixtures, goal)
        return space.expand(np.hstack([space.basis[:, :0], *columns]))

    def _estimate_lacking(
        self, space: SearchSubspace, mixtures: list[FloatArray], goal: float = 0.0
    ) -> list[FloatArray]:
        """Record what W lacks of each mixture, as far as an iteration in all features can tell.

        Returns
        -------
        list of (p, m) arrays
            Leading eigenvectors of the mixtures of which W lacks more than the goal.
        """
        columns = []
        for weights in mixtures:
            self.n_eigenproblems += 1
            sought = self.second_moments.approximate_leading(weights, self.n_components)
            envelope = sought.leading.eigenvalue_sum + sought.sum_error
            missing = max(
                envelope - space.project_mixture(weights).ritz_sum(self.n_components), 0.0
            )
            space.projected_moments.missing_sums[weights.tobytes()] = missing
            if missing > goal:
                columns.append(sought.vectors)
        return columns

    def _cache_group_optima(self, space: SearchSubspace) -> None:
        """The groups' own optima, which all is reported against: they are not found again."""
        solved, missing_sums = (
            self.problem.dense_moments.eigen_cache,
            space.projected_moments.missing_sums,
        )
        self.optima_missing = max(
            (missing_sums.get(each.tobytes(), 0.0) for each in self.group_weights), default=0.0
        )
        for separate_bound in np.eye(self.problem.n_groups):
            values, vectors = (
                space.project_mixture(separate_bound).leading.eigenvalues,
                space.ritz_vectors(separate_bound),
            )
            solved.add(
                separate_bound,
                LeadingSubspace.from_eigenpairs(values, vectors, self.n_components, 0.0),
            )

    def _lift_solution(
        self, space: SearchSubspace, reduction: Reduction, solution: Certificate
    ) -> Certificate:
        """The solution in all features, with a bound lowered by what the subspace may lack.

        Raises
        ------
        SubspaceInsufficient
            Second moments are matrices, and rounding is in the way, of which there is less without
            a subspace.
        """
        problem, inside = self.problem, reduction.problem
        coordinates = Projector(solution.components).basis
        assert solution.proof is not None
        if self.is_dense and problem.parent is None:
            self._cache_group_optima(space)
        basis = normalize_signs(reduction.lift(coordinates))
        objective = problem.objective(basis)
        gap, _ = solution.proof.gap(inside, coordinates, inside.errors(coordinates))
        if problem.parent is None and problem.criterion.is_nonnegative:
            gap = min(gap, objective)
        found = certify(
            problem,
            basis,
            solution.proof,
            tol=self.tol,
            n_eigenproblems=self.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
            lower_bound=objective - gap - self.optima_missing,
        )
        # Two groups leave a gap open for no other reason.
        is_open_in_subspace = solution.status == Status.OPEN_GAP and problem.n_groups > 2
        if self.is_dense and not is_open_in_subspace and found.status != Status.OPTIMAL:
            raise SubspaceInsufficient
        proven = self.is_dense or found.status != Status.OPTIMAL
        # The objective is as uncertain as the groups' own optima that it is measured against.
        optima_uncertainty = self.optima_missing if problem.criterion.uses_excess_loss else 0.0
        return replace(
            found,
            resolution=found.resolution + optima_uncertainty,
            status=found.status if proven else Status.ESTIMATED,
            eigensolver="projected" if self.is_dense else "matrix-free",
            trace=tuple(
                replace(step, lower_bound=min(step.lower_bound, found.lower_bound))
                for step in found.trace
            ),
        )
