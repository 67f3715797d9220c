"""A criterion as formulas: a sum of maxima of affine functions for solvers, and text for readers.

For weights w let L(M) be the sum of the p - d smallest eigenvalues of M = sum_g w_g S_g. Every
subspace has w.e >= L(M). So a criterion that is nowhere below some affine function w.e - b is
nowhere below L(M) - b. Multipliers of the affine functions give such weights and such a b.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy

from fairspan.typing import FloatArray

IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Blocks:
    """Consecutive blocks of m pieces; the largest of each block counts, and these are summed.

    So multipliers of the pieces are not negative and sum to one in each block.

    Attributes
    ----------
    starts : tuple of int
        Index of the first piece of each block; that of the first block is 0.

    Examples
    --------
    >>> blocks = Blocks((0, 2))
    >>> values = np.array([1.0, 3.0, -2.0, -1.0, -4.0])
    >>> blocks.largest(values), blocks.value(values)
    (array([ 3., -1.]), 2.0)
    >>> blocks.normalised(np.ones(5)).round(3)
    array([0.5  , 0.5  , 0.333, 0.333, 0.333])
    """

    starts: tuple[int, ...] = (0,)

    def __len__(self) -> int:
        return len(self.starts)

    def largest(self, values: FloatArray) -> FloatArray:
        """The largest of each block, of (..., m) values of the pieces, shape (..., n)."""
        return np.asarray(np.maximum.reduceat(values, self.starts, axis=-1))

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over each block, of (m, ...) values, shape (n, ...)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def value(self, values: FloatArray) -> float:
        """The sum of the largest of each block, of (m,) values of the pieces."""
        return float(self.largest(values).sum())

    def of(self, n_pieces: int) -> IntArray:
        """Index of the block of each piece, shape (m,)."""
        return np.searchsorted(self.starts, np.arange(n_pieces), side="right") - 1

    def membership(self, n_pieces: int) -> FloatArray:
        """1 where a piece belongs to a block, else 0, shape (n, m)."""
        return np.asarray(
            self.of(n_pieces) == np.arange(len(self.starts))[:, None], dtype=np.float64
        )

    def leaders(self, values: FloatArray) -> IntArray:
        """Index of a largest piece of each block, of (m,) values, shape (n,)."""
        pairs = zip(self.starts, (*self.starts[1:], len(values)), strict=True)
        return np.array([start + int(np.argmax(values[start:end])) for start, end in pairs])

    def among(self, chosen: IntArray) -> "Blocks":
        """The blocks of some of the pieces, in order, of which every block has one."""
        return Blocks(tuple(np.searchsorted(chosen, self.starts).tolist()))

    def apart(self, rows: FloatArray) -> FloatArray:
        """(m, ...) rows less the first of their block, without those first ones, (m - n, ...)."""
        which = self.of(len(rows))
        firsts = np.array(self.starts)
        return np.delete(rows - rows[firsts[which]], firsts, axis=0)

    def normalised(self, multipliers: FloatArray) -> FloatArray:
        """Not negative and summing to one in each block, without which they prove nothing."""
        positive = np.maximum(multipliers, 0.0)
        which = self.of(len(positive)) if len(self) > 1 else np.zeros(1, dtype=np.intp)
        # Where all are zero, none is preferred.
        positive = np.where(self.sums(positive)[which] > 0, positive, 1.0)
        return np.asarray(positive / self.sums(positive)[which])


# All pieces in one block: the largest of them.
ONE_BLOCK = Blocks()


@dataclass(frozen=True, eq=False)
class Pieces:
    """The sum over blocks of max_(i in the block) (A_i . e - b_i).

    Errors are linear in the projector VV', so a criterion of this form is convex in it, and any
    multipliers of the pieces that sum to one in each block prove a bound (see
    :mod:`fairspan.certificates.optimality`).

    Attributes
    ----------
    coefficients : (m, k) array
        A, one row for each piece.
    offsets : (m,) array
        b.
    blocks : Blocks
        One of all pieces, unless the criterion is a sum of several maxima.
    """

    coefficients: FloatArray
    offsets: FloatArray
    blocks: Blocks = ONE_BLOCK

    @property
    def is_linear(self) -> bool:
        """Whether there is nothing to choose: one piece in each block."""
        return len(self.offsets) == len(self.blocks)

    def at(self, errors: FloatArray) -> FloatArray:
        """Values of the pieces at (..., k) errors, shape (..., m)."""
        return np.asarray(errors @ self.coefficients.T - self.offsets)

    def value(self, errors: FloatArray) -> float:
        """The criterion at these (k,) errors."""
        return self.blocks.value(self.at(errors))

    def size(self, errors: FloatArray) -> float:
        """What rounding of the value at these (k,) errors is a share of, but for the offsets."""
        return self.blocks.value(np.abs(self.coefficients) @ errors)

    @cached_property
    def _diagonal(self) -> FloatArray | None:
        """The slopes, if there is one piece for each group, of its error alone."""
        slopes = np.diag(self.coefficients)
        alone = len(self.blocks) == 1 and np.array_equal(self.coefficients, np.diag(slopes))
        return slopes if alone and slopes.all() else None

    def multipliers(self, weights: FloatArray) -> FloatArray:
        """Multipliers m of the pieces, of which A'm comes nearest to (k,) weights, shape (m,)."""
        if self.is_linear:
            return np.ones(len(self.offsets))
        if self._diagonal is not None:
            return self.blocks.normalised(weights / self._diagonal)
        size = max(float(np.abs(self.coefficients).max()), np.finfo(np.float64).tiny)
        sums = self.blocks.membership(len(self.offsets))
        system = np.vstack([self.coefficients.T / size, sums])
        found, _ = scipy.optimize.nnls(system, np.append(weights / size, np.ones(len(sums))))
        return self.blocks.normalised(found)


KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)


@dataclass(frozen=True)
class Formula:
    """How a reader computes a criterion from errors, and its bound from a mixture.

    Attributes
    ----------
    objective_in_words : str
        What follows "The objective is".
    objective : str
        In Python, of `errors`, `S`, `q`, `traces` and `best`, and of the parameters.
    bound_in_words : str
        Why no subspace is below the bound; `{rest}` names the remaining eigenvalues.
    bound : str
        In Python, of `weights`, `best` and `mixture`; or lines that set `lower_bound`.
    function : str
        In Python, a function that the objective calls; empty if there is none.
    """

    objective_in_words: str
    objective: str
    bound_in_words: str = KY_FAN + (
        "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the criterion "
        "is never below this weighted sum."
    )
    bound: str = "least_left(mixture)"
    function: str = ""


# Of a criterion that says nothing else.
OF_PIECES = Formula(
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    KY_FAN + "The criterion is never below the sum of its affine functions times multipliers that "
    "sum to one in each block. The weights w are the slopes of that sum.",
    "least_left(mixture) - float(multipliers @ offsets)",
)
