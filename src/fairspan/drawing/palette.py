"""How things look: colours, markers and lines that are told apart without colour as well.

The colours are those of Okabe and Ito, made for all kinds of colour vision. Groups also differ by
marker and line, so that a picture printed in grey can still be read.
"""

from dataclasses import dataclass
from typing import Any

# Text and lines that carry information; grids and hints.
INK, FAINT = "#1b1e23", "#8b929c"
# Opacity of notes: ink, so that they follow it where a page sets its colour.
QUIET = 0.72

BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"

# Loadings: negative orange, zero white, positive purple, as dark at both ends.
DIVERGING = "PuOr"

_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
_OTHER_COLOURS = (BLUE, ORANGE, GREEN, SKY, PURPLE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_LINES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))

# matplotlib's settings while one of our pictures is drawn. Any: its types list every setting.
STYLE: Any = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.grid": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True)
class Look:
    """How one of several things is drawn.

    Attributes
    ----------
    colour : str
    marker : str
    line : line style of matplotlib
    hatch : str
        Of bars.
    is_filled : bool
        Whether markers are.
    """

    colour: str
    marker: str
    line: Any
    hatch: str = ""
    is_filled: bool = True


def look(i: int) -> Look:
    """How the i-th group is drawn; the first twelve differ by marker alone."""
    return Look(_COLOURS[i % 6], _MARKERS[i % 12], _LINES[i % 4])


def other_look(i: int) -> Look:
    """How the i-th thing beside ordinary PCA is drawn: in no colour or marker that PCA has."""
    return Look(_OTHER_COLOURS[i % 5], _MARKERS[1 + i % 11], "-")


# Ordinary PCA is drawn dashed, hollow and hatched throughout; what repairs it solid.
PLAIN = Look(VERMILION, "o", (0, (4, 2)), "////", is_filled=False)
FAIR = Look(BLUE, "s", "-")
BEST = Look(FAINT, "|", (0, (1, 1.5)), is_filled=False)
