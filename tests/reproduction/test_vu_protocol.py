"""Splits, standardizing, folds, ABDiff and ARE of the RFPCA experiments."""

import numpy as np
import pytest

from fairspan.errors import InvalidInput
from reproduction.vu.protocol import Part, errors_of, fold_rows, split_rows, standardized


def test_a_split_shares_out_every_row_once_and_depends_on_the_seed_alone():
    train, test = split_rows(11, 0.3, seed=4)
    assert len(train) == 3  # round(3.3)
    assert sorted([*train, *test]) == list(range(11))
    assert (split_rows(50, 0.3, 1)[0] == split_rows(50, 0.3, 1)[0]).all()
    assert (split_rows(50, 0.3, 1)[0] != split_rows(50, 0.3, 2)[0]).any()


def test_folds_judge_every_row_once_and_never_what_they_are_fitted_on():
    folds = fold_rows(10, 3, seed=0)
    assert [len(test) for _, test in folds] == [4, 3, 3]
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(10))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(10))


def test_the_training_part_alone_standardizes():
    X = np.array([[1.0, 5.0, 0.1], [3.0, 5.0, 0.1], [10.0, 8.0, 0.2]])
    rows = standardized(X, np.array([0, 1]))
    # Mean 2 and deviation 1; a column constant in training is centered, not divided.
    np.testing.assert_allclose(rows, [[-1, 0, 0], [1, 0, 0], [8, 3, 0.1]], atol=1e-15)
    # Faces are centered only.
    rows = standardized(2 * X, np.array([0, 1]), scale=False)
    np.testing.assert_allclose(rows, [[-2, 0, 0], [2, 0, 0], [16, 6, 0.2]], atol=1e-15)


def test_a_column_that_is_constant_up_to_rounding_is_not_blown_up():
    X = np.full((30, 1), 0.1)
    X[-1] = 0.2
    assert np.abs(standardized(X, np.arange(29))).max() == pytest.approx(0.1)


def test_gap_and_error_by_hand():
    rows = np.array([[5.0, 1.0], [7.0, 3.0], [9.0, 2.0]])
    part = Part(rows, np.array(["a", "a", "b"]))
    errors = errors_of(np.array([[1.0, 0.0]]), part)
    # Errors are the squares of the second column: 1, 9 and 4; means of the groups 5 and 4.
    assert (errors.gap, errors.error) == pytest.approx((1, 14 / 3))
    # About the groups' own means 2 and 2: 1, 1 and 0.
    assert errors.gap_about_own_means == pytest.approx(1)
    # Groups are weighted by their rows in the error and not in the gap.
    rows = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 5.0]])
    errors = errors_of(np.array([[1.0, 0.0]]), Part(rows, np.array(["a", "a", "a", "b"])))
    assert (errors.gap, errors.error) == pytest.approx((24, 7))


def test_one_group_has_no_gap():
    with pytest.raises(InvalidInput, match="two mean errors"):
        errors_of(np.array([[1.0, 0.0]]), Part(np.ones((2, 2)), np.array(["a", "a"])))
