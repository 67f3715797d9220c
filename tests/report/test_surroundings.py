"""What stands around a report leaves it as it is: the reader's style, odd names of files."""

import json

import matplotlib
import pytest
from matplotlib.figure import Figure

import fairspan as fs
from audit_pages import two_groups
from fairspan.report.page.inline_figures import inline_svg
from fairspan.report.page.rendering import page_of
from report_rows import made_rows

# What a matplotlibrc in somebody's folder may hold: the mark of the slider would stand elsewhere
# than its curve, or the page could not be made at all.
STYLES = {
    "cut to size": {"savefig.bbox": "tight", "axes.grid": True, "lines.marker": "x"},
    "formulas": {"text.usetex": True},
    "numbers": {"axes.formatter.use_mathtext": True, "axes.formatter.limits": (-1, 1)},
}


@pytest.mark.long
@pytest.mark.parametrize("style", STYLES)
def test_the_reader_s_own_style_changes_no_byte(style):
    facts, page = two_groups()
    with matplotlib.rc_context(STYLES[style]):
        before = dict(matplotlib.rcParams)
        assert page_of(facts) == page
        assert dict(matplotlib.rcParams) == before


def test_words_for_those_who_do_not_see_a_figure_are_not_made_shorter():
    told = "of font-family: serif; xlink:href x"
    assert f' aria-label="{told}" ' in inline_svg(Figure(), "k", told)


@pytest.mark.long
def test_half_a_pair_of_surrogates_in_a_group_s_name_is_shown_as_a_question_mark(tmp_path):
    X, labels = made_rows(2, 3)
    labels = labels.astype(object)
    labels[labels == "group 00"] = "\ud800 one"
    facts = fs.write_report(tmp_path / "page.html", X, labels, n_components=1, criteria=[])
    assert {group["group"] for group in facts["data"]["groups"]} == {"? one", "group 01"}
    assert "\\ud800" not in json.dumps(facts)
    assert "? one" in (tmp_path / "page.html").read_text(encoding="utf-8")
