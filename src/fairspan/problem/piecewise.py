"""Sums of maxima of affine functions of the group errors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from fairspan.linalg.rounding import TINY
from fairspan.typing import FloatArray, IndexArray


@dataclass(frozen=True)
class Blocks:
    """Partition of m pieces into consecutive blocks, whose maxima are summed.

    Dual multipliers are nonnegative and sum to one in each block.

    Attributes
    ----------
    starts : tuple of int
        Index of the first piece of each block; the first entry is 0.

    Examples
    --------
    >>> blocks = Blocks((0, 2))
    >>> values = np.array([1.0, 3.0, -2.0, -1.0, -4.0])
    >>> blocks.maxima(values)
    array([ 3., -1.])
    >>> blocks.normalize(np.ones(5)).round(3)
    array([0.5  , 0.5  , 0.333, 0.333, 0.333])
    """

    starts: tuple[int, ...] = (0,)

    def maxima(self, values: FloatArray) -> FloatArray:
        """Maximum over each block of (..., m) piece values, shape (..., n)."""
        return np.asarray(np.maximum.reduceat(values, self.starts, axis=-1))

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum over each block of (m, ...) values, shape (n, ...)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def block_indices(self, n_pieces: int) -> IndexArray:
        """Block index of each piece, shape (m,)."""
        if len(self.starts) == 1:
            return np.zeros(n_pieces, dtype=np.intp)
        return np.searchsorted(self.starts, np.arange(n_pieces), side="right") - 1

    def indicator_matrix(self, n_pieces: int) -> FloatArray:
        """Return the indicator matrix of block membership, shape (n, m)."""
        blocks = np.arange(len(self.starts))[:, None]
        return np.asarray(self.block_indices(n_pieces) == blocks, dtype=np.float64)

    def argmax(self, values: FloatArray) -> IndexArray:
        """Index of a largest piece of each block, for (m,) values, shape (n,)."""
        ends = (*self.starts[1:], len(values))
        return np.array(
            [
                start + int(np.argmax(values[start:end]))
                for start, end in zip(self.starts, ends, strict=True)
            ]
        )

    def select(self, indices: IndexArray) -> "Blocks":
        """Blocks of the pieces with these sorted indices; every block must keep a piece."""
        return Blocks(tuple(np.searchsorted(indices, self.starts).tolist()))

    def differences_from_first(self, rows: FloatArray) -> FloatArray:
        """Differences of (m, ...) rows from the first row of their block, shape (m - n, ...)."""
        block_of = self.block_indices(len(rows))
        starts = np.array(self.starts)
        return np.delete(rows - rows[starts[block_of]], starts, axis=0)

    def normalize(self, multipliers: FloatArray) -> FloatArray:
        """Multipliers clipped at zero and scaled to sum to one in each block."""
        positive = np.maximum(multipliers, 0.0)
        if len(self.starts) == 1:
            total = self.sums(positive)[0]
            # A block of zeros gets uniform multipliers.
            return positive / total if total > 0 else np.full(len(positive), 1 / len(positive))
        block_of = self.block_indices(len(positive))
        positive = np.where(self.sums(positive)[block_of] > 0, positive, 1.0)
        return np.asarray(positive / self.sums(positive)[block_of])


# All pieces in one block: their maximum.
SINGLE_BLOCK = Blocks()


@dataclass(frozen=True, eq=False)
class AffinePieces:
    """Sum over blocks of max_i (A_i.e - b_i), with i in the block.

    Errors are linear in the projector VV', so a criterion of this form is convex in VV', and any
    nonnegative multipliers that sum to one in each block give a lower bound (see
    :mod:`fairspan.certificates.certificate`).

    Attributes
    ----------
    coefficients : (m, k) array
        A, one row per piece.
    offsets : (m,) array
        b.
    blocks : Blocks
        A single block unless the criterion is a sum of several maxima.
    """

    coefficients: FloatArray
    offsets: FloatArray
    blocks: Blocks = SINGLE_BLOCK

    @property
    def is_linear(self) -> bool:
        """Whether every block has one piece, so that the function is affine."""
        return len(self.offsets) == len(self.blocks.starts)

    @property
    def is_max_of_two(self) -> bool:
        """Whether the function is the maximum of two affine functions."""
        return len(self.offsets) == 2 and len(self.blocks.starts) == 1

    def piece_values(self, errors: FloatArray) -> FloatArray:
        """Values of the pieces at (..., k) errors, shape (..., m)."""
        return np.asarray(errors @ self.coefficients.T - self.offsets)

    def value(self, errors: FloatArray) -> float:
        """Value of the function at (k,) errors."""
        return float(self.blocks.maxima(self.piece_values(errors)).sum())

    def magnitude(self, errors: FloatArray) -> float:
        """Value with absolute coefficients and without offsets, to which rounding is relative."""
        return float(self.blocks.maxima(np.abs(self.coefficients) @ errors).sum())

    @cached_property
    def _diagonal_slopes(self) -> FloatArray | None:
        """Slopes, if piece g depends on the error of group g alone and none is zero; else None."""
        diagonal = np.diag(self.coefficients)
        is_diagonal = np.array_equal(self.coefficients, np.diag(diagonal))
        if len(self.blocks.starts) == 1 and is_diagonal and diagonal.all():
            return diagonal
        return None

    def nearest_multipliers(self, weights: FloatArray) -> FloatArray:
        """Multipliers u for which A'u is close to (k,) weights, shape (m,).

        The rows of A are the coefficients of the pieces. Multipliers are nonnegative and sum to one
        in each block of pieces, so they are valid whatever the weights are. In general, nonnegative
        least squares fits A'u and the sums, which are then normalized.
        """
        if self.is_linear:
            # Every block has one piece, whose multiplier is the sum of its block.
            return np.ones(len(self.offsets))
        if self._diagonal_slopes is not None:
            # Piece g is a multiple of the error of group g, so u_g times that slope is weight g.
            return self.blocks.normalize(weights / self._diagonal_slopes)
        # In units of the largest coefficient, both parts of the system count alike.
        scale = max(float(np.abs(self.coefficients).max()), TINY)
        block_sums = self.blocks.indicator_matrix(len(self.offsets))
        system = np.vstack([self.coefficients.T / scale, block_sums])
        target = np.append(weights / scale, np.ones(len(block_sums)))
        solution, _ = scipy.optimize.nnls(system, target)
        return self.blocks.normalize(solution)
