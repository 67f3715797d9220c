"""Estimates for new rows are left out where they would need more memory than is allowed."""

import numpy as np
import pytest
from scipy import sparse

from fairspan import audit
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.models import audited_models
from fairspan.auditing.stages import audit_rows
from fairspan.errors import IncompatibleParameters
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.opening import open_rows


@pytest.mark.slow
def test_memory_is_checked_where_sparse_rows_with_classes_need_matrices():
    rng = np.random.default_rng(4)
    X = sparse.random_array((60, 1600), density=0.02, random_state=4, format="csr")
    labels = np.array([f"{i % 2}" for i in range(60)])
    y = rng.integers(2, size=60)
    model = audited_models(np.eye(1600)[:2])
    rows = open_rows(X, labels, y=y)
    options = EstimationOptions(max_memory=2**27)
    # These moments themselves are computed without a limit.
    moments = compute_group_moments(rows)
    result = audit_rows(model, rows, moments, options=options).models[0]
    assert "max_memory is 0.1 GB" in result.no_estimates_reason
    # Without classes no matrices are needed.
    rows = open_rows(X, labels)
    options = EstimationOptions(max_memory=2**27)
    result = audit_rows(model, rows, options=options).models[0]
    assert result.no_estimates_reason is None


def test_clusters_are_refused_before_rows_are_read_where_moments_by_fold_do_not_fit(monkeypatch):
    monkeypatch.setattr("fairspan.auditing.fold_statistics._MAX_FEATURES_WITHOUT_CHECK", 0)
    monkeypatch.setattr("fairspan.auditing.fold_statistics.affordable_folds", lambda *_: None)
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(IncompatibleParameters, match=r"clusters was given.*GiB"):
        audit(np.eye(3)[:1], X, ["a", "b"] * 10, clusters=np.arange(20) // 2)
