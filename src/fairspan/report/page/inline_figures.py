"""Pictures as SVG inside the audit page, and where in it a point of the data lies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from fairspan.drawing import palette
from fairspan.drawing.files import empty_figure, inline_svg
from fairspan.drawing.picture import Picture
from fairspan.report.page.compact import compact

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A point of the data: the panel that it is in, and its coordinates there.
Point = tuple[int, float, float]
# A place in a figure, in the units of its SVG: from the left, from the top.
Place = tuple[float, float]

_POINTS_PER_INCH = 72
# Of one line: more would touch each other, and make the page large.
_MOST_MARKERS = 20
_VARIABLES = {
    palette.INK: "--ink",
    palette.FAINT: "--faint",
    palette.BLUE: "--blue",
    palette.VERMILION: "--vermilion",
    palette.GREEN: "--green",
    palette.PURPLE: "--purple",
    palette.ORANGE: "--orange",
    palette.SKY: "--sky",
    "#ffffff": "--paper",
}


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


def draw(
    picture: Picture,
    key: str,
    caption: str,
    alternative: str,
    points: Sequence[Sequence[Point]] = (),
    start: int = 0,
) -> Drawn:
    """Draw a picture, with a mark at each of the points of one step.

    Parameters
    ----------
    picture : Picture
    key : str
        Letters that no other figure of the page has.
    caption : str
    alternative : str
        What the figure shows, for those who do not see it.
    points : sequence of n sequences of points
        Where the marks are at each step.
    start : int
        The step that is shown first.
    """
    empty_figure("the audit page")  # which tells where matplotlib is missing
    from matplotlib import style

    # The same bytes, whatever style the reader has chosen for his own figures.
    with style.context("default"):
        return _drawn(picture, key, caption, alternative, points, start)


def _drawn(
    picture: Picture,
    key: str,
    caption: str,
    alternative: str,
    points: Sequence[Sequence[Point]],
    start: int,
) -> Drawn:
    from matplotlib import rc_context

    figure = empty_figure("the audit page")
    figure.set_size_inches(*picture.size())
    with rc_context(palette.STYLE):
        axes = figure.add_subplot()
    with warnings.catch_warnings():
        # Whoever reads the page has fonts of his own.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        picture.plot(ax=axes)
    # The caption says what the figure shows.
    for place in ("left", "center", "right"):
        axes.set_title("", loc=place)
    for line in (line for panel in picture.axes_ for line in panel.lines):
        line.set_markevery(-(-len(line.get_xdata()) // _MOST_MARKERS))  # type: ignore[arg-type]
    svg = compact(inline_svg(figure, key, alternative, _VARIABLES))
    width = round(figure.get_figwidth() * _POINTS_PER_INCH)
    svg = svg.replace("<svg ", f'<svg style="--width:{width}" ', 1)
    places = [
        [_place(figure, picture.axes_[panel], x, y) for panel, x, y in step] for step in points
    ]
    if places:
        svg = svg.removesuffix("</svg>") + _marks(places[start]) + "</svg>"
    return Drawn(Markup(svg), caption, places)


def _place(figure: Figure, axes: Axes, x: float, y: float) -> Place:
    """Where a point lies, once the layout is known."""
    left, bottom = axes.transData.transform((x, y)) / figure.dpi * _POINTS_PER_INCH
    height = figure.get_figheight() * _POINTS_PER_INCH
    return round(float(left), 1), round(float(height - bottom), 1)


def _marks(places: Sequence[Place]) -> str:
    size = 6 if len(places) == 1 else 4.5
    return "".join(
        f'<circle class="mark" data-mark="{i}" cx="{x}" cy="{y}" r="{size}"/>'
        for i, (x, y) in enumerate(places)
    )
