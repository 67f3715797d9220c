"""The audit page: well-formed, self-contained, the same bytes, and what the facts say."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import fairspan as fs
from fairspan.cli.printed_results import certificate_text
from fairspan.formatting.numbers import (
    common_decimals,
    format_number,
    format_relative,
    format_share,
)
from fairspan.report.figures import frontier_figure
from fairspan.report.page import keep_percent_signs, render_page, render_sentence
from fairspan.report.shares import format_parts
from internal.report.audit_pages import (
    HOSTILE,
    PAGES,
    SHOWN,
    hostile_pair,
    report_of_two_groups,
    twelve_groups,
    two_groups,
)
from internal.report.report_objects import make_report, replace_certificate, replace_figures
from page_tree import parse_page
from report_cases import generate_rows

# Whatever the names hold, nothing else comes to be.
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section"),
    *("footer", "script", "noscript", "a", "div", "span", "br", "h1", "h2", "h3", "p", "ol", "ul"),
    *("li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("details", "summary", "bdi", "strong", "figure", "figcaption", "label", "button", "input"),
    *("output", "pre", "code", "svg", "g", "path", "defs", "clippath", "rect", "use", "text"),
    *("tspan", "wbr", "pattern", "circle"),
}


@pytest.mark.long
@PAGES
def test_the_page_is_well_formed_html_with_landmarks_and_headings_in_order(make_page):
    page = make_page()[1]
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    tree = parse_page(page)
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        assert len(list(tree.all(landmark))) == 1, landmark
    levels = [int(heading.tag[1]) for heading in tree.all("h1", "h2", "h3")]
    assert all(next_level <= level + 1 for level, next_level in pairwise(levels))
    ids = [element.attributes["id"] for element in tree.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    pointers = [
        element.attributes[name].removeprefix("#")
        for element in tree.all()
        for name in ("href", "for", "aria-labelledby")
        if name in element.attributes
    ]
    assert pointers
    assert set(pointers) <= set(ids)


@PAGES
def test_tables_have_captions_and_scopes_and_figures_are_reported(make_page):
    tree = parse_page(make_page()[1])
    for table in tree.all("table"):
        assert len(list(table.all("caption"))) == 1
        widths = {len(list(row.all("th", "td"))) for row in table.all("tr")}
        assert len(widths) == 1
        assert all(cell.attributes.get("scope") in ("row", "col") for cell in table.all("th"))
    for figure in tree.all("figure"):
        assert len(list(figure.all("figcaption"))) == 1
        # Some figures are drawn once for wide screens and once for phones.
        drawings = list(figure.all("svg"))
        assert len(drawings) in (1, 2)
        assert len({svg.attributes["aria-label"] for svg in drawings}) == 1
        for svg in drawings:
            assert svg.attributes["role"] == "img"
            assert re.search(r"\d", svg.attributes["aria-label"])
    (slider,) = (element for element in tree.all("input"))
    assert [label.attributes["for"] for label in tree.all("label")] == [slider.attributes["id"]]


@PAGES
def test_the_page_requests_no_external_resource(make_page):
    page = make_page()[1]
    targets = re.findall(r'\s(?:href|src|action|srcset|data|poster)="([^"]*)"', page)
    assert targets
    assert all(target.startswith("#") for target in targets)
    assert "@import" not in page
    references = re.findall(r"url\(([^)]*)\)", page)
    assert references
    assert all(target.startswith("#") for target in references)
    namespaces = set(re.findall(r'="(https?://[^"]*)"', page))
    assert namespaces == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@PAGES
def test_every_color_of_a_figure_is_the_page_s_own(make_page):
    figures = re.findall(r"<svg .*?</svg>", make_page()[1], re.S)
    assert len(figures) >= 3
    for svg in figures:
        assert "var(--ink)" in svg
        assert not re.findall(r"(?:fill|stroke|color): #\w+", svg)


@PAGES
def test_policy_allows_its_own_script_and_style_by_their_hashes_and_nothing_else(make_page):
    tree = parse_page(make_page()[1])
    (meta,) = (element for element in tree.all("meta") if "http-equiv" in element.attributes)
    policy = dict(part.split(" ", 1) for part in meta.attributes["content"].split("; "))
    (style,) = tree.all("style")
    *data, script = tree.all("script")
    assert {element.attributes["type"] for element in data} == {"application/json"}
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{_hash(script.text)}'",
        "style-src-elem": f"'sha256-{_hash(style.text)}'",
        "style-src-attr": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def _hash(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@pytest.mark.long
def test_hostile_names_are_text_everywhere():
    page = twelve_groups()[1]
    tree = parse_page(page)
    assert {element.tag for element in tree.all()} <= ALLOWED
    assert not [
        name for element in tree.all() for name in element.attributes if name.startswith("on")
    ]
    shown_names = [name or "(no name)" for name in SHOWN]
    tables = {next(table.all("caption")).text: table for table in tree.all("table")}
    groups = [next(row.all("th")).text for row in _body(tables["Groups"])]
    assert sorted(groups) == sorted(shown_names)
    (names,) = (element for element in tree.all("ul") if element.attributes.get("class") == "names")
    assert [item.text for item in names.all("li")] == list(SHOWN[:8])
    assert "<i>rows</i>" in tree.text
    data = next(tree.all("script")).text
    assert not set("<>&") & set(data)
    announcements = " ".join(step["announcement"] for step in json.loads(data)["steps"])
    assert any(name in announcements for name in HOSTILE)


@pytest.mark.long
def test_hostile_names_in_every_step_end_no_script():
    report, page = hostile_pair()
    tree = parse_page(page)
    assert {element.tag for element in tree.all()} <= ALLOWED - {"img", "b"}
    data = next(tree.all("script")).text
    assert not set("<>&") & set(data)
    for step in json.loads(data)["steps"]:
        assert all(name in step["announcement"] for name in report.group_names)


def _body(table):
    return next(table.all("tbody")).all("tr")


def test_json_of_the_slider_has_what_the_report_has():
    report, page = two_groups()
    data = json.loads(next(parse_page(page).all("script")).text)
    curves = report.curves
    assert len(data["steps"]) == len(curves.steps) <= 40
    assert data["shortcuts"] == {"pca": curves.pca_step, "main": curves.main_step}
    for step_data, step in zip(data["steps"], curves.steps, strict=True):
        np.testing.assert_allclose(step_data["loadings"], step.loadings, atol=0.00501)


@pytest.mark.long
def test_page_stays_small_with_many_groups_steps_and_features(monkeypatch):
    # The moments below have features that no model of this report has.
    monkeypatch.setattr("fairspan.report.figures.correlation_figure", lambda report: None)
    report = twelve_groups()[0]
    n_steps = 40
    names = [f"a feature with a name {i}" for i in range(81)]
    first, *_ = report.curves.dimensions
    step = report.curves.steps[0]
    expected = report.pca.groups
    curves = replace(
        report.curves,
        dimensions=tuple(
            replace(first, n_components=2 * d + 1, pca_estimates=expected if d < 16 else ())
            for d in range(n_steps)
        ),
        steps=tuple(
            replace(
                step,
                n_components=2 * d + 1,
                losses=step.losses + d,
                loadings=np.full((5, 20), -0.123),
                variances=np.full(5, 1.2345),
            )
            for d in range(n_steps)
        ),
        main_step=20,
        features=tuple(range(20)),
    )
    moments = replace(fs.GroupMoments.from_rows(*wide_rows()), feature_names=tuple(names))
    page = render_page(replace(report, curves=curves, moments=moments))
    # Of which 50 000 are the figures that it gives as JSON.
    assert len(page.encode()) < 500_000
    assert page.count("a feature with a name 7<") >= 2


def wide_rows():
    return np.random.default_rng(0).normal(size=(24, 81)), [f"g{i % 12}" for i in range(24)]


def tables_of(page):
    return {next(table.all("caption")).text: table for table in parse_page(page).all("table")}


def cells_of(table):
    return [
        [cell.text for cell in row.all("th", "td")] for row in next(table.all("tbody")).all("tr")
    ]


CRITERIA_CAPTION = "Ordinary PCA and fair criteria"


@PAGES
def test_table_of_pca_shows_its_figures_with_the_decimals_of_each_column(make_page):
    report, page = make_page()
    plain = report.pca
    total = report.pca.observed_total_error
    table = tables_of(page)[f"PCA with {plain.n_components}\u00a0dimensions"]
    errors, best, losses = (
        common_decimals(values)
        for values in (
            [*(group.observed_error.value for group in plain.groups), total],
            [group.observed_best_error for group in plain.groups],
            [group.observed_loss for group in plain.groups],
        )
    )
    for row, group in zip(cells_of(table), plain.groups, strict=True):
        low, high = (
            format_number(end, errors)
            for end in (group.observed_error.low, group.observed_error.high)
        )
        assert row[1] == f"{format_number(group.observed_error.value, errors)}{low} to\u00a0{high}"
        assert row[2:4] == [
            format_number(group.observed_best_error, best),
            format_number(group.observed_loss, losses),
        ]
        assert row[4] == format_relative(group.observed_loss / group.observed_best_error)
        assert row[5].split() == [f"{100 * group.observed_variance_kept:.1f}", "%"]
        for text, value in zip(
            row[2:4], (group.observed_best_error, group.observed_loss), strict=True
        ):
            assert float(text) == pytest.approx(value, rel=0.005)
    (foot,) = next(table.all("tfoot")).all("tr")
    foot_cells = [cell.text for cell in foot.all("th", "td")][:2]
    assert foot_cells == ["all rows", format_number(total, errors)]


@PAGES
def test_table_of_criteria_has_every_model_and_what_it_asks(make_page):
    report, page = make_page()
    table = tables_of(page)[CRITERIA_CAPTION]
    models = report.audit.models
    head = next(table.all("thead")).text
    if make_page is two_groups:
        assert all(
            head.count(name) == 2 for name in report.group_names
        )  # an error and a loss of each
    else:
        assert "largest loss" in head
    for row, model, fit in zip(cells_of(table), models, report.fits, strict=True):
        assert row[0].lower().startswith(model.name.split(" (")[0].lower())
        assert fit.problem.criterion.formula.summary in row[0]
        lost_share, lost_in_pca = (
            audited_model.observed_total_error
            / sum(
                group.proportion * group.observed_total_variance for group in audited_model.groups
            )
            for audited_model in (model, report.pca)
        )
        change, printed_share = re.fullmatch(r"(.*)\s?points([\d.]+)\s?% lost", row[-2]).groups()
        decimals = len(printed_share.partition(".")[2])
        assert printed_share == f"{100 * lost_share:.{decimals}f}"
        # The change is the difference of the two shares that are printed.
        difference = round(100 * lost_share, decimals) - round(100 * lost_in_pca, decimals)
        if "about" in change:
            assert difference == 0
        else:
            assert float(change.replace("\u2212", "-")) == pytest.approx(difference, abs=1e-9)
        assert (row[-1] == "proven") == (fit.certificate.status == "optimal")
    for _, reason in report.skipped_criteria:
        assert reason in parse_page(page).text


def test_an_answer_is_called_proven_where_it_is_and_nowhere_else(no_figures):
    report = report_of_two_groups()
    report = replace_certificate(report, 1, lower_bound=0.0, status=fs.Status.OPEN_GAP)
    statuses = [row[-1] for row in cells_of(tables_of(render_page(report))[CRITERIA_CAPTION])]
    assert statuses[1] == "open gap"
    assert [status == "proven" for status in statuses] == [
        fit.certificate.status == "optimal" for fit in report.fits
    ]
    assert "proven" in statuses


def test_a_loose_tolerance_stands_with_every_status(no_figures):
    report = report_of_two_groups()
    report = replace_certificate(report, 1, tol=0.01, status=fs.Status.OPTIMAL)
    page = render_page(report)
    assert cells_of(tables_of(page)[CRITERIA_CAPTION])[1][-1] == "proven within 1\xa0%"
    text = " ".join(parse_page(page).text.split())
    # In the table, in the summary and in the section on the certificate.
    assert text.lower().count("proven within 1 %") >= 3


def test_a_loose_tolerance_stands_with_the_status_of_an_audit_and_a_display():
    X, labels = generate_rows(2, 4)
    fair = fs.FairPCA(2, tol=0.01).fit(X, sensitive_features=labels)
    model = fs.audit(fair, X, labels, folds=None).models[0]
    assert (model.status, model.tol, model.status_text) == ("optimal", 0.01, "optimal within 1 %")
    assert "Status: proven within 1 %" in certificate_text(fair.solution_)
    assert fs.displays.GroupLossDisplay.compute(fair).status == "optimal within 1 %"


@pytest.mark.long
@pytest.mark.parametrize("n_alike", [1, 2, 5])
def test_groups_that_share_the_largest_loss_are_described_alike_everywhere(n_alike):
    # As a fit leaves them: the last of those that share it is ahead by rounding.
    losses = np.array([7.0 + 1e-9 * i if i < n_alike else 1.0 for i in range(12)])
    report = replace_figures(
        twelve_groups()[0], 1, [{"observed_loss": float(value)} for value in losses]
    )
    steps = list(report.curves.steps)
    steps[report.curves.main_step] = replace(steps[report.curves.main_step], losses=losses)
    report = replace(report, curves=replace(report.curves, steps=tuple(steps)))
    page = render_page(report)
    first = report.group_names[0]
    description = first if n_alike == 1 else f"{first} and {n_alike - 1} more"
    assert cells_of(tables_of(page)[CRITERIA_CAPTION])[1][2] == description
    # At a step of the slider, the losses are shares of variances that differ.
    shares = [
        loss / group.observed_total_variance
        for loss, group in zip(losses, report.pca.groups, strict=True)
    ]
    assert f"largest loss {format_share(max(shares))}, of " in parse_page(page).text
    losers = f"shared by {n_alike}\u00a0groups" if n_alike > 1 else f"variance of '{first}'"
    # Shares of equal variances are tied as the losses are.
    report = replace_figures(
        report,
        1,
        [{"observed_loss": float(value), "observed_total_variance": 50.0} for value in losses],
    )
    text = html.unescape(re.sub("<[^>]*>", "", str(render_sentence("key_figures", report))))
    assert losers in text


@PAGES
def test_sorting_values_are_those_of_the_report(make_page):
    report, page = make_page()
    rows = [row.all("th", "td") for row in next(tables_of(page)["Groups"].all("tbody")).all("tr")]
    values = [[cell.attributes["data-value"] for cell in row] for row in rows]
    for sort_values, group, name in zip(values, report.pca.groups, report.group_names, strict=True):
        assert sort_values[0] == name
        expected = [group.n_rows, group.proportion, group.observed_total_variance]
        assert list(map(float, sort_values[1:])) == pytest.approx(expected, rel=1e-11)


@PAGES
def test_findings_stand_with_code_message_and_remedy_and_warnings_first(make_page):
    report, page = make_page()
    lists = [
        list(element.all("li"))
        for element in parse_page(page).all("ol")
        if element.attributes.get("class") == "findings"
    ]
    # Those about criteria that were only compared stand apart.
    about_answer = parse_page(page).with_id("findings").children
    answer = " ".join(part.text for part in about_answer if not isinstance(part, str))
    about_others = answer.partition("Findings about the other criteria")[2]
    for finding in report.audit.findings:
        text = answer if finding.model in (None, "PCA", report.main.name) else about_others
        text = text.replace("\xa0%", " %")
        assert all(
            words in text for words in (finding.code, finding.observation, finding.full_remedy)
        )
        # The advice is not given twice.
        assert not finding.stated_remedy or finding.stated_remedy not in finding.observation
    for entries in lists:
        severities = [entry.attributes["class"] for entry in entries]
        assert severities == sorted(severities, reverse=True)


def test_summary_says_whose_loss_rises():
    report = report_of_two_groups()
    (g,) = (
        g
        for g, (pca_group, main_group) in enumerate(
            zip(report.pca.groups, report.main.groups, strict=True)
        )
        if main_group.observed_loss > pca_group.observed_loss
    )
    pca_loss, main_loss = (
        format_share(model.groups[g].observed_loss / model.groups[g].observed_total_variance)
        for model in (report.pca, report.main)
    )
    sentence = (
        f"loss of '<bdi>{report.group_names[g]}</bdi>' increases from {pca_loss} to {main_loss}."
    )
    assert sentence in render_sentence("summary", report)


@PAGES
def test_page_has_its_provenance_and_verification(make_page):
    report, page = make_page()
    text = parse_page(page).text
    provenance = report.to_dict()["provenance"]
    for part in (provenance["command"], provenance["numpy"], provenance["scikit-learn"]):
        assert part in text
    verification = report.verification
    for part in (*verification["commands"], verification["commands_note"]):
        assert part in text
    assert all(sentence in text for sentence in verification["explanation"])


def test_marks_of_the_slider_lie_on_the_drawn_frontier():
    report, page = two_groups()
    tree = parse_page(page)
    marks = mark_positions(tree)[:, 0]
    errors = np.array([step.errors for step in report.curves.steps])
    # Where a mark is depends linearly on the errors, downwards for the second group.
    for axis, sign in ((0, 1), (1, -1)):
        slope, offset = np.polyfit(errors[:, axis], marks[:, axis], 1)
        assert slope * sign > 0
        assert slope * errors[:, axis] + offset == pytest.approx(marks[:, axis], abs=0.1)
    # The frontier is the longest line of the first figure.
    svg = next(tree.with_id("trade-off").all("svg"))
    frontier = max((_points(path) for path in svg.all("path")), key=len)
    distances = np.linalg.norm(marks[:, None] - frontier, axis=2).min(axis=1)
    assert np.median(distances) < 1
    (first,) = (circle for circle in svg.all("circle"))
    start = report.curves.main_step
    assert [float(first.attributes[attribute]) for attribute in ("cx", "cy")] == marks[
        start
    ].tolist()


def mark_positions(tree):
    """Return the positions of the marks of each step."""
    steps = json.loads(next(tree.all("script")).text)["steps"]
    return np.array([step["marks"] for step in steps])


@pytest.mark.long
def test_no_answer_is_drawn_below_the_frontier():
    report = two_groups()[0]
    # As coarse as can be: its ends alone.
    frontier = replace(report.curves.frontier, errors=report.curves.frontier.errors[[0, -1]])
    figure = frontier_figure(replace(report, curves=replace(report.curves, frontier=frontier)))
    corners = np.vstack([_points(path) for path in parse_page(str(figure.svg)).all("path")])
    for step in (report.curves.pca_step, report.curves.main_step):
        mark = np.array(figure.mark_positions[step][0])
        assert np.abs(corners - mark).max(axis=1).min() < 0.1


@pytest.mark.long
def test_every_answer_is_drawn_inside_what_can_be_reached():
    # A few corners of the region alone: answers still lie inside what is drawn of it.
    report = two_groups()[0]
    region = report.curves.region[:: max(1, len(report.curves.region) // 3)]
    figure = frontier_figure(replace(report, curves=replace(report.curves, region=region)))
    fills = [
        _points(path)
        for path in parse_page(str(figure.svg)).all("path")
        if "fill: var(--faint)" in path.attributes.get("style", "")
    ]
    # The other one is its mark in the legend.
    region = max(fills, key=len)
    sides = np.roll(region, -1, axis=0) - region
    for ((x, y),) in figure.mark_positions:
        to_mark = np.array([x, y]) - region
        turns = sides[:, 0] * to_mark[:, 1] - sides[:, 1] * to_mark[:, 0]
        lengths = np.maximum(np.linalg.norm(sides, axis=1), 1e-9)
        # On the same side of every side, to the rounding of places.
        assert min((turns / lengths).max(), (-turns / lengths).max()) < 0.2


def _points(path):
    numbers = re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path.attributes["d"])
    return np.array(numbers, dtype=float).reshape(-1, 2)


@pytest.mark.long
def test_every_group_has_a_mark_in_its_own_panel():
    report, page = twelve_groups()
    marks = mark_positions(parse_page(page))
    assert marks.shape == (len(report.curves.steps), 12, 2)
    assert len({tuple(place) for place in marks[0]}) == 12
    # Only the answer at the selected dimension has estimates, so the marks move along the axis.
    dimensions = [step.n_components for step in report.curves.steps]
    for panel in range(12):
        slope, offset = np.polyfit(dimensions, marks[:, panel, 0], 1)
        assert slope > 0
        assert slope * np.array(dimensions) + offset == pytest.approx(marks[:, panel, 0], abs=0.1)
        assert np.ptp(marks[:, panel, 1]) == 0


@pytest.fixture(scope="module")
def observed_report():
    """Report of three groups without folds, so with observed losses alone."""
    return make_report(*generate_rows(3, 4), 2, compare=[], folds=None)


@pytest.mark.long
def test_marks_of_observed_losses_are_drawn_at_the_losses(observed_report):
    marks = mark_positions(parse_page(render_page(observed_report)))
    losses = np.array([step.losses for step in observed_report.curves.steps])
    groups = observed_report.pca.groups
    # The panels begin with the group that loses most.
    order = sorted(range(3), key=lambda g: -groups[g].observed_loss)
    for panel, g in enumerate(order):
        slope, offset = np.polyfit(losses[:, g], marks[:, panel, 1], 1)
        assert slope < 0
        assert slope * losses[:, g] + offset == pytest.approx(marks[:, panel, 1], abs=0.1)


@pytest.mark.long
def test_infeasible_dimensions_are_dropped_from_the_curve(observed_report):
    report = observed_report
    first, *other_dimensions = report.curves.dimensions
    first = replace(first, fair_errors=np.full(3, np.nan), certificate=None)
    report = replace(report, curves=replace(report.curves, dimensions=(first, *other_dimensions)))
    label = next(
        svg.attributes["aria-label"]
        for svg in parse_page(render_page(report)).all("svg")
        if "at d = 1" in svg.attributes["aria-label"]
    )
    assert "and none at d = 1;" in label


@pytest.mark.long
def test_unproven_answers_are_not_called_proven():
    report = two_groups()[0]
    bound = report.main_fit.certificate.objective - 0.25
    open_gap = replace_certificate(report, 1, lower_bound=bound, status=fs.Status.OPEN_GAP)
    assert render_sentence("certificate_lead", open_gap).startswith("Not proven: a projection")
    assert "0.25" in render_sentence("certificate_lead", open_gap)
    for section in ("summary", "criteria"):
        assert "Proven" not in parse_page(render_page(open_gap)).with_id(section).text
    unknown = replace_certificate(report, 1, lower_bound=-np.inf, status=fs.Status.OPEN_GAP)
    assert "no bound" in render_sentence("certificate_lead", unknown)
    # The model is not recommended, so its figures are in the section on repair.
    assert "Not proven" in parse_page(render_page(unknown)).with_id("criteria").text


@pytest.mark.long
def test_names_of_ten_thousand_letters_are_shortened_on_the_page_only():
    X, labels = generate_rows(2, 4)
    names = {"group 00": "a" * 10_000, "group 01": "b" * 10_000}
    report = make_report(X, [names[label] for label in labels], 2)
    assert [group.group for group in report.pca.groups] == sorted(names.values())
    page = render_page(report)
    assert len(page) < 400_000
    assert max(map(len, re.findall("a+|b+", parse_page(page).text))) <= 100


@pytest.mark.long
def test_only_the_largest_losses_of_many_groups_are_drawn_and_slow_criteria_are_on_request():
    X, labels = generate_rows(18, 4, n=8)
    report = make_report(X, labels, 2)
    slow = {"equal error", "error gap", "robust error gap"}
    assert {name for name, _ in report.skipped_criteria} == {"disparity", *slow}
    page = render_page(report)
    # Each row of losses has its state in words, groups have headings, and features a circle. The
    # losses under a model that is not recommended are drawn beside those under PCA once more.
    assert len(page) < 460_000
    captions = [element.text for element in parse_page(page).all("figcaption")]
    captions = [text for text in captions if not text.startswith("Correlation of each feature")]
    harmed_groups = {
        g.group for m in (report.pca, report.main) for g in m.groups if g.state == "harmed"
    }
    assert all(re.search(r"the 1[0-8] of 18 groups", caption) for caption in captions), captions
    summary = next(parse_page(page).with_id("summary").all("figure"))
    assert harmed_groups
    assert all(group in summary.text for group in harmed_groups)
    # Their tables hold every group, in a box that scrolls.
    boxes = [
        element
        for element in parse_page(page).all("div")
        if "long" in element.attributes.get("class", "").split()
    ]
    assert len(boxes) >= 3
    assert all(f"group {g:02d}" in box.text for box in boxes for g in range(18))
    report_with_request = make_report(X, labels, 2, compare=["error_gap"])
    assert [fit.name for fit in report_with_request.fits] == ["PCA", "minimax loss", "error gap"]


def test_a_page_of_so_few_rows_that_nothing_can_be_expected(no_figures):
    rng = np.random.default_rng(0)
    report = make_report(rng.normal(size=(6, 4)), [*"aaabbb"], 2, compare=[])
    assert report.verdict.kind == "inconclusive"
    summary = parse_page(render_page(report)).with_id("summary").text
    assert report.verdict.summary in " ".join(summary.split())


def test_a_page_of_groups_that_are_alike(no_figures):
    X, _ = generate_rows(2, 4)
    rows = np.vstack([X, X]), np.repeat(["a", "b"], len(X)), 2
    report = make_report(*rows, compare=[], folds=None)
    text = parse_page(render_page(report)).text
    assert "of equal size." in text
    error = format_number(report.pca.groups[0].observed_error.value)
    assert f"with an error of {error}" in " ".join(text.split())
    pca_report = make_report(*rows, criterion="total_error", compare=[], folds=None)
    assert [fit.name for fit in pca_report.fits] == ["PCA"]
    assert render_sentence("criteria_lead", pca_report).startswith("No fair criterion")


def test_no_line_ends_between_a_number_and_its_percent_sign():
    markup = "<p title='1 %'>A loss of 12 % to 30 %</p><pre>--level 95 %</pre>"
    joined_markup = keep_percent_signs(markup)
    assert joined_markup == "<p title='1 %'>A loss of 12\xa0% to 30\xa0%</p><pre>--level 95 %</pre>"


@pytest.mark.parametrize(
    "proportions", [[0.8205, 0.1795], [1 / 3] * 3, [0.99996, 0.00004], [0.123456, 0.5, 0.376544]]
)
def test_printed_shares_of_the_groups_add_up(proportions):
    texts = [text.replace("\xa0%", "") for text in format_parts(proportions)]
    total = sum(float(text) for text in texts if not text.startswith("<"))
    assert total == pytest.approx(100, abs=1e-9)
    for text, proportion in zip(texts, proportions, strict=True):
        assert abs(float(text.strip("<\xa0")) - 100 * proportion) < 0.1
