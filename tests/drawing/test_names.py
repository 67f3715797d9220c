"""Names as labels: short, different, and taken as text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.drawing.labels import look
from fairspan.formatting.names import label_of, labels_of
from fairspan.formatting.numbers import axis_number as number
from fairspan.formatting.terminal_text import terminal_width


def shown(label):
    return label.replace("\\$", "$")


@settings(derandomize=True, max_examples=50)
@given(st.text(max_size=60), st.integers(8, 40))
def test_a_label_fits_and_is_printable(name, longest):
    label = shown(label_of(name, longest))
    assert 0 <= terminal_width(label) <= longest or label == "(no name)"
    assert label
    assert label.isprintable()
    if name.isprintable() and name.isascii() and 0 < len(name) <= longest:
        assert label == name


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.text("ab -", min_size=1, max_size=30), unique=True, max_size=12))
def test_different_names_have_different_labels(names):
    labels = labels_of(names, 8)
    assert len(set(labels)) == len(names)
    assert all(terminal_width(label) <= 8 for label in labels)


def test_names_that_differ_in_their_middle_alone_are_numbered_and_still_fit():
    assert labels_of(["a long name here", "a long and here"], 7) == [
        "a lo\N{HORIZONTAL ELLIPSIS} 1",
        "a lo\N{HORIZONTAL ELLIPSIS} 2",
    ]


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -0.25, 123456.0, 1e-12, -3.5e20, 1e300, 0.1 + 0.2, 1 / 3]
)
def test_numbers_are_read_back(value):
    text = number(value)
    assert len(text) <= 13
    assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(value, rel=1e-5)


def test_twelve_groups_differ_by_marker_alone():
    assert len({look(i).marker for i in range(12)}) == 12
