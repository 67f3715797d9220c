"""Features of an estimator: set by a fit, and compared with those of later rows."""

from typing import Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted
from fairspan.moments.compute import Moments
from fairspan.rows.aggregation import Rows
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.labels import format_list
from fairspan.rows.row_validation import check_n_columns
from fairspan.rows.sparse_rows import SparseRows
from fairspan.typing import AnyArray


class _Estimator(Protocol):
    """Estimator with the features of its fit, as scikit-learn names them."""

    n_features_in_: int
    feature_names_in_: AnyArray


def in_order_of_features(rows: Rows, feature_names: tuple[str, ...] | None) -> Rows:
    """Rows with their features in the order of these names, if they are the same ones."""
    if feature_names is None or sorted(rows.feature_names or ()) != sorted(feature_names):
        return rows
    return rows.select_features(feature_names)


def set_or_check_features(
    estimator: _Estimator, rows_or_moments: Rows | Moments, *, reset: bool
) -> None:
    """Set the features from rows or moments, or check that they match those set before.

    Sets `n_features_in_` and `feature_names_in_` if `reset`, and checks otherwise.

    Raises
    ------
    InvalidInput
        The features differ; for rows in memory, scikit-learn's own ValueError.
    """
    if isinstance(rows_or_moments, FrameRows):
        validate_data(
            estimator, rows_or_moments.feature_frame.to_native(), reset=reset, skip_check_array=True
        )
        return
    names = rows_or_moments.feature_names
    if reset:
        estimator.n_features_in_ = rows_or_moments.n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):  # from an earlier fit
            del estimator.feature_names_in_
        return
    if names is not None:
        _check_feature_names(estimator, names)
    elif isinstance(rows_or_moments, ArrayRows | SparseRows):
        # scikit-learn's own message, without a copy of the rows: it checks a row of zeros.
        placeholder = np.broadcast_to(0.0, (1, rows_or_moments.n_features))
        validate_data(estimator, placeholder, reset=False, skip_check_array=True)
    else:
        check_n_columns(rows_or_moments.n_features, estimator.n_features_in_, "features")


def _check_feature_names(estimator: _Estimator, names: tuple[str, ...]) -> None:
    """Raise InvalidInput if the estimator was fitted on other names, or in another order."""
    fit_names = tuple(getattr(estimator, "feature_names_in_", ()))
    if names == fit_names:
        return
    received = f"The rows have {counted(len(names), 'feature')}, {format_list(names)}"
    if not fit_names:
        raise InvalidInput(
            received,
            "Allowed: rows without names of features, as in the fit",
            "Pass an array with the columns in the order of the fit, or fit on named columns",
        )
    raise InvalidInput(
        received,
        f"Allowed: the features of the fit, {format_list(fit_names)}",
        "Choose the same columns in the same order",
    )
