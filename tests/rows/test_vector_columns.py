"""Columns that hold a vector in each row."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import fairspan as fs
from fairspan.errors import InvalidInput
from fairspan.rows.registry import rows_of

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
    for width in (3, 5):
        other = arrow(RNG.standard_normal((80, width)))
        with pytest.raises(InvalidInput, match=r"The table has no column 'face\["):
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
