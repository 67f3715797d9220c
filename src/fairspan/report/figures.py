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
from fairspan.displays.base import METADATA, Picture, empty_figure, reproducible
from fairspan.extending import Display
from fairspan.formatting.text import interval, number, percent
from fairspan.report.report import Report
from fairspan.typing import FloatArray

# A point of the data: the panel that it is in, and its coordinates there.
Point = tuple[int, float, float]
# A place in a figure, in the units of its SVG: from the left, from the top.
Place = tuple[float, float]

_POINTS_PER_INCH = 72
# Of one line: more would touch each other, and make the page large.
_MOST_MARKERS = 20
# Of the places of axes, as shares of the figure.
_DIGITS_OF_A_PLACE = 9
_SIZE = (6.4, 4.6)
# In points.
_NARROW = 480
# In inches: with it letters can be read in the window of a telephone.
_NARROW_SCREEN = 4.2
# Colours that the page sets, so that they can be light or dark.
_VARIABLES = {
    style.INK: "--ink",
    style.FAINT: "--faint",
    style.BLUE: "--blue",
    style.VERMILION: "--vermilion",
    style.GREEN: "--green",
    style.PURPLE: "--purple",
    style.ORANGE: "--orange",
    style.SKY: "--sky",
    "#ffffff": "--paper",
}

_OUTSIDE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", re.S)
_OWN_SIZE = re.compile(r' (?:width|height)="[^"]*"')
# Names from the data stand between tags, and stay as they are.
_TAG = re.compile(r"<[^>]*>")
# A dozen families in each text, those of this machine among them; the page has its own.
_FAMILIES = re.compile(r"""font-family: [^;"]*; |(?<=style="font: )([^;"']*)'[^;"]*""")
_IDENTIFIER = re.compile(r'(\bid="|href="#|url\(#)')


@dataclass(frozen=True)
class Drawn:
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
    places: list[list[Place]]

    @property
    def is_narrow(self) -> bool:
        """Whether its letters can still be read in half of the page's width."""
        return int(self.svg.partition("--width:")[2].partition('"')[0]) <= _NARROW


def draw(
    picture: Picture | Display,
    key: str,
    caption: str,
    alternative: str,
    points: Sequence[Sequence[Point]] = (),
    start: int = 0,
    *,
    keeps_title: bool = False,
    is_narrow: bool = False,
) -> Drawn:
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
    keeps_title : bool
        Whether the caption does not say what the title says.
    is_narrow : bool
        Whether it is drawn as narrow as the window of a telephone; wider pictures scroll there.
    """
    from matplotlib import rc_context, rcParamsDefault

    # The same bytes, whatever style the reader has chosen for his own figures. matplotlib.style
    # would read all of its style sheets first.
    default = {key: each for key, each in rcParamsDefault.items() if not key.startswith("backend")}
    with rc_context(default), reproducible(key):
        figure = empty_figure("the audit page")
        width, height = picture.size() if isinstance(picture, Picture) else _SIZE
        figure.set_size_inches(min(width, _NARROW_SCREEN) if is_narrow else width, height)
        with rc_context(style.STYLE):
            axes = figure.add_subplot()
        picture.plot(ax=axes)
        for place in () if keeps_title else ("left", "center", "right"):
            axes.set_title("", loc=place)
        panels = picture.axes_ if isinstance(picture, Picture) else (axes,)
        for line in (line for panel in panels for line in panel.lines):
            line.set_markevery(-(-np.size(line.get_xdata()) // _MOST_MARKERS))
        # Placed now, as writing the figure would do so twice, and draw it twice.
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)
            # The last bits differ from one run to the next, and identifiers are made of them.
            for each in figure.axes:
                each.set_position(np.round(each.get_position().bounds, _DIGITS_OF_A_PLACE).tolist())
        svg = inline_svg(figure, key, alternative)
    # Where the points lie, once the layout is known.
    height = figure.get_figheight() * _POINTS_PER_INCH
    places: list[list[Place]] = []
    for step in points:
        places.append([])
        for panel, x, y in step:
            at = panels[panel].transData.transform((x, y)) / figure.dpi * _POINTS_PER_INCH
            places[-1].append((round(float(at[0]), 1), round(float(height - at[1]), 1)))
    marks = places[start] if places else []
    size = 6 if len(marks) == 1 else 4.5
    circles = "".join(
        f'<circle class="mark" data-mark="{i}" cx="{x}" cy="{y}" r="{size}"/>'
        for i, (x, y) in enumerate(marks)
    )
    return Drawn(Markup(svg.removesuffix("</svg>") + circles + "</svg>"), caption, places)


def inline_svg(figure: style.Figure, key: str, alternative: str) -> str:
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
    with reproducible(key):
        figure.savefig(text, format="svg", metadata=METADATA["svg"], transparent=True)
    svg = _OUTSIDE.sub("", text.getvalue())
    opening, rest = svg[: svg.index(">") + 1], svg[svg.index(">") + 1 :]
    width = round(figure.get_figwidth() * _POINTS_PER_INCH)
    told = f'<svg style="--width:{width}" role="img" aria-label="{escape(alternative)}" '
    opening = _OWN_SIZE.sub("", opening).replace("<svg ", told, 1)
    return opening + _TAG.sub(lambda tag: _in_page(tag[0], key), rest).strip()


def _in_page(tag: str, key: str) -> str:
    tag = _IDENTIFIER.sub(lambda found: f"{found[1]}{key}-", tag)
    tag = _FAMILIES.sub(lambda found: f"{found[1]}sans-serif" if found[1] else "", tag)
    for colour, variable in _VARIABLES.items():
        tag = re.sub(re.escape(colour), f"var({variable})", tag, flags=re.I)
    return tag


# Panels side by side that a telephone has room for.
_SIDE_BY_SIDE = 2
# Groups that a figure shows; the tables have all.
_MOST_GROUPS = 12


def of_plain(report: Report) -> Drawn:
    """The error of each group under PCA, with its interval."""
    records, level = _records(report, report.plain.records), report.audit.level
    has_intervals = all(record["error_here_low"] is not None for record in records)
    told = [
        f"{record['group']} {number(record['error_here'])}"
        + (f" ({_interval(record, 'error_here')})" if has_intervals else "")
        for record in records
    ]
    with_interval = f", with its {percent(level)} interval." if has_intervals else "."
    caption = f"Error of {_whose(report)} under PCA{with_interval}"
    picture = AuditDisplay(records, "error_here", level=level)
    return draw(picture, "p", caption, f"Errors under PCA: {'; '.join(told)}.", is_narrow=True)


def of_expected(report: Report) -> Drawn:
    """The loss of each group to expect on new rows under PCA, and beside it the main criterion."""
    plain, main = report.plain, report.main
    has_both = not main.is_plain_pca and main.why_no_estimates is None
    models = [plain, main] if has_both else [plain]
    every = [_records(report, model.records) for model in models]
    told = [
        f"{model.name}: " + "; ".join(map(_expectation, records))
        for model, records in zip(models, every, strict=True)
    ]
    names = " and ".join(model.name for model in models)
    caption = f"Loss of {_whose(report)} to expect on new rows under {names}."
    picture = AuditDisplay([*chain(*every)], "expected_loss", level=report.audit.level)
    return draw(picture, "e", caption, f"Expected losses under {'. '.join(told)}.", is_narrow=True)


def _expectation(record: Mapping[str, Any]) -> str:
    if record["expected_loss"] is None:
        return f"{record['group']} {record['state']}"
    figure = f"{number(record['expected_loss'])} ({_interval(record, 'expected_loss')})"
    return f"{record['group']} {figure}, {record['state']}"


def of_losses(report: Report) -> Drawn:
    """What each group loses under PCA and under the main criterion."""
    made, name = report.fit.certificate, report.main.name
    plain, main = (_records(report, model.records) for model in (report.plain, report.main))
    bounds = made.criterion.measures_losses and not made.criterion.relative
    picture = GroupLossDisplay(
        [*plain, *main],
        "loss_here",
        n_components=report.main.n_components,
        bound=made.lower_bound if bounds and np.isfinite(made.lower_bound) else None,
        status=made.called,
    )
    told = [
        f"{one['group']} {number(one['loss_here'])} and {number(other['loss_here'])}"
        for one, other in zip(plain, main, strict=True)
    ]
    caption = f"Excess loss of {_whose(report)} on these rows, under PCA and under {name}."
    return draw(
        picture, "l", caption, f"Losses under PCA and {name}: {'; '.join(told)}.", is_narrow=True
    )


def of_dimensions(report: Report) -> Drawn:
    """Losses of every group against the number of dimensions, expected ones where there are."""
    curves, name, k = report.curves, report.main.name, len(report.names)
    records = curves.records(name)
    shown = [
        record for i in range(0, len(records), k) for record in _records(report, records[i : i + k])
    ]
    picture = ErrorCurveDisplay(
        shown,
        "expected_loss" if curves.has_expected else "loss_here",
        report.plain.n_components,
        on_rows=curves.has_expected,
        level=report.audit.level,
    )
    told = [
        f"{_largest(each.plain_losses)} and {_largest(each.fair_losses)} at d = {each.n_components}"
        for each in curves.dimensions
    ]
    whose = _whose(report)
    on_rows = f"on these rows of {whose} by number of dimensions, under PCA and under {name}"
    caption = (
        "Points with bands: the loss to expect on new rows, under PCA by number of dimensions "
        f"and under {name} at the one that was chosen. At other numbers the bands come from how "
        "parts of the rows differ; those of fairspan audit --by-dimension, which reads each row, "
        f"are narrower, and may show harm at more of them. Dotted: excess loss {on_rows}."
        if curves.has_expected
        else f"Excess loss {on_rows}."
    )
    alternative = f"Largest loss of a group under PCA and {name}: {'; '.join(told)}."
    drawn = _losing_most(report)
    # One mark for each group: in its own panel, where they have panels.
    points: list[list[Point]] = [
        [(i, step.n_components, float(step.losses[g])) for i, g in enumerate(drawn)]
        for step in (curves.steps if curves.frontier is None else ())
    ]
    fits = style.grid_of(len(drawn))[1] <= _SIDE_BY_SIDE
    return draw(picture, "d", caption, alternative, points, curves.start, is_narrow=fits)


def of_frontier(report: Report) -> Drawn:
    """The trade-off of two groups' errors."""
    curves, (first, second) = report.curves, report.names
    assert curves.frontier is not None
    assert curves.region is not None
    answers = {
        fit.name: np.array([group.error_here.value for group in model.groups])
        for fit, model in zip(report.fits, report.audit.models, strict=True)
    }
    reached = np.array([*answers.values()])
    errors = _through(curves.frontier.errors, reached)
    plain = answers.pop(report.plain.name)
    picture = FrontierDisplay(
        errors=errors,
        groups=(first, second),
        region=_region(curves.region, errors, reached),
        plain=plain,
        answers=answers,
        n_components=report.plain.n_components,
    )
    told = "; ".join(f"{name} {_pair(each)}" for name, each in {"PCA": plain, **answers}.items())
    alternative = (
        f"Errors of {first} and {second}. The frontier runs from "
        f"{_pair(curves.frontier.errors[0])} to {_pair(curves.frontier.errors[-1])}; {told}."
    )
    arrow = " An arrow points to an answer outside the picture, whose errors are in the legend."
    caption = (
        "Every point of the curve is the least error of one group, given that of the other. The "
        f"filled mark is where the slider stands.{arrow if picture.outside() else ''}"
    )
    points: list[list[Point]] = [[(0, *step.errors.tolist())] for step in curves.steps]
    return draw(picture, "f", caption, alternative, points, curves.start, is_narrow=True)


def _losing_most(report: Report) -> list[int]:
    """Positions of the groups that are drawn, from the largest loss under PCA on.

    As many as there is room for, and beside them those that are harmed or that the verdict names.
    """
    losses = np.array(
        [
            group.expected_loss.value if report.has_estimates else group.loss_here
            for group in report.plain.groups
        ]
    )
    named = set() if report.verdict is None else set(report.verdict.groups)
    for model in (report.plain, report.main) if report.has_estimates else ():
        named |= {group.group for group in model.groups if group.state == "harmed"}
    # Groups of too few rows come last.
    order = np.argsort(-losses, kind="stable").tolist()
    others = [g for g in order[_MOST_GROUPS:] if report.plain.groups[g].group in named]
    return [*order[:_MOST_GROUPS], *others[:_MOST_GROUPS]]


def _records(report: Report, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the groups that are drawn, under the names that are shown."""
    return [{**records[g], "group": report.names[g]} for g in _losing_most(report)]


def _whose(report: Report) -> str:
    n_drawn, n_groups = len(_losing_most(report)), len(report.names)
    if n_drawn == n_groups:
        return "each group"
    harmed = " or are harmed" if n_drawn > _MOST_GROUPS else ""
    return f"the {n_drawn} of {n_groups} groups that lose most under PCA{harmed}"


def _interval(record: Mapping[str, Any], name: str) -> str:
    return interval(record[f"{name}_low"], record[f"{name}_high"])


def _largest(values: FloatArray) -> str:
    return "none" if np.isnan(values).all() else number(float(np.nanmax(values)))


def _pair(errors: FloatArray) -> str:
    return " and ".join(map(number, errors.tolist()))


def _through(frontier: FloatArray, answers: FloatArray) -> FloatArray:
    """The frontier's polygon, drawn through the answers that lie below its sides.

    It has a corner wherever one is needed to be exact to a tolerance, and answers are exact.
    """
    last, highest = frontier[-1, 0], frontier[0, 1]
    return np.array(
        _chain(np.vstack([frontier, answers[(answers[:, 0] <= last) & (answers[:, 1] <= highest)]]))
    )


def _region(corners: FloatArray, frontier: FloatArray, answers: FloatArray) -> FloatArray:
    """All pairs of errors: a convex polygon that holds the frontier and every answer.

    The corners alone are too few to follow the frontier as closely as its own points do.
    """
    points = np.vstack([corners, frontier, answers])
    lower, upper = np.array(_chain(points)), -np.array(_chain(-points))
    return np.vstack([lower[:-1], upper[:-1]])


def _chain(points: FloatArray) -> list[FloatArray]:
    """The lower side of the convex hull, from the left to the right."""
    corners: list[FloatArray] = []
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= 0:
            corners.pop()
        corners.append(point)
    return corners


def _turn(start: FloatArray, middle: FloatArray, end: FloatArray) -> float:
    """Positive if the way turns left."""
    first, second = middle - start, end - middle
    return float(first[0] * second[1] - first[1] * second[0])
