"""Names of groups, columns, criteria and models in plots, on pages and in running text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fairspan.formatting.numbers import format_integer
from fairspan.formatting.terminal import shorten

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

    They are shortened at the end; if that makes distinct names equal, in the middle; if that does
    too, the equal ones are shortened at the end and numbered by their position.

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


def format_parameters(values: Mapping[str, object]) -> str:
    """Format parameters as "name=value, ...".

    Examples
    --------
    >>> format_parameters({"penalty": 0.5, "norm": "l1"})
    'penalty=0.5, norm=l1'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())


def join_alternatives(texts: Sequence[str], max_items: int = _MAX_LISTED) -> str:
    """Join alternatives with commas and "or", truncated to `max_items`.

    Examples
    --------
    >>> join_alternatives(["a", "b", "c"]), join_alternatives(["a", "b", "c"], 1)
    ('a, b or c', 'a or 2 more')
    """
    return _join(texts, "or", max_items)


def join_all(texts: Sequence[str]) -> str:
    """Join texts with commas and "and", truncated to a few.

    Examples
    --------
    >>> join_all(["a", "b", "c"])
    'a, b and c'
    """
    return _join(texts, "and", _MAX_LISTED)


def _join(texts: Sequence[str], conjunction: str, max_items: int) -> str:
    """Join texts with commas and a conjunction, truncated to `max_items`."""
    shown = list(texts[:max_items])
    n_more = len(texts) - len(shown)
    if n_more:
        shown.append(f"{n_more} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} {conjunction} {shown[-1]}"


def join_truncated(texts: Sequence[str], max_items: int = _MAX_LISTED) -> str:
    """Join texts with commas, truncated to `max_items`."""
    joined = ", ".join(texts[:max_items])
    n_more = len(texts) - max_items
    return f"{joined} and {n_more} more" if n_more > 0 else joined
