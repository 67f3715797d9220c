"""Text for a terminal: how wide it is, how it is cut and wrapped, and what its parts mean.

East Asian wide characters take two columns and combining marks none, so `len` is not enough.
"""

import os
import unicodedata
from collections.abc import Callable, Container, Sequence
from textwrap import wrap
from typing import Literal, TextIO

# Text is wrapped here, and earlier on a narrower terminal.
_WIDTH = 80
# What a part of a text means, for those who colour it.
Role = Literal["warning", "error", "worst", "proven", "unproven"]
Paint = Callable[[str, Role], str]

# Stands beside a wide character while text is wrapped; names are shown without private characters.
_SECOND_HALF = "\ue000"
# Stands for the space before a per-cent sign, where no line ends.
_BOUND = "\ue001"


def plain(text: str, role: Role) -> str:
    """The text without a colour.

    Examples
    --------
    >>> plain("FS101", "warning")
    'FS101'
    """
    return text


def terminal_width(text: str) -> int:
    """Columns that a text without line breaks takes on a terminal.

    Examples
    --------
    >>> terminal_width("old"), terminal_width("\u6771\u4eac"), terminal_width("e\u0301")
    (3, 4, 1)
    """
    return sum(map(_columns, text))


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A paragraph in lines of at most `width` columns; all but the first are indented.

    Examples
    --------
    >>> wrapped("FS102 a single row", 12, "  ")
    ['FS102 a', '  single row']
    """
    text = text.replace(" %", f"{_BOUND}%")
    spread = "".join(char + _SECOND_HALF * (_columns(char) - 1) for char in text)
    lines = wrap(spread, width, subsequent_indent=indent)
    if any(line.lstrip().startswith(_SECOND_HALF) for line in lines):
        # A line ended inside a wide character, and takes one column more than it should.
        lines = wrap(spread, width - 1, subsequent_indent=indent)
    return [line.replace(_SECOND_HALF, "").replace(_BOUND, " ") for line in lines]


def aligned(lines: Sequence[Sequence[str]], left: Container[int] = (0,)) -> list[str]:
    """Rows of cells as lines: the columns `left` to the left, figures to the right.

    Examples
    --------
    >>> aligned([("group", "rows"), ("a", "12")])
    ['group  rows', 'a        12']
    """
    widths = [max(map(terminal_width, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell + blank if index in left else blank + cell
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
            for blank in [" " * (width - terminal_width(cell))]
        ).rstrip()
        for cells in lines
    ]


def cut_names(names: Sequence[str], width: int) -> list[str] | None:
    """Names of at most `width` columns, cut at the end, or in the middle to keep more distinct.

    None if names that differ would look the same either way.

    Examples
    --------
    >>> cut_names(["old", "university degree"], 11)
    ['old', 'university…']
    >>> cut_names(["degree of women", "degree of men"], 11)
    ['degre…women', 'degre…f men']
    >>> cut_names(["graduate, full-time", "graduate, part-time"], 11) is None
    True
    """
    for tail in (0, (width - 1) // 2):
        cut = [shortened(name, width, tail) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return None


def shortened(name: str, width: int, tail: int = 0) -> str:
    """A name of at most `width` columns, of which `tail` are its end where it is cut.

    Examples
    --------
    >>> shortened("university degree", 11), shortened("university degree", 11, 3)
    ('university…', 'univers…ree')
    """
    if terminal_width(name) <= width:
        return name
    end = _head(name[::-1], tail)[::-1]
    return f"{_head(name, width - 1 - terminal_width(end))}…{end}"


def _head(name: str, width: int) -> str:
    """The longest beginning of at most `width` columns."""
    end = 0
    while end < len(name) and terminal_width(name[: end + 1]) <= width:
        end += 1
    return name[:end]


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width_of(stream: TextIO) -> int:
    """Columns for text: those of the terminal, but 80 at most, and 80 where none is."""
    if not stream.isatty():
        return _WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it has no size to tell, or is a terminal in name only
        return _WIDTH
    return min(columns, _WIDTH) if columns > 0 else _WIDTH
