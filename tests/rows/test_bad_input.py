"""Whatever cannot be used is refused, with what came in, what is allowed and what to do."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairspan import FairPCA, GroupMoments
from fairspan.errors import InvalidInput, InvalidType

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
        "SimpleImputer",
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
        "Fill",
    ),
    "None in objects": (
        with_cell(None, object),
        InvalidInput,
        "NaN, first in row 5 (index 4)",
        "Fill",
    ),
    "NaN in pandas": (frame_with([1, 2, 3, 4, np.nan, 6]), InvalidInput, "column 'y'", "Fill"),
    "NA in pandas": (
        frame_with(pd.array([1, 2, 3, 4, None, 6], dtype="Int64")),
        InvalidInput,
        "NaN, first in row 5 (index 4), column 'y'",
        "Fill",
    ),
    "null in polars": (
        pl.DataFrame({"x": [1, 2, 3, 4, None, 6]}),
        InvalidInput,
        "NaN, first in row 5 (index 4), column 'x'",
        "Fill",
    ),
    "null in pyarrow": (pa.table({"x": [1, 2, 3, 4, None, 6]}), InvalidInput, "column 'x'", "Fill"),
    "text column": (frame_with(LABELS), InvalidInput, "no numbers but String: 'y'", "encode"),
    "categorical column": (
        frame_with(pd.Categorical(LABELS)),
        InvalidInput,
        "no numbers but Categorical: 'y'",
        "encode",
    ),
    "dates column": (
        frame_with(pd.date_range("2020", periods=6)),
        InvalidInput,
        "Datetime",
        "encode",
    ),
    "object column": (
        frame_with(pd.Series([1, 2, "three", 4, 5, 6], dtype=object)),
        InvalidInput,
        "'y' holds values that are no numbers",
        "encode",
    ),
    "text": ([["1", "2"]] * 6, InvalidInput, "X holds text", "encode"),
    "words in objects": (with_cell("one", object), InvalidInput, "no numbers", "encode"),
    "things in objects": (with_cell({}, object), InvalidType, "no numbers", "encode"),
    "huge whole numbers": ([[10**400, 1]] * 6, InvalidInput, "no numbers", "encode"),
    "dates": (np.zeros((6, 2), "M8[s]"), InvalidType, "dates or durations", "encode"),
    "complex": (X + 1j, InvalidInput, "complex", "separate features"),
    "one dimension": (X[:, 0], InvalidInput, "1 dimension(s), shape (6,)", "Reshape your data"),
    "three dimensions": (X[None], InvalidInput, "3 dimension(s), shape (1, 6, 3)", "Reshape"),
    "a Series": (FRAME["x"], InvalidInput, "1 dimension(s)", "Reshape your data"),
    "nothing": (None, InvalidType, "of type NoneType", "(n rows, p features)"),
    "a mapping": ({"x": [1, 2]}, InvalidType, "of type dict", "(n rows, p features)"),
    "a generator": ((row for row in X), InvalidType, "of type generator", "Read the rows"),
    "a number": (3.0, InvalidInput, "0 dimension(s)", "(n rows, p features)"),
    "ragged": ([[1, 2], [3]] * 3, InvalidInput, "cannot be read as a table", "equally long"),
    "no rows": (X[:0], InvalidInput, "0 row(s) (shape=(0, 3))", "at least one row"),
    "no rows in pandas": (FRAME[:0], InvalidInput, "0 row(s) (shape=(0, 3))", "at least one row"),
    "no columns": (X[:, :0], InvalidInput, "0 feature(s) (shape=(6, 0))", "at least one"),
    "no columns in pandas": (FRAME[[]], InvalidInput, "0 feature(s) (shape=(6, 0))", "at least"),
    "no columns in polars": (pl.DataFrame(), InvalidInput, "0 row(s)", "at least one row"),
    "columns of one name": (FRAME.set_axis(["x", "x", "z"], axis=1), InvalidInput, "'x'", "Rename"),
    "columns of one name in pyarrow": (
        pa.table([X[:, 0], X[:, 1]], names=["x", "x"]),
        InvalidInput,
        "'x'",
        "Rename",
    ),
    "masked": (np.ma.masked_less(X, 3), InvalidInput, "masked", "Fill in or drop"),
    "lazy": (pl.LazyFrame({"x": range(6)}), InvalidType, "lazy LazyFrame", "collect()"),
}

WEIGHTS = {
    "negative": ([1, 1, -1e-9, 1, 1, 1], "negative", "Correct or drop"),
    "NaN": ([1, 1, np.nan, 1, 1, 1], "NaN", "Correct or drop"),
    "infinite": ([1, 1, np.inf, 1, 1, 1], "infinite", "Correct or drop"),
    "all zero": ([0.0] * 6, "no finite positive sum", "not all zero"),
    "sum too large": ([1e308] * 6, "no finite positive sum", "finite weights"),
    "too few": ([1.0] * 5, "shape (5,) for 6 rows", "same rows"),
    "too many": ([1.0] * 7, "shape (7,) for 6 rows", "same rows"),
    "a column": (np.ones((6, 1)), "shape (6, 1) for 6 rows", "one weight for each row"),
    "a number": (2.0, "shape () for 6 rows", "one weight for each row"),
    "text": (["one"] * 6, "no numbers", "Convert the weights"),
    "missing": (pd.Series([1, None, 1, 1, 1, 1], dtype="Int64"), "NaN", "Correct or drop"),
    "masked": (np.ma.masked_less(np.arange(6.0), 2), "masked", "Convert the weights"),
    "complex": (np.ones(6) * 1j, "complex", "Convert the weights"),
    "another order": (
        pd.Series(np.ones(6))[::-1],
        "different orders",
        "sample_weight.loc[X.index]",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_bad_tables_are_refused_and_leave_the_estimator_unfitted(case):
    table, kind, received, remedy = TABLES[case]
    estimator = FairPCA(1)
    with pytest.raises(kind) as error:
        estimator.fit(table, sensitive_features=LABELS)
    assert received in str(error.value)
    assert remedy in str(error.value)
    assert vars(estimator) == vars(FairPCA(1))
    if case != "a generator":  # which is read once
        with pytest.raises(kind) as again:
            GroupMoments.from_rows(table, LABELS)
        assert str(again.value) == str(error.value)


def test_a_name_of_weights_needs_names_of_columns():
    with pytest.raises(InvalidInput, match="is the name 'w', but X has no column names"):
        GroupMoments.from_rows(X, LABELS, "w")


@pytest.mark.parametrize("case", WEIGHTS)
def test_bad_weights_are_refused(case):
    weights, received, remedy = WEIGHTS[case]
    with pytest.raises(InvalidInput, match=f"(?s){re.escape(received)}.*{re.escape(remedy)}"):
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
