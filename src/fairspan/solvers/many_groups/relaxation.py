"""The relaxed problem of k groups: Newton's method on its dual, with the kinks in the model.

The relaxed problem minimises max_i (A_i.e(P) - b_i) over 0 <= P <= I, tr P = d, where
e_g(P) = tr S_g - <S_g, P>; or a sum of such maxima over blocks of pieces. Its dual maximises
D(m) = L(sum_g w_g S_g) - m.b, w = A'm, L the sum of the p - d smallest eigenvalues, over
multipliers m on the simplex, one simplex for each block. D is concave; the pieces at the leading
eigenvectors V of the mixture are a supergradient, and D(m) is the sum of the pieces at V weighted
by m. So it is computed from errors, which do not cancel, and never from t_d.

D is smooth where eigenvalue d is not tied, and there Newton's method with a proximal term converges
in a few eigenproblems. Eigenvalues near the cut may cross as the multipliers move, or be tied at
the optimum, and there t_d has kinks. So r eigenvectors Q around the cut are kept as a block: with
those above it, V, and the rest U, t_d(M + E) = tr of V'(M + E)V + t_j(Q'(M + E)Q) + second-order
terms, j = d minus those in V. The second-order terms are sums of squares of E's entries between V,
Q and U over gaps of eigenvalues, weighted by the shares Y that Q'(M + E)Q's leading eigenvectors
have (Overton and Womersley 1995). VV' + QYQ' is the relaxed solution.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.linalg import symmetrize
from fairspan.problem.problem import AffinePieces, Problem
from fairspan.solvers.convex_programs import minimize_on_simplex, solve_saddle_point
from fairspan.typing import FloatArray

# Gaps of eigenvalues below this share of both are not divided by.
_MIN_RELATIVE_GAP = 1e-14
# Eigenvalues below this share of the largest may be rounding.
_EIGENVALUE_ROUNDING = 1e-12
# A step is taken if the bound rises by this share of what the model promised.
_SUFFICIENT_RISE = 0.1
# A block costs a program of some milliseconds: as long as eigenproblems are cheaper, this many
# steps may fail without one.
_MAX_CLUSTER_SIZE, _CHEAP_MAX_FEATURES, _MAX_SMOOTH_FAILURES = 6, 150, 5
# Rises below this share of the errors in the pieces are rounding; but the relaxed solution, whose
# value is off by the first order of the multipliers, may need more steps, as long as they halve its
# gap.
_PIECE_ROUNDING, _MIN_GAP_REDUCTION = 1e-14, 0.5
_MAX_STEPS = 80
# Weights that sum to this share of the pieces' coefficients are nothing.
_CANCELLATION_TOL = 1e-12


@dataclass(frozen=True, eq=False)
class RelaxedSolution:
    """A subspace, or a soft one, and the error of each group that it leaves.

    Attributes
    ----------
    basis : (p, r) array
        P = BB': d orthonormal columns; of a soft one r > d orthogonal columns of length at most 1.
    errors : (k,) array
        e_g(P).
    value : float
        Of the pieces at these errors.
    """

    basis: FloatArray
    errors: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class DualModel:
    """The dual near a point.

    Attributes
    ----------
    problem : Problem
    pieces : Pieces
    multipliers : (m,) array
        Where: on a simplex for each block of pieces.
    values, vectors : (p,) and (p, p) arrays
        Eigenvalues of the mixture there, largest first, and eigenvectors.
    block : (int, int)
        First eigenvector of Q, and the one after its last; both d for no block: then the model is
        Newton's.
    """

    problem: Problem
    pieces: AffinePieces
    multipliers: FloatArray
    eigenvalues: FloatArray
    eigenvectors: FloatArray
    cluster: tuple[int, int]

    @cached_property
    def leading_solution(self) -> RelaxedSolution:
        """The leading eigenvectors."""
        basis = self.eigenvectors[:, : self.problem.n_components]
        errors = self.problem.errors(basis)
        return RelaxedSolution(basis, errors, self.pieces.value(errors))

    @cached_property
    def dual_value(self) -> float:
        """D(m): no subspace, and no relaxed one, has a smaller value."""
        return float(self.multipliers @ self.pieces.piece_values(self.leading_solution.errors))

    @property
    def cluster_rank(self) -> int:
        """j: how many of the d dimensions are shared out among the block."""
        return self.problem.n_components - self.cluster[0]

    @cached_property
    def _images(self) -> FloatArray:
        """S_g[V Q], shape (k, p, hi)."""
        return self.problem.second_moments.apply(self.eigenvectors[:, : self.cluster[1]])

    @cached_property
    def _cluster_moments(self) -> FloatArray:
        """Q'S_gQ, shape (k, r, r)."""
        low, high = self.cluster
        return symmetrize(self.eigenvectors[:, low:high].T @ self._images[:, :, low:high])

    @property
    def leading_occupations(self) -> FloatArray:
        """Y of the d leading eigenvectors themselves, shape (r, r)."""
        low, high = self.cluster
        return np.diag((np.arange(high - low) < self.cluster_rank).astype(np.float64))

    def solution_at(self, occupations: FloatArray) -> RelaxedSolution:
        """VV' + QYQ'."""
        low, high = self.cluster
        if not self.cluster_rank:
            return self.leading_solution
        # What Y leaves of the block, and not what it takes: a huge variance would not cancel.
        cluster_errors = np.tensordot(
            self._cluster_moments, np.eye(high - low) - occupations, axes=2
        )
        errors = self.problem.errors(self.eigenvectors[:, :high]) + cluster_errors
        values, turn = np.linalg.eigh(occupations)
        lengths = np.sqrt(np.clip(values[::-1], 0.0, 1.0))
        cluster_columns = (self.eigenvectors[:, low:high] @ turn[:, ::-1]) * lengths
        basis = np.hstack([self.eigenvectors[:, :low], cluster_columns])
        return RelaxedSolution(basis, errors, self.pieces.value(errors))

    def nearest_occupations(self, atom: RelaxedSolution) -> FloatArray:
        """The shares of the block that come nearest to a relaxed solution."""
        low, high = self.cluster
        overlap = self.eigenvectors[:, low:high].T @ atom.basis
        return self._project_occupations(overlap @ overlap.T)

    def _project_occupations(self, occupations: FloatArray) -> FloatArray:
        """The nearest matrix between 0 and I whose trace is the block's rank."""
        if not self.cluster_rank:
            return occupations
        values, turn = np.linalg.eigh(occupations)
        # The nearest numbers between 0 and 1 with this sum: it rises with what is added to all, in
        # straight lines between these.
        points = np.sort(np.concatenate([-values, 1 - values]))
        sums = np.clip(values + points[:, None], 0.0, 1.0).sum(axis=1)
        values = np.clip(values + np.interp(self.cluster_rank, sums, points), 0.0, 1.0)
        return np.asarray((turn * values) @ turn.T)

    def curvature_factor(self, occupations: FloatArray) -> FloatArray:
        """F with FF' minus the dual's second derivative at these shares, shape (m, s)."""
        low, high = self.cluster
        values, k, r = self.eigenvalues, len(self._images), high - low
        gap_scale = np.abs(values[:high, None]) + np.abs(values[None, low:])
        min_gap = _MIN_RELATIVE_GAP * np.maximum(
            gap_scale, _EIGENVALUE_ROUNDING * float(np.abs(values).max())
        )
        min_gap = np.maximum(min_gap, np.finfo(np.float64).tiny)
        couplings = self._images.transpose(0, 2, 1) @ self.eigenvectors[:, low:]
        couplings /= np.sqrt(np.maximum(values[:high, None] - values[None, low:], min_gap))
        blocks = [couplings[:, :low, r:]]
        if r:
            share, turn = np.linalg.eigh(occupations)
            share = np.clip(share, 0.0, 1.0)
            blocks.append(couplings[:, :low, :r] @ (turn * np.sqrt(1 - share)))
            blocks.append((turn * np.sqrt(share)).T @ couplings[:, low:, r:])
        flat = np.hstack([part.reshape(k, -1) for part in blocks])
        # The second derivative of t_d in the groups' weights has sqrt(2) times this, (k, s).
        return np.asarray(self.pieces.coefficients @ (np.sqrt(2) * flat))

    @cached_property
    def _base_slopes(self) -> FloatArray:
        """The pieces at V alone, shape (m,)."""
        if not self.cluster_rank:
            return self.pieces.piece_values(self.leading_solution.errors)
        return self.pieces.piece_values(
            self.problem.errors(self.eigenvectors[:, : self.cluster[0]])
        )

    def model_value(
        self, multipliers: FloatArray, factor: FloatArray, damping: float = 0.0
    ) -> float:
        """slopes.m - t_j(sum_i m_i C_i) - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2, c here."""
        step = multipliers - self.multipliers
        projected_step = step @ factor
        penalty = (float(projected_step @ projected_step) + damping * float(step @ step)) / 2
        if self.cluster_rank:
            cluster_mixture = np.tensordot(
                multipliers @ self.pieces.coefficients, self._cluster_moments, axes=1
            )
            penalty += float(np.linalg.eigvalsh(cluster_mixture)[::-1][: self.cluster_rank].sum())
        return float(multipliers @ self._base_slopes) - penalty

    def maximize_model(self, factor: FloatArray, damping: float) -> tuple[FloatArray, FloatArray]:
        """Multipliers where that is largest, and the shares there."""
        center, blocks, slopes = self.multipliers, self.pieces.blocks, self._base_slopes
        if self.cluster_rank:
            # C_i, the mixture of the groups' Q'S_gQ in each piece.
            mixtures = np.tensordot(self.pieces.coefficients, self._cluster_moments, axes=1)
            found, occupations = solve_saddle_point(
                slopes, factor, damping, center, mixtures, self.cluster_rank, blocks
            )
            # Without a solution it promises nothing, and the search ends with what it has.
            solved = np.isfinite(found).all() and np.isfinite(occupations).all()
            return (
                (found, self._project_occupations(occupations))
                if solved
                else (center, self.leading_occupations)
            )
        linear = -slopes - factor @ (center @ factor) - damping * center
        found = minimize_on_simplex(factor, linear, blocks, ridge=damping, start=center)
        return found, self.leading_occupations


class Relaxation:
    """Bounds on the relaxed optimum, and what attains them.

    Parameters
    ----------
    problem : Problem
        Its criterion is not looked at.
    pieces : Pieces

    Attributes
    ----------
    lower, upper : float
        The best bound, and the least value of a relaxed solution.
    multipliers : (m,) array
        Those of the best bound.
    relaxed, nearest : Atom
        The best relaxed solution, and the best subspace of exactly d dimensions that a dual point
        gave.
    n_eigenproblems : int
        How many were solved so far.
    """

    def __init__(self, problem: Problem, pieces: AffinePieces) -> None:
        self.problem, self.pieces = problem, pieces
        self.lower_bound, self.upper_bound, self._best_subspace_value = -np.inf, np.inf, np.inf
        self.n_eigenproblems = self._n_failures = 0
        self._model = self.evaluate_dual(_initial_multipliers(problem, pieces))
        self._occupations = self._model.leading_occupations

    @property
    def gap(self) -> float:
        """Of the relaxed problem."""
        return self.upper_bound - self.lower_bound

    @property
    def weights(self) -> FloatArray:
        """w = A'm of the best bound, shape (k,)."""
        return np.asarray(self.multipliers @ self.pieces.coefficients)

    def evaluate_dual(self, multipliers: FloatArray) -> DualModel:
        """The dual at a point, by one eigenproblem; its bound and atom are taken."""
        multipliers = self.pieces.blocks.normalize(multipliers)
        spectrum = self.problem.dense_moments.eigen_cache.decomposition(
            multipliers @ self.pieces.coefficients
        )
        self.n_eigenproblems += 1
        model = DualModel(
            self.problem,
            self.pieces,
            multipliers,
            spectrum.values,
            spectrum.vectors,
            self._select_cluster(spectrum.values),
        )
        if model.leading_solution.value < self._best_subspace_value:
            self._best_subspace_value, self.best_subspace = (
                model.leading_solution.value,
                model.leading_solution,
            )
        self._update_upper_bound(model.leading_solution)
        if model.dual_value > self.lower_bound:
            self.lower_bound, self.multipliers = model.dual_value, multipliers
        return model

    def _update_upper_bound(self, atom: RelaxedSolution) -> None:
        """Take a relaxed solution if it is the best so far."""
        if atom.value < self.upper_bound:
            self.upper_bound, self.best_relaxed = atom.value, atom

    def solve(self, target_gap: float) -> None:
        """Climb until the gap is closed, or the model promises nothing more.

        Parameters
        ----------
        tolerance : float
            The gap to reach, absolute.
        """
        model, occupations, damping, previous_gap = self._model, self._occupations, 0.0, np.inf
        rounding = _PIECE_ROUNDING * self.pieces.magnitude(model.solution_at(occupations).errors)
        factor = model.curvature_factor(occupations)
        for _ in range(_MAX_STEPS):
            found, occupations = model.maximize_model(factor, damping)
            predicted_rise = model.model_value(found, factor, damping) - model.dual_value
            solution = model.solution_at(occupations)
            self._update_upper_bound(solution)
            if self.gap <= target_gap:
                return
            if predicted_rise <= rounding:
                # The bound is there, and so is the solution once its gap shrinks no more.
                if damping > 0:
                    # What is left of it only shortens the steps, of which none can go wrong now.
                    damping = 0.0
                    continue
                if self.gap > _MIN_GAP_REDUCTION * previous_gap:
                    return
                previous_gap = self.gap
            candidate = self.evaluate_dual(found)
            candidate_occupations = candidate.nearest_occupations(solution)
            self._update_upper_bound(candidate.solution_at(candidate_occupations))
            if self.gap <= target_gap:
                return
            actual_rise, step = (
                candidate.dual_value - model.dual_value,
                candidate.multipliers - model.multipliers,
            )
            # The curvature along the step that its end would have been right for.
            has_curvature = predicted_rise > rounding and step.any()
            secant_curvature = (
                damping + 2 * (predicted_rise - actual_rise) / float(step @ step)
                if has_curvature
                else 0.0
            )
            if actual_rise >= _SUFFICIENT_RISE * predicted_rise - rounding:
                model, occupations, damping = (
                    candidate,
                    candidate_occupations,
                    max(secant_curvature, 0.0),
                )
                self._model, self._occupations = model, occupations
            else:
                damping = max(2 * damping, secant_curvature)
                self._n_failures += 1
                block = self._select_cluster(model.eigenvalues)
                if block != model.cluster:
                    model = replace(model, cluster=block)
                    occupations, damping = model.leading_occupations, 0.0
            factor = model.curvature_factor(occupations)

    def _select_cluster(self, values: FloatArray) -> tuple[int, int]:
        """The block around the cut, of (p,) eigenvalues; none as long as it does without."""
        d, p = self.problem.n_components, len(values)
        if d == p or (p < _CHEAP_MAX_FEATURES and self._n_failures < _MAX_SMOOTH_FAILURES):
            return d, d
        # That which is set apart the most, by the gaps before and after it; beyond the ends they
        # are as large as can be.
        gaps = np.concatenate([[np.inf], values[:-1] - values[1:], [np.inf]])
        lows, most = range(max(0, d - _MAX_CLUSTER_SIZE + 1), d), _MAX_CLUSTER_SIZE
        ends = ((low, high) for low in lows for high in range(d + 1, min(p, low + most) + 1))
        return max(ends, key=lambda block: min(gaps[block[0]], gaps[block[1]]))


def _initial_multipliers(problem: Problem, pieces: AffinePieces) -> FloatArray:
    """Multipliers to begin with: the weights of a problem's start where each piece has its own."""
    coefficients = pieces.coefficients
    if problem.warm_start is None or not np.array_equal(coefficients, np.eye(len(coefficients))):
        return _uniform_multipliers(pieces)
    return pieces.blocks.normalize(problem.warm_start.weights)


def _uniform_multipliers(pieces: AffinePieces) -> FloatArray:
    """Even multipliers; rising ones where these cancel, and all eigenvalues are tied at zero."""
    m, largest = len(pieces.offsets), np.abs(pieces.coefficients).max(axis=0)
    even = pieces.blocks.normalize(np.ones(m))
    cancels = np.abs(even @ pieces.coefficients) <= _CANCELLATION_TOL * largest
    return np.linspace(1.0, m, m) if cancels.all() else even
