"""What the page's sentences claim is no more than what was looked at and proven."""

import copy
import json
import re

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

import fairspan as fs
from audit_pages import two_groups
from fairspan.formatting.text import number
from fairspan.report.page import figures, tables
from fairspan.report.page.figures import inline_svg
from fairspan.report.page.rendering import page_of, slider_of
from fairspan.report.page.rendering import said as sentence
from report_rows import facts_by, made_rows, model_of


@pytest.fixture(scope="module")
def of_equal_error():
    return facts_by(*made_rows(2, 4), 2, criterion="equal_error", criteria=["minimax_loss"])


@pytest.fixture(scope="module")
def of_minimax_loss():
    return facts_by(*made_rows(2, 4), 2, criteria=[])


def test_the_bound_of_equal_errors_is_claimed_of_equal_errors_alone(of_equal_error):
    facts = of_equal_error
    # Ordinary PCA has a lower error over all rows, so a claim about all projections is false.
    certificate = model_of(facts, "equal_error")["certificate"]
    assert model_of(facts, "PCA")["total_error_here"] < certificate["lower_bound"]
    assert "no projection to 2 dimensions with equal errors lowers" in _text(
        sentence("proof", facts)
    )
    assert (
        "no subspace of as many dimensions with equal errors is"
        in facts["verification"]["words"][0]
    )


def test_what_is_largest_is_claimed_of_the_dimensions_that_were_looked_at():
    few = facts_by(*made_rows(3, 4), 2, criteria=[])
    assert "looked at" not in sentence("walk", few)
    many = copy.deepcopy(few)
    many["data"]["n_features"] = 81  # of which four numbers of dimensions
    largest = np.max(many["by_dimension"]["plain"]["losses_here"], axis=1)
    d = many["by_dimension"]["dimensions"][int(largest.argmax())]
    said = _text(sentence("walk", many))
    assert re.match(
        rf"PCA costs a group most with {d} dimensions?, of the 4 numbers that were looked at: ",
        said,
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-1.0, 2.0, "do not show that the two differ"),
        (0.0, 2.0, "do not show that the two differ"),
        (0.5, 2.0, "larger than chance explains"),
        (-2.0, -0.5, "larger than chance explains"),
        (None, None, ""),
    ],
)
def test_chance_is_ruled_out_where_the_interval_leaves_zero_out_and_only_there(
    of_minimax_loss, low, high, said
):
    facts = copy.deepcopy(of_minimax_loss)
    model_of(facts, "PCA").update(disparity_here_low=low, disparity_here_high=high)
    text = _text(sentence("pca", facts))
    assert said in text
    assert ("chance" in text) is (said == "larger than chance explains")


@pytest.mark.long
def test_shares_of_weight_are_not_told_as_shares_of_rows():
    X, labels = made_rows(2, 3)  # 40 rows and 45
    rows = _text(sentence("data", facts_by(X, labels, 1, criteria=[])))
    assert rows.endswith("; the smallest, '<bdi>group 00</bdi>', has 47.1 % of them.")
    weights = np.where(labels == "group 00", 9.0, 1.0)  # 360 against 45
    facts = facts_by(X, labels, 1, criteria=[], weights=weights)
    assert _text(sentence("data", facts)).endswith(
        "; '<bdi>group 01</bdi>', with the least weight, has 11.1 % of it."
    )
    even = np.where(labels == "group 00", 45.0, 40.0)
    facts = facts_by(X, labels, 1, criteria=[], weights=even)
    assert _text(sentence("data", facts)).endswith("in 2 groups of equal weight.")


def test_the_disparity_is_the_difference_that_is_told(of_minimax_loss):
    facts = copy.deepcopy(of_minimax_loss)
    plain = model_of(facts, "PCA")
    error = {each["group"]: each["error_here"] for each in plain["groups"]}
    of, minus = re.findall(r"<bdi>(.*?)</bdi>", sentence("disparity", facts))
    assert plain["disparity_here"] == pytest.approx(error[of] - error[minus], rel=1e-9)


@pytest.mark.parametrize(("gap", "claimed"), [(0.0, "0.25"), (0.125, "0.25"), (0.5, "0.5")])
def test_proven_is_claimed_to_the_tolerance_at_most(of_minimax_loss, gap, claimed):
    facts = copy.deepcopy(of_minimax_loss)
    model_of(facts, "minimax_loss")["certificate"] |= {"gap": gap, "tolerance": 0.25}
    assert _text(sentence("proof", facts)).endswith(f"by more than {claimed}.")


def _text(markup):
    return str(markup).replace("\xa0", " ")


def _whose(values, names):
    """The first that has the largest value, and how many more have it to six digits."""
    alike = [
        name for name, each in zip(names, values, strict=True) if each > max(values) * 0.999999
    ]
    return alike[0] + (f" and {len(alike) - 1} more" if len(alike) > 1 else "")


@pytest.mark.long
def test_the_worst_of_many_groups_is_the_one_that_is_named():
    facts = facts_by(*made_rows(5, 4), 2, criteria=["minimax_error"])
    by_name = dict(zip([each["name"] for each in facts["models"]], facts["models"], strict=True))
    rows = zip(by_name, tables.of_criteria(facts).rows, strict=True)
    for name, (_, largest, whose, *_) in rows:
        losses = [group["loss_here"] for group in by_name[name]["groups"]]
        assert largest.value == max(losses)
        assert whose.text == _whose(losses, [each["group"] for each in by_name[name]["groups"]])
    names = [each["group"] for each in facts["data"]["groups"]]
    points = facts["steps"]["points"]
    steps = tables.of_steps(facts, [each["label"] for each in points])
    told = set()
    for point, row in zip(points[:-1], steps.rows[:-1], strict=True):  # of all, nothing is lost
        for what, at in (("errors_here", 1), ("losses_here", 3)):
            g = int(np.argmax(point[what]))
            assert row[at].value == point[what][g]
            assert row[at + 1].text == _whose(point[what], names)
            told.add(g)
    assert len(told) > 1


@pytest.mark.parametrize("k", [2, 3])
def test_the_error_over_all_rows_counts_every_row_once_at_every_step(k):
    facts = facts_by(*made_rows(k, 4), 2, criteria=[])
    sizes = np.array([each["n"] for each in facts["data"]["groups"]], dtype=float)
    for point in facts["steps"]["points"]:
        known = np.average(point["errors_here"], weights=sizes)
        assert point["total_error_here"] == pytest.approx(known, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "nash_welfare"])
def test_a_bound_on_the_largest_loss_is_drawn_only_where_it_was_proven(criterion):
    facts = facts_by(*made_rows(3, 4), 2, criterion=criterion, criteria=[])
    drawn = figures.of_losses(facts).svg
    assert ("proven lower bound" in drawn) is (criterion == "minimax_loss")


def test_what_is_read_out_at_a_step_gives_each_group_its_own_error(of_minimax_loss):
    facts = copy.deepcopy(of_minimax_loss)
    points = facts["steps"]["points"]
    steps = slider_of(facts, [[] for _ in points])["data"]["steps"]
    for point, step in zip(points, steps, strict=True):
        first, second = map(number, point["errors_here"])
        assert f"group 00 {first}" in step["said"]
        assert f"group 01 {second}" in step["said"]
        np.testing.assert_allclose(step["loadings"], point["components"], atol=0.00501)


@pytest.mark.parametrize("center", ["group", "global"])
def test_pca_by_dimension_knows_no_groups_and_is_judged_about_their_own_centre(center):
    X, labels = made_rows(3, 4)
    X = X + 2.0 * (labels == "group 01")[:, None]
    curve = facts_by(X, labels, 2, criteria=[], center=center)["by_dimension"]
    for d, errors in zip(curve["dimensions"], curve["plain"]["errors_here"], strict=True):
        axes = PCA(d).fit(X).components_
        for g, error in zip(sorted(set(labels)), errors, strict=True):
            mean = X[labels == g].mean(axis=0) if center == "group" else X.mean(axis=0)
            rows = X[labels == g] - mean
            left = ((rows - rows @ axes.T @ axes) ** 2).sum(axis=1).mean()
            assert error == pytest.approx(left, rel=1e-8, abs=1e-9)


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
