"""Orthonormal axes of the row space of a wide table, by Cholesky QR or Householder QR.

Let B = DW be the shifted rows, with unit rows W. Cholesky QR takes the Gram matrix WW' = TT' and
Q = W'T^-T, which is applied through the rows and never formed; its loss of orthogonality
||Q'Q - I|| is up to eps ||T^-1||_F^2. If that is too large, a second Cholesky factorization of Q'Q,
summed over blocks of features, is taken (CholeskyQR2, Yamamoto et al. 2015); if it is still too
large, or the rows are linearly dependent, rank-revealing Householder QR of W' gives Q to full
precision, dropping directions in which every row's component is below n eps of its length. Of
sparse rows, which often depend on each other exactly, it first takes only the triangular factor
TT' = WW', block by block, and Q = W'T^-T of the independent rows.

Products with random probes bound s = ||Q'Q - I|| and the distance of the rows from the span of Q. A
lifted subspace QU leaves between 1 - s and 1 + s times the residual of U, so s is a relative error
of every group error and of the bound. Both quantities enter the resolution of the certificate;
neither a fit nor verification uses axes if either exceeds 1e-8.
"""

import numpy as np
from scipy.linalg import blas, lapack, qr

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import EPS
from fairspan.moments.row_space import MomentsOfRows, RowSpace
from fairspan.moments.shifted_rows import ShiftedRows
from fairspan.typing import FloatArray

# Largest accepted bound on ||Q'Q - I|| of axes that are weighted sums of the rows.
MAX_ORTHOGONALITY_DEFECT = 3e-11
# A-priori estimate of ||Q'Q - I|| up to which CholeskyQR2 is used, and Householder QR above ...
_MAX_CHOLQR2_LOSS = 1e-9
# ... and up to which a single round of Cholesky QR, or QR of blocks of sparse rows, suffices.
_MAX_CHOLQR_LOSS = 1e-11
# Largest accepted error of the axes, ||Q'Q - I|| or relative distance of rows from the span.
_MAX_AXES_ERROR = 1e-8
# Features of which explicit axes are rotated at a time.
_BLOCK_FEATURES = 2048


def span_rows(moments: MomentsOfRows, distinct: ShiftedRows) -> RowSpace:
    """Return the row space of distinct shifted rows, of which the first is zero.

    Cholesky QR is faster; Householder QR takes over where it loses too many digits. Sparse rows
    are first factorized in blocks, since their copy could be much larger than the table.
    """
    gram = distinct.gram()
    row_norms = np.sqrt(np.diag(gram))
    row_space = _span_by_cholesky_qr(moments, distinct, gram, row_norms)
    if row_space is None and distinct.is_sparse:
        row_space = _span_by_qr_of_blocks(moments, distinct, row_norms)
    if row_space is None:
        row_space = _span_by_householder_qr(moments, distinct, row_norms)
    return row_space


def _span_by_cholesky_qr(
    moments: MomentsOfRows, distinct: ShiftedRows, gram: FloatArray, row_norms: FloatArray
) -> RowSpace | None:
    """Row space by Cholesky QR from the Gram matrix; None if that is not accurate enough."""
    nonzero_norms = row_norms[1:]  # the first row is the shift, hence zero
    if not nonzero_norms.size or not nonzero_norms.all():
        return None
    unit_gram = gram[1:, 1:] / nonzero_norms / nonzero_norms[:, None]
    row_space = _axes_by_cholesky_qr(moments, distinct, unit_gram, nonzero_norms)
    if row_space is None:
        return None
    row_space = row_space.with_error_bounds(distinct, row_norms)
    return row_space if _is_accurate(row_space) else None


def _is_accurate(row_space: RowSpace) -> bool:
    """Whether axes that are weighted sums of rows are orthonormal, and span the rows.

    Both are bounded with random probes, see :meth:`RowSpace.with_error_bounds`.
    """
    # NaN compares as false, so it counts as inaccurate.
    if row_space.orthogonality_defect <= MAX_ORTHOGONALITY_DEFECT:
        return row_space.relative_span_residual <= _MAX_AXES_ERROR
    return False


def _span_by_qr_of_blocks(
    moments: MomentsOfRows, distinct: ShiftedRows, row_norms: FloatArray
) -> RowSpace | None:
    """Row space by Householder QR of blocks of features; None if that is not accurate enough.

    Only the triangular factor of the rows is kept, with as many digits as that of all features at
    once. Unlike Cholesky QR, this finds rows that depend on others, which is common if most cells
    are zero. The axes are weighted sums of the independent rows, so they lose digits where these
    are nearly dependent.

    Parameters
    ----------
    distinct : ShiftedRows
        Rows minus the first row, without repetitions.
    row_norms : (n,) array
        Norms of these rows; that of the first is zero.
    """
    n = len(row_norms)
    divisors = np.where(row_norms > 0, row_norms, 1.0)
    # The factor of the blocks so far, and blocks until they have as many features as it.
    pending = [np.empty((0, n))]
    for _, block in distinct.blocks():
        pending.append((block / divisors[:, None]).T)
        if sum(map(len, pending)) >= 2 * n:
            pending = [_triangular_factor(np.vstack(pending))]
    upper = _triangular_factor(np.vstack(pending))
    upper, order = qr(upper, mode="r", pivoting=True, check_finite=False)
    # Shorter components of unit rows are rounding error.
    rank = int((np.abs(np.diag(upper)) > EPS * n).sum())
    inverse = lapack.dtrtri(upper[:rank, :rank])[0]
    # Axes of nearly dependent rows are less orthogonal than what removes differences of means
    # needs: weighted sums of rows are trusted as far as those of one round of Cholesky QR.
    if not EPS * float(np.vdot(inverse, inverse)) <= _MAX_CHOLQR_LOSS:
        return None
    independent = order[:rank]
    coordinates = np.empty((n, rank))
    coordinates[order] = upper[:rank].T
    row_weights = np.zeros((n, rank))
    row_weights[independent] = inverse
    row_space = RowSpace(
        moments,
        row_coordinates=coordinates * row_norms[:, None],
        row_weights=row_weights / divisors[:, None],
        explicit_axes=np.empty((moments.n_features, 0)),
    )
    row_space = row_space.with_error_bounds(distinct, row_norms)
    return row_space if _is_accurate(row_space) else None


def _triangular_factor(columns: FloatArray) -> FloatArray:
    """Return the triangular factor of the QR decomposition of (m, n) columns, min(m, n) rows."""
    return np.asarray(qr(columns, mode="r", check_finite=False)[0][: columns.shape[1]])


def _span_by_householder_qr(
    moments: MomentsOfRows, distinct: ShiftedRows, row_norms: FloatArray
) -> RowSpace:
    """Row space by Householder QR of the rows: slower, but with twice the digits.

    Cholesky QR loses them in the Gram matrix, which squares the condition number of the rows.
    Rows of length one are factorized, so that short rows count as much as long ones. All axes
    are stored explicitly, instead of as weighted sums of rows, and dependent directions are
    dropped.

    Parameters
    ----------
    distinct : ShiftedRows
        Rows minus the first row, without repetitions.
    row_norms : (n,) array
        Norms of these rows; that of the first is zero.
    """
    unit_rows = distinct.toarray()
    unit_rows /= np.where(row_norms > 0, row_norms, 1.0)[:, None]
    axes, upper = qr(unit_rows.T, mode="economic", overwrite_a=True, check_finite=False)
    # Pivot in the small factor; pivoting the tall matrix is slow.
    rotation, upper, order = qr(upper, mode="economic", pivoting=True, check_finite=False)
    # Shorter components of unit rows are rounding error.
    rank = int((np.abs(np.diag(upper)) > EPS * len(row_norms)).sum())
    coordinates = np.empty((len(row_norms), rank))
    coordinates[order] = upper[:rank].T
    coordinates *= row_norms[:, None]
    # In place, since the axes are as large as the table.
    for start in range(0, moments.n_features, _BLOCK_FEATURES):
        block = axes[start : start + _BLOCK_FEATURES]
        block[:, :rank] = block @ rotation[:, :rank]
    row_space = RowSpace(
        moments,
        row_coordinates=coordinates,
        row_weights=coordinates[:, :0],  # no axis is a weighted sum of rows
        explicit_axes=axes[:, :rank],
    )
    row_space = row_space.with_error_bounds(distinct, row_norms)
    # Errors of both kinds are relative: to unit axes, and to the length of the rows.
    error = max(row_space.orthogonality_defect, row_space.relative_span_residual)
    if not error <= _MAX_AXES_ERROR:
        raise InvalidInput(
            f"Row-space axes have an error of {error:.0e}",
            f"Allowed: orthonormal axes that contain every row, up to {_MAX_AXES_ERROR:.0e}",
            "Fit GroupMoments of the rows, and report this as a bug",
        )
    return row_space


def _axes_by_cholesky_qr(
    moments: MomentsOfRows, distinct: ShiftedRows, gram: FloatArray, row_norms: FloatArray
) -> RowSpace | None:
    """Cholesky QR from the Gram matrix of unit rows; None if they are nearly dependent.

    `distinct` are shifted rows, the first of which is zero; `row_norms` are the norms of the
    n - 1 others, and `gram` is the Gram matrix of these divided by their norms. No axes are
    formed: they are Q = distinct' row_weights.
    """
    lower, inverse = _cholesky_with_inverse(gram)
    # With the Cholesky factor T, one round leaves an error ||Q'Q - I|| of up to
    # eps ||T^-1||_F^2. It is NaN, which counts as too large, if the factorization fails.
    orthogonality_loss = EPS * float(np.vdot(inverse, inverse))
    if not orthogonality_loss <= _MAX_CHOLQR2_LOSS:
        return None
    if orthogonality_loss > _MAX_CHOLQR_LOSS:
        # Second round: orthonormalize the axes of the first.
        axes_gram = _gram_of_axes(distinct, inverse / row_norms)
        second_factor, second_inverse = _cholesky_with_inverse(axes_gram)
        lower = lower @ second_factor
        inverse = second_inverse @ inverse
    # A row is its norm times a row of the Cholesky factor in coordinates, and the axes are unit
    # rows times the transposed inverse. The first row is zero: zero coordinates and no weight.
    n_axes = len(row_norms)
    coordinates, row_weights = np.zeros((2, n_axes + 1, n_axes))
    coordinates[1:] = lower * row_norms[:, None]
    row_weights[1:] = inverse.T / row_norms[:, None]
    no_axes = np.empty((moments.n_features, 0))
    return RowSpace(moments, coordinates, row_weights, explicit_axes=no_axes)


def _gram_of_axes(distinct: ShiftedRows, inverse: FloatArray) -> FloatArray:
    """Lower triangle of AA' for axes A = `inverse` B, formed block by block; (m, m).

    `distinct` are the rows B after a first one, which is zero; `inverse` is lower triangular.
    """
    gram = np.zeros(inverse.shape, order="F")
    inverse = np.asfortranarray(inverse)  # BLAS copies no array in this order
    for _, block in distinct.blocks():
        axes = blas.dtrmm(1.0, inverse, block[1:].T, side=1, lower=1, trans_a=1, overwrite_b=1)
        gram = blas.dsyrk(1.0, axes, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
    return gram


def _cholesky_with_inverse(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cholesky factor of a Gram matrix (lower half given) and the inverse of this factor.

    The inverse is NaN if the matrix is not positive definite.
    """
    lower, failed = lapack.dpotrf(gram, lower=1)
    if failed:
        return lower, np.full_like(lower, np.nan)
    return lower, lapack.dtrtri(lower, lower=1)[0]
