"""Columns that only rise or only fall, however the rows come."""

from itertools import pairwise

import numpy as np
import pytest

from fairspan.auditing.ordered_columns import OrderedColumns

N = 200
RNG = np.random.default_rng(0)
UP = np.arange(N, dtype=np.float64)
ALL_DIFFERENT = RNG.permutation(N).astype(np.float64)


def after(columns):
    rows = np.column_stack(columns)
    return OrderedColumns.before(rows.shape[1]).absorb(rows)


def test_values_that_rise_or_fall_are_in_order_and_others_are_not():
    steps = np.cumsum(RNG.random(N))
    assert after([UP, -UP, ALL_DIFFERENT, np.zeros(N), steps, 1e9 - UP]).columns() == (0, 1, 4, 5)


def test_one_step_back_is_too_many():
    back = UP.copy()
    back[[50, 51]] = back[[51, 50]]
    assert after([UP, back]).columns() == (0,)


def test_few_ties_are_allowed():
    assert after([np.sort(np.r_[UP[:-1], UP[7]])]).columns() == (0,)
    assert after([np.sort(np.r_[UP[:-2], UP[7:9]])]).columns() == ()
    assert after([UP // 2]).columns() == ()


def test_few_rows_tell_nothing():
    assert after([UP[:19]]).columns() == ()
    assert after([UP[:20]]).columns() == (0,)
    assert OrderedColumns.before(3).columns() == ()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_tie_where_a_part_ends_breaks_no_order(sign):
    tied = sign * np.sort(np.r_[UP[:-1], UP[99]])[:, None]
    assert tied[99] == tied[100]
    first, second = (OrderedColumns.before(1).absorb(part) for part in (tied[:100], tied[100:]))
    assert first.merged(second).columns() == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_blocks_and_parts_tell_what_all_rows_at_once_do(seed):
    rng = np.random.default_rng(seed)
    back = UP.copy()
    back[100] = 3.5
    late = np.r_[UP[:150], UP[:50]]
    tied = np.sort(np.r_[UP[:-1], UP[7]])
    falls_late = np.r_[N + ALL_DIFFERENT[:100], -UP[100:]]
    rows = np.column_stack([UP, -UP, back, late, tied, UP // 3, ALL_DIFFERENT, falls_late])
    whole = OrderedColumns.before(rows.shape[1]).absorb(rows)
    assert whole.columns() == (0, 1, 4)
    ends = [0, *np.sort(rng.choice(N, 4, replace=False)).tolist(), N]
    parts = []
    for start, stop in pairwise(ends):
        part = OrderedColumns.before(rows.shape[1])
        for block in np.array_split(rows[start:stop], 3):
            part = part.absorb(block)
        parts.append(part)
    left = OrderedColumns.before(rows.shape[1])
    for part in parts:
        left = left.merged(part)
    right = parts[-1]
    for part in reversed(parts[:-1]):
        right = part.merged(right)
    for merged in (left, right):
        assert merged.columns() == whole.columns()
        assert merged.n_rows == N


def test_parts_in_another_order_are_out_of_order():
    first, second = after([UP, -UP]), after([UP + N, -UP - N])
    assert first.merged(second).columns() == (0, 1)
    assert second.merged(first).columns() == ()


def test_an_array_brings_everything_back():
    known = after([UP, ALL_DIFFERENT, np.sort(np.r_[UP[:-1], UP[7]])])
    again = OrderedColumns.from_array(known.to_array())
    assert again.n_rows == known.n_rows
    np.testing.assert_array_equal(again.to_array(), known.to_array())
    assert again.absorb(np.full((1, 3), 1e9)).columns() == (0, 2)


def test_the_users_rows_may_change_afterwards():
    rows = np.column_stack([UP, -UP])
    known = OrderedColumns.before(2).absorb(rows)
    rows[:] = 0
    assert known.absorb(np.array([[N, -N]], dtype=np.float64)).columns() == (0, 1)
