"""Sentences of the page claim no more than what was compared and proven."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan import EqualError
from fairspan.auditing.intervals import Estimate
from fairspan.formatting.numbers import format_share
from fairspan.report import figures
from fairspan.report.page import render_page, slider_data
from fairspan.report.page import render_sentence as sentence
from fairspan.report.svg_figures import inline_svg
from fairspan.report.tables.observed_error_tables import criteria_table
from fairspan.report.tables.slider_tables import steps_table
from internal.report.audit_pages import two_groups
from internal.report.report_objects import make_report, replace_certificate, replace_figures
from report_cases import dimension_curve, generate_rows


@pytest.fixture(scope="module")
def minimax_loss_report():
    return make_report(*generate_rows(2, 4), 2, compare=[])


def sentence_text(name, report):
    return str(sentence(name, report)).replace("\xa0", " ")


def test_the_features_in_which_a_group_loses_most_are_named(minimax_loss_report):
    text = sentence_text("feature_errors", minimax_loss_report)
    plain = minimax_loss_report.pca
    group = re.search(r"<bdi>(.*?)</bdi>", text)[1]
    largest_shares = plain.feature_errors.largest_shares(group)
    shares = sorted(plain.feature_errors.best_estimate[plain.feature_errors.groups.index(group)])[
        ::-1
    ]
    assert [part for _, part in largest_shares] == pytest.approx(np.array(shares[:3]) / sum(shares))
    for name, part in largest_shares:
        assert f"{100 * part:.1f} % is in {name}" in re.sub("<.*?>", "", text)


def test_the_bound_of_equal_errors_is_claimed_of_equal_errors_alone():
    report = make_report(*generate_rows(2, 4), 2, criterion="equal_error", compare=[], folds=None)
    # Ordinary PCA has a lower error over all rows, so a claim about all projections is false.
    assert report.pca.observed_total_error < report.main_fit.certificate.lower_bound
    assert "2 components with equal errors" in sentence_text("certificate_lead", report)
    assert "dimension with equal errors" in report.verification["explanation"][0]


def test_the_bound_within_a_tolerance_is_claimed_of_such_errors_alone():
    report = make_report(
        *generate_rows(2, 4), 2, criterion=EqualError(0.01), compare=[], folds=None
    )
    errors = report.main_fit.certificate.errors
    assert abs(errors[0] - errors[1]) == pytest.approx(0.01, rel=1e-9)
    among = "with errors at most 0.01 apart"
    assert f"2 components {among}" in sentence_text("certificate_lead", report)
    assert f"dimension {among}" in report.verification["explanation"][0]


def test_maxima_are_claimed_of_the_compared_dimensions_only():
    report = make_report(*generate_rows(3, 4), 2, compare=[], folds=None)
    assert "evaluated" not in sentence_text("slider_lead", report)
    first_dimensions = report.curves.dimensions[:3]
    d = max(first_dimensions, key=lambda dimension: dimension.pca_losses.max()).n_components
    short_report = replace(report, curves=replace(report.curves, dimensions=first_dimensions))
    assert re.match(
        rf"The largest loss .* occurs with {d} dimensions?, among the 3 evaluated numbers: ",
        sentence_text("slider_lead", short_report),
    )


@pytest.mark.parametrize(
    ("low", "high", "claim"),
    [
        (-1.0, 2.0, "is not significant"),
        (0.0, 2.0, "is not significant"),
        (0.5, 2.0, "is significant"),
        (-2.0, -0.5, "is significant"),
        (None, None, ""),
    ],
)
def test_chance_is_ruled_out_where_the_interval_leaves_zero_out_and_only_there(
    minimax_loss_report, low, high, claim
):
    disparity = minimax_loss_report.pca.disparity
    observed = Estimate(disparity.observed.value, low, high)
    disparity = replace(disparity, observed=observed)
    text = sentence_text("pca_lead", replace_figures(minimax_loss_report, 0, disparity=disparity))
    assert claim in text
    assert ("significant" in text) is (claim != "")


@pytest.mark.long
def test_shares_of_weight_are_not_reported_as_shares_of_rows():
    X, labels = generate_rows(2, 3)  # 40 rows and 45
    for weights, ending in (
        (None, "; the smallest group, '<bdi>group 00</bdi>', has 47.1 % of the rows."),
        # 360 against 45
        ((9.0, 1.0), "; '<bdi>group 01</bdi>' has the smallest weight, 11.1 %."),
        ((45.0, 40.0), "in 2 groups of equal weight."),
    ):
        row_weights = None if weights is None else np.where(labels == "group 00", *weights)
        report = make_report(X, labels, 1, compare=[], weights=row_weights)
        assert sentence_text("groups_lead", report).endswith(ending)


def test_the_disparity_is_the_reported_difference(minimax_loss_report):
    plain = minimax_loss_report.pca
    error = {group.group: group.observed_error.value for group in plain.groups}
    larger, smaller = re.findall(
        r"<bdi>(.*?)</bdi>", sentence_text("disparity_definition", minimax_loss_report)
    )
    assert plain.observed_disparity.value == pytest.approx(error[larger] - error[smaller], rel=1e-9)


@pytest.mark.parametrize(("gap", "claimed_share"), [(0.0, "0.25"), (0.125, "0.25")])
def test_proven_is_claimed_to_the_tolerance_at_most(minimax_loss_report, gap, claimed_share):
    objective = minimax_loss_report.main_fit.certificate.objective
    report = replace_certificate(
        minimax_loss_report, 1, lower_bound=objective - gap, absolute_tol=0.25
    )
    assert sentence_text("certificate_lead", report).endswith(f"by more than {claimed_share}.")


def _name_largest(values, names):
    """The first that has the largest value, and how many more have it to six digits."""
    alike = [
        name for name, value in zip(names, values, strict=True) if value > max(values) * 0.999999
    ]
    return alike[0] + (f" and {len(alike) - 1} more" if len(alike) > 1 else "")


@pytest.mark.long
def test_the_worst_of_many_groups_is_the_one_that_is_named():
    report = make_report(*generate_rows(5, 4), 2, compare=["minimax_error"])
    rows = zip(report.audit.models, criteria_table(report).rows, strict=True)
    for model, (_, largest, name_cell, *_) in rows:
        losses = [group.observed_loss for group in model.groups]
        assert largest.sort_value == max(losses)
        assert name_cell.text == _name_largest(losses, report.group_names)
    steps = report.curves.steps
    named_groups = set()
    rows = steps_table(report).rows
    variances = np.array([group.observed_total_variance for group in report.pca.groups])
    for step, row in zip(steps[:-1], rows[:-1], strict=True):  # of all, nothing is lost
        for figures_here, column in ((step.errors / variances, 1), (step.losses / variances, 3)):
            g = int(np.argmax(figures_here))
            assert row[column].sort_value == figures_here[g]
            assert row[column + 1].text == _name_largest(figures_here, report.group_names)
            named_groups.add(g)
    assert len(named_groups) > 1


@pytest.mark.parametrize("k", [2, 3])
def test_the_error_over_all_rows_counts_every_row_once_at_every_step(k):
    report = make_report(*generate_rows(k, 4), 2, compare=[], folds=None)
    sizes = np.array([group.n_rows for group in report.pca.groups], dtype=float)
    for step in report.curves.steps:
        expected = np.average(step.errors, weights=sizes)
        assert step.total_error == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "nash_welfare"])
def test_a_bound_on_the_largest_loss_is_drawn_only_where_it_was_proven(criterion, monkeypatch):
    displayed_bounds = []

    def draw(display, **_):
        displayed_bounds.append(display.bound)

    monkeypatch.setattr("fairspan.report.figures.draw_figure", draw)
    report = make_report(*generate_rows(3, 4), 2, criterion=criterion, compare=[], folds=None)
    figures.losses_figure(report)
    bound = report.main_fit.certificate.lower_bound
    assert displayed_bounds == [bound if criterion == "minimax_loss" else None]


@pytest.mark.slow
def test_a_proven_bound_on_the_largest_loss_is_a_line_of_the_figure(minimax_loss_report):
    svg = figures.losses_figure(minimax_loss_report).svg
    assert 'id="l-bound-0"' in svg


def test_the_spoken_text_of_a_step_has_each_groups_own_error(minimax_loss_report):
    steps = minimax_loss_report.curves.steps
    step_records = slider_data(minimax_loss_report, [[] for _ in steps])["data"]["steps"]
    for step, record in zip(steps, step_records, strict=True):
        first, second = (
            format_share(error / group.observed_total_variance)
            for error, group in zip(step.errors, minimax_loss_report.pca.groups, strict=True)
        )
        assert f"group 00 {first}" in record["announcement"]
        assert f"group 01 {second}" in record["announcement"]


@pytest.mark.parametrize("center", ["group", "global"])
def test_pca_by_dimension_ignores_groups_and_is_evaluated_about_their_centers(center):
    X, labels = generate_rows(3, 4)
    X = X + 2.0 * (labels == "group 01")[:, None]
    facts = make_report(X, labels, 2, compare=[], center=center, folds=None).to_dict()
    for d, errors in enumerate(dimension_curve(facts, "PCA", "observed_error"), start=1):
        axes = PCA(d).fit(X).components_
        for g, error in zip(sorted(set(labels)), errors, strict=True):
            mean = X[labels == g].mean(axis=0) if center == "group" else X.mean(axis=0)
            rows = X[labels == g] - mean
            mean_residual = ((rows - rows @ axes.T @ axes) ** 2).sum(axis=1).mean()
            assert error == pytest.approx(mean_residual, rel=1e-8, abs=1e-9)


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
    import matplotlib

    report, page = two_groups()
    with matplotlib.rc_context(STYLES[style]):
        original_style = dict(matplotlib.rcParams)
        assert render_page(report) == page
        assert dict(matplotlib.rcParams) == original_style


def test_words_for_those_who_do_not_see_a_figure_are_not_made_shorter():
    from matplotlib.figure import Figure

    description = "of font-family: serif; xlink:href x"
    assert f' aria-label="{description}" ' in inline_svg(Figure(), "k", description)


@pytest.mark.long
def test_half_a_pair_of_surrogates_in_a_group_s_name_is_shown_as_a_question_mark(tmp_path):
    X, labels = generate_rows(2, 3)
    labels = labels.astype(object)
    labels[labels == "group 00"] = "\ud800 one"
    fs.write_report(tmp_path / "page.html", X, labels, n_components=1, compare=[])
    assert "? one" in (tmp_path / "page.html").read_text(encoding="utf-8")
