"""Errors of zero are optimal if the rows lie in the subspace, not if rounding hides others."""

import numpy as np
import pytest

import fairspan as fs
from fairspan import FairPCA, GroupMoments

CRITERIA = ["minimax_loss", "minimax_error", "total_error", "error_gap"]
GROUPS = np.arange(120) % 2


def _rows(rank, p=6, seed=0):
    rng = np.random.default_rng([seed, rank])
    return rng.standard_normal((120, rank)) @ rng.standard_normal((rank, p))


def _errors_of_rows(model, rows):
    """Error of each group, from the rows in extended precision."""
    apart = rows.astype(np.longdouble)
    apart = apart - apart.mean(axis=0)
    components = model.components_.astype(np.longdouble)
    residuals = apart - (apart @ components.T) @ components
    squares = (residuals**2).sum(axis=1)
    return np.array([squares[g == GROUPS].mean() for g in range(2)])


@pytest.mark.parametrize("size", [1e5, 1e8, 1e12])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_huge_row_never_makes_the_others_optimal(criterion, size):
    for position, d in ((0, 2), (17, 2), (17, 4)):
        rows = _rows(6)
        rows[position] *= size
        model = FairPCA(d, criterion=criterion).fit(rows, sensitive_features=GROUPS)
        solution = model.solution_
        if solution.status == "optimal":
            assert solution.resolution <= 1e-6 * solution.scale
            assert solution.errors == pytest.approx(_errors_of_rows(model, rows), rel=1e-5)
    # The largest of them cannot be resolved.
    if size == 1e12:
        assert solution.status != "optimal"


@pytest.mark.parametrize("size", [1.0, 1e8])
@pytest.mark.parametrize("n_huge", [1, 3])
def test_as_many_huge_rows_as_components_are_not_all_rows(n_huge, size):
    rows = _rows(6)
    rows[:n_huge] *= size
    model = FairPCA(3, criterion="minimax_error").fit(rows, sensitive_features=GROUPS)
    assert (model.solution_.status == "optimal") == (size == 1)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_rows_in_few_dimensions_are_optimal(criterion):
    rows = _rows(3)
    for d in (3, 4, 5):
        model = FairPCA(d, criterion=criterion).fit(rows, sensitive_features=GROUPS)
        assert model.solution_.status == "optimal"
        assert model.solution_.objective == pytest.approx(0.0, abs=1e-12)
        assert _errors_of_rows(model, rows) == pytest.approx(0.0, abs=1e-20)
        assert model.moments_.row_spread.rank == 3
        assert fs.verify(model, rows, GROUPS).holds
        order = np.random.default_rng(d).permutation(len(rows))
        assert fs.verify(model, rows[order], GROUPS[order]).holds


def test_nested_components_of_rows_in_few_dimensions_are_optimal():
    rows = _rows(3)
    model = FairPCA(3, criterion="minimax_error", nested=True)
    model.fit(rows, sensitive_features=GROUPS)
    assert [step.status for step in model.solution_.steps] == ["optimal"] * 3
    assert fs.verify(model, rows, GROUPS).holds


def test_one_hot_columns_are_optimal_without_the_last_direction():
    rows = np.eye(4)[np.random.default_rng(0).integers(0, 4, 120)]
    model = FairPCA(3).fit(rows, sensitive_features=GROUPS)
    assert model.solution_.status == "optimal"
    assert fs.verify(model, rows, GROUPS).holds


def test_moments_cannot_tell_and_ask_for_the_rows():
    rows = _rows(3)
    moments = GroupMoments.from_rows(rows, GROUPS)
    assert FairPCA(3).fit_moments(moments).solution_.status == "unresolved"
    model = FairPCA(3).fit(rows, sensitive_features=GROUPS)
    checked = fs.verify(model, moments)
    assert not checked.holds
    assert "recomputed status is unresolved" in checked.messages[0]
    assert "Pass the rows" in checked.messages[0]
    assert fs.verify(model, model.moments_).holds


def test_zeros_that_follow_from_constant_columns_need_no_rows():
    rng = np.random.default_rng(3)
    constant = np.column_stack([rng.standard_normal((120, 3)), np.full(120, 4.0)])
    moments = GroupMoments.from_rows(constant, GROUPS)
    assert FairPCA(3).fit_moments(moments).solution_.status == "optimal"


def test_a_hidden_direction_of_few_rows_is_not_called_zero():
    """Two dimensions hold three rows; next to a row 1e8 times as large, the second is rounding."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((4, 6))
    rows[3] *= 1e9
    model = FairPCA(3).fit(rows, sensitive_features=[0, 1, 0, 1])
    apart = (rows - rows[0]).astype(np.longdouble)
    components = model.components_.astype(np.longdouble)
    residuals = apart - (apart @ components.T) @ components
    if model.solution_.status == "optimal":
        assert float((residuals**2).sum(axis=1).max()) <= 1e-9


def test_a_stream_that_ends_is_unresolved():
    pa = pytest.importorskip("pyarrow")
    rows = _rows(3)
    table = pa.table({**{f"x{i}": rows[:, i] for i in range(6)}, "g": GROUPS})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    model = FairPCA(3).fit(reader, sensitive_features="g")
    assert model.solution_.status == "unresolved"
    assert FairPCA(3).fit(table, sensitive_features="g").solution_.status == "optimal"


@pytest.mark.parametrize("wide", [False, True])
def test_sparse_and_wide_rows_next_to_a_huge_one(wide):
    from scipy import sparse

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((80, 600)) * (rng.random((80, 600)) < 0.3)
    rows[3] *= 1e8
    table = rows if wide else sparse.csr_array(np.hstack([rows, np.zeros((80, 1000))]))
    model = FairPCA(3, criterion="total_error").fit(table, sensitive_features=GROUPS[:80])
    assert model.solution_.status != "optimal"
    if model.solution_.status == "estimated":
        assert model.solution_.resolution <= 1e-6 * model.solution_.scale
