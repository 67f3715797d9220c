"""Drawing of displays as SVG figures of a page, with the marks of its slider."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from markupsafe import Markup

from fairspan.displays import style
from fairspan.displays.base_display import SAVE_METADATA, BaseDisplay, new_figure, reproducible_svg
from fairspan.extending import Display

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
# Figure width in inches at which text is legible on a phone.
_PHONE_WIDTH = 4.2
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
class SliderMarks:
    """Marks of the page's slider in a figure.

    Attributes
    ----------
    points : sequence of n sequences of points
        Marks at each of n steps of the slider.
    initial_step : int
        Step whose marks are drawn; the script of the page moves them to those of other steps.
    name : str
        Name of the marks, such as "filled circle".
    step_label : str
        Label of the initial step.
    """

    points: Sequence[Sequence[PanelPoint]]
    initial_step: int
    name: str
    step_label: str


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
    marks: SliderMarks | None = None,
    *,
    keep_title: bool = False,
    fit_phone: bool = False,
    max_width: float = np.inf,
    keep_markers: bool = False,
    phone_display: BaseDisplay | None = None,
) -> PageFigure:
    """Draw a display as SVG, with the marks of the slider's initial step.

    Parameters
    ----------
    display : BaseDisplay or Display
    element_prefix : str
        Prefix of the ids of the figure's elements; unique within the page.
    caption : str
    alt_text : str
        Alternative text.
    marks : SliderMarks, optional
        By default none.
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
    phone_svg = None
    if phone_display is not None:
        phone_prefix = f"{element_prefix}-phone"
        phone_svg = draw_figure(phone_display, phone_prefix, caption, alt_text, fit_phone=True).svg
    if marks is None:
        return PageFigure(Markup(svg), caption, mark_positions=[], phone_svg=phone_svg)
    positions = _mark_positions(marks.points, panels)
    elements = _mark_elements(positions[marks.initial_step])
    return PageFigure(
        Markup(f"{svg.removesuffix('</svg>')}{elements}</svg>"),
        caption,
        positions,
        marks.name,
        marks.step_label,
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
