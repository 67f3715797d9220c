"""The tables of the audit page, made of its facts, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.formatting.names import called, settings, sharers, spoken
from fairspan.formatting.numbers import (
    change,
    count,
    decimals_of,
    interval,
    number,
    relative,
    share,
    whole,
)
from fairspan.report.page.lookups import Facts, plain_of, sharing_largest

# As a share of the total variance: less than fits resolve.
_SAME = 1e-9


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
    total : Cell
        Below the others, wherever these are sorted to.
    """

    heading: str
    cells: Sequence[Cell]
    group: str = ""
    is_text: bool = False
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
    """

    caption: str
    columns: tuple[Column, ...]
    chosen: int | None = None

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells of each row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @property
    def totals(self) -> list[tuple[Cell, ...]]:
        """The row below the others, if there is one."""
        totals = tuple(column.total for column in self.columns)
        return [totals] if totals[0].text else []


def of_facts(facts: Facts, steps: Sequence[str]) -> dict[str, Table]:
    """Every table of the page, by the name that the template uses."""
    return {
        "groups": of_groups(facts),
        "plain": of_plain(facts),
        "criteria": of_criteria(facts),
        "losses": of_groups_by_model(facts, "excess_loss", "Excess loss of each group"),
        "errors": of_groups_by_model(facts, "error", "Error of each group"),
        "certificates": of_certificates(facts),
        "steps": of_steps(facts, steps),
    }


def of_groups(facts: Facts) -> Table:
    """How many rows and how much variance each group has."""
    groups = facts["data"]["groups"]
    shares = [group["proportion"] for group in groups]
    return Table(
        "The groups",
        (
            _names("group", _each(groups, "group")),
            Column("rows", [Cell(whole(n), n) for n in _each(groups, "n")]),
            Column(
                "share of the weight" if facts["data"]["weighted"] else "share",
                [Cell(share(each), each) for each in shares],
            ),
            _figures("total variance", _each(groups, "total_variance")),
        ),
    )


def of_plain(facts: Facts) -> Table:
    """What PCA does to each group."""
    model = plain_of(facts)
    groups = model["groups"]
    above = [
        group["excess_loss"] / group["best_error"] if group["best_error"] > 0 else None
        for group in groups
    ]
    ends = [(group["error_low"], group["error_high"]) for group in groups]
    return Table(
        f"PCA with {count(facts['settings']['n_components'], 'dimension')}",
        (
            _names("group", _each(groups, "group"), total="all rows"),
            _figures("error", _each(groups, "error"), ends=ends, total=model["total_error"]),
            _figures("best possible", _each(groups, "best_error")),
            _figures("excess loss", _each(groups, "excess_loss")),
            Column("loss / best", [Cell(relative(each), each) for each in above]),
            Column(
                "variance kept",
                [Cell(share(each), each) for each in _each(groups, "variance_kept")],
            ),
        ),
    )


def of_criteria(facts: Facts) -> Table:
    """What each criterion changes and costs: two groups in full, of more the worst."""
    models = facts["models"]
    errors, losses = (
        [_each(model["groups"], what) for model in models] for what in ("error", "excess_loss")
    )
    gaps, ends = [], []
    for model in models:
        gap = model["disparity"]
        is_none = abs(gap["value"]) <= _SAME * model["certificate"]["total_variance"]
        gaps.append(0.0 if is_none else gap["value"])
        ends.append((gap["low"], gap["high"]))
    decimals = decimals_of(_each(models, "total_error"))
    changes = [
        Cell(change(total), total, number(model["total_error"], decimals))
        for model in models
        for total in [model["total_change"]]
    ]
    asked = [Cell(_title(model), spoken(model["name"]), model["asks"]) for model in models]
    names = _each(models[0]["groups"], "group")
    by_group = (
        _by_group(names, errors, losses) if len(names) == 2 else _worst(names, "loss", losses)
    )
    return Table(
        "Ordinary PCA and each fair criterion",
        (
            Column("criterion", asked, is_text=True),
            *by_group,
            _figures("disparity", gaps, ends=ends),
            Column("error over all rows", changes),
            _statuses(models),
        ),
        _chosen(models),
    )


def of_groups_by_model(facts: Facts, what: str, caption: str) -> Table:
    """One figure of every group under every model."""
    models = facts["models"]
    columns = [_figures(spoken(each["name"]), _each(each["groups"], what)) for each in models]
    return Table(caption, (_names("group", _each(models[0]["groups"], "group")), *columns))


def of_certificates(facts: Facts) -> Table:
    """Objective and bound of every model."""
    models = facts["models"]
    proofs = [model["certificate"] for model in models]
    titles = [Cell(_title(model), spoken(model["name"])) for model in models]
    return Table(
        "Certificates",
        (
            Column("criterion", titles, is_text=True),
            *(
                _figures(what.replace("_", " "), _each(proofs, what))
                for what in ("objective", "lower_bound", "gap", "tolerance")
            ),
            _statuses(models),
            Column(
                "solver",
                [Cell(spoken(each), each) for each in _each(proofs, "solver")],
                is_text=True,
            ),
            Column("eigenproblems", [Cell(whole(n), n) for n in _each(proofs, "n_eigenproblems")]),
        ),
        _chosen(models),
    )


def of_steps(facts: Facts, labels: Sequence[str]) -> Table:
    """Every step of the walk: two groups in full, of more the worst."""
    names = _each(facts["data"]["groups"], "group")
    points = facts["steps"]["points"]
    errors, losses = _each(points, "errors"), _each(points, "losses")
    by_group = (
        _by_group(names, errors, losses)
        if len(names) == 2
        else (*_worst(names, "error", errors), *_worst(names, "loss", losses))
    )
    total = _figures("error over all rows", _each(points, "total_error"))
    return Table("All steps", (_names("step", labels), *by_group, total))


def _each(parts: Sequence[Facts], what: str) -> list[Any]:
    return [part[what] for part in parts]


def _names(heading: str, names: Sequence[str], total: str = "") -> Column:
    cells = [Cell(called(name), name) for name in names]
    return Column(heading, cells, is_text=True, total=Cell(total))


def _figures(
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
    last = Cell("" if total is None else number(total, decimals))
    return Column(heading, cells, total=last)


def _by_group(
    names: Sequence[str], errors: Sequence[Sequence[float]], losses: Sequence[Sequence[float]]
) -> list[Column]:
    """Error and loss of both groups, which are compared with each other."""
    columns = []
    for what, rows in (("error,", errors), ("loss,", losses)):
        decimals = decimals_of(value for row in rows for value in row)
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            cells = [Cell(number(value, decimals), value) for value in values]
            columns.append(Column(what, cells, called(name)))
    return columns


def _worst(names: Sequence[str], what: str, rows: Sequence[Sequence[float]]) -> list[Column]:
    """The largest of each row, and which group has it."""
    short = [called(name) for name in names]
    whose = [
        sharers(short, sharing_largest(values)) if max(values) > 0 else number(None)
        for values in rows
    ]
    return [_figures(f"largest {what}", [max(values) for values in rows]), _names("of", whose)]


def _statuses(models: Sequence[Facts]) -> Column:
    statuses = [model["certificate"]["status"] for model in models]
    cells = [Cell("proven" if each == "optimal" else each, each) for each in statuses]
    return Column("status", cells, is_text=True)


def _chosen(models: Sequence[Facts]) -> int:
    return next(i for i, model in enumerate(models) if model["is_main"])


def _title(model: Facts) -> str:
    """The model's name, and its parameters where the name does not tell them."""
    told = settings(model["parameters"])
    name = spoken(model["name"])
    return name if not told or "(" in name else f"{name} ({told})"
