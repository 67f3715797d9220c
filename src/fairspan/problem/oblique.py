"""Oblique mean parity: a shift of the rows that makes the group means agree before projecting.

It acts along the differences of the means. With S the pooled second moment and F the directions to
be mapped to zero, it finds E (d x p) and D (p x d) that minimize the mean of ||x - D E x||^2
subject to E F = 0. With P = F(F'S^+F)^+F'S^+, the projection onto the span of F that is orthogonal
in the metric of S^+, and N = S - P S, the optimum is tr S - t_d(N), attained by the d leading
eigenvectors U of N: E = U'(I - P), D = U. If features are linearly dependent, every generalized
inverse in place of S^+ has the same effect on the rows; the one of standardized features is used,
which does not depend on units. The construction follows LEACE (Belrose et al. 2023), which shifts
rows and keeps all dimensions; mean parity (Kleindessner et al. 2023) projects orthogonally instead.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import EPS, RANK_TOL, ZERO_EIGENVALUE
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ObliqueShift:
    """Shift of the rows that precedes the orthogonal projection of an oblique restriction.

    Attributes
    ----------
    forbidden : (p, m) array
        F; its columns are orthonormal in units of the features' standard deviations.
    matrix : (p, p) array
        I - P.
    shifted_second_moment : (p, p) array
        N, the pooled second moment of the shifted rows.
    variance_lost : float
        tr(S - N): the variance that shifting the rows costs, for every subspace.
    rank : int
        Rank of N, the largest number of components with variance.
    rounding : float
        Rounding error bound of tr N.
    """

    forbidden: FloatArray
    matrix: FloatArray
    shifted_second_moment: FloatArray
    variance_lost: float
    rank: int
    rounding: float

    def project_basis(self, basis: FloatArray) -> FloatArray:
        """Project a (p, d) basis onto the span of the shifted rows and orthonormalize it.

        The basis should lie in that span, but rounding adds a small part outside: eigenvectors are
        accurate relative to their length only. The encoder U'(I - P) of a basis U may have large
        entries where the decoder U has small ones, so that part is removed.

        Raises
        ------
        IncompatibleParameters
            A component lies along the directions that the shift removes: next to columns of large
            numbers, the variance that remains there is rounding error.
        """
        shifted = self.matrix @ basis
        try:
            # Nearly the identity: I - P leaves the span of the shifted rows as it is.
            lower = np.linalg.cholesky(shifted.T @ shifted)
        except np.linalg.LinAlgError as error:
            raise encoder_not_resolved(
                "the variance of the shifted rows along some component is rounding error"
            ) from error
        return np.asarray(solve_triangular(lower, shifted.T, lower=True).T)


def encoder_not_resolved(why: str) -> IncompatibleParameters:
    """Return the error for an oblique encoder that double precision cannot hold."""
    return IncompatibleParameters(
        f"MeanParity(oblique=True) was requested, and {why}",
        "Allowed: features whose variances differ by less than double precision resolves",
        "Use scale=True, fewer components, or MeanParity(), which is orthogonal",
    )


def oblique_shift(pooled: FloatArray, forbidden: FloatArray) -> ObliqueShift:
    """Optimal shift of the rows that maps given directions F to zero.

    It is I - P for the oblique projection P = F(F'S^+F)^+F'S^+ onto the span of F, and leaves the
    second moment N = S - P S. Of all linear maps that map F to zero it moves the rows least, and no
    encoder that maps F to zero has a smaller total error than PCA of the shifted rows.

    Parameters
    ----------
    pooled : (p, p) array
        S, the second moment of all rows about their mean.
    forbidden : (p, m) array
        F, with linearly independent columns.

    Returns
    -------
    ObliqueShift
        I - P, N, its rank, and the variance tr(S - N) that is lost.

    Examples
    --------
    >>> S, F = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[0.0], [1.0]])
    >>> shift = oblique_shift(S, F)
    >>> shift.shifted_second_moment.round(6)
    array([[2. , 1. ],
           [1. , 0.5]])
    >>> shift.rank, round(shift.variance_lost, 6)
    (1, 1.5)
    """
    # Standardize the features, so that columns of large numbers do not swamp the others.
    deviations = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    units = np.where(deviations > 0, deviations, 1.0)[:, None]
    values, vectors = np.linalg.eigh(pooled / units / units.T)
    whitened = _whiten(values, vectors, forbidden / units, ZERO_EIGENVALUE)
    factor = whitened.factor
    axes = whitened.forbidden_axes
    basis = whitened.forbidden_basis
    # With A the factor (S = A A'), W its left inverse and Z the axes, an orthonormal basis of WF:
    # P = A Z Z' W, P S = (A Z)(A Z)' and N = B B' with B = A - A Z Z'.
    removed_factor = factor @ axes
    oblique_projection = removed_factor @ (axes.T @ whitened.whitening)
    shift_matrix = units * (np.eye(len(pooled)) - oblique_projection) / units.T
    # Remove F a second time: P may be large, and its rounding error leaves a part of F.
    shift_matrix -= (shift_matrix @ (units * basis)) @ (basis / units).T
    remaining_factor = units * (factor - removed_factor @ axes.T)
    removed_factor = units * removed_factor
    variance_lost = float(np.vdot(removed_factor, removed_factor))
    # P is sensitive to S where the rows hardly vary: a rounding error E of the standardized second
    # moment changes tr N by up to ||E|| times the sum of squares below, with ||E|| taken as EPS / 4
    # times the largest eigenvalue. (In experiments, fits of rows and of moments differed by at most
    # a twelfth of `rounding`.)
    rounding = EPS / 4 * float(values[-1]) * float(np.sum((units * oblique_projection) ** 2))
    # Directions whose variance is below the cut-off may be real: allow for including them.
    uncut = _whiten(values, vectors, forbidden / units, min_eigenvalue_ratio=EPS * len(pooled))
    uncut_variance_lost = float(np.sum((units * (uncut.factor @ uncut.forbidden_axes)) ** 2))
    rank_uncertainty = abs(variance_lost - uncut_variance_lost)
    return ObliqueShift(
        forbidden=units * basis,
        matrix=shift_matrix,
        shifted_second_moment=remaining_factor @ remaining_factor.T,
        variance_lost=variance_lost,
        rank=factor.shape[1] - axes.shape[1],
        rounding=rounding + rank_uncertainty,
    )


class _WhitenedFactors(NamedTuple):
    """Factors of a standardized second moment S, and the forbidden directions in its metric.

    Attributes
    ----------
    factor : (p, r) array
        A factor A of S = A A'.
    whitening : (r, p) array
        Left inverse of the factor.
    forbidden_basis : (p, m) array
        Orthonormal basis of F within the span of S.
    forbidden_axes : (r, m) array
        Orthonormal axes of the whitened F.
    """

    factor: FloatArray
    whitening: FloatArray
    forbidden_basis: FloatArray
    forbidden_axes: FloatArray


def _whiten(
    values: FloatArray, vectors: FloatArray, forbidden: FloatArray, min_eigenvalue_ratio: float
) -> _WhitenedFactors:
    """Factor a second moment S = A A', and whiten the forbidden directions F with A.

    Only the eigenvalues of S above a fraction of the largest are used. The forbidden axes span the
    whitened directions: an orthogonal projection there is an oblique one of the rows.

    Parameters
    ----------
    values, vectors : (p,) and (p, p) arrays
        Eigendecomposition of S, in ascending order.
    forbidden : (p, m) array
        F, in the units of S.
    min_eigenvalue_ratio : float
        Smaller eigenvalues, relative to the largest, count as zero.

    Returns
    -------
    _WhitenedFactors
    """
    varies = values > min_eigenvalue_ratio * max(float(values[-1]), 0.0)
    values = values[varies]
    vectors = vectors[:, varies]
    factor = vectors * np.sqrt(values)
    whitening = (vectors / np.sqrt(values)).T
    # Outside the span of the rows, means differ by rounding error only.
    forbidden_basis = np.linalg.qr(vectors @ (vectors.T @ forbidden))[0]
    axes, singular_values, _ = np.linalg.svd(whitening @ forbidden_basis, full_matrices=False)
    # Directions that depend on others within the span add no axis.
    cutoff = RANK_TOL * singular_values.max(initial=0.0)
    return _WhitenedFactors(
        factor, whitening, forbidden_basis, forbidden_axes=axes[:, singular_values > cutoff]
    )
