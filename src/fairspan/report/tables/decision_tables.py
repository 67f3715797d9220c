"""Table of what each group gains or pays under each criterion, which leads the page's repair."""

from collections.abc import Sequence
from dataclasses import replace

from fairspan.auditing.group_effects import group_effects
from fairspan.formatting.table import Cell, Column, Table, name_column
from fairspan.report.report import Report
from fairspan.rows.labels import printable

# Number of groups that fit next to each other on the page.
_MAX_GROUP_COLUMNS = 4


def decisions_table(report: Report) -> Table:
    """Table of the decision, with one row per model, or per group if there are many.

    The state of a cell is shown by color and word.
    """
    table = report.audit.decision_table()
    models, *groups = table.columns
    payers = _payers_by_model(report)
    groups = [
        _group_column(column, [g in payers.get(model.text, ()) for model in models.cells])
        for g, column in enumerate(groups)
    ]
    if len(groups) <= _MAX_GROUP_COLUMNS:
        return replace(
            table,
            columns=(models, *groups),
            css_class="decisions",
            highlighted_row=_position(models.cells, report.main.name),
        )
    columns = [
        Column(model.text, [column.cells[i] for column in groups])
        for i, model in enumerate(models.cells)
    ]
    names = name_column("group", [column.group for column in groups])
    return Table(table.caption, (names, *columns), css_class="decisions")


def _position(cells: Sequence[Cell], name: str) -> int | None:
    """Return the position of a model by its name; None without estimates."""
    names = [cell.text for cell in cells]
    return names.index(name) if name in names else None


def _payers_by_model(report: Report) -> dict[str, set[int]]:
    """Return the indices of the groups that pay more than the threshold, by fair model."""
    materiality = report.audit.materiality
    return {
        printable(model.name): {
            g
            for g, effect in enumerate(group_effects(model.groups, materiality))
            if effect.kind == "pays"
        }
        for model in report.audit.models
    }


def _group_column(column: Column, is_paying: Sequence[bool]) -> Column:
    """Return the column of a group with its name as the only heading, and numbers as values.

    A cost that is below the threshold gets a paler color. What the states mean is below the table
    of PCA, so it is left out of every cell.
    """
    cells = []
    for cell, pays in zip(column.cells, is_paying, strict=True):
        attributes = {name: text for name, text in cell.attributes.items() if name != "title"}
        if attributes.get("data-outcome") == "cost" and not pays:
            attributes["data-outcome"] = "small cost"
        cells.append(replace(cell, attributes=attributes))
    return replace(column, cells=cells, is_text=False, detail_heading="")
