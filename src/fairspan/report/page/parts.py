"""Parts of the facts that several sections of the page need, and cells and columns of tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan.formatting.text import (
    called,
    change,
    decimals_of,
    interval,
    number,
    settings,
    share,
    spoken,
)

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
    return [each for each in facts["findings"] if each["model"] in asked], [
        each for each in facts["findings"] if each["model"] not in asked
    ]


def with_short_names(facts: Facts) -> Facts:
    """The same facts, very long names of groups and features without their middles."""
    data = facts["data"]
    names = [data["name"], *data["feature_names"], *(each["group"] for each in data["groups"])]
    text = json.dumps(facts)
    for name in names:
        if name.strip():
            text = text.replace(json.dumps(name)[1:-1], json.dumps(called(name))[1:-1])
    return {**json.loads(text), **{key: facts[key] for key in _WHOLE}}


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : str
    value : float, str or None
        What it sorts by; None comes last.
    below : str
        A second, smaller line.
    """

    text: str
    value: float | str | None = None
    below: str = ""


@dataclass(frozen=True)
class Column:
    """A column of figures, or of words; its heading may end with a group's name.

    Attributes
    ----------
    heading : str
    cells : sequence of n Cell
    group : str
        Empty, or a group's name that follows the heading.
    is_text : bool
    is_aside : bool
        Whether it says less than the others, and is smaller.
    total : Cell
        Below the others, wherever these are sorted to.
    """

    heading: str
    cells: Sequence[Cell]
    group: str = ""
    is_text: bool = False
    is_aside: bool = False
    total: Cell = Cell("")


@dataclass(frozen=True)
class Table:
    """A table with a caption; those of several rows can be sorted.

    Attributes
    ----------
    caption : str
    columns : tuple of Column
        The first has the names of the rows.
    chosen : int or None
        The row that stands out.
    faint : tuple of int
        Rows without information.
    """

    caption: str
    columns: tuple[Column, ...]
    chosen: int | None = None
    faint: tuple[int, ...] = ()

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells of each row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @property
    def totals(self) -> list[tuple[Cell, ...]]:
        """The row below the others, if there is one."""
        totals = tuple(column.total for column in self.columns)
        return [totals] if totals[0].text else []


def names_column(heading: str, names: Sequence[str], total: str = "") -> Column:
    """The names of groups, models or steps."""
    return Column(
        heading, [Cell(called(name), name) for name in names], is_text=True, total=Cell(total)
    )


def figures_column(
    heading: str,
    values: Sequence[float | None],
    *,
    ends: Sequence[tuple[float | None, float | None]] | None = None,
    total: float | None = None,
) -> Column:
    """Figures of one number of decimals, with their intervals below."""
    decimals = decimals_of([*values, total])
    below = [interval(low, high, decimals) for low, high in ends or [(None, None)] * len(values)]
    cells = [
        Cell(number(value, decimals), value, under)
        for value, under in zip(values, below, strict=True)
    ]
    return Column(heading, cells, total=Cell("" if total is None else number(total, decimals)))


def estimates_column(
    heading: str, parts: Sequence[Facts], what: str, *, total: float | None = None
) -> Column:
    """Figures, each with the interval below that the facts have beside it."""
    ends = [(part[f"{what}_low"], part[f"{what}_high"]) for part in parts]
    return figures_column(heading, each_of(parts, what), ends=ends, total=total)


def shares_column(heading: str, values: Sequence[float | None]) -> Column:
    """Shares in percent."""
    return Column(heading, [Cell(share(value), value) for value in values])


def kept_columns(models: Sequence[Facts]) -> list[Column]:
    """The variance kept of both groups; of more, the least, and of which group it is."""
    kept = [each_of(model["groups"], "variance_kept") for model in models]
    names = [called(name) for name in each_of(models[0]["groups"], "group")]
    if len(names) == 2:
        columns = zip(names, zip(*kept, strict=True), strict=True)
        return [
            replace(shares_column("variance kept,", each), group=name) for name, each in columns
        ]
    known = [[(value, i) for i, value in enumerate(row) if value is not None] for row in kept]
    least = [min(row, default=(None, 0)) for row in known]
    return [
        shares_column("least variance kept", [value for value, _ in least]),
        names_column("of", [number(None) if value is None else names[i] for value, i in least]),
    ]


def changes_column(models: Sequence[Facts]) -> Column:
    """What each model costs over all rows."""
    decimals = decimals_of(each_of(models, "total_error"))
    cells = [
        Cell(change(total), total, number(model["total_error"], decimals))
        for model in models
        for total in [model["total_change"]]
    ]
    return Column("error over all rows", cells)


def statuses_column(models: Sequence[Facts]) -> Column:
    """How each fit ended."""
    statuses = [model["certificate"]["status"] for model in models]
    cells = [Cell("proven" if each == "optimal" else each, each) for each in statuses]
    return Column("status", cells, is_text=True)


def each_of(parts: Sequence[Facts], what: str) -> list[Any]:
    """The same figure of each part."""
    return [part[what] for part in parts]


def chosen_of(models: Sequence[Facts]) -> int:
    """Position of the main answer."""
    return next(i for i, model in enumerate(models) if model["is_main"])


def title_of(model: Facts) -> str:
    """The model's name, and its parameters if the name does not contain them."""
    told = settings(model["parameters"])
    name = spoken(model["name"])
    return name if not told or "(" in name else f"{name} ({told})"
