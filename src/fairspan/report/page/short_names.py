"""The facts with names that a page has room for."""

from __future__ import annotations

from typing import Any

from fairspan.formatting.names import called
from fairspan.report.page.lookups import Facts

# These are to be copied and run as they are.
_WHOLE = ("verification", "made")


def with_short_names(facts: Facts) -> Facts:
    """The same facts, very long names of groups and features without their middles."""
    data = facts["data"]
    names = [data["name"], *data["feature_names"], *(each["group"] for each in data["groups"])]
    cut = {name: called(name) for name in names if name.strip() and called(name) != name}
    if not cut:
        return facts
    return {key: each if key in _WHOLE else _replaced(each, cut) for key, each in facts.items()}


def _replaced(value: Any, cut: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, short in cut.items():
            value = value.replace(name, short)
        return value
    if isinstance(value, dict):
        return {key: _replaced(each, cut) for key, each in value.items()}
    return [_replaced(each, cut) for each in value] if isinstance(value, list) else value
