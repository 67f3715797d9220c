"""Fonts for names in scripts that matplotlib's own font does not have."""

from functools import cache
from typing import Any

# Widely installed ones of the East Asian scripts and of symbols, in the order they are asked.
_FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Segoe UI Symbol",
)


def fallback_fonts() -> Any:  # matplotlib's types list every setting
    """matplotlib's setting of font families, with those installed that fill its gaps.

    Only installed ones, as matplotlib reports every family that it does not find.
    """
    import matplotlib

    own = matplotlib.rcParams["font.family"]
    return {"font.family": [*own, *_installed()]}


@cache
def _installed() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    present = set(fontManager.get_font_names())
    return tuple(name for name in _FALLBACKS if name in present)
