"""Spectrum of the difference of two covariances, and what rounding leaves known of it."""

from dataclasses import dataclass

import numpy as np

from fairspan.linalg.rounding import EIGENVALUE_ROUNDING, ENTRY_TERMS, EPS, ZERO_EIGENVALUE
from fairspan.problem.restrictions.restriction import AllowedDirections
from fairspan.typing import BoolArray, FloatArray

# Differences are tied up to four of their rounding errors: twice as far as rounding can separate
# two equal ones, so that no tie is at the border.
_TIE_ROUNDINGS = 4


@dataclass(frozen=True, eq=False)
class Selection:
    """Eigenvalues that are selected, and whether rounding leaves the selection as it is.

    Attributes
    ----------
    is_selected : (m,) array of bool
    is_resolved : bool
    """

    is_selected: BoolArray
    is_resolved: bool


@dataclass(frozen=True, eq=False)
class DifferenceSpectrum:
    """Eigenvalues of U'(C_1 - C_2)U for (p, m) orthonormal U, C_1 and C_2 covariances.

    Attributes
    ----------
    values : (m,) array
        In ascending order: differences of the variances of the two groups.
    directions : (p, m) array
        Eigenvectors, in the features.
    rounding : (m, m) array
        Bound on the rounding error of the difference of the covariances along the eigenvectors.
    """

    values: FloatArray
    directions: FloatArray
    rounding: FloatArray

    @classmethod
    def from_covariances(
        cls, basis: FloatArray, covariances: FloatArray, orthogonality_defect: float | None
    ) -> "DifferenceSpectrum":
        """Compute the spectrum along (p, m) orthonormal columns.

        `orthogonality_defect` is the relative error of squared lengths in row coordinates; None if
        the covariances are those of features.
        """
        difference = covariances[0] - covariances[1]
        values, vectors = np.linalg.eigh(basis.T @ difference @ basis)
        directions = basis @ vectors
        rounding = _difference_rounding(directions, covariances, orthogonality_defect)
        rounding += EPS * ENTRY_TERMS * np.abs(values).max()
        return cls(values, directions, rounding)

    def smallest_differences(self, n: int) -> Selection:
        """Select the `n` eigenvalues of smallest size, and all that are tied with the last.

        The order of tied differences is rounding error, and the groups differ no more along any of
        them.
        """
        abs_values = np.abs(self.values)
        value_rounding = np.diag(self.rounding)
        last = np.argsort(abs_values)[:n][-1]
        tie_rounding = max(
            EIGENVALUE_ROUNDING * abs_values.max(), _TIE_ROUNDINGS * value_rounding[last]
        )
        threshold = abs_values[last] + tie_rounding
        # Both values may be off by their rounding errors.
        distances = np.abs(abs_values - threshold)
        return Selection(
            is_selected=abs_values <= threshold,
            is_resolved=bool((distances > value_rounding + value_rounding[last]).all()),
        )

    def zero_differences(self) -> Selection:
        """Select the eigenvalues that cannot be distinguished from zero."""
        abs_values = np.abs(self.values)
        value_rounding = np.diag(self.rounding)
        thresholds = np.maximum(ZERO_EIGENVALUE * abs_values.max(), _TIE_ROUNDINGS * value_rounding)
        return Selection(
            is_selected=abs_values <= thresholds,
            is_resolved=bool((np.abs(abs_values - thresholds) > value_rounding).all()),
        )

    def allow(self, is_selected: BoolArray) -> AllowedDirections:
        """Return the selected eigenvectors as allowed directions, and the others as neighbors.

        To first order, rounding rotates one eigenvector into another by the change of the matrix
        divided by the distance of their eigenvalues.
        """
        distances = np.abs(self.values[~is_selected, None] - self.values[is_selected])
        return AllowedDirections(
            axes=self.directions[:, is_selected],
            neighbors=self.directions[:, ~is_selected],
            rotation=self.rounding[np.ix_(~is_selected, is_selected)] / distances,
        )


def _difference_rounding(
    directions: FloatArray, covariances: FloatArray, orthogonality_defect: float | None
) -> FloatArray:
    """Bound on the rounding error of U'(C_1 - C_2)U for (p, m) orthonormal U, shape (m, m).

    Each entry of C_g is rounded relative to the standard deviations of its two features, and the
    errors of different entries cancel. In row coordinates the rows are off by a fraction of their
    length, too.
    """
    variances = np.maximum(np.einsum("gii->gi", covariances), 0.0)
    magnitudes = np.sqrt(variances @ directions**2)
    rounding = EPS * ENTRY_TERMS * (magnitudes.T @ magnitudes)
    if orthogonality_defect is None:
        return np.asarray(rounding)
    displacement = (orthogonality_defect + EPS * ENTRY_TERMS) * np.sqrt(variances.sum(axis=1))
    along = [np.einsum("ij,ij->j", directions, matrix @ directions) for matrix in covariances]
    products = displacement @ np.sqrt(np.maximum(along, 0.0))
    rounding += products + products[:, None] + displacement @ displacement
    return np.asarray(rounding)
