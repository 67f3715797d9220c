"""Accuracy far from the origin, every precision, many blocks, and flat memory."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import fairspan as fs
from case_selection import parametrize_diagonal
from fairspan import FairPCA, GroupMoments
from fairspan.errors import InvalidInput
from numpy_reference import (
    assert_moments,
    random_rows,
    reference_moments,
    relative_error,
    trace_peak_memory,
)


def exact_moments(X, labels):
    """Mean and scatter of each group in rational arithmetic, rounded once at the end."""
    result = {}
    for label in sorted(set(labels)):
        rows = [[Fraction(float(x)) for x in row] for row in X[np.array(labels) == label]]
        n = len(rows)
        p = len(rows[0])
        sums = [sum(row[i] for row in rows) for i in range(p)]
        scatter = [
            [float(sum(row[i] * row[j] for row in rows) - sums[i] * sums[j] / n) for j in range(p)]
            for i in range(p)
        ]
        result[label] = (n, float(n), np.array([float(s / n) for s in sums]), np.array(scatter))
    return result


def offset_rows(n=200, p=3, offset=1e6):
    """Return rows with deviations of about one and an offset, and their labels."""
    rng = np.random.default_rng(8)
    labels = ["a" if is_first else "b" for is_first in rng.random(n) < 0.3]
    return rng.standard_normal((n, p)) + offset * np.array([1.0, -3.0, 0.5]), labels


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e8])
def test_column_offsets_cost_no_digits(offset):
    X, labels = offset_rows(offset=offset)
    assert_moments(GroupMoments.from_rows(X, labels), exact_moments(X, labels), rtol=1e-12)


def test_offsets_cost_no_digits_after_merging_twenty_parts():
    X, labels = offset_rows()
    parts = [GroupMoments.from_rows(X[i::20], labels[i::20]) for i in range(20)]
    assert_moments(sum(parts), exact_moments(X, labels), rtol=1e-9)


@pytest.mark.parametrize("center", ["global", "group"])
def test_second_moments_and_deviations_far_from_the_origin(center):
    X, labels = offset_rows()
    near = X - X[0]  # exact in float64, as both are close to each other
    far, close = GroupMoments.from_rows(X, labels), GroupMoments.from_rows(near, labels)
    for one, other in zip(far.second_moments(center), close.second_moments(center), strict=True):
        assert relative_error(one, other) <= 1e-9
    np.testing.assert_allclose(far.standard_deviations, near.std(axis=0), rtol=1e-9)


def test_weighted_rows_far_from_the_origin():
    X, labels = offset_rows()
    repeats = np.random.default_rng(2).integers(1, 5, len(X))
    weighted = GroupMoments.from_rows(X, labels, repeats)
    exact = exact_moments(np.repeat(X, repeats, axis=0), list(np.repeat(labels, repeats)))
    counts = [count for count, *_ in exact.values()]
    assert_moments(replace(weighted, counts=np.array(counts)), exact)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "int8", "uint8", "int32", "uint64", "bool", "object"]
)
def test_every_precision_is_summed_in_float64(dtype):
    rng = np.random.default_rng(4)
    X = (rng.random((500, 3)) * [2, 100, 120]).astype(dtype)
    labels = rng.choice(["a", "b"], 500)
    # The sums leave int8, and their squares leave what float32 can tell apart.
    expected = exact_moments(X, labels)
    assert_moments(GroupMoments.from_rows(X, labels), expected, rtol=1e-13)


def test_many_blocks_and_groups_that_come_late():
    rng = np.random.default_rng(6)
    n, p = 1900, 400  # several blocks of about 800 rows
    X = rng.standard_normal((n, p)) * rng.uniform(0.1, 9, p) + rng.uniform(-50, 50, p)
    labels = np.where(np.arange(n) < 900, "a", np.where(np.arange(n) < 1899, "b", "late"))
    weights = rng.uniform(0, 2, n)
    weights[:810] = 0  # the first block is absent as a whole
    assert_moments(GroupMoments.from_rows(X, labels), reference_moments(X, labels))
    assert_moments(
        GroupMoments.from_rows(X, labels, weights), reference_moments(X, labels, weights)
    )


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 1, 3000)])
def test_a_column_that_is_constant_in_a_group_has_no_scatter_there(weights):
    labels = np.arange(3000) % 2
    X = np.random.default_rng(9).standard_normal((3000, 200))
    X[:, 3] = np.where(labels == 0, 0.1, 1e6 + 0.3)
    scatters = GroupMoments.from_rows(X, labels, weights).scatters
    np.testing.assert_array_equal(scatters[:, 3, :], 0)


@pytest.mark.parametrize("weights", [None, np.linspace(0, 1, 60)])
def test_the_rows_are_never_written_to(weights):
    rows = random_rows(2)
    rows.X.setflags(write=False)
    before = rows.X.copy()
    GroupMoments.from_rows(rows.X, rows.labels, weights)
    np.testing.assert_array_equal(rows.X, before)


@pytest.mark.long
def test_memory_beyond_the_input_does_not_grow_with_the_rows():
    n, p = 3_000_000, 50
    numbers = np.random.default_rng(0).standard_normal(n + p - 1)
    X = np.lib.stride_tricks.sliding_window_view(numbers, p)
    labels = (np.arange(n) % 3).astype(np.int8)
    GroupMoments.from_rows(X[:10_000], labels[:10_000])  # imports are not counted
    with trace_peak_memory() as peak:
        moments = GroupMoments.from_rows(X, labels)
        assert peak() < 64e6
    assert moments.counts.tolist() == [n // 3] * 3
    np.testing.assert_allclose(moments.means[1], [X[1::3, j].mean() for j in range(p)], atol=1e-12)


HUGE = {
    "squares": lambda: GroupMoments.from_rows([[1e200, 1.0], [-1e200, 2.0], [0, 0]], list("aab")),
    "sums": lambda: GroupMoments.from_rows([[1.7e308], [-1.7e308], [1.7e308]], list("aab")),
    "constant": lambda: GroupMoments.from_rows([[1e200], [1e200], [1.0]], list("aab")),
    "weighted": lambda: GroupMoments.from_rows([[1e120], [0], [1]], list("aab"), [1e90, 1e90, 1]),
    "float128": lambda: GroupMoments.from_rows(np.array([["1e400"]], dtype="g"), ["a"]),
}


@pytest.mark.parametrize("case", HUGE)
def test_numbers_whose_squares_overflow_are_refused(case):
    with pytest.raises(InvalidInput, match=r"Divide the column|infinity|overflow"):
        HUGE[case]()


def test_numbers_just_below_the_limit_are_taken():
    X = np.array([[1e74], [2e74], [2e74], [1e74]])
    second = GroupMoments.from_rows(X, list("aabb")).second_moments("none")
    np.testing.assert_allclose(second.ravel(), [2.5e148, 2.5e148])


RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
GROUPS = RNG.permutation(["a", "b"] * 30)
WIDE = RNG.standard_normal((20, 600))
WIDE_GROUPS = ["a", "b"] * 10
# More features than a dense matrix may have, below.
SPARSE = np.where(RNG.random((60, 40)) < 0.1, RNG.standard_normal((60, 40)), 0.0)


@cache
def fit():
    return FairPCA(1).fit(X, sensitive_features=GROUPS)


@pytest.fixture
def low_dense_limit(monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 30)


def corrupt(table, size):
    """Return the table with numbers of that size in its second column."""
    table = np.array(table)
    table[:, 1] *= size
    return table


def frame(size):
    return pd.DataFrame(corrupt(X, size), columns=list("wxyz")).assign(g=GROUPS)


def file(size, folder):
    frame(size).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def save_file(size, folder):
    # Written without a check, as by an earlier version.
    moments = GroupMoments.from_rows(X, GROUPS).divided_by(np.array([1, 1 / size, 1, 1]))
    moments.save(folder / "saved.moments")
    return GroupMoments.load(folder / "saved.moments")


def weighted(size, folder):
    return GroupMoments.from_rows(corrupt(X, size), GROUPS, RNG.uniform(0.5, 2, 60))


def fit_halves(size, folder):
    fair = FairPCA(1)
    for half in (slice(0, 30), slice(30, 60)):
        fair.partial_fit(corrupt(X, size)[half], sensitive_features=GROUPS[half])


ENTRIES = {
    "array": lambda size, folder: GroupMoments.from_rows(corrupt(X, size), GROUPS),
    "weights": weighted,
    "fit": lambda size, folder: FairPCA(1).fit(corrupt(X, size), sensitive_features=GROUPS),
    "fit of few rows": lambda size, folder: FairPCA(1).fit(
        corrupt(WIDE, size), sensitive_features=WIDE_GROUPS
    ),
    "fit of sparse rows": lambda size, folder: FairPCA(1).fit(
        scipy.sparse.csr_array(corrupt(SPARSE, size)), sensitive_features=GROUPS
    ),
    "sparse": lambda size, folder: GroupMoments.from_rows(
        scipy.sparse.csr_array(corrupt(SPARSE[:, :30], size)), GROUPS
    ),
    "frame": lambda size, folder: GroupMoments.from_rows(frame(size), "g"),
    "file": lambda size, folder: GroupMoments.from_rows(file(size, folder), "g"),
    "partial_fit": fit_halves,
    "saved moments": save_file,
    "moments in memory": lambda size, folder: FairPCA(1).fit_moments(
        GroupMoments.from_rows(X, GROUPS).divided_by(np.array([1, 1 / size, 1, 1]))
    ),
    "audit": lambda size, folder: fs.audit(fit(), corrupt(X, size), GROUPS),
    "audit of sparse rows": lambda size, folder: fs.audit(
        np.eye(40)[:1], scipy.sparse.csr_array(corrupt(SPARSE, size)), GROUPS
    ),
    "verify": lambda size, folder: fs.verify(fit(), corrupt(X, size), GROUPS),
}


@pytest.mark.usefixtures("low_dense_limit")
@pytest.mark.parametrize(
    ("entry", "size"),
    [
        (entry, size)
        for entry in ENTRIES
        # The squares of the last two are no numbers of moments.
        for size in ([1e77, 1e-77] if "moments" in entry else [1e77, 1e-77, 1e120, 1e-200])
    ],
)
def test_a_column_outside_the_range_is_refused_by_name(entry, size, tmp_path):
    name = "column 'x'" if entry in ("frame", "file") else r"column 2 \(index 1\)"
    with pytest.raises(InvalidInput, match=rf"{name}.*1e-75 to 1e\+75.*Divide the column"):
        ENTRIES[entry](size, tmp_path)


@pytest.mark.usefixtures("low_dense_limit")
@parametrize_diagonal(size=[1e73, 1e-73, 0.0], entry=ENTRIES)
def test_columns_within_the_range_and_columns_of_zeros_are_taken(entry, size, tmp_path):
    if size or entry not in ("saved moments", "moments in memory"):
        ENTRIES[entry](size, tmp_path)


def test_the_largest_numbers_of_a_column_decide_and_not_those_of_a_part():
    table = X.copy()
    table[:, 0] = 0.0
    table[-1, 0] = 1.0
    table[:30, 0] = 1e-90  # a group, a batch and a part of the rows
    groups = np.repeat(["a", "b"], 30)
    moments = GroupMoments.from_rows(table, groups)
    assert moments.variances[0, 0] == 0
    assert FairPCA(1).fit(table, sensitive_features=groups).solution_.status == "optimal"
    fs.audit(fit(), table, groups)


@pytest.mark.usefixtures("low_dense_limit")
@parametrize_diagonal(unit=[1e-70, 1e-30, 1e5, 1e70], kind=["dense", "few rows", "sparse"])
def test_the_unit_adds_a_constant_to_nash_welfare_and_changes_nothing_else(unit, kind):
    table = {"dense": X, "few rows": WIDE, "sparse": scipy.sparse.csr_array(SPARSE)}[kind]
    groups = WIDE_GROUPS if kind == "few rows" else GROUPS
    fits = [
        FairPCA(2, criterion="nash_welfare").fit(rows, sensitive_features=groups)
        for rows in (table, unit * table)
    ]
    plain, scaled = (fit.solution_ for fit in fits)
    assert scaled.status == plain.status
    assert scaled.objective + 2 * np.log(unit) == pytest.approx(plain.objective, abs=1e-10)
    assert scaled.n_eigenproblems <= 2 * plain.n_eigenproblems + 20
    assert fs.verify(fits[1], unit * table, groups).holds
