"""Bounds on sums of the largest eigenvalues, from a projection onto a subspace.

Let M be a mixture of the second moments, W orthonormal columns, H = W'MW, G = MW - WH, and beta an
upper bound on the eigenvalues of M on the orthogonal complement of W. For every eta > 0, Young's
inequality gives M <= (H + G'G / eta) + (beta + eta) I on the two subspaces, so the d largest
eigenvalues of the right-hand side bound those of M. If beta is below eigenvalue d by delta, the sum
of the d largest exceeds the Ritz sum by at most |G|_F^2 / delta: a residual of 1e-5 proves ten
digits.

Residuals cannot exclude that W misses an eigenvalue, but beta can. It is proven by a floating-point
Cholesky factorization (Rump 2006). One factorization serves all mixtures: second moments are
positive semidefinite, so each mixture is at most the one that gives every group its largest weight.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from fairspan.linalg import LeadingSubspace
from fairspan.linalg.rounding import EPS
from fairspan.linalg.threads import limit_blas_threads
from fairspan.typing import FloatArray

# Added where a number may be zero, so that it can be divided by; its square is still a normal
# number.
_TINY = 1e-150
# Smallest relative distance of the complement bound from eigenvalue d, to allow for rounding.
_MIN_MARGIN = 1e-6


def complement_eigenvalue_bound(
    matrix: FloatArray, basis: FloatArray, image: FloatArray, bound: float, size: float
) -> float:
    """Proven bound on the eigenvalues of M on the complement of W; infinite if a trial value fails.

    M is a symmetric matrix, and W the span of orthonormal columns, or the columns themselves. The
    bound is close to the trial value. If bound I - (I - WW') M (I - WW') has a floating-point
    Cholesky factor, its smallest eigenvalue is at least minus (p + 1) u times its trace, where u =
    EPS / 2 is the unit roundoff (Rump 2006, without terms of the order of u^2). Four times that is
    added, which covers these terms and the rounding of the trace itself.

    Parameters
    ----------
    matrix : (p, p) array
        M, symmetric.
    basis, image : (p, m) arrays
        W, orthonormal, and MW.
    bound : float
        Trial value.
    size : float
        At least |M|_F; larger if M is a difference of larger matrices and carries their rounding.

    Returns
    -------
    float
        Upper bound on the eigenvalues of (I - WW') M (I - WW'): the trial value plus the rounding
        errors of its proof, or infinity if the factorization fails.

    Examples
    --------
    >>> import numpy as np
    >>> matrix, basis = np.diag([3.0, 2.0, 1.0]), np.eye(3)[:, :1]
    >>> round(complement_eigenvalue_bound(matrix, basis, matrix @ basis, 2.1, 4.0), 6)
    2.1
    >>> complement_eigenvalue_bound(matrix, basis, matrix @ basis, 1.9, 4.0)
    inf
    """
    p, m = basis.shape
    # bound I - M; if W has columns, the terms with W of (I - WW') M (I - WW') are added, which are
    # W times the transpose of MW - W(W'MW) / 2, and its transpose.
    shifted = -matrix
    shifted.flat[:: p + 1] += bound
    with limit_blas_threads("scipy"):
        if m:
            half_image = image - basis @ ((basis.T @ image) / 2)
            shifted = blas.dsyr2k(1.0, basis, half_image, 1.0, shifted.T, lower=1, overwrite_c=1).T
        trace = float(np.trace(shifted))
        # The lower triangle of the transposed array, which LAPACK reads without a copy.
        info = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]
    # Rounding error of the products, with every term at its largest.
    rounding = EPS * 4 * (p + m) * np.sqrt(m + 1) * size
    if info:  # not positive definite
        return np.inf
    return float(bound + EPS * 2 * (p + 1) * trace + rounding)


@dataclass(frozen=True, eq=False)
class ProjectedMixture:
    """Rayleigh-Ritz projection of a mixture M of second moments onto a subspace W.

    Attributes
    ----------
    weights : (k,) array
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G, G = MW - WH.
    complement_dim : int
        p - m, the dimension of the complement.
    leading : LeadingSubspace
        At least the d leading eigenvectors of H (Ritz vectors).
    """

    weights: FloatArray
    compressed: FloatArray
    residual_gram: FloatArray
    complement_dim: int
    leading: LeadingSubspace

    def ritz_sum(self, n_components: int) -> float:
        """Ritz sum t_d(H)."""
        return float(self.leading.eigenvalues[:n_components].sum())

    def missing_sum_estimate(self, n_components: int) -> float:
        """First-order estimate of t_d(M) - t_d(H), the part of the eigenvalue sum that W misses.

        It presumes that W contains approximations of all leading eigenvectors.
        """
        return self.residual_gain(self.leading.vectors[:, :n_components], n_components)

    def residual_gain(self, coordinates: FloatArray, n_components: int) -> float:
        """First-order estimate of what a basis captures more of M once its residual is in W.

        M is the mixture and W the subspace it is projected onto. A basis B within W captures
        tr(B'MB). Its residual is (I - WW')MB, the part of MB outside of W. The estimate is the
        squared norm of the residual divided by the distance of eigenvalue d from the smallest Ritz
        value (eigenvalue within W) known, which stands for the eigenvalues outside of W. It
        presumes that W contains approximations of all leading eigenvectors.

        Parameters
        ----------
        coordinates : (m, r) array
            Coordinates of the basis within W.
        n_components : int
            d.
        """
        values = self.leading.eigenvalues
        # The Gram matrix is that of the residual of W itself, MW - W(W'MW).
        squared_norm = max(float(np.vdot(coordinates, self.residual_gram @ coordinates)), 0.0)
        distance = float(values[n_components - 1] - values[-1])
        if distance > 0:
            return squared_norm / distance
        # At a tie eigenvalues change by up to the norm of the residual, to first order.
        return float(np.sqrt(squared_norm * n_components))

    def complement_bound_target(self, n_components: int, goal: float) -> float:
        """Bound to be proven for the eigenvalues of M on the complement of W (a trial value).

        M is the mixture, W the subspace it is projected onto and H = W'MW, with the Ritz values as
        its eigenvalues; t_d is the sum of the d largest. If the bound is proven, the bound on
        t_d(M) - t_d(H) by :meth:`top_sum_excess` is likely to be within the goal: the value lies
        halfway between the d-th and the smallest Ritz value known, or is so small that eigenvalues
        of the complement up to it cost less than the goal.

        Parameters
        ----------
        n_components : int
            d.
        goal : float
            Excess t_d(M) - t_d(H) to allow.
        """
        values = self.leading.eigenvalues
        eigenvalue_d = float(values[n_components - 1])
        # Half of the distance from the d-th Ritz value to the smallest one that is known.
        margin = max((eigenvalue_d - float(values[-1])) / 2, _MIN_MARGIN * abs(eigenvalue_d))
        # At most d eigenvalues of the complement can be among the d largest of M: below a fraction
        # of the goal per component they do not matter.
        negligible = goal / (4 * n_components)
        rounding = EPS * float(values[0]) + _TINY
        return max(eigenvalue_d - margin, negligible, rounding)

    def top_sum_excess(self, n_components: int, complement_bound: float) -> float:
        """Upper bound on t_d(M) - t_d(H), given an upper bound on the complement eigenvalues.

        M is the mixture, W the subspace it is projected onto, H = W'MW, and t_d the sum of the d
        largest eigenvalues. For every eta > 0, M is at most (H + G'G / eta) + (beta + eta) I, on W
        and on its complement, where G = MW - WH is the residual and beta the given bound (Young's
        inequality). To let large eigenvalues cause no rounding error, what the d leading Ritz
        values (eigenvalues of H) exceed the last of them by is subtracted from M and H alike, which
        is valid because t_d is subadditive.

        Parameters
        ----------
        n_components : int
            d.
        complement_bound : float
            beta; the result is infinite if it is not finite.
        """
        # W is the whole space, so nothing is missing.
        if self.complement_dim == 0:
            return 0.0
        if not np.isfinite(complement_bound):
            return np.inf
        d = n_components
        values = self.leading.eigenvalues
        eigenvalue_d = float(values[d - 1])
        vectors = self.leading.vectors[:, :d]
        # eta equal to the full distance raises eigenvalues in W least, and those of the complement
        # up to eigenvalue d. Without a distance, eta is the size of the residual: both then rise
        # about equally.
        eta = eigenvalue_d - complement_bound
        if not eigenvalue_d > complement_bound:
            mean_squared_residual = max(float(np.trace(self.residual_gram)) / d, _TINY**2)
            eta = float(np.sqrt(mean_squared_residual))
        # H + G'G / eta with the leading Ritz values lowered to eigenvalue d, minus eigenvalue d:
        # without a residual the d largest eigenvalues would be zero.
        shifted = self.compressed - (vectors * (values[:d] - eigenvalue_d)) @ vectors.T
        shifted = shifted + self.residual_gram / eta
        shifted.flat[:: len(shifted) + 1] -= eigenvalue_d
        # The d largest in W, ascending. Each eigenvalue of the complement can replace one of them,
        # so it counts as far as it exceeds the smallest.
        raised = np.maximum(np.linalg.eigvalsh(shifted)[-d:], 0.0)
        raised_complement = max(complement_bound + eta - eigenvalue_d - float(raised[0]), 0.0)
        complement_excess = raised_complement * min(d, self.complement_dim)
        rounding = 4 * len(shifted) * abs(eigenvalue_d) + 8 * float(np.abs(values[:d]).sum())
        return float(raised.sum()) + complement_excess + EPS * rounding
