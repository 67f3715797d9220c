"""Rank reduction of a relaxed solution (Pataki 1998): as few dimensions as its value needs.

P with 0 <= P <= I and tr P = d has r fractional eigenvalues, eigenvectors F. As long as the
symmetric r x r matrices outnumber the equations that keep the value, there is a direction Delta
along which P + t F Delta F' keeps it; walking until an eigenvalue reaches 0 or 1 makes r smaller.
"""

import math
from dataclasses import dataclass

import numpy as np

from fairspan.linalg import eigh, eigvalsh
from fairspan.moments.operators import SecondMoments
from fairspan.problem.pieces import Pieces
from fairspan.typing import FloatArray

# Eigenvalues of P closer to 0 or 1 than this are taken as 0 or 1.
_WHOLE = 1e-9
# Singular values of equations of length one above this are not zero.
_INDEPENDENT = 1e-10
# Pieces closer to the largest than this share of the pieces' size are active.
_ACTIVE = 1e-9


@dataclass(frozen=True, eq=False)
class SoftBasis:
    """P = FF' + sum_j lb_j f_j f_j'.

    Attributes
    ----------
    whole : (p, n) array
        Orthonormal eigenvectors of eigenvalue 1.
    fractional : (p, r) array
        Orthonormal eigenvectors of eigenvalues between 0 and 1.
    shares : (r,) array
        Those eigenvalues.
    """

    whole: FloatArray
    fractional: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, projector: FloatArray, n_components: int) -> "SoftBasis":
        """Read the eigenvalues of a relaxed solution; those within rounding are made whole."""
        values, vectors = eigh(projector)
        whole, fractional = values > 1 - _WHOLE, (values > _WHOLE) & (values <= 1 - _WHOLE)
        left = n_components - int(whole.sum())
        if left <= 0:
            fractional[:] = False
        shares = values[fractional]
        if len(shares):
            shares = shares * (left / shares.sum())
        return cls(vectors[:, whole], vectors[:, fractional], shares)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return int(self.whole.shape[1]) + len(self.shares)

    @property
    def basis(self) -> FloatArray:
        """(p, rank) orthogonal columns of length sqrt(lb_j)."""
        return np.hstack([self.whole, self.fractional * np.sqrt(self.shares)])

    def errors(self, second_moments: SecondMoments) -> FloatArray:
        """tr S_g - <S_g, P>, shape (k,)."""
        return second_moments.residual_variances(self.basis)


def largest_rank(n_components: int, n_groups: int) -> int:
    """d + floor(sqrt(2 k + 1/4) - 3/2): no relaxed optimum needs more dimensions."""
    return n_components + math.floor(math.sqrt(2 * n_groups + 0.25) - 1.5)


def reduced(second: SecondMoments, pieces: Pieces, soft: SoftBasis) -> SoftBasis:
    """A relaxed solution of the least rank that counting equations promises, no worse in value.

    All active pieces (those equal to the largest of their block) keep equal values, whose sum over
    the blocks never rises; an inactive one that catches up joins them.

    Parameters
    ----------
    second : SecondMoments
    pieces : Pieces
        What must not rise.
    soft : SoftBasis

    Returns
    -------
    SoftBasis
        With two groups d dimensions, with three to five d + 1, and so on (:func:`largest_rank`).
    """
    active, which = np.zeros(len(pieces.offsets), dtype=bool), pieces.blocks.of(len(pieces.offsets))
    # Each round an eigenvalue becomes whole or a piece joins.
    for _ in range(len(soft.shares) + len(active)):
        errors = soft.errors(second)
        heights = pieces.at(errors)
        # Both what is active now and what stopped an earlier step.
        active |= heights >= pieces.blocks.largest(heights)[which] - _ACTIVE * pieces.size(errors)
        chosen = np.flatnonzero(active)
        blocks, rows = pieces.blocks.among(chosen), pieces.coefficients[chosen]
        leaders = rows[list(blocks.starts)].sum(axis=0)
        direction = _direction(second, soft, blocks.apart(rows), leaders)
        if direction is None:
            break
        # Until an eigenvalue is 0 or 1, or another piece catches up with the active ones.
        change = np.einsum("gij,ij->g", second.compressed(soft.fractional), direction)
        highest = pieces.blocks.leaders(np.where(active, heights, -np.inf))[which]
        rise = -pieces.coefficients @ change
        closing, below = rise - rise[highest], np.maximum(heights[highest] - heights, 0.0)
        catches = ~active & (closing > 0)
        reach = np.divide(below, closing, out=np.full(len(active), np.inf), where=catches)
        far, first = _furthest(soft.shares, direction), int(np.argmin(reach))
        active[first] |= reach[first] < far
        soft = _moved(soft, min(far, float(reach[first])) * direction)
    return soft


def reduced_keeping(second: SecondMoments, soft: SoftBasis) -> SoftBasis:
    """The same for a criterion that is no largest of pieces: k - 1 captured variances are kept.

    That of the first group does not fall, so any criterion that falls with it does not rise.
    """
    first, *others = np.eye(second.n_groups)
    for _ in range(len(soft.shares)):
        direction = _direction(second, soft, np.array(others), first)
        if direction is None:
            break
        soft = _moved(soft, _furthest(soft.shares, direction) * direction)
    return soft


def _direction(
    second: SecondMoments, soft: SoftBasis, kept: FloatArray, rising: FloatArray
) -> FloatArray | None:
    """A direction that keeps these combinations of captured variances, and raises another."""
    if not len(soft.shares):
        return None
    matrices = second.compressed(soft.fractional)
    direction = null_direction([np.eye(len(soft.shares)), *np.tensordot(kept, matrices, axes=1)])
    if direction is None:
        return None
    rises = float(np.vdot(np.tensordot(rising, matrices, axes=1), direction))
    return direction if rises >= 0 else -direction


def null_direction(equations: list[FloatArray]) -> FloatArray | None:
    """A symmetric matrix at right angles to all of these; None if there is none to be had for sure.

    It exists whenever r (r + 1) / 2 exceeds the number of equations.
    """
    r = len(equations[0])
    upper = np.triu_indices(r)
    # Off-diagonal entries count twice in an inner product of symmetric matrices.
    double = np.where(upper[0] == upper[1], 1.0, 2.0)
    rows = np.array([matrix[upper] * double for matrix in equations])
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(sizes > 0, sizes, 1.0)
    _, values, axes = np.linalg.svd(rows)
    if len(axes) <= np.count_nonzero(values > _INDEPENDENT):
        return None
    direction = np.zeros((r, r))
    direction[upper] = axes[-1]
    return direction + np.triu(direction, 1).T


def _moved(soft: SoftBasis, step: FloatArray) -> SoftBasis:
    values, turn = eigh(np.diag(soft.shares) + step)
    vectors = soft.fractional @ turn
    whole, fractional = values > 1 - _WHOLE, (values > _WHOLE) & (values <= 1 - _WHOLE)
    return SoftBasis(
        np.hstack([soft.whole, vectors[:, whole]]), vectors[:, fractional], values[fractional]
    )


def _furthest(shares: FloatArray, direction: FloatArray) -> float:
    """Largest t with 0 <= diag(shares) + t Delta <= I."""
    low = 1 / np.sqrt(shares)
    high = 1 / np.sqrt(1 - shares)
    downward = -eigvalsh(low[:, None] * direction * low)[0]
    upward = eigvalsh(high[:, None] * direction * high)[-1]
    return float(1 / max(downward, upward))
