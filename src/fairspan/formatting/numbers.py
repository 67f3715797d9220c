"""How numbers and shares are written: four digits, powers of ten written out, one per-cent style.

The page, the figures and the terminal use these spellings; :func:`in_ascii` writes them with the
characters that every terminal has. The figures of a column have as many decimals as one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import floor, log10

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
# Significant digits of the largest and the smallest figure of a column, and digits that fit.
_OF_LARGEST, _OF_SMALLEST, _MOST_DIGITS = 4, 3, 7


def number(value: float | None, decimals: int | None = None) -> str:
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
    text = f"{value:.{decimals}f}" if fits else f"{value:.4g}"
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
    if low is None or high is None:
        return ""
    return f"{number(low, decimals)} to{_FIXED_SPACE}{number(high, decimals)}"


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


def position(what: str, index: int) -> str:
    """A row or a column, as people count it and as programs index it.

    Examples
    --------
    >>> position("row", 3)
    'row 4 (index 3)'
    """
    return f"{what} {index + 1} (index {index})"


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
