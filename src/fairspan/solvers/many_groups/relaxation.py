"""Solve the relaxed problem of k groups by Newton's method on its dual, with eigenvalue clusters.

The relaxed problem minimizes max_i (A_i.e(P) - b_i), or a sum of such maxima over blocks of pieces,
over 0 <= P <= I, tr P = d, where e_g(P) = tr S_g - <S_g, P> is the error of group g with second
moment S_g. Row A_i of the (m, k) matrix A holds the coefficients of piece i. Its dual maximizes
D(m) = L(sum_g w_g S_g) - m.b, w = A'm, with L the sum of the p - d smallest eigenvalues, over
multipliers m on a simplex for each block. D is concave. The pieces at the leading eigenvectors V of
the mixture are a supergradient, and D(m) is their sum weighted by m, so D is computed from errors,
without the cancellation of tr M - t_d.

Where eigenvalue d is simple, D is smooth and Newton's method with a proximal term converges in a
few eigenproblems. Eigenvalues near the cut may cross as the multipliers change, or be tied at the
optimum, where t_d is not differentiable. So r eigenvectors Q around the cut are treated as a
cluster: with the eigenvectors V above it and the remaining ones U, t_d(M + E) = tr V'(M + E)V +
t_j(Q'(M + E)Q) + second-order terms, j being d less the number of columns of V. The second-order
terms are sums of squares of the entries of E between V, Q and U divided by eigenvalue gaps,
weighted by the occupations Y of the leading eigenvectors of Q'(M + E)Q (Overton and Womersley
1995). VV' + QYQ' is the relaxed solution.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairspan.linalg import symmetrize
from fairspan.linalg.rounding import FIGURE_ROUNDING, SUM_ROUNDING, TINY, ZERO_EIGENVALUE
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.problem import Problem
from fairspan.solvers.convex_programs import (
    SaddlePoint,
    minimize_on_simplex,
    solve_saddle_point,
)
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class _NewtonRules:
    """Rules by which steps of Newton's method on the dual are accepted, and limits of their cost.

    Attributes
    ----------
    max_steps : int
        Steps; of 120 random problems none took more than 20.
    max_stalled_steps : int
        Consecutive steps that do not reduce the gap, which a search with ever more damping may
        need.
    sufficient_rise : float
        A step is accepted if the bound rises by at least this fraction of the predicted rise.
    max_trusted_error : float
        Where a rise differs from the prediction by at most this fraction of it, the next step is
        not damped: near the optimum only undamped steps converge quadratically.
    min_gap_reduction : float
        Where predicted rises are rounding errors, the relaxed solution, whose value depends on the
        multipliers to first order, may still improve: iterate while each step multiplies its gap by
        at most this factor.
    max_cluster_size : int
        Largest cluster of eigenvalues near eigenvalue d. A cluster costs a conic program of some
        milliseconds.
    max_cheap_features : int
        Number of features up to which eigenproblems are cheaper than a cluster.
    max_smooth_failures : int
        Steps without a cluster that may fail before one is used, while eigenproblems are cheaper.
    """

    max_steps: int = 80
    max_stalled_steps: int = 20
    sufficient_rise: float = 0.1
    max_trusted_error: float = 0.5
    min_gap_reduction: float = 0.5
    max_cluster_size: int = 6
    max_cheap_features: int = 150
    max_smooth_failures: int = 5


_RULES = _NewtonRules()


class Cluster(NamedTuple):
    """Range of neighboring eigenvalues that the model treats exactly, by their indices.

    Eigenvalues are in descending order. The cluster is empty if both indices are equal.

    Attributes
    ----------
    low : int
        Index of the first eigenvalue.
    high : int
        Index of the last one, plus one.
    """

    low: int
    high: int


@dataclass(frozen=True, eq=False)
class RelaxedSolution:
    """Subspace or soft projection (eigenvalues in [0, 1]), with the errors that it leaves.

    Attributes
    ----------
    basis : (p, r) array
        P = BB': d orthonormal columns; for a soft projection, r > d orthogonal columns of length at
        most 1.
    errors : (k,) array
        e_g(P).
    value : float
        Value of the pieces at these errors.
    """

    basis: FloatArray
    errors: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class DualModel:
    """Model of the dual function D near a point, for V, Q, U, Y, j and r of the module's docstring.

    V holds the eigenvectors above the cluster, Q the r eigenvectors of the cluster and U the rest;
    the cut is between eigenvalues d and d + 1. The (r, r) occupations Y, 0 <= Y <= I, tr Y = j, say
    to which degree the relaxed solution VV' + QYQ' contains the directions of Q.

    Attributes
    ----------
    problem : Problem
    pieces : AffinePieces
    multipliers : (m,) array
        The point: multipliers on a simplex for each block of pieces.
    eigenvalues, eigenvectors : (p,) and (p, p) arrays
        Eigenvalues of the mixture at that point in descending order, and eigenvectors.
    cluster : Cluster
        Range of the eigenvectors Q; empty, from d to d, where the model is Newton's.
    """

    problem: Problem
    pieces: AffinePieces
    multipliers: FloatArray
    eigenvalues: FloatArray
    eigenvectors: FloatArray
    cluster: Cluster

    @cached_property
    def leading_solution(self) -> RelaxedSolution:
        """Solution spanned by the d leading eigenvectors."""
        d = self.problem.n_components
        errors = self._errors_without(d)
        return RelaxedSolution(self.eigenvectors[:, :d], errors, self.pieces.value(errors))

    @cached_property
    def dual_value(self) -> float:
        """D(m): lower bound on the value of every subspace and every relaxed solution."""
        return float(self.multipliers @ self.pieces.piece_values(self.leading_solution.errors))

    @property
    def cluster_rank(self) -> int:
        """j, the number of dimensions that the cluster contributes."""
        return self.problem.n_components - self.cluster.low

    @cached_property
    def _images(self) -> FloatArray:
        """Images S_g[V Q], shape (k, p, high)."""
        return self.problem.second_moments.apply(self.eigenvectors[:, : self.cluster.high])

    def _errors_without(self, n_leading: int) -> FloatArray:
        """Error of each group outside the span of some of the eigenvectors [V Q], shape (k,)."""
        return self.problem.dense_moments.residual_variances(
            self.eigenvectors[:, :n_leading], self._images[:, :, :n_leading]
        )

    @cached_property
    def _cluster_moments(self) -> FloatArray:
        """Cluster moments Q'S_gQ, shape (k, r, r)."""
        low, high = self.cluster
        return symmetrize(self.eigenvectors[:, low:high].T @ self._images[:, :, low:high])

    @property
    def leading_occupations(self) -> FloatArray:
        """Occupations Y for which VV' + QYQ' projects onto the d leading eigenvectors, (r, r)."""
        low, high = self.cluster
        return np.diag((np.arange(high - low) < self.cluster_rank).astype(np.float64))

    def solution_at(self, occupations: FloatArray) -> RelaxedSolution:
        """Relaxed solution VV' + QYQ' for (r, r) occupations Y.

        The cluster, eigenvectors Q, are those nearly tied around the cut between eigenvalues d and
        d + 1; V are the eigenvectors above it. Y, with eigenvalues in [0, 1], says to which degree
        the solution contains the directions of Q. Without a cluster, d eigenvectors are taken.
        """
        low, high = self.cluster
        if not self.cluster_rank:
            return self.leading_solution
        # Add what Y leaves of the cluster instead of subtracting what it takes: a huge variance
        # would not cancel.
        vacancies = np.eye(high - low) - occupations
        cluster_errors = np.tensordot(self._cluster_moments, vacancies, axes=2)
        errors = self._errors_without(high) + cluster_errors
        values, rotation = np.linalg.eigh(occupations)
        lengths = np.sqrt(np.clip(values[::-1], 0.0, 1.0))
        cluster_columns = (self.eigenvectors[:, low:high] @ rotation[:, ::-1]) * lengths
        basis = np.hstack([self.eigenvectors[:, :low], cluster_columns])
        return RelaxedSolution(basis, errors, self.pieces.value(errors))

    def nearest_occupations(self, solution: RelaxedSolution) -> FloatArray:
        """Feasible (r, r) occupations Y for which VV' + QYQ' is closest to a relaxed solution."""
        low, high = self.cluster
        overlap = self.eigenvectors[:, low:high].T @ solution.basis
        return self._project_occupations(overlap @ overlap.T)

    def _project_occupations(self, occupations: FloatArray) -> FloatArray:
        """Closest feasible occupations in the Frobenius norm to a symmetric (r, r) matrix.

        Feasible are matrices with eigenvalues in [0, 1] and with the cluster rank as trace: the
        number of directions that the relaxed solution VV' + QYQ' takes from the cluster Q, whose
        eigenvalues are nearly tied. Y are the occupations.
        """
        # Nothing is taken from the cluster, so its occupations are not used.
        if not self.cluster_rank:
            return occupations
        values, rotation = np.linalg.eigh(occupations)
        # Project the eigenvalues: the clipped sum is piecewise linear in the common shift, with
        # these breakpoints.
        shifts = np.sort(np.concatenate([-values, 1 - values]))
        sums = np.clip(values + shifts[:, None], 0.0, 1.0).sum(axis=1)
        shift = np.interp(self.cluster_rank, sums, shifts)
        values = np.clip(values + shift, 0.0, 1.0)
        return np.asarray((rotation * values) @ rotation.T)

    def curvature_factor(self, occupations: FloatArray) -> FloatArray:
        """Factor F such that -FF' is the second derivative of the dual, shape (m, s).

        Q are the r eigenvectors of the cluster (nearly tied eigenvalues around the cut between
        eigenvalues d and d + 1), V those above it and U those below. Within the cluster the model
        is exact, so F has no columns for pairs in it. Each of the s columns belongs to a pair of
        eigenvectors u, v of different occupation (1 for V, 0 for U, in between for Q): it combines
        their couplings u'S_gv of each group, divided by the square root of the distance of their
        eigenvalues.

        Parameters
        ----------
        occupations : (r, r) array
            Y, the degree to which the relaxed solution VV' + QYQ' contains the directions of Q.
        """
        low, high = self.cluster
        values = self.eigenvalues
        k = len(self._images)
        r = high - low
        # Gaps between eigenvalues below this are rounding errors, and are not divided by.
        rounding = ZERO_EIGENVALUE * float(np.abs(values).max())
        gap_scale = np.abs(values[:high, None]) + np.abs(values[None, low:])
        min_gap = FIGURE_ROUNDING * np.maximum(gap_scale, rounding)
        min_gap = np.maximum(min_gap, TINY)
        # Couplings of V and Q, shape (k, high), with Q and U, from the images S_g[V Q].
        couplings = self._images.transpose(0, 2, 1) @ self.eigenvectors[:, low:]
        couplings /= np.sqrt(np.maximum(values[:high, None] - values[None, low:], min_gap))
        # Couplings of V with U; with a cluster, also of V with Q and of Q with U.
        blocks = [couplings[:, :low, r:]]
        if r:
            occupied, rotation = np.linalg.eigh(occupations)
            occupied = np.clip(occupied, 0.0, 1.0)
            blocks.append(couplings[:, :low, :r] @ (rotation * np.sqrt(1 - occupied)))
            blocks.append((rotation * np.sqrt(occupied)).T @ couplings[:, low:, r:])
        flat = np.hstack([block.reshape(k, -1) for block in blocks])
        # The second derivative of t_d with respect to the group weights has the factor sqrt(2)
        # times this, (k, s).
        return np.asarray(self.pieces.coefficients @ (np.sqrt(2) * flat))

    @cached_property
    def _base_slopes(self) -> FloatArray:
        """Slopes of the model in m: the values of the pieces at VV', without the cluster, (m,)."""
        if not self.cluster_rank:
            return self.pieces.piece_values(self.leading_solution.errors)
        return self.pieces.piece_values(self._errors_without(self.cluster.low))

    def model_value(
        self, multipliers: FloatArray, factor: FloatArray, damping: float = 0.0
    ) -> float:
        """Value of the model at (m,) multipliers m, less the proximal term of the damping.

        The model approximates the dual around the current point, with multipliers c. It is
        slopes.m - t_j(sum_i m_i C_i) - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2. The slopes are
        the values of the pieces if nothing of the cluster Q (eigenvectors of nearly tied
        eigenvalues) is captured. F, the `factor`, is the (m, s) curvature factor, C_i the mixture
        of cluster moments Q'S_gQ in piece i, and t_j the sum of the j largest eigenvalues, j being
        the number of directions taken from the cluster. The result is a prediction, not a bound.
        """
        step = multipliers - self.multipliers
        projected_step = step @ factor
        penalty = (float(projected_step @ projected_step) + damping * float(step @ step)) / 2
        if self.cluster_rank:
            weights = multipliers @ self.pieces.coefficients
            cluster_mixture = np.tensordot(weights, self._cluster_moments, axes=1)
            # The slopes leave out what the best j directions of the cluster capture, t_j.
            penalty += float(np.linalg.eigvalsh(cluster_mixture)[::-1][: self.cluster_rank].sum())
        return float(multipliers @ self._base_slopes) - penalty

    def maximize_model(self, factor: FloatArray, damping: float) -> SaddlePoint:
        """Multipliers (m,) that maximize :meth:`model_value`, and the occupations (r, r) there.

        The occupations Y say to which degree the relaxed solution contains each direction of the
        cluster, the r eigenvectors of nearly tied eigenvalues. If no maximum is found, the current
        multipliers are returned.

        Parameters
        ----------
        factor : (m, s) array
            Curvature factor, the result of :meth:`curvature_factor`.
        damping : float
            Coefficient of the proximal term, which shortens the step.
        """
        center = self.multipliers
        blocks = self.pieces.blocks
        slopes = self._base_slopes
        if self.cluster_rank:
            # C_i, the mixture of cluster moments in each piece.
            mixtures = np.tensordot(self.pieces.coefficients, self._cluster_moments, axes=1)
            maximum = solve_saddle_point(
                slopes, factor, damping, center, mixtures, self.cluster_rank, blocks
            )
            if not maximum.is_finite:
                # Predict no rise: the search then ends with its current result.
                return SaddlePoint(center, self.leading_occupations)
            occupations = self._project_occupations(maximum.occupations)
            return maximum._replace(occupations=occupations)
        # Without a cluster the model is quadratic: the minimum of minus the model in standard form.
        linear = -slopes - factor @ (center @ factor) - damping * center
        multipliers = minimize_on_simplex(factor, linear, blocks, ridge=damping, start=center)
        return SaddlePoint(multipliers, self.leading_occupations)

    def predict_step(self, factor: FloatArray, damping: float) -> "PredictedStep":
        """Predict the step to the maximum of the model; see :meth:`maximize_model`."""
        multipliers, occupations = self.maximize_model(factor, damping)
        rise = self.model_value(multipliers, factor, damping) - self.dual_value
        return PredictedStep(multipliers, occupations, self.solution_at(occupations), rise)


@dataclass(frozen=True, eq=False)
class PredictedStep:
    """Step to the maximum of a model of the dual.

    Attributes
    ----------
    multipliers : (m,) array
        Multipliers at the maximum.
    occupations : (r, r) array
        Occupations of the cluster there.
    solution : RelaxedSolution
        Relaxed solution of these occupations.
    rise : float
        Rise of the dual that the model predicts.
    """

    multipliers: FloatArray
    occupations: FloatArray
    solution: RelaxedSolution
    rise: float


@dataclass(frozen=True, eq=False)
class NewtonState:
    """Point of Newton's method from which the next step starts.

    Attributes
    ----------
    model : DualModel
        Model of the dual around the point.
    occupations : (r, r) array
        Occupations of the cluster that the curvature of the model refers to.
    damping : float
        Coefficient of the proximal term of the next step.
    """

    model: DualModel
    occupations: FloatArray
    damping: float = 0.0


class Relaxation:
    """Solver of the relaxed problem, with bounds on its optimum.

    Parameters
    ----------
    problem : Problem
        Its criterion is ignored.
    pieces : AffinePieces

    Attributes
    ----------
    lower_bound, upper_bound : float
        Best lower bound, and smallest value of a relaxed solution.
    multipliers : (m,) array
        Multipliers of the best lower bound.
    best_relaxed, best_subspace : RelaxedSolution
        Best relaxed solution, and best subspace of exactly d dimensions found at a dual point.
    n_eigenproblems : int
        Number of eigenproblems solved so far.
    """

    def __init__(self, problem: Problem, pieces: AffinePieces) -> None:
        self.problem = problem
        self.pieces = pieces
        self.lower_bound = -np.inf
        self.upper_bound = np.inf
        self._best_subspace_value = np.inf
        self.n_eigenproblems = 0
        self._n_failures = 0
        self._model = self.evaluate_dual(_initial_multipliers(problem, pieces))
        self._occupations = self._model.leading_occupations

    @property
    def gap(self) -> float:
        """Gap of the relaxed problem."""
        return self.upper_bound - self.lower_bound

    @property
    def weights(self) -> FloatArray:
        """Group weights w = A'm of the best bound, shape (k,)."""
        return np.asarray(self.multipliers @ self.pieces.coefficients)

    def evaluate_dual(self, multipliers: FloatArray) -> DualModel:
        """Evaluate the dual at (m,) multipliers by one eigenproblem, and update the bounds.

        Multipliers are clipped at zero and normalized in each block first, so that every bound
        holds. Returns the model of the dual around that point.
        """
        multipliers = self.pieces.blocks.normalize(multipliers)
        weights = multipliers @ self.pieces.coefficients
        spectrum = self.problem.dense_moments.eigen_cache.decomposition(weights)
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
            self._best_subspace_value = model.leading_solution.value
            self.best_subspace = model.leading_solution
        self._update_upper_bound(model.leading_solution)
        if model.dual_value > self.lower_bound:
            self.lower_bound = model.dual_value
            self.multipliers = multipliers
        return model

    def _update_upper_bound(self, solution: RelaxedSolution) -> None:
        """Keep a relaxed solution if it is the best so far."""
        if solution.value < self.upper_bound:
            self.upper_bound = solution.value
            self.best_relaxed = solution

    def solve(self, target_gap: float) -> None:
        """Maximize the dual until the gap is closed or the model predicts no further rise.

        Each step maximizes the model and evaluates the dual there. The step is accepted if the dual
        rises by a sufficient part of the prediction; otherwise the damping, which shortens steps,
        is increased, or eigenvalues around the cut between eigenvalues d and d + 1 become a cluster
        that the model treats exactly. Occupations say to which degree the relaxed solution contains
        each direction of the cluster. Bounds and solutions are kept as attributes; a further call
        continues where this one stopped.

        Parameters
        ----------
        target_gap : float
            Absolute gap to reach.
        """
        state = NewtonState(self._model, self._occupations)
        start_errors = state.model.solution_at(state.occupations).errors
        rounding = FIGURE_ROUNDING * self.pieces.magnitude(start_errors)
        factor = state.model.curvature_factor(state.occupations)
        previous_gap = np.inf
        smallest_gap = self.gap
        n_stalled = 0
        for _ in range(_RULES.max_steps):
            # Next to a huge variance, rounding may hide the rise that the model predicts.
            n_stalled = 0 if self.gap < smallest_gap else n_stalled + 1
            smallest_gap = min(self.gap, smallest_gap)
            if n_stalled > _RULES.max_stalled_steps:
                return
            step = state.model.predict_step(factor, state.damping)
            self._update_upper_bound(step.solution)
            if self.gap <= target_gap:
                return
            if step.rise <= rounding:
                # The bound has converged; the solution has once its gap stops shrinking.
                if state.damping > 0:
                    # The rise may be that small only because damping shortens the step: predict it
                    # without damping.
                    state = replace(state, damping=0.0)
                    continue
                if self.gap > _RULES.min_gap_reduction * previous_gap:
                    return
                previous_gap = self.gap
            candidate = self.evaluate_dual(step.multipliers)
            occupations = candidate.nearest_occupations(step.solution)
            self._update_upper_bound(candidate.solution_at(occupations))
            if self.gap <= target_gap:
                return
            state = self._next_state(state, step, NewtonState(candidate, occupations), rounding)
            factor = state.model.curvature_factor(state.occupations)

    def _next_state(
        self, state: NewtonState, step: PredictedStep, candidate: NewtonState, rounding: float
    ) -> NewtonState:
        """Accept the candidate if the dual rises enough there; otherwise change the model.

        A step that fails is repeated with more damping, or with a cluster around the cut if there
        was another one or none.

        Parameters
        ----------
        state : NewtonState
            Point before the step.
        step : PredictedStep
            Step from this point.
        candidate : NewtonState
            Point after the step, where the dual is evaluated; undamped.
        rounding : float
            Rises up to this are rounding errors.
        """
        model = state.model
        rise = candidate.model.dual_value - model.dual_value
        # Curvature along the step for which the model would have predicted the actual rise.
        secant_curvature = 0.0
        change = candidate.model.multipliers - model.multipliers
        if step.rise > rounding and change.any():
            excess = 2 * (step.rise - rise) / float(change @ change)
            secant_curvature = state.damping + excess
        if rise >= _RULES.sufficient_rise * step.rise - rounding:
            self._model = candidate.model
            self._occupations = candidate.occupations
            is_trusted = abs(rise - step.rise) <= _RULES.max_trusted_error * step.rise
            damping = 0.0 if is_trusted else max(secant_curvature, 0.0)
            return replace(candidate, damping=damping)
        self._n_failures += 1
        cluster = self._select_cluster(model.eigenvalues)
        if cluster != model.cluster:
            clustered = replace(model, cluster=cluster)
            return NewtonState(clustered, clustered.leading_occupations)
        damping = max(2 * state.damping, secant_curvature)
        return NewtonState(model, step.occupations, damping)

    def _select_cluster(self, values: FloatArray) -> Cluster:
        """Cluster around the cut of (p,) descending eigenvalues.

        The cut is between eigenvalues d and d + 1. Eigenvalues of the cluster may cross there, so
        the model treats them exactly, at the cost of a conic program. With few features, where
        eigenproblems are cheaper than that, the cluster is empty, (d, d), until several steps of
        the smooth model have failed.
        """
        d = self.problem.n_components
        p = len(values)
        may_stay_smooth = (
            p < _RULES.max_cheap_features and self._n_failures < _RULES.max_smooth_failures
        )
        if d == p or may_stay_smooth:
            return Cluster(d, d)
        # Of the small ranges that contain eigenvalues d and d + 1, the one best separated from the
        # rest, by the gaps before and after it; gaps beyond the ends are infinite.
        gaps = np.concatenate([[np.inf], values[:-1] - values[1:], [np.inf]])
        clusters = [
            Cluster(low, high)
            for low in range(max(0, d - _RULES.max_cluster_size + 1), d)
            for high in range(d + 1, min(p, low + _RULES.max_cluster_size) + 1)
        ]
        return max(clusters, key=lambda cluster: min(gaps[cluster.low], gaps[cluster.high]))


def _initial_multipliers(problem: Problem, pieces: AffinePieces) -> FloatArray:
    """Return (m,) initial multipliers: the warm start's group weights, or else uniform ones.

    Group weights are multipliers only if piece i is the error of group i, up to a constant.
    """
    coefficients = pieces.coefficients
    if problem.warm_start is None or not np.array_equal(coefficients, np.eye(len(coefficients))):
        return _uniform_multipliers(pieces)
    return pieces.blocks.normalize(problem.warm_start.weights)


def _uniform_multipliers(pieces: AffinePieces) -> FloatArray:
    """Uniform multipliers; increasing ones if the coefficients of the pieces cancel with these.

    The mixture would then be zero, and all of its eigenvalues tied, which tells no directions.
    """
    m = len(pieces.offsets)
    uniform = pieces.blocks.normalize(np.ones(m))
    max_coefficients = np.abs(pieces.coefficients).max(axis=0)
    cancels = np.abs(uniform @ pieces.coefficients) <= SUM_ROUNDING * max_coefficients
    return np.linspace(1.0, m, m) if cancels.all() else uniform
