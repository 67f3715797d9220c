"""Subspaces between the ends of an edge of the achievable set of two groups.

Let W be the set of (c_1(V), c_2(V)) over all orthonormal (p, d) bases V, where c_g(V) = tr(V'S_gV)
is the variance captured of group g, and t_d the sum of the d largest eigenvalues. A mixture M =
w_1 S_1 + w_2 S_2 defines the supporting line w.c = t_d(M) of W. If eigenvalue d is simple, it
touches W at one point. If it is tied, it touches along an edge: V contains the eigenvectors above
the tie and j columns from the tied eigenspace E. Rotating one choice of columns into another moves
the point along the edge, so every point of the edge is attained by a basis of rank exactly d, on
the geodesic between the subspaces at its ends. If rounding hides a tie, the geodesic between the
subspaces of two neighboring supporting lines is used instead.
"""

from collections.abc import Callable

import numpy as np
import scipy

from fairspan.linalg import LeadingSubspace
from fairspan.moments.second_moments import SecondMoments
from fairspan.typing import FloatArray

# Tolerance in t, below the resolution of float64, and maximum number of steps of the root search
# along a geodesic: bisection alone takes 57.
_ROOT_XTOL = 1e-17
_ROOT_MAX_ITER = 80


def face_endpoints(
    second_moments: SecondMoments,
    weights: FloatArray,
    leading: LeadingSubspace,
) -> tuple[FloatArray, FloatArray]:
    """Two leading subspaces of a mixture: with the smallest and the largest value of another one.

    If eigenvalue d of the mixture is tied, every choice of columns from the tied eigenspace gives a
    leading subspace. Their captured variances (c_1, c_2) form an edge (face) of the achievable set,
    whose ends minimize and maximize w.c for weights w along the edge.

    Parameters
    ----------
    second_moments : SecondMoments
        S_1 and S_2.
    weights : (2,) array
        w, the weights of the captured variances; other than those of the mixture.
    leading : LeadingSubspace
        Leading subspace of the mixture, with the eigenvectors of the tie.

    Returns
    -------
    least, most : (p, d) arrays
        Orthonormal columns; identical if there is no tie.
    """
    if not leading.is_tied:
        return leading.vectors, leading.vectors
    # Within the tied eigenspace the extremes are spanned by eigenvectors of w_1 S_1 + w_2 S_2, in
    # ascending order. Eigenvectors above the tie belong to every choice.
    compressed = second_moments.compress(leading.tied_vectors)
    axes = leading.tied_vectors @ np.linalg.eigh(np.tensordot(weights, compressed, axes=1))[1]
    fixed = leading.vectors[:, : leading.n_untied]
    n_free = leading.vectors.shape[1] - leading.n_untied
    least = np.hstack([fixed, axes[:, :n_free]])
    most = np.hstack([fixed, axes[:, -n_free:]])
    return least, most


class GrassmannGeodesic:
    """Geodesic between two subspaces.

    Every continuous function attains all intermediate values along it. Let V and W be orthonormal
    bases with principal angles theta_j (Bjoerck and Golub 1973). With A the principal vectors of V
    and H the orthogonal directions of those of W, A cos(s theta) + H sin(s theta) leads from V (s =
    0) to W (s = 1). If both are optimal for the same mixture, the whole geodesic lies in its tied
    eigenspace and is optimal as well.

    Parameters
    ----------
    start, end : (p, d) arrays
        Orthonormal columns.
    """

    def __init__(self, start: FloatArray, end: FloatArray) -> None:
        # Principal vectors of both subspaces, and the cosines of the principal angles theta.
        left, cosines, right = np.linalg.svd(start.T @ end)
        self._start = start @ left
        residual = end @ right.T - self._start * cosines
        # Orthogonalize twice, so that the residual of a small angle is orthogonal to all of the
        # start.
        residual -= start @ (start.T @ residual)
        sines = np.linalg.norm(residual, axis=0)
        self.angles = np.arctan2(sines, cosines)
        self._directions = residual / np.where(sines > 0, sines, 1.0)

    def basis_at(self, t: float) -> FloatArray:
        """Basis at parameter t in [0, 1], shape (p, d)."""
        angles = t * self.angles
        return np.asarray(self._start * np.cos(angles) + self._directions * np.sin(angles))

    def find_root(
        self,
        function: Callable[[FloatArray], float],
        end_values: tuple[float, float],
        tol: float,
    ) -> FloatArray:
        """Basis at which a function vanishes that is positive at the start and negative at the end.

        Parameters
        ----------
        function : function of a (p, d) basis
        end_values : tuple of 2 floats
            Values of the function at the start and at the end.
        tol : float
            Absolute values up to this count as zero.

        Returns
        -------
        (p, d) array
            Orthonormal columns. If the root search does not converge, those of its last step.
        """
        values_at_ends = dict(enumerate(end_values))

        def value_at(t: float) -> float:
            value = values_at_ends[int(t)] if t in values_at_ends else function(self.basis_at(t))
            return 0.0 if abs(value) <= tol else value

        t = scipy.optimize.brentq(
            value_at, 0.0, 1.0, xtol=_ROOT_XTOL, maxiter=_ROOT_MAX_ITER, disp=False
        )
        return np.asarray(np.linalg.qr(self.basis_at(t))[0])
