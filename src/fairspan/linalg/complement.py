"""Orthogonal complement of a few columns, without a p x p matrix."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr

from fairspan.typing import FloatArray, IndexArray

# LAPACK block size for applying reflectors.
_REFLECTOR_BLOCK = 64


@dataclass(frozen=True, eq=False)
class OrthogonalComplement:
    """Orthogonal complement of (p, r) directions, with basis Q stored as r Householder reflectors.

    Compressing a (p, p) matrix then costs products with r columns instead of p - r.

    Attributes
    ----------
    reflectors : (p, r) array
    factors : (r,) array
        Output of LAPACK's QR factorization of the directions.
    order : (p,) array of int
        Order of the features in the reflectors. Few are moved, so that few rows of a matrix are.
    """

    reflectors: FloatArray
    factors: FloatArray
    order: IndexArray

    @classmethod
    def from_directions(cls, directions: FloatArray) -> "OrthogonalComplement":
        """Build the complement of orthonormal (p, r) directions, r < p.

        The features with the largest entries in the directions come first in the QR factorization.
        The columns of the basis Q of the complement then stay close to the axes of the other
        features, so that a column of large scale along a direction does not contaminate them.
        """
        r = directions.shape[1]
        # QR with column pivoting of the transpose selects these r features.
        pivots = qr(directions.T, mode="r", pivoting=True)[1][:r] if r else []
        order = np.arange(len(directions))
        for index, feature in enumerate(pivots):
            other = int(np.flatnonzero(order == feature)[0])
            order[[index, other]] = order[[other, index]]
        return cls._in_order(directions, order)

    @classmethod
    def from_differences(cls, directions: FloatArray) -> "OrthogonalComplement":
        """Build the complement of (p, r) directions of mean differences.

        They are linearly independent, those of the largest differences first. With row exchanges,
        the rounding errors of Householder QR are small relative to each row (Cox and Higham 1998):
        neither a large difference nor a feature of large scale swamps the others.
        """
        order = np.arange(len(directions))
        # Gaussian elimination pivots on the feature in which a direction differs most from others.
        for index, pivot in enumerate(lapack.dgetrf(directions)[1]):
            order[[index, pivot]] = order[[pivot, index]]
        return cls._in_order(directions, order)

    @classmethod
    def _in_order(cls, directions: FloatArray, order: IndexArray) -> "OrthogonalComplement":
        reflectors, factors, *_ = lapack.dgeqrf(directions[order])
        return cls(reflectors, factors, order)

    @property
    def basis(self) -> FloatArray:
        """Basis Q, shape (p, p - r)."""
        p, r = self.reflectors.shape
        basis = np.empty((p, p - r))
        basis[self.order] = self._apply_reflectors(np.eye(p)[:, r:], "L", "N")
        return basis

    def coordinates(self, columns: FloatArray) -> FloatArray:
        """Return the coordinates Q'C of (p, n) columns C, shape (p - r, n)."""
        # The reflectors map the directions to the first r coordinates, and Q to the others.
        return self._apply_reflectors(columns[self.order], "L", "T")[len(self.factors) :]

    def compress(self, matrices: FloatArray, scales: FloatArray) -> FloatArray:
        """Return s Q'MQ for each of k symmetric (p, p) matrices M and its scale s.

        Q is the (p, p - r) basis of the complement of the r directions, so the result has shape
        (k, p - r, p - r). Scaling here avoids a scaled copy of all matrices.
        """
        p, r = self.reflectors.shape
        compressed = np.empty((len(matrices), p - r, p - r))
        # Positions with another feature in the order of the reflectors: only these are permuted.
        moved = np.flatnonzero(self.order != np.arange(p))
        for matrix, scale, block in zip(matrices, scales, compressed, strict=True):
            image = np.multiply(matrix, scale, order="C")
            image[moved] = image[self.order[moved]]
            image[:, moved] = image[:, self.order[moved]]
            # H'MH, where the last p - r columns of H are Q: its lower right block is Q'MQ. It is
            # transposed to Fortran order, so that LAPACK works in place.
            image = self._apply_reflectors(image.T, "L", "T", overwrite=True)
            block[:] = self._apply_reflectors(image, "R", "N", overwrite=True).T[r:, r:]
        return compressed

    def _apply_reflectors(
        self, columns: FloatArray, side: str, transposed: str, *, overwrite: bool = False
    ) -> FloatArray:
        """Multiply a matrix by the product H of the reflectors.

        H is orthogonal, (p, p); its last p - r columns are the basis Q of the complement. In the
        codes of LAPACK: `side` is "L" to multiply from the left or "R" from the right, and
        `transposed` is "T" to multiply by H' or "N" by H. Features are in the order of `order`.
        """
        if not len(self.factors):  # no direction, so H is the identity
            return columns
        return np.asarray(
            lapack.dormqr(
                side,
                transposed,
                self.reflectors,
                self.factors,
                columns,
                lwork=_REFLECTOR_BLOCK * max(columns.shape),
                overwrite_c=overwrite,
            )[0]
        )
