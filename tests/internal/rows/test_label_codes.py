"""Codes of labels: the same over blocks, with errors that name the row of the table."""

import math

import numpy as np
import pytest

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.extending import CodedLabels
from fairspan.rows.coded_labels import LabelEncoder
from fairspan.rows.label_resolution import labels_from_values


def test_codes_stay_the_same_over_blocks_and_new_groups_come_last():
    coder = LabelEncoder()
    assert coder.encode(CodedLabels.from_labels(["b", "a"])).tolist() == [0, 1]
    assert coder.encode(CodedLabels.from_labels(["c", "a", "b"])).tolist() == [2, 1, 0]
    assert coder.encode(CodedLabels.from_labels([])).tolist() == []
    assert coder.labels == ["b", "a", "c"]


@pytest.mark.parametrize("order", [None, np.sort, np.flip], ids=["mixed", "sorted", "reversed"])
@pytest.mark.parametrize("n_labels", [1, 2, 12, 13, 400])
def test_texts_of_one_width_are_coded_as_a_list_of_them(n_labels, order):
    texts = [f"group {i}" * (1 + i % 3) for i in range(n_labels)] + ["", "rare"] * (n_labels > 2)
    # A label that comes after the first 256 rows, too, and in only one of 600.
    labels = np.array([*(texts[:2] * 150), *texts, *texts[::-1], *(texts[:2] * 150)], dtype="U")
    check_codes(labels if order is None else order(labels))


def test_texts_are_coded_in_any_byte_order_and_by_strides():
    labels = np.array(["é", "e", "e\u0301", "", "ee"] * 3)
    check_codes(labels.astype(labels.dtype.newbyteorder(">")))
    check_codes(labels[::2])


def test_texts_that_no_single_character_tells_apart_are_coded():
    letters = "abc"
    texts = [first + last for first in letters for last in letters]
    check_codes(np.array(texts * 40))


def check_codes(labels):
    coded = labels_from_values(labels, "labels")
    assert [coded.categories[code] for code in coded.codes] == labels.tolist()
    assert set(coded.categories) == set(labels.tolist())
    assert len(set(coded.categories)) == len(coded.categories)
    assert all(type(label) is str for label in coded.categories)


def test_another_type_in_a_later_block_names_the_row_of_the_table():
    coder = LabelEncoder()
    coder.encode(CodedLabels.from_labels(["a", "b"]))
    with pytest.raises(InvalidInput, match=r"mix text with integer \(row 102 \(index 101\): 1\)"):
        coder.encode(CodedLabels.from_labels(["a", 1]), first_row=100)


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan"), np.datetime64("NaT")])
@pytest.mark.parametrize("other_labels", [["a"], [0.5], [("a", 1)]])
def test_missing_labels_name_the_row(missing, other_labels):
    labels = [*other_labels, missing, *other_labels]
    with pytest.raises(InvalidInput, match=r"label in row 9 \(index 8\) is missing"):
        LabelEncoder().encode(CodedLabels.from_labels(labels), first_row=7)


def test_a_closed_coder_codes_by_position_and_names_unknown_groups():
    coder = LabelEncoder(["x", "a"])
    assert coder.encode(CodedLabels.from_labels(["a", "x", "a"])).tolist() == [1, 0, 1]
    with pytest.raises(UnknownGroup, match=r"'c' \(first in row 13 \(index 12\)\).*'x', 'a'"):
        coder.encode(CodedLabels.from_labels(["a", "a", "c"]), first_row=10)
    with pytest.raises(UnknownGroup, match=r"the unknown group 1 \(first in row 1 \(index 0\)\)"):
        coder.encode(CodedLabels.from_labels([1]))
    assert coder.labels == ["x", "a"]
