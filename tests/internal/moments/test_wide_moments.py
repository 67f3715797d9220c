"""Moments of rows that are sparse or fewer than their features, without matrices."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from fairspan import GroupMoments
from fairspan.errors import InvalidInput
from fairspan.moments.compute import MIN_WIDE_FEATURES, compute_moments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.moments.row_moments import SparseMoments
from fairspan.moments.shifted_rows import ShiftedRows, SparseShiftedRows
from fairspan.moments.wide import WideMoments
from fairspan.rows.opening import open_group_rows
from numpy_reference import (
    assert_moments,
    random_rows,
    reference_moments,
    relative_error,
    thin_rows,
)

WIDE = random_rows(0, n=9, p=30)


@pytest.fixture
def low_wide_limit(monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)


def wide_moments(X, labels, weights=None):
    moments = compute_moments(open_group_rows(X, labels, weights))
    assert isinstance(moments, WideMoments)
    return moments


@pytest.mark.usefixtures("low_wide_limit")
@pytest.mark.parametrize("weights", [None, WIDE.weights, np.arange(9.0) % 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_means_variances_and_matrices_agree_with_dense_moments(order, dtype, weights):
    X = np.asarray(WIDE.X.astype(dtype), order=order)
    moments = wide_moments(X, WIDE.labels, weights)
    expected = reference_moments(X, WIDE.labels, weights)
    assert_moments(moments.to_dense(), expected)
    reference = GroupMoments.from_rows(X, WIDE.labels, weights)
    for name, digits in (
        *(("means", 1e-13), ("mean", 1e-13)),
        *(("variances", 1e-12), ("standard_deviations", 1e-12)),
    ):
        assert relative_error(getattr(moments, name), getattr(reference, name)) <= digits
    scale = np.linspace(0.5, 3, 30)
    scaled = moments.divided_by(scale).divided_by(1 / scale[::-1])
    divided = reference.divided_by(scale / scale[::-1])
    assert_moments(scaled.to_dense(), divided)
    assert relative_error(scaled.variances, divided.variances) <= 1e-12


@pytest.fixture
def blocks_of_few_features(monkeypatch):
    monkeypatch.setattr("fairspan.moments.shifted_rows._BLOCK_ENTRIES", 1)
    monkeypatch.setattr("fairspan.moments.shifted_rows._MIN_BLOCK_FEATURES", 7)


@pytest.mark.usefixtures("low_wide_limit", "blocks_of_few_features")
@pytest.mark.parametrize("weights", [None, np.arange(9.0) % 4])
def test_blocks_of_columns_add_up(weights):
    moments = wide_moments(WIDE.X, WIDE.labels, weights)
    assert len(list(moments.rows.blocks())) == 5
    assert_moments(moments.to_dense(), reference_moments(WIDE.X, WIDE.labels, weights))
    about_mean = moments.second_moments_about(moments.mean)
    expected = moments.to_dense().second_moments_about(moments.mean)
    basis = np.linalg.qr(np.random.default_rng(3).standard_normal((30, 3)))[0]
    for name in ("captured_variances", "residual_variances", "compress", "apply"):
        assert (
            relative_error(getattr(about_mean, name)(basis), getattr(expected, name)(basis)) < 1e-12
        )
    assert relative_error(about_mean.traces, expected.traces) < 1e-12


@pytest.mark.usefixtures("blocks_of_few_features")
@pytest.mark.parametrize("scale", [None, np.linspace(0.5, 3, 30)])
@pytest.mark.parametrize("order", [np.arange(9), np.array([4, 0, 8, 2, 6])])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_products_are_those_of_a_copy(is_sparse, order, scale):
    table = (100 * WIDE.X).astype(np.int64)
    if is_sparse:
        # Zeros, columns of zeros, and a column that only the shift has.
        table[np.random.default_rng(4).random(table.shape) < 0.8] = 0
        table[:, 5:12] = 0
        table[:, 20] = 7 * (np.arange(9) == 4)
        values = scipy.sparse.csr_array(table.astype(np.float64))
        rows = SparseShiftedRows(values, order, shift=table[4].astype(np.float64))
    else:
        rows = ShiftedRows(table, order, shift=table[4].astype(np.float64))
    dense_rows = table[order] - table[4].astype(np.float64)
    if scale is not None:
        rows = rows.divided_by(scale)
        dense_rows = dense_rows / scale
    n = len(order)
    columns = np.random.default_rng(1).standard_normal((n, 3))
    feature_columns = np.random.default_rng(2).standard_normal((30, 2))
    images = [dense_rows.T @ columns, feature_columns]
    for product, expected in (
        (rows.toarray(), dense_rows),
        (rows[1:4].toarray(), dense_rows[1:4]),
        (rows[np.array([3, 1])] @ feature_columns, dense_rows[[3, 1]] @ feature_columns),
        (rows.select_features(np.array([20, 3])), dense_rows[:, [20, 3]]),
        (rows @ feature_columns, dense_rows @ feature_columns),
        (rows @ feature_columns[:, 0], dense_rows @ feature_columns[:, 0]),
        (rows.T @ columns, dense_rows.T @ columns),
        (np.tril(rows.gram()), np.tril(dense_rows @ dense_rows.T)),
        (rows.lift_and_multiply(columns, feature_columns), dense_rows @ np.hstack(images)),
    ):
        np.testing.assert_allclose(
            product, expected, rtol=1e-13, atol=1e-12 * np.abs(expected).max()
        )


@pytest.mark.usefixtures("low_wide_limit", "blocks_of_few_features")
@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.__setitem__((4, 11), X[4, 11] + 1e-12),
        lambda X: X.__imul__(2.0),
        lambda X: X.__iadd__(1.0),
        lambda X: np.random.default_rng(5).shuffle(X),
        lambda X: X.__setitem__(..., X[:, ::-1].copy()),
        lambda X: X.__setitem__((slice(None), [8, 9]), X[:, [9, 8]]),
    ],
    ids=["a digit", "scaled", "moved", "rows shuffled", "columns reversed", "columns exchanged"],
)
def test_guarded_rows_that_changed_are_refused(change):
    X = WIDE.X.copy()
    moments = wide_moments(X, WIDE.labels, WIDE.weights)
    scaled = moments.divided_by(np.linspace(0.5, 3, 30))
    moments.guard_rows()
    for reader in (moments, scaled):
        assert_moments(reader.to_dense(), reader.to_dense())
    change(X)
    for reader in (moments, scaled):
        with pytest.raises(InvalidInput, match="rows have changed"):
            reader.to_dense()
        with pytest.raises(InvalidInput, match="rows have changed"):
            _ = reader.row_space


@pytest.mark.usefixtures("low_wide_limit")
def test_a_column_of_equal_numbers_has_no_variance():
    X = WIDE.X + 1e6
    X[:, 3] = 0.1 + 1e6
    deviations = wide_moments(X, WIDE.labels, WIDE.weights).standard_deviations
    assert np.flatnonzero(deviations == 0).tolist() == [3]


@pytest.mark.usefixtures("low_wide_limit")
@pytest.mark.parametrize("d", [1, 5, 8, 9, 25, 30])
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_coordinates_hold_all_that_a_subspace_of_any_dimension_can_want(center, d):
    moments = wide_moments(WIDE.X, WIDE.labels)
    posed = moments.reduce_to_row_space(d, center)
    second_moments = moments.to_dense().second_moments(center)
    inside = posed.coordinate_moments.second_moments_about(posed.point)
    assert posed.coordinate_moments.n_features <= 9 + 1 + d
    axes = posed.lift(np.eye(posed.coordinate_moments.n_features))
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-14)
    # The sum of the d largest eigenvalues of any mixture, also of negative weights.
    for weights in ([1.0, 0.0], [0.0, 1.0], [0.4, 0.6], [1.0, -1.0], [-2.0, 1.0], [-1.0, -1.0]):
        values = np.sort(np.linalg.eigvalsh(np.tensordot(weights, second_moments, axes=1)))[::-1]
        leading = inside.leading(np.array(weights), d)
        size = np.abs(values).sum()
        assert abs(leading.eigenvalue_sum - values[:d].sum()) <= 1e-12 * size
        lifted_basis = posed.lift(leading.vectors)
        np.testing.assert_allclose(posed.project(lifted_basis), leading.vectors, atol=1e-9)
        np.testing.assert_allclose(lifted_basis.T @ lifted_basis, np.eye(d), atol=1e-12)
        captured_variances = np.einsum("ij,gik,kj->g", lifted_basis, second_moments, lifted_basis)
        assert abs(weights @ captured_variances - values[:d].sum()) <= 1e-12 * size


@pytest.mark.usefixtures("low_wide_limit")
def test_labels_of_several_attributes_have_the_order_of_the_matrices():
    frame = pd.DataFrame(WIDE.X, columns=[f"f{i}" for i in range(30)])
    frame = frame.assign(sex=list("mfmfmfmff"), old=[True, False, False] * 3, w=WIDE.weights)
    moments = wide_moments(frame, ["sex", "old"], "w")
    expected = GroupMoments.from_rows(frame, ["sex", "old"], "w")
    assert moments.labels == expected.labels
    assert moments.feature_names == expected.feature_names
    assert_moments(moments.to_dense(), expected)
    assert repr(moments).startswith("<WideMoments of 30 features, rows by group: f / ")
    copy = pickle.loads(pickle.dumps(moments))
    np.testing.assert_array_equal(copy.means, moments.means)


def test_which_rows_stay(monkeypatch):
    X = WIDE.X
    labels = WIDE.labels
    assert X.shape[1] < MIN_WIDE_FEATURES
    assert isinstance(compute_moments(open_group_rows(X, labels)), GroupMoments)
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)
    assert isinstance(compute_moments(open_group_rows(X, labels)), WideMoments)
    assert isinstance(compute_moments(open_group_rows(X[:, :11], labels)), GroupMoments)
    assert isinstance(compute_moments(open_group_rows(X, labels, None, "drop")), WideMoments)
    assert isinstance(compute_moments(open_group_rows(X, labels, None, "em")), GroupMoments)


def test_rows_of_weight_zero_are_absent():
    X, labels, weights = thin_rows()
    weights[labels == "b"] = 0
    weights[::5] = 0
    for make in (compute_group_moments, lambda rows: SparseMoments.from_rows(rows).to_dense()):
        moments = make(open_group_rows(scipy.sparse.csr_array(X), labels, weights))
        assert_moments(moments, reference_moments(X, labels, weights))


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_rows_with_missing_cells_or_groups_can_be_dropped(share):
    X, labels, weights = thin_rows(share=share)
    X[[17, 30], 5] = np.nan
    labels = labels.astype(object)
    labels[[30, 31]] = None
    complete_rows = np.setdiff1d(np.arange(300), [17, 30, 31])
    rows = open_group_rows(scipy.sparse.csr_array(X), labels, weights, "drop")
    for moments in (compute_group_moments(rows), SparseMoments.from_rows(rows).to_dense()):
        assert_moments(
            moments,
            reference_moments(X[complete_rows], labels[complete_rows], weights[complete_rows]),
        )
        assert moments.n_dropped == 3
    X[3, 3] = np.inf
    with pytest.raises(
        InvalidInput, match=r"infinity, first in row 4 \(index 3\), column 4 \(index 3\)"
    ):
        open_group_rows(scipy.sparse.csr_array(X), labels, weights, "drop")


@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_operator_is_that_of_the_matrices(center, scaled):
    X, labels, weights = thin_rows(share=0.06, filled=(1,))
    X[:, 1] += 50
    sparse = SparseMoments.from_rows(open_group_rows(scipy.sparse.csr_array(X), labels, weights))
    dense = GroupMoments.from_rows(X, labels, weights)
    assert relative_error(sparse.standard_deviations, dense.standard_deviations) <= 1e-12
    assert relative_error(sparse.mean, dense.mean) <= 1e-12
    assert relative_error(sparse.to_dense().scatters, dense.scatters) <= 1e-9
    if scaled:
        first_scale, second_scale = np.random.default_rng(8).uniform(0.5, 3, (2, X.shape[1]))
        sparse = sparse.divided_by(first_scale).divided_by(second_scale)
        dense = dense.divided_by(first_scale * second_scale)
        assert_moments(sparse.to_dense(), dense)
    sparse_moments = sparse.second_moments_about(sparse.center_point(center))
    dense_moments = dense.second_moments_about(dense.center_point(center))
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.standard_normal((X.shape[1], 3)))[0]
    for method in ("captured_variances", "residual_variances", "compress", "apply"):
        assert (
            relative_error(
                getattr(sparse_moments, method)(basis), getattr(dense_moments, method)(basis)
            )
            <= 1e-9
        )
    assert relative_error(sparse_moments.traces, dense_moments.traces) <= 1e-12
    for mixture in ([1, 0, 0], [0.2, 0.5, 0.3], [1, -1, 0.5]):
        sparse_leading, dense_leading = (
            second_moments.leading(np.array(mixture), 3)
            for second_moments in (sparse_moments, dense_moments)
        )
        assert relative_error(sparse_leading.eigenvalues, dense_leading.eigenvalues) <= 1e-12
        assert relative_error(np.abs(sparse_leading.vectors), np.abs(dense_leading.vectors)) <= 1e-7


def test_residuals_are_accurate_where_little_is_lost():
    X, labels, _ = thin_rows(share=0.05)
    X[:, 0] *= 1e8
    basis = np.eye(12)[:, :1]
    sparse = SparseMoments.from_rows(open_group_rows(scipy.sparse.csr_array(X), labels))
    residual_variances = sparse.second_moments_about(sparse.mean).residual_variances(basis)
    remaining_moments = GroupMoments.from_rows(X[:, 1:], labels)
    expected = remaining_moments.second_moments_about(remaining_moments.mean).traces
    assert relative_error(residual_variances, expected) <= 1e-12


@pytest.mark.usefixtures("low_wide_limit")
def test_axes_that_are_not_orthonormal_are_not_used(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 40))
    labels = np.arange(12) % 2
    X[11] = X[10] + 1e-9 * rng.standard_normal(40)
    # Whatever is expected of products of rows, what they give is looked at.
    monkeypatch.setattr("fairspan.moments.row_axes._MAX_CHOLQR2_LOSS", np.inf)
    moments = wide_moments(X, labels)
    assert not moments.row_space.row_weights.size
    assert np.allclose(
        moments.row_space.explicit_axes.T @ moments.row_space.explicit_axes, np.eye(11), atol=1e-14
    )
    monkeypatch.setattr("fairspan.moments.row_axes._MAX_AXES_ERROR", 1e-17)
    with pytest.raises(InvalidInput, match="Row-space axes"):
        _ = wide_moments(X, labels).row_space


@pytest.mark.usefixtures("low_wide_limit")
@pytest.mark.parametrize(("condition", "by_products"), [(1e2, True), (1e3, True), (1e7, False)])
def test_axes_of_nearly_dependent_rows_are_orthonormal(monkeypatch, condition, by_products):
    monkeypatch.setattr("fairspan.moments.row_axes._MAX_CHOLQR_LOSS", 0.0)  # always a second round
    rng = np.random.default_rng(1)
    turn, along = (np.linalg.qr(rng.standard_normal((m, 12)))[0] for m in (12, 3000))
    X = (turn * np.geomspace(1.0, 1 / condition, 12)) @ along.T
    span = wide_moments(X, np.arange(12) % 2).row_space
    assert bool(span.row_weights.size) == by_products
    axes = span._lift_axes(np.eye(span.n_axes)).astype(np.longdouble)
    off = np.linalg.norm((axes.T @ axes - np.eye(span.n_axes)).astype(float), 2)
    # A second round leaves what products with the rows lose, and the bound knows it.
    assert off <= min(span.orthogonality_defect, 3e-11)
    assert off <= 1e-15 * condition + 1e-14
    # And they hold the rows.
    about = (
        X[
            span.moments_of_rows.group_rows[0].row_indices.tolist()
            + span.moments_of_rows.group_rows[1].row_indices.tolist()
        ]
        - X[0]
    )
    assert np.abs(span.row_coordinates @ axes.T.astype(float) - about).max() <= 1e-13


def test_lifted_columns_are_orthonormal_where_axes_are_less_so():
    rng = np.random.default_rng(1)
    turn, along = (np.linalg.qr(rng.standard_normal((m, 12)))[0] for m in (12, 3000))
    X = (turn * np.geomspace(1.0, 1 / 300, 12)) @ along.T
    span = wide_moments(X, np.arange(12) % 2).row_space
    identity = np.eye(span.n_axes)
    for columns, low, high in (
        (span._lift_axes(identity), 1e-13, 1e-11),
        (span.lift(identity), 0.0, 1e-14),
    ):
        exact = columns.astype(np.longdouble)
        off = np.linalg.norm((exact.T @ exact - identity).astype(float), 2)
        assert low <= off <= high
