"""How numbers and names are spelled, and text for a terminal.

Numbers have four digits, powers of ten written out, and one per-cent style; the figures of a column
have as many decimals as one another. The page, the figures and the terminal use these spellings;
:func:`in_ascii` writes them with the characters that every terminal has. On a terminal East Asian
wide characters take two columns and combining marks none, so `len` is not enough.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, log10
from textwrap import wrap
from typing import Any, Literal, TextIO

_MINUS, _TIMES, _DASH, _FIXED_SPACE = "\u2212", "\u00d7", "\u2013", "\u00a0"
_DIGITS, _RAISED = (
    "-0123456789",
    "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079",
)
_IN_ASCII = (
    (f">{_FIXED_SPACE}{_MINUS}", "less than -"),
    ("<", "less than"),
    (_MINUS, "-"),
    (_DASH, "-"),
    (_FIXED_SPACE, " "),
)
# Shares below these are rounding, and would be shown as none.
_ROUNDING, _TINY, _TINY_SHARE = 1e-9, 5e-5, 5e-4
_EXPONENT = re.compile(r"e([+-]\d+)$")
_POWER = re.compile(f"{_FIXED_SPACE}{_TIMES}{_FIXED_SPACE}10([{_RAISED}]+)")
# Significant digits of a figure by itself, and beside an interval of rounding alone at most.
_FEWEST_DIGITS, _DIGITS_OF_FLOAT = 4, 12
# Significant digits of the largest and the smallest figure of a column, and digits that fit.
_OF_LARGEST, _OF_SMALLEST, _MOST_DIGITS = 4, 3, 7


def number(value: float | None, decimals: int | None = None, digits: int = _FEWEST_DIGITS) -> str:
    r"""Four significant digits, or the decimals of a column; a dash where there is no figure.

    Its spaces do not break. What the decimals would not show two digits of is written by itself.

    Examples
    --------
    >>> number(13.94617), number(0.0), number(0.00021), number(13.94617, 3), number(0.0012, 3)
    ('13.95', '0', '0.00021', '13.946', '0.0012')
    >>> ascii(number(1234567.0)), ascii(number(None))
    ("'1.235\\xa0\\xd7\\xa010\\u2076'", "'\\u2013'")
    """
    if value is None:
        return _DASH
    fits = decimals is not None and abs(value) >= 10.0 ** (1 - decimals)
    text = f"{value:.{decimals}f}" if fits else f"{value:.{digits}g}"
    return _EXPONENT.sub(_power, text).replace("-", _MINUS)


def decimals_of(values: Iterable[float | None]) -> int | None:
    """Decimals of the figures of one column; None where they are too large, small or far apart.

    The largest is shown with four digits and the smallest with three, as far as seven digits go.

    Examples
    --------
    >>> decimals_of([154.8, 7.936, 0.0, None]), decimals_of([0.5697, 0.01219]), decimals_of([1e9])
    (2, 4, None)
    """
    sizes = [abs(value) for value in values if value]
    if not sizes or not 1e-4 <= max(sizes) < 10**_MOST_DIGITS:
        return None
    largest, smallest = (floor(log10(size)) for size in (max(sizes), min(sizes)))
    wanted = max(_OF_LARGEST - 1 - largest, _OF_SMALLEST - 1 - smallest)
    return max(min(wanted, _MOST_DIGITS - 1 - max(largest, 0)), 0)


def axis_number(value: float) -> str:
    """A number beside an axis: up to six digits, with a short exponent.

    Examples
    --------
    >>> axis_number(0.1 + 0.2), axis_number(-0.0), axis_number(2.5e12), axis_number(30000000)
    ('0.3', '0', '2.5e12', '3e7')
    """
    digits, _, exponent = f"{value + 0.0:.6g}".partition("e")
    return (f"{digits}e{int(exponent)}" if exponent else digits).replace("-", _MINUS)


def share(value: float | None) -> str:
    """A share as a percentage; of a tiny one, what it is less than.

    Examples
    --------
    >>> share(0.9312).split(), share(-1e-16).split(), share(2e-5).split()
    (['93.1', '%'], ['0.0', '%'], ['<', '0.1', '%'])
    """
    if value is not None and _ROUNDING < value < _TINY_SHARE:
        return _percent(f"<{_FIXED_SPACE}0.1")
    # Adding zero leaves no minus zero.
    return _DASH if value is None else _percent(f"{round(100 * value, 1) + 0.0:.1f}")


def percent(level: float) -> str:
    """A level of confidence, with as few digits as it has.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95 %', '99.5 %')
    """
    return f"{100 * level:.6g} %"


def change(value: float | None) -> str:
    """A relative change with its sign; of a tiny one, what it is nearer to zero than.

    Examples
    --------
    >>> change(0.00312).split(), change(-0.25).split()[1:], change(0.0).split()
    (['+0.31', '%'], ['%'], ['0', '%'])
    >>> change(2e-5).split()
    ['<', '0.01', '%']
    """
    if value is None or abs(value) < _ROUNDING:
        return _DASH if value is None else _percent("0")
    return relative(value) if abs(value) < _TINY else ("+" if value > 0 else "") + relative(value)


def relative(value: float | None) -> str:
    """A share of something else as a percentage of about three digits.

    Examples
    --------
    >>> relative(0.0123).split(), relative(4.0871).split(), relative(1e-6).split()
    (['1.23', '%'], ['409', '%'], ['<', '0.01', '%'])
    """
    if value is None or abs(value) < _ROUNDING:
        return _DASH if value is None else _percent("0")
    if abs(value) < _TINY:
        return _percent(f"{'<' if value > 0 else '>'}{_FIXED_SPACE}{'' if value > 0 else '-'}0.01")
    size = abs(100 * value)
    return _percent(f"{100 * value:,.{2 if size < 10 else 1 if size < 100 else 0}f}")


def interval(low: float | None, high: float | None, decimals: int | None = None) -> str:
    """Both ends; empty where there is no interval.

    Examples
    --------
    >>> interval(1.25, 1.75).split(), interval(None, None)
    (['1.25', 'to', '1.75'], '')
    """
    return number_with_interval(None, low, high, decimals)[1]


def number_with_interval(
    value: float | None, low: float | None, high: float | None, decimals: int | None = None
) -> tuple[str, str]:
    r"""Return a figure and its interval, with as many digits as show the width of the interval.

    Examples
    --------
    >>> number_with_interval(2.836762059, 2.836762041, 2.836762077)[0]
    '2.836762059'
    >>> number_with_interval(2.773, 2.437, 3.11, 1), number_with_interval(2.773, None, None)
    (('2.8', '2.4 to\xa03.1'), ('2.773', ''))
    """
    if low is None or high is None:
        return number(value, decimals), ""
    digits = _digits_of(low, high)
    # Decimals of a column that would hide the width of this interval are not enough for it.
    if digits > _FEWEST_DIGITS and not _shows(decimals, high - low):
        decimals = None
    ends = f"{number(low, decimals, digits)} to{_FIXED_SPACE}{number(high, decimals, digits)}"
    return number(value, decimals, digits), ends


def _digits_of(low: float, high: float) -> int:
    """Significant digits that show two digits of the width of an interval."""
    size, width = max(abs(low), abs(high)), high - low
    if not 0 < width < size:
        return _FEWEST_DIGITS
    needed = floor(log10(size)) - floor(log10(width)) + 2
    return min(max(needed, _FEWEST_DIGITS), _DIGITS_OF_FLOAT)


def _shows(decimals: int | None, width: float) -> bool:
    """Whether so many decimals show two digits of a width."""
    return decimals is not None and width >= 10.0 ** (1 - decimals)


def whole(value: int) -> str:
    """A whole number with thousands apart.

    Examples
    --------
    >>> whole(1234567), whole(12)
    ('1,234,567', '12')
    """
    return f"{value:,}"


def count(value: int, one: str, many: str = "") -> str:
    """How many there are.

    Examples
    --------
    >>> count(1, "group").split(), count(2, "match", "matches").split()
    (['1', 'group'], ['2', 'matches'])
    """
    return f"{whole(value)}{_FIXED_SPACE}{one if value == 1 else many or one + 's'}"


# Characters of a cell that messages show: enough to find it, and no more of anybody's data.
_MOST_OF_A_CELL = 40
# Names of groups and columns may be sentences.
_MOST_OF_A_LABEL = 120
# What another package says of a file, without a copy of its contents.
_MOST_OF_A_REASON = 200
_ROW = re.compile(r"row (\d+) \(index (\d+)\)")
_BETWEEN_CELLS = re.compile(r"[,;|\t\r\n]")
_QUOTED = re.compile(r"'[^']*'")
# Arrow ends what it says of a row with the row.
_ROW_THAT_FOLLOWS = re.compile(r"(got \d+):.*")


def quoted_cell(cell: Any) -> str:
    """Quote one cell of somebody's table for a message, cut where it is long.

    Examples
    --------
    >>> quoted_cell("n.a."), quoted_cell(1.5)
    ("'n.a.'", '1.5')
    >>> quoted_cell("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    return _quoted(cell, _MOST_OF_A_CELL)


def quoted_label(label: Any) -> str:
    """Quote the name of a group or a column for a message, cut where no name is so long.

    Examples
    --------
    >>> quoted_label("Amer-Indian-Eskimo"), quoted_label(("a", 1))
    ("'Amer-Indian-Eskimo'", "('a', 1)")
    """
    return _quoted(label, _MOST_OF_A_LABEL)


def _quoted(value: Any, most: int) -> str:
    if isinstance(value, tuple):
        parts = [_quoted(part, most) for part in value]
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if not isinstance(value, str):
        return repr(value)
    # After an unclosed quote, other cells follow, and other rows.
    start = _BETWEEN_CELLS.split(value.lstrip("\r\n"))[0] if "\n" in value else value
    is_whole = start == value and len(value) <= most
    return repr(value if is_whole else f"{start[:most]}...")


def shown_reason(error: BaseException) -> str:
    """Return what another package says went wrong, in one line, without rows of a table.

    Examples
    --------
    >>> shown_reason(ValueError("CSV parse error: Expected 2 columns, got 3: Ann,1,2"))
    'CSV parse error: Expected 2 columns, got 3'
    """
    reason = _ROW_THAT_FOLLOWS.sub(r"\1", " ".join(str(error).split()))
    reason = _QUOTED.sub(lambda match: quoted_cell(match[0][1:-1]), reason)
    if len(reason) > _MOST_OF_A_REASON:
        return f"{reason[:_MOST_OF_A_REASON]}..."
    return reason


def counted(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun, in ASCII: for messages and representations.

    Examples
    --------
    >>> counted(1, "group"), counted(0, "row"), counted(2000, "vertex", "vertices")
    ('1 group', '0 rows', '2,000 vertices')
    """
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def position(what: str, index: int) -> str:
    """A row or a column, as people count it and as programs index it.

    Examples
    --------
    >>> position("row", 3)
    'row 4 (index 3)'
    """
    return f"{what} {index + 1} (index {index})"


def with_row_names(text: str, name_of: Callable[[int], str | None]) -> str:
    """Name the rows in a message by what users see, such as lines of a file or labels of an index.

    Parameters
    ----------
    text : str
        With rows as :func:`position` writes them.
    name_of : callable
        The name of a row by its position, counted from 0; None to leave it as it is.

    Examples
    --------
    >>> with_row_names("NaN in row 3 (index 2)", lambda index: f"line {index + 2}")
    'NaN in line 4'
    """

    def renamed(found: re.Match[str]) -> str:
        index = int(found[2])
        # A row that has a name already may have a number for it.
        is_plain = int(found[1]) == index + 1
        return (name_of(index) if is_plain else None) or found[0]

    return _ROW.sub(renamed, text)


def loading(value: float) -> str:
    r"""An entry of a component, as page.js shows it.

    Examples
    --------
    >>> loading(0.5), ascii(loading(-0.25))
    ('0.50', "'\\u22120.25'")
    """
    # Adding zero leaves no minus zero.
    return f"{round(value, 2) + 0.0:.2f}".replace("-", _MINUS)


def in_ascii(text: str) -> str:
    """The same spelling for a terminal or a message, with words for the sign of what is tiny.

    Examples
    --------
    >>> in_ascii(share(2e-5)), in_ascii(change(-0.25)), in_ascii(count(1234, "row"))
    ('less than 0.1 %', '-25.0 %', '1,234 rows')
    >>> in_ascii(number(-1234567.0)), in_ascii(number(3.2e-9))
    ('-1.235e6', '3.2e-9')
    """
    lowered = str.maketrans(_RAISED, _DIGITS)
    text = _POWER.sub(lambda found: f"e{found[1].translate(lowered)}", text)
    for sign, plain in _IN_ASCII:
        text = text.replace(sign, plain)
    return text


def figure(value: float | None, decimals: int | None = None) -> str:
    """A number as terminals and messages have it.

    Examples
    --------
    >>> figure(13.94617), figure(1234567.0), figure(None)
    ('13.95', '1.235e6', '-')
    """
    return in_ascii(number(value, decimals))


def _power(found: re.Match[str]) -> str:
    raised = str(int(found[1])).translate(str.maketrans(_DIGITS, _RAISED))
    return f"{_FIXED_SPACE}{_TIMES}{_FIXED_SPACE}10{raised}"


def _percent(text: str) -> str:
    return text.replace("-", _MINUS) + f"{_FIXED_SPACE}%"


# Text is wrapped here, and earlier on a narrower terminal.
WIDTH = 80
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
    return len(text) if text.isascii() else sum(map(_columns, text))


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A paragraph in lines of at most `width` columns; all but the first are indented.

    Examples
    --------
    >>> wrapped("FS102 a single row", 12, "  ")
    ['FS102 a', '  single row']
    """
    text = text.replace(" %", f"{_BOUND}%")
    spread = "".join(char + _SECOND_HALF * (_columns(char) - 1) for char in text)
    lines = wrap(spread, width, subsequent_indent=indent, break_on_hyphens=False)
    if any(line.lstrip().startswith(_SECOND_HALF) for line in lines):
        # A line ended inside a wide character, and takes one column more than it should.
        lines = wrap(spread, width - 1, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_SECOND_HALF, "").replace(_BOUND, " ") for line in lines]


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
        return WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it has no size to tell, or is a terminal in name only
        return WIDTH
    return min(columns, WIDTH) if columns > 0 else WIDTH


# Letters of a name in a figure, and on a page.
_LONGEST, _LONGEST_ON_PAGE = 26, 100
# Texts that one sentence lists.
_MOST_LISTED = 12
_BREAKS = re.compile(r"(?<=[_/])(?![_/])|(?<==)(?=[^\W\d])")
_NAMELESS = "(no name)"


def label_of(name: str, longest: int = _LONGEST, tail: int = 0) -> str:
    r"""A name that fits, and that matplotlib takes as text and nothing else.

    Parameters
    ----------
    name : str
    longest : int
        In letters; East Asian wide characters take two.
    tail : int
        Letters at the end that are kept where a name is cut.

    Returns
    -------
    str

    Examples
    --------
    >>> label_of("university or above, not married")
    'university or above, not …'
    >>> print(label_of("$x"))
    \$x
    """
    text = "".join(char if char.isprintable() else "?" for char in name) or _NAMELESS
    # A dollar sign begins a formula.
    return shortened(text, longest, tail).replace("$", r"\$")


def labels_of(names: Sequence[str], longest: int = _LONGEST) -> list[str]:
    """Names that fit and still differ.

    They are cut at the end; if that makes two of them equal, in the middle; if that does as well,
    they are numbered.

    Examples
    --------
    >>> labels_of(["a long name", "a long one"], 7)
    ['a l…ame', 'a l…one']
    >>> labels_of(["a long name here", "a long and here"], 7)
    ['a lo… 1', 'a lo… 2']
    """
    n_different = len(set(names))
    for tail in (0, (longest - 1) // 2):
        labels = [label_of(name, longest, tail) for name in names]
        if len(set(labels)) == n_different:
            return labels
    room = longest - len(str(len(names))) - 1
    return [
        label if labels.count(label) == 1 else f"{label_of(name, room)} {i + 1}"
        for i, (label, name) in enumerate(zip(labels, names, strict=True))
    ]


def spoken(name: str) -> str:
    """A criterion's or model's name in running text.

    Examples
    --------
    >>> spoken("minimax_loss")
    'minimax loss'
    """
    return name.replace("_", " ").replace("nash", "Nash")


def called(name: str) -> str:
    """A name from the data, without its middle if it is very long; or the text for a missing name.

    Examples
    --------
    >>> called("old"), called(" "), len(called("x" * 10_000))
    ('old', '(no name)', 100)
    """
    return shortened(name, _LONGEST_ON_PAGE, 30) if name.strip() else _NAMELESS


def parts(name: str) -> list[str]:
    """A name in the parts after which it may be broken: underscores, slashes, and what is equal.

    Examples
    --------
    >>> parts("a_b/c"), parts("status=Never-married"), parts("radius=0.15")
    (['a_', 'b/', 'c'], ['status=', 'Never-married'], ['radius=0.15'])
    """
    return [part for part in _BREAKS.split(name) if part]


def sharers(names: Sequence[str], positions: Sequence[int]) -> str:
    """The first of those that share a figure, and how many more do.

    Examples
    --------
    >>> sharers(["a", "b", "c"], [1]), sharers(["a", "b", "c"], [0, 1, 2])
    ('b', 'a and 2 more')
    """
    others = len(positions) - 1
    return names[positions[0]] + (f" and {whole(others)} more" if others else "")


def settings(values: Mapping[str, Any]) -> str:
    """Parameters in a row.

    Examples
    --------
    >>> settings({"penalty": 0.5, "norm": "l1"})
    'penalty=0.5, norm=l1'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())


def first_of(texts: Sequence[str], most: int = _MOST_LISTED) -> str:
    """Texts in a row, without those beyond a dozen; `Finding.groups` has all of them."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
