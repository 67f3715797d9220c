"""The expected loss of each group under ordinary PCA for each number of dimensions, as a table."""

from collections.abc import Sequence
from typing import Any

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.by_dimension import chosen_dimensions, pca_by_dimension
from fairspan.auditing.expected_losses import Expectations
from fairspan.auditing.results import GroupAudit, group_name
from fairspan.cli.inputs import Table, audited_table
from fairspan.errors import Incompatible
from fairspan.formatting.numbers import decimals_of, figure, in_ascii, interval, percent
from fairspan.formatting.terminal_text import cut_names, terminal_width, wrapped

# Letters of a group's name.
_LONGEST = 24
_WORDS = (
    "Loss expected on new rows under PCA, by number of dimensions d. States hold for all groups at "
    "once, at one d; an interval is that of one group at one d."
)


def audit_by_dimension(
    table: Table, center: str, options: Expectations, *, standardize: bool
) -> Audit:
    """The audit of ordinary PCA with each of several numbers of dimensions, smallest first.

    Raises
    ------
    Incompatible
        The table is moments, from which no estimates for new rows can be made.
    """
    if table.source is None:
        raise Incompatible(
            "--by-dimension received saved moments",
            "Allowed: rows, from which estimates for new rows can be made",
            "Name the file of the rows",
        )
    dimensions = chosen_dimensions(max(table.source.n_features - 1, 1), 1)
    models = pca_by_dimension(table.moments, dimensions, center, scale=standardize)
    return audited_table(table, models, options)


def facts_by_dimension(result: Audit) -> dict[str, Any]:
    """One record for each number of dimensions and group, with level and material loss."""
    return {
        "level": result.level,
        "material": result.material,
        "by_dimension": [{**record, "model": "PCA"} for record in result.records()],
    }


def table_by_dimension(result: Audit, width: int) -> str:
    """One line for each number of dimensions and group."""
    names = [group_name(group.group) for group in result.models[0].groups]
    names = cut_names(names, _LONGEST) or names
    found = [group.expected for model in result.models for group in model.groups]
    decimals = decimals_of(abs(each.loss.value) for each in found if each is not None)
    headings = ("d", "group", "loss", f"{percent(result.level)} interval", "state")
    lines = [
        (str(model.n_components) if i == 0 else "", names[i], *_cells(group, decimals))
        for model in result.models
        for i, group in enumerate(model.groups)
    ]
    widths = [max(map(terminal_width, cells)) for cells in zip(headings, *lines, strict=True)]
    table = [_laid_out(cells, widths) for cells in (headings, *lines)]
    return "\n".join([*wrapped(_WORDS, width), "", *table])


def _cells(group: GroupAudit, decimals: int | None) -> tuple[str, str, str]:
    if group.expected is None:
        return "-", "-", group.state
    loss = group.expected.loss
    ends = in_ascii(interval(loss.low, loss.high, decimals))
    return figure(loss.value, decimals), ends, group.state


def _laid_out(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Figures to the right; the group and the state, which are words, to the left."""
    padded = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blank = " " * (width - terminal_width(cell))
        padded.append(cell + blank if i in (1, 4) else blank + cell)
    return "  ".join(padded).rstrip()
