"""What a fitted estimator does with new rows, and what it says of their covariance."""

from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fairspan.errors import Incompatible, InvalidInput
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments
from fairspan.rows.arrays import ArrayRows, RowsInMemory
from fairspan.rows.checks import check_width
from fairspan.rows.frames import FrameRows, frame_of, without_columns
from fairspan.rows.groups import listed
from fairspan.rows.labels import Everyone
from fairspan.rows.protocol import Rows
from fairspan.rows.registry import (
    blocks_for,
    is_opened,
    rows_of,
    scored_there,
    transformed_there,
)
from fairspan.rows.sparse import SparseRows
from fairspan.typing import FloatArray

# Of the total variance: less is none.
_ROUNDING = 1e-13


class FittedProjection(TransformerMixin):  # type: ignore[misc]
    """The part of an estimator that needs a subspace and moments, and never a group label.

    Its covariance is that of probabilistic PCA (Tipping and Bishop 1999) within the subspace: there
    it is that of the rows; outside, the noise has the same variance along every direction.
    Everything is about the fit's centre, in units of the features, scaled if it scales.
    """

    n_features_in_: int
    subspace_: FairSubspace
    moments_: Moments
    explained_variance_: FloatArray
    # Columns that were named as groups or weights at fit, and are no features.
    _group_columns: tuple[str, ...]

    def transform(self, X: Any) -> Any:
        """Coordinates in the subspace, without group labels.

        Parameters
        ----------
        X : (n, p) array, sparse matrix or data frame
            A group column that was named at fit is ignored if present.

        Returns
        -------
        (n, d) array
            Of the precision of X: float32 where all of its features are, and float64 otherwise;
            dense for sparse matrices. Where the rows lie elsewhere (a cluster, another device), the
            same kind of object there.
        """
        check_is_fitted(self)
        X = without_columns(X, self._group_columns)
        there = transformed_there(X, self.subspace_)
        if there is not None:
            return there
        table = ArrayRows(X).array if frame_of(X) is None else X
        validate_data(self, table, reset=False, skip_check_array=True)
        return self.subspace_.transform(X)

    def inverse_transform(self, Z: Any) -> Any:
        """Rows in the original features from their coordinates.

        Parameters
        ----------
        Z : (n, d) array

        Returns
        -------
        (n, p) array
            Of the precision of Z. Where the coordinates lie elsewhere, the same kind of object
            there.
        """
        check_is_fitted(self)
        return self.subspace_.inverse_transform(Z)

    def score_samples(self, X: Any) -> Any:
        """Minus the squared reconstruction error of each row, shape (n,).

        In squared units of the features, scaled if `scale`; a numpy array wherever the rows lie,
        but of a Dask collection a Dask array or series, which is computed lazily.
        """
        check_is_fitted(self)
        X = without_columns(X, self._group_columns)
        there = scored_there(X, self.subspace_.squared_residuals)
        if there is not None:
            return -there
        rows = X if is_opened(X) else rows_of(X, Everyone(""))
        if isinstance(rows, RowsInMemory):
            take_features(self, rows)
        blocks = blocks_for(rows, self.subspace_)
        return -np.concatenate([self.subspace_.squared_residuals(each.values) for each in blocks])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`: minus the mean squared reconstruction error, higher is better.

        scikit-learn's `PCA.score` is another figure, the mean log-likelihood of the rows under a
        Gaussian model: the two rank models of the same rows and dimension alike only where the
        model of the noise fits. Groups are ignored: for a search that uses them, score by a metric
        of the groups, such as the largest of :func:`fairspan.metrics.excess_loss`.

        Parameters
        ----------
        X : as :meth:`transform` takes it
        y : object, optional
            Not looked at.

        Returns
        -------
        float
        """
        mean = self.score_samples(X).mean()
        return float(mean.compute() if hasattr(mean, "compute") else mean)

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
        return self._variances("noise_variance_")[1]

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
        return _spread(self.subspace_.components, *self._variances("get_covariance"))

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
        inside, noise = self._variances("get_precision")
        outside = self.subspace_.n_features > self.subspace_.dimension
        variances = np.linalg.eigvalsh(inside)
        if variances[0] <= _ROUNDING * variances[-1] or (outside and noise == 0):
            raise Incompatible(
                "The covariance has no inverse: the rows do not vary along a direction",
                "Allowed: rows that vary along every direction",
                "Leave out constant features, or choose fewer components",
            )
        components, inverse = self.subspace_.components, np.asarray(np.linalg.inv(inside))
        return _spread(components, inverse, 1 / noise if outside else 0.0)

    def _variances(self, what: str) -> tuple[FloatArray, float]:
        """The covariance within the subspace, and the mean variance outside of it."""
        subspace, proportions = self.subspace_, self.moments_.proportions
        check_orthogonal(subspace, what)
        second, projector = subspace.judged_by(self.moments_)
        inside = np.tensordot(proportions, second.compressed(projector.basis), axes=1)
        total = float(proportions @ second.traces)
        outside = subspace.n_features - subspace.dimension
        left = total - float(self.explained_variance_.sum())
        return np.asarray(inside), left / outside if outside and left > _ROUNDING * total else 0.0


def _spread(components: FloatArray, inside: FloatArray, outside: float) -> FloatArray:
    """The (p, p) matrix that is `inside` in the subspace and a multiple of I outside of it."""
    within = components.T @ (inside - outside * np.eye(len(components))) @ components
    return np.asarray(within + outside * np.eye(components.shape[1]))


def take_features(estimator: Any, rows: Rows, *, reset: bool = False) -> None:
    """Make sure that the features are those set before, or set those of a data frame.

    Raises
    ------
    InvalidInput
        Other features than before; for rows in memory it is scikit-learn's own ValueError.
    """
    names = rows.feature_names
    if isinstance(rows, FrameRows):
        validate_data(estimator, rows.frame.to_native(), reset=reset, skip_check_array=True)
    elif isinstance(rows, ArrayRows | SparseRows):
        as_wide = np.broadcast_to(0.0, rows.shape)
        validate_data(estimator, as_wide, reset=False, skip_check_array=True)
    elif names is None:
        check_width(rows.n_features, estimator.n_features_in_, "features")
    elif names != (known := tuple(getattr(estimator, "feature_names_in_", ()))):
        before = f"of the rows before, {listed(known)}" if known else "without names"
        raise InvalidInput(
            f"The rows have {len(names)} features, {listed(names)}",
            f"Allowed: the features {before}",
            "Choose the same columns in the same order",
        )


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
