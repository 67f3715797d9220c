"""A criterion as a sum of maxima of affine functions, and what weights of the groups prove of it.

For weights w let L(M) be the sum of the p - d smallest eigenvalues of M = sum_g w_g S_g. Every
subspace has w.e >= L(M). So a criterion that is nowhere below some affine function w.e - b is
nowhere below L(M) - b. The gap between a value and that bound is stated as a sum of terms that are
not negative, and none of them is a difference of large numbers. The terms are the excess w.e -
L(M) of the subspace over the best one for its own mixture, and the difference of the criterion and
the affine function.
"""

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy

from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem

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
    >>> blocks.even(5).round(3)
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

    def even(self, n_pieces: int) -> FloatArray:
        """Equal multipliers within each block, shape (m,)."""
        return self.normalised(np.ones(n_pieces))

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
        totals, which = self.sums(positive), self.of(len(positive))
        if not totals.all():  # where all are zero, none is preferred
            positive = np.where(totals[which] > 0, positive, 1.0)
            totals = self.sums(positive)
        return np.asarray(positive / totals[which])


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

    def references(self, traces: FloatArray) -> FloatArray:
        """R with the pieces R - A.c in the captured variances c = traces - e, shape (m,)."""
        return np.asarray(self.coefficients @ traces - self.offsets)

    @classmethod
    def single(cls, coefficients: FloatArray) -> "Pieces":
        """One linear function of the errors."""
        return cls(np.atleast_2d(coefficients), np.zeros(1))

    @classmethod
    def total_and_gap(cls, proportions: FloatArray, penalty: float) -> "Pieces":
        """sum_g q_g e_g + penalty (max_g e_g - min_g e_g): two blocks of k pieces.

        Otherwise every pair of groups would be a separate piece, k (k - 1) of them. With two
        groups there are two pieces, and they are kept: the search for two groups is along the
        segment between them.
        """
        k = len(proportions)
        if k == 2:
            return cls(pairwise_weights(proportions, penalty), np.zeros(2))
        alone = penalty * np.eye(k)
        return cls(np.vstack([proportions + alone, -alone]), np.zeros(2 * k), Blocks((0, k)))


def pairwise_weights(proportions: FloatArray, penalty: float) -> FloatArray:
    """q + penalty (1_a - 1_b) for every ordered pair of groups, shape (k (k - 1), k).

    sum_g q_g e_g + penalty max_(a, b) (e_a - e_b) is the largest of these weights times the errors.
    """
    k = len(proportions)
    rows = np.tile(proportions, (k * (k - 1), 1))
    for row, (larger, smaller) in zip(rows, permutations(range(k), 2), strict=True):
        row[larger] += penalty
        row[smaller] -= penalty
    return rows


class ProofFormula(Protocol):
    """How weights of the groups prove a lower bound on a criterion."""

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """The nearest (k,) weights that prove a bound."""

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The value at (k,) errors less the bound, if excess = w.e - L(M)."""

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """What a gap is compared with: the size of the objective."""

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """By how much the value may be off, if the errors are by these."""


class PiecewiseProof:
    """For any sum of maxima of affine functions: multipliers whose mixture has the weights.

    Parameters
    ----------
    criterion : Criterion
        One with pieces.
    """

    def __init__(self, criterion: Any) -> None:
        self._criterion = criterion

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """A'm of the multipliers m that come nearest."""
        pieces, multipliers = self.multipliers(weights, problem)
        return np.asarray(multipliers @ pieces.coefficients)

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess, and by how much pieces that have a multiplier stay below the largest."""
        pieces, multipliers = self.multipliers(weights, problem)
        heights = pieces.at(errors)
        below = pieces.blocks.largest(heights)[pieces.blocks.of(len(heights))] - heights
        return float(multipliers @ below) + excess

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """The size of the value."""
        return abs(float(self._criterion.value(errors, problem)))

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """The largest of a piece in each block; twice where something is subtracted."""
        pieces = self._pieces(problem)
        return pieces.size(roundings) * (2 if pieces.offsets.any() else 1)

    def _pieces(self, problem: "Problem") -> Pieces:
        pieces: Pieces | None = self._criterion.pieces(problem)
        assert pieces is not None, f"{self._criterion} has neither pieces nor a proof formula"
        return pieces

    def multipliers(self, weights: FloatArray, problem: "Problem") -> tuple[Pieces, FloatArray]:
        """The pieces, and of multipliers on them those whose mixture comes nearest to weights."""
        pieces = self._pieces(problem)
        size = max(float(np.abs(pieces.coefficients).max()), np.finfo(np.float64).tiny)
        sums = pieces.blocks.membership(len(pieces.offsets))
        system = np.vstack([pieces.coefficients.T / size, sums])
        found, _ = scipy.optimize.nnls(system, np.append(weights / size, np.ones(len(sums))))
        return pieces, pieces.blocks.normalised(found)


def proof_formula_of(criterion: Any) -> ProofFormula:
    """That of a criterion; where it has none of its own, what its pieces give."""
    return criterion if criterion.proves_itself else PiecewiseProof(criterion)
