"""Parts of the facts that several sections of the audit page need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fairspan.formatting.names import called

Facts = Mapping[str, Any]

# These are to be copied and run as they are.
_WHOLE = ("verification", "made")

# What a fit brings together to its tolerance shares a figure; no table shows so many digits.
ALIKE = 1e-6


def plain_of(facts: Facts) -> Facts:
    """The facts of ordinary PCA."""
    found: Facts = facts["models"][0]
    return found


def main_of(facts: Facts) -> Facts:
    """The facts of the main criterion's answer."""
    found: Facts = next(model for model in facts["models"] if model["is_main"])
    return found


def has_estimates(facts: Facts) -> bool:
    """Whether it is known what new rows would show of any group."""
    return any(group["expected_loss"] is not None for group in plain_of(facts)["groups"])


def worst_expected(facts: Facts, model: Facts) -> int | None:
    """Position of the group that loses most of its variance on new rows, of those it harms if any.

    None where nothing was estimated. Groups of too few rows have no estimate.
    """
    sizes = [group["total_variance"] for group in facts["data"]["groups"]]
    known = [i for i, group in enumerate(model["groups"]) if group["expected_loss"] is not None]
    harmed = [i for i in known if model["groups"][i]["state"] == "harmed"]
    return max(
        harmed or known,
        key=lambda i: model["groups"][i]["expected_loss"] / (sizes[i] or 1.0),
        default=None,
    )


def harmed_by_dimension(facts: Facts) -> list[tuple[int, str, float]]:
    """Where PCA harms a group on new rows: d, and whom it costs most, with the expected loss."""
    expected = facts["by_dimension"]["expected"]
    if expected is None:
        return []
    names = [group["group"] for group in facts["data"]["groups"]]
    found = []
    for i, d in enumerate(expected["dimensions"]):
        states, losses = expected["plain"]["states"][i], expected["plain"]["losses"][i]
        harmed = [g for g, state in enumerate(states) if state == "harmed"]
        if harmed:
            worst = max(harmed, key=lambda g: losses[g])
            found.append((d, names[worst], losses[worst]))
    return found


def most_lost(model: Facts) -> Facts:
    """The group with the largest excess loss; the first of those that share it."""
    groups: Sequence[Facts] = model["groups"]
    return groups[sharing_largest([group["excess_loss"] for group in groups])[0]]


def sharing_largest(values: Sequence[float]) -> list[int]:
    """Positions of the largest value: of several where they differ by no more than a fit does.

    Examples
    --------
    >>> sharing_largest([0.2, 0.5, 0.1, 0.5000000001])
    [1, 3]
    """
    largest = max(values)
    return [i for i, value in enumerate(values) if value >= largest - ALIKE * abs(largest)]


def findings_about_the_answer(facts: Facts) -> tuple[list[Facts], list[Facts]]:
    """Findings about the rows, ordinary PCA and the main answer; and those about other criteria."""
    asked = {None, plain_of(facts)["name"], main_of(facts)["name"]}
    first: list[Facts] = []
    others: list[Facts] = []
    for each in facts["findings"]:
        (first if each["model"] in asked else others).append(each)
    return first, others


def with_short_names(facts: Facts) -> Facts:
    """The same facts, very long names of groups and features without their middles."""
    data = facts["data"]
    names = [data["name"], *data["feature_names"], *(each["group"] for each in data["groups"])]
    text = json.dumps(facts)
    for name in names:
        if name.strip():
            text = text.replace(json.dumps(name)[1:-1], json.dumps(called(name))[1:-1])
    return {**json.loads(text), **{key: facts[key] for key in _WHOLE}}
