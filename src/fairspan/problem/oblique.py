"""Oblique mean parity: rows are moved along the means' differences before they are projected.

With S the pooled second moment and F directions whose image is to be zero, find E (d x p) and
D (p x d) that minimise the mean of ||x - D E x||^2 subject to E F = 0. With P = F(F'S^+F)^+F'S^+,
the projection onto the span of F that is orthogonal in the metric of S^+, and N = S - P S, the
optimum is tr S - t_d(N), at the d leading eigenvectors U of N: E = U'(I - P), D = U. Where features
depend on each other, any generalised inverse in place of S^+ does the same to all rows; taken is
that of standardised features, whatever their units. The idea is that of LEACE (Belrose et al.
2023), which moves rows and keeps all dimensions; mean parity (Kleindessner et al. 2023) projects
orthogonally instead.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fairspan.linalg import eigh
from fairspan.typing import FloatArray

# A direction with less than this share of the variance of standardised features has none.
_NO_VARIANCE = 1e-12
# Directions that depend on each other linearly span less; relative to the largest.
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class Encoding:
    """What is done to rows before they are projected orthogonally.

    Attributes
    ----------
    forbidden : (p, m) array
        F; its columns are orthonormal where features are divided by their spread.
    mover : (p, p) array
        I - P.
    second_moment : (p, p) array
        N, the pooled second moment of the moved rows.
    lost : float
        tr(S - N): what moving rows costs, in any subspace.
    rank : int
        That of N: with more components, some would be dead.
    """

    forbidden: FloatArray
    mover: FloatArray
    second_moment: FloatArray
    lost: float
    rank: int

    def settled(self, basis: FloatArray) -> FloatArray:
        """The same (p, d) basis, exactly among the moved rows.

        Eigenvectors are known to a share of their length, but an encoder may have large entries
        where those of its decoder are small.
        """
        inside = self.mover @ basis
        lower = np.linalg.cholesky(inside.T @ inside)  # nearly the identity
        return np.asarray(solve_triangular(lower, inside.T, lower=True).T)

    def encoder(self, basis: FloatArray) -> FloatArray:
        """E = U'(I - P) of an orthonormal (p, d) basis U, shape (d, p)."""
        return np.asarray(basis.T @ self.mover)


def encoding_without(pooled: FloatArray, forbidden: FloatArray) -> Encoding:
    """The moved rows' second moment, where some directions are to have the image zero.

    Parameters
    ----------
    pooled : (p, p) array
        S, about the mean of all rows.
    forbidden : (p, m) array
        F, independent columns.

    Returns
    -------
    Encoding

    Examples
    --------
    >>> S, F = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[0.0], [1.0]])
    >>> encoding = encoding_without(S, F)
    >>> encoding.second_moment.round(6)
    array([[2. , 1. ],
           [1. , 0.5]])
    >>> encoding.rank, round(encoding.lost, 6)
    (1, 1.5)
    """
    # Of standardised features, so that a column of large numbers does not make others rounding.
    spread = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    spread = np.where(spread > 0, spread, 1.0)[:, None]
    values, vectors = eigh(pooled / spread / spread.T)
    varies = values > _NO_VARIANCE * max(float(values[-1]), 0.0)
    values, vectors = values[varies], vectors[:, varies]
    factor, whitening = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    # Beside all rows, means differ by rounding alone.
    hidden = np.linalg.qr(vectors @ (vectors.T @ (forbidden / spread)))[0]
    axes, sizes, _ = np.linalg.svd(whitening @ hidden, full_matrices=False)
    axes = axes[:, sizes > _DEPENDENT * sizes.max(initial=0.0)]
    moved = factor @ axes
    mover = spread * (np.eye(len(pooled)) - moved @ (axes.T @ whitening)) / spread.T
    # Once more: P may be large, and what it leaves of F is its rounding.
    mover -= (mover @ (spread * hidden)) @ (hidden / spread).T
    moved, left = spread * moved, spread * (factor - moved @ axes.T)
    rank = factor.shape[1] - axes.shape[1]
    return Encoding(spread * hidden, mover, left @ left.T, float(np.vdot(moved, moved)), rank)
