"""Table of what each group gains or pays under each criterion, which leads the page's repair."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

from fairspan.formatting.table import Cell, Column, Table, name_column
from fairspan.report.report import Report

# Number of groups, or models, that fit next to each other on the page.
_MAX_GROUP_COLUMNS = 4


def decisions_table(report: Report) -> Table:
    """Table of the decision, with one row per model, or per group if there are many.

    The state of a cell is shown by color and word.
    """
    # The page explains the words below the table, with the legend of the tints.
    table = replace(report.audit.decision_table(), notes=())
    models, *groups = _estimated_rows(table.columns)
    groups = [_group_column(column) for column in groups]
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
    css_class = "decisions wide" if len(columns) > _MAX_GROUP_COLUMNS else "decisions"
    return Table(table.caption, (names, *columns), css_class=css_class)


def _estimated_rows(columns: Sequence[Column]) -> list[Column]:
    """Return the columns without the rows of models that are estimated for no group.

    The page names these models below the table.
    """
    is_estimated = [
        any(cell.sort_value is not None for cell in cells)
        for cells in zip(*(column.cells for column in columns[1:]), strict=True)
    ]
    return [replace(column, cells=list(compress(column.cells, is_estimated))) for column in columns]


def _position(cells: Sequence[Cell], name: str) -> int | None:
    """Return the position of a model by its name; None without estimates."""
    names = [cell.text for cell in cells]
    return names.index(name) if name in names else None


def _group_column(column: Column) -> Column:
    """Return the column of a group with its name as the only heading, and numbers as values.

    What the states mean is below the table of PCA, so it is left out of every cell.
    """
    cells = []
    for cell in column.cells:
        attributes = {name: text for name, text in cell.attributes.items() if name != "title"}
        cells.append(replace(cell, attributes=attributes))
    return replace(column, cells=cells, is_text=False, detail_heading="")
