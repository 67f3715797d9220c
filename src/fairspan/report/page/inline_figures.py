"""Pictures as SVG inside the audit page, and where in it a point of the data lies."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from markupsafe import Markup

from fairspan.drawing import labels
from fairspan.drawing.picture import METADATA, Display, Picture, empty_figure, reproducible

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
    labels.INK: "--ink",
    labels.FAINT: "--faint",
    labels.BLUE: "--blue",
    labels.VERMILION: "--vermilion",
    labels.GREEN: "--green",
    labels.PURPLE: "--purple",
    labels.ORANGE: "--orange",
    labels.SKY: "--sky",
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
    from matplotlib import rc_context, style

    # The same bytes, whatever style the reader has chosen for his own figures.
    with style.context("default"), reproducible(key):
        figure = empty_figure("the audit page")
        width, height = picture.size() if isinstance(picture, Picture) else _SIZE
        figure.set_size_inches(min(width, _NARROW_SCREEN) if is_narrow else width, height)
        with rc_context(labels.STYLE):
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


def inline_svg(figure: labels.Figure, key: str, alternative: str) -> str:
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
