"""Names of groups and columns as matplotlib may be given them."""

import unicodedata
from collections.abc import Sequence

_LONGEST = 26
_NAMELESS = "(no name)"


def label_of(name: str, longest: int = _LONGEST, tail: int = 0) -> str:
    r"""A name that fits, and that matplotlib takes as text and nothing else.

    Parameters
    ----------
    name : str
    longest : int
        In letters.
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
    if _width(text) > longest:
        end = _cut(text[::-1], tail)[::-1]
        text = f"{_cut(text, longest - 1 - tail)}…{end}"
    # A dollar sign begins a formula.
    return text.replace("$", r"\$")


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


def _cut(text: str, width: int) -> str:
    kept = ""
    for char in text:
        if _width(kept + char) > width:
            break
        kept += char
    return kept


def _width(text: str) -> int:
    """In letters; East Asian wide characters take two."""
    return len(text) + sum(unicodedata.east_asian_width(char) in "WF" for char in text)
