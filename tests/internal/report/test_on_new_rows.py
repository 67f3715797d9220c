"""The report leads with the verdict and with what new rows would show."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fairspan as fs
from fairspan.cli.reporting import report_summary
from fairspan.formatting.numbers import format_count, format_share
from fairspan.moments.group_moments import compute_group_moments
from fairspan.report.build import build_report
from fairspan.report.figures import dimensions_figure
from fairspan.report.page import render_page, render_sentence
from fairspan.report.report_settings import ReportSettings
from fairspan.report.tables.all_tables import report_tables
from fairspan.report.tables.decision_tables import decisions_table
from fairspan.report.tables.expected_error_tables import (
    expected_criteria_table,
    expected_pca_table,
)
from fairspan.rows.folds import Folds
from fairspan.rows.opening import open_group_rows
from internal.report.report_objects import ORIGIN, make_report, replace_figures
from known_verdicts import TRUTHS, assert_is_true
from page_tree import parse_page


def draw_rows_with_few(n_few=2):
    """Two groups that vary in different directions, and one of few rows."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400 + n_few, 5)) * [3, 2.5, 1, 1, 0.5]
    X[200:] = X[200:, ::-1]
    return X, np.repeat(["a", "b", "few"], [200, 200, n_few])


@pytest.fixture(scope="module")
def report_with_few_rows():
    return make_report(*draw_rows_with_few(), 2, compare=["minimax_error"])


def section_text(page, section):
    return " ".join(parse_page(page).with_id(section).text.split())


@pytest.mark.slow
def test_figures_and_verdict_are_those_of_the_audit(report_with_few_rows):
    X, groups = draw_rows_with_few()
    # The level of intervals is shared over the models, so the same models are audited.
    models = {
        criterion.replace("_", " "): fs.FairPCA(2, criterion=criterion).fit(
            X, sensitive_features=groups
        )
        for criterion in ("minimax_loss", "minimax_error")
    }
    audit = fs.audit(models, X, groups)
    audit_records = {
        (audit_record["model"], audit_record["group"]): audit_record
        for audit_record in audit.to_records()
    }
    for record in report_with_few_rows.audit.to_records():
        expected_record = audit_records[record["model"], record["group"]]
        assert record["state"] == expected_record["state"]
        for name in ("expected_error", "expected_loss_low", "expected_loss_high"):
            # Refits stop at their tolerance.
            expected = expected_record[name]
            near = expected if expected is None else pytest.approx(expected, rel=1e-3)
            assert record[name] == near
    assert report_with_few_rows.verdict.kind == audit.verdict.kind
    assert [verdict.model for verdict in report_with_few_rows.audit.verdicts] == [
        "minimax loss",
        "minimax error",
    ]
    changes = report_with_few_rows.to_dict()["changes"]
    assert {change["model"] for change in changes} == {"minimax loss", "minimax error"}


def test_the_verdict_is_the_headline(report_with_few_rows, no_figures):
    summary = section_text(render_page(report_with_few_rows), "summary")
    verdict = report_with_few_rows.verdict
    headline = re.sub("<.*?>", "", str(render_sentence("headline", report_with_few_rows)))
    assert summary.startswith(f"Summary {' '.join(headline.split())}")
    kind = f"{verdict.kind[0].upper()}{verdict.kind[1:]} "
    assert summary.index(kind + verdict.summary) < summary.index(verdict.recommendation)
    # Observed figures are no headline.
    assert "the best that" not in summary
    # The verdict comes before every table.
    assert parse_page(render_page(report_with_few_rows)).with_id("summary").all("table") is not None
    assert (
        next(parse_page(render_page(report_with_few_rows)).with_id("summary").all("table"), None)
        is None
    )


@pytest.mark.long
def test_a_group_of_too_few_rows_is_faint_and_no_headline(report_with_few_rows):
    few = report_with_few_rows.pca.groups[2]
    assert (few.group, few.state, few.is_estimated) == ("few", "inconclusive", False)
    table = expected_pca_table(report_with_few_rows)
    assert table.muted_rows == (2,)
    assert table.rows[2][3].detail == "too few rows"
    assert (
        "few"
        not in str(render_sentence("expected_key_figures", report_with_few_rows)).split(
            "<dt>Change"
        )[0]
    )
    assert "Too few rows" in render_sentence("groups_not_estimated", report_with_few_rows)
    section = parse_page(render_page(report_with_few_rows)).with_id("summary")
    assert "too few rows" in next(section.all("svg")).text


def test_a_group_without_variance_is_not_said_to_have_too_few_rows(report_with_few_rows):
    main = report_with_few_rows.main
    flat = replace(main.groups[0], observed_total_variance=0.0)
    models = [
        replace(model, groups=(flat, *main.groups[1:])) if model is main else model
        for model in report_with_few_rows.audit.models
    ]
    flat_report = replace(
        report_with_few_rows, audit=replace(report_with_few_rows.audit, models=tuple(models))
    )
    *_, flat_row, _ = decisions_table(flat_report).rows
    assert flat_row[1].sort_value == 0
    assert "too few" not in flat_row[1].text + flat_row[1].detail
    assert flat_row[2].sort_value > 0


def test_the_summary_names_a_page_only_if_there_is_one(report_with_few_rows):
    assert "Written" not in report_summary(report_with_few_rows, page=None)
    assert report_summary(report_with_few_rows, Path("page.html")).endswith(
        "\n\nWritten to page.html"
    )


def test_criteria_are_compared_by_losses_on_new_rows_and_variance_kept(report_with_few_rows):
    table = expected_criteria_table(report_with_few_rows)
    for row, model in zip(table.rows, report_with_few_rows.audit.models, strict=True):
        estimated_groups = [group for group in model.groups if group.is_estimated]
        shares = [
            group.expected_loss.value / group.observed_total_variance for group in estimated_groups
        ]
        assert row[1].sort_value == max(shares)
        worst_group = estimated_groups[shares.index(max(shares))]
        assert row[2].sort_value == worst_group.group
        ends = [float(text.replace("\u2212", "-")) for text in row[1].detail.split()[:3:2]]
        limits = [worst_group.expected_loss.low, worst_group.expected_loss.high]
        interval = [100 * limit / worst_group.observed_total_variance for limit in limits]
        assert ends == pytest.approx(interval, abs=0.06)
        kept_shares = [1 - group.expected_error_share.value for group in model.groups]
        assert row[4].sort_value == np.nanmin(kept_shares)
    X, groups = draw_rows_with_few()
    of_two = make_report(X[:400], groups[:400], 2, compare=[])
    table = expected_criteria_table(of_two)
    for row, model in zip(table.rows, of_two.audit.models, strict=True):
        # What is kept and the error add up, as both are those on new rows.
        assert [row[4].sort_value, row[5].sort_value] == [
            1 - group.expected_error_share.value for group in model.groups
        ]


def test_the_headline_of_a_tile_is_the_estimate_also_if_it_is_inconclusive(report_with_few_rows):
    report = replace_figures(report_with_few_rows, 0, [{"state": "inconclusive"}] * 3)
    shares = {
        group: group.expected_loss.value / group.observed_total_variance
        for group in report_with_few_rows.pca.groups
        if group.is_estimated
    }
    group = max(shares, key=shares.get)
    limit = format_share(group.expected_loss.high / group.observed_total_variance)
    figures = str(render_sentence("expected_key_figures", report))
    headline = f'<span class="figure">{format_share(shares[group])}</span>'
    assert headline in figures
    assert f"{limit})" in figures.split(headline)[1].split("</div>")[0]
    assert "do not tell of any group" in render_sentence("expected_pca_lead", report)


def test_each_number_of_dimensions_is_evaluated_by_folds(report_with_few_rows):
    """Estimates come from moments by fold, as in an audit of blocks or of the rows."""
    X, groups = draw_rows_with_few()
    curve = report_with_few_rows.curves.dimensions
    assert [dimension.n_components for dimension in curve if dimension.pca_estimates] == [
        1,
        2,
        3,
        4,
        5,
    ]
    folds = Folds(10, 0).folds_of_positions(np.arange(len(X)))
    blocks = [fs.GroupMoments.from_rows(X[folds == f], groups[folds == f]) for f in range(10)]
    for d in (1, 3):
        pca = fs.FairPCA(d, criterion="total_error").fit(X, sensitive_features=groups)
        audit = fs.audit(pca, moments=blocks, folds=10)
        for estimates, group in zip(
            curve[d - 1].pca_estimates, audit.models[0].groups, strict=True
        ):
            assert estimates.state == group.state
            for name in ("expected_loss", "expected_error"):
                one, other = (
                    getattr(group_figures, name).to_record("")
                    for group_figures in (estimates, group)
                )
                assert one == {
                    end: limit if limit is None else pytest.approx(limit, rel=1e-6)
                    for end, limit in other.items()
                }
    assert curve[1].pca_estimates == report_with_few_rows.pca.groups


def test_the_page_names_the_dimensions_at_which_pca_harms(report_with_few_rows, no_figures):
    section = section_text(render_page(report_with_few_rows), "dimensions")
    losses_and_dimensions = [
        (figures.expected_loss.value / group.observed_total_variance, dimension.n_components)
        for dimension in report_with_few_rows.curves.dimensions
        for figures, group in zip(
            dimension.pca_estimates, report_with_few_rows.pca.groups, strict=False
        )
        if figures.state == "harmed"
    ]
    assert losses_and_dimensions
    share, d = max(losses_and_dimensions)
    n_harmed = len({d for _, d in losses_and_dimensions})
    assert f"at {n_harmed} of the 5 " in section
    share_text = " ".join(format_share(share).split())
    dimensions = " ".join(format_count(d, "dimension").split())
    assert re.search(rf" {share_text} of the variance of '.*?', at {dimensions}\.", section)


@pytest.mark.slow
def test_the_figure_of_dimensions_shows_who_is_too_few(report_with_few_rows):
    figure = dimensions_figure(report_with_few_rows)
    assert "too few rows" in figure.svg


def test_the_page_of_moments_alone_explains_the_missing_verdict(no_figures):
    moments = compute_group_moments(open_group_rows(*draw_rows_with_few(), None))
    report_settings = ReportSettings.parse("minimax_loss", [], 2, "global", False)
    report = build_report(moments, None, report_settings, ORIGIN)
    facts = report.to_dict()
    page = render_page(report)
    assert facts["verdict"] is None
    assert facts["verdicts"] == facts["changes"] == []
    summary = section_text(page, "summary")
    assert "no estimates" in summary
    assert "moments" in summary
    # Nor is there any interval.
    assert "interval" not in section_text(page, "pca")
    assert "significant" not in page.split("<main>")[1].split('id="findings"')[0]


@pytest.mark.long
def test_slow_criteria_give_a_reason_for_missing_estimates():
    X, groups = draw_rows_with_few(40)
    report = make_report(X, groups, 2, compare=["error_gap"])
    slow = report.audit.models[2]
    assert (slow.name, slow.has_estimates) == ("error gap", False)
    assert "not refitted" in slow.no_estimates_reason
    assert "error gap" in str(render_sentence("models_not_estimated", report))
    assert [verdict.model for verdict in report.audit.verdicts] == ["minimax loss"]
    report_on_request = make_report(X, groups, 2, criterion="error_gap", compare=[])
    assert report_on_request.main.no_estimates_reason is None


def test_columns_of_words_are_distinguished_from_numeric_columns(report_with_few_rows):
    for table in report_tables(report_with_few_rows).values():
        for column in table.columns:
            has_words = any(isinstance(cell.sort_value, str) for cell in column.cells)
            assert column.is_text == has_words, column.heading


# Two of these pages take less than two seconds.
QUICKER = ("a harmed minority", "heavy tails")


@pytest.mark.parametrize(
    "truth",
    [
        pytest.param(
            truth,
            id=truth.name,
            marks=pytest.mark.slow if truth.name in QUICKER else pytest.mark.long,
        )
        for truth in TRUTHS
    ],
)
def test_the_page_says_what_is_true(truth):
    report = make_report(*truth.rows(), truth.d, compare=["total_error"])
    assert_is_true(truth, report.audit, report.main, report.pca)
    verdict = report.verdict
    summary = section_text(render_page(report), "summary")
    assert verdict.summary in summary
    assert all(step in summary for step in verdict.advice.step_texts)
