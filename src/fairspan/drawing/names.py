"""Names of groups and columns as matplotlib may be given them."""

import unicodedata
from collections.abc import Sequence

_LONGEST = 26
_NAMELESS = "(no name)"


def label_of(name: str, longest: int = _LONGEST) -> str:
    r"""A name that fits, and that matplotlib takes as text and nothing else.

    Examples
    --------
    >>> label_of("university or above, not married")
    'university or above, not …'
    >>> print(label_of("$x"))
    \$x
    """
    text = "".join(char if char.isprintable() else "?" for char in name) or _NAMELESS
    text = text if _width(text) <= longest else _cut(text, longest - 1) + "…"
    # A dollar sign begins a formula.
    return text.replace("$", r"\$")


def labels_of(names: Sequence[str], longest: int = _LONGEST) -> list[str]:
    """Names that fit and still differ: those cut to the same text are numbered.

    Examples
    --------
    >>> labels_of(["a long name", "a long one"], 7)
    ['a lo… 1', 'a lo… 2']
    """
    cut = [label_of(name, longest) for name in names]
    if len(set(cut)) == len(set(names)):
        return cut
    shorter = [label_of(name, longest - 2) for name in names]
    places = {each: [i for i, other in enumerate(shorter) if other == each] for each in shorter}
    return [
        f"{short} {places[short].index(i) + 1}" if len(places[short]) > 1 else whole
        for i, (short, whole) in enumerate(zip(shorter, cut, strict=True))
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
