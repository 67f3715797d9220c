"""Dropped rows: columns that cost all of them, groups that lose all, and empty categories."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fairspan import FairPCA, GroupMoments, MeanParity, audit
from fairspan.errors import FairspanWarning, InvalidInput

N = 120
PLACE = np.arange(N) % 3
GROUPS = np.array(["a", "b", "c"])[PLACE]


def table():
    values = np.random.default_rng(0).standard_normal((N, 4))
    return pd.DataFrame(values, columns=["age", "pay", "height", "weight"])


def remove_cells(rows, column, groups=("c",)):
    rows = rows.copy()
    rows.loc[np.isin(GROUPS, groups), column] = np.nan
    return rows


def sources(frame, folder):
    """Return the same rows as an array, a frame, a sparse matrix and a file."""
    path = folder / "rows.csv"
    frame.assign(g=GROUPS).to_csv(path, index=False)
    return {
        "array": (frame.to_numpy(), GROUPS),
        "frame": (frame, GROUPS),
        "sparse": (sparse.csr_array(frame.to_numpy()), GROUPS),
        "file": (path, "g"),
    }


LOST = r"removes all 40 rows of group 'c' \(missing: {} in 40 rows\)"


def test_a_group_that_is_dropped_entirely_is_named_with_its_column(tmp_path):
    for name, (X, groups) in sources(remove_cells(table(), "pay"), tmp_path).items():
        column = "x1" if name in ("array", "sparse") else "'pay'"
        with pytest.warns(FairspanWarning, match=LOST.format(column)) as record:
            fair = FairPCA(1, on_missing="drop").fit(X, sensitive_features=groups)
        assert len(record) == 1, name
        assert fair.groups_.tolist() == ["a", "b"]
        with pytest.warns(FairspanWarning, match=LOST.format(column)):
            moments = GroupMoments.from_rows(X, groups, on_missing="drop")
        assert moments.lost_groups == {"c"}


@pytest.mark.slow
def test_a_group_that_is_dropped_from_a_collection_in_parts_is_named():
    dask_frame = pytest.importorskip("dask.dataframe")
    rows = dask_frame.from_pandas(remove_cells(table(), "pay").assign(g=GROUPS), npartitions=4)
    with pytest.warns(FairspanWarning, match=LOST.format("'pay'")):
        fair = FairPCA(1, on_missing="drop").fit(rows, sensitive_features="g")
    assert fair.groups_.tolist() == ["a", "b"]


def test_rows_that_are_dropped_from_every_group_pass_without_a_word(tmp_path):
    frame = table()
    frame.iloc[::7, 2] = np.nan
    for X, groups in sources(frame, tmp_path).values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fair = FairPCA(1, on_missing="drop").fit(X, sensitive_features=groups)
        assert fair.groups_.tolist() == ["a", "b", "c"]
        assert not fair.moments_.lost_groups


def test_several_columns_and_groups_are_named_with_their_rows():
    frame = remove_cells(remove_cells(table(), "pay", ("b", "c")), "age", ("c",))
    frame.loc[np.flatnonzero(GROUPS == "b")[:3], "height"] = np.nan
    with pytest.warns(FairspanWarning) as record:
        FairPCA(1, on_missing="drop", missing_groups="ignore").fit(frame, sensitive_features=GROUPS)
    message = str(record[0].message)
    assert "all 40 rows of group 'b' (missing: 'pay' in 40 rows, 'height' in 3 rows)" in message
    assert "all 40 rows of group 'c' (missing: 'age' in 40 rows, 'pay' in 40 rows)" in message


def test_a_group_that_is_kept_in_one_class_of_y_is_not_lost():
    y = np.arange(N) // 3 % 2
    frame = table()
    frame.loc[(GROUPS == "c") & (y == 1), "pay"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moments = GroupMoments.from_rows(frame, GROUPS, y=y, on_missing="drop")
    assert moments.groups.tolist() == ["a", "b", "c"]
    fair = FairPCA(1, restriction=MeanParity(within_classes=[0]), on_missing="drop")
    with pytest.warns(FairspanWarning, match=LOST.format("'pay'")):
        fair.fit(remove_cells(table(), "pay"), y, sensitive_features=GROUPS)


def test_a_group_in_which_nothing_is_observed_is_lost_with_em_too():
    frame = table()
    frame.loc[GROUPS == "c"] = np.nan
    with pytest.warns(FairspanWarning) as record:
        fair = FairPCA(1, on_missing="em-drop-empty").fit(frame, sensitive_features=GROUPS)
    assert fair.groups_.tolist() == ["a", "b"]
    assert any("all 40 rows of group 'c'" in str(warning.message) for warning in record)
    frame.loc[np.flatnonzero(GROUPS == "c")[0]] = 1.0
    with pytest.warns(FairspanWarning) as record:
        FairPCA(1, on_missing="em-drop-empty").fit(frame, sensitive_features=GROUPS)
    assert len(record) == 1


def test_a_group_without_weight_is_not_lost():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = (GROUPS != "c").astype(float)
        fair = FairPCA(1, on_missing="drop")
        fair.fit(remove_cells(table(), "pay"), sensitive_features=GROUPS, sample_weight=weights)
    assert fair.groups_.tolist() == ["a", "b"]


@pytest.mark.filterwarnings("ignore::fairspan.errors.FairspanWarning")
def test_moments_of_sparse_rows_know_the_groups_that_were_lost():
    rows = np.zeros((N, 40))
    rows[np.arange(N), np.arange(N) % 40] = np.arange(N) + 1.0
    rows[GROUPS == "c", 0] = np.nan
    rows[1, 0] = np.nan  # one of group "b"
    X = sparse.csr_array(rows)
    moments = GroupMoments.from_rows(X, GROUPS, on_missing="drop")
    assert (moments.labels, moments.lost_groups) == (["a", "b"], {"c"})
    weights = (GROUPS != "c").astype(float)
    absent = GroupMoments.from_rows(X, GROUPS, weights, on_missing="drop")
    assert (absent.labels, absent.lost_groups) == (["a", "b"], frozenset())


def test_the_advice_of_the_warning_keeps_the_group():
    frame = remove_cells(table(), "pay")
    with pytest.warns(FairspanWarning, match="Exclude these columns"):
        FairPCA(1, on_missing="drop").fit(frame, sensitive_features=GROUPS)
    fair = FairPCA(1, on_missing="drop").fit(frame.drop(columns="pay"), sensitive_features=GROUPS)
    assert fair.groups_.tolist() == ["a", "b", "c"]


def test_rows_added_later_warn_of_their_own_groups():
    fair = FairPCA(1, on_missing="drop").fit(table(), sensitive_features=GROUPS)
    with pytest.warns(FairspanWarning, match=LOST.format("'pay'")):
        fair.partial_fit(remove_cells(table(), "pay"), sensitive_features=GROUPS)
    assert fair.groups_.tolist() == ["a", "b", "c"]


def test_an_empty_column_that_costs_all_rows_is_named(tmp_path):
    frame = table().assign(empty=np.nan)
    for name, (X, groups) in sources(frame, tmp_path).items():
        column = "x4" if name in ("array", "sparse") else "'empty'"
        for make in (
            lambda X, groups: FairPCA(1, on_missing="drop").fit(X, sensitive_features=groups),
            lambda X, groups: GroupMoments.from_rows(X, groups, on_missing="drop"),
            lambda X, groups: audit(np.eye(5)[:1], X, groups, on_missing="drop"),
        ):
            with pytest.raises(InvalidInput, match=f"column {column} has no value"):
                make(X, groups)


def test_columns_that_together_cost_all_rows_are_named_with_their_rows():
    frame = remove_cells(remove_cells(table(), "pay", ("a", "b")), "age", ("c",))
    with pytest.raises(InvalidInput, match="missing in 'pay' in 80 rows, 'age' in 40 rows"):
        FairPCA(1, on_missing="drop").fit(frame, sensitive_features=GROUPS)


def test_rows_that_all_lack_a_group_are_reported():
    with pytest.raises(InvalidInput, match="120 rows without a group"):
        FairPCA(1, on_missing="drop").fit(table(), sensitive_features=[None] * N)


DECLARED = {
    "moments": lambda z: GroupMoments.from_rows(table(), z),
    "values": lambda z: GroupMoments.from_rows(table(), z.array),
    "fit": lambda z: FairPCA(1).fit(table(), sensitive_features=z),
    "column": lambda z: FairPCA(1).fit(table().assign(g=z), sensitive_features="g"),
    "crossed": lambda z: FairPCA(1).fit(
        table(), sensitive_features=pd.DataFrame({"g": z, "h": GROUPS})
    ),
    "audit": lambda z: audit(np.eye(4)[:1], table(), z, folds=None),
}


@pytest.mark.parametrize(
    "door",
    [pytest.param(door, marks=pytest.mark.slow if door == "audit" else ()) for door in DECLARED],
)
def test_declared_categories_without_rows_are_named(door):
    declared = pd.Series(pd.Categorical(GROUPS, categories=["a", "b", "c", "d", "e"]))
    with pytest.warns(FairspanWarning, match="categories 'd', 'e'"):
        DECLARED[door](declared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DECLARED[door](declared.cat.remove_unused_categories())
