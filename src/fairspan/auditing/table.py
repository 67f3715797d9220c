"""Figures as one text table that fits a terminal of 80 columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.formatting.numbers import decimals_of, figure, in_ascii, interval, share
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
    """How a table is made narrower: shorter names, and the interval on its own line."""

    longest_name: int
    interval_below: bool


# From the best to the narrowest.
_LAYOUTS = [_Layout(longest, below) for below, longest in product((False, True), (18, 15, 11))]
# Of each column of figures, by its heading.
Decimals = Mapping[str, int | None]


def table_of(
    models: Sequence[ModelAudit], n_features: int, width: int = WIDTH, paint: Paint = plain
) -> str:
    """Under each model, one line for each group and one for the disparity.

    Columns: rows of the group, its total variance, its error with the interval, the best error any
    subspace of the same dimension has on it, the excess loss, and the share of variance kept. What
    is too wide gets shorter names, or each interval on its own line; names that would look the same
    when cut stand above their figures.
    """
    decimals = decimals_in(models)
    for layout in _LAYOUTS:
        parts = [_lines_of(model, layout, decimals) for model in models]
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


def decimals_in(models: Sequence[ModelAudit]) -> Decimals:
    """Decimals of variances, of errors with their intervals, and of losses, in all models."""
    groups = [group for model in models for group in model.groups]
    errors = [value for group in groups for value in (group.error.value, group.best_error)]
    return {
        "variance": decimals_of(group.total_variance for group in groups),
        "error": decimals_of(errors),
        "loss": decimals_of(group.excess_loss for group in groups),
    }


def figures_of(model: ModelAudit, group: GroupAudit, decimals: Decimals) -> tuple[str, ...]:
    """The cells of a group beside its name, in the order of the headings."""
    return (
        str(group.n),
        figure(group.total_variance, decimals["variance"]),
        _shown(group.error.value, model, decimals["error"]),
        _interval(group.error, decimals),
        _shown(group.best_error, model, decimals["error"]),
        _shown(group.excess_loss, model, decimals["loss"]),
        in_ascii(share(group.variance_kept)),
    )


def disparity_of(model: ModelAudit, decimals: Decimals) -> tuple[str, ...]:
    """The same of the disparity; empty where it has no figure."""
    value = _shown(model.disparity.value, model, decimals["error"])
    return ("", "", value, _interval(model.disparity, decimals), "", "", "")


def _interval(estimate: Estimate, decimals: Decimals) -> str:
    """Both ends, or a dash where there are none."""
    return in_ascii(interval(estimate.low, estimate.high, decimals["error"])) or "-"


def _shown(value: float, model: ModelAudit, decimals: int | None) -> str:
    """Zero for what is only rounding: it says nothing, and its exponent widens the table."""
    return figure(0.0 if abs(value) <= model.rounding else value, decimals)


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


def _lines_of(model: ModelAudit, layout: _Layout, decimals: Decimals) -> list[_Line]:
    whole = [group_name(group.group) for group in model.groups]
    cut = cut_names(whole, layout.longest_name)
    figures = [figures_of(model, group, decimals) for group in model.groups]
    losses = {each[_LOSS - 1] for each in figures}
    worst = _shown(model.largest_loss, model, decimals["loss"]) if len(losses) > 1 else None
    lines = []
    for index, each in enumerate(figures):
        name, above = ("", f"  {whole[index]}") if cut is None else (cut[index], "")
        lines.append(_line(name, above, each, layout, each[_LOSS - 1] == worst))
    if len(model.groups) > 1:
        lines.append(_line("disparity", "", disparity_of(model, decimals), layout))
    return lines


def _line(
    name: str, above: str, figures: Sequence[str], layout: _Layout, is_worst: bool = False
) -> _Line:
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
