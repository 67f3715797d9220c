"""What a fitted estimator does with new rows: reduce them, bring them back, and score them."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fairspan.errors import InvalidInput
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
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray


class ProjectsRows(TransformerMixin):  # type: ignore[misc]
    """The part of an estimator that needs a subspace, and never a group label.

    Attributes
    ----------
    subspace_ : FairSubspace
    """

    components_: FloatArray
    mean_: FloatArray
    scale_: FloatArray | None
    subspace_: FairSubspace
    n_features_in_: int
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
        self._check_features(X)
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
        there = scored_there(X, partial(_row_scores, self.subspace_))
        if there is not None:
            return there
        rows = X if is_opened(X) else rows_of(X, Everyone(""))
        if isinstance(rows, RowsInMemory):
            take_features(self, rows, reset=False)
        blocks = blocks_for(rows, self.subspace_)
        return np.concatenate([_row_scores(self.subspace_, block.values) for block in blocks])

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

    def _check_features(self, X: Any) -> None:
        """Raise scikit-learn's own error for other features than those of the fit."""
        table = ArrayRows(X).array if frame_of(X) is None else X
        validate_data(self, table, reset=False, skip_check_array=True)


def take_features(estimator: Any, rows: Rows, *, reset: bool) -> None:
    """Set number and names of the features, or make sure that they are those set before.

    Raises
    ------
    InvalidInput
        Other features than before; for rows in memory it is scikit-learn's own ValueError.
    """
    if isinstance(rows, ArrayRows):
        validate_data(estimator, rows.array, reset=reset, skip_check_array=True)
    elif isinstance(rows, FrameRows):
        validate_data(estimator, rows.frame.to_native(), reset=reset, skip_check_array=True)
    elif isinstance(rows, SparseRows):
        validate_data(estimator, rows.matrix, reset=reset, skip_check_array=True)
    elif reset:
        set_features(estimator, rows.n_features, rows.feature_names)
    elif rows.feature_names is None:
        check_width(rows.n_features, estimator.n_features_in_, "features")
    else:
        names, known = rows.feature_names, getattr(estimator, "feature_names_in_", None)
        if known is None or names != tuple(known):
            own = () if known is None else tuple(known)
            before = f"of the rows before, {listed(own)}" if own else "without names"
            raise InvalidInput(
                f"The rows have {len(names)} features, {listed(names)}",
                f"Allowed: the features {before}",
                "Choose the same columns in the same order",
            )


def set_features(estimator: Any, n_features: int, names: tuple[str, ...] | None) -> None:
    """Set number and names of the features, or no names."""
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _row_scores(subspace: FairSubspace, X: Any) -> FloatArray:
    """`score_samples` without the estimator, whose moments would be sent to every worker."""
    rows = subspace.rows(X) - np.asarray(subspace.mean)
    scaled = rows if subspace.scale is None else rows / subspace.scale
    return -subspace.projector.squared_residuals(scaled)
