"""Figures as files, and as text inside an HTML page: the same bytes every time."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

# With a salt and without a date the same figure gives the same bytes. Text stays text.
_STYLE: Any = {"svg.fonttype": "none", "savefig.dpi": 150}
_METADATA: Mapping[str, Any] = {"svg": {"Date": None}, "png": {"Software": None}}

_OUTSIDE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", re.S)
_SIZE = re.compile(
    r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg ([^>]*?)height="[^"]*" width="[^"]*"'
)
# Names from the data stand between tags, and stay as they are.
_TAG = re.compile(r"<[^>]*>")
_IDENTIFIER = re.compile(r'(\bid="|href="#|url\(#)')


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
    with _reproducible(salt):
        figure.savefig(path, format=ending, metadata=_METADATA[ending])


def inline_svg(figure: Figure, key: str, alternative: str, variables: Mapping[str, str]) -> str:
    """A figure as an `<svg>` element.

    Parameters
    ----------
    figure : Figure
    key : str
        Letters that no other figure of the page has: its identifiers begin with it.
    alternative : str
        What the figure shows, for those who do not see it.
    variables : mapping of colour ("#rrggbb") to CSS variable
        Colours that the page sets, such as those of text, so that they can be light or dark.

    Returns
    -------
    str
        Without style sheet, script or date; it scales with its container.
    """
    text = io.StringIO()
    with _reproducible(key):
        figure.savefig(text, format="svg", metadata=_METADATA["svg"], transparent=True)
    svg = _OUTSIDE.sub("", text.getvalue())
    svg = _TAG.sub(lambda tag: _in_page(tag[0], key, variables), svg)
    svg = _SIZE.sub(lambda found: "<svg " + (found[1] or found[2]), svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alternative)}" ', 1).strip()


def _in_page(tag: str, key: str, variables: Mapping[str, str]) -> str:
    tag = _IDENTIFIER.sub(lambda found: f"{found[1]}{key}-", tag)
    for colour, variable in variables.items():
        tag = re.sub(re.escape(colour), f"var({variable})", tag, flags=re.I)
    return tag


@contextmanager
def _reproducible(salt: str) -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # Text stays text, and whoever shows it has fonts of his own.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield
