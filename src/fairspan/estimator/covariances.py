"""What a fit says of the covariance of the rows, as scikit-learn's PCA says it."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairspan.errors import Incompatible
from fairspan.moments.of_rows import Moments
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

# Of the total variance: less is none.
_ROUNDING = 1e-13


class ModelsCovariances:
    """The covariance of probabilistic PCA (Tipping and Bishop 1999) within a fitted subspace.

    Within the subspace it is that of the rows; outside, the noise has the same variance along every
    direction. Everything is about the fit's centre, in units of the features, scaled if it scales.
    """

    moments_: Moments
    subspace_: FairSubspace
    explained_variance_: FloatArray
    explained_variance_ratio_: FloatArray

    @property
    def n_samples_seen_(self) -> int:
        """Rows that were fitted on, those of every `partial_fit` together."""
        return int(self.moments_.counts.sum())

    @property
    def singular_values_(self) -> FloatArray:
        """Square root of the variance of each component times the total weight, shape (r,).

        Of ordinary PCA of rows without weights these are the singular values of the centred rows.
        """
        return np.asarray(np.sqrt(self.explained_variance_ * self.moments_.weights.sum()))

    @property
    def noise_variance_(self) -> float:
        """Mean variance of the directions outside the subspace; zero if there are none.

        Of ordinary PCA the mean of the p - d least eigenvalues of the covariance (divided by the
        total weight, not n - 1).
        """
        subspace = self.subspace_
        outside = subspace.n_features - subspace.dimension
        if outside == 0:
            return 0.0
        variance, _ = self._variances("noise_variance_")
        left = variance - float(self.explained_variance_.sum())
        return left / outside if left > _ROUNDING * variance else 0.0

    def get_covariance(self) -> FloatArray:
        """V M V' + s (I - V V'), M the covariance within the subspace and s the noise variance.

        Returns
        -------
        (p, p) array
            In squared units of the features, scaled if the fit scales. Divided by the total
            weight, not n - 1 as scikit-learn's.

        Raises
        ------
        Incompatible
            A soft or an oblique projection.
        """
        check_is_fitted(self)
        _, inside = self._variances("get_covariance")
        return self._spread(inside, self.noise_variance_)

    def get_precision(self) -> FloatArray:
        """The inverse of :meth:`get_covariance`, from the d x d part alone.

        Returns
        -------
        (p, p) array

        Raises
        ------
        Incompatible
            As :meth:`get_covariance`; or a covariance without an inverse, where a direction has no
            variance.
        """
        check_is_fitted(self)
        _, inside = self._variances("get_precision")
        noise, subspace = self.noise_variance_, self.subspace_
        outside = subspace.n_features > subspace.dimension
        variances = np.linalg.eigvalsh(inside)
        if variances[0] <= _ROUNDING * variances[-1] or (outside and noise == 0):
            raise Incompatible(
                "The covariance has no inverse: the rows do not vary along a direction",
                "Allowed: rows that vary along every direction",
                "Leave out constant features, or choose fewer components",
            )
        return self._spread(np.asarray(np.linalg.inv(inside)), 1 / noise if outside else 0.0)

    def _spread(self, inside: FloatArray, outside: float) -> FloatArray:
        basis = self.subspace_.components
        within = basis.T @ (inside - outside * np.eye(len(basis))) @ basis
        return np.asarray(within + outside * np.eye(basis.shape[1]))

    def _variances(self, what: str) -> tuple[float, FloatArray]:
        """The total variance, and the covariance within the subspace."""
        subspace, moments = self.subspace_, self.moments_
        check_orthogonal(subspace, what)
        point = None if subspace.center == "group" else subspace.mean
        if subspace.scale is not None:
            moments = moments.divided_by(subspace.scale)
            point = None if point is None else point / subspace.scale
        columns = np.ascontiguousarray(subspace.components.T)
        inside, point, columns = moments.with_basis(point, columns, subspace.dimension)
        second: Any = inside.operator_about(point)
        within = np.tensordot(moments.proportions, second.compressed(columns), axes=1)
        return float(moments.proportions @ second.traces), np.asarray(within)


def check_orthogonal(subspace: FairSubspace, what: str) -> None:
    """Make sure that coordinates are those along orthonormal components.

    Raises
    ------
    Incompatible
    """
    if subspace.is_soft or subspace.is_oblique:
        kind = "a soft projection" if subspace.is_soft else "an oblique projection"
        raise Incompatible(
            f"{what} was requested for {kind}",
            "Allowed: orthonormal components",
            "Fit without allow_extra, and with a restriction that is not oblique",
        )
