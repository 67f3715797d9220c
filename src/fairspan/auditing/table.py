"""Figures as one text table that fits a terminal of 80 columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupAudit, ModelAudit
from fairspan.auditing.wording import group_name
from fairspan.formatting.numbers import figure, in_ascii, share
from fairspan.formatting.terminal_text import Paint, cut_names, plain, terminal_width, wrapped
from fairspan.rows.groups import printable

WIDTH = 80
HEADINGS = ("group", "rows", "variance", "error", "95 % interval", "best", "loss", "kept")
_INTERVAL, _LOSS = HEADINGS.index("95 % interval"), HEADINGS.index("loss")
_ABOUT = {
    "global": "errors about the mean of all rows",
    "group": "errors about each group's own mean",
    "none": "errors about the origin",
}


@dataclass(frozen=True)
class _Layout:
    """How a table is made narrower: the names, the exponents, and the interval on its own line."""

    longest_name: int
    short_exponents: bool
    interval_below: bool


# From the best to the narrowest.
_LAYOUTS = [
    _Layout(longest, short, below)
    for below, longest, short in product((False, True), (18, 15, 11), (False, True))
]


def table_of(
    models: Sequence[ModelAudit], n_features: int, width: int = WIDTH, paint: Paint = plain
) -> str:
    """Under each model, one line for each group and one for the disparity.

    Columns: rows of the group, its total variance, its error with the interval, the best error any
    subspace of the same dimension has on it, the excess loss, and the share of variance kept. What
    is too wide gets shorter exponents (1.2e6), shorter names, or each interval on its own line;
    names that would look the same when cut stand above their figures.
    """
    for layout in _LAYOUTS:
        parts = [_lines_of(model, layout) for model in models]
        headings = _in_columns(HEADINGS, layout)
        rows = [headings, *(line.cells for lines in parts for line in lines)]
        widths = [max(map(terminal_width, column)) for column in zip(*rows, strict=True)]
        if sum(widths) + len(widths) - 1 <= width:
            break
    text = [_laid_out(headings, widths)]
    for model, lines in zip(models, parts, strict=True):
        text.append("-" * (sum(widths) + len(widths) - 1))
        text += wrapped(heading_of(model, n_features), width, "  ")
        for line in lines:
            text += line.laid_out(widths, width, paint)
    return "\n".join(text)


def heading_of(model: ModelAudit, n_features: int) -> str:
    """What the figures of a model are about."""
    units = ", scaled" if model.scaled else ""
    return (
        f"{printable(model.name)}: {model.n_components} of {n_features} dimensions, "
        f"{_ABOUT[model.center]}{units}"
    )


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


def figures_of(model: ModelAudit, group: GroupAudit) -> tuple[str, ...]:
    """The cells of a group beside its name, in the order of the headings."""
    return (
        str(group.n),
        figure(group.total_variance),
        _shown(group.error.value, model),
        interval(group.error),
        _shown(group.best_error, model),
        _shown(group.excess_loss, model),
        in_ascii(share(group.variance_kept)),
    )


def disparity_of(model: ModelAudit) -> tuple[str, ...]:
    """The same of the disparity; empty where it has no figure."""
    return ("", "", _shown(model.disparity.value, model), interval(model.disparity), "", "", "")


def worst_loss(model: ModelAudit) -> str | None:
    """The largest loss as it is shown; None if every group shows the same."""
    losses = [_shown(group.excess_loss, model) for group in model.groups]
    return None if len(set(losses)) == 1 else _shown(model.largest_loss, model)


def _shown(value: float, model: ModelAudit) -> str:
    """Zero for what is only rounding: it says nothing, and its exponent widens the table."""
    return figure(0.0 if abs(value) <= model.rounding else value)


@dataclass(frozen=True)
class _Line:
    """One line of the table, and what stands above and below it."""

    above: str
    cells: tuple[str, ...]
    below: str
    is_worst: bool

    def laid_out(self, widths: Sequence[int], width: int, paint: Paint) -> list[str]:
        lines = wrapped(self.above, width, "    ")
        lines.append(_laid_out(self.cells, widths, paint if self.is_worst else plain))
        if self.below:
            # It ends where the error ends, to which it belongs.
            lines.append(self.below.rjust(sum(widths[:_INTERVAL]) + _INTERVAL - 1))
        return lines


def _lines_of(model: ModelAudit, layout: _Layout) -> list[_Line]:
    whole = [group_name(group.group) for group in model.groups]
    cut = cut_names(whole, layout.longest_name)
    worst = worst_loss(model)
    lines = []
    for index, group in enumerate(model.groups):
        figures = figures_of(model, group)
        name, above = ("", f"  {whole[index]}") if cut is None else (cut[index], "")
        lines.append(_line(name, above, figures, layout, figures[_LOSS - 1] == worst))
    if len(model.groups) > 1:
        lines.append(_line("disparity", "", disparity_of(model), layout))
    return lines


def _line(
    name: str, above: str, figures: Sequence[str], layout: _Layout, is_worst: bool = False
) -> _Line:
    if layout.short_exponents:
        figures = [re.sub(r"e\+?(-?)0*(?=\d)", r"e\1", figure) for figure in figures]
    cells = (f"  {name}", *figures)
    has_below = layout.interval_below and cells[_INTERVAL] != "-"
    below = f"95 %: {cells[_INTERVAL]}" if has_below else ""
    return _Line(above, _in_columns(cells, layout), below, is_worst)


def _in_columns(cells: Sequence[str], layout: _Layout) -> tuple[str, ...]:
    if layout.interval_below:
        return (*cells[:_INTERVAL], *cells[_INTERVAL + 1 :])
    return tuple(cells)


def _laid_out(cells: Sequence[str], widths: Sequence[int], paint: Paint = plain) -> str:
    """Names to the left, figures to the right; a painter colours the loss."""
    name, *figures = (
        (cell, " " * (width - terminal_width(cell)))
        for cell, width in zip(cells, widths, strict=True)
    )
    loss = len(cells) - (len(HEADINGS) - _LOSS)
    padded = [
        pad + (paint(cell, "worst") if index == loss else cell)
        for index, (cell, pad) in enumerate(figures, start=1)
    ]
    return " ".join([name[0] + name[1], *padded]).rstrip()
