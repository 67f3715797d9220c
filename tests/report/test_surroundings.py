"""What stands around a report leaves it as it is: the reader's style, odd names of files."""

import matplotlib
import pytest

from audit_pages import two_groups
from fairspan.report.compact import compact
from fairspan.report.page import page_of

# What a matplotlibrc in somebody's folder may hold: the mark of the slider would stand elsewhere
# than its curve, or the page could not be made at all.
STYLES = {
    "cut to size": {"savefig.bbox": "tight", "axes.grid": True, "lines.marker": "x"},
    "formulas": {"text.usetex": True},
    "numbers": {"axes.formatter.use_mathtext": True, "axes.formatter.limits": (-1, 1)},
}


@pytest.mark.parametrize("style", STYLES)
def test_the_reader_s_own_style_changes_no_byte(style):
    facts, page = two_groups()
    with matplotlib.rc_context(STYLES[style]):
        before = dict(matplotlib.rcParams)
        assert page_of(facts) == page
        assert dict(matplotlib.rcParams) == before


def test_words_for_those_who_do_not_see_a_figure_are_not_made_shorter():
    told = 'aria-label="of font-family: serif; xlink:href x"'
    assert compact(f"<svg {told}>\n<g/></svg>") == f"<svg {told}><g/></svg>"
