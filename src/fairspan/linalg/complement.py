"""Coordinates orthogonal to a few directions, at the cost of those few: LAPACK's dormqr."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr

from fairspan.typing import FloatArray, IndexArray

# Columns that LAPACK applies reflections to at once.
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Complement:
    """Orthonormal basis Q of what is orthogonal to (p, r) directions, as r Householder reflections.

    With them a (p, p) matrix is compressed by products with r columns, where a (p, p - r) basis
    would take products with p - r.

    Attributes
    ----------
    reflectors : (p, r) array
    factors : (r,) array
        As LAPACK's QR decomposition of the directions leaves them.
    order : (p,) array of int or slice
        Of the features, in the reflectors.
    """

    reflectors: FloatArray
    factors: FloatArray
    order: IndexArray | slice

    @classmethod
    def of(cls, directions: FloatArray, *, nearest_left_out: bool = False) -> "Complement":
        """The complement of independent (p, r) directions, r < p.

        Parameters
        ----------
        directions : (p, r) array
        nearest_left_out : bool
            Whether the coordinates are near the features that the directions are not near to. So a
            column of large numbers, which a direction follows, does not drown all others.
        """
        p, r = directions.shape
        order: IndexArray | slice = slice(None)
        if nearest_left_out:
            nearest = qr(directions.T, mode="economic", pivoting=True)[2][:r]
            order = np.concatenate([nearest, np.setdiff1d(np.arange(p), nearest)])
        reflectors, factors, *_ = lapack.dgeqrf(directions[order])
        return cls(reflectors, factors, order)

    @property
    def basis(self) -> FloatArray:
        """Q, shape (p, p - r)."""
        p, r = self.reflectors.shape
        basis = np.empty((p, p - r))
        basis[self.order] = self._reflected(np.eye(p)[:, r:], "L", "N")
        return basis

    def coordinates(self, columns: FloatArray) -> FloatArray:
        """Q'C of (p, n) columns C."""
        return self._reflected(columns[self.order], "L", "T")[len(self.factors) :]

    def compressed(self, matrices: FloatArray, factors: FloatArray) -> FloatArray:
        """Q'MQ of each of (k, p, p) symmetric matrices times its factor, shape (k, p - r, p - r).

        So matrices that are to be divided need not be copied.
        """
        k, (p, r) = len(matrices), self.reflectors.shape
        found = np.empty((k, p - r, p - r))
        for matrix, factor, own in zip(matrices, factors, found, strict=True):
            # Transposed, as LAPACK reads columns: then it works in the memory of the product.
            image = np.multiply(matrix[self.order][:, self.order], factor, order="C").T
            image = self._reflected(image, "L", "T", overwrite=True)
            own[:] = self._reflected(image, "R", "N", overwrite=True).T[r:, r:]
        return found

    def _reflected(
        self, columns: FloatArray, side: str, transposed: str, *, overwrite: bool = False
    ) -> FloatArray:
        if not len(self.factors):
            return columns
        room = _BLOCK * max(columns.shape)
        own = (self.reflectors, self.factors)
        found: FloatArray = lapack.dormqr(
            side, transposed, *own, columns, lwork=room, overwrite_c=overwrite
        )[0]
        return found
