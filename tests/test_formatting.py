"""Numbers and names as pages, tables and figures write them."""

import numpy as np
import pytest

from fairspan.formatting.text import decimals_of, first_of


@pytest.mark.parametrize("largest", 10.0 ** np.arange(-3, 7))
@pytest.mark.parametrize("share", [1.0, 1e-2, 1e-4, 1e-9])
def test_no_figure_of_a_column_has_more_than_seven_digits(largest, share):
    decimals = decimals_of([1.5 * largest, 1.5 * largest * share])
    shown = f"{1.5 * largest:.{decimals}f}".replace(".", "")
    assert len(shown) <= 7
    # The largest keeps four digits.
    assert float(f"{1.2344 * largest:.{decimals}f}") == pytest.approx(1.2344 * largest, rel=4e-4)


@pytest.mark.parametrize("outside", [1e7, 1e-5])
def test_columns_of_figures_that_would_be_too_long_have_no_fixed_decimals(outside):
    assert decimals_of([outside, 1e-9]) is None


def test_a_dozen_texts_are_listed_and_the_others_counted():
    texts = [f"g{i}" for i in range(14)]
    assert first_of(texts[:12]) == ", ".join(texts[:12])
    assert first_of(texts[:13]) == ", ".join(texts[:12]) + " and 1 more"
    assert first_of(texts) == ", ".join(texts[:12]) + " and 2 more"
