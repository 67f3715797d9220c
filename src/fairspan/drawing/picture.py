"""What every picture can do: draw itself on axes, and give its data as a table."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from fairspan.drawing.fonts import fallback_fonts
from fairspan.drawing.palette import INK, STYLE
from fairspan.errors import MissingDependency
from fairspan.formatting.data_frames import data_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        try:
            from matplotlib import pyplot, rc_context
        except ImportError as error:
            raise MissingDependency.for_extra("matplotlib", "plot", "plot") from error
        with rc_context({**STYLE, **fallback_fonts()}), warnings.catch_warnings():
            # Texts are measured; whoever shows them may have other fonts.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            if ax is None:
                _, ax = pyplot.subplots(figsize=self.size(), layout="constrained")
            _dress(ax)
            self.axes_ = tuple(self._draw(ax))
        self.ax_ = ax
        figure = ax.get_figure(root=True)
        assert figure is not None
        self.figure_ = figure
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


def _dress(axes: Axes) -> None:
    """What axes made elsewhere have of another style."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=STYLE["xtick.labelsize"], colors=INK)
