"""How numbers and names are spelled, and text for a terminal.

Numbers have four digits, powers of ten written out, and one per-cent style; the figures of a column
have as many decimals as one another. The page, the figures and the terminal use these spellings;
:func:`to_ascii` writes them with the characters that every terminal has. On a terminal East Asian
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

_MINUS, _TIMES, _DASH, _NBSP = "\u2212", "\u00d7", "\u2013", "\u00a0"
_DIGITS, _SUPERSCRIPTS = (
    "-0123456789",
    "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079",
)
_ASCII_REPLACEMENTS = (
    (f">{_NBSP}{_MINUS}", "less than -"),
    ("<", "less than"),
    (_MINUS, "-"),
    (_DASH, "-"),
    (_NBSP, " "),
)
# Shares below these are rounding, and would be shown as none.
_ZERO_TOL, _MIN_RELATIVE, _MIN_SHARE = 1e-9, 5e-5, 5e-4
_EXPONENT = re.compile(r"e([+-]\d+)$")
_POWER = re.compile(f"{_NBSP}{_TIMES}{_NBSP}10([{_SUPERSCRIPTS}]+)")
# Significant digits of a figure by itself, and beside an interval of rounding alone at most.
_FEWEST_DIGITS, _DIGITS_OF_FLOAT = 4, 12
# Significant digits of the largest and the smallest figure of a column, and digits that fit.
_DIGITS_OF_LARGEST, _DIGITS_OF_SMALLEST, _MAX_DIGITS = 4, 3, 7


def format_number(
    value: float | None, decimals: int | None = None, digits: int = _FEWEST_DIGITS
) -> str:
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
    is_representable = decimals is not None and abs(value) >= 10.0 ** (1 - decimals)
    text = f"{value:.{decimals}f}" if is_representable else f"{value:.{digits}g}"
    return _EXPONENT.sub(_format_power, text).replace("-", _MINUS)


def common_decimals(values: Iterable[float | None]) -> int | None:
    """Decimals of the figures of one column; None where they are too large, small or far apart.

    The largest is shown with four digits and the smallest with three, as far as seven digits go.

    Examples
    --------
    >>> common_decimals([154.8, 7.936, 0.0, None]), common_decimals([0.5697, 0.01219]), common_decimals([1e9])
    (2, 4, None)
    """
    sizes = [abs(value) for value in values if value]
    if not sizes or not 1e-4 <= max(sizes) < 10**_MAX_DIGITS:
        return None
    largest, smallest = (floor(log10(size)) for size in (max(sizes), min(sizes)))
    wanted = max(_DIGITS_OF_LARGEST - 1 - largest, _DIGITS_OF_SMALLEST - 1 - smallest)
    return max(min(wanted, _MAX_DIGITS - 1 - max(largest, 0)), 0)


def format_tick(value: float) -> str:
    """A number beside an axis: up to six digits, with a short exponent.

    Examples
    --------
    >>> format_tick(0.1 + 0.2), format_tick(-0.0), format_tick(2.5e12), format_tick(30000000)
    ('0.3', '0', '2.5e12', '3e7')
    """
    digits, _, exponent = f"{value + 0.0:.6g}".partition("e")
    return (f"{digits}e{int(exponent)}" if exponent else digits).replace("-", _MINUS)


def format_share(value: float | None) -> str:
    """A share as a percentage; of a tiny one, what it is less than.

    Examples
    --------
    >>> share(0.9312).split(), share(-1e-16).split(), share(2e-5).split()
    (['93.1', '%'], ['0.0', '%'], ['<', '0.1', '%'])
    """
    if value is not None and _ZERO_TOL < value < _MIN_SHARE:
        return _with_percent_sign(f"<{_NBSP}0.1")
    # Adding zero leaves no minus zero.
    return _DASH if value is None else _with_percent_sign(f"{round(100 * value, 1) + 0.0:.1f}")


def format_level(level: float) -> str:
    """A level of confidence, with as few digits as it has.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95 %', '99.5 %')
    """
    return f"{100 * level:.6g} %"


def format_change(value: float | None) -> str:
    """A relative change with its sign; of a tiny one, what it is nearer to zero than.

    Examples
    --------
    >>> change(0.00312).split(), change(-0.25).split()[1:], change(0.0).split()
    (['+0.31', '%'], ['%'], ['0', '%'])
    >>> change(2e-5).split()
    ['<', '0.01', '%']
    """
    if value is None or abs(value) < _ZERO_TOL:
        return _DASH if value is None else _with_percent_sign("0")
    return (
        format_relative(value)
        if abs(value) < _MIN_RELATIVE
        else ("+" if value > 0 else "") + format_relative(value)
    )


def format_relative(value: float | None) -> str:
    """A share of something else as a percentage of about three digits.

    Examples
    --------
    >>> relative(0.0123).split(), relative(4.0871).split(), relative(1e-6).split()
    (['1.23', '%'], ['409', '%'], ['<', '0.01', '%'])
    """
    if value is None or abs(value) < _ZERO_TOL:
        return _DASH if value is None else _with_percent_sign("0")
    if abs(value) < _MIN_RELATIVE:
        return _with_percent_sign(
            f"{'<' if value > 0 else '>'}{_NBSP}{'' if value > 0 else '-'}0.01"
        )
    size = abs(100 * value)
    return _with_percent_sign(f"{100 * value:,.{2 if size < 10 else 1 if size < 100 else 0}f}")


def format_interval(low: float | None, high: float | None, decimals: int | None = None) -> str:
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
        return format_number(value, decimals), ""
    digits = _digits_of(low, high)
    # Decimals of a column that would hide the width of this interval are not enough for it.
    if digits > _FEWEST_DIGITS and not _shows(decimals, high - low):
        decimals = None
    ends = (
        f"{format_number(low, decimals, digits)} to{_NBSP}{format_number(high, decimals, digits)}"
    )
    return format_number(value, decimals, digits), ends


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


def format_integer(value: int) -> str:
    """A whole number with thousands apart.

    Examples
    --------
    >>> whole(1234567), whole(12)
    ('1,234,567', '12')
    """
    return f"{value:,}"


def format_count(value: int, singular: str, plural: str = "") -> str:
    """How many there are.

    Examples
    --------
    >>> count(1, "group").split(), count(2, "match", "matches").split()
    (['1', 'group'], ['2', 'matches'])
    """
    return f"{format_integer(value)}{_NBSP}{singular if value == 1 else plural or singular + 's'}"


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


def describe_position(what: str, index: int) -> str:
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


def format_loading(value: float) -> str:
    r"""An entry of a component, as page.js shows it.

    Examples
    --------
    >>> loading(0.5), ascii(loading(-0.25))
    ('0.50', "'\\u22120.25'")
    """
    # Adding zero leaves no minus zero.
    return f"{round(value, 2) + 0.0:.2f}".replace("-", _MINUS)


def to_ascii(text: str) -> str:
    """The same spelling for a terminal or a message, with words for the sign of what is tiny.

    Examples
    --------
    >>> to_ascii(share(2e-5)), to_ascii(change(-0.25)), to_ascii(count(1234, "row"))
    ('less than 0.1 %', '-25.0 %', '1,234 rows')
    >>> to_ascii(number(-1234567.0)), to_ascii(number(3.2e-9))
    ('-1.235e6', '3.2e-9')
    """
    lowered = str.maketrans(_SUPERSCRIPTS, _DIGITS)
    text = _POWER.sub(lambda found: f"e{found[1].translate(lowered)}", text)
    for sign, plain in _ASCII_REPLACEMENTS:
        text = text.replace(sign, plain)
    return text


def format_ascii_number(value: float | None, decimals: int | None = None) -> str:
    """A number as terminals and messages have it.

    Examples
    --------
    >>> figure(13.94617), figure(1234567.0), figure(None)
    ('13.95', '1.235e6', '-')
    """
    return to_ascii(format_number(value, decimals))


def _format_power(found: re.Match[str]) -> str:
    raised = str(int(found[1])).translate(str.maketrans(_DIGITS, _SUPERSCRIPTS))
    return f"{_NBSP}{_TIMES}{_NBSP}10{raised}"


def _with_percent_sign(text: str) -> str:
    return text.replace("-", _MINUS) + f"{_NBSP}%"


# Text is wrapped here, and earlier on a narrower terminal.
MAX_WIDTH = 80
# What a part of a text means, for those who colour it.
TextRole = Literal["warning", "error", "worst", "proven", "unproven"]
Styler = Callable[[str, TextRole], str]

# Stands beside a wide character while text is wrapped; names are shown without private characters.
_WIDE_FILLER = "\ue000"
# Stands for the space before a per-cent sign, where no line ends.
_NBSP_PLACEHOLDER = "\ue001"


def unstyled(text: str, role: TextRole) -> str:
    """The text without a colour.

    Examples
    --------
    >>> plain("FS101", "warning")
    'FS101'
    """
    return text


def display_width(text: str) -> int:
    """Columns that a text without line breaks takes on a terminal.

    Examples
    --------
    >>> display_width("old"), display_width("\u6771\u4eac"), display_width("e\u0301")
    (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_char_width, text))


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """A paragraph in lines of at most `width` columns; all but the first are indented.

    Examples
    --------
    >>> wrapped("FS102 a single row", 12, "  ")
    ['FS102 a', '  single row']
    """
    text = text.replace(" %", f"{_NBSP_PLACEHOLDER}%")
    spread = "".join(char + _WIDE_FILLER * (_char_width(char) - 1) for char in text)
    lines = wrap(spread, width, subsequent_indent=indent, break_on_hyphens=False)
    if any(line.lstrip().startswith(_WIDE_FILLER) for line in lines):
        # A line ended inside a wide character, and takes one column more than it should.
        lines = wrap(spread, width - 1, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_WIDE_FILLER, "").replace(_NBSP_PLACEHOLDER, " ") for line in lines]


def shorten_names(names: Sequence[str], width: int) -> list[str] | None:
    """Names of at most `width` columns, cut at the end, or in the middle to keep more distinct.

    None if names that differ would look the same either way.

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
        cut = [shorten(name, width, tail) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return None


def shorten(name: str, width: int, tail: int = 0) -> str:
    """A name of at most `width` columns, of which `tail` are its end where it is cut.

    Examples
    --------
    >>> shortened("university degree", 11), shortened("university degree", 11, 3)
    ('university…', 'univers…ree')
    """
    if display_width(name) <= width:
        return name
    end = _longest_prefix(name[::-1], tail)[::-1]
    return f"{_longest_prefix(name, width - 1 - display_width(end))}…{end}"


def _longest_prefix(name: str, width: int) -> str:
    """The longest beginning of at most `width` columns."""
    end = 0
    while end < len(name) and display_width(name[: end + 1]) <= width:
        end += 1
    return name[:end]


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def output_width(stream: TextIO) -> int:
    """Columns for text: those of the terminal, but 80 at most, and 80 where none is."""
    if not stream.isatty():
        return MAX_WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it has no size to tell, or is a terminal in name only
        return MAX_WIDTH
    return min(columns, MAX_WIDTH) if columns > 0 else MAX_WIDTH


# Letters of a name in a figure, and on a page.
_MAX_PLOT_LABEL, _MAX_PAGE_NAME = 26, 100
# Texts that one sentence lists.
_MAX_LISTED = 12
_BREAK_POINTS = re.compile(r"(?<=[_/])(?![_/])|(?<==)(?=[^\W\d])")
_NO_NAME = "(no name)"


def plot_label(name: str, max_length: int = _MAX_PLOT_LABEL, tail: int = 0) -> str:
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
    text = "".join(char if char.isprintable() else "?" for char in name) or _NO_NAME
    # A dollar sign begins a formula.
    return shorten(text, max_length, tail).replace("$", r"\$")


def plot_labels(names: Sequence[str], longest: int = _MAX_PLOT_LABEL) -> list[str]:
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
        labels = [plot_label(name, longest, tail) for name in names]
        if len(set(labels)) == n_different:
            return labels
    max_prefix = longest - len(str(len(names))) - 1
    return [
        label if labels.count(label) == 1 else f"{plot_label(name, max_prefix)} {i + 1}"
        for i, (label, name) in enumerate(zip(labels, names, strict=True))
    ]


def readable_name(name: str) -> str:
    """A criterion's or model's name in running text.

    Examples
    --------
    >>> spoken("minimax_loss")
    'minimax loss'
    """
    return name.replace("_", " ").replace("nash", "Nash")


def display_name(name: str) -> str:
    """A name from the data, without its middle if it is very long; or the text for a missing name.

    Examples
    --------
    >>> called("old"), called(" "), len(called("x" * 10_000))
    ('old', '(no name)', 100)
    """
    return shorten(name, _MAX_PAGE_NAME, 30) if name.strip() else _NO_NAME


def breakable_parts(name: str) -> list[str]:
    """A name in the parts after which it may be broken: underscores, slashes, and what is equal.

    Examples
    --------
    >>> parts("a_b/c"), parts("status=Never-married"), parts("radius=0.15")
    (['a_', 'b/', 'c'], ['status=', 'Never-married'], ['radius=0.15'])
    """
    return [part for part in _BREAK_POINTS.split(name) if part]


def describe_tied(names: Sequence[str], positions: Sequence[int]) -> str:
    """The first of those that share a figure, and how many more do.

    Examples
    --------
    >>> sharers(["a", "b", "c"], [1]), sharers(["a", "b", "c"], [0, 1, 2])
    ('b', 'a and 2 more')
    """
    others = len(positions) - 1
    return names[positions[0]] + (f" and {format_integer(others)} more" if others else "")


def format_parameters(values: Mapping[str, Any]) -> str:
    """Parameters in a row.

    Examples
    --------
    >>> settings({"penalty": 0.5, "norm": "l1"})
    'penalty=0.5, norm=l1'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())


def join_truncated(texts: Sequence[str], max_items: int = _MAX_LISTED) -> str:
    """Texts in a row, without those beyond a dozen; `Finding.groups` has all of them."""
    more = len(texts) - max_items
    return ", ".join(texts[:max_items]) + (f" and {more} more" if more > 0 else "")
