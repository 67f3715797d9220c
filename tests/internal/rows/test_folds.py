"""Folds of rows: by position and seed, or by cluster."""

import numpy as np
import pytest

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.extending import CodedLabels
from fairspan.rows.folds import Folds


def test_each_fold_has_one_of_ten_consecutive_rows():
    folds = Folds(10, seed=3).folds_of_positions(np.arange(5_000)).reshape(-1, 10)
    assert (np.sort(folds, axis=1) == np.arange(10)).all()
    # Not always in the same order, so that nothing periodic in the rows can follow the folds.
    assert len(np.unique(folds[:, 0])) == 10
    counts = np.bincount(folds[:, 0], minlength=10)
    assert counts.min() > 0.5 * counts.mean()


def test_folds_depend_on_position_and_seed_alone():
    folds_of_all_rows = Folds(7, seed=1).folds_of_positions(np.arange(1_000))
    parts = [
        Folds(7, seed=1).folds_of_positions(np.arange(start, start + 250))
        for start in range(0, 1_000, 250)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), folds_of_all_rows)
    assert (Folds(7, seed=2).folds_of_positions(np.arange(1_000)) != folds_of_all_rows).mean() > 0.5


def test_all_rows_of_a_cluster_are_in_one_fold():
    rng = np.random.default_rng(0)
    people = rng.integers(0, 400, 3_000)
    clusters = CodedLabels.from_labels([f"person {person}" for person in people])
    folds = Folds(10, seed=0).assign(np.arange(len(people)), clusters)
    for person in np.unique(people):
        assert len(np.unique(folds[people == person])) == 1
    sizes = np.bincount(folds, minlength=10)
    assert sizes.min() > 0.4 * sizes.mean()


def test_a_missing_cluster_is_refused():
    clusters = CodedLabels.from_labels(["one", None])
    with pytest.raises(InvalidInput, match=r"cluster of row 7 \(index 6\) is missing"):
        Folds(5).assign(np.array([5, 6]), clusters)


@pytest.mark.parametrize("folds", [1, 0, -3, 2.5, "ten", True])
def test_other_numbers_of_folds_are_refused(folds):
    with pytest.raises(InvalidParameter, match="at least 2"):
        Folds(folds)
