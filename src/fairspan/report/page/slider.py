"""What the slider of the audit page shows at each of its steps, as texts made beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairspan.formatting.names import called, sharers, spoken
from fairspan.formatting.numbers import above, loading, number, share, whole
from fairspan.report.page.inline_figures import Place
from fairspan.report.page.lookups import Facts, main_of, rounding_of, sharing_largest

# Figures of each group at a step.
_PER_GROUP = 3
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
        `data` holds all steps, for the page's script, and `first` the step that is shown first. Of
        that step: `groups`, the name of each with the number and text of each of its figures;
        `total` and `variances` likewise; `features`, the name of each with its loadings, None where
        there are fewer components; `jumps`, key and label of each button; and
        `about_components`, which components and features the loadings are of.
    """
    steps, rounding = facts["steps"], rounding_of(facts)
    names = [called(group["group"]) for group in facts["data"]["groups"]]
    start = steps["start"]
    data: dict[str, Any] = {
        "start": start,
        "jumps": {
            key: at for key, at in (("plain", steps["plain"]), ("main", start)) if at is not None
        },
        "steps": [
            {
                "label": label,
                "said": _said(label, point, names, rounding),
                "texts": _texts(point, rounding),
                "marks": marks,
                "loadings": _rounded(point["components"]),
            }
            for label, point, marks in zip(_labels(facts), steps["points"], places, strict=True)
        ],
    }
    texts = data["steps"][start]["texts"]
    first_total = _PER_GROUP * len(names)
    n_components = max(len(point["components"]) for point in steps["points"])
    return {
        "data": data,
        "first": data["steps"][start],
        "groups": [
            (name, [(i, texts[i]) for i in range(_PER_GROUP * g, _PER_GROUP * (g + 1))])
            for g, name in enumerate(names)
        ],
        "total": (first_total, texts[first_total]),
        "variances": [
            (
                first_total + 1 + i,
                texts[first_total + 1 + i] if first_total + 1 + i < len(texts) else "",
            )
            for i in range(n_components)
        ],
        "features": _features(steps["features"], data["steps"][start]["loadings"], n_components),
        "jumps": _jumps(facts),
        "about_components": _about_components(facts, n_components),
    }


def _texts(point: Facts, rounding: float) -> list[str]:
    """Error, loss and share kept of each group, the error over all rows, and the variances."""
    figures = []
    for error, loss, kept in zip(point["errors"], point["losses"], point["kept"], strict=True):
        figures += [above(error, rounding), number(loss), share(kept)]
    total = above(point["total_error"], rounding)
    return [*figures, total, *map(number, point["variances"])]


def _said(label: str, point: Facts, names: Sequence[str], rounding: float) -> str:
    """What is read out: two groups' errors, of more the largest loss."""
    total = f"error over all rows {above(point['total_error'], rounding)}"
    if len(names) == 2:
        errors = (above(error, rounding) for error in point["errors"])
        told = (f"{name} {error}" for name, error in zip(names, errors, strict=True))
        return f"{label}: error of {', of '.join(told)}; {total}."
    losses = point["losses"]
    if max(losses) == 0:
        return f"{label}: no group loses anything; {total}."
    whose = sharers(names, sharing_largest(losses))
    return f"{label}: largest loss {number(max(losses))}, of {whose}; {total}."


def _about_components(facts: Facts, n_shown: int) -> str:
    """Which of how many are shown."""
    by_dimension = facts["steps"]["walk"] == "dimension"
    most = max(facts["by_dimension"]["dimensions"]) if by_dimension else 0
    is_cut = n_shown < max(most, facts["settings"]["n_components"])
    which = f"The first {n_shown} components" if is_cut else "Components"
    n_features, n_all = len(facts["steps"]["features"]), facts["data"]["n_features"]
    left = f", in the {n_features} of {whole(n_all)} features that weigh most"
    return f"{which} at this step{left if n_features < n_all else ''}"


def _rounded(components: Sequence[Sequence[float]]) -> list[list[float]]:
    # Adding zero leaves no minus zero.
    return [[round(each, _DECIMALS) + 0.0 for each in component] for component in components]


def _features(
    names: Sequence[str], loadings: Sequence[Sequence[float]], n_components: int
) -> list[tuple[str, list[Facts | None]]]:
    return [
        (
            name,
            [_loading(loadings[j][i]) if j < len(loadings) else None for j in range(n_components)],
        )
        for i, name in enumerate(names)
    ]


def _loading(value: float) -> Facts:
    direction = "up" if value > 0 else "down" if value < 0 else ""
    return {"text": loading(value), "direction": direction, "strength": abs(value)}


def _labels(facts: Facts) -> list[str]:
    """As the facts have them, criteria as running text has them."""
    steps, name = facts["steps"], main_of(facts)["name"]
    labels = [point["label"] for point in steps["points"]]
    labels[steps["start"]] = labels[steps["start"]].replace(name, spoken(name))
    return labels


def _jumps(facts: Facts) -> list[tuple[str, str]]:
    steps, main = facts["steps"], spoken(main_of(facts)["name"])
    if steps["walk"] == "dimension":
        return [("main", f"{facts['settings']['n_components']} dimensions")]
    both = steps["plain"] is not None and steps["plain"] != steps["start"]
    return [("plain", "PCA"), ("main", main)] if both else [("main", main)]
