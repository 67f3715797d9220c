"""Headlines, tiles and the table of the decision agree with the figures of each kind of verdict."""

import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import fairspan as fs
from case_selection import mark_most_slow
from fairspan.auditing.advice import Advice, Step
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.verdict import Verdict, VerdictKind
from fairspan.formatting.numbers import format_share
from fairspan.report.dimension_steps import with_dimension_steps
from fairspan.report.page import render_page, render_sentence
from fairspan.report.sentence_context import group_by_outcome, next_component_share
from fairspan.report.tables.decision_tables import decisions_table
from internal.report.report_objects import make_report, replace_certificate, replace_figures
from page_tree import parse_page


@pytest.fixture(scope="module")
def report_of_three():
    """Report of three groups, the third of which loses most by PCA."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 5)) * [3, 2.5, 1, 1, 0.5]
    X[600:] = X[600:, ::-1]
    return make_report(X, np.repeat(["ann", "bob", "cid"], 300), 2, compare=["nash_welfare"])


def sentence_words(name, report):
    text = re.sub("<.*?>", "", str(render_sentence(name, report)))
    return " ".join(text.split())


def named_groups(text):
    """Groups that a text names."""
    return {name for name in ("ann", "bob", "cid") if f"'{name}'" in text}


def with_verdict(report, kind, states, changes, groups=()):
    """Return the report with this verdict on the main model, and figures that agree with it.

    `states` are those of the groups under PCA and under the main model; `changes` are shares of
    the variance, known to half of a per cent.
    """
    pca_states, main_states = states
    report = replace_figures(report, 0, [{"state": state} for state in pca_states])
    figures = []
    for group, state, change in zip(report.main.groups, main_states, changes, strict=True):
        limits = (change, change - 0.005, change + 0.005)
        estimate = Estimate(*(limit * group.observed_total_variance for limit in limits))
        figures.append({"state": state, "expected_change": estimate})
    report = replace_figures(report, 1, figures)
    verdict = Verdict(
        kind, "The evidence.", Advice.from_texts("The advice."), report.main.name, groups
    )
    other_verdicts = report.audit.verdicts[1:]
    return replace(report, audit=replace(report.audit, verdicts=(verdict, *other_verdicts)))


FINE = "no material harm"
UNKNOWN = "inconclusive"
HARMED_THIRD = (FINE, FINE, "harmed")
# Kind, states under PCA and under the main model, changes, and groups that the headline names.
CASES = {
    "no material harm": ((FINE,) * 3, (FINE,) * 3, (0, 0, 0), set()),
    "no material harm, repair harms": ((FINE,) * 3, ("harmed", FINE, FINE), (0.1, 0, 0), {"ann"}),
    "inconclusive": ((FINE, FINE, UNKNOWN), (FINE,) * 3, (0, 0, 0), {"cid"}),
    "harm, no repair tried": (HARMED_THIRD, HARMED_THIRD, (0, 0, 0), {"cid"}),
    "harm, repair helps": (HARMED_THIRD, HARMED_THIRD, (0.003, 0.003, -0.1), {"cid"}),
    "harm, repair at a cost": (HARMED_THIRD, HARMED_THIRD, (0.003, 0.1, -0.1), {"bob", "cid"}),
    "harm, repair at a possible cost": (
        HARMED_THIRD,
        (UNKNOWN, "minor", "harmed"),
        (0.008, 0.003, -0.1),
        {"cid"},
    ),
    "harm, repair makes it worse": (HARMED_THIRD, HARMED_THIRD, (0, 0, 0.1), {"cid"}),
    "harm, repair not shown to help": (HARMED_THIRD, HARMED_THIRD, (0, 0, 0), {"cid"}),
    "harm, repair shifts it": (HARMED_THIRD, ("harmed", FINE, FINE), (0.1, 0, 0), {"ann", "cid"}),
}


def test_every_kind_of_verdict_is_a_case():
    assert set(CASES) == set(get_args(VerdictKind))


@pytest.mark.parametrize("kind", mark_most_slow(list(CASES), step=4))
def test_the_headline_names_who_is_harmed_and_who_pays_and_nobody_else(report_of_three, kind):
    *states, changes, groups = CASES[kind]
    report = with_verdict(report_of_three, kind, states, changes, groups=("cid",))
    text = sentence_words("headline", report)
    assert text.endswith(".")
    assert named_groups(text) == groups
    # Who gains may still be harmed; in these cases the third group is.
    gains = kind in (
        "harm, repair helps",
        "harm, repair at a cost",
        "harm, repair at a possible cost",
    )
    assert ("'cid' remains harmed" in text) is gains
    # Costs below the threshold are not called costs.
    assert ("pays for it" in text) is (kind == "harm, repair at a cost")
    page = parse_page(render_page(report)).with_id("summary")
    (badge,) = (element for element in page.all("p") if element.attributes.get("class") == "kind")
    assert badge.text == kind[0].upper() + kind[1:]
    assert badge.attributes["data-kind"] == kind.partition(",")[0]


def test_outcomes_count_every_criterion_once_and_contradict_none():
    kinds = [kind for kind in get_args(VerdictKind) if kind.startswith("harm, repair")]
    verdicts = [
        Verdict(kind, "", Advice.from_texts(""), f"{kind} {i}") for kind in kinds for i in range(2)
    ]
    outcomes = group_by_outcome(verdicts)
    models = [model for outcome in outcomes for model in outcome.models]
    assert sorted(models) == sorted(verdict.model for verdict in verdicts)
    assert len({outcome.phrase for outcome in outcomes}) == len(outcomes)
    # "None helps ...; 8 help it" was said of one and the same group.
    assert [outcome.helps for outcome in outcomes] == [True, True, True, False, False, False]


def with_states_by_dimension(report, states):
    """Return the report with one state of all groups at each of its numbers of dimensions."""
    dimensions = [
        replace(
            dimension,
            pca_estimates=[
                replace(
                    estimates,
                    state=states.get(dimension.n_components, UNKNOWN),
                    expected_loss=Estimate(0.0, 0.0, 0.0),
                )
                for estimates in dimension.pca_estimates
            ],
        )
        for dimension in report.curves.dimensions
    ]
    assert len(dimensions) == report.n_features == 5
    return replace(report, curves=replace(report.curves, dimensions=dimensions))


def proposing_dimensions(report, *first_steps):
    """Return the report with an inconclusive verdict that proposes another dimension, after steps.

    The proposal is on the condition that the first steps do not change the verdict.
    """
    states = (FINE, FINE, UNKNOWN), (FINE, FINE, UNKNOWN)
    report = with_verdict(report, "inconclusive", states, (0, 0, 0))
    proposal = Step(
        "Use fewer dimensions, and audit again.", same_dimension_action="Collect more rows"
    )
    advice = Advice((proposal, Step("Claim nothing.")))
    if first_steps:
        advice = advice.on_condition(map(Step, first_steps))
    verdicts = (replace(report.verdict, advice=advice), *report.audit.verdicts[1:])
    return replace(report, audit=replace(report.audit, verdicts=verdicts, findings=()))


def revised_steps(report):
    """Return the steps of the first verdict after the numbers of dimensions were tried."""
    return with_dimension_steps(report).verdicts[0].advice.step_texts


def test_steps_name_the_dimensions_without_material_harm(report_of_three):
    """If more rows may not help, a reader needs a number of dimensions to go to."""
    # All five features reduce nothing.
    report = with_states_by_dimension(proposing_dimensions(report_of_three), {1: FINE, 5: FINE})
    step, last = revised_steps(report)
    assert step.startswith("Use 1 dimension, where a loss above 1 % under PCA is ruled out")
    assert step.endswith("Otherwise collect more rows, and audit again.")
    assert last == "Claim nothing."
    assert sentence_words("dimension_advice", report) == ""


def test_steps_send_no_reader_to_dimensions_that_were_tried_in_vain(report_of_three):
    report = with_states_by_dimension(proposing_dimensions(report_of_three), {5: FINE})
    step, last = revised_steps(report)
    assert step.startswith("Collect more rows, and audit again: at none of the evaluated numbers")
    assert last == "Claim nothing."
    # A warning that asks for rows or dimensions is no other way.
    figures = {"groups": "'cid'", "optimism": "20 %"}
    warnings = (make_finding("FS108", figures), make_finding("FS410", {"duplicates": ""}))
    warned = replace(report, audit=replace(report.audit, findings=warnings))
    first, second, _ = revised_steps(warned)
    assert first.startswith("Follow the warning FS410, and audit again: at none of the evaluated")
    assert second == "If the verdict does not change, collect more rows."
    # Remedies that come first stay first, and what follows stays on their condition.
    conditional = proposing_dimensions(report_of_three, "Name the clusters.")
    assert conditional.verdict.advice.step_texts[1] == (
        "If the verdict does not change, use fewer dimensions, and audit again."
    )
    first, second, _ = revised_steps(with_states_by_dimension(conditional, {}))
    assert first == "Name the clusters."
    assert second.startswith("If the verdict does not change, collect more rows, and audit again")


def test_more_dimensions_are_not_proposed_if_they_were_tried_and_harm(report_of_three):
    states = (HARMED_THIRD,) * 2
    report = with_verdict(report_of_three, "harm, repair not shown to help", states, (0, 0, 0))
    advice = Advice((Step("Keep PCA", ending=": why.", suggests_more_dimensions=True),))
    assert advice.text == "Keep PCA, or use more dimensions: why."
    verdicts = (replace(report.verdict, advice=advice), *report.audit.verdicts[1:])
    report = replace(report, audit=replace(report.audit, verdicts=verdicts))
    harmful = with_states_by_dimension(report, {3: "harmed", 4: "harmed"})
    assert revised_steps(harmful) == ("Keep PCA: why.",)
    open_at_three = with_states_by_dimension(report, {4: "harmed"})
    assert revised_steps(open_at_three) == advice.step_texts


def test_larger_dimensions_without_material_harm_are_apart_from_open_ones(report_of_three):
    helpful = with_verdict(report_of_three, "harm, repair helps", (HARMED_THIRD,) * 2, (0, 0, -0.1))
    assert sentence_words("dimension_advice", helpful) == ""
    advice = Advice((Step("Larger", ending=".", suggests_more_dimensions=True),))
    verdict = replace(helpful.verdict, advice=advice)
    useless = replace(helpful, audit=replace(helpful.audit, verdicts=(verdict,)))
    # No more than the two dimensions of the report, and fewer than all five.
    start = "Of the evaluated numbers of dimensions above 2 (each considered separately), "
    advice = {
        name: sentence_words("dimension_advice", with_states_by_dimension(useless, states))
        for name, states in {
            "both": {1: FINE, 3: UNKNOWN, 4: FINE},
            "ruled out": {3: FINE, 4: FINE},
            "open": {1: FINE, 3: "harmed", 4: UNKNOWN},
            "harm": {3: "harmed", 4: "harmed"},
        }.items()
    }
    assert all(text.startswith(start) for text in advice.values())
    assert advice["both"].endswith(
        "group at 4; at 3 it is not, though no group is shown to be harmed."
    )
    assert advice["ruled out"].endswith(
        "a loss above 1 % under PCA is ruled out for every group at 3, 4."
    )
    assert advice["open"].endswith("for every group; at 4, no group is shown to be harmed.")
    assert advice["harm"].endswith("rules out a loss above 1 % under PCA for every group.")


def test_one_criterion_is_not_counted(report_of_three):
    report = replace(
        report_of_three,
        audit=replace(report_of_three.audit, models=report_of_three.audit.models[:2]),
    )
    states = (HARMED_THIRD, HARMED_THIRD)
    changes = (0.003, 0.003, -0.1)
    report = with_verdict(report, "harm, repair helps", states, changes)
    report = replace(report, audit=replace(report.audit, verdicts=report.audit.verdicts[:1]))
    lead = sentence_words("expected_criteria_lead", report)
    assert lead == ("Minimax loss helps 'cid', which PCA harms, at no material cost to others.")
    assert sentence_words("criteria_details", report) == ""


def test_the_section_on_repair_says_of_every_criterion_what_it_does(report_of_three):
    states = (HARMED_THIRD, HARMED_THIRD)
    changes = (0.003, 0.003, -0.1)
    report = with_verdict(report_of_three, "harm, repair helps", states, changes)
    names = [model.name for model in report.audit.models[1:]]
    assert len(names) == 2
    kinds = ["harm, repair not shown to help", "harm, repair helps"]
    verdicts = [
        Verdict(kind, "", Advice.from_texts(""), name)
        for kind, name in zip(kinds, names, strict=True)
    ]
    report = replace(report, audit=replace(report.audit, verdicts=tuple(verdicts)))
    assert sentence_words("expected_criteria_lead", report) == (
        f"Only {names[1]} helps 'cid', which PCA harms, at no material cost to others."
    )
    # A criterion that shifts the harm may help the group that PCA harms.
    kinds = ["harm, repair not shown to help", "harm, repair shifts it"]
    shifting = [
        Verdict(kind, "", Advice.from_texts(""), name)
        for kind, name in zip(kinds, names, strict=True)
    ]
    shifted = replace(report, audit=replace(report.audit, verdicts=tuple(shifting)))
    assert sentence_words("expected_criteria_lead", shifted) == (
        "None of 2 criteria is shown to help 'cid', which PCA harms, without harming another group."
    )
    first = f"{names[0][0].upper()}{names[0][1:]}"
    details = sentence_words("criteria_details", report)
    assert details.startswith(f"{first} is not shown to help 'cid'")
    assert "contains zero" in details


def test_the_tile_of_a_model_shows_the_largest_loss_of_any_group(report_of_three):
    # The model is not recommended, so its tiles are in the section on repair.
    assert not report_of_three.offers_main
    summary = sentence_words("expected_key_figures", report_of_three)
    assert report_of_three.main.full_name not in summary
    tiles = summary + sentence_words("repair_key_figures", report_of_three)
    for model in (report_of_three.pca, report_of_three.main):
        shares = {
            group.group: group.expected_loss.value / group.observed_total_variance
            for group in model.groups
        }
        worst = max(shares, key=shares.get)
        (group,) = (group for group in model.groups if group.group == worst)
        assert group.state != "inconclusive"
        start = tiles.index(f"Largest loss under {model.full_name}")
        tile = tiles[start:].replace("\xa0", " ")
        share_text = format_share(shares[worst]).replace("\xa0", " ")
        assert tile.startswith(
            f"Largest loss under {model.full_name}{share_text}of the variance of '{worst}'"
        )


@pytest.mark.parametrize("gap", [0.006, 5.0, np.inf])
def test_exactly_the_proven_answers_are_called_proven(report_of_three, gap, no_figures):
    objective = report_of_three.main_fit.certificate.objective
    bound = objective * (1 - gap)
    if gap >= 1:  # the bound is negative
        bound = -gap * objective
    report = replace_certificate(report_of_three, 1, lower_bound=bound, status=fs.Status.OPEN_GAP)
    page = parse_page(render_page(report))
    sections = [page.with_id(name).text for name in ("summary", "criteria")]
    text = " ".join(" ".join(sections).split())
    assert not re.search(r"\bproven (to be )?(within|optimal)\b", text.replace("not proven", ""))
    if gap < 1:
        assert "Not proven" not in text
        assert "Gap 0.6 %" in text
        assert "within 0.6 % of the optimum" in text
    else:
        assert "Not proven" in text


def test_the_box_on_the_threshold_compares_it_with_one_more_component(report_of_three, no_figures):
    sizes = [
        group.proportion * group.observed_total_variance for group in report_of_three.pca.groups
    ]
    errors = {
        result.n_components: np.dot(
            result.pca_errors, [g.proportion for g in report_of_three.pca.groups]
        )
        for result in report_of_three.curves.dimensions
    }
    expected = (errors[2] - errors[3]) / sum(sizes)
    assert next_component_share(report_of_three) == pytest.approx(expected, rel=1e-12)
    summary = parse_page(render_page(report_of_three)).with_id("summary")
    (box,) = (element for element in summary.all("div") if element.attributes.get("class") == "box")
    assert "Why 1\xa0%" in box.text
    assert format_share(expected) in box.text
    assert "--materiality" in box.text


@pytest.mark.slow
def test_the_table_of_the_decision_leads_the_section_on_repair(report_of_three):
    section = parse_page(render_page(report_of_three)).with_id("criteria")
    table = next(section.all("table"))
    body = list(next(table.all("tbody")).all("tr"))
    names = [next(row.all("th")).text for row in body]
    assert names == ["PCA", "minimax loss", "Nash welfare"]
    for row, model in zip(body, report_of_three.audit.models, strict=True):
        for cell, group in zip(row.all("td"), model.groups, strict=True):
            assert cell.attributes["data-state"] == group.state
            assert group.state in cell.text
            if model.is_pca:
                assert cell.text.startswith("loss")
                continue
            change = group.expected_change
            share = change.value / group.observed_total_variance
            change_match = re.match(r"change (\S+)\xa0% \(\S+\xa0to\xa0\S+\): ([a-z ]+)", cell.text)
            if change.high < 0:
                assert change_match[2].startswith("gain")
            elif change.low > 0:
                assert change_match[2].startswith(("cost", "small cost"))
            printed_change = float(change_match[1].replace("\u2212", "-"))
            assert printed_change == pytest.approx(100 * share, abs=0.06)


@pytest.mark.slow
def test_the_decision_has_a_row_for_each_of_many_groups():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(480, 4)) * [3, 2, 1, 1]
    names = [f"group {i}" for i in range(6)]
    report = make_report(X, np.repeat(names, 80), 2, compare=[])
    table = decisions_table(report)
    assert [row[0].text for row in table.rows] == names
    assert [column.heading for column in table.columns[1:]] == ["PCA", "minimax loss"]


def test_the_summary_has_no_figures_of_a_model_that_is_not_recommended(report_of_three):
    useless = with_verdict(
        report_of_three, "harm, repair not shown to help", (HARMED_THIRD,) * 2, (0, 0, 0)
    )
    assert not useless.offers_main
    page = parse_page(render_page(useless))
    name = useless.main.full_name
    assert f"Largest loss under {name}" not in page.with_id("summary").text
    assert f"Largest loss under {name}" in page.with_id("criteria").text
    advice = Advice.from_texts("Use it.", offered_model=useless.main.name)
    helpful = replace(useless.verdict, advice=advice)
    helpful = replace(useless, audit=replace(useless.audit, verdicts=(helpful,)))
    page = parse_page(render_page(helpful))
    assert f"Largest loss under {name}" in page.with_id("summary").text
    assert f"Largest loss under {name}" not in page.with_id("criteria").text


def test_several_steps_are_a_list_and_the_columns_of_the_groups_are_named(
    report_of_three, no_figures
):
    steps = ("Check the rows.", "Audit again (--clusters COL).")
    verdict = replace(report_of_three.verdict, advice=Advice.from_texts(*steps))
    rows = replace(report_of_three.audit.rows, group_columns=("sex", "age"))
    audit = replace(report_of_three.audit, verdicts=(verdict,), rows=rows)
    page = parse_page(render_page(replace(report_of_three, audit=audit)))
    items = [each.text for each in page.with_id("summary").all("li")]
    assert items == list(steps)
    assert "3 groups by sex and age, reduced" in " ".join(page.text.split())


def test_what_findings_question_is_an_assumption_of_the_lead(report_of_three):
    report = with_verdict(
        report_of_three, "harm, repair helps", (HARMED_THIRD,) * 2, (0.003, 0.003, -0.1)
    )
    report = replace(report, audit=replace(report.audit, findings=()))
    assert "chance does not explain it" in sentence_words("expected_pca_lead", report)
    assert "if" not in sentence_words("expected_pca_lead", report)
    findings = [
        make_finding("FS410", {"duplicates": ""}),
        make_finding(
            "FS109",
            dict.fromkeys(
                [
                    "groups",
                    "models",
                    "dominance",
                    "rows",
                    "columns",
                    "logarithms",
                    "categories",
                    "and_categories",
                ],
                "",
            ),
            groups=["cid"],
        ),
    ]
    questioned = replace(report, audit=replace(report.audit, findings=tuple(findings)))
    lead = sentence_words("expected_pca_lead", questioned)
    assert all(finding.assumption in lead for finding in findings)
    # A finding about a group that is not harmed questions nothing.
    others = (replace(findings[1], groups=("ann",)),)
    unquestioned = replace(report, audit=replace(report.audit, findings=others))
    assert others[0].assumption not in sentence_words("expected_pca_lead", unquestioned)
