"""Figures that tests make with pyplot are closed again."""

import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")
