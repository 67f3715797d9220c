"""A criterion as the largest of some affine functions of the groups' errors."""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """max_i (A_i . e - b_i).

    Errors are linear in the projector VV', so a criterion of this form is convex in it, and any
    weights on the pieces prove a bound (see :mod:`fairspan.solvers.certificate`).

    Attributes
    ----------
    coefficients : (m, k) array
        A, one row for each piece.
    offsets : (m,) array
        b.
    """

    coefficients: FloatArray
    offsets: FloatArray

    def value(self, errors: FloatArray) -> float:
        """The largest piece at these (k,) errors."""
        return float((self.coefficients @ errors - self.offsets).max())

    def references(self, traces: FloatArray) -> FloatArray:
        """R with the pieces R - A.c in the captured variances c = traces - e, shape (m,)."""
        return np.asarray(self.coefficients @ traces - self.offsets)

    @classmethod
    def single(cls, coefficients: FloatArray) -> "Pieces":
        """One linear function of the errors."""
        return cls(np.atleast_2d(coefficients), np.zeros(1))


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
