"""Rank and typical size of rows: huge rows and columns, and rows far from zero."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan import GroupMoments
from fairspan.moments.base_moments import RowSpread
from fairspan.moments.row_spread import RowSummaryAggregator, row_spread, with_row_spread
from fairspan.rows.opening import open_group_rows


def _spread_of(rows, weights=None, groups=None):
    groups = np.arange(len(rows)) % 2 if groups is None else groups
    moments = GroupMoments.from_rows(rows, groups, weights)
    return row_spread(open_group_rows(rows, groups, weights), moments)


def _rank_of(rows, weights=None):
    return _spread_of(rows, weights).rank


def _rows_of_rank(rank, n=60, p=6, seed=0):
    rng = np.random.default_rng([seed, rank])
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))


@pytest.mark.parametrize("rank", range(7))
def test_random_rows_have_the_rank_of_their_factors(rank):
    for seed in range(5):
        assert _rank_of(_rows_of_rank(rank, seed=seed)) == rank


@pytest.mark.parametrize("size", [1e4, 1e8, 1e12, 1e16, 1e30])
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_huge_rows_hide_no_others(rank, size):
    for first, last in ((0, 1), (7, 8), (0, rank)):
        rows = _rows_of_rank(rank)
        rows[first:last] *= size
        assert _rank_of(rows) == rank


@pytest.mark.parametrize("size", [1e-12, 1e8, 1e16])
def test_large_and_small_columns_hide_no_others(size):
    rows = _rows_of_rank(6)
    rows[:, 2] *= size
    assert _rank_of(rows) == 6
    rows[:, 4] = rows[:, 0]
    assert _rank_of(rows) == 5


@pytest.mark.parametrize("offset", [1e3, 1e9, 1e14])
def test_rows_far_from_zero_keep_their_rank(offset):
    rows = np.round(_rows_of_rank(6) * 100) + offset
    assert _rank_of(rows) == 6
    rows[:, 3] = 1.7e18
    assert _rank_of(rows) == 5


def test_rows_on_a_plane_that_misses_zero_have_the_rank_of_the_plane():
    assert _rank_of(_rows_of_rank(2) + np.arange(6)) == 2


def test_rows_of_zero_weight_do_not_count():
    rows = _rows_of_rank(2)
    rows[5:9] = np.random.default_rng(1).standard_normal((4, 6))
    weights = np.ones(60)
    assert _rank_of(rows, weights) == 6
    weights[5:9] = 0
    assert _rank_of(rows, weights) == 2


@pytest.mark.parametrize("rank", [2, 6])
def test_parts_have_the_factors_of_all_rows(rank):
    rows = _rows_of_rank(rank, n=400)
    rows[0] *= 1e8
    groups = np.arange(400) % 2
    aggregator = RowSummaryAggregator(rows.mean(axis=0), rows.std(axis=0))
    parts = [
        aggregator.aggregate(open_group_rows(rows[i : i + 40], groups[i : i + 40]))
        for i in range(0, 400, 40)
    ]
    of_parts = parts[0]
    for part in parts[1:]:
        of_parts = aggregator.merge(of_parts, part)
    of_all_rows = aggregator.aggregate(open_group_rows(rows, groups))
    for name in ("uncentered", "centered"):
        part = getattr(of_parts, name)
        total = getattr(of_all_rows, name)
        assert part.T @ part == pytest.approx(total.T @ total, rel=1e-12, abs=1e-12)
    assert of_parts.n_rows.tolist() == of_all_rows.n_rows.tolist()
    assert of_parts.inverse_lengths == pytest.approx(of_all_rows.inverse_lengths, rel=1e-12)


def test_the_typical_share_is_that_of_ordinary_rows():
    rows = _rows_of_rank(6, n=200)
    ordinary = _spread_of(rows).typical_share
    assert 0.1 < ordinary < 1
    assert _spread_of(rows * 1e6).typical_share == pytest.approx(ordinary)
    for size in (1e3, 1e8, 1e12):
        huge = rows.copy()
        huge[5:8] *= size
        square = ordinary * (rows**2).sum(axis=1).mean()
        expected = square / ((huge - huge.mean(axis=0)) ** 2).sum(axis=1).mean()
        assert _spread_of(huge).typical_share == pytest.approx(expected, rel=0.1)
    assert _spread_of(np.ones((6, 3))) == RowSpread(0, 1.0)


def test_incomplete_rows_have_no_rank():
    rows = _rows_of_rank(2)
    rows[0, 0] = np.nan
    groups = np.arange(60) % 2
    moments = GroupMoments.from_rows(rows, groups, on_missing="drop")
    assert (
        with_row_spread(moments, open_group_rows(rows, groups, on_missing="drop")).row_spread.rank
        == 2
    )
    assert (
        with_row_spread(moments, open_group_rows(rows, groups, on_missing="em")).row_spread is None
    )


def test_moments_bound_the_rank_by_rows_and_by_columns_that_vary():
    rng = np.random.default_rng(0)
    of_few_rows = GroupMoments.from_rows(rng.standard_normal((4, 6)), [0, 1, 0, 1])
    assert of_few_rows.max_rank == 3
    constant = np.column_stack([rng.standard_normal((9, 2)), np.ones(9)])
    of_constant_columns = GroupMoments.from_rows(constant, np.arange(9) % 2)
    assert of_constant_columns.max_rank == 2
    assert replace(of_constant_columns, row_spread=RowSpread(1, 1.0)).max_rank == 1
    assert (of_constant_columns + of_constant_columns).row_spread is None
