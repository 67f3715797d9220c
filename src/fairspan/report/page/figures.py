"""The figures of the audit page, drawn from its facts as SVG, and where in them points lie."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
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
from fairspan.formatting.text import called, interval, number, percent, spoken
from fairspan.report.page.tables import Facts, has_estimates, main_of, plain_of
from fairspan.typing import FloatArray

# A point of the data: the panel that it is in, and its coordinates there.
Point = tuple[int, float, float]
# A place in a figure, in the units of its SVG: from the left, from the top.
Place = tuple[float, float]

_POINTS_PER_INCH = 72
# Of one line: more would touch each other, and make the page large.
_MOST_MARKERS = 20
_SIZE = (6.4, 4.6)
# In points.
_NARROW = 480
# In inches: with it letters can be read in the window of a telephone.
_NARROW_SCREEN = 4.4
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
    from matplotlib import rc_context
    from matplotlib.style import context

    # The same bytes, whatever style the reader has chosen for his own figures.
    with context("default"), reproducible(key):
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
# Of the names of a figure and of the ends of its interval.
_ENDS = ("", "_low", "_high")
# Groups that a figure shows; the tables have all.
_MOST_GROUPS = 12


def of_plain(facts: Facts) -> Drawn:
    """The error of each group under PCA, with its interval."""
    model, drawn = plain_of(facts), _losing_most(facts)
    groups = [model["groups"][g] for g in drawn]
    has_intervals = all(group["error_here_low"] is not None for group in groups)
    records = _records(facts, [{**model, "name": "PCA"}], drawn)
    picture = AuditDisplay(records, "error_here", level=facts["level"])
    told = [
        f"{called(group['group'])} {number(group['error_here'])}"
        + (
            f" ({interval(group['error_here_low'], group['error_here_high'])})"
            if has_intervals
            else ""
        )
        for group in groups
    ]
    with_interval = f", with its {percent(facts['level'])} interval." if has_intervals else "."
    caption = f"Error of {_whose(facts, drawn)} under PCA{with_interval}"
    return draw(picture, "p", caption, f"Errors under PCA: {'; '.join(told)}.", is_narrow=True)


def of_expected(facts: Facts) -> Drawn:
    """The loss of each group to expect on new rows under PCA, and beside it the main criterion."""
    plain, main = plain_of(facts), main_of(facts)
    has_both = not main["is_plain_pca"] and main["why_no_estimates"] is None
    models = [plain, main] if has_both else [plain]
    names, drawn = [spoken(model["name"]) for model in models], _losing_most(facts)
    picture = AuditDisplay(
        _records(facts, models, drawn),
        plain=tuple(model["name"] for model in models if model["is_plain_pca"]),
        level=facts["level"],
    )
    told = [
        f"{name}: " + "; ".join(_expectation(model["groups"][g]) for g in drawn)
        for name, model in zip(names, models, strict=True)
    ]
    caption = f"Loss of {_whose(facts, drawn)} to expect on new rows under {' and '.join(names)}."
    return draw(picture, "e", caption, f"Expected losses under {'. '.join(told)}.", is_narrow=True)


def _expectation(group: Facts) -> str:
    name = called(group["group"])
    if group["expected_loss"] is None:
        return f"{name} {group['state'] or 'not estimated'}"
    ends = interval(group["expected_loss_low"], group["expected_loss_high"])
    return f"{name} {number(group['expected_loss'])} ({ends}), {group['state']}"


def of_losses(facts: Facts) -> Drawn:
    """What each group loses under PCA and under the main criterion."""
    plain, main, drawn = plain_of(facts), main_of(facts), _losing_most(facts)
    certificate, name = main["certificate"], spoken(main["name"])
    picture = GroupLossDisplay(
        _records(facts, [plain, main], drawn),
        "loss_here",
        plain=(plain["name"],),
        n_components=facts["settings"]["n_components"],
        bound=certificate["lower_bound"] if certificate["bounds_largest_loss"] else None,
        status=certificate["status"],
    )
    told = [
        f"{called(plain['groups'][g]['group'])} {number(plain['groups'][g]['loss_here'])} and "
        f"{number(main['groups'][g]['loss_here'])}"
        for g in drawn
    ]
    caption = f"Excess loss of {_whose(facts, drawn)} on these rows, under PCA and under {name}."
    return draw(
        picture, "l", caption, f"Losses under PCA and {name}: {'; '.join(told)}.", is_narrow=True
    )


def of_dimensions(facts: Facts, *, with_marks: bool) -> Drawn:
    """Losses of every group against the number of dimensions, expected ones where there are."""
    curve, steps = facts["by_dimension"], facts["steps"]
    plain, fair = curve["plain"]["losses_here"], curve["fair"]["losses_here"]
    name, drawn = spoken(curve["fair"]["criterion"]), _losing_most(facts)
    has_estimates, d = curve["expected"] is not None, facts["settings"]["n_components"]
    picture = ErrorCurveDisplay(
        _by_dimension(facts, drawn),
        "expected_loss" if has_estimates else "loss_here",
        marked=d,
        on_rows=has_estimates,
        level=facts["level"],
    )
    told = [
        f"{_largest(before)} and {_largest(after)} at d = {d}"
        for d, before, after in zip(curve["dimensions"], plain, fair, strict=True)
    ]
    whose = _whose(facts, drawn)
    on_rows = f"on these rows of {whose} by number of dimensions, under PCA and under {name}"
    caption = (
        f"Excess loss {on_rows}."
        if curve["expected"] is None
        else "Points with bands: the loss to expect on new rows, under PCA by number of dimensions "
        f"and under {name} at the one that was chosen. Dotted: excess loss {on_rows}."
    )
    alternative = f"Largest loss of a group under PCA and {name}: {'; '.join(told)}."
    # One mark for each group: in its own panel, where they have panels.
    points: list[list[Point]] = [
        [(i, point["n_components"], point["losses_here"][g]) for i, g in enumerate(drawn)]
        for point in (steps["points"] if with_marks else ())
    ]
    fits = style.grid_of(len(drawn))[1] <= _SIDE_BY_SIDE
    return draw(picture, "d", caption, alternative, points, steps["start"], is_narrow=fits)


def _by_dimension(facts: Facts, drawn: Sequence[int]) -> list[Facts]:
    """What PCA and the main criterion cost on these rows, and on new ones where that is known."""
    curve, main, names = facts["by_dimension"], main_of(facts), _names(facts)
    expected = curve["expected"] or {"dimensions": []}
    has_own = curve["expected"] is not None and not main["is_plain_pca"]
    chosen = facts["settings"]["n_components"] if has_own else None
    fair = curve["fair"]
    losses = {"PCA": curve["plain"]["losses_here"], fair["criterion"]: fair["losses_here"]}
    records: list[Facts] = []
    for model, by_dimension in losses.items():
        for d, here in zip(curve["dimensions"], by_dimension, strict=True):
            new: list[dict[str, Any]] = [{} for _ in names]
            if model == "PCA" and d in expected["dimensions"]:
                place, plain = expected["dimensions"].index(d), expected["plain"]
                for end in _ENDS:
                    for each, loss in zip(new, plain[f"expected_losses{end}"][place], strict=True):
                        each[f"expected_loss{end}"] = loss
                for each, state in zip(new, plain["states"][place], strict=True):
                    each["state"] = state
            elif model != "PCA" and d == chosen:
                new = main["groups"]
            records += [
                {
                    **new[g],
                    "model": model,
                    "n_components": d,
                    "group": names[g],
                    "loss_here": None if here is None else here[g],
                }
                for g in drawn
            ]
    return records


def of_frontier(facts: Facts) -> Drawn:
    """The trade-off of two groups' errors."""
    curve, steps = facts["frontier"], facts["steps"]
    first, second = _names(facts)
    answers = {"PCA": curve["plain"], **curve["answers"]}
    reached = _table([*answers.values()])
    errors = _through(_table(curve["errors_here"]), reached)
    picture = FrontierDisplay(
        errors=errors,
        groups=(first, second),
        region=_region(_table(curve["region"]), errors, reached),
        plain=np.array(curve["plain"], dtype=np.float64),
        answers={name: np.array(each, dtype=np.float64) for name, each in curve["answers"].items()},
        n_components=facts["settings"]["n_components"],
    )
    told = "; ".join(f"{spoken(name)} {_pair(each)}" for name, each in answers.items())
    alternative = (
        f"Errors of {first} and {second}. The frontier runs from {_pair(curve['errors_here'][0])} "
        f"to {_pair(curve['errors_here'][-1])}; {told}."
    )
    arrow = " An arrow points to an answer outside the picture, whose errors are in the legend."
    caption = (
        "Every point of the curve is the least error of one group, given that of the other. The "
        f"filled mark is where the slider stands.{arrow if picture.outside() else ''}"
    )
    points: list[list[Point]] = [[(0, *point["errors_here"])] for point in steps["points"]]
    return draw(picture, "f", caption, alternative, points, steps["start"], is_narrow=True)


def _losing_most(facts: Facts) -> list[int]:
    """Positions of the groups with the largest loss under PCA: as many as there is room for."""
    losses = _values(plain_of(facts), "expected_loss" if has_estimates(facts) else "loss_here")
    # Groups of too few rows come last.
    return sorted(np.argsort(-losses, kind="stable")[:_MOST_GROUPS].tolist())


def _names(facts: Facts, drawn: Sequence[int] | None = None) -> tuple[str, ...]:
    names = [called(group["group"]) for group in facts["data"]["groups"]]
    return tuple(names if drawn is None else (names[g] for g in drawn))


def _whose(facts: Facts, drawn: Sequence[int]) -> str:
    n_groups = len(facts["data"]["groups"])
    if len(drawn) == n_groups:
        return "each group"
    return f"the {len(drawn)} of {n_groups} groups that lose most under PCA"


def _values(model: Facts, what: str) -> FloatArray:
    return np.array([group[what] for group in model["groups"]], dtype=np.float64)


def _records(facts: Facts, models: Sequence[Facts], drawn: Sequence[int]) -> list[Facts]:
    """The figures of some groups under models, as displays take them."""
    names = _names(facts)
    return [
        {**model["groups"][g], "model": model["name"], "group": names[g]}
        for model in models
        for g in drawn
    ]


def _table(rows: Sequence[Sequence[float | None]]) -> FloatArray:
    return np.array(rows, dtype=np.float64)


def _largest(values: Sequence[float | None] | None) -> str:
    known = [each for each in values or () if each is not None]
    return number(max(known)) if known else "none"


def _pair(errors: Sequence[float]) -> str:
    return " and ".join(map(number, errors))


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
