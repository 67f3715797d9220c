"""How names of groups, columns and criteria are written on pages, terminals and in figures."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairspan.formatting.numbers import whole
from fairspan.formatting.terminal_text import shortened

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
    if not name.strip():
        return "(no name)"
    return (
        name
        if len(name) <= _LONGEST_ON_PAGE
        else f"{name[: _LONGEST_ON_PAGE - 31]}\u2026{name[-30:]}"
    )


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
