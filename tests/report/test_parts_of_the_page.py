"""Parts of the audit page, each by itself."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from fairspan.report.page.columns import title_of
from fairspan.report.page.expected_tables import _state
from fairspan.report.page.figures import _through
from fairspan.report.page.inline_figures import draw, inline_svg


class Line:
    """A picture of one line."""

    def size(self):
        return 6.0, 4.0

    def plot(self, ax):
        ax.plot([0, 1], [0, 1])
        ax.set(xlim=(0, 1), ylim=(0, 1))
        self.axes_ = (ax,)


@pytest.mark.parametrize(
    ("state", "loss", "said"),
    [("cannot tell", None, "too few rows"), ("cannot tell", 0.1, ""), ("harmed", 0.1, "")],
)
def test_too_few_rows_are_told_where_nothing_is_estimated(state, loss, said):
    cell = _state({"state": state, "expected_loss": loss})
    assert (cell.text, cell.below) == (state, said)


def test_answers_that_lie_below_a_side_bend_it():
    frontier = np.array([[0.0, 4.0], [1.0, 2.0], [3.0, 1.0]])
    for answer in ([0.4, 2.5], [2.0, 1.2], [3.0, 0.9], [-0.1, 4.0]):
        assert answer in _through(frontier, np.array([answer])).tolist()
    for answer in ([2.0, 1.9], [5.0, 0.9], [-0.1, 5.0]):
        assert _through(frontier, np.array([answer])).tolist() == frontier.tolist()


def test_a_picture_has_no_ground_of_its_own():
    figure = Figure()
    figure.add_subplot()
    drawn = inline_svg(figure, "a", "nothing")
    assert "fill: none" in drawn
    assert "var(--paper)" not in drawn  # which white becomes
    written = ElementTree.fromstring(drawn)
    assert (written.get("aria-label"), written.text) == ("nothing", None)


def test_marks_lie_where_their_points_are_drawn():
    made = draw(Line(), "a", "", "", [[(0, 0.0, 0.0)], [(0, 1.0, 1.0)]], 1)
    (path,) = re.findall(r'<path[^>]* d="M([\d.\s]+)L([\d.\s]+)"[^>]*clip-path', str(made.svg))[:1]
    ends = [[float(each) for each in end.split()] for end in path]
    np.testing.assert_allclose([place[0] for place in made.places], ends, atol=0.11)


def test_parameters_are_told_unless_the_name_contains_them():
    model = {"name": "error_gap", "parameters": {"penalty": 0.5}}
    assert title_of(model) == "error gap (penalty=0.5)"
    assert title_of({**model, "name": "error gap (wide)"}) == "error gap (wide)"
    assert title_of({**model, "parameters": {}}) == "error gap"
