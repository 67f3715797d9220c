"""The report leads with the verdict and with what new rows would show."""

import copy

import numpy as np
import pytest

import fairspan as fs
from fairspan.formatting.text import number
from fairspan.moments.group_moments import accumulate
from fairspan.report.facts.answers import ReportSettings
from fairspan.report.facts.assembly import facts_of
from fairspan.report.page import figures, tables
from fairspan.report.page.figures import of_dimensions
from fairspan.report.page.rendering import page_of, said
from fairspan.rows.groups import Folds
from fairspan.rows.registry import rows_of
from known_truths import TRUTHS
from page_tree import tree_of
from report_rows import ORIGIN, facts_by, model_of


def rows_with_few(few=2):
    """Two groups that vary in different directions, and one of few rows."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400 + few, 5)) * [3, 2.5, 1, 1, 0.5]
    X[200:] = X[200:, ::-1]
    return X, np.repeat(["a", "b", "few"], [200, 200, few])


@pytest.fixture(scope="module")
def made():
    return facts_by(*rows_with_few(), 2, criteria=["minimax_error"])


def text_in(page, section):
    return " ".join(tree_of(page).with_id(section).text.split())


def test_figures_and_verdict_are_those_of_the_audit(made):
    X, groups = rows_with_few()
    audit = fs.audit(fs.FairPCA(2).fit(X, sensitive_features=groups), X, groups)
    theirs = {(each["model"], each["group"]): each for each in audit.records()}
    for model in ("PCA", "minimax_loss"):
        for group in model_of(made, model)["groups"]:
            known = theirs[model, group["group"]]
            assert group["state"] == known["state"]
            for name in ("expected_error", "expected_loss_low", "expected_loss_high"):
                # Refits stop at their tolerance.
                expected = known[name]
                near = expected if expected is None else pytest.approx(expected, rel=1e-3)
                assert group[name] == near
    assert made["verdict"]["kind"] == audit.verdict.kind
    assert made["verdict"]["model"] == "minimax_loss"
    assert [each["model"] for each in made["verdicts"]] == ["minimax_loss", "minimax_error"]
    assert {each["model"] for each in made["changes"]} == {"minimax_loss", "minimax_error"}


def test_the_verdict_is_the_headline(made):
    summary = text_in(page_of(made), "summary")
    verdict = made["verdict"]
    headline = f"Summary {verdict['kind'][0].upper()}{verdict['kind'][1:]}. "
    assert summary.startswith(headline + verdict["sentence"])
    assert verdict["action"] in summary
    # What was found on the rows alone is no headline.
    assert "costs" not in summary
    assert "the best that" not in summary


@pytest.mark.long
def test_a_group_of_too_few_rows_is_faint_and_no_headline(made):
    few = model_of(made, "PCA")["groups"][2]
    assert (few["group"], few["state"], few["expected_loss"]) == ("few", "cannot tell", None)
    table = tables.of_expected_plain(made)
    assert table.faint == (2,)
    assert table.rows[2][3].below == "too few rows"
    assert "few" not in str(said("answers_on_new_rows", made)).split("<dt>Change")[0]
    assert "Too few rows for any estimate" in said("not_estimated", made)
    section = tree_of(page_of(made)).with_id("summary")
    assert "too few rows" in next(section.all("svg")).text


def test_criteria_are_compared_by_losses_on_new_rows_and_variance_kept(made):
    table = tables.of_expected_criteria(made)
    for row, model in zip(table.rows, made["models"], strict=True):
        known = [each for each in model["groups"] if each["expected_loss"] is not None]
        harmed = [each for each in known if each["state"] == "harmed"]
        assert row[1].value in [each["expected_loss"] for each in harmed or known]
        told = next(each for each in known if each["expected_loss"] == row[1].value)
        assert row[2].value == told["group"]
        ends = [float(text.replace(",", "")) for text in row[1].below.split()[::2]]
        interval = [told["expected_loss_low"], told["expected_loss_high"]]
        assert ends == pytest.approx(interval, abs=0.01 * max(map(abs, interval)))
        assert row[4].value == min(each["kept_here"] for each in model["groups"])
    X, groups = rows_with_few()
    of_two = facts_by(X[:400], groups[:400], 2, criteria=[])
    table = tables.of_expected_criteria(of_two)
    for row, model in zip(table.rows, of_two["models"], strict=True):
        kept = [each["kept_here"] for each in model["groups"]]
        assert [row[4].value, row[5].value] == kept


def test_a_figure_of_which_rows_cannot_tell_is_no_headline(made):
    facts = copy.deepcopy(made)
    for group in model_of(facts, "PCA")["groups"]:
        group["state"] = "cannot tell"
    assert '<span class="figure">Cannot tell</span>' in said("answers_on_new_rows", facts)
    assert "not shown to harm any" in said("pca_on_new_rows", facts)


def test_each_number_of_dimensions_is_judged_by_parts_of_the_rows(made):
    """From moments by fold, as an audit of blocks; that asked for, as the audit of the rows."""
    X, groups = rows_with_few()
    expected = made["by_dimension"]["expected"]
    assert expected["dimensions"] == [1, 2, 3, 4, 5]
    folds = Folds(10, 0).of_positions(0, len(X))
    blocks = [fs.GroupMoments.from_rows(X[folds == f], groups[folds == f]) for f in range(10)]
    for d in (1, 3):
        pca = fs.FairPCA(d, criterion="total_error").fit(X, sensitive_features=groups)
        audit = fs.audit(pca, moments=blocks, folds=10)
        for g, group in enumerate(audit.models[0].groups):
            record = group.record
            for name, value in (
                ("expected_losses", record["expected_loss"]),
                ("expected_losses_low", record["expected_loss_low"]),
                ("expected_losses_high", record["expected_loss_high"]),
                ("expected_errors", record["expected_error"]),
            ):
                told = expected["plain"][name][d - 1][g]
                assert told == (value if value is None else pytest.approx(value, rel=1e-6))
            assert expected["plain"]["states"][d - 1][g] == group.state
    own = model_of(made, "PCA")["groups"]
    for name, key in (
        ("expected_losses", "expected_loss"),
        ("expected_losses_high", "expected_loss_high"),
    ):
        assert expected["plain"][name][1] == [group[key] for group in own]


def test_the_page_tells_where_pca_harms_and_shows_who_is_too_few(made):
    section = text_in(page_of(made), "walk")
    harmed = [
        (max(loss for loss, state in zip(losses, states, strict=True) if state == "harmed"), d)
        for d, losses, states in zip(
            made["by_dimension"]["expected"]["dimensions"],
            made["by_dimension"]["expected"]["plain"]["expected_losses"],
            made["by_dimension"]["expected"]["plain"]["states"],
            strict=True,
        )
        if "harmed" in states
    ]
    assert harmed
    loss, d = max(harmed)
    assert f"harms a group with {len(harmed)} of the 5 numbers of dimensions" in section
    assert f"most with {d}, where" in section
    assert f"loses {number(loss)}." in section
    drawn = of_dimensions(made, with_marks=True)
    assert "too few rows" in drawn.svg
    assert "Dotted: excess loss on these rows" in drawn.caption


def test_moments_alone_have_no_verdict_and_the_page_says_so():
    X, groups = rows_with_few()
    moments = accumulate(rows_of(X, groups, None))
    asked = ReportSettings.of("minimax_loss", [], 2, "global", False)
    facts = facts_of(moments, None, asked, ORIGIN)
    assert facts["verdict"] is None
    assert facts["verdicts"] == facts["changes"] == []
    assert {each["state"] for each in facts["models"][0]["groups"]} == {None}
    summary = text_in(page_of(facts), "summary")
    assert "There are no estimates for new rows" in summary
    assert "moments alone give no estimates" in summary


@pytest.mark.long
def test_of_several_groups_slow_criteria_say_why_they_have_no_estimates():
    X, groups = rows_with_few(40)
    facts = facts_by(X, groups, 2, criteria=["error_gap"])
    slow = model_of(facts, "error_gap")
    assert "not fitted again" in slow["why_no_estimates"]
    assert {each["state"] for each in slow["groups"]} == {None}
    assert "error gap" in str(said("not_estimated", facts))
    assert [each["model"] for each in facts["verdicts"]] == ["minimax_loss"]
    asked = facts_by(X, groups, 2, criterion="error_gap", criteria=[])
    assert model_of(asked, "error_gap")["why_no_estimates"] is None


def test_columns_of_words_are_told_from_columns_of_figures(made):
    for table in (
        tables.of_expected_plain(made),
        tables.of_changes(made),
        tables.of_expected_criteria(made),
    ):
        for column in table.columns:
            has_words = any(isinstance(cell.value, str) for cell in column.cells)
            assert column.is_text == has_words, column.heading


def test_losses_of_the_fair_answer_are_drawn_where_there_is_one(made, monkeypatch):
    facts, losses = copy.deepcopy(made), made["by_dimension"]["fair"]["losses_here"]
    facts["by_dimension"]["fair"]["losses_here"] = [None, *losses[1:]]
    monkeypatch.setattr(figures, "draw", lambda picture, *_, **__: picture)
    picture = of_dimensions(facts, with_marks=False)
    frame = picture.frame().set_index(["model", "n_components"])
    curve, shown = made["by_dimension"], frame.loc[facts["by_dimension"]["fair"]["criterion"]]
    by_d = dict(zip(curve["dimensions"], [None, *losses[1:]], strict=True))
    for d, wanted in by_d.items():
        found = shown["loss_here"][d]
        assert found.isna().all() if wanted is None else found.tolist() == wanted
    expected = curve["expected"]
    for end in ("", "_low", "_high"):
        table = expected["plain"][f"expected_losses{end}"]
        for d, wanted in zip(expected["dimensions"], table, strict=True):
            found = frame.loc["PCA"][f"expected_loss{end}"][d]
            np.testing.assert_array_equal(found, np.array(wanted, dtype=float))


# Four groups, of which three are alike, take some seconds.
SLOW = "an intersection"
CASES = [
    pytest.param(each, id=each.name, marks=[pytest.mark.long] if each.name == SLOW else [])
    for each in TRUTHS
]


@pytest.mark.parametrize("truth", CASES)
def test_the_page_says_what_is_true(truth):
    facts = facts_by(*truth.rows(), truth.d, criteria=["total_error"])
    verdict = facts["verdict"]
    assert verdict["kind"] == truth.kind
    assert set(verdict["groups"]) == set(truth.groups)
    assert verdict["action"].startswith(truth.action)
    for name in truth.groups:
        assert name in verdict["sentence"]
    harmed = [each["group"] for each in model_of(facts, "PCA")["groups"] if is_harmed(each)]
    assert set(harmed) == set(truth.harmed)
    assert truth.finding is None or truth.finding in {each["code"] for each in facts["findings"]}
    if truth.kind == "harm, and repair helps":
        told = {each["group"]: each for each in facts["changes"] if each["model"] == "minimax_loss"}
        assert {name for name in told if told[name]["change_high"] < 0} == set(truth.harmed)
        # Those whom PCA served pay for it, and the verdict says so.
        assert all(each["change_low"] > 0 for name, each in told.items() if name not in harmed)
        assert all(f"'{name}'" in verdict["sentence"] for name in told)
    summary = " ".join(tree_of(page_of(facts)).with_id("summary").text.split())
    assert verdict["sentence"] in summary
    assert verdict["action"] in summary


def is_harmed(group):
    return group["state"] == "harmed"
