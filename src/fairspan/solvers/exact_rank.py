"""Subspaces of exactly d dimensions: local descent, rounding, and rank reduction.

What is minimised is the largest score, or a sum of the largest scores of several blocks. Moving V
to V + UX, U the orthogonal complement, changes the error e_g by -2 <B_g, X> in first order,
B_g = U'S_gV. For multipliers m of the scores F_i, w_g = sum_i m_i dF_i/de_g and M = sum_g w_g S_g,
the second order is sum_(i, j) (a_j - b_i) X_ij^2 in the bases of U and V that make U'MU = diag(b)
and V'MV = diag(a). So the quadratic model is diagonal, and each step is a program over multipliers
on a simplex for each block of scores.

Each step is the better of two: one with curvatures made positive, which goes down, and Newton's on
the scores that stay largest, which ends it. Both are corrected for scores that bend differently,
and damped as far as needed. Saddle points end a descent too: a search has other starts.

Curvatures can lie many orders of magnitude apart, as where V holds the direction of a column of
large numbers. So what is small is told for each column of X by itself.

Rank reduction (Pataki 1998) makes a relaxed solution of as few dimensions as its value needs. P
with 0 <= P <= I and tr P = d is given as columns sqrt(lb_j) u_j, P = sum_j lb_j u_j u_j'. Let F
be its r eigenvectors with eigenvalues between 0 and 1. As long as the symmetric r x r matrices
outnumber the equations that keep the value, there is a direction Delta along which P + t F Delta F'
keeps it; walking until an eigenvalue reaches 0 or 1 makes r smaller.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.linalg import graded_eigh, symmetrize
from fairspan.moments.operators import SecondMoments
from fairspan.problem.problem import SINGLE_BLOCK, AffinePieces, Blocks, Problem
from fairspan.solvers.convex_programs import minimize_on_simplex, smat, svec
from fairspan.typing import FloatArray

_MAX_STEPS = 200
# A step that keeps less than this share of its promise is corrected; less than that, damped.
_GOOD_DECREASE, _SUFFICIENT_DECREASE = 0.5, 0.1
# Damping, as a share of the largest curvature: its range, and by what it grows and shrinks.
_MIN_DAMPING, _MAX_DAMPING, _DAMPING_INCREASE, _DAMPING_DECREASE = 1e-4, 1e8, 8.0, 16.0
# Curvatures are taken to be this share of a column's at least: of a step that goes down, and of
# Newton's.
_MIN_DESCENT_CURVATURE, _MIN_NEWTON_CURVATURE = 1e-3, 1e-8
# Scores with a multiplier below this are not active; pieces closer to the largest than this share
# of the pieces' size are.
_ACTIVE_TOL = 1e-9
# Scores are uncertain by this share of the errors in them.
_SCORE_ROUNDING = 1e-15
# Differences for second derivatives are this share of the errors.
_FINITE_DIFFERENCE_STEP = 1e-5
# Share of a group's variance below which the slope of the robust error gap is taken at it.
_MIN_ERROR_RATIO = 1e-9


@dataclass(frozen=True, eq=False)
class Iterate:
    """A subspace, and what it leaves there.

    Attributes
    ----------
    basis : (p, d) array
    errors : (k,) array
    scores : (m,) array
        The sum of the largest of each block is minimised: this is the value.
    multipliers : (m,) array
        On a simplex for each block: those of the step that led here.
    value : float
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
        """Where no multipliers are known, the largest scores share them evenly."""
        errors, blocks = problem.errors(basis), score_blocks(problem)
        scores = scores_and_gradients(problem, errors)[0]
        largest = blocks.maxima(scores)
        if multipliers is None:
            multipliers = blocks.normalize(
                (scores == largest[blocks.block_indices(len(scores))]) * 1.0
            )
        return cls(basis, errors, scores, multipliers, float(largest.sum()))


def score_blocks(problem: Problem) -> Blocks:
    """The blocks of the scores."""
    return SINGLE_BLOCK if problem.pieces is None else problem.pieces.blocks


def scores_and_gradients(problem: Problem, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The criterion as smooth functions of the (k,) errors, whose largest count.

    Returns
    -------
    scores : (m,) array
        Each a sum of functions of one error.
    derivatives : (m, k) array
    """
    if problem.pieces is not None:
        return problem.pieces.piece_values(errors), problem.pieces.coefficients
    criterion: Any = problem.criterion
    scores = criterion.scores(errors, problem)
    if criterion.has_concave_scores:
        # At an error of zero the slope is infinite; just beyond it is finite and says the same.
        traces = problem.second_moments.traces
        least = _MIN_ERROR_RATIO * np.where(traces > 0, traces, max(float(traces.max()), 1.0))
        errors = np.maximum(errors, least)
    return scores, criterion.score_gradients(errors, problem)


def descend(problem: Problem, basis: FloatArray) -> tuple[Iterate, int]:
    """Walk downhill from a (p, d) basis until no step lowers the value.

    Returns
    -------
    Point
        Never above the start but by rounding.
    int
        How many steps, with one eigenproblem each.
    """
    point, damping, n_steps = Iterate.from_basis(problem, basis), 0.0, 0
    while n_steps < _MAX_STEPS and basis.shape[0] > basis.shape[1]:
        n_steps += 1
        model = QuadraticModel(problem, point)
        point, damping = _descent_step(model, damping)
        if model.point.value - point.value <= model.rounding:
            break
    return point, n_steps


def _descent_step(model: "QuadraticModel", damping: float) -> tuple[Iterate, float]:
    """The best of the steps tried, damped more and more until one keeps its promise.

    Also the damping to begin the next with. Of those alike, the first: it is Newton's, which is
    precise; where none is lower, the point itself.
    """
    point, candidates = model.point, list[Iterate]()
    has_single_scores = len(point.scores) == len(
        model.blocks
    )  # a score alone has no other to part from
    damping = damping / _DAMPING_DECREASE if damping > _MIN_DAMPING else 0.0
    while True:
        step, multipliers, predicted_decrease = model.descent_step(point.scores, damping)
        safe_point = model.retract(step, multipliers)
        newton_step = None if candidates else model.newton_step(multipliers, point.scores)
        if newton_step is not None:
            candidates.append(next_piece := model.retract(*newton_step))
            kept = point.value - next_piece.value >= _GOOD_DECREASE * predicted_decrease
            if not has_single_scores and not (kept and next_piece.value <= safe_point.value):
                corrected = model.second_order_correction(next_piece.scores, newton_step[0])
                newton_step = model.newton_step(multipliers, corrected)
                candidates += [] if newton_step is None else [model.retract(*newton_step)]
        candidates.append(safe_point)
        if (
            not has_single_scores
            and point.value - min(each.value for each in candidates)
            < _GOOD_DECREASE * predicted_decrease
        ):
            corrected = model.second_order_correction(safe_point.scores, step)
            candidates.append(model.retract(*model.descent_step(corrected, damping)[:2]))
        least = min(each.value for each in candidates) + model.rounding
        best = next(each for each in candidates if each.value <= least)
        sufficient = max(_SUFFICIENT_DECREASE * predicted_decrease, model.rounding)
        if (
            point.value - best.value >= sufficient
            or predicted_decrease <= sufficient
            or damping > _MAX_DAMPING
        ):
            if best.value > point.value + model.rounding:
                # The multipliers balance the scores here, wherever the steps lead.
                best = replace(point, multipliers=best.multipliers)
            return best, damping
        damping = max(_DAMPING_INCREASE * damping, _MIN_DAMPING)


class QuadraticModel:
    """First and second order of the scores around a point, weighed by its multipliers.

    Attributes
    ----------
    basis : (p, d) array
    complement : (p, p - d) array
        V and U in the bases that make M diagonal.
    derivatives : (m, k) array
        A, of the scores in the errors.
    descents : (k, p - d, d) array
        B, half the descent of each error along X.
    curvatures : (p - d, d) array
        a_j - b_i, of either sign.
    bends : (k,) array
        Second derivatives of the weighed scores in each group's error.
    rounding : float
        How far scores are off.
    sizes : (d,) array
        Of curvatures and slopes in each column of X.
    """

    def __init__(self, problem: Problem, point: Iterate) -> None:
        self.problem, self.point, self.blocks = problem, point, score_blocks(problem)
        basis, errors, second = point.basis, point.errors, problem.second_moments
        self.score_gradients = scores_and_gradients(problem, errors)[1]
        weights, images = point.multipliers @ self.score_gradients, second.apply(basis)
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        compressed = symmetrize(basis.T @ np.tensordot(weights, images, axes=1))
        inner_values, inner_rotation, _ = graded_eigh(compressed, max(len(compressed) - 1, 0))
        mixture = problem.dense_moments.mixture(weights)
        outer_values, outer_rotation = np.linalg.eigh(
            symmetrize(complement.T @ mixture @ complement)
        )
        self.basis, self.complement = basis @ inner_rotation, complement @ outer_rotation
        self.half_descents = self.complement.T @ images @ inner_rotation
        self.curvatures = inner_values[None, :] - outer_values[:, None]
        difference_step = _FINITE_DIFFERENCE_STEP * errors
        slope_change = (
            weights - point.multipliers @ scores_and_gradients(problem, errors - difference_step)[1]
        )
        self.error_curvatures = np.divide(
            slope_change, difference_step, out=np.zeros_like(errors), where=difference_step > 0
        )
        sizes = np.abs(self.score_gradients)
        self.rounding = _SCORE_ROUNDING * self.blocks.sum_of_maxima(sizes @ errors)
        gradient_scale = sizes.sum(axis=1).max() * np.abs(self.half_descents).max(axis=(0, 1))
        largest = np.maximum(np.abs(self.curvatures).max(axis=0), gradient_scale)
        # Columns without any are those of a tie, and measured like the least of the others.
        nonzero_scales = largest[largest > np.finfo(np.float64).eps * largest.max()]
        self.column_scales = np.maximum(
            largest, nonzero_scales.min() if len(nonzero_scales) else 1.0
        )

    def retract(self, step: FloatArray, multipliers: FloatArray) -> Iterate:
        """The point to which a step X leads."""
        basis = np.linalg.qr(self.basis + self.complement @ step)[0]
        return Iterate.from_basis(self.problem, basis, multipliers)

    def descent_step(
        self, scores: FloatArray, damping: float = 0.0
    ) -> tuple[FloatArray, FloatArray, float]:
        """With curvatures made positive, and larger by a share: a descent direction.

        Returns
        -------
        along : (p - d, d) array
            X.
        multipliers : (m,) array
            With which it was found.
        promise : float
            By how much the model lets the value fall.
        """
        curvatures = (
            np.maximum(np.abs(self.curvatures), _MIN_DESCENT_CURVATURE * self.column_scales)
            + damping * self.column_scales
        )
        scaled_gradients = (np.sqrt(2) * self.half_descents / np.sqrt(curvatures)).reshape(
            len(self.half_descents), -1
        )
        multipliers = minimize_on_simplex(
            self.score_gradients @ scaled_gradients,
            -scores,
            self.blocks,
            start=self.point.multipliers,
        )
        step = (
            np.tensordot(multipliers @ self.score_gradients, self.half_descents, axes=1)
            / curvatures
        )
        model_value = float(multipliers @ scores) - float(np.vdot(step, curvatures * step))
        return step, multipliers, self.blocks.sum_of_maxima(scores) - model_value

    def newton_step(
        self, multipliers: FloatArray, scores: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Newton's step for the scores with a multiplier to become equal, with true curvatures.

        The step X = B_w / curvatures with B_w = sum_g w_g B_g is stationary, and changes the errors
        by -falls w, where w = A'm + bends * change of the errors. So the multipliers m, of any
        sign, and the level of each block solve one linear system.
        """
        is_active = np.flatnonzero(multipliers > _ACTIVE_TOL)
        derivatives, blocks = self.score_gradients[is_active], self.blocks.select(is_active)
        n, k, least = (
            len(is_active),
            len(self.half_descents),
            _MIN_NEWTON_CURVATURE * self.column_scales,
        )
        signs = np.where(self.curvatures < 0, -1.0, 1.0)
        curvatures = signs * np.maximum(np.abs(self.curvatures), least)
        error_response = (
            2
            * self.half_descents.reshape(k, -1)
            @ (self.half_descents / curvatures).reshape(k, -1).T
        )
        if self.error_curvatures.any():
            error_response = np.linalg.solve(
                np.eye(k) + error_response * self.error_curvatures, error_response
            )
        score_response, indicator = (
            derivatives @ error_response @ derivatives.T,
            blocks.indicator_matrix(n),
        )
        size = float(np.abs(score_response).max())
        if not 0 < size < np.inf:
            return None
        system = np.block(
            [
                [score_response / size, indicator.T],
                [indicator, np.zeros((len(indicator), len(indicator)))],
            ]
        )
        block_maxima = blocks.maxima(scores[is_active])[blocks.block_indices(n)]
        rhs = np.append((scores[is_active] - block_maxima) / size, np.ones(len(indicator)))
        solution = np.linalg.lstsq(system, rhs, rcond=1e-14)[0][:n]
        if (solution < 0).any():
            return None
        candidates, weights = np.zeros(len(multipliers)), solution @ derivatives
        candidates[is_active] = solution
        weights = weights - self.error_curvatures * (error_response @ weights)
        return np.tensordot(weights, self.half_descents, axes=1) / curvatures, candidates

    def second_order_correction(self, trial: FloatArray, step: FloatArray) -> FloatArray:
        """Scores from which a step leads to where those after this step are right to second order.

        Scores bend differently while the model bends all alike, so after a long step along their
        common level they part by its square, and the largest rises (Maratos 1978).
        """
        return np.asarray(
            trial + 2 * self.score_gradients @ np.tensordot(self.half_descents, step, axes=2)
        )


def best_local_descent(
    problem: Problem, soft: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """The best (p, d) basis found by descent from a (p, r) soft one and other subspaces."""
    leading = np.linalg.eigh(soft @ soft.T)[1][:, ::-1][:, : problem.n_components]
    found = (descend(problem, start)[0] for start in (leading, *candidates))
    return min(found, key=lambda point: point.value).basis


# Eigenvalues of P closer to 0 or 1 than this are taken as 0 or 1.
_INTEGRALITY_TOL = 1e-9
# Singular values of equations of length one above this are not zero.
_RANK_TOL = 1e-10


def soft_basis(values: FloatArray, vectors: FloatArray, n_components: int) -> FloatArray:
    """Columns sqrt(lb_j) u_j from eigenvalues lb_j and eigenvectors; those within rounding whole.

    Parameters
    ----------
    values : (n,) array
    vectors : (p, n) array
        Orthonormal.
    n_components : int
        The sum of the eigenvalues.

    Returns
    -------
    (p, r) array
        Columns of length one first.
    """
    whole, is_fractional = (
        values > 1 - _INTEGRALITY_TOL,
        (values > _INTEGRALITY_TOL) & (values <= 1 - _INTEGRALITY_TOL),
    )
    remaining, shares = n_components - np.count_nonzero(whole), values[is_fractional]
    if remaining <= 0 or not len(shares):
        return vectors[:, whole]
    return np.hstack(
        [vectors[:, whole], vectors[:, is_fractional] * np.sqrt(shares * remaining / shares.sum())]
    )


def max_relaxed_rank(n_components: int, n_groups: int) -> int:
    """d + floor(sqrt(2 k + 1/4) - 3/2): no relaxed optimum needs more dimensions."""
    return n_components + math.floor(math.sqrt(2 * n_groups + 0.25) - 1.5)


def reduce_rank(
    second_moments: SecondMoments, pieces: AffinePieces, soft: FloatArray
) -> FloatArray:
    """A relaxed solution of the least rank that counting equations promises, no worse in value.

    All active pieces (those equal to the largest of their block) keep equal values, whose sum over
    the blocks never rises; an inactive one that catches up joins them.

    Parameters
    ----------
    second : SecondMoments
    pieces : Pieces
        What must not rise.
    soft : (p, r) array
        Columns sqrt(lb_j) u_j.

    Returns
    -------
    (p, r) array
        With two groups d dimensions, with three to five d + 1, and so on (:func:`max_relaxed_rank`).
    """
    is_active, which = (
        np.zeros(len(pieces.offsets), dtype=bool),
        pieces.blocks.block_indices(len(pieces.offsets)),
    )
    lengths = np.linalg.norm(soft, axis=0)
    n_components = round(float(lengths @ lengths))
    soft = soft_basis(lengths**2, soft / np.where(lengths > 0, lengths, 1.0), n_components)
    # Each round an eigenvalue becomes whole or a piece joins.
    for _ in range(soft.shape[1] + len(is_active)):
        eigenvalues = np.einsum("ij,ij->j", soft, soft)
        is_fractional = eigenvalues <= 1 - _INTEGRALITY_TOL
        integral_columns, eigenvalues = soft[:, ~is_fractional], eigenvalues[is_fractional]
        vectors = soft[:, is_fractional] / np.sqrt(eigenvalues)
        errors = second_moments.residual_variances(soft)
        piece_values = pieces.piece_values(errors)
        # Both what is active now and what stopped an earlier step.
        is_active |= piece_values >= pieces.blocks.maxima(piece_values)[
            which
        ] - _ACTIVE_TOL * pieces.magnitude(errors)
        chosen = np.flatnonzero(is_active)
        blocks, rows = pieces.blocks.select(chosen), pieces.coefficients[chosen]
        matrices = second_moments.compress(vectors)
        kept = np.tensordot(blocks.differences_from_first(rows), matrices, axes=1)
        direction = symmetric_null_direction(np.concatenate([np.eye(len(eigenvalues))[None], kept]))
        if direction is None:
            break
        difference_step = np.einsum("gij,ij->g", matrices, direction)
        if rows[list(blocks.starts)].sum(axis=0) @ difference_step < 0:
            direction, difference_step = -direction, -difference_step
        # Until an eigenvalue is 0 or 1, or another piece catches up with the active ones.
        block_maxima = pieces.blocks.argmax(np.where(is_active, piece_values, -np.inf))[which]
        piece_rates = -pieces.coefficients @ difference_step
        closing_rates, distances = (
            piece_rates - piece_rates[block_maxima],
            np.maximum(piece_values[block_maxima] - piece_values, 0.0),
        )
        approaches = ~is_active & (closing_rates > 0)
        step_to_piece = np.divide(
            distances, closing_rates, out=np.full(len(is_active), np.inf), where=approaches
        )
        low, high = 1 / np.sqrt(eigenvalues), 1 / np.sqrt(1 - eigenvalues)
        downward = -np.linalg.eigvalsh(low[:, None] * direction * low)[0]
        upward = np.linalg.eigvalsh(high[:, None] * direction * high)[-1]
        step_to_boundary, next_piece = (
            float(1 / max(downward, upward)),
            int(np.argmin(step_to_piece)),
        )
        is_active[next_piece] |= step_to_piece[next_piece] < step_to_boundary
        values, turn = np.linalg.eigh(
            np.diag(eigenvalues)
            + min(step_to_boundary, float(step_to_piece[next_piece])) * direction
        )
        fractional_columns = soft_basis(
            values, vectors @ turn, n_components - integral_columns.shape[1]
        )
        soft = np.hstack([integral_columns, fractional_columns])
    return soft


def symmetric_null_direction(equations: FloatArray) -> FloatArray | None:
    """A symmetric matrix at right angles to all of these; None if there is none to be had for sure.

    It exists whenever r (r + 1) / 2 exceeds the number of equations.

    Parameters
    ----------
    equations : (n, r, r) array
        Symmetric.
    """
    rows = svec(equations)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    _, values, axes = np.linalg.svd(rows / np.where(sizes > 0, sizes, 1.0))
    if len(axes) <= np.count_nonzero(values > _RANK_TOL):
        return None
    return smat(axes[-1], equations.shape[1])
