import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from fairspan.errors import InvalidInput, InvalidType, UnknownGroup
from fairspan.extending import CodedLabels
from fairspan.moments.of_rows import accumulate
from fairspan.rows.groups import LabelCoder, label_array, listed, plain_labels, same_kind, spelled
from fairspan.rows.labels import Labels
from fairspan.rows.numbers import numbers_of
from fairspan.rows.registry import rows_of

KINDS = {
    "text": ["b", "a", "b", ""],
    "whole": [3, -1, 3, 2**70],
    "real": [0.5, -math.inf, 0.5],
    "truth": [True, False, True],
    "crossed": [("a", 1), ("b", 1), ("a", 1), ("a", 2)],
}


@pytest.mark.parametrize("labels", KINDS.values(), ids=KINDS)
def test_codes_give_the_labels_back(labels):
    coder = LabelCoder()
    codes = coder.encode(CodedLabels.of(labels))
    assert [coder.labels[code] for code in codes] == labels
    assert len(coder.labels) == len(set(labels))


def test_codes_stay_the_same_over_blocks_and_new_groups_come_last():
    coder = LabelCoder()
    assert coder.encode(CodedLabels.of(["b", "a"])).tolist() == [0, 1]
    assert coder.encode(CodedLabels.of(["c", "a", "b"])).tolist() == [2, 1, 0]
    assert coder.encode(CodedLabels.of([])).tolist() == []
    assert coder.labels == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("labels", "type_"),
    [
        (list(np.array(["a", "b"])), str),
        (list(np.array([1, 2])), int),
        (list(np.array([True, False])), bool),
        (list(np.array([0.5, 1.5], dtype=np.float32)), float),
    ],
)
def test_numpy_scalars_become_plain_labels(labels, type_):
    coder = LabelCoder()
    coder.encode(CodedLabels.of(labels))
    assert [type(label) for label in coder.labels] == [type_, type_]
    assert coder.labels == [label.item() for label in labels]


def test_pyarrow_scalars_become_plain_labels():
    pyarrow = pytest.importorskip("pyarrow")
    coder = LabelCoder()
    coder.encode(CodedLabels.of(list(pyarrow.array(["a", "b", "a"]))))
    assert coder.labels == ["a", "b"]
    with pytest.raises(InvalidInput, match=r"label in row 2 \(index 1\) is missing"):
        coder.encode(CodedLabels.of(list(pyarrow.array(["a", None]))))


def test_numpy_scalars_inside_tuples_become_plain_labels():
    coder = LabelCoder()
    coder.encode(CodedLabels.of(list(zip(np.array(["a", "b"]), np.array([1, 2]), strict=True))))
    assert coder.labels == [("a", 1), ("b", 2)]
    assert [type(part) for part in coder.labels[0]] == [str, int]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, "1"], "whole number with text (row 2 (index 1): '1')"),
        (["1", 1], "text with whole number (row 2 (index 1): 1)"),
        ([1, True], "whole number with truth value (row 2 (index 1): True)"),
        ([1, 1.0], "whole number with real number (row 2 (index 1): 1.0)"),
        (
            [("a", 1), ("a", "1")],
            "(text, whole number) with (text, text) (row 2 (index 1): ('a', '1'))",
        ),
        (["a", ("a", 1)], "text with (text, whole number)"),
    ],
)
def test_labels_of_two_types_are_refused(labels, words):
    with pytest.raises(InvalidInput) as error:
        LabelCoder().encode(CodedLabels.of(labels))
    assert words in str(error.value)
    assert "astype(str)" in str(error.value)


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


@pytest.mark.parametrize("missing", [None, math.nan])
def test_a_missing_part_of_a_tuple_is_a_missing_label(missing):
    with pytest.raises(InvalidInput, match=r"label in row 2 \(index 1\) is missing"):
        LabelCoder().encode(CodedLabels.of([("a", 0.5), ("a", missing)]))


@pytest.mark.parametrize("label", [b"a", {1}, [1], 1j, object()])
def test_other_kinds_of_labels_are_refused(label):
    with pytest.raises(InvalidType, match=rf"row 1 \(index 0\) .* of type {type(label).__name__}"):
        LabelCoder().encode(CodedLabels.of([label]))


def test_a_closed_coder_codes_by_position_and_names_unknown_groups():
    coder = LabelCoder(["x", "a"])
    assert coder.encode(CodedLabels.of(["a", "x", "a"])).tolist() == [1, 0, 1]
    with pytest.raises(UnknownGroup, match=r"'c' \(first in row 13 \(index 12\)\).*'x', 'a'"):
        coder.encode(CodedLabels.of(["a", "a", "c"]), first_row=10)
    with pytest.raises(UnknownGroup, match=r"the group 1 \(first in row 1 \(index 0\)\)"):
        coder.encode(CodedLabels.of([1]))
    assert coder.labels == ["x", "a"]


@pytest.mark.parametrize("labels", [*KINDS.values(), [-1, 2**63], ["a", "a\0"]])
def test_label_arrays_give_the_labels_back(labels):
    array = label_array(labels)
    assert array.shape == (len(labels),)
    assert plain_labels(array) == labels
    assert list(map(type, plain_labels(array))) == list(map(type, labels))


def test_spelling_joins_attributes():
    assert spelled("a") == "a"
    assert spelled((1, "x", True)) == "1 / x / True"


def test_long_lists_are_cut():
    assert listed(list(range(12))).endswith("10, 11")
    assert listed(list(range(15))).endswith("11 and 3 more")


def test_same_kind_compares_types_and_number_of_attributes():
    assert same_kind(["a"], ["b", "c"])
    assert not same_kind([1], [True])
    assert not same_kind([("a", 1)], [("a", 1, 2)])


def test_labels_of_one_type_are_an_array_of_that_type():
    assert label_array(["a", "bc"]).dtype.kind == "U"
    assert label_array([1, 2]).dtype.kind == "i"
    assert label_array([("a", 1), ("b", 2)]).dtype == object


def test_whole_numbers_stay_whole_beside_a_missing_one():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "g": [1, None, 2]})
    found = accumulate(rows_of(frame, "g", None, "drop"))
    assert found.labels == [1, 2]
    assert [type(label) for label in found.labels] == [int, int]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32()])
def test_no_numbers_of_arrow_are_no_numbers(kind):
    assert numbers_of(pa.array([], kind)).shape == (0,)
    assert numbers_of(pa.chunked_array([], kind)).shape == (0,)


def test_any_rows_have_the_same_label():
    assert Labels.constant("all", 10).between(4, 7).to_list() == ["all"] * 3
