"""matplotlib's SVG in fewer letters: what is drawn stays, to a hundredth of a point."""

from __future__ import annotations

import re

_TAG = re.compile(r"<[^>]*>")
_BETWEEN_TAGS = re.compile(r">\s+<")
_LINES = re.compile(r"\s*\n\s*")
_COORDINATES = re.compile(r'(?<= )(x|y|d|transform)="([^"]*)"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
# A dozen families in each text, of which the page's own style sheet takes none.
_FAMILIES = re.compile(r"""font-family: [^;"]*; |(?<=style="font: )([^;"']*)'[^;"]*""")
# Of groups of elements, which nothing refers to; two figures may have the same.
_IDENTIFIERS = re.compile(r'<g id="[^"]*"')
# Markers of one line repeat their style, which their group can tell once.
_MARKERS = re.compile(
    r'<g (clip-path="[^"]*")>((?:<use [^>]*?) style="([^"]*)"/>(?:<use [^>]*? style="\3"/>)*)</g>'
)


def compact(svg: str) -> str:
    r"""Make an SVG element shorter; names inside it are left as they are.

    Examples
    --------
    >>> compact('<g>\n  <path d="M 1.23456 2.5 \nL 3 4"/>\n <text>0.98765</text></g>')
    '<g><path d="M 1.23 2.5 L 3 4"/><text>0.98765</text></g>'
    """
    svg = _TAG.sub(lambda tag: _shorter(tag[0]), svg)
    svg = _BETWEEN_TAGS.sub("><", svg)
    return _MARKERS.sub(_with_one_style, svg)


def _shorter(tag: str) -> str:
    if tag.startswith("<svg "):  # it holds the words for those who do not see the figure
        return tag
    tag = _LINES.sub(" ", tag).replace("xlink:href", "href")
    tag = _IDENTIFIERS.sub("<g", _FAMILIES.sub(_without_families, tag))
    return _COORDINATES.sub(lambda found: _DECIMALS.sub(r"\1", found[0]), tag)


def _without_families(found: re.Match[str]) -> str:
    return f"{found[1]}sans-serif" if found[1] else ""


def _with_one_style(group: re.Match[str]) -> str:
    markers = group[2].replace(f' style="{group[3]}"', "")
    return f'<g {group[1]} style="{group[3]}">{markers}</g>'
