"""A block reflection: coordinates beside a few directions, at the cost of those few."""

from dataclasses import dataclass

import numpy as np

from fairspan.typing import FloatArray

# Rows of a matrix that stay in the processor's cache while they are worked on.
_ROWS = 64


@dataclass(frozen=True, eq=False)
class Reflection:
    """H = I - K Y', symmetric and orthogonal, whose first r columns span r given directions.

    The other columns are coordinates beside these directions. With them a (p, p) matrix is
    compressed by products with r columns, where a (p, p - r) basis would take products with p - r
    (Schreiber and Parlett 1988).

    Attributes
    ----------
    reflected, scaled : (p, r) arrays
        Y = F + E R and K = Y (I + W)^-1, for F the directions, E the first r axes, and F_1 = R W
        the polar decomposition of the first r rows of F.
    """

    reflected: FloatArray
    scaled: FloatArray

    @classmethod
    def onto_axes(cls, directions: FloatArray) -> "Reflection":
        """The reflection of the span of orthonormal (p, r) directions onto the first r axes."""
        r = directions.shape[1]
        left, sizes, right = np.linalg.svd(directions[:r])
        reflected = directions.copy()
        reflected[:r] += left @ right
        return cls(reflected, reflected @ ((right.T / (1 + sizes)) @ right))

    @property
    def beside(self) -> FloatArray:
        """Orthonormal basis of what is beside the directions, shape (p, p - r)."""
        p, r = self.reflected.shape
        columns = -self.scaled @ self.reflected[r:].T
        columns[np.arange(r, p), np.arange(p - r)] += 1.0
        return np.asarray(columns)

    def of_beside(self, columns: FloatArray) -> FloatArray:
        """CQ of (n, p) columns C, for Q the basis beside the directions."""
        r = self.reflected.shape[1]
        return np.asarray(columns[:, r:] - (columns @ self.scaled) @ self.reflected[r:].T)

    def to_beside(self, columns: FloatArray) -> FloatArray:
        """Q'C of (p, n) columns C."""
        return self.of_beside(columns.T).T

    def compressed(self, matrices: FloatArray, factors: FloatArray) -> FloatArray:
        """Q'MQ of each of (k, p, p) symmetric matrices times its factor, Q beside the directions.

        So matrices that are to be divided need not be copied.
        """
        k, p, r = len(matrices), *self.reflected.shape
        found = np.empty((k, p - r, p - r))
        for matrix, factor, own in zip(matrices, factors, found, strict=True):
            image = factor * (matrix @ self.reflected)
            half = image - self.scaled @ (self.reflected.T @ image) / 2
            left = np.hstack([self.scaled[r:], half[r:]])
            right = np.hstack([half[r:], self.scaled[r:]]).T
            # A few rows at a time: large products that are subtracted at once take longer.
            for start in range(0, p - r, _ROWS):
                rows = slice(start, start + _ROWS)
                np.multiply(matrix[r:, r:][rows], factor, out=own[rows])
                own[rows] -= left[rows] @ right
        return found

    def terms(self, matrix: FloatArray) -> float:
        """The sum of absolute terms that make up tr Q'MQ, whose rounding is a share of it."""
        r = self.reflected.shape[1]
        reflected, scaled = np.abs(self.reflected), np.abs(self.scaled)
        image = np.abs(matrix) @ reflected
        half = image + scaled @ (reflected.T @ image) / 2
        return float(np.abs(np.diag(matrix))[r:].sum() + 2 * np.vdot(scaled[r:], half[r:]))
