"""Deflation: second moments P S_g P of what a few orthonormal directions V leave, P = I - VV'.

Of matrices a compressed copy is made, in coordinates orthogonal to the directions, at the cost of
those few: LAPACK's dormqr. Of rows that stay sparse the products are projected.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import lapack, qr

from fairspan.linalg import (
    IterativeSubspace,
    LeadingSubspace,
    leading_subspace_of,
    rounding_of_basis,
)
from fairspan.moments.held_rows.sparse_moments import SparseSecondMoments
from fairspan.moments.operators import DenseSecondMoments
from fairspan.typing import FloatArray, IndexArray

# Columns that LAPACK applies reflections to at once.
_BLOCK = 64
# Sums of products are rounded by this share of their terms.
_ROUNDINGS = 8 * float(np.finfo(np.float64).eps)


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
        return np.asarray(
            lapack.dormqr(
                side,
                transposed,
                self.reflectors,
                self.factors,
                columns,
                lwork=_BLOCK * max(columns.shape),
                overwrite_c=overwrite,
            )[0]
        )


def deflated(
    second: DenseSecondMoments, basis: FloatArray
) -> tuple[DenseSecondMoments, FloatArray, Complement]:
    """Second moments in what orthonormal (p, r) columns leave, r < p.

    Returns
    -------
    second_moments : DenseSecondMoments
        Q'S_gQ.
    rounding : (k,) array
        By how much rounding may have moved their traces.
    complement : Complement
        Q, orthogonal to the columns.
    """
    complement = Complement.of(basis, nearest_left_out=True)
    matrices = complement.compressed(second.matrices, np.ones(second.n_groups))
    reach = np.abs(complement.basis.T)
    left = DenseSecondMoments(matrices, second.outside, reach @ second.offset_rounding)
    # No term of Q'S_gQ is larger than the root mean squares of its columns allow; and columns that
    # are rounded to float64 leave a rounding of the directions that they should take away.
    rounding = _ROUNDINGS * ((reach @ second.spreads.T) ** 2).sum(axis=0)
    turned = rounding_of_basis(second.deviations, np.zeros(second.n_groups))
    return left, rounding + turned, complement


@dataclass(frozen=True, eq=False)
class DeflatedSparse:
    """P S_g P of groups whose rows stay sparse, in the coordinates of the features.

    Attributes
    ----------
    whole : SparseSecondMoments
        S_g.
    basis : (p, r) array
        V, orthonormal columns.
    outside : (k,) array
        Variance of each group along V that counts as lost, whatever is chosen beside it.
    """

    whole: SparseSecondMoments
    basis: FloatArray
    outside: FloatArray
    has_matrices: ClassVar[bool] = False

    @property
    def n_groups(self) -> int:
        """k."""
        return self.whole.n_groups

    @property
    def n_features(self) -> int:
        """p."""
        return self.whole.n_features

    @cached_property
    def traces(self) -> FloatArray:
        """tr P S_g P of each group, and what counts as lost along V, shape (k,)."""
        return self.whole.residual_variances(self.basis) + self.outside

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """tr(B'P S_g P B), shape (k,)."""
        return self.whole.captured_variances(self._projected(basis))

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """What a basis beside V loses of P S_g P, and what counts as lost along V, shape (k,)."""
        return self.outside + self.whole.residual_variances(
            np.hstack([self.basis, self._projected(basis)])
        )

    def compressed(self, basis: FloatArray) -> FloatArray:
        """B'P S_g P B of every group, shape (k, d, d)."""
        return self.whole.compressed(self._projected(basis))

    def applied(self, basis: FloatArray) -> FloatArray:
        """P S_g P B of every group, shape (k, p, d)."""
        return np.array(list(map(self._projected, self.whole.applied(self._projected(basis)))))

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of a mixture, as far as an iteration can tell."""
        return self.sought(weights, n_components, tie_tolerance=tie_tolerance).leading

    def sought(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        tie_tolerance: float = 0.0,
        sum_goal: float | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """The same, with how far the eigenvalue sum may be off."""
        return leading_subspace_of(
            lambda block: self._projected(self.whole.mixed(weights, self._projected(block))),
            self.n_features,
            n_components,
            float(np.abs(weights) @ self.traces),
            start=start,
            beside=self.basis,
            tie_tolerance=tie_tolerance,
            sum_goal=sum_goal,
            n_vectors=n_vectors,
        )

    def n_held(self, n_components: int) -> int:
        """How many leading vectors are found with d of them."""
        return min(self.whole.n_held(n_components), self.n_features - int(self.basis.shape[1]))

    def further(self, basis: FloatArray) -> "DeflatedSparse":
        """The same without what lies along (p, r) further orthonormal columns beside V."""
        return replace(self, basis=np.hstack([self.basis, basis]))

    def _projected(self, block: FloatArray) -> FloatArray:
        return block - self.basis @ (self.basis.T @ block)
