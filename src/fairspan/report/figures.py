"""Figures of a report: errors, losses, dimensions, correlations and the frontier."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from fairspan.auditing.intervals import share_of
from fairspan.auditing.results import ModelResult
from fairspan.displays import (
    AuditDisplay,
    CorrelationCircleDisplay,
    ErrorCurveDisplay,
    FrontierDisplay,
    GroupLossDisplay,
    style,
)
from fairspan.displays.correlation_circle_display import MAX_FEATURES
from fairspan.formatting.numbers import format_level, format_share, share_with_interval
from fairspan.report.frontier_shape import enclose_achievable_region, extend_frontier
from fairspan.report.report import Report
from fairspan.report.shares import shares_of_variances
from fairspan.report.svg_figures import PageFigure, PanelPoint, SliderMarks, draw_figure
from fairspan.typing import FloatArray

# Maximum width in inches of the figure in the summary, next to the verdict.
_MAX_SUMMARY_WIDTH = 5.2
# Maximum number of panel columns on a phone.
_MAX_PHONE_COLUMNS = 2
# Maximum number of groups per figure; tables show all.
_MAX_GROUPS_DRAWN = 12
# Of those, maximum number in the summary, which shows two models of each next to the verdict.
_MAX_GROUPS_IN_SUMMARY = 6
# Maximum number of features in the alternative text of a figure.
_MAX_DESCRIBED_FEATURES = 20


def pca_errors_figure(report: Report) -> PageFigure:
    """Figure of the groups' observed errors under PCA, with intervals if all groups have them."""
    records = _drawn_records(report, report.pca.records)
    level = report.audit.level
    has_intervals = all(record["observed_error_low"] is not None for record in records)
    descriptions = [
        f"{record['group']} {_describe_share(record, 'observed_error')}" for record in records
    ]
    interval_note = f", with its {format_level(level)} interval" if has_intervals else ""
    caption = f"Error of {_describe_drawn_groups(report)} under PCA{interval_note}."
    alt_text = f"Errors under PCA: {'; '.join(descriptions)}."
    display = AuditDisplay(records, "observed_error", level=level)
    return draw_figure(
        display, element_prefix="p", caption=caption, alt_text=alt_text, fit_phone=True
    )


def summary_figure(report: Report) -> PageFigure:
    """Figure of the expected losses under PCA and, if it is offered, the main criterion."""
    models = [report.pca]
    if report.offers_main:
        models += _estimated_repair(report)
    return _expected_losses_figure(report, models, "e")


def repair_figure(report: Report) -> PageFigure | None:
    """Figure of the expected losses under PCA and the main criterion, which is not offered.

    None if it is offered, as the figure of the summary then shows it, or has no estimates.
    """
    repair = _estimated_repair(report)
    if report.offers_main or not repair:
        return None
    return _expected_losses_figure(report, [report.pca, *repair], "r")


def _estimated_repair(report: Report) -> list[ModelResult]:
    """Return the main model, if it is a fair one with estimates."""
    if report.main.is_pca or report.main.no_estimates_reason is not None:
        return []
    return [report.main]


def _expected_losses_figure(
    report: Report, models: Sequence[ModelResult], element_prefix: str
) -> PageFigure:
    """Figure of the expected losses under some models."""
    n_groups = _MAX_GROUPS_IN_SUMMARY
    records_by_model = [_drawn_records(report, model.records, n_groups) for model in models]
    descriptions = [
        f"Under {model.name}: " + "; ".join(map(_describe_estimate, records))
        for model, records in zip(models, records_by_model, strict=True)
    ]
    names = " and ".join(model.name for model in models)
    drawn_groups = _describe_drawn_groups(report, n_groups)
    caption = f"Expected loss of {drawn_groups} on new rows under {names}."
    alt_text = f"Expected losses, with intervals. {'. '.join(descriptions)}."
    display = AuditDisplay(
        [*chain(*records_by_model)],
        "expected_loss",
        level=report.audit.level,
        materiality=report.audit.materiality,
    )
    # A figure of more groups, those that are harmed, would bloat the page if it were drawn twice.
    is_small = len(_drawn_groups(report, n_groups)) <= n_groups
    return draw_figure(
        display,
        element_prefix,
        caption,
        alt_text,
        max_width=_MAX_SUMMARY_WIDTH,
        phone_display=display if is_small else None,
    )


def _describe_estimate(record: Mapping[str, Any]) -> str:
    if record["expected_loss"] is None:
        return f"{record['group']} {record['state']}"
    return f"{record['group']} {_describe_share(record, 'expected_loss')}, {record['state']}"


def _describe_share(record: Mapping[str, Any], name: str) -> str:
    """Describe a value with its interval, if it has one, as a share of the group's variance."""
    variance = record["observed_total_variance"]
    low = record[f"{name}_low"]
    high = record[f"{name}_high"]
    if low is None or high is None:
        return format_share(share_of(record[name], variance))
    value, interval = share_with_interval(
        share_of(record[name], variance), share_of(low, variance), share_of(high, variance)
    )
    return f"{value} ({interval})"


def losses_figure(report: Report) -> PageFigure:
    """Figure of the observed losses under PCA and the main criterion, for the groups drawn.

    It shows the certificate's lower bound if that bounds the largest loss: the objective is then
    the largest excess loss, not divided by the group's variance.
    """
    certificate = report.main_fit.certificate
    name = report.main.name
    pca_records = _drawn_records(report, report.pca.records)
    main_records = _drawn_records(report, report.main.records)
    bounds_loss = certificate.criterion.bounds_largest_loss
    has_bound = bounds_loss and np.isfinite(certificate.lower_bound)
    display = GroupLossDisplay(
        [*pca_records, *main_records],
        "observed_loss",
        materiality=report.audit.materiality,
        n_components=report.main.n_components,
        bound=certificate.lower_bound if has_bound else None,
        status=certificate.status_text,
    )
    descriptions = []
    for pca_record, main_record in zip(pca_records, main_records, strict=True):
        variance = pca_record["observed_total_variance"]
        pca_loss = format_share(share_of(pca_record["observed_loss"], variance))
        main_loss = format_share(share_of(main_record["observed_loss"], variance))
        descriptions.append(f"{pca_record['group']} {pca_loss} and {main_loss}")
    caption = (
        f"Observed excess loss of {_describe_drawn_groups(report)} under PCA and under {name}."
    )
    alt_text = f"Losses under PCA and {name}: {'; '.join(descriptions)}."
    return draw_figure(
        display, element_prefix="l", caption=caption, alt_text=alt_text, fit_phone=True
    )


def correlation_figure(report: Report) -> PageFigure | None:
    """Figure of the correlations of the features with the main model's first two components.

    None with a single component, or too many features for arrows that can be told apart.
    """
    if report.main.n_components < 2 or report.n_features > MAX_FEATURES:
        return None
    display = CorrelationCircleDisplay.from_moments(report.main_fit.subspace, report.moments)
    name = report.main.name
    caption = (
        f"Correlation of each feature with the first two components of {name}, over all rows. "
        "Features whose arrow nearly reaches the circle are well represented. Names without room "
        "are left out; the table of loadings has all features."
    )
    order = np.argsort(-display.explained_shares, kind="stable")[:_MAX_DESCRIBED_FEATURES]
    described = "; ".join(
        f"{display.features[j]} {display.correlations[j, 0]:.2f}, {display.correlations[j, 1]:.2f}"
        for j in order
    )
    alt_text = f"Correlations with components 1 and 2 of {name}: {described}."
    return draw_figure(display, "c", caption, alt_text)


def dimensions_figure(report: Report) -> PageFigure:
    """Figure of the losses by number of dimensions: expected ones if available, or observed ones.

    It has a panel for each group drawn. Expected losses are those under PCA, with the main
    criterion at the selected dimension only, where the audit estimates it. The page's slider
    selects a step: a point of the frontier of two groups, which is in another figure; or, if there
    is no frontier, a number of dimensions, which is marked in the panels of this figure.
    """
    curves = report.curves
    display = ErrorCurveDisplay(
        _drawn_curve_records(report),
        "expected_loss" if curves.has_estimates else "observed_loss",
        report.pca.n_components,
        level=report.audit.level,
        materiality=report.audit.materiality,
    )
    caption = _curves_caption(report)
    alt_text = _describe_curves(report)
    if curves.frontier is not None:
        # The slider moves along the frontier, which is in another figure.
        phone_display = replace(display, n_columns=1)
        return draw_figure(display, "d", caption, alt_text, phone_display=phone_display)
    _, n_panel_columns = style.grid_shape(len(_drawn_groups(report)))
    return draw_figure(
        display,
        element_prefix="d",
        caption=caption,
        alt_text=alt_text,
        marks=_dimension_marks(report),
        fit_phone=n_panel_columns <= _MAX_PHONE_COLUMNS,
    )


def _drawn_curve_records(report: Report) -> list[Mapping[str, Any]]:
    """Return the records by model and number of dimensions, of the groups that are drawn."""
    records = report.curves.to_records(report.main.name)
    n_groups = len(report.group_names)
    # Records of one model and dimension are consecutive, one per group.
    starts = range(0, len(records), n_groups)
    return [
        record
        for start in starts
        for record in _drawn_records(report, records[start : start + n_groups])
    ]


def _curves_caption(report: Report) -> str:
    """Return the caption of the losses by number of dimensions."""
    name = report.main.name
    groups = _describe_drawn_groups(report)
    if not report.curves.has_estimates:
        return f"Observed loss of {groups} under PCA and {name}, by number of dimensions."
    main_note = "" if report.main.is_pca else f", and under {name} at the selected one"
    return f"Expected loss of {groups} on new rows: under PCA by number of dimensions{main_note}."


def _dimension_marks(report: Report) -> SliderMarks:
    """Return the marks of the slider over dimensions: at each step, one per group in its panel.

    A mark is at the loss of the fair fit, or below the axis if the figure shows estimates, which
    that fit has at one dimension only.
    """
    has_estimates = report.curves.has_estimates
    groups = _drawn_groups(report)
    points: list[list[PanelPoint]] = [
        [
            (panel, step.n_components, -np.inf if has_estimates else losses[g])
            for panel, g in enumerate(groups)
        ]
        for step, losses in zip(report.curves.steps, _loss_shares(report), strict=True)
    ]
    return _slider_marks(
        report, points, "filled mark on the axis" if has_estimates else "filled mark"
    )


def _describe_curves(report: Report) -> str:
    """Return the alternative text of the losses by number of dimensions."""
    curves = report.curves
    if curves.has_estimates:
        losses = []
        for result in curves.dimensions:
            if result.pca_estimates:
                values = [estimates.expected_loss.value for estimates in result.pca_estimates]
                largest = _format_largest(np.array(values), report)
                losses.append(f"{largest} at d = {result.n_components}")
        return f"Largest expected loss of a group under PCA: {'; '.join(losses)}."
    losses = [
        f"{_format_largest(result.pca_losses, report)} and "
        f"{_format_largest(result.fair_losses, report)} at d = {result.n_components}"
        for result in curves.dimensions
    ]
    return f"Largest loss of a group under PCA and {report.main.name}: {'; '.join(losses)}."


def frontier_figure(report: Report) -> PageFigure:
    """Figure of the trade-off between two groups' errors, with the slider's mark."""
    curves = report.curves
    assert curves.frontier is not None
    assert curves.region is not None
    first, second = report.group_names
    errors_by_model = {
        fit.name: np.array([group.observed_error.value for group in model.groups])
        for fit, model in zip(report.fits, report.audit.models, strict=True)
    }
    alt_text = _describe_frontier(report, errors_by_model)
    solution_errors = np.array([*errors_by_model.values()])
    frontier_errors = extend_frontier(curves.frontier.errors, solution_errors)
    pca_errors = errors_by_model.pop(report.pca.name)
    display = FrontierDisplay(
        errors=frontier_errors,
        groups=(first, second),
        achievable_region=enclose_achievable_region(
            curves.region, frontier_errors, solution_errors
        ),
        pca_errors=pca_errors,
        solutions=errors_by_model,
        n_components=report.pca.n_components,
        variances=_variances(report),
    )
    arrow_note = ""
    if display.distant_solutions():
        arrow_note = " An arrow points to a solution outside the axes; its errors are next to it."
    caption = (
        "Each point of the curve is the smallest error of one group for a given error of the "
        f"other.{arrow_note}"
    )
    # One mark at each step, in the only panel (0), at both errors.
    points: list[list[PanelPoint]] = [
        [(0, *display.in_unit(step.errors).tolist())] for step in curves.steps
    ]
    return draw_figure(
        display,
        element_prefix="f",
        caption=caption,
        alt_text=alt_text,
        marks=_slider_marks(report, points, "filled circle"),
        fit_phone=True,
    )


def _describe_frontier(report: Report, errors_by_model: Mapping[str, FloatArray]) -> str:
    """Return the alternative text of the frontier.

    Parameters
    ----------
    report : Report
        Of two groups, so that it has a frontier.
    errors_by_model : mapping of str to (2,) array
        Observed errors of the groups under each model, ordinary PCA first.
    """
    frontier = report.curves.frontier
    assert frontier is not None
    first, second = report.group_names
    start = _format_pair(frontier.errors[0], report)
    end = _format_pair(frontier.errors[-1], report)
    solutions = [
        f"{name} {_format_pair(errors, report)}" for name, errors in errors_by_model.items()
    ]
    return (
        f"Errors of {first} and {second}. The frontier runs from {start} to {end}; "
        f"{'; '.join(solutions)}."
    )


def _slider_marks(report: Report, points: Sequence[Sequence[PanelPoint]], name: str) -> SliderMarks:
    """Return marks at these points of each step, of which those of the main model are drawn."""
    curves = report.curves
    main_step = curves.steps[curves.main_step]
    return SliderMarks(points, curves.main_step, name, main_step.label)


def _drawn_groups(report: Report, max_groups: int = _MAX_GROUPS_DRAWN) -> list[int]:
    """Return the indices of the groups to draw, by decreasing loss under PCA.

    The `max_groups` groups with the largest losses, and as many others that are harmed or named in
    the verdict. Losses are the expected ones if there are estimates, otherwise the observed ones.
    """
    groups = report.pca.groups
    # Groups that are drawn even if their loss is not among the largest.
    selected = set()
    if report.verdict is not None:
        selected |= set(report.verdict.groups)
    if report.has_estimates:
        losses = np.array([group.expected_loss.value for group in groups])
        for model in (report.pca, report.main):
            selected |= {group.group for group in model.groups if group.state == "harmed"}
    else:
        losses = np.array([group.observed_loss for group in groups])
    # NaN losses (groups with too few rows) sort last.
    order = np.argsort(-losses, kind="stable").tolist()
    extra = [g for g in order[max_groups:] if groups[g].group in selected]
    return [*order[:max_groups], *extra[:max_groups]]


def _drawn_records(
    report: Report,
    records: Sequence[Mapping[str, Any]],
    max_groups: int = _MAX_GROUPS_DRAWN,
) -> list[Mapping[str, Any]]:
    """Return the records of the drawn groups with their display names and variances.

    `records` has one record per group of the report.
    """
    return [
        {
            **records[g],
            "group": report.group_names[g],
            "observed_total_variance": report.pca.groups[g].observed_total_variance,
        }
        for g in _drawn_groups(report, max_groups)
    ]


def _variances(report: Report) -> FloatArray:
    """Return the variance of each group, (k,), of which figures show errors as shares."""
    return np.array([group.observed_total_variance for group in report.pca.groups])


def _loss_shares(report: Report) -> list[list[float]]:
    """Return the losses at each step of the slider, as shares of each group's variance."""
    return [shares_of_variances(step.losses, report.pca).tolist() for step in report.curves.steps]


def _describe_drawn_groups(report: Report, max_groups: int = _MAX_GROUPS_DRAWN) -> str:
    n_drawn = len(_drawn_groups(report, max_groups))
    n_groups = len(report.group_names)
    if n_drawn == n_groups:
        return "each group"
    harmed = " or that are harmed" if n_drawn > max_groups else ""
    return f"the {n_drawn} of {n_groups} groups with the largest losses under PCA{harmed}"


def _format_largest(losses: FloatArray, report: Report) -> str:
    """Format the largest loss as a share of the variance of its group."""
    if np.isnan(losses).all():
        return "none"
    return format_share(float(np.nanmax(shares_of_variances(losses, report.pca))))


def _format_pair(errors: FloatArray, report: Report) -> str:
    """Format the errors of both groups as shares of their variances."""
    return " and ".join(map(format_share, shares_of_variances(errors, report.pca).tolist()))
