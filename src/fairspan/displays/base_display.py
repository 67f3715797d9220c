"""Base class of all displays, and helpers for drawing and saving figures."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from io import BytesIO
from typing import Any, Self

from fairspan.displays.style import (
    FOREGROUND,
    STYLE,
    Axes,
    Figure,
    adapt_to_background,
    root_figure,
)
from fairspan.errors import import_optional
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.messages import counted
from fairspan.formatting.numbers import noun_form, verb_form
from fairspan.progress import show_progress

# Common fonts for East Asian scripts and symbols, by preference.
_FALLBACK_FONTS = (
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
OPTIMAL = "optimal"
UNRESOLVED = "unresolved"
# Status where the problem has no solution at a dimension or parameter.
INFEASIBLE = "infeasible"
# A fixed hash salt and no date make the SVG reproducible; text is kept as text.
_REPRODUCIBLE_SETTINGS: Any = {"svg.fonttype": "none", "savefig.dpi": 150}
SAVE_METADATA: Mapping[str, Any] = {"svg": {"Date": None}, "png": {"Software": None}}
# CSS pixels per inch in a notebook, and image pixels per CSS pixel, for sharp screens.
_NOTEBOOK_DPI = 72
_PIXEL_RATIO = 2


def describe_unproven(statuses: Sequence[str | None]) -> str:
    """Describe how many solutions are not proven optimal; empty if all are.

    Statuses that are None (ordinary PCA, which needs no proof) or "infeasible" are not counted.

    Examples
    --------
    >>> describe_unproven(["optimal", "open gap", "optimal"])
    'Of 3 solutions, 1 is not proven optimal.'
    >>> print(describe_unproven(["optimal", "unresolved", "optimal"]))
    Of 3 solutions, 1 is unresolved: double precision cannot resolve how close it is to the optimum.
    >>> describe_unproven(["optimal", "infeasible"])
    ''
    """
    solved = [status for status in statuses if status not in (None, INFEASIBLE)]
    n_unresolved = solved.count(UNRESOLVED)
    n_open = len(solved) - n_unresolved - solved.count(OPTIMAL)
    prefix = f"Of {len(solved)} solutions,"
    sentences = []
    if n_open:
        verb = verb_form(n_open, "is", "are")
        sentences.append(f"{prefix} {n_open} {verb} not proven optimal.")
    if n_unresolved:
        verb = verb_form(n_unresolved, "is", "are")
        pronoun = noun_form(n_unresolved, "it", "they")
        sentences.append(
            f"{prefix} {n_unresolved} {verb} unresolved: double precision cannot resolve how close "
            f"{pronoun} {verb} to the optimum."
        )
    return " ".join(sentences)


class BaseDisplay(ABC):
    """Data of a plot and the code that draws it.

    Following scikit-learn's convention, `plot` sets `ax_` and `figure_`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes that were drawn on; with several panels, the invisible axes that hold title and legend.
    axes_ : tuple of matplotlib Axes
        The panels; `(ax_,)` if there is only one.
    figure_ : matplotlib Figure
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure

    @classmethod
    @abstractmethod
    def compute(cls, *source: Any, **settings: Any) -> Self:
        """Compute the display without drawing it."""

    @classmethod
    def _compute_and_plot(cls, ax: Axes | None, *source: Any, **settings: Any) -> Self:
        """Compute the display, showing progress, and draw it."""
        import_optional("matplotlib", "plot", cls.__name__)
        with show_progress():
            display = cls.compute(*source, **settings)
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure. Title and legend are placed outside
            the axes, so use `layout="constrained"` for figures with several axes.

        Returns
        -------
        Self
            With `ax_`, `axes_` and `figure_`.

        Raises
        ------
        MissingDependency
            matplotlib is not installed.
        """
        import_optional("matplotlib", extra="plot", purpose="plot")
        from matplotlib import rc_context

        with rc_context({**STYLE, **font_settings()}), _ignore_missing_glyphs():
            is_new_figure = ax is None
            if ax is None:
                from matplotlib import pyplot  # slow import that pages do not need

                _, ax = pyplot.subplots(figsize=self.figure_size(), layout="constrained")
            # Axes created elsewhere may have another style.
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_axisbelow(True)
            ax.tick_params(labelsize=STYLE["xtick.labelsize"], colors=FOREGROUND)
            self.axes_ = tuple(self._draw(ax))
            self.ax_ = ax
            self.figure_ = root_figure(ax)
            # A new figure may hold more than the panels, such as a color bar. The caller's figure
            # may hold other axes, which are left as they are.
            all_axes = self.figure_.axes if is_new_figure else [ax, *self.axes_]
            adapt_to_background(all_axes, self.figure_.get_facecolor())
        return self

    def frame(self) -> Any:
        """Return the plotted data as a DataFrame.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(dict(self.to_columns()), f"{type(self).__name__}.frame()")

    @abstractmethod
    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Return the plotted data as columns of equal length."""

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return 6.4, 4.6

    @abstractmethod
    def _draw(self, axes: Axes) -> Sequence[Axes]:
        """Draw on the axes (the style is already set) and return the panels."""

    def __repr__(self) -> str:
        n_rows = len(next(iter(self.to_columns().values())))
        return f"<{type(self).__name__}: {counted(n_rows, 'row')} of data, see frame()>"

    def _repr_html_(self) -> str | None:
        """HTML image for notebooks, None if the display has not been drawn.

        The pyplot figure is closed so that it is not shown twice.
        """
        if not hasattr(self, "figure_"):
            return None
        from matplotlib import pyplot

        file = BytesIO()
        with _ignore_missing_glyphs():
            self.figure_.savefig(file, format="png", dpi=_PIXEL_RATIO * _NOTEBOOK_DPI)
        pyplot.close(self.figure_)
        image = b64encode(file.getvalue()).decode()
        title = self.ax_.get_title(loc="left")
        width = self.figure_.get_figwidth() * _NOTEBOOK_DPI
        return (
            f'<img alt="{escape(title)}" width="{width:.0f}" style="max-width: 100%" '
            f'src="data:image/png;base64,{image}">'
        )


def font_settings() -> Any:  # Any: matplotlib types each setting
    """Return the font family setting with installed fallback fonts appended.

    Fonts that are not installed are omitted because matplotlib warns about each of them.
    """
    import matplotlib

    return {"font.family": [*matplotlib.rcParams["font.family"], *_installed_fallback_fonts()]}


@cache
def _installed_fallback_fonts() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    return tuple(
        sorted({*_FALLBACK_FONTS} & {*fontManager.get_font_names()}, key=_FALLBACK_FONTS.index)
    )


@contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Silence warnings about missing glyphs: SVG text is rendered with the viewer's fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def new_figure(purpose: str) -> Figure:
    """Create a figure that is not registered with pyplot.

    `purpose` is what needs the figure: the subject of the error message.

    Raises
    ------
    MissingDependency
        matplotlib is not installed.
    """
    import_optional("matplotlib", extra="plot", purpose=purpose)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    # The Agg canvas caches the text renderer; a bare figure would create one per text.
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def reproducible_svg(salt: str) -> Iterator[None]:
    """Context with settings that make saved figures reproducible."""
    import matplotlib

    with (
        matplotlib.rc_context({**_REPRODUCIBLE_SETTINGS, "svg.hashsalt": salt}),
        _ignore_missing_glyphs(),
    ):
        yield
