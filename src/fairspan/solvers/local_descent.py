"""Local descent to subspaces of exactly d dimensions.

The objective is the largest score, or a sum of the largest scores of several blocks, where scores
F_i are smooth functions of the group errors e_g. V is (p, d) with orthonormal columns, and S_g the
second moment of group g. Moving V to V + UX, U spanning the orthogonal complement, changes the
error e_g to first order by -2 <B_g, X>, B_g = U'S_gV. With multipliers m of the scores F_i, w_g =
sum_i m_i dF_i/de_g and M = sum_g w_g S_g, the second-order term is sum_(i, j) (a_j - b_i) X_ij^2 in
the bases of U and V in which U'MU = diag(b) and V'MV = diag(a). The quadratic model is therefore
diagonal, and each step is a program over multipliers on a simplex for each block of scores.

Each iteration takes the better of two steps: a descent step with curvatures made positive, and a
Newton step on the active scores, which gives fast local convergence. Both get a second-order
correction where scores curve differently, and are damped as needed. A descent may also end at a
saddle point, so the search uses several starts.

Curvatures can differ by many orders of magnitude, for example if V contains the direction of a
column of large numbers, so thresholds are set per column of X.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, cast

import numpy as np

from fairspan.linalg import graded_eigh, symmetrize
from fairspan.linalg.rounding import AGREEMENT_TOL, EPS, VALUE_ROUNDING
from fairspan.problem.piecewise import SINGLE_BLOCK, Blocks
from fairspan.problem.problem import Problem
from fairspan.solvers.convex_programs import bordered_matrix, minimize_on_simplex
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class _DescentRules:
    """Rules by which steps of a descent are accepted, corrected and damped.

    Attributes
    ----------
    max_steps : int
        Steps of a descent, each with one eigenproblem; most descents end after 3 to 30.
    good_decrease : float
        A step with less than this fraction of the predicted decrease is corrected.
    sufficient_decrease : float
        A step with less than this fraction of the predicted decrease is damped more.
    min_damping : float
        Smallest damping but zero, relative to the scale of the curvatures.
    max_damping : float
        Damping beyond which a step moves so little that the descent ends.
    damping_increase : float
        Factor of the damping after a trial without sufficient decrease.
    damping_decrease : float
        Divisor of the damping from one step to the next.
    min_descent_curvature : float
        Smallest curvature of the descent step, relative to the scale of its column.
    min_newton_curvature : float
        Smallest absolute curvature of the Newton step, relative to the scale of its column. It only
        avoids divisions by zero, and is smaller since curvatures keep their signs.
    """

    max_steps: int = 200
    good_decrease: float = 0.5
    sufficient_decrease: float = 0.1
    min_damping: float = 1e-4
    max_damping: float = 1e8
    damping_increase: float = 8.0
    damping_decrease: float = 16.0
    min_descent_curvature: float = 1e-3
    min_newton_curvature: float = 1e-8


_RULES = _DescentRules()
# Relative step of finite differences of the errors.
_FINITE_DIFFERENCE_STEP = 1e-5
# Fraction of a group's variance at which the gradient of the robust error gap is evaluated for
# smaller errors.
_MIN_ERROR_RATIO = 1e-9
# Singular values of a Newton system below this fraction of the largest count as zero.
_ZERO_SINGULAR_RATIO = 1e-14


@dataclass(frozen=True, eq=False)
class Iterate:
    """Subspace with its errors, scores and multipliers.

    Attributes
    ----------
    basis : (p, d) array
        Orthonormal columns V.
    errors : (k,) array
        Error of each group.
    scores : (m,) array
        The objective is the sum of the block maxima.
    multipliers : (m,) array
        On a simplex for each block: the multipliers of the step that led here.
    value : float
        Objective.
    """

    basis: FloatArray
    errors: FloatArray
    scores: FloatArray
    multipliers: FloatArray
    value: float

    @classmethod
    def from_basis(
        cls, problem: Problem, basis: FloatArray, multipliers: FloatArray | None = None
    ) -> "Iterate":
        """Evaluate errors, scores and objective of a (p, d) basis.

        Multipliers are weights of the (m,) scores that sum to one in each block. By default, the
        scores that attain the maximum of their block get equal ones and the others zero.
        """
        errors = problem.errors(basis)
        blocks = score_blocks(problem)
        scores = scores_and_gradients(problem, errors)[0]
        largest = blocks.maxima(scores)
        if multipliers is None:
            is_largest = scores == largest[blocks.block_indices(len(scores))]
            multipliers = blocks.normalize(is_largest * 1.0)
        return cls(basis, errors, scores, multipliers, float(largest.sum()))


class _ScoredCriterion(Protocol):
    """Criterion whose value is the largest of scores, each a smooth function of the errors."""

    def scores(self, errors: FloatArray, problem: Problem, /) -> FloatArray:
        """Return the scores at (k,) group errors."""

    def score_gradients(self, errors: FloatArray, problem: Problem, /) -> FloatArray:
        """Return the derivative of each score in each error."""


def score_blocks(problem: Problem) -> Blocks:
    """Blocks of the scores."""
    return SINGLE_BLOCK if problem.pieces is None else problem.pieces.blocks


def scores_and_gradients(problem: Problem, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scores of the criterion at (k,) group errors, and their gradients.

    Scores are smooth functions of the errors. The objective is the largest of them; if they form
    blocks (:func:`score_blocks`), it is the sum of the largest of each block.

    Returns
    -------
    scores : (m,) array
        Each is a sum of functions of a single error.
    gradients : (m, k) array
        Derivative of each score in each error.
    """
    # The scores of a piecewise linear criterion are its pieces.
    if problem.pieces is not None:
        return problem.pieces.piece_values(errors), problem.pieces.coefficients
    criterion = cast(_ScoredCriterion, problem.criterion)
    scores = criterion.scores(errors, problem)
    if problem.criterion.is_steep_at_zero:
        # At zero error the gradient is infinite; evaluate it slightly above, where it is finite.
        traces = problem.second_moments.traces
        # A group without variance has no scale of its own.
        replacement = max(float(traces.max()), 1.0)
        min_errors = _MIN_ERROR_RATIO * np.where(traces > 0, traces, replacement)
        errors = np.maximum(errors, min_errors)
    return scores, criterion.score_gradients(errors, problem)


def descend(
    problem: Problem, basis: FloatArray, min_decrease: float = 0.0, goal: float = -np.inf
) -> tuple[Iterate, int]:
    """Descend from a (p, d) basis to a local minimum.

    Parameters
    ----------
    problem : Problem
    basis : (p, d) array
    min_decrease : float
        Decrease of the objective that is worth another step, if it exceeds rounding.
    goal : float
        Value that is known to be nearly minimal: no step follows once it is reached.

    Returns
    -------
    Iterate
        Never worse than the start, except for rounding.
    int
        Number of steps, each with one eigenproblem.
    """
    point = Iterate.from_basis(problem, basis)
    p, d = basis.shape
    # There is only one subspace of all dimensions.
    if p == d:
        return point, 0
    damping = 0.0
    for n_steps in range(1, _RULES.max_steps + 1):
        model = QuadraticModel(problem, point)
        negligible = max(model.rounding, min_decrease)
        point, damping = _take_best_step(model, damping, negligible)
        if model.point.value - point.value <= negligible or point.value <= goal:
            return point, n_steps
    return point, _RULES.max_steps


def _take_best_step(
    model: "QuadraticModel", damping: float, negligible: float
) -> tuple[Iterate, float]:
    """Take the best of several steps, with increasing damping until one decreases the value enough.

    Enough is a fraction of what the model predicts for the descent step. Among candidates that are
    equal up to rounding the first wins: the Newton step, which is the most accurate.

    Parameters
    ----------
    model : QuadraticModel
        Model of the objective around the current point.
    damping : float
        Damping of the previous step, of which this one starts with a fraction.
    negligible : float
        Decrease, at least the rounding error, for which no further trial is made.

    Returns
    -------
    point : Iterate
        Best of all candidates; the current point, with the multipliers of the best candidate, if
        none improves it.
    damping : float
        Damping of the last trial, to be passed for the next step.
    """
    point = model.point
    candidates: list[Iterate] = []
    damping = damping / _RULES.damping_decrease if damping > _RULES.min_damping else 0.0
    while True:
        # Candidates are the descent step, the Newton step and, where the scores curve differently,
        # their second-order corrections.
        descent = model.descent_step(point.scores, damping)
        descent_point = model.retract(descent.step, descent.multipliers)
        good_decrease = _RULES.good_decrease * descent.predicted_decrease
        # Newton steps are not damped, so they are tried in the first round only.
        if not candidates:
            candidates += _newton_candidates(
                model, descent.multipliers, descent_point.value, good_decrease
            )
        candidates.append(descent_point)
        decrease = point.value - min(candidate.value for candidate in candidates)
        # Corrections allow for scores of a block that curve differently; a single score needs none.
        if not model.has_single_scores and decrease < good_decrease:
            corrected_scores = model.second_order_correction(descent_point.scores, descent.step)
            corrected = model.descent_step(corrected_scores, damping)
            candidates.append(model.retract(corrected.step, corrected.multipliers))
        max_value = min(candidate.value for candidate in candidates) + model.rounding
        best = next(candidate for candidate in candidates if candidate.value <= max_value)
        sufficient = max(_RULES.sufficient_decrease * descent.predicted_decrease, negligible)
        is_sufficient = point.value - best.value >= sufficient
        cannot_improve = descent.predicted_decrease <= sufficient or damping > _RULES.max_damping
        if is_sufficient or cannot_improve:
            if best.value > point.value + model.rounding:
                # The new multipliers balance the scores here, even if the step was not useful.
                best = replace(point, multipliers=best.multipliers)
            return best, damping
        damping = max(_RULES.damping_increase * damping, _RULES.min_damping)


def _newton_candidates(
    model: "QuadraticModel", multipliers: FloatArray, descent_value: float, good_decrease: float
) -> list[Iterate]:
    """Points reached by the Newton step, and by a corrected one if the first is not good enough.

    The objective, which is minimized, is the largest of the scores (or a sum over blocks of them).
    The Newton step equalizes the active scores, those that attain the maximum. Where scores curve
    differently they differ again after the step; the corrected step allows for that. Empty if there
    is no Newton step.

    Parameters
    ----------
    model : QuadraticModel
    multipliers : (m,) array
        Multipliers of the descent step; positive for active scores.
    descent_value : float
        Objective after the descent step.
    good_decrease : float
        Decrease of the objective from which a step needs no correction.
    """
    newton_step = model.newton_step(multipliers, model.point.scores)
    if newton_step is None:
        return []
    newton_point = model.retract(*newton_step)
    is_good = model.point.value - newton_point.value >= good_decrease
    # If every block has a single score, no scores have to be equalized: no correction.
    if model.has_single_scores or (is_good and newton_point.value <= descent_value):
        return [newton_point]
    corrected_scores = model.second_order_correction(newton_point.scores, newton_step.step)
    corrected_step = model.newton_step(multipliers, corrected_scores)
    if corrected_step is None:
        return [newton_point]
    return [newton_point, model.retract(*corrected_step)]


class DescentStep(NamedTuple):
    """Step that minimizes a model with positive curvatures.

    Attributes
    ----------
    step : (p - d, d) array
        X, which moves the basis V to V + UX, with U the complement.
    multipliers : (m,) array
        Multipliers of the scores.
    predicted_decrease : float
        Decrease of the objective according to the model.
    """

    step: FloatArray
    multipliers: FloatArray
    predicted_decrease: float


class NewtonStep(NamedTuple):
    """Step that equalizes the active scores, according to a model.

    Attributes
    ----------
    step : (p - d, d) array
        X, which moves the basis V to V + UX, with U the complement.
    multipliers : (m,) array
        Multipliers of the scores; zero for inactive ones.
    """

    step: FloatArray
    multipliers: FloatArray


class QuadraticModel:
    """Quadratic model of the scores around a point, for its multipliers.

    Attributes
    ----------
    basis : (p, d) array
        V, rotated such that V'MV is diagonal, with M = sum_g w_g S_g, w the gradient of the scores
        weighted by the multipliers.
    complement : (p, p - d) array
        U, orthonormal and orthogonal to V, rotated such that U'MU is diagonal.
    score_gradients : (m, k) array
        A, the gradients of the scores with respect to the errors.
    half_descents : (k, p - d, d) array
        B_g, such that the error e_g falls by 2 <B_g, X>.
    curvatures : (p - d, d) array
        a_j - b_i, positive or negative, from the diagonals a of V'MV and b of U'MU.
    error_curvatures : (k,) array
        Second derivative of the weighted scores in each error.
    rounding : float
        Rounding error of the scores.
    column_scales : (d,) array
        Scale of curvatures and gradients in each column of X.
    """

    def __init__(self, problem: Problem, point: Iterate) -> None:
        """Compute the model at a point with basis V, shape (p, d).

        S_g is the second moment of group g, w_g the slope of the scores in its error (with the
        point's multipliers as their weights), M = sum_g w_g S_g and U the complement of V. V and U
        are rotated such that V'MV = diag(a) and U'MU = diag(b); a step X to V + UX then has the
        curvatures a_j - b_i, and lowers the error of group g by 2 <U'S_gV, X> to first order.
        """
        self.problem = problem
        self.point = point
        self.blocks = score_blocks(problem)
        basis = point.basis
        self.score_gradients = scores_and_gradients(problem, point.errors)[1]
        weights = point.multipliers @ self.score_gradients  # w_g, shape (k,)
        images = problem.second_moments.apply(basis)  # S_gV, shape (k, p, d)
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        # The eigenvalues of V'MV. Even the smallest, which may be far below the largest, are
        # accurate.
        inner_mixture = symmetrize(basis.T @ np.tensordot(weights, images, axes=1))
        inner_values, inner_rotation, _ = graded_eigh(inner_mixture, max(len(inner_mixture) - 1, 0))
        # The eigenvalues of U'MU.
        mixture = problem.dense_moments.mixture(weights)
        outer_mixture = symmetrize(complement.T @ mixture @ complement)
        outer_values, outer_rotation = np.linalg.eigh(outer_mixture)
        self.basis = basis @ inner_rotation
        self.complement = complement @ outer_rotation
        self.half_descents = self.complement.T @ images @ inner_rotation
        self.curvatures = inner_values[None, :] - outer_values[:, None]
        self.error_curvatures = self._curvatures_in_errors(weights)
        score_magnitudes = np.abs(self.score_gradients) @ point.errors
        self.rounding = VALUE_ROUNDING * float(self.blocks.maxima(score_magnitudes).sum())
        self.column_scales = self._scales_of_columns()

    def _curvatures_in_errors(self, slopes: FloatArray) -> FloatArray:
        """Second derivative of the weighted scores in each error, shape (k,); zero if linear.

        It is a finite difference of the (k,) slopes, their first derivatives at the errors of the
        point. All errors are lowered together, since each score is a sum of functions of a single
        error.
        """
        errors = self.point.errors
        if self.problem.pieces is not None:  # scores are linear
            return np.zeros_like(errors)
        difference_step = _FINITE_DIFFERENCE_STEP * errors
        shifted_gradients = scores_and_gradients(self.problem, errors - difference_step)[1]
        slope_change = slopes - self.point.multipliers @ shifted_gradients
        is_positive = difference_step > 0
        return np.divide(
            slope_change, difference_step, out=np.zeros_like(errors), where=is_positive
        )

    def _scales_of_columns(self) -> FloatArray:
        """Scale of curvatures and gradients in each column of a step X, shape (d,)."""
        # Bound on the entries of sum_g A_ig B_g, half the decrease of score i with the step.
        max_slope_sum = np.abs(self.score_gradients).sum(axis=1).max()
        gradient_scale = max_slope_sum * np.abs(self.half_descents).max(axis=(0, 1))
        scales = np.maximum(np.abs(self.curvatures).max(axis=0), gradient_scale)
        # Columns of scale zero belong to a tie, and get the smallest scale of the others.
        nonzero_scales = scales[scales > EPS * scales.max()]
        min_scale = nonzero_scales.min() if len(nonzero_scales) else 1.0
        return np.asarray(np.maximum(scales, min_scale))

    @property
    def has_single_scores(self) -> bool:
        """Whether every block has a single score, so that no step needs a correction."""
        return len(self.point.scores) == len(self.blocks.starts)

    def retract(self, step: FloatArray, multipliers: FloatArray) -> Iterate:
        """Return the iterate that a (p - d, d) step X leads to: the orthonormalized V + UX."""
        basis = np.linalg.qr(self.basis + self.complement @ step)[0]
        return Iterate.from_basis(self.problem, basis, multipliers)

    def descent_step(self, scores: FloatArray, damping: float = 0.0) -> DescentStep:
        """Return the descent step: curvatures are made positive and increased by the damping.

        The step X moves the basis V to V + UX, with U the complement. It minimizes a model of the
        objective: the largest score, or the sum of the largest score of each block, where score i
        changes by -2 <sum_g A_ig B_g, X>; plus <X, curvatures * X>, which counts once whatever the
        number of blocks. To first order the error of group g falls by 2 <B_g, X> (B_g are the half
        descents), and A_ig is the slope of score i in that error (the score gradients). By duality
        the multipliers m minimize |F'm|^2 / 2 - scores.m on a simplex for each block, where row i
        of F is sqrt(2) sum_g A_ig B_g / sqrt(curvatures), as a vector. Then
        X = sum_i m_i sum_g A_ig B_g / curvatures. Curvatures and damping are relative to
        `column_scales`, the typical curvature along each column of the basis.

        Parameters
        ----------
        scores : (m,) array
            Scores at the current point, perhaps with a second-order correction.
        damping : float
            Added to the curvatures, relative to the scale of their column; larger means a shorter
            step.

        Returns
        -------
        DescentStep
        """
        min_curvatures = _RULES.min_descent_curvature * self.column_scales
        positive_curvatures = np.maximum(np.abs(self.curvatures), min_curvatures)
        curvatures = positive_curvatures + damping * self.column_scales
        scaled_gradients = np.sqrt(2) * self.half_descents / np.sqrt(curvatures)
        scaled_gradients = scaled_gradients.reshape(len(scaled_gradients), -1)
        multipliers = minimize_on_simplex(
            factor=self.score_gradients @ scaled_gradients,
            linear=-scores,
            blocks=self.blocks,
            start=self.point.multipliers,
        )
        weights = multipliers @ self.score_gradients
        step = self._weighted_descent(weights) / curvatures
        model_value = float(multipliers @ scores) - float(np.vdot(step, curvatures * step))
        decrease = float(self.blocks.maxima(scores).sum()) - model_value
        return DescentStep(step, multipliers, decrease)

    def newton_step(self, multipliers: FloatArray, scores: FloatArray) -> NewtonStep | None:
        """Return the Newton step that equalizes the active scores; None if there is none.

        The objective is the largest score, or the sum of the largest of each block of scores. The
        active ones are to attain a common value in their block, its level. The step X moves the
        basis V to V + UX, with U the complement; to first order the error of group g then falls by
        2 <B_g, X> (B_g are the half descents).

        With w the weights of the groups, the step X = sum_g w_g B_g / curvatures is stationary:
        unlike those of the descent step, the curvatures keep their signs. The weights follow from
        the multipliers m of the active scores and their gradients A in the errors: w = A'm, plus
        `error_curvatures` times the change of the errors where scores curve. There is no step if no
        m >= 0 equalizes the scores (:func:`_equalizing_multipliers`).

        Parameters
        ----------
        multipliers : (m,) array
            Scores with positive multipliers are active.
        scores : (m,) array
            Scores at the current point, perhaps with a second-order correction.

        Returns
        -------
        NewtonStep or None
        """
        # The multipliers of inactive scores are zero, up to rounding.
        active = np.flatnonzero(multipliers > AGREEMENT_TOL)
        gradients = self.score_gradients[active]
        # Curvatures near zero are moved away from it, since the step divides by them.
        min_curvatures = _RULES.min_newton_curvature * self.column_scales
        signs = np.where(self.curvatures < 0, -1.0, 1.0)
        curvatures = signs * np.maximum(np.abs(self.curvatures), min_curvatures)
        error_response = self._error_response(curvatures)
        active_multipliers = _equalizing_multipliers(
            scores[active],
            score_response=gradients @ error_response @ gradients.T,
            blocks=self.blocks.select(active),
        )
        if active_multipliers is None:
            return None
        new_multipliers = np.zeros(len(multipliers))
        new_multipliers[active] = active_multipliers
        # First A'm, then w: the errors change by minus their response to A'm.
        weights = active_multipliers @ gradients
        weights = weights - self.error_curvatures * (error_response @ weights)
        step = self._weighted_descent(weights) / curvatures
        return NewtonStep(step, new_multipliers)

    def _weighted_descent(self, weights: FloatArray) -> FloatArray:
        """Sum of the half descents B_g, weighted by w_g: sum_g w_g B_g, shape (p - d, d)."""
        # Faster than tensordot for such small arrays.
        flat = weights @ self.half_descents.reshape(len(weights), -1)
        return np.asarray(flat.reshape(self.curvatures.shape))

    def _error_response(self, curvatures: FloatArray) -> FloatArray:
        """Matrix R such that the errors fall by R A'm in the Newton step of multipliers m, (k, k).

        The step X = sum_h w_h B_h / curvatures lowers the error of group g by 2 <B_g, X>, which is
        entry g of R_0 w. Without curvature of the scores in the errors, w = A'm and R = R_0.
        Otherwise w = A'm - c R_0 w, with c the diagonal matrix of these curvatures.
        """
        k = len(self.half_descents)
        descents = 2 * self.half_descents.reshape(k, -1)
        response = descents @ (self.half_descents / curvatures).reshape(k, -1).T
        if self.error_curvatures.any():
            response = np.linalg.solve(np.eye(k) + response * self.error_curvatures, response)
        return np.asarray(response)

    def second_order_correction(self, scores: FloatArray, step: FloatArray) -> FloatArray:
        """Scores corrected such that the next step is accurate to second order (Maratos 1978).

        The linear changes of a (p - d, d) step are subtracted from the (m,) scores found after it:
        a step of the model from here, with its own linear changes, then predicts these scores. The
        model curves all scores alike while the true scores curve differently, so after a long
        step along their common level they differ by its square, and the largest increases.
        """
        linear_changes = np.tensordot(self.half_descents, step, axes=2)
        return np.asarray(scores + 2 * self.score_gradients @ linear_changes)


def _equalizing_multipliers(
    scores: FloatArray, score_response: FloatArray, blocks: Blocks
) -> FloatArray | None:
    """Nonnegative multipliers m for which the scores of each block become equal; None if none do.

    A step of multipliers m changes the scores s to s - R m. The multipliers, which sum to one in
    each block, and the common values of the blocks (their levels) solve one linear system.

    Parameters
    ----------
    scores : (n,) array
        s.
    score_response : (n, n) array
        R. If it is zero, scores do not respond to any step, and there are no such multipliers.
    blocks : Blocks
        Blocks of the scores.
    """
    n = len(scores)
    scale = float(np.abs(score_response).max())
    if not 0 < scale < np.inf:
        return None
    # R m + levels = s, and the sum of m in each block is one. In units of the scale; subtracting
    # the largest score of a block from the others only changes its level.
    indicator = blocks.indicator_matrix(n)
    system = bordered_matrix(score_response / scale, indicator)
    block_maxima = blocks.maxima(scores)[blocks.block_indices(n)]
    rhs = np.append((scores - block_maxima) / scale, np.ones(len(indicator)))
    # Least squares, since the system is singular where scores respond alike.
    multipliers = np.asarray(np.linalg.lstsq(system, rhs, rcond=_ZERO_SINGULAR_RATIO)[0][:n])
    return None if (multipliers < 0).any() else multipliers


def best_local_descent(
    problem: Problem, soft: FloatArray, further_starts: Sequence[FloatArray]
) -> FloatArray:
    """Return the (p, d) basis of smallest objective that local descents find.

    Parameters
    ----------
    problem : Problem
    soft : (p, r) array
        Columns sqrt(lb_j) u_j of a relaxed projector P = sum_j lb_j u_j u_j', with r >= d. The
        first descent starts from the d leading eigenvectors of P.
    further_starts : sequence of (p, d) arrays
        Bases from which further descents start.
    """
    leading = np.linalg.eigh(soft @ soft.T)[1][:, ::-1][:, : problem.n_components]
    minima = (descend(problem, start)[0] for start in (leading, *further_starts))
    return min(minima, key=lambda point: point.value).basis
