"""Figures as files: the same bytes every time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

# With a salt and without a date the same figure gives the same bytes. Text stays text.
_STYLE: Any = {"svg.fonttype": "none", "savefig.dpi": 150}
METADATA: Mapping[str, Any] = {"svg": {"Date": None}, "png": {"Software": None}}


def empty_figure(purpose: str) -> Figure:
    """A figure that pyplot does not keep.

    Raises
    ------
    MissingDependency
        matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401, without it a part that is loaded already would be found
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency.for_extra("matplotlib", "plot", purpose) from error
    return Figure(layout="constrained")


def save(figure: Figure, path: Path, ending: str, salt: str = "fairspan") -> None:
    """Write a figure as "svg" or "png", the same bytes every time."""
    with reproducible(salt):
        figure.savefig(path, format=ending, metadata=METADATA[ending])


@contextmanager
def reproducible(salt: str) -> Iterator[None]:
    """Settings under which the same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # Text stays text, and whoever shows it has fonts of his own.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield
