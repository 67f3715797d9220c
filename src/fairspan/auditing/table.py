"""Figures as one text table that fits a terminal of 80 columns."""

import unicodedata
from collections.abc import Sequence

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import ModelAudit
from fairspan.moments.groups import printable, spelled

_HEADINGS = ("group", "rows", "variance", "error", "95 % interval", "best", "loss", "kept")
_LONGEST_NAME = 18
_ABOUT = {
    "global": "errors about the mean of all rows",
    "group": "errors about each group's own mean",
    "none": "errors about the origin",
}


def table_of(models: Sequence[ModelAudit], n_features: int) -> str:
    """Under each model, one line for each group and one for the disparity.

    Columns: rows of the group, its total variance, its error with the interval, the best error any
    subspace of the same dimension has on it, the excess loss, and the share of variance kept.
    """
    parts = [_lines_of(model) for model in models]
    rows = [_HEADINGS, *(line for lines in parts for line in lines)]
    widths = [max(terminal_width(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    text = [_laid_out(_HEADINGS, widths)]
    for model, lines in zip(models, parts, strict=True):
        text.append("-" * (sum(widths) + len(widths) - 1))
        units = ", scaled" if model.scaled else ""
        text.append(
            f"{model.name}: {model.n_components} of {n_features} dimensions, "
            f"{_ABOUT[model.center]}{units}"
        )
        text += [_laid_out(line, widths) for line in lines]
    return "\n".join(text)


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


def _lines_of(model: ModelAudit) -> list[tuple[str, ...]]:
    def shown(value: float) -> str:
        """Zero for what is only rounding: it says nothing, and its exponent widens the table."""
        return figure(0.0 if abs(value) <= model.rounding else value)

    lines: list[tuple[str, ...]] = [
        (
            "  " + shortened(printable(spelled(group.group))),
            str(group.n),
            figure(group.total_variance),
            shown(group.error.value),
            interval(group.error),
            shown(group.best_error),
            shown(group.excess_loss),
            "-" if group.variance_kept is None else f"{group.variance_kept:.1%}",
        )
        for group in model.groups
    ]
    if len(model.groups) > 1:
        value = shown(model.disparity.value)
        lines.append(("  disparity", "", "", value, interval(model.disparity), "", "", ""))
    return lines


def _laid_out(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    padding = [
        " " * (width - terminal_width(cell)) for cell, width in zip(cells, widths, strict=True)
    ]
    figures = (pad + cell for pad, cell in zip(padding[1:], cells[1:], strict=True))
    return " ".join([cells[0] + padding[0], *figures]).rstrip()


def shortened(name: str) -> str:
    """A name that leaves room for figures beside it."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def terminal_width(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.combining(char) != 0 for char in text)
    return len(text) + wide - marks
