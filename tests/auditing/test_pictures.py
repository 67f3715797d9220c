"""An audit as a picture shows the audit's own figures."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from by_hand import random_rows
from fairspan import FairPCA, GroupMoments, audit
from fairspan.drawing.labels import PLAIN

ROWS = random_rows(0, n=60, p=4, groups=("a", "b", "c"))
FAIR = FairPCA(2).fit(ROWS.X, sensitive_features=ROWS.labels)
RESULT = audit(FAIR, ROWS.X, ROWS.labels)


@pytest.mark.parametrize(
    ("quantity", "column"),
    [
        ("error", "reconstruction_error"),
        ("loss", "excess_loss"),
        ("variance kept", "captured_variance_ratio"),
    ],
)
def test_figures_are_those_of_the_table(quantity, column):
    picture = RESULT.plot(Figure().add_subplot(), quantity=quantity)
    frame, table = picture.frame(), RESULT.frame()
    np.testing.assert_array_equal(frame["group"], table["group"])
    np.testing.assert_allclose(frame[quantity], table[column], atol=1e-12)
    assert list(picture.models) == ["minimax_loss", "PCA"]
    assert picture.plain == (1,)
    if quantity == "error":
        np.testing.assert_array_equal(frame["low"], table["error_low"])
        np.testing.assert_array_equal(frame["high"], table["error_high"])
    else:
        assert frame["low"].isna().all()
    lines = {line.get_gid(): line for line in picture.ax_.lines}
    assert lines["model-1"].get_markerfacecolor() == "white" != lines["model-0"].get_color()
    assert lines["model-1"].get_color() == PLAIN.colour != lines["model-0"].get_color()
    assert lines["model-0"].get_markerfacecolor() == lines["model-0"].get_color()
    np.testing.assert_array_equal(lines["model-0"].get_xdata(), picture.values[0])


def test_moments_have_no_intervals():
    moments = GroupMoments.from_rows(ROWS.X, ROWS.labels)
    picture = audit(FAIR, moments=moments).picture()
    assert picture.low is None
    assert picture.high is None


def test_a_loss_that_is_only_rounding_is_drawn_as_zero():
    X = np.outer(np.arange(60.0), [1.0, 2.0, 3.0, 4.0])  # one dimension holds all
    fair = FairPCA(1).fit(X, sensitive_features=ROWS.labels)
    assert not audit(fair, X, ROWS.labels).picture(quantity="loss").values.any()


def test_intervals_are_drawn_and_named_where_there_are_any():
    said = "Lines are 95 % confidence intervals."
    for quantity, has_intervals in (("error", True), ("variance kept", False)):
        figure = Figure()
        RESULT.plot(figure.add_subplot(), quantity=quantity)
        written = [" ".join(text.get_text().split()) for text in figure.findobj(Text)]
        assert (said in written) == has_intervals
        assert bool(figure.findobj(LineCollection)) == has_intervals
