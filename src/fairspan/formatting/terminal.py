"""Text on a terminal: width, wrapping and shortening.

East Asian wide characters take two columns and combining marks none, so `len` is not enough.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import wrap
from typing import Literal, TextIO

# Maximum width of wrapped text, in columns of a terminal.
MAX_WIDTH = 80
# Semantic roles of text, for styling.
TextRole = Literal["warning", "error", "worst", "proven", "unproven"]
Styler = Callable[[str, TextRole], str]

# Filler after a wide character while wrapping (private use area, never part of displayed names).
_WIDE_FILLER = "\ue000"
# Placeholder for the non-breaking space before "%".
_NBSP_PLACEHOLDER = "\ue001"


def unstyled(text: str, role: TextRole) -> str:
    """Return the text without styling.

    Examples
    --------
    >>> unstyled("FS101", "warning")
    'FS101'
    """
    return text


def display_width(text: str) -> int:
    """Width of a single-line text on a terminal, in columns.

    Examples
    --------
    >>> display_width("old"), display_width("\u6771\u4eac"), display_width("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def wrap_text(
    text: str, width: int, indent: str = "", *, break_on_hyphens: bool = False
) -> list[str]:
    """Wrap a paragraph to lines of at most `width` columns, with a hanging indent.

    Lines do not break before "%", nor after hyphens by default, and wide characters count as two
    columns.

    Examples
    --------
    >>> wrap_text("FS102 a single row", 12, "  ")
    ['FS102 a', '  single row']
    """
    # Wrapping counts characters, so a wide one is followed by a filler that is removed afterwards.
    text = text.replace(" %", f"{_NBSP_PLACEHOLDER}%")
    filled = "".join(char + _WIDE_FILLER * (_char_width(char) - 1) for char in text)
    fill = partial(wrap, subsequent_indent=indent, break_on_hyphens=break_on_hyphens)
    lines = fill(filled, width)
    if any(line.lstrip().startswith(_WIDE_FILLER) for line in lines):
        # A line was broken inside a wide character and is one column too wide.
        lines = fill(filled, width - 1)
    return [line.replace(_WIDE_FILLER, "").replace(_NBSP_PLACEHOLDER, " ") for line in lines]


def shorten_names(names: Sequence[str], width: int) -> list[str] | None:
    """Shorten names to at most `width` columns, at the end or in the middle.

    Return None if distinct names would become equal either way.

    Examples
    --------
    >>> shorten_names(["old", "university degree"], 11)
    ['old', 'university…']
    >>> shorten_names(["degree of women", "degree of men"], 11)
    ['degre…women', 'degre…f men']
    >>> shorten_names(["graduate, full-time", "graduate, part-time"], 11) is None
    True
    """
    for tail in (0, (width - 1) // 2):
        short_names = [shorten(name, width, tail) for name in names]
        if len(set(short_names)) == len(set(names)):
            return short_names
    return None


def shorten(name: str, width: int, tail: int = 0) -> str:
    """Shorten a name to at most `width` columns, keeping `tail` columns of its end.

    Examples
    --------
    >>> shorten("university degree", 11), shorten("university degree", 11, 3)
    ('university…', 'univers…ree')
    """
    if display_width(name) <= width:
        return name
    end = _longest_prefix(name[::-1], tail)[::-1]
    start = _longest_prefix(name, width - 1 - display_width(end))
    return f"{start}…{end}"


def _longest_prefix(name: str, width: int) -> str:
    """Longest prefix of at most `width` columns."""
    end = 0
    while end < len(name) and display_width(name[: end + 1]) <= width:
        end += 1
    return name[:end]


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def output_width(stream: TextIO) -> int:
    """Output width: that of the terminal, at most 80; 80 without a terminal."""
    if not stream.isatty():
        return MAX_WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # the size is not available
        return MAX_WIDTH
    return min(columns, MAX_WIDTH) if columns > 0 else MAX_WIDTH
