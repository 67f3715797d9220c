"""Labels that cannot be used, beside the rows or in a column of the table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairspan import GroupMoments
from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.registry import rows_beside

X = np.arange(18.0).reshape(6, 3) ** 1.5
FRAME = pd.DataFrame(X, columns=["x", "y", "z"])
TEXT = ["a", "b", "a", "b", None, "b"]
REAL = [0.5, 1.5, 0.5, 1.5, np.nan, 1.5]
MISSING = "label in row 5 (index 4) is missing"

LABELS = {
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
    "NaN in a list": (REAL, MISSING, "unknown"),
    "NaN in numpy": (np.array(REAL), MISSING, "unknown"),
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
        "mix whole number with text (row 2 (index 1): '1')",
        "astype(str)",
    ),
    "1 and True": (
        [1, 1, True, 1, 1, 1],
        "mix whole number with truth value (row 3 (index 2)",
        "astype",
    ),
    "'1' and 1": (["1", 1] * 3, "mix text with whole number (row 2 (index 1): 1)", "astype"),
    "1 and 1.0": (
        [1, 1.0] * 3,
        "mix whole number with real number (row 2 (index 1): 1.0)",
        "astype",
    ),
    "text and a tuple": (["a", ("a", 1)] * 3, "mix text with (text, whole number)", "astype"),
    "tuples of two kinds": (
        [("a", 1), ("a", "1")] * 3,
        "mix (text, whole number) with (text, text) (row 2 (index 1): ('a', '1'))",
        "astype",
    ),
    "a tuple with a gap": ([("a", 1)] * 4 + [("a", None), ("b", 1)], MISSING, "unknown"),
    "too few": (list("ababa"), "6 rows in X, 5 labels", "same rows"),
    "too many": (np.array(list("abababa")), "6 rows in X, 7 labels", "same rows"),
    "too few rows of two": (np.ones((5, 2)), "6 rows in X, 5 labels", "same rows"),
    "none at all": ([], "6 rows in X, 0 labels", "same rows"),
    "a number": (3, "of type int and shape ()", "Pass one label"),
    "three dimensions": (np.ones((6, 2, 2)), "type ndarray and shape (6, 2, 2)", "intersections"),
    "no attribute": (pd.DataFrame(index=range(6)), "type DataFrame and shape (6, 0)", "one label"),
    "no attribute in numpy": (np.ones((6, 0)), "type ndarray and shape (6, 0)", "one label"),
    "not given": (None, "sensitive_features is missing", 'missing_groups="ignore"'),
}


@pytest.mark.parametrize("table", [X, FRAME], ids=["numpy", "pandas"])
@pytest.mark.parametrize("case", LABELS)
def test_bad_labels_are_refused(case, table):
    labels, received, remedy = LABELS[case]
    with pytest.raises(InvalidInput) as error:
        GroupMoments.from_rows(table, labels)
    assert received in str(error.value)
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
@pytest.mark.parametrize("values", [TEXT, REAL])
def test_a_missing_label_in_a_column_of_the_table(frame, values):
    table = frame({"x": X[:, 0], "g": values})
    with pytest.raises(InvalidInput, match=r"row 5 \(index 4\) is missing"):
        GroupMoments.from_rows(table, "g")
    crossed = frame({"x": X[:, 0], "g": values, "h": [1] * 6})
    with pytest.raises(InvalidInput, match=r"row 5 \(index 4\) is missing"):
        GroupMoments.from_rows(crossed, ["h", "g"])


def test_unknown_column_names_are_refused():
    with pytest.raises(
        InvalidInput, match=r"The table has no column 'sex'.*'x', 'y', 'z'.*Correct"
    ):
        GroupMoments.from_rows(FRAME, "sex")
    with pytest.raises(InvalidInput, match="The table has no column 'sex'"):
        GroupMoments.from_rows(FRAME, ["x", "sex"])


@pytest.mark.parametrize("table", [X, X.tolist()], ids=["numpy", "list"])
def test_a_name_needs_a_table_with_names(table):
    with pytest.raises(InvalidInput, match=r"'sex', but X has no column names.*data frame"):
        GroupMoments.from_rows(table, "sex")


def test_a_list_that_may_be_names_or_labels_is_refused():
    square = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]})
    with pytest.raises(InvalidInput, match="could be column names or labels of the 2 rows"):
        GroupMoments.from_rows(square, ["a", "b"])
    # As an array it can only be labels.
    assert GroupMoments.from_rows(square, np.array(["a", "b"])).labels == ["a", "b"]


def test_naming_every_column_leaves_no_feature():
    with pytest.raises(InvalidInput, match=r"0 feature\(s\)"):
        GroupMoments.from_rows(pd.DataFrame({"g": list("aab")}), "g")


@pytest.mark.parametrize(
    "labels", [pd.Series(list("aababb")), pd.DataFrame({"g": list("aababb"), "h": [1, 2] * 3})]
)
@pytest.mark.parametrize("index", [range(6), ["r", 1, 2.5, "s", 4, None]])
def test_the_same_index_in_another_order_is_refused(labels, index):
    frame, labels = FRAME.set_axis(index), labels.set_axis(index)
    assert GroupMoments.from_rows(frame, labels).counts.sum() == 6
    with pytest.raises(InvalidInput, match=r"different orders.*sensitive_features.loc\[X.index\]"):
        GroupMoments.from_rows(frame, labels[::-1])


def test_a_column_beside_the_rows_that_is_not_there():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]})
    with pytest.raises(InvalidInput, match="The table has no column 'hired'"):
        rows_beside(frame, np.array(["a", "b"]), {"labels": "hired"})
