"""SVG figures of the report, and the positions of the slider's marks in them."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from typing import Any

import numpy as np
from markupsafe import Markup

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
from fairspan.displays.base_display import SAVE_METADATA, BaseDisplay, new_figure, reproducible_svg
from fairspan.displays.correlation_circle_display import MAX_FEATURES
from fairspan.extending import Display
from fairspan.formatting.numbers import format_level, format_share, share_with_interval
from fairspan.report.report import Report
from fairspan.report.shares import shares_of_variances
from fairspan.typing import FloatArray

# A data point: panel index and data coordinates.
PanelPoint = tuple[int, float, float]
# A position in SVG units, from the left and from the top.
SvgPosition = tuple[float, float]

_POINTS_PER_INCH = 72
# Maximum number of markers per line: more would overlap and bloat the page.
_MAX_MARKERS_PER_LINE = 20
# Decimals of axes positions in figure coordinates; further digits vary between runs.
_POSITION_DECIMALS = 9
# Figure size of displays that do not suggest one, in inches.
_DEFAULT_SIZE = (6.4, 4.6)
# Maximum width, in points, of a figure shown in half of the page.
_MAX_HALF_WIDTH = 480
# Maximum width in inches of the figure in the summary, next to the verdict.
_MAX_SUMMARY_WIDTH = 5.2
# Figure width in inches at which text is legible on a phone.
_PHONE_WIDTH = 4.2
# Maximum number of panel columns on a phone.
_MAX_PHONE_COLUMNS = 2
# Maximum number of groups per figure; tables show all.
_MAX_GROUPS_DRAWN = 12
# Of those, maximum number in the summary, which shows two models of each next to the verdict.
_MAX_GROUPS_IN_SUMMARY = 6
# Maximum number of features in the alternative text of a figure.
_MAX_DESCRIBED_FEATURES = 20
# Radius of the slider's mark in points: a single one, and those of several groups.
_MARK_RADIUS = 6
_SMALL_MARK_RADIUS = 4.5
# Colors replaced by CSS variables, for light and dark mode.
_CSS_VARIABLES = {
    style.FOREGROUND: "--ink",
    style.MUTED: "--faint",
    style.BLUE: "--blue",
    style.VERMILION: "--vermilion",
    style.GREEN: "--green",
    style.PURPLE: "--purple",
    style.ORANGE: "--orange",
    style.SKY: "--sky",
    "#ffffff": "--paper",
}

_NON_SVG = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", re.S)
_SIZE_ATTRIBUTES = re.compile(r' (?:width|height)="[^"]*"')
# Only tags are rewritten; text between them may contain names from the data.
_TAG = re.compile(r"<[^>]*>")
# Font families depend on the machine; the page sets its own.
_FONT_FAMILIES = re.compile(r"""font-family: [^;"]*; |(?<=style="font: )([^;"']*)'[^;"]*""")
_ID_REFERENCE = re.compile(r'(\bid="|href="#|url\(#)')


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page.

    Attributes
    ----------
    svg : Markup
    caption : str
    mark_positions : list of lists of positions
        Positions of the marks at each step of the slider.
    mark_name : str
        Name of the marks, such as "filled circle"; empty without marks.
    initial_step : str
        Label of the step whose marks are drawn.
    phone_svg : Markup or None
        The figure as it is drawn for narrow screens; None if it is the same there.
    """

    svg: Markup
    caption: str
    mark_positions: list[list[SvgPosition]]
    mark_name: str = ""
    initial_step: str = ""
    phone_svg: Markup | None = None

    @property
    def fits_half_width(self) -> bool:
        """Whether text remains legible in half of the page width."""
        return int(self.svg.partition("--width:")[2].partition('"')[0]) <= _MAX_HALF_WIDTH


def draw_figure(
    display: BaseDisplay | Display,
    element_prefix: str,
    caption: str,
    alt_text: str,
    points: Sequence[Sequence[PanelPoint]] = (),
    initial_step: int = 0,
    *,
    keep_title: bool = False,
    fit_phone: bool = False,
    max_width: float = np.inf,
    keep_markers: bool = False,
    phone_display: BaseDisplay | None = None,
    mark_name: str = "",
    step_label: str = "",
) -> PageFigure:
    """Draw a display as SVG, with marks at the points of one step.

    Parameters
    ----------
    display : BaseDisplay or Display
    element_prefix : str
        Prefix of the ids of the figure's elements; unique within the page.
    caption : str
    alt_text : str
        Alternative text.
    points : sequence of n sequences of points
        Marks at each of n steps of the slider; empty for a figure without marks.
    initial_step : int
        Step whose marks are drawn; the script of the page moves them to those of other steps.
    keep_title : bool
        Whether to keep the title (if the caption does not repeat it).
    fit_phone : bool
        Whether to limit the width to that of a phone screen; wider figures scroll.
    max_width : float
        Maximum width in inches otherwise.
    keep_markers : bool
        Whether to draw the markers of all points, each of which means something by itself; by
        default, at most twenty per line.
    phone_display : BaseDisplay, optional
        Display to draw in addition, for narrow screens, if there are no marks.
    mark_name, step_label : str
        Name of the marks, and label of the step whose marks are drawn.
    """
    from matplotlib import rc_context, rcParamsDefault

    # Use default settings so that the output does not depend on the user's style. matplotlib.style
    # would load all style sheets first.
    default_rc = {
        name: value for name, value in rcParamsDefault.items() if not name.startswith("backend")
    }
    with rc_context(default_rc), reproducible_svg(element_prefix):
        if fit_phone:
            max_width = _PHONE_WIDTH
        figure, panels = _plot_on_new_figure(display, max_width, keep_title=keep_title)
        if not keep_markers:
            _thin_markers(panels)
        _fix_layout(figure)
        svg = inline_svg(figure, element_prefix, alt_text)
    positions = _mark_positions(points, panels)
    marks = _mark_elements(positions[initial_step]) if positions else ""
    phone_svg = None
    if phone_display is not None:
        phone_prefix = f"{element_prefix}-phone"
        phone_svg = draw_figure(phone_display, phone_prefix, caption, alt_text, fit_phone=True).svg
    return PageFigure(
        Markup(f"{svg.removesuffix('</svg>')}{marks}</svg>"),
        caption,
        positions,
        mark_name,
        step_label,
        phone_svg,
    )


def _plot_on_new_figure(
    display: BaseDisplay | Display, max_width: float, *, keep_title: bool
) -> tuple[style.Figure, Sequence[style.Axes]]:
    """Plot a display on a new figure of its size; also return the axes with data, its panels.

    The width is at most `max_width`, in inches. Without `keep_title`, the title is removed, since
    the caption repeats it.
    """
    from matplotlib import rc_context

    figure = new_figure("the audit report")
    width, height = _DEFAULT_SIZE
    if isinstance(display, BaseDisplay):
        width, height = display.figure_size()
    figure.set_size_inches(min(width, max_width), height)
    with rc_context(style.STYLE):
        axes = figure.add_subplot()
    display.plot(ax=axes)
    if not keep_title:
        for location in ("left", "center", "right"):
            axes.set_title("", loc=location)
    panels = display.axes_ if isinstance(display, BaseDisplay) else (axes,)
    return figure, panels


def _thin_markers(panels: Sequence[style.Axes]) -> None:
    """Draw the marker of every n-th point of a line, with n rounded up."""
    for panel in panels:
        for line in panel.lines:
            line.set_markevery(-(-np.size(line.get_xdata()) // _MAX_MARKERS_PER_LINE))


def _fix_layout(figure: style.Figure) -> None:
    """Compute the layout and fix the positions of all axes.

    savefig would otherwise compute it twice. Positions of marks need the layout as well.
    """
    layout_engine = figure.get_layout_engine()
    if layout_engine is None:
        return
    layout_engine.execute(figure)
    figure.set_layout_engine(None)
    # Round positions: their last bits vary between runs and enter the element ids.
    for axes in figure.axes:
        axes.set_position(np.round(axes.get_position().bounds, _POSITION_DECIMALS).tolist())


def _mark_positions(
    points: Sequence[Sequence[PanelPoint]], panels: Sequence[style.Axes]
) -> list[list[SvgPosition]]:
    """Convert points to SVG positions, once the positions of the panels are fixed.

    SVG units are points (1/72 inch) from the left and the top, while pixels of matplotlib are
    counted from the bottom.
    """
    figure = style.root_figure(panels[0])
    height = figure.get_figheight() * _POINTS_PER_INCH
    positions: list[list[SvgPosition]] = []
    for step_points in points:
        step_positions = []
        for panel, x, y in step_points:
            # A mark below the axis is on its lower end.
            y_shown = max(y, panels[panel].get_ylim()[0])
            pixel = panels[panel].transData.transform((x, y_shown))
            pixel = pixel / figure.dpi * _POINTS_PER_INCH
            step_positions.append((round(float(pixel[0]), 1), round(float(height - pixel[1]), 1)))
        positions.append(step_positions)
    return positions


def _mark_elements(positions: Sequence[SvgPosition]) -> str:
    radius = _MARK_RADIUS if len(positions) == 1 else _SMALL_MARK_RADIUS
    return "".join(
        f'<circle class="mark" data-mark="{i}" cx="{x}" cy="{y}" r="{radius}"/>'
        for i, (x, y) in enumerate(positions)
    )


def inline_svg(figure: style.Figure, element_prefix: str, alt_text: str) -> str:
    """Render a figure as an inline `<svg>` element without style sheet, script or date.

    Parameters
    ----------
    figure : Figure
    element_prefix : str
        Prefix of all element ids, unique within the page.
    alt_text : str
        Alternative text.

    Returns
    -------
    str
        SVG element that scales with its container.
    """
    text = io.StringIO()
    with reproducible_svg(element_prefix):
        figure.savefig(text, format="svg", metadata=SAVE_METADATA["svg"], transparent=True)
    # Remove the XML declaration, the metadata and matplotlib's style sheet.
    svg = _NON_SVG.sub("", text.getvalue())
    # The opening tag has a fixed size, which is replaced by a width for the page's style sheet.
    opening, bracket, rest = svg.partition(">")
    width = round(figure.get_figwidth() * _POINTS_PER_INCH)
    new_opening = f'<svg style="--width:{width}" role="img" aria-label="{escape(alt_text)}" '
    opening = _SIZE_ATTRIBUTES.sub("", opening + bracket).replace("<svg ", new_opening, 1)
    return opening + _TAG.sub(lambda match: _adapt_tag(match[0], element_prefix), rest).strip()


def _adapt_tag(tag: str, element_prefix: str) -> str:
    """Prefix element ids, remove font families, and replace colors by variables of the page.

    Parameters
    ----------
    tag : str
        An SVG tag, from "<" to ">".
    element_prefix : str
        Prefix that makes the ids unique within the page.
    """
    tag = _ID_REFERENCE.sub(lambda match: f"{match[1]}{element_prefix}-", tag)
    tag = _FONT_FAMILIES.sub(lambda match: f"{match[1]}sans-serif" if match[1] else "", tag)
    for color, variable in _CSS_VARIABLES.items():
        tag = re.sub(re.escape(color), f"var({variable})", tag, flags=re.I)
    return tag


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
    """Figure of the same under both, if the main criterion has estimates and is not offered."""
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
    name = report.main.name
    n_groups = len(report.group_names)
    records = curves.records(name)
    # Records of one model and dimension are consecutive, one per group. Keep those of the groups
    # that are drawn: with many groups, the ones with the largest losses.
    drawn_records = [
        record
        for start in range(0, len(records), n_groups)
        for record in _drawn_records(report, records[start : start + n_groups])
    ]
    display = ErrorCurveDisplay(
        drawn_records,
        "expected_loss" if curves.has_estimates else "observed_loss",
        report.pca.n_components,
        level=report.audit.level,
        materiality=report.audit.materiality,
    )
    drawn_groups = _describe_drawn_groups(report)
    caption = f"Observed loss of {drawn_groups} under PCA and {name}, by number of dimensions."
    if curves.has_estimates:
        caption = (
            f"Expected loss of {drawn_groups} on new rows: under PCA by number of dimensions"
            f"{'' if report.main.is_pca else f', and under {name} at the selected one'}."
        )
    # At each step of the slider, one mark per group in its own panel: at the loss of the fair fit,
    # or below the axis if the figure shows estimates, which that fit has at one dimension only.
    groups = _drawn_groups(report)
    points: list[list[PanelPoint]] = []
    if curves.frontier is None:
        points = [
            [
                (panel, step.n_components, -np.inf if curves.has_estimates else losses[g])
                for panel, g in enumerate(groups)
            ]
            for step, losses in zip(curves.steps, _loss_shares(report), strict=True)
        ]
    _, n_panel_columns = style.grid_shape(len(groups))
    alt_text = _describe_curves(report)
    if not points:
        phone_display = replace(display, n_columns=1)
        return draw_figure(display, "d", caption, alt_text, phone_display=phone_display)
    return draw_figure(
        display,
        element_prefix="d",
        caption=caption,
        alt_text=alt_text,
        points=points,
        initial_step=curves.main_step,
        fit_phone=n_panel_columns <= _MAX_PHONE_COLUMNS,
        mark_name="filled mark on the axis" if curves.has_estimates else "filled mark",
        step_label=curves.steps[curves.main_step].label,
    )


def _describe_curves(report: Report) -> str:
    """Return the alternative text of the losses by number of dimensions."""
    curves = report.curves
    if curves.has_estimates:
        estimated = [
            (
                result.n_components,
                np.array([each.expected_loss.value for each in result.pca_estimates]),
            )
            for result in curves.dimensions
            if result.pca_estimates
        ]
        losses = [f"{_format_largest(values, report)} at d = {d}" for d, values in estimated]
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
    solution_errors = np.array([*errors_by_model.values()])
    frontier_errors = _frontier_through(curves.frontier.errors, solution_errors)
    pca_errors = errors_by_model.pop(report.pca.name)
    display = FrontierDisplay(
        errors=frontier_errors,
        groups=(first, second),
        achievable_region=_achievable_region(curves.region, frontier_errors, solution_errors),
        pca_errors=pca_errors,
        solutions=errors_by_model,
        n_components=report.pca.n_components,
        variances=_variances(report),
    )
    descriptions = [f"PCA {_format_pair(pca_errors, report)}"]
    for name, errors in errors_by_model.items():
        descriptions.append(f"{name} {_format_pair(errors, report)}")
    frontier_start = _format_pair(curves.frontier.errors[0], report)
    frontier_end = _format_pair(curves.frontier.errors[-1], report)
    alt_text = (
        f"Errors of {first} and {second}. The frontier runs from {frontier_start} to "
        f"{frontier_end}; {'; '.join(descriptions)}."
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
        points=points,
        initial_step=curves.main_step,
        fit_phone=True,
        mark_name="filled circle",
        step_label=curves.steps[curves.main_step].label,
    )


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


def _frontier_through(frontier: FloatArray, solutions: FloatArray) -> FloatArray:
    """Return the frontier polygon extended through solutions below its edges.

    The polygon approximates a convex curve, and an exact solution may lie slightly below an edge,
    where the figure would show it as better than the frontier.

    Parameters
    ----------
    frontier : (n, 2) array
        Errors of both groups, from the optimum of the first group to that of the second.
    solutions : (m, 2) array
        Errors of the models; those beyond the ends of the frontier are ignored.
    """
    within_ends = (solutions[:, 0] <= frontier[-1, 0]) & (solutions[:, 1] <= frontier[0, 1])
    return np.array(_lower_hull(np.vstack([frontier, solutions[within_ends]])))


def _achievable_region(
    vertices: FloatArray, frontier: FloatArray, solutions: FloatArray
) -> FloatArray:
    """Return the vertices of the region of achievable errors, the convex hull of all points.

    The given vertices of the region are too few to follow the frontier closely. All arguments have
    shape (n, 2), with n of their own.
    """
    points = np.vstack([vertices, frontier, solutions])
    lower = np.array(_lower_hull(points))
    upper = -np.array(_lower_hull(-points))
    # Each part ends where the other starts.
    return np.vstack([lower[:-1], upper[:-1]])


def _lower_hull(points: FloatArray) -> list[FloatArray]:
    """Return the vertices of the lower convex hull, left to right (Andrew's monotone chain)."""
    hull: list[FloatArray] = []
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        while len(hull) > 1 and _cross_product(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    return hull


def _cross_product(start: FloatArray, middle: FloatArray, end: FloatArray) -> float:
    """Cross product of two consecutive edges; positive for a left turn."""
    first = middle - start
    second = end - middle
    return float(first[0] * second[1] - first[1] * second[0])
