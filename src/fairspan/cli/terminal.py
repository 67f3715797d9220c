"""What the command line writes to, and whether it shows colours.

Colours are for terminals alone, and not where the environment has NO_COLOR (no-color.org) or a
terminal that calls itself dumb. Text is the same with and without them.
"""

import os
import sys
from typing import Any, Literal, TextIO

import click

from fairspan.formatting.text import Paint, Role, plain
from fairspan.progress import clear_line

# Of what --json prints: raised when a name or a meaning changes, not when names are added.
JSON_VERSION = 1
_LOOKS: dict[Role, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "worst": {"fg": "red", "bold": True},
    "proven": {"fg": "green"},
    "unproven": {"fg": "yellow"},
}


def paint_on(stream: TextIO) -> Paint:
    """What colours the parts of a text for a stream, or leaves them as they are."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return _coloured if wanted and stream.isatty() else plain


def complain(kind: Literal["error", "warning"], message: str) -> None:
    """Say on standard error what is wrong."""
    clear_line()
    mark = paint_on(sys.stderr)(f"fairspan: {kind}:", kind)
    click.echo(f"{mark} {message}", err=True)


def _coloured(text: str, role: Role) -> str:
    return click.style(text, **_LOOKS[role])
