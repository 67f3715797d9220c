"""What the command line writes to, and whether it shows colours.

Colours are for terminals alone, and not where the environment has NO_COLOR (no-color.org) or a
terminal that calls itself dumb. Text is the same with and without them.
"""

import os
import sys
from typing import Any, Literal, TextIO

import click

from fairspan.formatting.text import Styler, TextRole, unstyled
from fairspan.progress import clear_progress_bar

# Of what --json prints: raised when a name or a meaning changes, not when names are added.
JSON_VERSION = 1
_ROLE_STYLES: dict[TextRole, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "worst": {"fg": "red", "bold": True},
    "proven": {"fg": "green"},
    "unproven": {"fg": "yellow"},
}


def painter_for(stream: TextIO) -> Styler:
    """What colours the parts of a text for a stream, or leaves them as they are."""
    colors_enabled = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return _paint if colors_enabled and stream.isatty() else unstyled


def print_message(kind: Literal["error", "warning"], message: str) -> None:
    """Say on standard error what is wrong."""
    clear_progress_bar()
    mark = painter_for(sys.stderr)(f"fairspan: {kind}:", kind)
    click.echo(f"{mark} {message}", err=True)


def _paint(text: str, role: TextRole) -> str:
    return click.style(text, **_ROLE_STYLES[role])
