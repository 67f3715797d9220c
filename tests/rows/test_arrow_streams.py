"""Streams of Arrow batches, some of which can be read only once, and vector columns."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import fairspan as fs
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.rows.registry import rows_of

FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((300, 3)), columns=list("xyz"))
FRAME["g"] = np.where(FRAME["x"] > 0.3, "a", "b")
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def test_a_query_is_audited_like_its_table():
    query = duckdb.from_arrow(TABLE)
    fair = fs.FairPCA(2).fit(query, sensitive_features="g")
    assert str(fs.audit(fair, query, "g")) == str(fs.audit(fair, FRAME, "g"))


def test_a_reader_can_be_fitted_but_not_read_twice():
    fair = fs.FairPCA(2).fit(TABLE.to_reader(), sensitive_features="g")
    assert fair.moments_.counts.sum() == len(FRAME)
    with pytest.raises(InvalidInput, match=r"300 rows the first time and 0 the next"):
        fs.audit(fair, TABLE.to_reader(), "g")


def test_partial_fits_of_readers_add_up():
    fair = fs.FairPCA(2)
    for part in (TABLE[:100], TABLE[100:]):
        fair.partial_fit(part.to_reader(), sensitive_features="g")
    whole = fs.FairPCA(2).fit(FRAME, sensitive_features="g")
    np.testing.assert_allclose(fair.group_errors_, whole.group_errors_, rtol=1e-9)
    reordered = TABLE.select(["y", "g", "x", "z"])
    fair.partial_fit(reordered.to_reader(), sensitive_features="g")
    np.testing.assert_allclose(fair.group_errors_, whole.group_errors_, rtol=1e-9)
    other = TABLE.select(["y", "x", "g"])
    with pytest.raises(InvalidInput, match="Allowed: the features of the rows before, 'x'"):
        fair.partial_fit(other.to_reader(), sensitive_features="g")


def test_groups_must_be_columns():
    with pytest.raises(InvalidParameter, match="no names of columns"):
        fs.FairPCA().fit(TABLE.to_reader(), sensitive_features=FRAME["g"].to_numpy())
    with pytest.raises(InvalidInput, match="no column 'G'"):
        fs.FairPCA().fit(TABLE.to_reader(), sensitive_features="G")


def test_a_stream_without_columns_is_refused():
    class Numbers:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([[1.0, 2.0]]).__arrow_c_stream__(requested_schema)

    with pytest.raises(InvalidInput, match="no stream of rows"):
        fs.FairPCA().fit(Numbers(), sensitive_features="g")


def test_reduced_rows_of_a_stream_have_nowhere_to_go():
    fair = fs.FairPCA(2).fit(FRAME, sensitive_features="g")
    with pytest.raises(TypeError, match="fairspan transform MODEL DATA"):
        fair.transform(TABLE.to_reader())


@pytest.mark.parametrize("method", ["score_samples", "score", "transform"])
@pytest.mark.parametrize("kind", ["path", "stream"])
def test_what_can_only_be_read_is_neither_scored_nor_transformed(method, kind):
    model = fs.FairPCA(2).fit(TABLE, sensitive_features="g")
    rows = "rows.csv" if kind == "path" else duckdb.from_arrow(TABLE)
    with pytest.raises(InvalidType, match="Allowed: arrays, data frames"):
        getattr(model, method)(rows)


def test_a_single_batch_is_a_table():
    fair = fs.FairPCA(2).fit(TABLE.combine_chunks().to_batches()[0], sensitive_features="g")
    assert fair.moments_.counts.sum() == len(FRAME)


RNG = np.random.default_rng(1)
FACES = RNG.standard_normal((80, 4))
AGE = RNG.integers(20, 60, 80)
GROUP = RNG.choice(["a", "b"], 80).tolist()
X = np.column_stack([FACES, AGE])


def arrow(faces=FACES, kind=None):
    face = pa.FixedSizeListArray.from_arrays(pa.array(faces.ravel(), kind), faces.shape[1])
    return pa.table({"face": face, "age": AGE, "g": GROUP})


TABLES = {
    "pyarrow": arrow(),
    "pyarrow chunks": pa.concat_tables([arrow()[:30], arrow()[30:]]),
    "polars": pl.DataFrame({"face": FACES, "age": AGE, "g": GROUP}),
}


@pytest.mark.parametrize("table", TABLES)
def test_entries_are_features(table):
    moments = fs.GroupMoments.from_rows(TABLES[table], "g")
    assert moments.feature_names == ("face[0]", "face[1]", "face[2]", "face[3]", "age")
    expected = fs.GroupMoments.from_rows(X, GROUP)
    scale = np.abs(expected.scatters).max()
    np.testing.assert_allclose(moments.scatters, expected.scatters, atol=1e-13 * scale)


def test_a_model_of_vectors_transforms_frames_and_files(tmp_path):
    fair = fs.FairPCA(2).fit(TABLES["polars"], sensitive_features="g")
    parquet.write_table(TABLES["pyarrow"], tmp_path / "faces.parquet", row_group_size=30)
    expected = (X - fair.mean_) @ fair.components_.T
    np.testing.assert_allclose(fair.transform(TABLES["polars"]), expected, atol=1e-12)
    reduced = fair.subspace_.transform(TABLES["pyarrow"].select(["age", "g", "face"]))
    np.testing.assert_allclose(reduced, expected, atol=1e-12)
    # Rows of each row group have folds of their own, so only figures on the rows are the same.
    audited = str(fs.audit(fair, tmp_path / "faces.parquet", "g", folds=None))
    assert audited == str(fs.audit(fair, TABLES["pyarrow"], "g", folds=None))


def test_a_vector_that_is_shorter_or_longer_is_not_the_same_feature():
    fair = fs.FairPCA(2).fit(TABLES["pyarrow"], sensitive_features="g")
    said = {3: r"The table has no column 'face\[3\]'", 5: "The column 'face' makes the features"}
    for width, message in said.items():
        other = arrow(RNG.standard_normal((80, width)))
        with pytest.raises(InvalidInput, match=message):
            fair.subspace_.transform(other)


def test_missing_vectors_and_entries_are_dropped_and_counted():
    rows = FACES.tolist()
    rows[3], rows[7] = None, [1.0, None, 2.0, 3.0]
    table = arrow().set_column(0, "face", pa.array(rows, pa.list_(pa.float32(), 4)))
    with pytest.raises(InvalidInput, match=r"NaN, first in row 4 \(index 3\), column 'face\[0\]'"):
        fs.GroupMoments.from_rows(table, "g")
    moments = fs.GroupMoments.from_rows(table, "g", on_missing="drop")
    assert moments.intake.n_dropped == 2
    kept = np.delete(np.arange(80), [3, 7])
    labels = [GROUP[row] for row in kept]
    expected = fs.GroupMoments.from_rows(X[kept].astype(np.float32), labels)
    np.testing.assert_allclose(moments.scatters, expected.scatters, rtol=1e-12)


def test_blocks_of_wide_vectors_stay_small():
    wide = RNG.standard_normal((3_000, 600))
    face = pa.FixedSizeListArray.from_arrays(wide.ravel(), 600)
    rows = rows_of(pa.table({"face": face}), ["a"] * 3_000)
    assert max(len(block.values) for block in rows.blocks()) <= 1_200
