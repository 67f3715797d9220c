"""What the slider of the audit page shows at each of its steps, as texts made beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairspan.formatting.names import called, sharers, spoken
from fairspan.formatting.numbers import decimals_of, number, share
from fairspan.report.page.inline_figures import Place
from fairspan.report.page.lookups import Facts, main_of, sharing_largest

# Decimals of loadings.
_DECIMALS = 2


def slider_of(facts: Facts, places: Sequence[Sequence[Place]]) -> dict[str, Any]:
    """Make the texts of every step.

    Parameters
    ----------
    facts : mapping
    places : sequence of sequences of places
        Of the marks at each step.

    Returns
    -------
    dict
        `data` holds all steps, for the page's script, `first` the step that is shown first, and
        `ends` says what lies at each end of the slider. The texts of a step are error, excess loss
        and share kept of each group, the error over all rows, and the variance of each of the
        `n_components` at most that are shown.
    """
    steps, start = facts["steps"], facts["steps"]["start"]
    names = [called(group["group"]) for group in facts["data"]["groups"]]
    jumps = {"main": start} if steps["plain"] is None else {"plain": steps["plain"], "main": start}
    texts = _texts(steps["points"])
    shown = [
        {
            "label": label,
            "said": _said(label, point, names),
            "texts": own,
            "marks": marks,
            # Adding zero leaves no minus zero.
            "loadings": [
                [round(each, _DECIMALS) + 0.0 for each in component]
                for component in point["components"]
            ],
        }
        for label, point, own, marks in zip(
            _labels(facts), steps["points"], texts, places, strict=True
        )
    ]
    n_components = max(len(point["components"]) for point in steps["points"])
    return {
        "data": {"start": start, "jumps": jumps, "steps": shown},
        "first": shown[start],
        "n_components": n_components,
        "ends": [f"better for {name}" for name in names]
        if facts["frontier"]
        else ["fewer dimensions", "more dimensions"],
    }


def _texts(points: Sequence[Facts]) -> list[list[str]]:
    """Of each step its figures, each kind with the same decimals at all steps."""
    decimals = {
        what: decimals_of(each for point in points for each in point[what])
        for what in ("errors", "losses", "variances")
    }
    of_total = decimals_of(point["total_error"] for point in points)
    texts = []
    for point in points:
        own = []
        for error, loss, kept in zip(point["errors"], point["losses"], point["kept"], strict=True):
            own += [number(error, decimals["errors"]), number(loss, decimals["losses"])]
            own.append(share(kept))
        own.append(number(point["total_error"], of_total))
        own += [number(variance, decimals["variances"]) for variance in point["variances"]]
        texts.append(own)
    return texts


def _said(label: str, point: Facts, names: Sequence[str]) -> str:
    """What is read out: two groups' errors, of more the largest loss."""
    total = f"error over all rows {number(point['total_error'])}"
    losses = point["losses"]
    if len(names) == 2:
        told = (
            f"{name} {number(error)}" for name, error in zip(names, point["errors"], strict=True)
        )
        return f"{label}: error of {', of '.join(told)}; {total}."
    if max(losses) == 0:
        return f"{label}: no group loses anything; {total}."
    whose = sharers(names, sharing_largest(losses))
    return f"{label}: largest loss {number(max(losses))}, of {whose}; {total}."


def _labels(facts: Facts) -> list[str]:
    """As the facts have them, criteria as running text has them."""
    steps, name = facts["steps"], main_of(facts)["name"]
    labels = [point["label"] for point in steps["points"]]
    labels[steps["start"]] = labels[steps["start"]].replace(name, spoken(name))
    return labels
