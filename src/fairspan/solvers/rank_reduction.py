"""Reduce the rank of relaxed solutions without changing their objective (Pataki 1998).

P with 0 <= P <= I and tr P = d, a relaxed projector, is given by its eigenvalues lb_j and
eigenvectors u_j as columns sqrt(lb_j) u_j, P = sum_j lb_j u_j u_j': a soft basis. Let F be its r
eigenvectors with eigenvalues strictly between 0 and 1. As long as the dimension of the
symmetric r x r matrices exceeds the number of equations that keep the objective, there is a
direction Delta along which P + t F Delta F' keeps it; moving until an eigenvalue reaches 0 or 1
reduces r.
"""

import math
from dataclasses import dataclass

import numpy as np

from fairspan.linalg.rounding import AGREEMENT_TOL, RANK_TOL
from fairspan.moments.second_moments import SecondMoments
from fairspan.problem.piecewise import AffinePieces
from fairspan.solvers.convex_programs import smat, svec
from fairspan.typing import BoolArray, FloatArray, IndexArray


def soft_basis(values: FloatArray, vectors: FloatArray, n_components: int) -> FloatArray:
    """Columns sqrt(lb_j) u_j of a relaxed projector with eigenvalues lb_j and eigenvectors u_j.

    Eigenvalues within rounding of 0 or 1 are set to 0 or 1.

    Parameters
    ----------
    values : (n,) array
    vectors : (p, n) array
        Orthonormal.
    n_components : int
        Sum of the eigenvalues.

    Returns
    -------
    (p, r) array
        Columns of the nonzero eigenvalues, those of unit length first. Squared lengths sum to d.
    """
    # The solver that found P leaves eigenvalues near 0 and 1, not exactly there.
    is_one = values > 1 - AGREEMENT_TOL
    is_fractional = (values > AGREEMENT_TOL) & (values <= 1 - AGREEMENT_TOL)
    remaining = n_components - np.count_nonzero(is_one)
    fractional = values[is_fractional]
    if remaining <= 0 or not len(fractional):
        return vectors[:, is_one]
    # Fractional eigenvalues are scaled so that the sum stays d.
    lengths = np.sqrt(fractional * remaining / fractional.sum())
    return np.hstack([vectors[:, is_one], vectors[:, is_fractional] * lengths])


@dataclass(frozen=True, eq=False)
class _SoftProjection:
    """Relaxed projector P, split by its eigenvalues.

    Attributes
    ----------
    integral_columns : (p, i) array
        Orthonormal eigenvectors of eigenvalue 1, up to rounding.
    eigenvalues : (r,) array
        Eigenvalues between 0 and 1.
    eigenvectors : (p, r) array
        Their orthonormal eigenvectors.
    """

    integral_columns: FloatArray
    eigenvalues: FloatArray
    eigenvectors: FloatArray

    @classmethod
    def from_soft_basis(cls, soft: FloatArray) -> "_SoftProjection":
        """Split the columns sqrt(lb_j) u_j of a soft basis, all of positive length."""
        eigenvalues = np.einsum("ij,ij->j", soft, soft)
        is_fractional = eigenvalues <= 1 - AGREEMENT_TOL
        fractional = eigenvalues[is_fractional]
        eigenvectors = soft[:, is_fractional] / np.sqrt(fractional)
        return cls(soft[:, ~is_fractional], fractional, eigenvectors)

    def moved(self, change: FloatArray, n_components: int) -> FloatArray:
        """Return the soft basis after an (r, r) symmetric change of the fractional part.

        `n_components` is the trace of P, which the change leaves as it is.
        """
        values, rotation = np.linalg.eigh(np.diag(self.eigenvalues) + change)
        n_remaining = n_components - self.integral_columns.shape[1]
        fractional_columns = soft_basis(values, self.eigenvectors @ rotation, n_remaining)
        return np.hstack([self.integral_columns, fractional_columns])


def max_relaxed_rank(n_components: int, n_groups: int) -> int:
    """Largest rank that a relaxed optimum needs, d + floor(sqrt(2 k + 1/4) - 3/2)."""
    return n_components + math.floor(math.sqrt(2 * n_groups + 0.25) - 1.5)


def reduce_rank(
    second_moments: SecondMoments, pieces: AffinePieces, soft: FloatArray
) -> FloatArray:
    """Reduce the rank of a relaxed solution without increasing its value.

    A relaxed solution is a matrix P = sum_j lb_j u_j u_j' with orthonormal u_j, eigenvalues lb_j
    from 0 to 1, and trace d. Its value is the sum of the block maxima of affine functions of the
    group errors tr S_g - <S_g, P>, with S_g the second moment of group g. The rank is reduced as
    far as a count of equations guarantees. Active pieces (equal to the maximum of their block) keep
    equal values, whose sum over the blocks never increases; an inactive piece that becomes maximal
    joins them.

    Parameters
    ----------
    second_moments : SecondMoments
    pieces : AffinePieces
        Pieces whose block maxima must not increase.
    soft : (p, r) array
        Columns sqrt(lb_j) u_j.

    Returns
    -------
    (p, s) array
        Such columns of the reduced solution, s <= r: at most d columns for two groups, d + 1 for
        three to five, and so on (:func:`max_relaxed_rank`).
    """
    is_active = np.zeros(len(pieces.offsets), dtype=bool)
    block_of = pieces.blocks.block_indices(len(pieces.offsets))
    lengths = np.linalg.norm(soft, axis=0)
    n_components = round(float(lengths @ lengths))
    # Eigenvalues that differ from 0 or 1 by rounding only are set to 0 or 1.
    soft = soft_basis(lengths**2, soft / np.where(lengths > 0, lengths, 1.0), n_components)
    # Each round makes an eigenvalue integral or a piece active.
    for _ in range(soft.shape[1] + len(is_active)):
        # Only eigenvectors with eigenvalues between 0 and 1 are changed.
        projection = _SoftProjection.from_soft_basis(soft)
        errors = second_moments.residual_variances(soft)
        piece_values = pieces.piece_values(errors)
        # Pieces that are active now, and those that stopped an earlier step.
        tol = AGREEMENT_TOL * pieces.magnitude(errors)
        is_active |= piece_values >= pieces.blocks.maxima(piece_values)[block_of] - tol
        active = np.flatnonzero(is_active)
        matrices = second_moments.compress(projection.eigenvectors)
        # A direction orthogonal to these keeps the trace, and active pieces of a block equal.
        equations = _value_preserving_equations(pieces, active, matrices)
        direction = symmetric_null_direction(equations)
        # Without such a direction no rank can be saved.
        if direction is None:
            break
        # Change of the captured variances per unit step. Either sign keeps the active pieces of a
        # block equal to each other; choose that in which their sum does not increase.
        captured_rates = np.einsum("gij,ij->g", matrices, direction)
        if _sum_of_first_pieces(pieces, active) @ captured_rates < 0:
            direction = -direction
            captured_rates = -captured_rates
        # Move until an eigenvalue reaches 0 or 1, or another piece becomes active.
        step = _step_to_boundary(projection.eigenvalues, direction)
        step_to_piece, next_piece = _step_to_next_piece(
            pieces, piece_values, is_active, captured_rates
        )
        if step_to_piece < step:
            step = step_to_piece
            is_active[next_piece] = True
        soft = projection.moved(step * direction, n_components)
    return soft


def _value_preserving_equations(
    pieces: AffinePieces, active: IndexArray, matrices: FloatArray
) -> FloatArray:
    """Symmetric (n, r, r) matrices to which a direction must be orthogonal to keep the objective.

    The first one keeps the trace at d, each of the others the difference of an active piece from
    the first active piece of its block.

    Parameters
    ----------
    pieces : AffinePieces
    active : (a,) array of int
        Indices of the active pieces, sorted.
    matrices : (k, r, r) array
        Second moments F'S_gF within the span of the fractional eigenvectors F.
    """
    slopes = pieces.blocks.select(active).differences_from_first(pieces.coefficients[active])
    equal_pieces = np.tensordot(slopes, matrices, axes=1)
    return np.concatenate([np.eye(matrices.shape[-1])[None], equal_pieces])


def _sum_of_first_pieces(pieces: AffinePieces, active: IndexArray) -> FloatArray:
    """Coefficients (k,) of the objective: the sum of one active piece of each block."""
    first_pieces = active[list(pieces.blocks.select(active).starts)]
    return np.asarray(pieces.coefficients[first_pieces].sum(axis=0))


def _step_to_next_piece(
    pieces: AffinePieces, piece_values: FloatArray, is_active: BoolArray, captured_rates: FloatArray
) -> tuple[float, int]:
    """Return the step at which an inactive piece becomes the largest of its block, and its index.

    The step is infinite if none does. The active pieces of a block are equal, and stay so along the
    step, so that any of them stands for the maximum of its block.

    Parameters
    ----------
    pieces : AffinePieces
    piece_values : (m,) array
        Current values.
    is_active : (m,) array of bool
    captured_rates : (k,) array
        Change of the variance captured of each group per unit step; its error changes by minus
        this.
    """
    block_of = pieces.blocks.block_indices(len(piece_values))
    block_maxima = pieces.blocks.argmax(np.where(is_active, piece_values, -np.inf))[block_of]
    piece_rates = -pieces.coefficients @ captured_rates
    closing_rates = piece_rates - piece_rates[block_maxima]
    distances = np.maximum(piece_values[block_maxima] - piece_values, 0.0)
    approaches = ~is_active & (closing_rates > 0)
    steps = np.divide(
        distances, closing_rates, out=np.full(len(is_active), np.inf), where=approaches
    )
    next_piece = int(np.argmin(steps))
    return float(steps[next_piece]), next_piece


def _step_to_boundary(eigenvalues: FloatArray, direction: FloatArray) -> float:
    """Step at which an eigenvalue of diag(eigenvalues) + step * direction first reaches 0 or 1.

    The (r,) eigenvalues lie strictly between 0 and 1. With L = diag(eigenvalues), L + t D is
    singular first where 1 / t is the largest eigenvalue of -L^(-1/2) D L^(-1/2), and I - L - t D
    where it is that of (I - L)^(-1/2) D (I - L)^(-1/2).
    """
    scale_to_zero = 1 / np.sqrt(eigenvalues)
    scale_to_one = 1 / np.sqrt(1 - eigenvalues)
    downward = -np.linalg.eigvalsh(scale_to_zero[:, None] * direction * scale_to_zero)[0]
    upward = np.linalg.eigvalsh(scale_to_one[:, None] * direction * scale_to_one)[-1]
    return float(1 / max(downward, upward))


def symmetric_null_direction(equations: FloatArray) -> FloatArray | None:
    """Symmetric matrix orthogonal to all equations; None if there is none within tolerance.

    One exists whenever r (r + 1) / 2 exceeds the number of equations.

    Parameters
    ----------
    equations : (n, r, r) array
        Symmetric.
    """
    rows = svec(equations)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    # The last right singular vectors span the null space, if the rank leaves one.
    _, values, axes = np.linalg.svd(rows / np.where(norms > 0, norms, 1.0))
    if len(axes) <= np.count_nonzero(values > RANK_TOL):
        return None
    return smat(axes[-1], equations.shape[1])
