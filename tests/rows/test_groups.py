import math

import numpy as np
import polars as pl
import pytest

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.extending import CodedLabels
from fairspan.moments.of_rows import accumulate
from fairspan.rows.groups import LabelCoder
from fairspan.rows.registry import rows_of


def test_codes_stay_the_same_over_blocks_and_new_groups_come_last():
    coder = LabelCoder()
    assert coder.encode(CodedLabels.of(["b", "a"])).tolist() == [0, 1]
    assert coder.encode(CodedLabels.of(["c", "a", "b"])).tolist() == [2, 1, 0]
    assert coder.encode(CodedLabels.of([])).tolist() == []
    assert coder.labels == ["b", "a", "c"]


def test_another_type_in_a_later_block_names_the_row_of_the_table():
    coder = LabelCoder()
    coder.encode(CodedLabels.of(["a", "b"]))
    with pytest.raises(
        InvalidInput, match=r"mix text with whole number \(row 102 \(index 101\): 1\)"
    ):
        coder.encode(CodedLabels.of(["a", 1]), first_row=100)


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan"), np.datetime64("NaT")])
@pytest.mark.parametrize("others", [["a"], [0.5], [("a", 1)]])
def test_missing_labels_name_the_row(missing, others):
    labels = [*others, missing, *others]
    with pytest.raises(InvalidInput, match=r"label in row 9 \(index 8\) is missing"):
        LabelCoder().encode(CodedLabels.of(labels), first_row=7)


def test_a_closed_coder_codes_by_position_and_names_unknown_groups():
    coder = LabelCoder(["x", "a"])
    assert coder.encode(CodedLabels.of(["a", "x", "a"])).tolist() == [1, 0, 1]
    with pytest.raises(UnknownGroup, match=r"'c' \(first in row 13 \(index 12\)\).*'x', 'a'"):
        coder.encode(CodedLabels.of(["a", "a", "c"]), first_row=10)
    with pytest.raises(UnknownGroup, match=r"the group 1 \(first in row 1 \(index 0\)\)"):
        coder.encode(CodedLabels.of([1]))
    assert coder.labels == ["x", "a"]


def test_whole_numbers_stay_whole_beside_a_missing_one():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "g": [1, None, 2]})
    found = accumulate(rows_of(frame, "g", None, "drop"))
    assert found.labels == [1, 2]
    assert [type(label) for label in found.labels] == [int, int]
