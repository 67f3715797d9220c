"""An identifier is no group: too many groups are refused, by name, before a matrix is made."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from somebody_elses_parts.sqlite_rows import SqliteRows, SqliteTable

from fairspan import FairPCA, GroupMoments
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.rows import protocol

N, P = 3000, 5
X = np.random.default_rng(3).normal(size=(N, P))
IDS = np.arange(N)
NAMES = [f"x{i}" for i in range(P)]
FRAME = pd.DataFrame(X, columns=NAMES).assign(person=IDS, site=IDS % 7)

REFUSED = (
    r"The column 'person' has 3000 groups among 3000 rows, so its values look like an identifier "
    r".*up to 100 groups, or at most a third .*another column .*bins.*max_groups=3000"
)


@pytest.fixture
def no_matrices(monkeypatch):
    """Fail where a matrix of a group is begun."""

    def fail(*_):
        pytest.fail("a matrix was made")

    monkeypatch.setattr("fairspan.moments.accumulate._summed", fail)
    monkeypatch.setattr("fairspan.moments.sparse.RowGroup.of", fail)


def csv(tmp_path):
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def parquet(tmp_path):
    FRAME.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


TABLES = {
    "pandas": lambda _: FRAME,
    "polars": lambda _: pl.from_pandas(FRAME),
    "arrow": lambda _: pa.Table.from_pandas(FRAME),
    "stream": lambda _: pa.Table.from_pandas(FRAME).to_reader(max_chunksize=64),
    "csv": csv,
    "parquet": parquet,
}


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("kind", TABLES)
def test_a_column_with_a_group_for_each_row_is_refused_by_name(kind, tmp_path):
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(TABLES[kind](tmp_path), "person")


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("kind", TABLES)
def test_intersections_are_refused_by_all_names(kind, tmp_path):
    refused = r"The columns 'person', 'site' make 3000 groups among 3000 rows"
    with pytest.raises(InvalidInput, match=refused):
        GroupMoments.from_rows(TABLES[kind](tmp_path), ["person", "site"])


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("n_features", [5, 600, 1600, 4000])
@pytest.mark.parametrize("kind", ["dense", "sparse", "sparse and full", "weighted"])
def test_labels_beside_rows_of_any_width_are_refused(kind, n_features):
    rows = np.zeros((400, n_features))
    rows[:, :2] = X[:400, :2]
    if kind == "sparse and full":
        rows += 1.0
    table = rows if kind in ("dense", "weighted") else scipy.sparse.csr_array(rows)
    # Rows count, whatever they weigh.
    weights = np.full(400, 1000.0) if kind == "weighted" else None
    model = FairPCA(1)
    with pytest.raises(InvalidInput, match="There are 400 groups among 400 rows, so the labels"):
        model.fit(table, sensitive_features=IDS[:400], sample_weight=weights)
    assert not hasattr(model, "moments_")
    with pytest.raises(InvalidInput, match="The column 'person' has 400 groups among 400 rows"):
        model.fit(table, sensitive_features=FRAME.person[:400], sample_weight=weights)


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("labels_there", [True, False])
def test_arrays_of_other_packages_are_refused(labels_there):
    xp = pytest.importorskip("array_api_strict")
    labels = xp.asarray(IDS) if labels_there else FRAME.person
    with pytest.raises(InvalidInput, match="3000 groups among 3000 rows"):
        GroupMoments.from_rows(xp.asarray(X), labels)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    ("n_groups", "n_rows", "is_refused"),
    [(101, 302, True), (101, 303, False), (100, 100, False), (101, 3000, False)],
)
@pytest.mark.parametrize("ordered", [False, True])
def test_a_third_of_the_rows_is_where_it_ends(n_groups, n_rows, is_refused, text, ordered):
    labels = np.arange(n_rows) % n_groups
    labels = np.sort(labels) if ordered else labels
    labels = labels.astype(str) if text else labels
    if is_refused:
        with pytest.raises(InvalidInput, match=f"{n_groups} groups among {n_rows} rows"):
            GroupMoments.from_rows(X[:n_rows], labels)
        return
    counts = np.unique(labels, return_counts=True)[1]
    assert GroupMoments.from_rows(X[:n_rows], labels).counts.tolist() == counts.tolist()


def test_rows_of_weight_zero_do_not_count():
    weights = np.where(IDS < 300, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="150 groups among 300 rows"):
        GroupMoments.from_rows(X, IDS % 150, weights)
    # Nor do the groups that only such rows have.
    weights = np.where(IDS % 30 == 0, 1.0, 0.0)
    assert GroupMoments.from_rows(X, IDS, weights).n_groups == 100


@pytest.mark.parametrize("kind", TABLES)
def test_max_groups_allows_them_and_no_more(kind, tmp_path):
    few = FRAME[:400]
    allowed = GroupMoments.from_rows(few, "person", max_groups=400)
    assert allowed.n_groups == 400
    with pytest.raises(InvalidInput, match=r"'person' has 400 groups .*max_groups is 399.*at most"):
        GroupMoments.from_rows(few, "person", max_groups=399)
    # Also few groups of many rows.
    assert GroupMoments.from_rows(TABLES[kind](tmp_path), "site", max_groups=7).n_groups == 7
    with pytest.raises(InvalidInput, match=r"'site' has 7 groups .*max_groups is 6.*larger"):
        GroupMoments.from_rows(TABLES[kind](tmp_path), "site", max_groups=6)


@pytest.mark.parametrize(
    ("value", "kind"), [(0, InvalidParameter), (-1, InvalidParameter), (2.0, InvalidType)]
)
def test_max_groups_is_a_whole_number(value, kind):
    for read in (GroupMoments.from_rows, lambda *rows, max_groups: _fitted(*rows, max_groups)):
        with pytest.raises(kind, match=f"max_groups is {value}.*whole number of at least 1"):
            read(X, IDS % 2, max_groups=value)


def _fitted(rows, labels, max_groups):
    return FairPCA(1, max_groups=max_groups).fit(rows, sensitive_features=labels)


# Each group has three rows, but the first parts hold many groups of one row.
SORTED = FRAME.assign(person=np.r_[np.repeat(np.arange(600), 1), np.tile(np.arange(600), 4)])


@pytest.mark.parametrize("size", [100, 250, 3000])
def test_parts_may_hold_many_groups_if_all_rows_do_not(size, tmp_path):
    path = tmp_path / "people.parquet"
    SORTED.to_parquet(path, row_group_size=size)
    moments = GroupMoments.from_rows(path, "person")
    assert moments.counts.tolist() == [5] * 600
    stream = pa.Table.from_pandas(SORTED).to_reader(max_chunksize=size)
    for same in (stream, SORTED):
        np.testing.assert_allclose(
            GroupMoments.from_rows(same, "person").scatters, moments.scatters, atol=1e-9
        )


@pytest.mark.parametrize("size", [100, 1000])
def test_parts_are_refused_together(size, tmp_path):
    path = tmp_path / "people.parquet"
    FRAME.to_parquet(path, row_group_size=size)
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(path, "person")


def test_a_part_is_refused_where_its_matrices_would_be_large(tmp_path, monkeypatch):
    path = tmp_path / "people.parquet"
    FRAME.to_parquet(path, row_group_size=1000)
    room = 1500 * ((P + 1) ** 2 + protocol._BESIDE_THE_MATRIX)
    monkeypatch.setattr(protocol, "_ROOM_OF_A_PART", room)
    # The second part is refused when it is added to the first.
    with pytest.raises(InvalidInput, match=r"row group 1: .*2000 groups .* so far.*max_groups=N"):
        GroupMoments.from_rows(path, "person")
    monkeypatch.setattr(protocol, "_ROOM_OF_A_PART", room / 3)
    monkeypatch.setattr(
        "fairspan.moments.accumulate._summed", lambda *_: pytest.fail("a matrix was made")
    )
    with pytest.raises(InvalidInput, match=r"row group 0: .*1000 groups .* so far"):
        GroupMoments.from_rows(path, "person")


def test_dask_names_the_column():
    dd, da = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    frame = dd.from_pandas(FRAME, npartitions=3)
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(frame, "person")
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(da.from_array(X, chunks=(1000, P)), FRAME.person)
    with pytest.raises(InvalidInput, match="There are 3000 groups among 3000 rows"):
        GroupMoments.from_rows(
            da.from_array(X, chunks=(1000, P)), da.from_array(IDS, chunks=(1000,))
        )
    assert GroupMoments.from_rows(frame, "site", max_groups=7).n_groups == 7


@pytest.mark.usefixtures("no_matrices")
def test_rows_of_somebody_elses_source_are_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        FRAME.to_sql("people", database, index=False)
    table = SqliteTable(str(tmp_path / "people.db"), "people")
    rows = SqliteRows(table, tuple(NAMES), "person")
    with pytest.raises(InvalidInput, match="There are 3000 groups among 3000 rows"):
        GroupMoments.from_rows(rows, None)
