"""Streams of Arrow batches, some of which can be read only once."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fairspan as fs
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType

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
    other = TABLE.select(["y", "x", "z", "g"])
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
