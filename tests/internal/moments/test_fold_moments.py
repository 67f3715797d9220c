"""Moments of each fold and of the rows outside it, from every kind of rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, random_array

from case_selection import parametrize_diagonal
from fairspan import FileRows, GroupMoments
from fairspan.errors import InvalidInput
from fairspan.moments.fold_moments import compute_fold_moments, compute_sparse_fold_moments
from fairspan.moments.row_moments import SparseMoments
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.opening import open_group_rows, open_rows
from numpy_reference import assert_moments

FOLDS = Folds(5, seed=2)


def make_case(n=4_000, p=7, k=3, offset=0.0):
    rng = np.random.default_rng(n + p)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + offset
    return X, np.array([f"g{i}" for i in range(k)])[rng.integers(0, k, n)], rng.uniform(0, 3, n)


@parametrize_diagonal(
    offset=[0.0, 1e5],
    weighted=[False, True],
    kind=["array", "float32", "frame", "strided", "sparse"],
)
def test_every_part_and_its_rest_are_those_of_the_rows(kind, weighted, offset):
    X, groups, weights = make_case(offset=offset)
    X = X.astype(np.float32) if kind == "float32" else X
    rows_of_kind = {
        "frame": lambda: pd.DataFrame(X, columns=list("abcdefg")),
        "strided": lambda: np.asfortranarray(X),
        "sparse": lambda: csr_array(X),
    }.get(kind, lambda: X)()
    weights = weights if weighted else np.ones(len(X))
    fold_moments = compute_fold_moments(
        open_group_rows(rows_of_kind, groups, weights if weighted else None), FOLDS
    )
    folds = FOLDS.folds_of_positions(np.arange(len(X)))
    X = X.astype(np.float64)
    for moments, rows in (
        (fold_moments.total, folds >= 0),
        *((fold_moments.by_fold[fold], folds == fold) for fold in range(5)),
        *((fold_moments.excluding(fold), folds != fold) for fold in range(5)),
    ):
        expected = GroupMoments.from_rows(X[rows], groups[rows], weights[rows])
        assert_moments(moments, expected, rtol=1e-10)


@pytest.mark.long
def test_files_and_processes_give_the_same_folds(tmp_path):
    X, groups, _ = make_case(n=3_000)
    frame = pd.DataFrame(X, columns=list("abcdefg")).assign(group=groups)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    # Several row groups, which two processes read.
    frame.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=700)
    expected = compute_fold_moments(open_group_rows(X, groups), FOLDS)
    parquet = open_group_rows(tmp_path / "rows.parquet", "group")
    assert parquet.n_partitions == 5
    for source in (
        open_group_rows(tmp_path / "rows.csv", "group"),
        parquet,
        replace(parquet, n_jobs=2),
    ):
        for actual_moments, expected_moments in zip(
            compute_fold_moments(source, FOLDS).by_fold, expected.by_fold, strict=True
        ):
            assert_moments(actual_moments, expected_moments)


def test_a_group_may_be_missing_in_a_fold():
    X, groups, _ = make_case(n=200)
    groups = groups.astype(object)
    groups[17] = "alone"
    fold_moments = compute_fold_moments(open_group_rows(X, groups), FOLDS)
    fold = int(FOLDS.folds_of_positions(np.array([17]))[0])
    assert "alone" not in fold_moments.excluding(fold).labels
    assert all("alone" in fold_moments.excluding(f).labels for f in range(5) if f != fold)


def test_rows_of_a_cluster_share_a_fold():
    X, groups, _ = make_case(n=600)
    people = np.arange(600) // 6
    groups = groups[people * 6]
    folds = Folds(5)
    fold_moments = compute_fold_moments(open_rows(X, groups, clusters=people), folds)
    assert fold_moments.total.labels == ["g0", "g1", "g2"]
    assert_moments(fold_moments.total, GroupMoments.from_rows(X, groups))
    in_fold = np.array([folds.fold_of_cluster(person) for person in people.tolist()]) == 3
    assert_moments(fold_moments.by_fold[3], GroupMoments.from_rows(X[in_fold], groups[in_fold]))


def test_sparse_rows_of_many_features_stand_for_their_folds():
    rng = np.random.default_rng(1)
    X = csr_array(random_array((300, 1_600), density=0.01, rng=rng))
    groups = np.array(["a", "b"])[rng.integers(0, 2, 300)]
    fold_moments = compute_sparse_fold_moments(open_group_rows(X, groups), FOLDS)
    is_outside = FOLDS.folds_of_positions(np.arange(300)) != 2
    expected = SparseMoments.from_rows(open_group_rows(X[is_outside], groups[is_outside]))
    np.testing.assert_allclose(fold_moments.excluding(2).means, expected.means)
    np.testing.assert_allclose(fold_moments.excluding(2).variances, expected.variances)


def test_too_many_groups_and_bad_rows_are_reported_as_by_plain_moments(tmp_path):
    X, groups, _ = make_case(n=400, k=2)
    (tmp_path / "rows.csv").write_text("x,g\n1,\n2,\n")
    missing = X.copy()
    missing[41, 2] = np.nan
    assert compute_fold_moments(open_group_rows(X, groups), FOLDS, GroupLimit(2)).total.labels == [
        "g0",
        "g1",
    ]
    for rows, limit, message in (
        (open_group_rows(X, np.arange(400)), GroupLimit(), "400 groups among 400 rows"),
        (open_group_rows(X, groups), GroupLimit(1), "2 groups"),
        (open_group_rows(missing, groups), GroupLimit(), r"row 42 \(index 41\)"),
        (
            FileRows.open(tmp_path / "rows.csv", ["g"], on_missing="drop"),
            GroupLimit(),
            "There are no rows",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            compute_fold_moments(rows, FOLDS, limit)


def test_the_rest_of_a_fold_with_nearly_all_variance_keeps_its_digits():
    X, groups, _ = make_case(n=500)
    X[17, 2] = 1e9
    # The only row of its group in which these two features are not zero.
    X[:, 4:6] = 0.0
    X[23, 4:6] = [1.0, 1e-3]
    fold_moments = compute_fold_moments(open_group_rows(X, groups), FOLDS)
    folds = FOLDS.folds_of_positions(np.arange(500))
    for fold in range(5):
        outside = fold_moments.excluding(fold)
        is_outside = folds != fold
        for label, scatter in zip(outside.labels, outside.scatters, strict=True):
            rows = X[is_outside & (groups == label)]
            expected = (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
            scales = np.sqrt(np.diag(expected))
            assert (np.abs(scatter - expected) <= 1e-13 * np.outer(scales, scales)).all()


def test_the_rest_of_a_heavy_fold_keeps_its_digits():
    X, groups, weights = make_case(n=500)
    folds = FOLDS.folds_of_positions(np.arange(500))
    weights[folds == 3] *= 2.0**40
    fold_moments = compute_fold_moments(open_group_rows(X, groups, weights), FOLDS)
    is_outside = folds != 3
    expected = GroupMoments.from_rows(X[is_outside], groups[is_outside], weights[is_outside])
    assert_moments(fold_moments.excluding(3), expected, rtol=1e-12)
