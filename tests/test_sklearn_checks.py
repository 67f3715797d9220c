"""scikit-learn's own estimator checks.

They have no way to pass group labels (scikit-learn issue 16756), so they run three times: without
groups on purpose, with groups made up, and with the defaults, where every check that fits must meet
the error about missing groups, and no check may fail for another reason.
"""

from contextlib import suppress
from functools import partial
from unittest import SkipTest

import numpy as np
import pytest

from fairspan import FairPCA
from fairspan.errors import InvalidInput

# Some checks are there to warn, for example about feature names that come and go.
pytestmark = pytest.mark.filterwarnings("ignore")


class MadeUpGroups(FairPCA):
    """An estimator that alternates two groups if it gets none."""

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        groups = call_in_turn(X) if sensitive_features is None else sensitive_features
        return super().fit(X, y, sensitive_features=groups, sample_weight=sample_weight)

    def partial_fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        groups = call_in_turn(X) if sensitive_features is None else sensitive_features
        return super().partial_fit(X, y, sensitive_features=groups, sample_weight=sample_weight)


def call_in_turn(X):
    n_rows = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
    return np.arange(n_rows) % 2


# These repeat a row, which moves those after it to the other group.
FAIL_WITH_MADE_UP_GROUPS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)

# All these call fit(X) or fit(X, y), and expect no error, or an error about something else.
FAIL_WITHOUT_GROUPS = [
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
]


def checks_of(estimator):
    """Yield the names and the calls that scikit-learn's parametrize_with_checks runs."""
    from sklearn.utils.estimator_checks import estimator_checks_generator

    for checked_estimator, check in estimator_checks_generator(estimator):
        yield getattr(check, "func", check).__name__, partial(check, checked_estimator)


@pytest.mark.slow
def test_without_groups_on_purpose():
    for _, check in checks_of(FairPCA(missing_groups="ignore")):
        with suppress(SkipTest):
            check()


@pytest.mark.slow
def test_synthetic_groups():
    for name, check in checks_of(MadeUpGroups()):
        if name in FAIL_WITH_MADE_UP_GROUPS:
            with pytest.raises(AssertionError, match="not equivalent"):
                check()
        else:
            with suppress(SkipTest):
                check()


def test_default_checks_fail_only_for_missing_groups():
    for name, check in checks_of(FairPCA()):
        if name not in FAIL_WITHOUT_GROUPS:
            with suppress(SkipTest):
                check()
            continue
        with pytest.raises(Exception) as failure:  # noqa: PT011 - the cause is looked for below
            check()
        causes = []
        error = failure.value
        while error is not None:
            causes.append(error)
            error = error.__cause__ or error.__context__
        missing = [error for error in causes if isinstance(error, InvalidInput)]
        assert any("sensitive_features is missing" in str(error) for error in missing), name
