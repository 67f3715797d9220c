"""Numbers and names as pages, tables and figures write them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.formatting.names import join_truncated, plot_label, plot_labels
from fairspan.formatting.numbers import common_decimals
from fairspan.formatting.numbers import format_tick as number
from fairspan.formatting.terminal import display_width


@pytest.mark.parametrize("largest", 10.0 ** np.arange(-3, 7))
@pytest.mark.parametrize("share", [1.0, 1e-2, 1e-4, 1e-9])
def test_no_figure_of_a_column_has_more_than_seven_digits(largest, share):
    decimals = common_decimals([1.5 * largest, 1.5 * largest * share])
    digits = f"{1.5 * largest:.{decimals}f}".replace(".", "")
    assert len(digits) <= 7
    # The largest keeps four digits.
    assert float(f"{1.2344 * largest:.{decimals}f}") == pytest.approx(1.2344 * largest, rel=4e-4)


@pytest.mark.parametrize("outside", [1e7, 1e-5])
def test_columns_of_figures_that_would_be_too_long_have_no_fixed_decimals(outside):
    assert common_decimals([outside, 1e-9]) is None


def test_a_dozen_texts_are_listed_and_the_others_counted():
    texts = [f"g{i}" for i in range(14)]
    assert join_truncated(texts[:12]) == ", ".join(texts[:12])
    assert join_truncated(texts[:13]) == ", ".join(texts[:12]) + " and 1 more"
    assert join_truncated(texts) == ", ".join(texts[:12]) + " and 2 more"


def render(label):
    return label.replace("\\$", "$")


@pytest.mark.slow
@settings(derandomize=True, max_examples=30)
@given(st.text(max_size=60), st.integers(8, 40))
def test_a_label_fits_and_is_printable(name, longest):
    label = render(plot_label(name, longest))
    assert 0 <= display_width(label) <= longest or label == "(no name)"
    assert label
    assert label.isprintable()
    if name.isprintable() and name.isascii() and 0 < len(name) <= longest:
        assert label == name


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.text("ab -", min_size=1, max_size=30), unique=True, max_size=12))
@pytest.mark.slow
def test_different_names_have_different_labels(names):
    labels = plot_labels(names, 8)
    assert len(set(labels)) == len(names)
    assert all(display_width(label) <= 8 for label in labels)


def test_names_that_differ_in_their_middle_alone_are_numbered_and_still_fit():
    assert plot_labels(["a long name here", "a long and here"], 7) == [
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
