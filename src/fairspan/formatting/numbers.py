"""Numbers, percentages and counts as text.

Numbers have four significant digits and spelled-out powers of ten; all percentages have one style,
and the numbers of a column have the same number of decimals. Pages, plots and terminals share these
formats; :func:`to_ascii` converts them to ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import floor, log10
from statistics import median_high

# Typographic characters: minus sign, multiplication sign, en dash and non-breaking space.
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
# Decimals of the percentages of a column, at least and at most: more are far below any loss that
# matters.
_MIN_SHARE_DECIMALS = 1
_MAX_SHARE_DECIMALS = 2
# Changes in a share below this, in points, are shown with two decimals.
_SMALL_CHANGE = 0.5
# Decimals of a percentage that would round to the threshold that it is compared with, at most.
_MAX_DECIMALS_AT_THRESHOLD = 4
# Significant digits of a percentage that would round to zero, which show at least its sign, and the
# size in percent below which it is shown as zero nevertheless.
_SMALL_SHARE_DIGITS = 1
_MIN_SMALL_SHARE = 0.005
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
    with these decimals gets its own format, with `digits` significant digits.

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
    needed = max(_DIGITS_OF_LARGEST - 1 - largest, _DIGITS_OF_SMALLEST - 1 - smallest)
    max_decimals = _MAX_DIGITS - 1 - max(largest, 0)
    return max(min(needed, max_decimals), 0)


def format_tick(value: float) -> str:
    r"""Format an axis tick: up to six digits, with a short exponent and a typographic minus sign.

    Examples
    --------
    >>> format_tick(0.1 + 0.2), format_tick(-0.0), format_tick(2.5e12), format_tick(30000000)
    ('0.3', '0', '2.5e12', '3e7')
    >>> ascii(format_tick(-0.5))
    "'\\u22120.5'"
    """
    # Adding zero avoids "-0".
    digits, _, exponent = f"{value + 0.0:.6g}".partition("e")
    text = f"{digits}e{int(exponent)}" if exponent else digits
    return text.replace("-", _MINUS)


def format_share(value: float | None, threshold: float | None = None) -> str:
    """Format a share as a percentage; tiny positive shares as "< 0.1 %".

    A share that differs from the threshold that it is compared with is not rounded to it, but gets
    more decimals.

    Examples
    --------
    >>> format_share(0.9312).split(), format_share(-1e-16).split(), format_share(2e-5).split()
    (['93.1', '%'], ['0.0', '%'], ['<', '0.1', '%'])
    >>> format_share(0.01003, 0.01).split(), format_share(0.01003).split()
    (['1.003', '%'], ['1.0', '%'])
    """
    if value is None:
        return _DASH
    if _ZERO_TOL < value < _MIN_SHARE:
        return _with_percent_sign(f"<{_NBSP}0.1")
    decimals = _decimals_beside(threshold, value, 1)
    # Adding zero avoids "-0.0".
    return _with_percent_sign(f"{round(100 * value, decimals) + 0.0:.{decimals}f}")


def _decimals_beside(threshold: float | None, share: float, decimals: int) -> int:
    """Return the decimals, at least the given ones, at which a share is not its threshold.

    The given ones if the share is equal to the threshold up to the largest number of decimals.
    """
    if threshold is None:
        return decimals
    for n_decimals in range(decimals, _MAX_DECIMALS_AT_THRESHOLD + 1):
        if round(100 * share, n_decimals) != round(100 * threshold, n_decimals):
            return n_decimals
    return decimals


def share_decimals(intervals: Iterable[tuple[float | None, float | None]]) -> int:
    """Return the decimals of percentages that show the widths of at least half of the intervals.

    Examples
    --------
    >>> share_decimals([(0.02, 0.04), (None, None)]), share_decimals([(0.0101, 0.0105)])
    (1, 2)
    """
    widths = [
        100 * (high - low)
        for low, high in intervals
        if low is not None and high is not None and high > low
    ]
    if not widths:
        return _MIN_SHARE_DECIMALS
    needed = -floor(log10(median_high(widths)))
    return min(max(needed, _MIN_SHARE_DECIMALS), _MAX_SHARE_DECIMALS)


def share_with_interval(
    share: float | None,
    low: float | None,
    high: float | None,
    decimals: int = _MIN_SHARE_DECIMALS,
    threshold: float | None = None,
) -> tuple[str, str]:
    r"""Format a share and its interval as percentages; without an interval, its text is empty.

    None becomes a dash. A narrow interval gets as many decimals as show its width. Shares that
    would round to zero have one significant digit, and those that would round to the threshold
    that they are compared with get more decimals.

    Examples
    --------
    >>> value, interval = share_with_interval(0.0309, 0.0203, 0.0401)
    >>> value.split(), interval.split()
    (['3.1', '%'], ['2.0', 'to', '4.0', '%'])
    >>> share_with_interval(0.00012, None, None)[0].split()
    ['0.01', '%']
    """
    decimals = max(decimals, share_decimals([(low, high)]))
    text = _DASH
    if share is not None:
        text = _with_percent_sign(_format_percentage(share, decimals, threshold))
    if low is None or high is None:
        return text, ""
    limits = [_format_percentage(limit, decimals, threshold) for limit in (low, high)]
    return text, _with_percent_sign(" to ".join(limits))


def _format_percentage(share: float, decimals: int, threshold: float | None) -> str:
    """Format a share in percent with so many decimals, without the percent sign."""
    value = 100 * share
    if _MIN_SMALL_SHARE < abs(value) < 0.5 * 10.0**-decimals:
        return format_number(value, digits=_SMALL_SHARE_DIGITS)
    decimals = _decimals_beside(threshold, share, decimals)
    # Adding zero avoids "-0.0".
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def format_level(level: float) -> str:
    """Format a confidence level as a percentage without trailing zeros.

    Examples
    --------
    >>> format_level(0.95), format_level(0.995)
    ('95 %', '99.5 %')
    """
    return f"{100 * level:.6g} %"


def change_decimals(before: float, after: Iterable[float]) -> int:
    """Return the decimals of percentages next to their changes: more if a change is small.

    Examples
    --------
    >>> change_decimals(0.457, [0.46, 0.471]), change_decimals(0.457, [0.4572])
    (2, 2)
    >>> change_decimals(0.457, [0.47, 0.457])
    1
    """
    changes = [abs(100 * (share - before)) for share in after]
    is_any_small = any(_ZERO_TOL < change < _SMALL_CHANGE for change in changes)
    return _MAX_SHARE_DECIMALS if is_any_small else _MIN_SHARE_DECIMALS


def share_with_change(before: float, after: float, decimals: int) -> tuple[str, str]:
    """Format a share and its change in signed points, the difference of the shares as printed.

    A change that is too small to be printed is "about 0 points".

    Examples
    --------
    >>> [text.split() for text in share_with_change(0.4566, 0.4574, 2)]
    [['45.74', '%'], ['+0.08', 'points']]
    >>> [text.split() for text in share_with_change(0.4566, 0.4566, 1)]
    [['45.7', '%'], ['0', 'points']]
    >>> to_ascii(share_with_change(0.5, 0.25, 1)[1])
    '-25.0 points'
    >>> to_ascii(share_with_change(0.5, 0.50001, 1)[1])
    'about 0 points'
    """
    printed = round(100 * after, decimals)
    change = printed - round(100 * before, decimals)
    if abs(after - before) < _ZERO_TOL:
        text = "0"
    elif abs(change) < 0.5 * 10.0**-decimals:
        text = f"about{_NBSP}0"
    else:
        text = f"{change:+.{decimals}f}".replace("-", _MINUS)
    return _with_percent_sign(f"{printed:.{decimals}f}"), f"{text}{_NBSP}points"


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

    Without an interval, its text is empty. `decimals` are those of the column, if it has common
    ones.

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
    if digits > _MIN_DIGITS and not _show_width(decimals, high - low):
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


def _show_width(decimals: int | None, width: float) -> bool:
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
    return f"{format_integer(value)}{_NBSP}{noun_form(value, singular, plural)}"


def ordinal(number: int) -> str:
    """Format a position, such as "3rd".

    Examples
    --------
    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 21, 112)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '112th']
    """
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    if number % 100 in (11, 12, 13):
        suffix = "th"
    return f"{number}{suffix}"


def noun_form(value: int, singular: str, plural: str) -> str:
    """Return the noun in the singular for a count of one, else in the plural."""
    if value == 1:
        return singular
    return plural or f"{singular}s"


def number_word(number: int) -> str:
    """Return a small number as a word, and others as digits.

    Examples
    --------
    >>> number_word(8), number_word(12)
    ('eight', '12')
    """
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else format_integer(number)


def verb_form(count: int, singular: str, plural: str) -> str:
    """Return the form of a verb or pronoun that agrees with a count."""
    return singular if count == 1 else plural


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
    >>> to_ascii(format_share(2e-5)), to_ascii(format_share(-0.25))
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
