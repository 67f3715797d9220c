"""Columns whose numbers, to the fourth power, would leave double precision are refused by name."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import fairspan as fs
from fairspan import FairPCA, GroupMoments
from fairspan.errors import InvalidInput

RNG = np.random.default_rng(0)
X, GROUPS = RNG.standard_normal((60, 4)), RNG.permutation(["a", "b"] * 30)
WIDE, FEW = RNG.standard_normal((20, 600)), ["a", "b"] * 10
SPARSE = np.where(RNG.random((60, 1600)) < 0.1, RNG.standard_normal((60, 1600)), 0.0)
MODEL = FairPCA(1).fit(X, sensitive_features=GROUPS)


def spoilt(table, size):
    """The table with numbers of that size in its second column."""
    table = np.array(table)
    table[:, 1] *= size
    return table


def frame(size):
    return pd.DataFrame(spoilt(X, size), columns=list("wxyz")).assign(g=GROUPS)


def file(size, folder):
    frame(size).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def saved(size, folder):
    # Written without a check, as by an earlier version.
    moments = GroupMoments.from_rows(X, GROUPS).divided_by(np.array([1, 1 / size, 1, 1]))
    moments.save(folder / "saved.moments")
    return GroupMoments.load(folder / "saved.moments")


def weighted(size, folder):
    return GroupMoments.from_rows(spoilt(X, size), GROUPS, RNG.uniform(0.5, 2, 60))


def in_parts(size, folder):
    fair = FairPCA(1)
    for half in (slice(0, 30), slice(30, 60)):
        fair.partial_fit(spoilt(X, size)[half], sensitive_features=GROUPS[half])


ENTRIES = {
    "array": lambda size, folder: GroupMoments.from_rows(spoilt(X, size), GROUPS),
    "weights": weighted,
    "fit": lambda size, folder: FairPCA(1).fit(spoilt(X, size), sensitive_features=GROUPS),
    "fit of few rows": lambda size, folder: FairPCA(1).fit(
        spoilt(WIDE, size), sensitive_features=FEW
    ),
    "fit of sparse rows": lambda size, folder: FairPCA(1).fit(
        scipy.sparse.csr_array(spoilt(SPARSE, size)), sensitive_features=GROUPS
    ),
    "sparse": lambda size, folder: GroupMoments.from_rows(
        scipy.sparse.csr_array(spoilt(SPARSE[:, :30], size)), GROUPS
    ),
    "frame": lambda size, folder: GroupMoments.from_rows(frame(size), "g"),
    "file": lambda size, folder: GroupMoments.from_rows(file(size, folder), "g"),
    "partial_fit": in_parts,
    "saved moments": saved,
    "moments in memory": lambda size, folder: FairPCA(1).fit_moments(
        GroupMoments.from_rows(X, GROUPS).divided_by(np.array([1, 1 / size, 1, 1]))
    ),
    "audit": lambda size, folder: fs.audit(MODEL, spoilt(X, size), GROUPS),
    "audit of sparse rows": lambda size, folder: fs.audit(
        np.eye(1600)[:1], scipy.sparse.csr_array(spoilt(SPARSE, size)), GROUPS
    ),
    "verify": lambda size, folder: fs.verify(MODEL, spoilt(X, size), GROUPS),
}


@pytest.mark.parametrize("size", [1e77, 1e120, 1e-77, 1e-200])
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_column_outside_the_range_is_refused_by_name(entry, size, tmp_path):
    if entry in ("saved moments", "moments in memory") and abs(np.log10(size)) > 100:
        pytest.skip("the squares of these numbers are no numbers")
    name = "column 'x'" if entry in ("frame", "file") else r"column 2 \(index 1\)"
    with pytest.raises(InvalidInput, match=rf"{name}.*1e-75 to 1e\+75.*Divide the column"):
        ENTRIES[entry](size, tmp_path)


@pytest.mark.parametrize("size", [1e73, 1e-73, 0.0])
@pytest.mark.parametrize("entry", ENTRIES)
def test_columns_within_the_range_and_columns_of_zeros_are_taken(entry, size, tmp_path):
    if size or entry not in ("saved moments", "moments in memory"):
        ENTRIES[entry](size, tmp_path)


def test_the_largest_numbers_of_a_column_decide_and_not_those_of_a_part():
    table = X.copy()
    table[:, 0] = 0.0
    table[-1, 0] = 1.0
    table[:30, 0] = 1e-90  # a group, a batch and a part of the rows
    groups = np.repeat(["a", "b"], 30)
    whole = GroupMoments.from_rows(table, groups)
    assert whole.variances[0, 0] == 0
    assert FairPCA(1).fit(table, sensitive_features=groups).solution_.status == "optimal"
    fs.audit(MODEL, table, groups)


@pytest.mark.parametrize("unit", [1e-70, 1e-30, 1e5, 1e70])
@pytest.mark.parametrize("kind", ["dense", "few rows", "sparse"])
def test_the_unit_adds_a_constant_to_nash_welfare_and_changes_nothing_else(unit, kind):
    table = {"dense": X, "few rows": WIDE, "sparse": scipy.sparse.csr_array(SPARSE)}[kind]
    groups = FEW if kind == "few rows" else GROUPS
    fits = [
        FairPCA(2, criterion="nash_welfare").fit(each, sensitive_features=groups)
        for each in (table, unit * table)
    ]
    here, there = (fit.solution_ for fit in fits)
    assert there.status == here.status
    moved = there.objective + 2 * np.log(unit)
    assert moved == pytest.approx(here.objective, abs=1e-10)
    assert there.n_eigenproblems <= 2 * here.n_eigenproblems + 20
    assert fs.verify(fits[1], unit * table, groups).holds
