"""Pages without figures, for tests that read their text alone."""

import pytest

from report_cases import draw_nothing


@pytest.fixture
def no_figures(monkeypatch):
    """Replace figures of pages by empty ones: drawing takes most of the time of a page."""
    monkeypatch.setattr("fairspan.report.figures.draw_figure", draw_nothing)
