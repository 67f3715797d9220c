"""The same rows and labels give the same moments and groups; streams of batches."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from pyarrow import parquet

import fairspan as fs
from fairspan import GroupMoments
from fairspan.errors import (
    FairspanWarning,
    InvalidInput,
    InvalidParameter,
    InvalidType,
)
from numpy_reference import assert_moments, reference_moments

RNG = np.random.default_rng(12)
N = 40
# Small whole numbers, which every kind of column holds exactly.
X = RNG.integers(0, 100, (N, 3)).astype(float)
BITS = RNG.integers(0, 2, (N, 3)).astype(float)
NAMES = ["x", "y", "z"]
SEX = RNG.choice(["f", "m"], N)
AGE = RNG.choice([20, 40], N)
CROSSED = list(zip(SEX.tolist(), AGE.tolist(), strict=True))
WEIGHTS = RNG.uniform(0.5, 2, N)

TABLES = {
    "C order": X,
    "Fortran order": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=0)[::2],
    "float32": X.astype(np.float32),
    "int": X.astype(np.int64),
    "uint8": X.astype(np.uint8),
    "object": X.astype(object),
    "list of lists": X.tolist(),
    "list of tuples": [tuple(row) for row in X.tolist()],
    "unmasked": np.ma.masked_array(X),
    "sparse rows": scipy.sparse.csr_array(X),
    "sparse columns": scipy.sparse.csc_matrix(X),
    "pandas": pd.DataFrame(X, columns=NAMES),
    "pandas int": pd.DataFrame(X.astype(int), columns=NAMES),
    "pandas Int64": pd.DataFrame(X, columns=NAMES).astype("Int64"),
    "pandas Float64": pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "pandas object": pd.DataFrame(X, columns=NAMES).astype(object),
    "pandas mixed": pd.DataFrame(X, columns=NAMES).astype({"x": "int8", "y": "float32"}),
    "pandas unnamed": pd.DataFrame(X),
    "pandas sparse": pd.DataFrame(X, columns=NAMES).astype(pd.SparseDtype(float, X[0, 0])),
    "pandas sparse in part": pd.DataFrame(X, columns=NAMES).astype(
        {"y": pd.SparseDtype(np.int64, 0), "z": "Int64"}
    ),
    "polars": pl.DataFrame(X, schema=NAMES),
    "polars int": pl.DataFrame(X.astype(np.int16), schema=NAMES),
    "pyarrow": pa.table(dict(zip(NAMES, X.T, strict=True))),
    "pyarrow chunks": pa.concat_tables(
        [pa.table(dict(zip(NAMES, part.T, strict=True))) for part in (X[:7], X[7:])]
    ),
}

LABELS = {
    "list": SEX.tolist(),
    "tuple": tuple(SEX.tolist()),
    "numpy": SEX,
    "numpy object": SEX.astype(object),
    "column vector": SEX[:, None],
    "pandas Series": pd.Series(SEX),
    "pandas string": pd.Series(SEX, dtype="string"),
    "pandas object": pd.Series(SEX, dtype=object),
    "pandas categorical": pd.Series(SEX, dtype="category"),
    "pandas Index": pd.Index(SEX),
    "pandas frame of one": pd.DataFrame({"sex": SEX}),
    "polars Series": pl.Series(SEX),
    "polars Categorical": pl.Series(SEX.tolist(), dtype=pl.Categorical),
    "polars Enum": pl.Series(SEX.tolist(), dtype=pl.Enum(["m", "f"])),
    "pyarrow array": pa.array(SEX),
    "pyarrow chunked": pa.chunked_array([SEX[:9], SEX[9:]]),
    "pyarrow dictionary": pa.array(SEX).dictionary_encode(),
}

INTERSECTIONS = {
    "list of tuples": CROSSED,
    "list of lists": [list(label) for label in CROSSED],
    "list of numpy scalars": list(zip(SEX, AGE, strict=True)),
    "object array": np.array([SEX.tolist(), AGE.tolist()], dtype=object).T,
    "pandas": pd.DataFrame({"sex": SEX, "age": AGE}),
    "pandas nullable": pd.DataFrame({"sex": pd.Series(SEX, dtype="category"), "age": AGE}).astype(
        {"age": "Int64"}
    ),
    "polars": pl.DataFrame({"sex": SEX.tolist(), "age": AGE}),
    "pyarrow": pa.table({"sex": SEX, "age": AGE}),
}


def with_groups(kind):
    """Return a frame of the features, with both attributes among them."""
    columns = {"x": X[:, 0], "sex": SEX.tolist(), "y": X[:, 1], "age": AGE, "z": X[:, 2]}
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("table", TABLES)
def test_every_kind_of_table(table, weights):
    moments = GroupMoments.from_rows(TABLES[table], SEX, weights)
    assert_moments(moments, reference_moments(X, SEX, weights), rtol=1e-12)


@pytest.mark.parametrize("table", ["C order", "list of lists", "pandas unnamed"])
def test_other_tables_have_no_names(table):
    assert GroupMoments.from_rows(TABLES[table], SEX).feature_names is None


@pytest.mark.parametrize(
    "bits",
    [
        BITS.astype(bool),
        BITS.astype(bool).tolist(),
        pd.DataFrame(BITS.astype(bool)),
        pd.DataFrame(BITS.astype(bool)).astype("boolean"),
        pl.DataFrame(BITS.astype(bool)),
        pa.table(dict(zip(NAMES, BITS.astype(bool).T, strict=True))),
    ],
    ids=["numpy", "list", "pandas", "pandas nullable", "polars", "pyarrow"],
)
def test_truth_values_count_as_zero_and_one(bits):
    moments = GroupMoments.from_rows(bits, SEX)
    assert_moments(moments, reference_moments(BITS, SEX), rtol=1e-12)


@pytest.mark.parametrize("table", ["C order", "pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("labels", LABELS)
def test_every_kind_of_labels_next_to_every_kind_of_table(labels, table):
    moments = GroupMoments.from_rows(TABLES[table], LABELS[labels])
    assert_moments(moments, reference_moments(X, SEX), rtol=1e-12)
    assert list(map(type, moments.labels)) == [str, str]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (AGE, int),
        (AGE.astype(np.uint8), int),
        (AGE.tolist(), int),
        (pd.Series(AGE, dtype="Int64"), int),
        (pl.Series(AGE), int),
        (pa.array(AGE), int),
        (AGE.astype(np.float32), float),
        (pd.Series(AGE, dtype="Float64"), float),
        (AGE == 20, bool),
        (pd.Series(AGE == 20, dtype="boolean"), bool),
        (pl.Series(AGE == 20), bool),
        (pa.array(AGE == 20), bool),
    ],
)
def test_labels_keep_their_type(labels, kind):
    moments = GroupMoments.from_rows(X, labels)
    expected = {int: AGE, float: AGE.astype(float), bool: AGE == 20}[kind]
    assert_moments(moments, reference_moments(X, expected.tolist()), rtol=1e-12)
    assert list(map(type, moments.labels)) == [kind, kind]


@pytest.mark.parametrize("table", ["C order", "pandas"])
@pytest.mark.parametrize("labels", INTERSECTIONS)
def test_several_attributes_are_crossed_as_tuples(labels, table):
    moments = GroupMoments.from_rows(TABLES[table], INTERSECTIONS[labels])
    assert_moments(moments, reference_moments(X, CROSSED), rtol=1e-12)
    assert [tuple(map(type, label)) for label in moments.labels] == [(str, int)] * 4


def test_a_text_array_of_two_columns_is_crossed_as_text():
    moments = GroupMoments.from_rows(X, np.array([SEX, AGE]).T)
    as_text = [(sex, str(age)) for sex, age in CROSSED]
    assert_moments(moments, reference_moments(X, as_text), rtol=1e-12)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_named_columns_are_labels_and_no_features(kind):
    frame = with_groups(kind)
    one = GroupMoments.from_rows(frame, "sex")
    expected = reference_moments(np.column_stack([X[:, :2], AGE, X[:, 2]]), SEX)
    assert_moments(one, expected, rtol=1e-12)
    assert one.feature_names == ("x", "y", "age", "z")
    for names in (["sex", "age"], ("sex", "age")):
        both = GroupMoments.from_rows(frame, names)
        assert_moments(both, reference_moments(X, CROSSED), rtol=1e-12)
        assert both.feature_names == ("x", "y", "z")
    assert_moments(GroupMoments.from_rows(frame, ["sex"]), expected, rtol=1e-12)


def test_labels_that_look_like_names_are_labels_where_they_cannot_be_names():
    frame = pd.DataFrame({"a": [1.0, 2.0, 5.0], "b": [0.0, 1.0, 1.0]})
    moments = GroupMoments.from_rows(frame, ["a", "a", "c"])
    assert_moments(moments, reference_moments(frame.to_numpy(), "aac"))


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS.tolist(),
        pd.Series(WEIGHTS),
        pd.Series(WEIGHTS, index=range(100, 100 + N)),
        pl.Series(WEIGHTS),
        pa.array(WEIGHTS),
    ],
)
@pytest.mark.parametrize("table", ["C order", "pandas", "polars"])
def test_every_kind_of_weights(weights, table):
    moments = GroupMoments.from_rows(TABLES[table], SEX, weights)
    assert_moments(moments, reference_moments(X, SEX, WEIGHTS), rtol=1e-12)


def test_an_index_of_other_values_is_taken_by_position():
    frame = TABLES["pandas"].set_index(np.arange(N) + 500)
    moments = GroupMoments.from_rows(frame, pd.Series(SEX))
    assert_moments(moments, reference_moments(X, SEX), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_of_several_blocks(kind):
    wide = np.random.default_rng(3).standard_normal((1500, 400))
    groups = np.random.default_rng(4).choice(["a", "b", "c"], 1500)
    columns = {f"x{j}": wide[:, j] for j in range(400)}
    weights = np.linspace(0, 1, 1500)
    expected = reference_moments(wide, groups, weights)
    by_labels = GroupMoments.from_rows(kind(columns), groups, weights)
    by_column = GroupMoments.from_rows(kind(columns | {"g": groups.tolist()}), "g", weights)
    assert_moments(by_labels, expected)
    assert_moments(by_column, expected)


def test_integers_of_an_array_beyond_the_exact_ones_are_rounded_with_a_warning():
    rows = np.array([[2**53, 1], [2**53 - 1, 2], [-(2**53), 3]])
    assert GroupMoments.from_rows(rows, ["x", "x", "y"]).means[1, 0] == -(2.0**53)
    rows[0, 0] += 1
    with pytest.warns(FairspanWarning, match="in 'X' are rounded.*identifier"):
        GroupMoments.from_rows(rows, ["x", "x", "y"])


@pytest.mark.parametrize("kind", ["arrow", "arrow in pandas", "pandas", "polars", "stream"])
def test_integers_beyond_the_exact_ones_may_be_missing_or_weigh(kind):
    large = [2**60 + 1, None, 2**63 + 7]
    weights = [7, 2**60 + 1, 2**63 + 7]
    table = pa.table(
        {
            "a": pa.array(large, pa.uint64()),
            "w": pa.array(weights, pa.uint64()),
            "g": ["x", "x", "y"],
        }
    )
    kinds = {
        "arrow": lambda: table,
        "arrow in pandas": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas": lambda: pd.DataFrame({name: table[name].to_pylist() for name in "awg"}).astype(
            {"a": "UInt64", "w": "UInt64"}
        ),
        "polars": lambda: pl.from_arrow(table),
        "stream": table.to_reader,
    }
    with pytest.warns(FairspanWarning, match="in 'a' are rounded"):
        moments = GroupMoments.from_rows(kinds[kind](), "g", "w", on_missing="drop")
    assert moments.means.ravel().tolist() == [2.0**60, 2.0**63]
    assert moments.weights.tolist() == [7.0, 2.0**63]
    assert moments.n_dropped == 1
    with (
        pytest.warns(FairspanWarning),
        pytest.raises(InvalidInput, match=r"NaN, first in row 2 \(index 1\)"),
    ):
        GroupMoments.from_rows(kinds[kind](), "g", "w")


def test_integers_that_numpy_has_no_type_for():
    frame = pl.DataFrame(
        {
            "a": pl.Series([1, None, 10**25], dtype=pl.Int128),
            "w": pl.Series([1, 1, 10**25], dtype=pl.Int128),
            "g": pl.Series([5, 5, -(10**25)], dtype=pl.Int128),
        }
    )
    with pytest.warns(FairspanWarning, match="in 'a' are rounded"):
        moments = GroupMoments.from_rows(frame, "g", "w", on_missing="drop")
    assert moments.labels == [-(10**25), 5]
    assert moments.means.ravel().tolist() == [1e25, 1.0]
    assert moments.weights.tolist() == [1e25, 1.0]


@pytest.mark.parametrize("text", ["1.5", b"1.5"])
def test_weights_that_are_text_among_objects(text):
    weights = np.array([1.0, text], dtype=object)
    with pytest.raises(InvalidInput, match="sample_weight contains non-numeric values"):
        GroupMoments.from_rows([[1.0], [2.0]], ["x", "y"], weights)


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
def test_missing_numbers_among_objects(kind):
    rows = kind(pd.DataFrame({"a": [1, 2, 3], "b": [True, pd.NA, False]}, dtype=object))
    moments = GroupMoments.from_rows(rows, ["x", "x", "y"], on_missing="drop")
    assert moments.means.tolist() == [[1.0, 1.0], [3.0, 0.0]]
    assert moments.n_dropped == 1
    with pytest.raises(InvalidInput, match=r"NaN, first in row 2 \(index 1\)"):
        GroupMoments.from_rows(rows, ["x", "x", "y"])


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
@pytest.mark.parametrize("odd", ["2", b"2", np.datetime64("2020-01-01"), 2j])
def test_objects_that_are_no_numbers(kind, odd):
    rows = kind(pd.DataFrame({"a": [1.5, odd], "b": [1, 2]}, dtype=object))
    with pytest.raises(InvalidInput, match="contains non-numeric values"):
        GroupMoments.from_rows(rows, ["x", "y"])


def test_a_column_is_not_both_group_and_weight(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "g": [1, 2]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for table in (frame, tmp_path / "rows.csv"):
        with pytest.raises(InvalidInput, match=r"'g' .*both group and weight"):
            GroupMoments.from_rows(table, "g", "g")


def test_integers_stay_integers_next_to_a_missing_value():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "g": [1, None, 2]})
    moments = GroupMoments.from_rows(frame, "g", on_missing="drop")
    assert moments.labels == [1, 2]
    assert [type(label) for label in moments.labels] == [int, int]


FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((300, 3)), columns=list("xyz"))
FRAME["g"] = np.where(FRAME["x"] > 0.3, "a", "b")
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def test_a_query_is_audited_like_its_table():
    duckdb = pytest.importorskip("duckdb")
    query = duckdb.from_arrow(TABLE)
    fair = fs.FairPCA(2).fit(query, sensitive_features="g")
    assert str(fs.audit(fair, query, "g")) == str(fs.audit(fair, FRAME, "g"))


def test_a_reader_can_be_fitted_but_not_read_twice():
    fair = fs.FairPCA(2).fit(TABLE.to_reader(), sensitive_features="g")
    assert fair.moments_.counts.sum() == len(FRAME)
    with pytest.raises(InvalidInput, match=r"300 rows .* and 0 "):
        fs.audit(fair, TABLE.to_reader(), "g")


def test_partial_fits_of_readers_add_up():
    fair = fs.FairPCA(2)
    for part in (TABLE[:100], TABLE[100:]):
        fair.partial_fit(part.to_reader(), sensitive_features="g")
    batch = fs.FairPCA(2).fit(FRAME, sensitive_features="g")
    np.testing.assert_allclose(fair.group_errors_, batch.group_errors_, rtol=1e-9)
    reordered = TABLE.select(["y", "g", "x", "z"])
    fair.partial_fit(reordered.to_reader(), sensitive_features="g")
    np.testing.assert_allclose(fair.group_errors_, batch.group_errors_, rtol=1e-9)
    other = TABLE.select(["y", "x", "g"])
    with pytest.raises(InvalidInput, match=r"Allowed: the features of the (rows before|fit), 'x'"):
        fair.partial_fit(other.to_reader(), sensitive_features="g")


def test_groups_must_be_columns():
    with pytest.raises(InvalidParameter, match="not column names"):
        fs.FairPCA().fit(TABLE.to_reader(), sensitive_features=FRAME["g"].to_numpy())
    with pytest.raises(InvalidInput, match="no column 'G'"):
        fs.FairPCA().fit(TABLE.to_reader(), sensitive_features="G")


def test_a_stream_without_columns_is_refused():
    class Numbers:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([[1.0, 2.0]]).__arrow_c_stream__(requested_schema)

    with pytest.raises(InvalidInput, match="not a stream of tables"):
        fs.FairPCA().fit(Numbers(), sensitive_features="g")


def test_reduced_rows_of_a_stream_have_nowhere_to_go():
    fair = fs.FairPCA(2).fit(FRAME, sensitive_features="g")
    with pytest.raises(TypeError, match="fairspan transform"):
        fair.transform(TABLE.to_reader())


@pytest.mark.parametrize("method", ["score_samples", "score", "transform"])
@pytest.mark.parametrize("kind", ["path", "stream"])
def test_sources_that_can_only_be_read_are_neither_scored_nor_transformed(method, kind):
    model = fs.FairPCA(2).fit(TABLE, sensitive_features="g")
    rows = "rows.csv" if kind == "path" else TABLE.to_reader()
    with pytest.raises(InvalidType, match="Allowed: arrays, data frames"):
        getattr(model, method)(rows)


def test_a_single_batch_is_a_table():
    fair = fs.FairPCA(2).fit(TABLE.combine_chunks().to_batches()[0], sensitive_features="g")
    assert fair.moments_.counts.sum() == len(FRAME)


VECTOR_RNG = np.random.default_rng(1)
FACES = VECTOR_RNG.standard_normal((80, 4))
AGES = VECTOR_RNG.integers(20, 60, 80)
GROUP = VECTOR_RNG.choice(["a", "b"], 80).tolist()
ENTRIES = np.column_stack([FACES, AGES])


def arrow(faces=FACES, kind=None):
    face = pa.FixedSizeListArray.from_arrays(pa.array(faces.ravel(), kind), faces.shape[1])
    return pa.table({"face": face, "age": AGES, "g": GROUP})


VECTOR_TABLES = {
    "pyarrow": arrow(),
    "pyarrow chunks": pa.concat_tables([arrow()[:30], arrow()[30:]]),
    "polars": pl.DataFrame({"face": FACES, "age": AGES, "g": GROUP}),
}


@pytest.mark.parametrize("table", VECTOR_TABLES)
def test_entries_are_features(table):
    moments = fs.GroupMoments.from_rows(VECTOR_TABLES[table], "g")
    assert moments.feature_names == ("face[0]", "face[1]", "face[2]", "face[3]", "age")
    expected = fs.GroupMoments.from_rows(ENTRIES, GROUP)
    scale = np.abs(expected.scatters).max()
    np.testing.assert_allclose(moments.scatters, expected.scatters, atol=1e-13 * scale)


def test_a_model_of_vectors_transforms_frames_and_files(tmp_path):
    fair = fs.FairPCA(2).fit(VECTOR_TABLES["polars"], sensitive_features="g")
    parquet.write_table(VECTOR_TABLES["pyarrow"], tmp_path / "faces.parquet", row_group_size=30)
    expected = (ENTRIES - fair.mean_) @ fair.components_.T
    np.testing.assert_allclose(fair.transform(VECTOR_TABLES["polars"]), expected, atol=1e-12)
    reduced = fair.subspace_.transform(VECTOR_TABLES["pyarrow"].select(["age", "g", "face"]))
    np.testing.assert_allclose(reduced, expected, atol=1e-12)
    # Rows of each row group have folds of their own, so only figures on the rows are the same.
    audited = str(fs.audit(fair, tmp_path / "faces.parquet", "g", folds=None))
    assert audited == str(fs.audit(fair, VECTOR_TABLES["pyarrow"], "g", folds=None))


def test_a_vector_that_is_shorter_or_longer_is_not_the_same_feature():
    fair = fs.FairPCA(2).fit(VECTOR_TABLES["pyarrow"], sensitive_features="g")
    text = {3: r"no column 'face\[3\]'", 5: "Column 'face' provides the features"}
    for width, message in text.items():
        other = arrow(VECTOR_RNG.standard_normal((80, width)))
        with pytest.raises(InvalidInput, match=message):
            fair.subspace_.transform(other)


def test_missing_vectors_and_entries_are_dropped_and_counted():
    rows = FACES.tolist()
    rows[3], rows[7] = None, [1.0, None, 2.0, 3.0]
    table = arrow().set_column(0, "face", pa.array(rows, pa.list_(pa.float32(), 4)))
    with pytest.raises(InvalidInput, match=r"NaN, first in row 4 \(index 3\), column 'face\[0\]'"):
        fs.GroupMoments.from_rows(table, "g")
    moments = fs.GroupMoments.from_rows(table, "g", on_missing="drop")
    assert moments.n_dropped == 2
    complete = np.delete(np.arange(80), [3, 7])
    labels = [GROUP[row] for row in complete]
    expected = fs.GroupMoments.from_rows(ENTRIES[complete].astype(np.float32), labels)
    np.testing.assert_allclose(moments.scatters, expected.scatters, rtol=1e-12)
