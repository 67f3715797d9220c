"""Rank reduction of a relaxed solution (Pataki 1998): as few dimensions as its value needs.

P with 0 <= P <= I and tr P = d is given as columns sqrt(lb_j) u_j, P = sum_j lb_j u_j u_j'. Let F
be its r eigenvectors with eigenvalues between 0 and 1. As long as the symmetric r x r matrices
outnumber the equations that keep the value, there is a direction Delta along which P + t F Delta F'
keeps it; walking until an eigenvalue reaches 0 or 1 makes r smaller.
"""

import math

import numpy as np

from fairspan.linalg import eigh, eigvalsh
from fairspan.moments.operators import SecondMoments
from fairspan.problem.pieces import Pieces
from fairspan.solvers.programs import from_triangle, to_triangle
from fairspan.typing import FloatArray

# Eigenvalues of P closer to 0 or 1 than this are taken as 0 or 1.
_WHOLE = 1e-9
# Singular values of equations of length one above this are not zero.
_INDEPENDENT = 1e-10
# Pieces closer to the largest than this share of the pieces' size are active.
_ACTIVE = 1e-9


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
    whole, between = values > 1 - _WHOLE, (values > _WHOLE) & (values <= 1 - _WHOLE)
    left, shares = n_components - np.count_nonzero(whole), values[between]
    if left <= 0 or not len(shares):
        return vectors[:, whole]
    return np.hstack(
        [vectors[:, whole], vectors[:, between] * np.sqrt(shares * left / shares.sum())]
    )


def largest_rank(n_components: int, n_groups: int) -> int:
    """d + floor(sqrt(2 k + 1/4) - 3/2): no relaxed optimum needs more dimensions."""
    return n_components + math.floor(math.sqrt(2 * n_groups + 0.25) - 1.5)


def reduced(second: SecondMoments, pieces: Pieces, soft: FloatArray) -> FloatArray:
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
        With two groups d dimensions, with three to five d + 1, and so on (:func:`largest_rank`).
    """
    active, which = np.zeros(len(pieces.offsets), dtype=bool), pieces.blocks.of(len(pieces.offsets))
    lengths = np.linalg.norm(soft, axis=0)
    n_components = round(float(lengths @ lengths))
    soft = soft_basis(lengths**2, soft / np.where(lengths > 0, lengths, 1.0), n_components)
    # Each round an eigenvalue becomes whole or a piece joins.
    for _ in range(soft.shape[1] + len(active)):
        shares = np.einsum("ij,ij->j", soft, soft)
        between = shares <= 1 - _WHOLE
        whole, shares = soft[:, ~between], shares[between]
        vectors = soft[:, between] / np.sqrt(shares)
        errors = second.residual_variances(soft)
        heights = pieces.at(errors)
        # Both what is active now and what stopped an earlier step.
        active |= heights >= pieces.blocks.largest(heights)[which] - _ACTIVE * pieces.size(errors)
        chosen = np.flatnonzero(active)
        blocks, rows = pieces.blocks.among(chosen), pieces.coefficients[chosen]
        matrices = second.compressed(vectors)
        kept = np.tensordot(blocks.apart(rows), matrices, axes=1)
        direction = null_direction(np.concatenate([np.eye(len(shares))[None], kept]))
        if direction is None:
            break
        change = np.einsum("gij,ij->g", matrices, direction)
        if rows[list(blocks.starts)].sum(axis=0) @ change < 0:
            direction, change = -direction, -change
        # Until an eigenvalue is 0 or 1, or another piece catches up with the active ones.
        highest = pieces.blocks.leaders(np.where(active, heights, -np.inf))[which]
        rise = -pieces.coefficients @ change
        closing, below = rise - rise[highest], np.maximum(heights[highest] - heights, 0.0)
        catches = ~active & (closing > 0)
        reach = np.divide(below, closing, out=np.full(len(active), np.inf), where=catches)
        low, high = 1 / np.sqrt(shares), 1 / np.sqrt(1 - shares)
        downward = -eigvalsh(low[:, None] * direction * low)[0]
        upward = eigvalsh(high[:, None] * direction * high)[-1]
        far, first = float(1 / max(downward, upward)), int(np.argmin(reach))
        active[first] |= reach[first] < far
        values, turn = eigh(np.diag(shares) + min(far, float(reach[first])) * direction)
        moved = soft_basis(values, vectors @ turn, n_components - whole.shape[1])
        soft = np.hstack([whole, moved])
    return soft


def null_direction(equations: FloatArray) -> FloatArray | None:
    """A symmetric matrix at right angles to all of these; None if there is none to be had for sure.

    It exists whenever r (r + 1) / 2 exceeds the number of equations.

    Parameters
    ----------
    equations : (n, r, r) array
        Symmetric.
    """
    rows = to_triangle(equations)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    _, values, axes = np.linalg.svd(rows / np.where(sizes > 0, sizes, 1.0))
    if len(axes) <= np.count_nonzero(values > _INDEPENDENT):
        return None
    return from_triangle(axes[-1], equations.shape[1])
