"""Formatting of numbers and names, and terminal text.

Numbers have four significant digits and spelled-out powers of ten; all percentages have one style,
and the numbers of a column have the same number of decimals. Pages, plots and terminals share these
formats; :func:`to_ascii` converts them to ASCII. On a terminal, East Asian wide characters take two
columns and combining marks none, so `len` is not enough.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, log10
from textwrap import wrap
from typing import Any, Literal, TextIO

_MINUS = "\u2212"
_TIMES = "\u00d7"
_DASH = "\u2013"
_NBSP = "\u00a0"
_DIGITS = "-0123456789"
_SUPERSCRIPTS = "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
_ASCII_REPLACEMENTS = (
    (f">{_NBSP}{_MINUS}", "less than -"),
    ("<", "less than"),
    (_MINUS, "-"),
    (_DASH, "-"),
    (_NBSP, " "),
)
# Ratios below this are rounding errors, and are shown as zero.
_ZERO_TOL = 1e-9
# Smaller ratios and shares would round to zero, and are shown as "< 0.01 %" and "< 0.1 %".
_MIN_RELATIVE = 5e-5
_MIN_SHARE = 5e-4
_EXPONENT = re.compile(r"e([+-]\d+)$")
_POWER = re.compile(f"{_NBSP}{_TIMES}{_NBSP}10([{_SUPERSCRIPTS}]+)")
# Significant digits of a number without an interval.
_MIN_DIGITS = 4
# Significant digits of a number with a narrow interval, at most: others are rounding errors.
_MAX_INTERVAL_DIGITS = 12
# Significant digits of the largest and of the smallest number of a column.
_DIGITS_OF_LARGEST = 4
_DIGITS_OF_SMALLEST = 3
# Digits of a number of a column in total, at most: longer ones are hard to compare.
_MAX_DIGITS = 7


def format_number(
    value: float | None, decimals: int | None = None, digits: int = _MIN_DIGITS
) -> str:
    r"""Format a number with four significant digits, or the decimals of its column.

    None becomes a dash; spaces are non-breaking. A number that would show fewer than two digits
    with these decimals gets its own format.

    Examples
    --------
    >>> format_number(13.94617), format_number(0.0), format_number(0.00021)
    ('13.95', '0', '0.00021')
    >>> format_number(13.94617, 3), format_number(0.0012, 3)
    ('13.946', '0.0012')
    >>> ascii(format_number(1234567.0)), ascii(format_number(None))
    ("'1.235\\xa0\\xd7\\xa010\\u2076'", "'\\u2013'")
    """
    if value is None:
        return _DASH
    is_representable = decimals is not None and abs(value) >= 10.0 ** (1 - decimals)
    text = f"{value:.{decimals}f}" if is_representable else f"{value:.{digits}g}"
    return _EXPONENT.sub(_format_power, text).replace("-", _MINUS)


def common_decimals(values: Iterable[float | None]) -> int | None:
    """Return the common number of decimals of a column; None if its magnitudes rule one out.

    They are too large, too small or too different. The largest gets four digits and the smallest
    three, within seven digits in total.

    Examples
    --------
    >>> common_decimals([154.8, 7.936, 0.0, None]), common_decimals([0.5697, 0.01219])
    (2, 4)
    >>> common_decimals([1e9]) is None
    True
    """
    sizes = [abs(value) for value in values if value]
    if not sizes or not 1e-4 <= max(sizes) < 10**_MAX_DIGITS:
        return None
    largest = floor(log10(max(sizes)))
    smallest = floor(log10(min(sizes)))
    wanted = max(_DIGITS_OF_LARGEST - 1 - largest, _DIGITS_OF_SMALLEST - 1 - smallest)
    max_decimals = _MAX_DIGITS - 1 - max(largest, 0)
    return max(min(wanted, max_decimals), 0)


def format_tick(value: float) -> str:
    """Format an axis tick: up to six digits, with a short exponent.

    Examples
    --------
    >>> format_tick(0.1 + 0.2), format_tick(-0.0), format_tick(2.5e12), format_tick(30000000)
    ('0.3', '0', '2.5e12', '3e7')
    """
    # Adding zero avoids "-0".
    digits, _, exponent = f"{value + 0.0:.6g}".partition("e")
    text = f"{digits}e{int(exponent)}" if exponent else digits
    return text.replace("-", _MINUS)


def format_share(value: float | None) -> str:
    """Format a share as a percentage; tiny positive shares as "< 0.1 %".

    Examples
    --------
    >>> format_share(0.9312).split(), format_share(-1e-16).split(), format_share(2e-5).split()
    (['93.1', '%'], ['0.0', '%'], ['<', '0.1', '%'])
    """
    if value is None:
        return _DASH
    if _ZERO_TOL < value < _MIN_SHARE:
        return _with_percent_sign(f"<{_NBSP}0.1")
    # Adding zero avoids "-0.0".
    return _with_percent_sign(f"{round(100 * value, 1) + 0.0:.1f}")


def format_level(level: float) -> str:
    """Format a confidence level as a percentage without trailing zeros.

    Examples
    --------
    >>> format_level(0.95), format_level(0.995)
    ('95 %', '99.5 %')
    """
    return f"{100 * level:.6g} %"


def format_change(value: float | None) -> str:
    """Format a signed relative change as a percentage; tiny ones as "< 0.01 %" or "> -0.01 %".

    Examples
    --------
    >>> format_change(0.00312).split(), format_change(-0.25).split()[1:], format_change(0.0).split()
    (['+0.31', '%'], ['%'], ['0', '%'])
    >>> format_change(2e-5).split()
    ['<', '0.01', '%']
    """
    text = format_relative(value)
    is_positive = value is not None and value >= _MIN_RELATIVE
    return f"+{text}" if is_positive else text


def format_relative(value: float | None) -> str:
    """Format a ratio as a percentage with about three digits.

    Examples
    --------
    >>> format_relative(0.0123).split(), format_relative(4.0871).split()
    (['1.23', '%'], ['409', '%'])
    >>> format_relative(1e-6).split()
    ['<', '0.01', '%']
    """
    if value is None:
        return _DASH
    if abs(value) < _ZERO_TOL:
        return _with_percent_sign("0")
    if abs(value) < _MIN_RELATIVE:
        limit = f"<{_NBSP}0.01" if value > 0 else f">{_NBSP}-0.01"
        return _with_percent_sign(limit)
    percentage = 100 * value
    if abs(percentage) < 10:
        decimals = 2
    elif abs(percentage) < 100:
        decimals = 1
    else:
        decimals = 0
    return _with_percent_sign(f"{percentage:,.{decimals}f}")


def format_interval(low: float | None, high: float | None, decimals: int | None = None) -> str:
    """Format an interval; empty if there is none.

    Examples
    --------
    >>> format_interval(1.25, 1.75).split(), format_interval(None, None)
    (['1.25', 'to', '1.75'], '')
    """
    return number_with_interval(None, low, high, decimals)[1]


def number_with_interval(
    value: float | None, low: float | None, high: float | None, decimals: int | None = None
) -> tuple[str, str]:
    r"""Format a number and its interval, with enough digits to show the width of the interval.

    Examples
    --------
    >>> number_with_interval(2.836762059, 2.836762041, 2.836762077)[0]
    '2.836762059'
    >>> number_with_interval(2.773, 2.437, 3.11, 1), number_with_interval(2.773, None, None)
    (('2.8', '2.4 to\xa03.1'), ('2.773', ''))
    """
    if low is None or high is None:
        return format_number(value, decimals), ""
    digits = _interval_digits(low, high)
    # The decimals of the column may be too few to show the width of this interval.
    if digits > _MIN_DIGITS and not _shows(decimals, high - low):
        decimals = None
    low_text = format_number(low, decimals, digits)
    high_text = format_number(high, decimals, digits)
    return format_number(value, decimals, digits), f"{low_text} to{_NBSP}{high_text}"


def _interval_digits(low: float, high: float) -> int:
    """Return the number of significant digits that shows two digits of an interval's width."""
    size = max(abs(low), abs(high))
    width = high - low
    if not 0 < width < size:
        return _MIN_DIGITS
    needed = floor(log10(size)) - floor(log10(width)) + 2
    return min(max(needed, _MIN_DIGITS), _MAX_INTERVAL_DIGITS)


def _shows(decimals: int | None, width: float) -> bool:
    """Return whether this number of decimals shows two digits of a width."""
    return decimals is not None and width >= 10.0 ** (1 - decimals)


def format_integer(value: int) -> str:
    """Format an integer with thousands separators.

    Examples
    --------
    >>> format_integer(1234567), format_integer(12)
    ('1,234,567', '12')
    """
    return f"{value:,}"


def format_count(value: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun in singular or plural.

    Examples
    --------
    >>> format_count(1, "group").split(), format_count(2, "match", "matches").split()
    (['1', 'group'], ['2', 'matches'])
    """
    return f"{format_integer(value)}{_NBSP}{_noun_form(value, singular, plural)}"


def _noun_form(value: int, singular: str, plural: str) -> str:
    if value == 1:
        return singular
    return plural or f"{singular}s"


# Characters of a cell shown in messages, at most: enough to find it, and no more of the data.
_MAX_CELL_LENGTH = 40
# Characters of a name shown in messages, at most: names of groups and columns may be sentences.
_MAX_LABEL_LENGTH = 120
# Characters of a message of another package, at most: it may include the contents of a file.
_MAX_REASON_LENGTH = 200
_ROW = re.compile(r"row (\d+) \(index (\d+)\)")
_BETWEEN_CELLS = re.compile(r"[,;|\t\r\n]")
_QUOTED = re.compile(r"'[^']*'")
# The row at the end of an error message of Arrow.
_TRAILING_ROW = re.compile(r"(got \d+):.*")


def quoted_cell(cell: Any) -> str:
    """Quote a cell for a message, truncated if it is long.

    Examples
    --------
    >>> quoted_cell("n.a."), quoted_cell(1.5)
    ("'n.a.'", '1.5')
    >>> quoted_cell("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    return _quoted(cell, _MAX_CELL_LENGTH)


def quoted_label(label: Any) -> str:
    """Quote the name of a group or a column for a message, truncated if it is very long.

    Examples
    --------
    >>> quoted_label("Amer-Indian-Eskimo"), quoted_label(("a", 1))
    ("'Amer-Indian-Eskimo'", "('a', 1)")
    """
    return _quoted(label, _MAX_LABEL_LENGTH)


def _quoted(value: Any, max_length: int) -> str:
    if isinstance(value, tuple):
        parts = [_quoted(part, max_length) for part in value]
        if len(parts) == 1:
            return f"({parts[0]},)"
        return f"({', '.join(parts)})"
    if not isinstance(value, str):
        return repr(value)
    start = value
    if "\n" in value:
        # Other cells and rows follow after an unclosed quote.
        start = _BETWEEN_CELLS.split(value.lstrip("\r\n"))[0]
    if start == value and len(value) <= max_length:
        return repr(value)
    return repr(f"{start[:max_length]}...")


def shown_reason(error: BaseException) -> str:
    """Format an error of another package in one line, without rows of a table.

    Examples
    --------
    >>> shown_reason(ValueError("CSV parse error: Expected 2 columns, got 3: Ann,1,2"))
    'CSV parse error: Expected 2 columns, got 3'
    """
    reason = _TRAILING_ROW.sub(r"\1", " ".join(str(error).split()))
    reason = _QUOTED.sub(lambda match: quoted_cell(match[0][1:-1]), reason)
    if len(reason) > _MAX_REASON_LENGTH:
        return f"{reason[:_MAX_REASON_LENGTH]}..."
    return reason


def counted(value: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun in ASCII, for messages and representations.

    Examples
    --------
    >>> counted(1, "group"), counted(0, "row"), counted(2000, "vertex", "vertices")
    ('1 group', '0 rows', '2,000 vertices')
    """
    return f"{value:,} {_noun_form(value, singular, plural)}"


def describe_position(noun: str, index: int) -> str:
    """Describe a row or column by its 1-based number and 0-based index.

    Examples
    --------
    >>> describe_position("row", 3)
    'row 4 (index 3)'
    """
    return f"{noun} {index + 1} (index {index})"


def with_row_names(text: str, name_of: Callable[[int], str | None]) -> str:
    """Replace row numbers in a message by names, such as lines of a file or index labels.

    Parameters
    ----------
    text : str
        With rows in the format of :func:`describe_position`.
    name_of : callable
        Returns the name of a row by its 0-based index; None to keep its number.

    Examples
    --------
    >>> with_row_names("NaN in row 3 (index 2)", lambda index: f"line {index + 2}")
    'NaN in line 4'
    """

    def rename(match: re.Match[str]) -> str:
        index = int(match[2])
        # A name that is a number, from an earlier replacement, is kept.
        is_position = int(match[1]) == index + 1
        name = name_of(index) if is_position else None
        return name or match[0]

    return _ROW.sub(rename, text)


def format_loading(value: float) -> str:
    r"""Format a loading, as page.js does.

    Examples
    --------
    >>> format_loading(0.5), ascii(format_loading(-0.25))
    ('0.50', "'\\u22120.25'")
    """
    # Adding zero avoids "-0.00".
    return f"{round(value, 2) + 0.0:.2f}".replace("-", _MINUS)


def to_ascii(text: str) -> str:
    """Convert formatted text to ASCII, with words for "<" and ">".

    Examples
    --------
    >>> to_ascii(format_share(2e-5)), to_ascii(format_change(-0.25))
    ('less than 0.1 %', '-25.0 %')
    >>> to_ascii(format_number(-1234567.0)), to_ascii(format_number(3.2e-9))
    ('-1.235e6', '3.2e-9')
    """
    to_digits = str.maketrans(_SUPERSCRIPTS, _DIGITS)
    text = _POWER.sub(lambda match: f"e{match[1].translate(to_digits)}", text)
    for symbol, replacement in _ASCII_REPLACEMENTS:
        text = text.replace(symbol, replacement)
    return text


def format_ascii_number(value: float | None, decimals: int | None = None) -> str:
    """Format a number in ASCII, for terminals and messages.

    Examples
    --------
    >>> format_ascii_number(13.94617), format_ascii_number(1234567.0), format_ascii_number(None)
    ('13.95', '1.235e6', '-')
    """
    return to_ascii(format_number(value, decimals))


def _format_power(match: re.Match[str]) -> str:
    exponent = str(int(match[1])).translate(str.maketrans(_DIGITS, _SUPERSCRIPTS))
    return f"{_NBSP}{_TIMES}{_NBSP}10{exponent}"


def _with_percent_sign(text: str) -> str:
    return text.replace("-", _MINUS) + f"{_NBSP}%"


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


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap a paragraph to lines of at most `width` columns, with a hanging indent.

    Examples
    --------
    >>> wrap_text("FS102 a single row", 12, "  ")
    ['FS102 a', '  single row']
    """
    text = text.replace(" %", f"{_NBSP_PLACEHOLDER}%")
    filled = "".join(char + _WIDE_FILLER * (_char_width(char) - 1) for char in text)
    lines = wrap(filled, width, subsequent_indent=indent, break_on_hyphens=False)
    if any(line.lstrip().startswith(_WIDE_FILLER) for line in lines):
        # A line was broken inside a wide character and is one column too wide.
        lines = wrap(filled, width - 1, subsequent_indent=indent, break_on_hyphens=False)
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


# Maximum width of a name in a plot, in characters.
_MAX_PLOT_LABEL = 26
# Maximum width of a name on a page, in characters.
_MAX_PAGE_NAME = 100
# Characters of its end that a shortened name on a page keeps.
_PAGE_NAME_TAIL = 30
# Maximum number of items listed in a sentence.
_MAX_LISTED = 12
_BREAK_POINTS = re.compile(r"(?<=[_/])(?![_/])|(?<==)(?=[^\W\d])")
_NO_NAME = "(no name)"


def plot_label(name: str, max_width: int = _MAX_PLOT_LABEL, n_tail_characters: int = 0) -> str:
    r"""Shorten a name for a plot and escape it for matplotlib.

    Parameters
    ----------
    name : str
    max_width : int
        Maximum width; wide characters count twice.
    n_tail_characters : int
        Characters kept at the end of a shortened name.

    Returns
    -------
    str

    Examples
    --------
    >>> plot_label("university or above, not married")
    'university or above, not …'
    >>> print(plot_label("$x"))
    \$x
    """
    text = "".join(char if char.isprintable() else "?" for char in name) or _NO_NAME
    # "$" starts mathtext.
    return shorten(text, max_width, n_tail_characters).replace("$", r"\$")


def plot_labels(names: Sequence[str], max_width: int = _MAX_PLOT_LABEL) -> list[str]:
    """Shorten names for a plot while keeping them distinct.

    They are shortened at the end, else in the middle, else at the end with numbers.

    Examples
    --------
    >>> plot_labels(["a long name", "a long one"], 7)
    ['a l…ame', 'a l…one']
    >>> plot_labels(["a long name here", "a long and here"], 7)
    ['a lo… 1', 'a lo… 2']
    """
    n_distinct = len(set(names))
    for tail in (0, (max_width - 1) // 2):
        labels = [plot_label(name, max_width, tail) for name in names]
        if len(set(labels)) == n_distinct:
            return labels
    max_prefix = max_width - len(str(len(names))) - 1
    return [
        label if labels.count(label) == 1 else f"{plot_label(name, max_prefix)} {i + 1}"
        for i, (label, name) in enumerate(zip(labels, names, strict=True))
    ]


def readable_name(name: str) -> str:
    """Format the name of a criterion or model for running text.

    Examples
    --------
    >>> readable_name("minimax_loss")
    'minimax loss'
    """
    return name.replace("_", " ").replace("nash", "Nash")


def display_name(name: str) -> str:
    """Format a name from the data.

    Very long names are shortened in the middle, blank ones replaced.

    Examples
    --------
    >>> display_name("old"), display_name(" "), len(display_name("x" * 10_000))
    ('old', '(no name)', 100)
    """
    if not name.strip():
        return _NO_NAME
    return shorten(name, _MAX_PAGE_NAME, _PAGE_NAME_TAIL)


def breakable_parts(name: str) -> list[str]:
    """Split a name at its line-break opportunities: after underscores, slashes and equals signs.

    Examples
    --------
    >>> breakable_parts("a_b/c"), breakable_parts("status=Never-married")
    (['a_', 'b/', 'c'], ['status=', 'Never-married'])
    >>> breakable_parts("radius=0.15")
    ['radius=0.15']
    """
    return [part for part in _BREAK_POINTS.split(name) if part]


def describe_tied(names: Sequence[str], positions: Sequence[int]) -> str:
    """Describe tied items: the first name and the number of others.

    Examples
    --------
    >>> describe_tied(["a", "b", "c"], [1]), describe_tied(["a", "b", "c"], [0, 1, 2])
    ('b', 'a and 2 more')
    """
    first = names[positions[0]]
    n_others = len(positions) - 1
    return f"{first} and {format_integer(n_others)} more" if n_others else first


def format_parameters(values: Mapping[str, Any]) -> str:
    """Format parameters as "name=value, ...".

    Examples
    --------
    >>> format_parameters({"penalty": 0.5, "norm": "l1"})
    'penalty=0.5, norm=l1'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())


def join_truncated(texts: Sequence[str], max_items: int = _MAX_LISTED) -> str:
    """Join texts with commas, truncated to `max_items`."""
    joined = ", ".join(texts[:max_items])
    n_more = len(texts) - max_items
    return f"{joined} and {n_more} more" if n_more > 0 else joined
