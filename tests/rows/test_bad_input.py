"""Rows, labels and groups that cannot be used are refused, with what is allowed and what to do."""

import json
import re
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from somebody_elses_parts.sqlite_rows import SqliteRows, SqliteTable

from case_selection import parametrize_diagonal
from fairspan import FairPCA, FairSubspace, GroupMoments, audit
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType

X = np.arange(18.0).reshape(6, 3) ** 1.5
LABELS = list("aababb")
FRAME = pd.DataFrame(X, columns=["x", "y", "z"])


def with_cell(value, dtype=np.float64):
    rows = X.astype(dtype)
    rows[4, 1] = value
    return rows


def frame_with(values):
    return FRAME.assign(y=values)


TABLES = {
    "NaN": (
        with_cell(np.nan),
        InvalidInput,
        "NaN, first in row 5 (index 4), column 2 (index 1)",
        'on_missing="em"',
    ),
    "infinity": (
        with_cell(np.inf),
        InvalidInput,
        "infinity, first in row 5 (index 4), column 2 (index 1)",
        "finite",
    ),
    "minus infinity": (
        with_cell(-np.inf),
        InvalidInput,
        "infinity, first in row 5 (index 4)",
        "finite",
    ),
    "NaN in float32": (
        with_cell(np.nan, np.float32),
        InvalidInput,
        "NaN, first in row 5 (index 4)",
        "Drop rows with NaN",
    ),
    "None in objects": (
        with_cell(None, object),
        InvalidInput,
        "NaN, first in row 5 (index 4)",
        "Drop rows with NaN",
    ),
    "NaN in pandas": (
        frame_with([1, 2, 3, 4, np.nan, 6]),
        InvalidInput,
        "column 'y'",
        "Drop rows",
    ),
    "NA in pandas": (
        frame_with(pd.array([1, 2, 3, 4, None, 6], dtype="Int64")),
        InvalidInput,
        "NaN, first in row 5 (index 4), column 'y'",
        "Drop rows with NaN",
    ),
    "null in polars": (
        pl.DataFrame({"x": [1, 2, 3, 4, None, 6]}),
        InvalidInput,
        "NaN, first in row 5 (index 4), column 'x'",
        "Drop rows with NaN",
    ),
    "null in pyarrow": (
        pa.table({"x": [1, 2, 3, 4, None, 6]}),
        InvalidInput,
        "column 'x'",
        "Drop rows",
    ),
    "text column": (
        frame_with(LABELS),
        InvalidInput,
        "'y' is not numeric (str",
        "encode",
    ),
    "categorical column": (
        frame_with(pd.Categorical(LABELS)),
        InvalidInput,
        "'y' is not numeric (category",
        "encode",
    ),
    "dates column": (
        frame_with(pd.date_range("2020", periods=6)),
        InvalidInput,
        "is not numeric (datetime64",
        "encode",
    ),
    "object column": (
        frame_with(pd.Series([1, 2, "three", 4, 5, 6], dtype=object)),
        InvalidInput,
        "'y', of dtype object",
        "encode",
    ),
    "text": ([["1", "2"]] * 6, InvalidInput, "X contains text", "encode"),
    "words in objects": (with_cell("one", object), InvalidInput, "non-numeric values", "encode"),
    "things in objects": (with_cell({}, object), InvalidType, "non-numeric values", "encode"),
    "huge whole numbers": ([[10**400, 1]] * 6, InvalidInput, "non-numeric values", "encode"),
    "dates": (np.zeros((6, 2), "M8[s]"), InvalidType, "dates or durations", "encode"),
    "complex": (X + 1j, InvalidInput, "complex", "separate features"),
    "one dimension": (X[:, 0], InvalidInput, "1 dimension, shape (6,)", "X.reshape(1, -1)"),
    "three dimensions": (X[None], InvalidInput, "3 dimensions, shape (1, 6, 3)", "Reshape"),
    "a Series": (FRAME["x"], InvalidInput, "1 dimension, shape (6,)", "df.iloc[[0]]"),
    "nothing": (None, InvalidType, "of type NoneType", "(n rows, p features)"),
    "a mapping": ({"x": [1, 2]}, InvalidType, "of type dict", "(n rows, p features)"),
    "a generator": ((row for row in X), InvalidType, "of type generator", "Load the rows"),
    "a number": (3.0, InvalidInput, "0 dimensions", "(n rows, p features)"),
    "ragged": ([[1, 2], [3]] * 3, InvalidInput, "cannot be read as a table", "equally long"),
    "no rows": (X[:0], InvalidInput, "0 row(s) (shape=(0, 3))", "at least one row"),
    "no rows in pandas": (FRAME[:0], InvalidInput, "0 row(s) (shape=(0, 3))", "at least one row"),
    "no columns": (X[:, :0], InvalidInput, "0 feature(s) (shape=(6, 0))", "at least one"),
    "no columns in pandas": (FRAME[[]], InvalidInput, "0 feature(s) (shape=(6, 0))", "at least"),
    "no columns in polars": (pl.DataFrame(), InvalidInput, "0 row(s)", "at least one row"),
    "columns of one name": (FRAME.set_axis(["x", "x", "z"], axis=1), InvalidInput, "'x'", "Rename"),
    "equal names in pyarrow": (
        pa.table([X[:, 0], X[:, 1]], names=["x", "x"]),
        InvalidInput,
        "'x'",
        "Rename",
    ),
    "masked": (np.ma.masked_less(X, 3), InvalidInput, "masked", "Fill in or drop"),
    "masked rows": (list(np.ma.masked_less(X, 3)), InvalidInput, "masked", "Fill in or drop"),
    "some names of text": (
        FRAME.set_axis(["x", 1, 2], axis=1),
        InvalidType,
        "others are not: 1, 2",
        "Rename the columns",
    ),
    "None for a name": (
        FRAME.set_axis(pd.Index(["x", "y", None], dtype=object), axis=1),
        InvalidType,
        "others are not: None",
        "Rename the columns",
    ),
    "NaN for a name": (
        FRAME.set_axis(pd.Index(["x", np.nan, "z"], dtype=object), axis=1),
        InvalidType,
        "others are not: nan",
        "Rename the columns",
    ),
    "lazy": (
        pl.LazyFrame({"x": range(6)}),
        InvalidInput,  # a list names columns, as lazy rows have no separate labels
        "no columns 'a', 'b'",
        "Its columns are 'x'",
    ),
}

WEIGHTS = {
    "negative": ([1, 1, -1e-9, 1, 1, 1], "negative", "Correct or drop"),
    "NaN": ([1, 1, np.nan, 1, 1, 1], "NaN", "Correct or drop"),
    "infinite": ([1, 1, np.inf, 1, 1, 1], "infinite", "Correct or drop"),
    "all zero": ([0.0] * 6, "or no positive one", "not all zero"),
    "too few": ([1.0] * 5, "shape (5,) for 6 rows", "same rows"),
    "too many": ([1.0] * 7, "shape (7,) for 6 rows", "same rows"),
    "a column": (np.ones((6, 1)), "shape (6, 1) for 6 rows", "one weight per row"),
    "a number": (2.0, "shape () for 6 rows", "one weight per row"),
    "text": (["one"] * 6, "non-numeric values", "Convert the weights"),
    "missing": (pd.Series([1, None, 1, 1, 1, 1], dtype="Int64"), "NaN", "Correct or drop"),
    "masked": (np.ma.masked_less(np.arange(6.0), 2), "masked", "Convert the weights"),
    "complex": (np.ones(6) * 1j, "complex", "Convert the weights"),
    "another order": (
        pd.Series(np.ones(6))[::-1],
        "at position 0, X has 0 and sample_weight has 5",
        "sample_weight.loc[X.index]",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_bad_tables_are_refused_and_leave_the_estimator_unfitted(case):
    table, kind, problem, remedy = TABLES[case]
    estimator = FairPCA(1)
    with pytest.raises(kind) as error:
        estimator.fit(table, sensitive_features=LABELS)
    assert problem in str(error.value)
    assert remedy in str(error.value)
    assert vars(estimator) == vars(FairPCA(1))
    if case != "a generator":  # which is read once
        with pytest.raises(kind) as again:
            GroupMoments.from_rows(table, LABELS)
        assert again.value.args[:2] == error.value.args[:2]


def test_a_name_of_weights_needs_names_of_columns():
    with pytest.raises(InvalidInput, match="'w', but X has no"):
        GroupMoments.from_rows(X, LABELS, "w")


@pytest.mark.parametrize("case", WEIGHTS)
def test_bad_weights_are_refused(case):
    weights, problem, remedy = WEIGHTS[case]
    with pytest.raises(InvalidInput, match=f"(?s){re.escape(problem)}.*{re.escape(remedy)}"):
        GroupMoments.from_rows(FRAME, LABELS, weights)


def test_rows_of_a_later_block_are_counted_from_the_table():
    wide = np.zeros((3000, 400))
    wide[2345, 17] = np.nan
    with pytest.raises(
        InvalidInput, match=r"NaN, first in row 2346 \(index 2345\), column 18 \(index 17\)"
    ):
        GroupMoments.from_rows(wide, np.arange(3000) % 2)
    frame = pd.DataFrame(wide, columns=[f"c{j}" for j in range(400)])
    with pytest.raises(InvalidInput, match=r"NaN, first in row 2346 \(index 2345\), column 'c17'"):
        GroupMoments.from_rows(frame, np.arange(3000) % 2)


@pytest.mark.parametrize("table", [np.full((6, 3), 1e308), FRAME * 0 + 1e308])
def test_large_finite_numbers_are_not_taken_for_infinity(table):
    # Their sum is infinite, which is how infinity is looked for.
    with pytest.raises(InvalidInput, match=r"of about 1e\+308"):
        GroupMoments.from_rows(table, LABELS)


TEXT = ["a", "b", "a", "b", None, "b"]
NON_INTEGER_LABELS = [0.5, 1.5, 0.5, 1.5, np.nan, 1.5]
MISSING = "label in row 5 (index 4) is missing"

BAD_LABELS = {
    "None in a list": (TEXT, MISSING, "unknown"),
    "None in an object array": (np.array(TEXT, dtype=object), MISSING, "unknown"),
    "missing text in pandas": (pd.Series(TEXT), MISSING, "unknown"),
    "missing string in pandas": (pd.Series(TEXT, dtype="string"), MISSING, "unknown"),
    "missing object in pandas": (pd.Series(TEXT, dtype=object), MISSING, "unknown"),
    "missing category": (pd.Series(TEXT, dtype="category"), MISSING, "unknown"),
    "missing Int64": (pd.Series([1, 2, 1, 2, None, 2], dtype="Int64"), MISSING, "unknown"),
    "missing boolean": (pd.Series([True] * 4 + [None, True], dtype="boolean"), MISSING, "unknown"),
    "null in polars": (pl.Series(TEXT), MISSING, "unknown"),
    "null in pyarrow": (pa.array(TEXT), MISSING, "unknown"),
    "null in chunks": (pa.chunked_array([TEXT]), MISSING, "unknown"),
    "NaN in a list": (NON_INTEGER_LABELS, MISSING, "unknown"),
    "NaN in numpy": (np.array(NON_INTEGER_LABELS), MISSING, "unknown"),
    "NaN among text": (np.array([*TEXT[:4], np.nan, "b"], dtype=object), MISSING, "unknown"),
    "missing in one of two": (
        pd.DataFrame({"s": TEXT, "r": [1, 2, 1, 2, 1, 2]}),
        MISSING,
        "unknown",
    ),
    "null in one of two": (pl.DataFrame({"s": TEXT, "r": [1] * 6}), MISSING, "unknown"),
    "masked": (np.ma.array([1, 2] * 3, mask=[0, 0, 0, 0, 1, 0]), "masked labels", "unknown"),
    "1 and '1'": (
        [1, "1", 1, 1, 1, 1],
        "mix integer with text (row 2 (index 1): '1')",
        "astype(str)",
    ),
    "1 and True": (
        [1, 1, True, 1, 1, 1],
        "mix integer with boolean (row 3 (index 2)",
        "astype",
    ),
    "'1' and 1": (["1", 1] * 3, "mix text with integer (row 2 (index 1): 1)", "astype"),
    "1 and 1.0": (
        [1, 1.0] * 3,
        "mix integer with float (row 2 (index 1): 1.0)",
        "astype",
    ),
    "text and a tuple": (["a", ("a", 1)] * 3, "mix text with (text, integer)", "astype"),
    "tuples of two kinds": (
        [("a", 1), ("a", "1")] * 3,
        "mix (text, integer) with (text, text) (row 2 (index 1): ('a', '1'))",
        "astype",
    ),
    "a tuple with a gap": ([("a", 1)] * 4 + [("a", None), ("b", 1)], MISSING, "unknown"),
    "too few": (list("ababa"), "6 rows in X, 5 labels", "same rows"),
    "too many": (np.array(list("abababa")), "6 rows in X, 7 labels", "same rows"),
    "too few rows of two": (np.ones((5, 2)), "6 rows in X, 5 labels", "same rows"),
    "none at all": ([], "6 rows in X, 0 labels", "same rows"),
    "a number": (3, "type int and shape ()", "Pass one label"),
    "three dimensions": (np.ones((6, 2, 2)), "type ndarray and shape (6, 2, 2)", "intersections"),
    "no attribute": (pd.DataFrame(index=range(6)), "type DataFrame and shape (6, 0)", "one label"),
    "no attribute in numpy": (np.ones((6, 0)), "type ndarray and shape (6, 0)", "one label"),
    "not given": (None, "sensitive_features is missing", 'missing_groups="ignore"'),
}


@pytest.mark.parametrize("table", [X, FRAME], ids=["numpy", "pandas"])
@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_refused(case, table):
    labels, problem, remedy = BAD_LABELS[case]
    with pytest.raises(InvalidInput) as error:
        GroupMoments.from_rows(table, labels)
    assert problem in str(error.value)
    assert remedy in str(error.value)


@pytest.mark.parametrize(
    "labels",
    [pd.Series(pd.date_range("2020", periods=6)), [b"a"] * 6, [{1}] * 6, [1j] * 6],
    ids=["dates", "bytes", "sets", "complex"],
)
def test_values_that_name_no_group_are_refused(labels):
    with pytest.raises(InvalidType, match=r"row 1 \(index 0\) .*astype\(str\)"):
        GroupMoments.from_rows(X, labels)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("values", [TEXT, NON_INTEGER_LABELS])
def test_a_missing_label_in_a_column_of_the_table(frame, values):
    table = frame({"x": X[:, 0], "g": values})
    with pytest.raises(InvalidInput, match=r"row 5 \(index 4\) is missing"):
        GroupMoments.from_rows(table, "g")
    crossed = frame({"x": X[:, 0], "g": values, "h": [1] * 6})
    with pytest.raises(InvalidInput, match=r"row 5 \(index 4\) is missing"):
        GroupMoments.from_rows(crossed, ["h", "g"])


def test_unknown_column_names_are_refused():
    with pytest.raises(InvalidInput, match=r"no column 'sex'.*'x', 'y', 'z'.*Correct"):
        GroupMoments.from_rows(FRAME, "sex")
    with pytest.raises(InvalidInput, match="no column 'sex'"):
        GroupMoments.from_rows(FRAME, ["x", "sex"])


@pytest.mark.parametrize("table", [X, X.tolist()], ids=["numpy", "list"])
def test_a_name_needs_a_table_with_names(table):
    with pytest.raises(InvalidInput, match=r"'sex', but X has no column names.*data frame"):
        GroupMoments.from_rows(table, "sex")


def test_a_text_column_may_be_that_of_the_groups_only_where_groups_are_taken():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [4.0, 3.0], "sex": ["f", "m"]})
    with pytest.raises(InvalidInput, match=r"'sex' is not numeric.*as sensitive_features"):
        GroupMoments.from_rows(frame, np.array(["a", "b"]))
    with pytest.raises(InvalidInput, match="'sex' is not numeric") as error:
        FairPCA(1, missing_groups="ignore").fit(frame)
    assert "sensitive_features" not in str(error.value)


def test_a_list_that_may_be_names_or_labels_is_refused():
    square = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]})
    with pytest.raises(InvalidInput, match="column names or labels"):
        GroupMoments.from_rows(square, ["a", "b"])
    # As an array it can only be labels.
    assert GroupMoments.from_rows(square, np.array(["a", "b"])).labels == ["a", "b"]


def test_naming_every_column_leaves_no_feature():
    with pytest.raises(InvalidInput, match=r"0 feature\(s\)"):
        GroupMoments.from_rows(pd.DataFrame({"g": list("aab")}), "g")


def test_a_column_next_to_the_rows_that_is_not_there():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]})
    with pytest.raises(InvalidInput, match="no column 'hired'"):
        GroupMoments.from_rows(frame, np.array(["a", "b"]), y="hired")


N, P = 3000, 5
PEOPLE = np.random.default_rng(3).normal(size=(N, P))
IDS = np.arange(N)
COLUMNS = [f"x{i}" for i in range(P)]
PERSONS = pd.DataFrame(PEOPLE, columns=COLUMNS).assign(person=IDS, site=IDS % 7)

REFUSED = (
    r"'person' has \d+ groups among \d+ rows.*identifier.*100 groups.*another column"
    r".*bin continuous.*max_groups=(3000|N)"
)


@pytest.fixture
def no_matrices(monkeypatch):
    """Fail where a matrix of a group is allocated."""

    def fail(*_):
        pytest.fail("a matrix was made")

    monkeypatch.setattr("fairspan.moments.accumulate._sum_by_code", fail)
    monkeypatch.setattr("fairspan.moments.group_rows.GroupRows.from_rows", fail)


def csv(tmp_path):
    PERSONS.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def parquet(tmp_path):
    PERSONS.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


KINDS = {
    "pandas": lambda _: PERSONS,
    "polars": lambda _: pl.from_pandas(PERSONS),
    "arrow": lambda _: pa.Table.from_pandas(PERSONS),
    "stream": lambda _: pa.Table.from_pandas(PERSONS).to_reader(max_chunksize=64),
    "csv": csv,
    "parquet": parquet,
}


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_with_a_group_for_each_row_is_refused_by_name(kind, tmp_path):
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(KINDS[kind](tmp_path), "person")


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("kind", KINDS)
def test_intersections_are_refused_by_all_names(kind, tmp_path):
    message = r"Columns 'person', 'site' define \d+ groups among \d+ rows"
    with pytest.raises(InvalidInput, match=message):
        GroupMoments.from_rows(KINDS[kind](tmp_path), ["person", "site"])


@pytest.mark.usefixtures("no_matrices")
@parametrize_diagonal(
    n_features=[5, 600, 1600, 4000], kind=["dense", "sparse", "sparse and full", "weighted"]
)
def test_labels_next_to_rows_of_any_width_are_refused(kind, n_features):
    rows = np.zeros((400, n_features))
    rows[:, :2] = PEOPLE[:400, :2]
    if kind == "sparse and full":
        rows += 1.0
    table = rows if kind in ("dense", "weighted") else scipy.sparse.csr_array(rows)
    # Rows count, whatever they weigh.
    weights = np.full(400, 1000.0) if kind == "weighted" else None
    model = FairPCA(1)
    with pytest.raises(InvalidInput, match="There are 400 groups among 400 rows, so the labels"):
        model.fit(table, sensitive_features=IDS[:400], sample_weight=weights)
    assert not hasattr(model, "moments_")
    with pytest.raises(InvalidInput, match="Column 'person' has 400 groups among 400 rows"):
        model.fit(table, sensitive_features=PERSONS.person[:400], sample_weight=weights)


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("labels_there", [True, False])
def test_arrays_of_other_packages_are_refused(labels_there):
    xp = pytest.importorskip("array_api_strict")
    labels = xp.asarray(IDS) if labels_there else PERSONS.person
    with pytest.raises(InvalidInput, match="3000 groups among 3000 rows"):
        GroupMoments.from_rows(xp.asarray(PEOPLE), labels)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("n_groups", "is_refused"), [(100, False), (101, True)])
@pytest.mark.parametrize("ordered", [False, True])
def test_more_than_a_hundred_groups_are_refused(n_groups, is_refused, text, ordered):
    labels = np.arange(N) % n_groups
    labels = np.sort(labels) if ordered else labels
    labels = labels.astype(str) if text else labels
    if is_refused:
        with pytest.raises(InvalidInput, match=f"{n_groups} groups among {N} rows"):
            GroupMoments.from_rows(PEOPLE, labels)
        return
    counts = np.unique(labels, return_counts=True)[1]
    assert GroupMoments.from_rows(PEOPLE, labels).counts.tolist() == counts.tolist()


def test_rows_of_weight_zero_do_not_count():
    weights = np.where(IDS < 300, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="150 groups among 300 rows"):
        GroupMoments.from_rows(PEOPLE, IDS % 150, weights)
    # Nor do the groups that only such rows have.
    weights = np.where(IDS % 30 == 0, 1.0, 0.0)
    assert GroupMoments.from_rows(PEOPLE, IDS, weights).n_groups == 100


def test_max_groups_allows_a_group_for_each_row():
    few = PERSONS[:400]
    moments = GroupMoments.from_rows(few, "person", max_groups=400)
    assert moments.n_groups == 400
    with pytest.raises(InvalidInput, match=r"'person' has 400 groups .*max_groups is 399.*at most"):
        GroupMoments.from_rows(few, "person", max_groups=399)


@pytest.mark.parametrize("kind", KINDS)
def test_max_groups_allows_so_many_groups_of_many_rows_and_no_more(kind, tmp_path):
    assert GroupMoments.from_rows(KINDS[kind](tmp_path), "site", max_groups=7).n_groups == 7
    with pytest.raises(
        InvalidInput, match=r"'site' has 7 groups .*max_groups is 6.*Raise the limit"
    ):
        GroupMoments.from_rows(KINDS[kind](tmp_path), "site", max_groups=6)


@pytest.mark.parametrize(
    ("value", "kind"), [(0, InvalidParameter), (-1, InvalidParameter), (2.0, InvalidType)]
)
def test_max_groups_is_an_integer(value, kind):
    for function in (GroupMoments.from_rows, lambda *rows, max_groups: _fit(*rows, max_groups)):
        with pytest.raises(kind, match=f"max_groups is {value}.*integer of at least 1"):
            function(PEOPLE, IDS % 2, max_groups=value)


def _fit(rows, labels, max_groups):
    return FairPCA(1, max_groups=max_groups).fit(rows, sensitive_features=labels)


@pytest.mark.parametrize("size", [80, 1000])
def test_parts_are_refused_together(size, tmp_path):
    path = tmp_path / "people.parquet"
    PERSONS.to_parquet(path, row_group_size=size)
    # Parts of 80 rows have few groups each: the second is refused when it is added to the first.
    with pytest.raises(InvalidInput, match=REFUSED + r"\."):
        GroupMoments.from_rows(path, "person")


@pytest.mark.slow
def test_dask_names_the_column():
    dd, da = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    frame = dd.from_pandas(PERSONS, npartitions=3)
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(frame, "person")
    with pytest.raises(InvalidInput, match=REFUSED):
        GroupMoments.from_rows(da.from_array(PEOPLE, chunks=(1000, P)), PERSONS.person)
    with pytest.raises(InvalidInput, match="There are 1000 groups among 1000 rows so far"):
        GroupMoments.from_rows(
            da.from_array(PEOPLE, chunks=(1000, P)), da.from_array(IDS, chunks=(1000,))
        )
    assert GroupMoments.from_rows(frame, "site", max_groups=7).n_groups == 7


@pytest.mark.usefixtures("no_matrices")
def test_rows_of_somebody_elses_source_are_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        PERSONS.to_sql("people", database, index=False)
    table = SqliteTable(str(tmp_path / "people.db"), "people")
    rows = SqliteRows(table, tuple(COLUMNS), "person")
    with pytest.raises(InvalidInput, match="There are 3000 groups among 3000 rows"):
        GroupMoments.from_rows(rows, None)


@pytest.mark.parametrize("kind", ["series", "column", "series of intervals", "crossed"])
def test_intervals_of_pandas_are_labels(kind, tmp_path):
    ages = np.arange(60) % 80
    age_ranges = pd.cut(pd.Series(ages), [-1, 29, 59, 100])
    X = pd.DataFrame(PEOPLE[:60], columns=COLUMNS)
    sex = pd.Series(["f", "m"] * 30, name="sex")
    expected = ["(-1, 29]", "(29, 59]", "(59, 100]"][: len(set(age_ranges))]
    labels = {
        "series": age_ranges,
        "column": "age",
        "series of intervals": pd.Series(list(age_ranges)),
        "crossed": pd.DataFrame({"age": age_ranges, "sex": sex}),
    }[kind]
    table = X.assign(age=age_ranges) if kind == "column" else X
    model = FairPCA(1).fit(table, sensitive_features=labels)
    result = audit(model, table, labels, folds=None)
    model.subspace_.save(tmp_path / "m")
    subspace = FairSubspace.load(tmp_path / "m")
    assert list(subspace.certificate.groups) == list(model.groups_)
    json.dumps(result.to_dict(), allow_nan=True)
    parts = [group.group for group in result.models[0].groups]
    ages_of = {part[0] if kind == "crossed" else part for part in parts}
    assert ages_of == set(expected)
    again = audit({"loaded": subspace}, table, labels, folds=None).models[0]
    assert [group.observed_error.value for group in again.groups] == pytest.approx(
        [group.observed_error.value for group in result.models[0].groups], rel=1e-12
    )


ONE_ROW = {
    "an array": (lambda: FRAME.to_numpy()[0], lambda row: row.reshape(1, -1), "X.reshape(1, -1)"),
    "a list": (lambda: FRAME.to_numpy()[0].tolist(), lambda row: [row], "[X] for a single row"),
    "a tuple": (lambda: tuple(FRAME.to_numpy()[0]), lambda row: [row], "[X] for a single row"),
    "a row of a frame": (lambda: FRAME.iloc[0], lambda _: FRAME.iloc[[0]], "df.iloc[[0]]"),
    "a row of polars": (
        lambda: pl.from_pandas(FRAME).row(0),
        lambda row: [row],
        "[X] for a single row",
    ),
}


@pytest.mark.parametrize("case", ONE_ROW)
def test_one_row_is_passed_as_a_table_of_one_row(case):
    make, follow, advice = ONE_ROW[case]
    rows = FRAME if "frame" in case else FRAME.to_numpy()
    model = FairPCA(1).fit(rows, sensitive_features=LABELS)
    one = make()
    for method in (model.transform, model.score_samples, model.score, model.subspace_.transform):
        with pytest.raises(InvalidInput, match=r"X has 1 dimension, ") as error:
            method(one)
        assert advice in str(error.value)
        expected = method(rows[:1])
        np.testing.assert_array_equal(method(follow(one)), expected)
