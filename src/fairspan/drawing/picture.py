"""What every picture can do: draw itself on axes, give its data as a table, and be a file."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from fairspan.drawing.layout import INK, STYLE, Axes, Figure, figure_of
from fairspan.errors import imported
from fairspan.formatting.results import data_frame

if TYPE_CHECKING:
    from collections.abc import Iterator


# Widely installed ones of the East Asian scripts and of symbols, in the order they are asked.
_FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Segoe UI Symbol",
)
OPTIMAL, UNRESOLVED, NONE = "optimal", "unresolved", "no answer"
# With a salt and without a date the same figure gives the same bytes. Text stays text.
_STYLE: Any = {"svg.fonttype": "none", "savefig.dpi": 150}
METADATA: Mapping[str, Any] = {"svg": {"Date": None}, "png": {"Software": None}}


def fallback_fonts() -> Any:  # matplotlib's types list every setting
    """matplotlib's setting of font families, with those installed that fill its gaps.

    Only installed ones, as matplotlib reports every family that it does not find.
    """
    import matplotlib

    return {"font.family": [*matplotlib.rcParams["font.family"], *_installed()]}


@cache
def _installed() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    return tuple(sorted({*_FALLBACKS} & {*fontManager.get_font_names()}, key=_FALLBACKS.index))


def unproven(statuses: Sequence[str]) -> str:
    """How many answers of a criterion are not proven optimal, in sentences; or nothing.

    Examples
    --------
    >>> unproven(["optimal", "open gap", "optimal"])
    'Of 3 answers, 1 is not proven optimal.'
    >>> unproven(["optimal", "unresolved", "optimal"])
    'Of 3 answers, 1 is unresolved: double precision cannot tell how close it is to the optimum.'
    >>> unproven(["optimal", "no answer"])
    ''
    """
    answers = [status for status in statuses if status != NONE]
    n_unresolved = answers.count(UNRESOLVED)
    n_open = len(answers) - n_unresolved - answers.count(OPTIMAL)
    of, sentences = f"Of {len(answers)} answers,", []
    if n_open:
        sentences.append(f"{of} {n_open} {_are(n_open)} not proven optimal.")
    if n_unresolved:
        sentences.append(
            f"{of} {n_unresolved} {_are(n_unresolved)} unresolved: double precision cannot tell "
            f"how close {'it is' if n_unresolved == 1 else 'they are'} to the optimum."
        )
    return " ".join(sentences)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


@runtime_checkable
class Display(Protocol):
    """A picture of a fitted model: what is drawn, as a table, and how it is drawn.

    A display that can be requested by name is made by a function that takes a fitted FairPCA, whose
    `moments_` are those of the rows that it was fitted on.
    """

    def frame(self) -> Any:
        """What is drawn, as a pandas DataFrame."""

    def plot(self, ax: Axes | None = None) -> Any:
        """Draw on these matplotlib axes; without them, on a new figure."""


class Picture(ABC):
    """Plain arrays, and how they are drawn.

    After scikit-learn's convention for displays: `plot` draws, and leaves `ax_` and `figure_`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on; where a picture has several panels, the axes that bound them.
    axes_ : tuple of matplotlib Axes
        The panels; `ax_` alone where there is one.
    figure_ : matplotlib Figure
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot. Titles and legends stand
            outside the axes, so give a figure of several `layout="constrained"`.

        Returns
        -------
        Self
            With `ax_`, `axes_` and `figure_`.

        Raises
        ------
        MissingDependency
            matplotlib is not installed.
        """
        imported("matplotlib", "plot", "plot")
        from matplotlib import rc_context

        with rc_context({**STYLE, **fallback_fonts()}), warnings.catch_warnings():
            # Texts are measured; whoever shows them may have other fonts.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            if ax is None:
                from matplotlib import pyplot  # takes its time, and a page needs none of it

                _, ax = pyplot.subplots(figsize=self.size(), layout="constrained")
            # Axes made elsewhere may have something of another style.
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_axisbelow(True)
            ax.tick_params(labelsize=STYLE["xtick.labelsize"], colors=INK)
            self.axes_ = tuple(self._draw(ax))
        self.ax_ = ax
        self.figure_ = figure_of(ax)
        return self

    def frame(self) -> Any:
        """What is drawn, as a table.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return data_frame(dict(self.columns()), f"{type(self).__name__}.frame()")

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn, as columns of one length."""

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 4.6

    @abstractmethod
    def _draw(self, axes: Axes) -> Sequence[Axes]:
        """Draw on these axes, with our style set; the panels that were made of them."""


def empty_figure(purpose: str) -> Figure:
    """A figure that pyplot does not keep.

    Raises
    ------
    MissingDependency
        matplotlib is not installed.
    """
    imported("matplotlib", "plot", purpose)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    # It keeps what measures texts; the canvas of a bare figure makes that anew for each of them.
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def reproducible(salt: str) -> Iterator[None]:
    """Settings under which the same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # Text stays text, and whoever shows it has fonts of his own.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield
