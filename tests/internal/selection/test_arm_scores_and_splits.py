"""Scores of arms that were tried on different splits, and splits within groups and classes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

from fairspan import FairPCA
from fairspan.selection.arm_scores import least_squares_means, split_effects
from fairspan.selection.splits import stratification_codes, stratified_split
from numpy_reference import random_rows

ROWS = random_rows(61, n=90, p=5)
X = ROWS.X
GROUPS = ROWS.labels
Y = (X[:, 0] + X[:, 1] > np.median(X[:, 0] + X[:, 1])).astype(int)


def splits_of(strata, number, test_size=0.3, seed=5):
    return [stratified_split(strata, test_size, seed, index) for index in range(number)]


def fit_two_way(scores):
    """arm_i + split_j by least squares on indicator columns; the first split is zero."""
    arms, splits = np.nonzero(~np.isnan(scores))
    columns = np.zeros((len(arms), scores.shape[0] + scores.shape[1]))
    columns[np.arange(len(arms)), arms] = 1
    columns[np.arange(len(arms)), scores.shape[0] + splits] = 1
    columns = np.delete(columns, scores.shape[0], axis=1)
    coefficients = np.linalg.lstsq(columns, scores[arms, splits], rcond=None)[0]
    return coefficients[: len(scores)], np.append(0.0, coefficients[len(scores) :])


@pytest.mark.parametrize("seed", range(5))
def test_split_effects_are_the_least_squares_solution(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 8, size=6)
    scores = rng.normal(size=(6, counts.max()))
    scores[np.arange(counts.max()) >= counts[:, None]] = np.nan
    arms, effects = fit_two_way(scores)
    np.testing.assert_allclose(split_effects(scores), effects, atol=1e-12)
    np.testing.assert_allclose(least_squares_means(scores), arms + effects.mean(), atol=1e-12)


def test_an_arm_is_not_punished_for_hard_splits_that_only_it_was_tried_on():
    scores = np.array([[10.0, 2.0, 1.0], [9.0, 1.0, np.nan], [0.0, np.nan, np.nan]])
    assert np.nanmean(scores, axis=1).argmax() == 1
    means = least_squares_means(scores)
    assert means.argmax() == 0
    assert means[0] - means[1] == pytest.approx(1)
    assert means[0] - means[2] == pytest.approx(10)


def test_no_group_is_lost():
    codes = np.array([0] * 50 + [1] * 2 + [2] + [3] * 10)
    for train, test in splits_of(codes, 20, 0.1):
        assert sorted([*train, *test]) == list(range(63))
        assert np.bincount(codes[test], minlength=4).tolist() == [5, 1, 0, 1]
    for train, _ in splits_of(codes, 5, 0.99):
        assert set(codes[train]) == {0, 1, 2, 3}
    assert len({tuple(test) for _, test in splits_of(codes, 20)}) == 20
    late = stratified_split(codes, 0.3, 5, 7)
    np.testing.assert_array_equal(late[1], splits_of(codes, 8)[7][1])


@pytest.mark.parametrize("name", ["sensitive_features", "fpca__sensitive_features"])
def test_rows_are_split_within_groups_and_classes(name):
    def combine_codes(*columns):
        return np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].ravel()

    codes = stratification_codes(FairPCA(), X, None, {"sensitive_features": GROUPS}, 90)

    def assert_same_partition(actual, expected):
        assert (
            len(set(zip(actual, expected, strict=True))) == len(set(actual)) == len(set(expected))
        )

    assert_same_partition(stratification_codes(PCA(), X, Y, {name: GROUPS}, 90), codes)
    assert_same_partition(
        stratification_codes(LogisticRegression(), X, Y, {name: GROUPS.tolist()}, 90),
        combine_codes(codes, Y),
    )
    assert_same_partition(stratification_codes(LogisticRegression(), X, Y, {}, 90), Y)
    assert_same_partition(
        stratification_codes(Ridge(), X, Y, {name: None}, 90), np.zeros(90, dtype=int)
    )
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(sex=GROUPS, y=Y)
    assert_same_partition(
        stratification_codes(PCA(), frame, None, {name: ["sex", "y"]}, 90), combine_codes(codes, Y)
    )
    assert_same_partition(
        stratification_codes(PCA(), pl.DataFrame(frame), None, {name: "sex"}, 90), codes
    )
