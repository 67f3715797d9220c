"""Figures as one text table that fits a terminal of 80 columns."""

import unicodedata
from collections.abc import Sequence

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import ModelAudit
from fairspan.moments.groups import spelled

_HEADINGS = ("model", "group", "rows", "variance", "error", "95 % interval", "best", "loss", "kept")
_LEFT = 2  # model and group are aligned left, figures right
_LONGEST_NAME = 16


def table_of(models: Sequence[ModelAudit]) -> str:
    """One line for each group of each model, and one for each model's disparity.

    Columns: rows of the group, its total variance, its error with the interval, the best error any
    subspace of the same dimension has on it, the excess loss, and the share of variance kept.
    """
    body: list[tuple[str, ...]] = []
    separators: set[int] = set()
    for model in models:
        separators.add(len(body))
        name = model.name
        for group in model.groups:
            kept = "-" if group.variance_kept is None else f"{group.variance_kept:.1%}"
            body.append(
                (
                    name,
                    spelled(group.group),
                    str(group.n),
                    figure(group.total_variance),
                    figure(group.error.value),
                    interval(group.error),
                    figure(group.best_error),
                    figure(group.excess_loss),
                    kept,
                )
            )
            name = ""
        if len(model.groups) > 1:
            body.append(_disparity_line(model))
    return _laid_out(body, separators)


def figure(value: float) -> str:
    """Four significant digits, without an exponent where that stays short.

    Examples
    --------
    >>> figure(13.94617), figure(0.0), figure(0.00021), figure(1234567.0)
    ('13.95', '0', '0.00021', '1.235e+06')
    """
    return f"{value:.4g}"


def interval(estimate: Estimate) -> str:
    """Both ends, or a dash where there are none.

    Examples
    --------
    >>> interval(Estimate(1.5, 1.25, 1.75))
    '1.25 to 1.75'
    """
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{figure(estimate.low)} to {figure(estimate.high)}"


def _disparity_line(model: ModelAudit) -> tuple[str, ...]:
    value = figure(model.disparity.value)
    return ("", "disparity", "", "", value, interval(model.disparity), "", "", "")


def _laid_out(body: Sequence[tuple[str, ...]], separators: set[int]) -> str:
    rows = [_HEADINGS, *(tuple(_cut(cell, i) for i, cell in enumerate(line)) for line in body)]
    widths = [max(_width(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = []
    for number, row in enumerate(rows):
        if number - 1 in separators:
            lines.append("-" * (sum(widths) + len(widths) - 1))
        cells = [
            cell + " " * (width - _width(cell))
            if i < _LEFT
            else " " * (width - _width(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(" ".join(cells).rstrip())
    return "\n".join(lines)


def _cut(cell: str, column: int) -> str:
    clean = "".join(char if char.isprintable() else "?" for char in cell)
    if column >= _LEFT or len(clean) <= _LONGEST_NAME:
        return clean
    return clean[: _LONGEST_NAME - 1] + "…"


def _width(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.combining(char) != 0 for char in text)
    return len(text) + wide - marks
