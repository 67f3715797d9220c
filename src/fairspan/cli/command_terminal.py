"""Terminal output and colors.

Colors are used only on terminals, and not if NO_COLOR is set (no-color.org) or TERM is "dumb". The
text is the same with and without colors.
"""

import os
import sys
from typing import Any, Literal, TextIO

import click

from fairspan.formatting.terminal import Styler, TextRole, unstyled
from fairspan.progress import clear_progress_bar

# Version of the --json output; incremented when a key changes its name or meaning, not when keys
# are added.
JSON_VERSION = 2
_ROLE_STYLES: dict[TextRole, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "worst": {"fg": "red", "bold": True},
    "proven": {"fg": "green"},
    "unproven": {"fg": "yellow"},
}


def painter_for(stream: TextIO) -> Styler:
    """Return the function that colors text for a stream (or returns it unchanged)."""
    colors_enabled = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if not colors_enabled or not stream.isatty():
        return unstyled
    return _paint


def print_message(kind: Literal["error", "warning"], message: str) -> None:
    """Print an error or warning on standard error."""
    clear_progress_bar()
    mark = painter_for(sys.stderr)(f"fairspan: {kind}:", kind)
    click.echo(f"{mark} {message}", err=True)


def _paint(text: str, role: TextRole) -> str:
    return click.style(text, **_ROLE_STYLES[role])
