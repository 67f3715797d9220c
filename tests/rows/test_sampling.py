"""Reservoir samples: uniform, seeded, independent of blocks, and marked."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from by_hand import assert_moments, moments_by_hand
from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.moments.group_statistics import Intake
from fairspan.moments.of_rows import accumulate
from fairspan.rows import protocol
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.registry import rows_of
from fairspan.rows.sampling import sampled

N, P = 5000, 3
RNG = np.random.default_rng(8)
# The first column numbers the rows, so that a sample tells which rows it holds.
X = np.column_stack([np.arange(N), RNG.normal(size=(N, P - 1))])
LABELS = RNG.choice(["a", "b", "c"], N)
WEIGHTS = RNG.choice([0.0, 0.5, 2.0], N)


def drawn(size, seed=0, **choice):
    return sampled(rows_of(X, LABELS, **choice), size, seed)


def numbers(sample):
    return sample.values[:, 0].astype(int)


def test_the_rows_keep_their_order_labels_and_weights():
    sample = drawn(300, sample_weight=WEIGHTS)
    rows = numbers(sample)
    assert len(set(rows.tolist())) == 300
    assert (np.diff(rows) > 0).all()
    (block,) = sample.blocks()
    np.testing.assert_array_equal(block.values, X[rows])
    assert block.labels.to_list() == LABELS[rows].tolist()
    np.testing.assert_array_equal(block.weights, WEIGHTS[rows])


def test_moments_of_a_sample_are_those_of_its_rows_and_say_so():
    sample = drawn(300, sample_weight=WEIGHTS)
    rows = numbers(sample)
    moments = accumulate(sample)
    assert_moments(moments, moments_by_hand(X[rows], LABELS[rows], WEIGHTS[rows]))
    # Rows of weight zero count as absent.
    assert moments.intake == Intake(0, int((WEIGHTS > 0).sum()))
    assert (WEIGHTS[rows] > 0).all()


@pytest.mark.parametrize("block_numbers", [1 << 9, 1 << 12, 1 << 20])
@pytest.mark.parametrize("size", [1, 17, 2500, 4999])
def test_the_size_of_blocks_does_not_matter(monkeypatch, size, block_numbers):
    expected = numbers(drawn(size, seed=3))
    monkeypatch.setattr(protocol, "_BLOCK_NUMBERS", block_numbers)
    monkeypatch.setattr(protocol, "_FEWEST_BLOCK_ROWS", 1)
    np.testing.assert_array_equal(numbers(drawn(size, seed=3)), expected)
    assert len(expected) == size


def test_other_seeds_draw_other_rows():
    assert len({tuple(numbers(drawn(20, seed))) for seed in range(10)}) == 10


@pytest.mark.long
def test_every_row_is_drawn_as_often_as_any_other():
    rows = rows_of(X[:40], LABELS[:40])
    n_samples, size = 4000, 10
    times = np.zeros(40)
    for seed in range(n_samples):
        times[numbers(sampled(rows, size, seed))] += 1
    share = size / 40
    # Four standard deviations of a count, for the largest of forty.
    allowed = 4 * np.sqrt(n_samples * share * (1 - share))
    assert abs(times - n_samples * share).max() < allowed


@pytest.mark.parametrize("size", [N, N + 1, 10 * N])
def test_fewer_rows_than_asked_for_are_all_kept_and_nothing_is_marked(size):
    sample = drawn(size)
    np.testing.assert_array_equal(sample.values, X)
    moments = accumulate(sample)
    assert moments.intake == Intake()
    assert_moments(moments, moments_by_hand(X, LABELS))


def test_dropped_rows_are_not_drawn_and_stay_counted(tmp_path):
    frame = pd.DataFrame(X, columns=["row", "y", "z"]).assign(g=LABELS)
    frame.loc[::3, "y"] = np.nan
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    rows = FileRows.open(tmp_path / "rows.parquet", ["g"], on_missing="drop")
    sample = sampled(rows, 100, 1)
    assert (numbers(sample) % 3 != 0).all()
    n_dropped = len(range(0, N, 3))
    assert accumulate(sample).intake == Intake(n_dropped, N - n_dropped)


def test_features_are_selected_by_name(tmp_path):
    frame = pd.DataFrame(X, columns=["row", "y", "z"])
    sample = sampled(rows_of(frame, LABELS), 10)
    other = sample.selected(("z", "row"))
    np.testing.assert_array_equal(other.values, sample.values[:, [2, 0]])
    assert (other.feature_names, other.n_features, other.n_rows) == (("z", "row"), 2, 10)
    with pytest.raises(InvalidInput, match="no column 'w'"):
        sample.selected(("w",))


def test_bad_rows_are_found_whether_drawn_or_not():
    bad = X.copy()
    bad[N - 1, 1] = np.nan
    with pytest.raises(InvalidInput, match=f"row {N} "):
        sampled(rows_of(bad, LABELS), 1)
    with pytest.raises(InvalidInput, match="missing"):
        sampled(rows_of(X, [*LABELS[:-1].tolist(), None]), 1)


def test_a_sample_of_no_rows():
    with pytest.raises(InvalidParameter, match="A sample of 0 rows"):
        drawn(0)


def test_rows_without_labels():
    sample = sampled(replace(rows_of(X, LABELS), labels=None), 10)
    (block,) = sample.blocks()
    assert (block.labels, block.weights) == (None, None)


def test_where_every_row_is_dropped_the_error_counts_them(tmp_path):
    pd.DataFrame({"x": [np.nan] * 7, "g": ["a", "b"] * 3 + ["a"]}).to_csv(tmp_path / "r.csv")
    rows = FileRows.open(tmp_path / "r.csv", ["g"], ["x"], on_missing="drop")
    with pytest.raises(InvalidInput, match=r"no rows \(7 rows with missing values left out\)"):
        accumulate(sampled(rows, 3))
