"""Fits and audits of few sparse rows of many features: those of the same rows with all zeros."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from case_selection import parametrize_diagonal
from fairspan import (
    CovarianceParity,
    FairPCA,
    FairSubspace,
    GroupMoments,
    MeanParity,
    audit,
    frontier,
    metrics,
    verify,
)
from fairspan.moments.row_moments import SparseMoments
from fairspan.moments.wide import WideMoments
from numpy_reference import projector_distance, reference_errors, relative_error
from two_representations import (
    CENTERS,
    CRITERIA,
    alternate,
    assert_orthonormal,
    assert_same_optimum,
    fit_sparse_and_dense,
    lower_limits,
)


@pytest.fixture(autouse=True)
def low_limits(monkeypatch):
    """Few features are treated as many."""
    lower_limits(
        monkeypatch,
        "moments.compute.MIN_WIDE_FEATURES",
        "moments.compute.MAX_DENSE_FEATURES",
        "auditing.fold_statistics.MAX_DENSE_FEATURES",
    )


def sparse_rows(seed=0, n=24, p=60, share=0.15, groups=("a", "b")):
    """Draw rows of groups that differ in place and shape; some columns are zero."""
    rng = np.random.default_rng(seed)
    labels = alternate(list(groups), n)
    shape = rng.uniform(0.3, 3.0, (len(groups), p))
    X = (rng.standard_normal((n, p)) + 0.5) * alternate(shape, n)
    X[rng.random((n, p)) >= share] = 0.0
    X[:, 7:12] = 0.0
    return X, labels, rng.uniform(0.3, 3.0, n)


def fit_both(*arguments, **settings):
    """Fit sparse rows, and the same rows with all their zeros, both in row coordinates."""
    fits = fit_sparse_and_dense(*arguments, **settings)
    for model in fits:
        assert isinstance(model.moments_, WideMoments)
        assert model.solution_.eigensolver == "thin"
    return fits


def assert_same_fit(sparse, dense):
    """Compare what rounds alike: only blocks of columns differ."""
    total = dense.moments_.variances.sum() + (dense.moments_.means**2).sum()
    assert_same_optimum(sparse, dense, atol=1e-9 * total)
    for name in ("status", "n_components", "restriction"):
        assert getattr(sparse.solution_, name) == getattr(dense.solution_, name)
    assert projector_distance(sparse.components_, dense.components_) <= 1e-7
    for name in ("group_errors_", "group_losses_", "explained_variance_"):
        actual, expected = getattr(sparse, name), getattr(dense, name)
        np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-9 * total)
    np.testing.assert_allclose(sparse.mean_, dense.mean_, rtol=1e-14)
    decoder = sparse.subspace_.decoder
    np.testing.assert_allclose(decoder.T @ decoder, np.eye(decoder.shape[1]), atol=1e-12)


@parametrize_diagonal(
    center=CENTERS, criterion=[each for each in CRITERIA if each != "equal_error"]
)
def test_every_criterion_and_center(criterion, center):
    X, labels, _ = sparse_rows()
    sparse, dense = fit_both(X, labels, criterion=criterion, center=center)
    assert_same_fit(sparse, dense)
    assert verify(sparse, scipy.sparse.csr_array(X), labels).holds
    assert verify(sparse, X, labels).holds


@pytest.mark.filterwarnings("ignore:Constant columns")
@parametrize_diagonal(
    kind=[scipy.sparse.csc_array, scipy.sparse.csr_matrix, scipy.sparse.coo_array],
    scale=[False, True],
    criterion=["minimax_loss", "error_gap", "disparity"],
)
def test_weights_scaling_and_absent_rows(criterion, scale, kind):
    X, labels, weights = sparse_rows(1)
    weights[[2, 5]] = 0.0
    X[:, 4] += 1e6  # a column without zeros, far from zero
    settings = {"criterion": criterion, "scale": scale}
    sparse, dense = fit_both(X, labels, weights, kind=kind, **settings)
    assert_same_fit(sparse, dense)
    assert sparse.moments_.counts.tolist() == [11, 11]
    errors = reference_errors(X, labels, sparse.components_, sparse.mean_, weights)
    if scale:
        assert relative_error(sparse.scale_, dense.scale_) <= 1e-12
    else:
        assert relative_error(sparse.group_errors_, errors) <= 1e-9


@parametrize_diagonal(
    criterion=["minimax_loss", "total_error"],
    restriction=[
        MeanParity(),
        MeanParity(0.5),
        MeanParity(oblique=True),
        CovarianceParity(n_directions=55),
    ],
)
def test_every_restriction(restriction, criterion):
    if criterion == "minimax_loss" and restriction != MeanParity():
        return
    X, labels, _ = sparse_rows(2)
    sparse, dense = fit_both(X, labels, d=2, criterion=criterion, restriction=restriction)
    assert_same_fit(sparse, dense)
    means = [sparse.transform(X[labels == label]).mean(axis=0) for label in "ab"]
    if restriction in (MeanParity(), MeanParity(oblique=True)):
        np.testing.assert_allclose(*means, atol=1e-12)


def test_a_share_of_variance_three_groups_and_nested_components():
    X, labels, _ = sparse_rows(3, n=27, groups="abc")
    assert_same_fit(*fit_both(X, labels, d=0.7))
    assert_same_fit(*fit_both(X, labels, d=3, nested=True))


def test_few_rows_with_missing_cells_are_as_if_absent():
    X, labels, weights = sparse_rows(4)
    X[3, 5] = X[8] = np.nan
    labels = labels.astype(object)
    labels[12] = None
    complete = np.setdiff1d(np.arange(24), [3, 8, 12])
    model = FairPCA(2, on_missing="drop").fit(
        scipy.sparse.csr_array(X), sensitive_features=labels, sample_weight=weights
    )
    expected, _ = fit_both(X[complete], labels[complete], weights[complete], d=2)
    assert model.moments_.n_dropped == 3
    np.testing.assert_array_equal(model.components_, expected.components_)
    rows = np.concatenate([group.row_indices for group in model.moments_.group_rows])
    assert sorted(rows) == complete.tolist()


def dependent_rows(kind):
    """Draw rows that span fewer dimensions than there are rows."""
    rng = np.random.default_rng(5)
    n, p = 40, 300
    if kind == "repeated":
        X = sparse_rows(6, n, p)[0]
        X[30:] = X[:10]
        X[[3, 4]] = 0.0
        return X
    if kind == "one-hot":
        X = np.zeros((n, p))
        for start in (0, 100, 200):
            X[np.arange(n), start + rng.integers(0, 6, n)] = 1.0
        return X
    mixtures = np.where(rng.random((n, 12)) < 0.2, rng.random((n, 12)), 0.0)
    return mixtures @ sparse_rows(7, 12, p)[0]


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("kind", ["repeated", "one-hot", "mixtures"])
def test_dependent_rows_are_not_copied_with_their_zeros(kind, center, monkeypatch):
    X = dependent_rows(kind)
    labels = alternate(["a", "b"], 40)
    dense = FairPCA(3, center=center).fit(X, sensitive_features=labels)
    monkeypatch.delattr("fairspan.moments.row_axes._span_by_householder_qr")
    sparse = FairPCA(3, center=center).fit(scipy.sparse.csr_array(X), sensitive_features=labels)
    assert sparse.moments_.row_space.n_axes == dense.moments_.row_space.n_axes
    assert_same_fit(sparse, dense)


@pytest.mark.parametrize("d", [23, 30, 60])
def test_more_components_than_the_rows_span(d):
    X, labels, _ = sparse_rows(15)
    sparse, dense = fit_both(X, labels, d=d)
    assert sparse.solution_.status == dense.solution_.status
    assert_orthonormal(sparse.components_, d)
    np.testing.assert_allclose(sparse.group_errors_, 0, atol=1e-12)


@pytest.mark.parametrize("size", [1e2, 1e5, 1e8])
def test_a_large_column_beside_which_rows_are_nearly_dependent(size):
    X, labels, _ = sparse_rows(8)
    X[:, 4] = size * (1 + np.arange(24) % 5)
    sparse, dense = fit_both(X, labels, d=2)
    assert sparse.solution_.status == dense.solution_.status
    assert relative_error(sparse.group_errors_, dense.group_errors_) <= 1e-10
    assert verify(sparse, scipy.sparse.csr_array(X), labels).holds


def test_rows_that_are_all_equal():
    for X in (np.zeros((12, 40)), np.tile(np.arange(40.0) % 3, (12, 1))):
        sparse, dense = fit_both(X, list("ab") * 6, d=2)
        np.testing.assert_array_equal(sparse.group_errors_, 0.0)
        assert sparse.solution_.status == dense.solution_.status == "optimal"


def test_a_table_that_is_changed_after_the_fit_changes_nothing():
    X, labels, _ = sparse_rows(9)
    rows = scipy.sparse.csr_array(X)
    model = FairPCA(2).fit(rows, sensitive_features=labels)
    rows.data *= 3.0
    again = FairPCA(2).fit_moments(model.moments_)
    loaded = FairPCA(2).fit_moments(pickle.loads(pickle.dumps(model)).moments_)
    for other in (again, loaded):
        np.testing.assert_array_equal(other.components_, model.components_)
    assert verify(model, X, labels).holds
    assert not verify(model, rows, labels).holds


def test_merged_and_saved_moments_and_models(tmp_path):
    X, labels, weights = sparse_rows(10)
    rows = scipy.sparse.csr_array(X)
    model = FairPCA(2).fit(rows, sensitive_features=labels, sample_weight=weights)
    parts = FairPCA(2)
    for part in (slice(0, 10), slice(10, 24)):
        parts.partial_fit(rows[part], sensitive_features=labels[part], sample_weight=weights[part])
    assert isinstance(parts.moments_, GroupMoments)
    dense = FairPCA(2).fit_moments(model.moments_.to_dense())
    for other in (parts, dense):
        assert projector_distance(other.components_, model.components_) <= 1e-7
        assert relative_error(other.group_errors_, model.group_errors_) <= 1e-9
    model.subspace_.save(tmp_path / "model")
    loaded = FairSubspace.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(rows), model.transform(rows))
    np.testing.assert_allclose(loaded.transform(rows), model.transform(X), atol=1e-12)
    assert verify(loaded, rows, labels, sample_weight=weights).holds


def test_frontier_and_metrics():
    X, labels, _ = sparse_rows(11)
    rows = scipy.sparse.csr_array(X)
    curve, expected = (frontier(table, 2, sensitive_features=labels) for table in (rows, X))
    np.testing.assert_allclose(curve.errors, expected.errors, rtol=1e-8)
    model = FairPCA(2).fit(rows, sensitive_features=labels)
    for figure in (metrics.reconstruction_error, metrics.excess_loss):
        assert figure(model, rows, labels) == pytest.approx(figure(model, X, labels), rel=1e-8)


def test_a_fit_by_products_with_the_rows_is_proven_by_their_coordinates(monkeypatch):
    X, labels, _ = sparse_rows(12)
    rows = scipy.sparse.csr_array(X)
    with monkeypatch.context() as patch:
        patch.setattr("fairspan.moments.compute.MAX_SQUARED_SPARSE_RATIO", 0)
        model = FairPCA(2).fit(rows, sensitive_features=labels)
    assert isinstance(model.moments_, SparseMoments)
    assert model.solution_.status == "estimated"
    verification = verify(model, rows, labels)
    assert verification.holds
    thin = FairPCA(2).fit(rows, sensitive_features=labels)
    assert verification.lower_bound == pytest.approx(thin.solution_.objective, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [None, 60])
def test_an_audit_is_that_of_the_dense_rows(n_clusters):
    X, labels, weights = sparse_rows(13, n=120, p=400)
    clusters = None if n_clusters is None else np.arange(120) % n_clusters
    tables = []
    for rows in (scipy.sparse.csr_array(X), X):
        model = FairPCA(2).fit(rows, sensitive_features=labels, sample_weight=weights)
        settings = {"sample_weight": weights, "clusters": clusters, "folds": 5}
        tables.append(audit(model, rows, labels, **settings).frame())
    # Group optima without a fold come from iterations if there are clusters.
    pd.testing.assert_frame_equal(*tables, rtol=1e-7 if n_clusters is None else 1e-2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Constant columns")
def test_an_audit_of_models_in_different_units():
    X, labels, _ = sparse_rows(14, n=100, p=400)
    rows = scipy.sparse.csr_array(X)
    models = {
        str(scale): FairPCA(2, scale=scale).fit(rows, sensitive_features=labels)
        for scale in (False, True)
    }
    result = audit(models, rows, labels, folds=5)
    assert all(model.no_estimates_reason is None for model in result.models)
