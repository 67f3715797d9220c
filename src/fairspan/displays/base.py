"""What every picture can do: draw itself on axes, give its data as a table, and be a file."""

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
from fairspan.formatting.text import counted
from fairspan.progress import show_progress

# Widely installed ones of the East Asian scripts and of symbols, in the order they are asked.
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
OPTIMAL, UNRESOLVED, INFEASIBLE = "optimal", "unresolved", "no answer"
# With a salt and without a date the same figure gives the same bytes. Text stays text.
_REPRODUCIBLE_SETTINGS: Any = {"svg.fonttype": "none", "savefig.dpi": 150}
SAVE_METADATA: Mapping[str, Any] = {"svg": {"Date": None}, "png": {"Software": None}}
# Pixels of an inch in a notebook, and how many more the image has.
_NOTEBOOK_DPI, _PIXEL_RATIO = 72, 2


def describe_unproven(statuses: Sequence[str | None]) -> str:
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
    solved = [status for status in statuses if status not in (None, INFEASIBLE)]
    n_unresolved = solved.count(UNRESOLVED)
    n_open = len(solved) - n_unresolved - solved.count(OPTIMAL)
    prefix, sentences = f"Of {len(solved)} answers,", []
    if n_open:
        sentences.append(f"{prefix} {n_open} {'is' if n_open == 1 else 'are'} not proven optimal.")
    if n_unresolved:
        is_or_are, it_is = ("is", "it is") if n_unresolved == 1 else ("are", "they are")
        sentences.append(
            f"{prefix} {n_unresolved} {is_or_are} unresolved: double precision cannot tell how close "
            f"{it_is} to the optimum."
        )
    return " ".join(sentences)


class BaseDisplay(ABC):
    """Plain data, and how they are drawn.

    After scikit-learn's convention for displays: `plot` draws, and leaves `ax_` and `figure_`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on; where a picture has several panels, what stands above them.
    axes_ : tuple of matplotlib Axes
        The panels; `ax_` alone where there is one.
    figure_ : matplotlib Figure
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure

    @classmethod
    @abstractmethod
    def compute(cls, *source: Any, **settings: Any) -> Self:
        """What `from_estimator` draws, not drawn yet: as a page draws it on axes of its own."""

    @classmethod
    def _compute_and_plot(cls, ax: Axes | None, *source: Any, **settings: Any) -> Self:
        """Compute what is shown, with progress where it takes long, and draw it."""
        import_optional("matplotlib", "plot", cls.__name__)
        with show_progress():
            display = cls.compute(*source, **settings)
        return display.plot(ax)

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
        import_optional("matplotlib", "plot", "plot")
        from matplotlib import rc_context

        with rc_context({**STYLE, **font_settings()}), _ignore_missing_glyphs():
            is_given = ax is not None
            if ax is None:
                from matplotlib import pyplot  # takes its time, and a page needs none of it

                _, ax = pyplot.subplots(figsize=self.figure_size(), layout="constrained")
            # Axes made elsewhere may have something of another style.
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_axisbelow(True)
            ax.tick_params(labelsize=STYLE["xtick.labelsize"], colors=FOREGROUND)
            self.axes_ = tuple(self._draw(ax))
            self.ax_, self.figure_ = ax, root_figure(ax)
            all_axes = [ax, *self.axes_] if is_given else self.figure_.axes
            adapt_to_background(all_axes, self.figure_.get_facecolor())
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
        return to_data_frame(dict(self.to_columns()), f"{type(self).__name__}.frame()")

    @abstractmethod
    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn, as columns of one length."""

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 4.6

    @abstractmethod
    def _draw(self, axes: Axes) -> Sequence[Axes]:
        """Draw on these axes, with our style set; the panels that were made of them."""

    def __repr__(self) -> str:
        n_rows = len(next(iter(self.to_columns().values())))
        return f"<{type(self).__name__}: {counted(n_rows, 'row')} of data, see frame()>"

    def _repr_html_(self) -> str | None:
        """The picture in a notebook, once it is drawn; pyplot does not show it there again."""
        if not hasattr(self, "figure_"):
            return None
        from matplotlib import pyplot

        file = BytesIO()
        with _ignore_missing_glyphs():
            self.figure_.savefig(file, format="png", dpi=_PIXEL_RATIO * _NOTEBOOK_DPI)
        pyplot.close(self.figure_)
        image, title = b64encode(file.getvalue()).decode(), self.ax_.get_title(loc="left")
        return (
            f'<img alt="{escape(title)}" width="{self.figure_.get_figwidth() * _NOTEBOOK_DPI:.0f}" '
            f'style="max-width: 100%" src="data:image/png;base64,{image}">'
        )


def font_settings() -> Any:  # matplotlib's types list every setting
    """matplotlib's setting of font families, with those installed that fill its gaps.

    Only installed ones, as matplotlib reports every family that it does not find.
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
    """Silence warnings of missing glyphs: texts stay texts, and are shown with other fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def new_figure(purpose: str) -> Figure:
    """A figure that pyplot does not keep.

    Raises
    ------
    MissingDependency
        matplotlib is not installed.
    """
    import_optional("matplotlib", "plot", purpose)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    # It keeps what measures texts; the canvas of a bare figure makes that anew for each of them.
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def reproducible_svg(salt: str) -> Iterator[None]:
    """Settings under which the same figure gives the same bytes."""
    import matplotlib

    with (
        matplotlib.rc_context({**_REPRODUCIBLE_SETTINGS, "svg.hashsalt": salt}),
        _ignore_missing_glyphs(),
    ):
        yield
