"""The figures of a page, drawn as SVG from its report, and where in them points lie."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import Any

import numpy as np
from markupsafe import Markup

from fairspan.displays import (
    AuditDisplay,
    ErrorCurveDisplay,
    FrontierDisplay,
    GroupLossDisplay,
    style,
)
from fairspan.displays.base import SAVE_METADATA, BaseDisplay, new_figure, reproducible_svg
from fairspan.extending import Display
from fairspan.formatting.text import format_interval, format_level, format_number
from fairspan.report.report import Report
from fairspan.typing import FloatArray

# A point of the data: the panel that it is in, and its coordinates there.
PanelPoint = tuple[int, float, float]
# A place in a figure, in the units of its SVG: from the left, from the top.
SvgPosition = tuple[float, float]

_POINTS_PER_INCH = 72
# Of one line: more would touch each other, and make the page large.
_MAX_MARKERS_PER_LINE = 20
# Of the places of axes, as shares of the figure.
_POSITION_DECIMALS = 9
_DEFAULT_SIZE = (6.4, 4.6)
# In points.
_MAX_HALF_WIDTH = 480
# In inches: with it letters can be read in the window of a telephone.
_PHONE_WIDTH = 4.2
# Colours that the page sets, so that they can be light or dark.
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
# Names from the data stand between tags, and stay as they are.
_TAG = re.compile(r"<[^>]*>")
# A dozen families in each text, those of this machine among them; the page has its own.
_FONT_FAMILIES = re.compile(r"""font-family: [^;"]*; |(?<=style="font: )([^;"']*)'[^;"]*""")
_ID_REFERENCE = re.compile(r'(\bid="|href="#|url\(#)')


@dataclass(frozen=True)
class PageFigure:
    """A figure as it stands in the page.

    Attributes
    ----------
    svg : Markup
    caption : str
    places : list of lists of places
        Of each step of the walk, where its marks are.
    """

    svg: Markup
    caption: str
    mark_positions: list[list[SvgPosition]]

    @property
    def fits_half_width(self) -> bool:
        """Whether its letters can still be read in half of the page's width."""
        return int(self.svg.partition("--width:")[2].partition('"')[0]) <= _MAX_HALF_WIDTH


def draw_figure(
    display: BaseDisplay | Display,
    key: str,
    caption: str,
    alt_text: str,
    points: Sequence[Sequence[PanelPoint]] = (),
    initial_step: int = 0,
    *,
    keep_title: bool = False,
    fit_phone: bool = False,
) -> PageFigure:
    """Draw a picture, with a mark at each of the points of one step.

    Parameters
    ----------
    picture : Picture or Display
    key : str
        Letters that no other figure of the page has.
    caption : str
    alternative : str
        What the figure shows, for those who do not see it.
    points : sequence of n sequences of points
        Where the marks are at each step.
    start : int
        The step that is shown first.
    keep_title : bool
        Whether the caption does not say what the title says.
    is_narrow : bool
        Whether it is drawn as narrow as the window of a telephone; wider pictures scroll there.
    """
    from matplotlib import rc_context, rcParamsDefault

    # The same bytes, whatever style the reader has chosen for his own figures. matplotlib.style
    # would read all of its style sheets first.
    default_rc = {
        key: each for key, each in rcParamsDefault.items() if not key.startswith("backend")
    }
    with rc_context(default_rc), reproducible_svg(key):
        figure = new_figure("the audit page")
        width, height = display.figure_size() if isinstance(display, BaseDisplay) else _DEFAULT_SIZE
        figure.set_size_inches(min(width, _PHONE_WIDTH) if fit_phone else width, height)
        with rc_context(style.STYLE):
            axes = figure.add_subplot()
        display.plot(ax=axes)
        for place in () if keep_title else ("left", "center", "right"):
            axes.set_title("", loc=place)
        panels = display.axes_ if isinstance(display, BaseDisplay) else (axes,)
        for line in (line for panel in panels for line in panel.lines):
            line.set_markevery(-(-np.size(line.get_xdata()) // _MAX_MARKERS_PER_LINE))
        # Placed now, as writing the figure would do so twice, and draw it twice.
        if (layout_engine := figure.get_layout_engine()) is not None:
            layout_engine.execute(figure)
            figure.set_layout_engine(None)
            # The last bits differ from one run to the next, and identifiers are made of them.
            for each in figure.axes:
                each.set_position(np.round(each.get_position().bounds, _POSITION_DECIMALS).tolist())
        svg = alternative(figure, key, alt_text)
    # Where the points lie, once the layout is known.
    height = figure.get_figheight() * _POINTS_PER_INCH
    places: list[list[SvgPosition]] = []
    for step in points:
        places.append([])
        for panel, x, y in step:
            pixel = panels[panel].transData.transform((x, y)) / figure.dpi * _POINTS_PER_INCH
            places[-1].append((round(float(pixel[0]), 1), round(float(height - pixel[1]), 1)))
    marks = places[initial_step] if places else []
    size = 6 if len(marks) == 1 else 4.5
    mark_elements = "".join(
        f'<circle class="mark" data-mark="{i}" cx="{x}" cy="{y}" r="{size}"/>'
        for i, (x, y) in enumerate(marks)
    )
    return PageFigure(
        Markup(svg.removesuffix("</svg>") + mark_elements + "</svg>"), caption, places
    )


def alternative(figure: style.Figure, key: str, alternative: str) -> str:
    """A figure as an `<svg>` element, without style sheet, script or date.

    Parameters
    ----------
    figure : Figure
    key : str
        Letters that no other figure of the page has: its identifiers begin with it.
    alternative : str
        What the figure shows, for those who do not see it.

    Returns
    -------
    str
        It scales with its container.
    """
    text = io.StringIO()
    with reproducible_svg(key):
        figure.savefig(text, format="svg", metadata=SAVE_METADATA["svg"], transparent=True)
    svg = _NON_SVG.sub("", text.getvalue())
    opening, rest = svg[: svg.index(">") + 1], svg[svg.index(">") + 1 :]
    width = round(figure.get_figwidth() * _POINTS_PER_INCH)
    new_opening = f'<svg style="--width:{width}" role="img" aria-label="{escape(alternative)}" '
    opening = _SIZE_ATTRIBUTES.sub("", opening).replace("<svg ", new_opening, 1)
    return opening + _TAG.sub(lambda tag: _adapt_tag(tag[0], key), rest).strip()


def _adapt_tag(tag: str, key: str) -> str:
    tag = _ID_REFERENCE.sub(lambda found: f"{found[1]}{key}-", tag)
    tag = _FONT_FAMILIES.sub(lambda found: f"{found[1]}sans-serif" if found[1] else "", tag)
    for colour, variable in _CSS_VARIABLES.items():
        tag = re.sub(re.escape(colour), f"var({variable})", tag, flags=re.I)
    return tag


# Panels side by side that a telephone has room for.
_MAX_PHONE_COLUMNS = 2
# Groups that a figure shows; the tables have all.
_MAX_GROUPS_DRAWN = 12


def pca_errors_figure(report: Report) -> PageFigure:
    """The error of each group under PCA, with its interval."""
    records, level = _drawn_records(report, report.pca.records), report.audit.level
    has_intervals = all(record["observed_error_low"] is not None for record in records)
    new_opening = [
        f"{record['group']} {format_number(record['observed_error'])}"
        + (f" ({_format_interval(record, 'observed_error')})" if has_intervals else "")
        for record in records
    ]
    with_interval = f", with its {format_level(level)} interval." if has_intervals else "."
    caption = f"Error of {_describe_drawn_groups(report)} under PCA{with_interval}"
    picture = AuditDisplay(records, "observed_error", level=level)
    return draw_figure(
        picture, "p", caption, f"Errors under PCA: {'; '.join(new_opening)}.", fit_phone=True
    )


def expected_losses_figure(report: Report) -> PageFigure:
    """The loss of each group to expect on new rows under PCA, and beside it the main criterion."""
    plain, main = report.pca, report.main
    shows_main = not main.is_pca and main.no_estimates_reason is None
    models = [plain, main] if shows_main else [plain]
    records_by_model = [_drawn_records(report, model.records) for model in models]
    new_opening = [
        f"{model.name}: " + "; ".join(map(_describe_estimate, records))
        for model, records in zip(models, records_by_model, strict=True)
    ]
    names = " and ".join(model.name for model in models)
    caption = f"Loss of {_describe_drawn_groups(report)} to expect on new rows under {names}."
    picture = AuditDisplay([*chain(*records_by_model)], "expected_loss", level=report.audit.level)
    return draw_figure(
        picture, "e", caption, f"Expected losses under {'. '.join(new_opening)}.", fit_phone=True
    )


def _describe_estimate(record: Mapping[str, Any]) -> str:
    if record["expected_loss"] is None:
        return f"{record['group']} {record['state']}"
    figure = (
        f"{format_number(record['expected_loss'])} ({_format_interval(record, 'expected_loss')})"
    )
    return f"{record['group']} {figure}, {record['state']}"


def losses_figure(report: Report) -> PageFigure:
    """What each group loses under PCA and under the main criterion."""
    made, name = report.main_fit.certificate, report.main.name
    plain, main = (_drawn_records(report, model.records) for model in (report.pca, report.main))
    bounds_loss = made.criterion.uses_excess_loss and not made.criterion.relative
    picture = GroupLossDisplay(
        [*plain, *main],
        "observed_loss",
        n_components=report.main.n_components,
        bound=made.lower_bound if bounds_loss and np.isfinite(made.lower_bound) else None,
        status=made.status_text,
    )
    new_opening = [
        f"{one['group']} {format_number(one['observed_loss'])} and {format_number(other['observed_loss'])}"
        for one, other in zip(plain, main, strict=True)
    ]
    caption = f"Excess loss of {_describe_drawn_groups(report)} on these rows, under PCA and under {name}."
    return draw_figure(
        picture,
        "l",
        caption,
        f"Losses under PCA and {name}: {'; '.join(new_opening)}.",
        fit_phone=True,
    )


def dimensions_figure(report: Report) -> PageFigure:
    """Losses of every group against the number of dimensions, expected ones where there are."""
    curves, name, k = report.curves, report.main.name, len(report.group_names)
    records = curves.records(name)
    drawn_records = [
        record
        for i in range(0, len(records), k)
        for record in _drawn_records(report, records[i : i + k])
    ]
    picture = ErrorCurveDisplay(
        drawn_records,
        "expected_loss" if curves.has_estimates else "observed_loss",
        report.pca.n_components,
        show_observed=curves.has_estimates,
        level=report.audit.level,
    )
    new_opening = [
        f"{_format_largest(each.pca_losses)} and {_format_largest(each.fair_losses)} at d = {each.n_components}"
        for each in curves.dimensions
    ]
    whose = _describe_drawn_groups(report)
    on_rows = f"on these rows of {whose} by number of dimensions, under PCA and under {name}"
    caption = (
        "Points with bands: the loss to expect on new rows, under PCA by number of dimensions "
        f"and under {name} at the one that was chosen. At other numbers the bands come from how "
        "parts of the rows differ; those of fairspan audit --by-dimension, which reads each row, "
        f"are narrower, and may show harm at more of them. Dotted: excess loss {on_rows}."
        if curves.has_estimates
        else f"Excess loss {on_rows}."
    )
    alternative = f"Largest loss of a group under PCA and {name}: {'; '.join(new_opening)}."
    drawn = _drawn_groups(report)
    # One mark for each group: in its own panel, where they have panels.
    points: list[list[PanelPoint]] = [
        [(i, step.n_components, float(step.losses[g])) for i, g in enumerate(drawn)]
        for step in (curves.steps if curves.frontier is None else ())
    ]
    fits_phone = style.grid_shape(len(drawn))[1] <= _MAX_PHONE_COLUMNS
    return draw_figure(
        picture, "d", caption, alternative, points, curves.main_step, fit_phone=fits_phone
    )


def frontier_figure(report: Report) -> PageFigure:
    """The trade-off of two groups' errors."""
    curves, (first, second) = report.curves, report.group_names
    assert curves.frontier is not None
    assert curves.region is not None
    answers = {
        fit.name: np.array([group.observed_error.value for group in model.groups])
        for fit, model in zip(report.fits, report.audit.models, strict=True)
    }
    solution_errors = np.array([*answers.values()])
    errors = _frontier_through(curves.frontier.errors, solution_errors)
    plain = answers.pop(report.pca.name)
    picture = FrontierDisplay(
        errors=errors,
        groups=(first, second),
        achievable_region=_achievable_region(curves.region, errors, solution_errors),
        pca_errors=plain,
        solutions=answers,
        n_components=report.pca.n_components,
    )
    new_opening = "; ".join(
        f"{name} {_format_pair(each)}" for name, each in {"PCA": plain, **answers}.items()
    )
    alternative = (
        f"Errors of {first} and {second}. The frontier runs from "
        f"{_format_pair(curves.frontier.errors[0])} to {_format_pair(curves.frontier.errors[-1])}; {new_opening}."
    )
    arrow_note = (
        " An arrow points to an answer outside the picture, whose errors are in the legend."
    )
    caption = (
        "Every point of the curve is the least error of one group, given that of the other. The "
        f"filled mark is where the slider stands.{arrow_note if picture.distant_solutions() else ''}"
    )
    points: list[list[PanelPoint]] = [[(0, *step.errors.tolist())] for step in curves.steps]
    return draw_figure(picture, "f", caption, alternative, points, curves.main_step, fit_phone=True)


def _drawn_groups(report: Report) -> list[int]:
    """Positions of the groups that are drawn, from the largest loss under PCA on.

    As many as there is room for, and beside them those that are harmed or that the verdict names.
    """
    losses = np.array(
        [
            group.expected_loss.value if report.has_estimates else group.observed_loss
            for group in report.pca.groups
        ]
    )
    named = set() if report.verdict is None else set(report.verdict.groups)
    for model in (report.pca, report.main) if report.has_estimates else ():
        named |= {group.group for group in model.groups if group.state == "harmed"}
    # Groups of too few rows come last.
    order = np.argsort(-losses, kind="stable").tolist()
    others = [g for g in order[_MAX_GROUPS_DRAWN:] if report.pca.groups[g].group in named]
    return [*order[:_MAX_GROUPS_DRAWN], *others[:_MAX_GROUPS_DRAWN]]


def _drawn_records(report: Report, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the groups that are drawn, under the names that are shown."""
    return [{**records[g], "group": report.group_names[g]} for g in _drawn_groups(report)]


def _describe_drawn_groups(report: Report) -> str:
    n_drawn, n_groups = len(_drawn_groups(report)), len(report.group_names)
    if n_drawn == n_groups:
        return "each group"
    harmed = " or are harmed" if n_drawn > _MAX_GROUPS_DRAWN else ""
    return f"the {n_drawn} of {n_groups} groups that lose most under PCA{harmed}"


def _format_interval(record: Mapping[str, Any], name: str) -> str:
    return format_interval(record[f"{name}_low"], record[f"{name}_high"])


def _format_largest(values: FloatArray) -> str:
    return "none" if np.isnan(values).all() else format_number(float(np.nanmax(values)))


def _format_pair(errors: FloatArray) -> str:
    return " and ".join(map(format_number, errors.tolist()))


def _frontier_through(frontier: FloatArray, answers: FloatArray) -> FloatArray:
    """The frontier's polygon, drawn through the answers that lie below its sides.

    It has a corner wherever one is needed to be exact to a tolerance, and answers are exact.
    """
    last, highest = frontier[-1, 0], frontier[0, 1]
    return np.array(
        _lower_hull(
            np.vstack([frontier, answers[(answers[:, 0] <= last) & (answers[:, 1] <= highest)]])
        )
    )


def _achievable_region(
    corners: FloatArray, frontier: FloatArray, answers: FloatArray
) -> FloatArray:
    """All pairs of errors: a convex polygon that holds the frontier and every answer.

    The corners alone are too few to follow the frontier as closely as its own points do.
    """
    points = np.vstack([corners, frontier, answers])
    lower, upper = np.array(_lower_hull(points)), -np.array(_lower_hull(-points))
    return np.vstack([lower[:-1], upper[:-1]])


def _lower_hull(points: FloatArray) -> list[FloatArray]:
    """The lower side of the convex hull, from the left to the right."""
    corners: list[FloatArray] = []
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        while len(corners) > 1 and _cross_product(corners[-2], corners[-1], point) <= 0:
            corners.pop()
        corners.append(point)
    return corners


def _cross_product(start: FloatArray, middle: FloatArray, end: FloatArray) -> float:
    """Positive if the way turns left."""
    first, second = middle - start, end - middle
    return float(first[0] * second[1] - first[1] * second[0])
