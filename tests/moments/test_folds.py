"""Moments of each group in each fold, against moments of the same rows chosen by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, random_array

from fairspan import FileRows, GroupMoments
from fairspan.errors import InvalidInput
from fairspan.moments.held_rows.sparse_moments import SparseMoments
from fairspan.moments.of_rows import (
    fold_moments,
    sparse_folds,
)
from fairspan.moments.running_group import GroupLimit
from fairspan.rows.folds import Folds
from fairspan.rows.registry import rows_of

FOLDS = Folds(5, seed=2)


def made(n=4_000, p=7, k=3, offset=0.0):
    rng = np.random.default_rng(n + p)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + offset
    return X, np.array([f"g{i}" for i in range(k)])[rng.integers(0, k, n)], rng.uniform(0, 3, n)


def check_same(found, expected):
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-12)
    spread = np.sqrt(np.einsum("gii->g", expected.scatters) / expected.weights)[:, None]
    assert (np.abs(found.means - expected.means) <= 1e-11 * (spread + np.abs(expected.means))).all()
    size = np.abs(expected.scatters).max(axis=(1, 2), keepdims=True)
    assert (np.abs(found.scatters - expected.scatters) <= 1e-9 * size).all()


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["array", "float32", "frame", "strided", "sparse"])
def test_every_part_and_its_rest_are_those_of_the_rows(kind, weighted, offset):
    X, groups, weights = made(offset=offset)
    if kind == "float32":
        X = X.astype(np.float32)
    given = {
        "frame": lambda: pd.DataFrame(X, columns=list("abcdefg")),
        "strided": lambda: np.asfortranarray(X),
        "sparse": lambda: csr_array(X),
    }.get(kind, lambda: X)()
    weights = weights if weighted else None
    found = fold_moments(rows_of(given, groups, weights), FOLDS)
    expected = GroupMoments.from_rows(X.astype(np.float64), groups, weights)
    check_same(found.whole, expected)
    folds = FOLDS.of_positions(0, len(X))
    for fold in range(5):
        own, others = folds == fold, folds != fold
        some = [None if weights is None else weights[rows] for rows in (own, others)]
        X64 = X.astype(np.float64)
        check_same(found.parts[fold], GroupMoments.from_rows(X64[own], groups[own], some[0]))
        check_same(
            found.without(fold), GroupMoments.from_rows(X64[others], groups[others], some[1])
        )


@pytest.mark.long
def test_files_and_processes_give_the_same_folds(tmp_path):
    X, groups, _ = made(n=3_000)
    frame = pd.DataFrame(X, columns=list("abcdefg")).assign(group=groups)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    # Several row groups, which two processes read.
    frame.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=700)
    expected = fold_moments(rows_of(X, groups), FOLDS)
    parquet = rows_of(tmp_path / "rows.parquet", "group")
    assert parquet.n_parts == 5
    sources = [
        rows_of(tmp_path / "rows.csv", "group"),
        parquet,
        replace(parquet, jobs=2),
    ]
    for source in sources:
        found = fold_moments(source, FOLDS)
        for fold in range(5):
            np.testing.assert_allclose(
                found.parts[fold].scatters, expected.parts[fold].scatters, rtol=1e-9
            )


def test_a_group_may_be_missing_in_a_fold():
    X, groups, _ = made(n=200)
    groups = groups.astype(object)
    groups[17] = "alone"
    found = fold_moments(rows_of(X, groups), FOLDS)
    fold = int(FOLDS.of_positions(17, 1)[0])
    assert "alone" not in found.without(fold).labels
    assert all("alone" in found.without(f).labels for f in range(5) if f != fold)


def test_rows_in_clusters_are_left_out_together():
    X, groups, _ = made(n=600)
    people = np.arange(600) // 6
    groups = groups[people * 6]
    labels = [(group, person) for group, person in zip(groups, people.tolist(), strict=True)]
    folds = Folds(5, by_cluster=True)
    found = fold_moments(rows_of(X, labels), folds)
    assert found.whole.labels == ["g0", "g1", "g2"]
    check_same(found.whole, GroupMoments.from_rows(X, groups))
    own = np.array([folds.of_cluster(person) for person in people.tolist()]) == 3
    check_same(found.parts[3], GroupMoments.from_rows(X[own], groups[own]))


def test_sparse_rows_of_many_features_stand_for_their_folds():
    rng = np.random.default_rng(1)
    X = csr_array(random_array((300, 1_600), density=0.01, rng=rng))
    groups = np.array(["a", "b"])[rng.integers(0, 2, 300)]
    found = sparse_folds(rows_of(X, groups), FOLDS)
    others = FOLDS.of_positions(0, 300) != 2
    expected = SparseMoments.of_rows(rows_of(X[others], groups[others]))
    np.testing.assert_allclose(found.without(2).means, expected.means)
    np.testing.assert_allclose(found.without(2).variances, expected.variances)


def test_too_many_groups_and_bad_rows_are_told_as_by_plain_moments():
    X, groups, _ = made(n=400)
    with pytest.raises(InvalidInput, match="400 groups among 400 rows"):
        fold_moments(rows_of(X, np.arange(400)), FOLDS)
    X[41, 2] = np.nan
    with pytest.raises(InvalidInput, match=r"row 42 \(index 41\)"):
        fold_moments(rows_of(X, groups), FOLDS)


def test_rows_that_are_all_left_out_are_none(tmp_path):
    (tmp_path / "rows.csv").write_text("x,g\n1,\n2,\n")
    rows = FileRows.open(tmp_path / "rows.csv", ["g"], on_missing="drop")
    with pytest.raises(InvalidInput, match="There are no rows"):
        fold_moments(rows, FOLDS)


def test_a_limit_counts_groups_and_not_their_folds(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"]).assign(g=["a", "b"] * 30)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    rows = FileRows.open(tmp_path / "rows.csv", ["g"])
    assert fold_moments(rows, FOLDS, GroupLimit(2)).whole.labels == ["a", "b"]
    with pytest.raises(InvalidInput, match="2 groups"):
        fold_moments(rows, FOLDS, GroupLimit(1))
