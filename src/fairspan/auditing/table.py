"""Figures as one text table that fits a terminal of 80 columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from fairspan.auditing.expected_losses import LEVEL, Estimate
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.formatting.text import (
    Paint,
    cut_names,
    decimals_of,
    figure,
    in_ascii,
    interval,
    percent,
    plain,
    share,
    terminal_width,
    wrapped,
)
from fairspan.rows.groups import printable

WIDTH = 80
_ON_ROWS = ("group", "rows", "variance", "error", "{} interval", "best", "loss", "kept")
_ON_NEW_ROWS = ("group", "rows", "error", "loss", "{} interval", "here", "kept", "state")
_ABOUT = {
    "global": "errors about the mean of all rows",
    "group": "errors about each group's own mean",
    "none": "errors about the origin",
}

# The column of intervals.
_INTERVAL = 4


@dataclass(frozen=True)
class Columns:
    """Which figures the table has: those of new rows where these are known.

    Attributes
    ----------
    expected : bool
        Whether they are about new rows.
    level : float
        Level of the intervals.
    """

    expected: bool
    level: float = LEVEL

    @classmethod
    def of(cls, models: Sequence[ModelAudit], level: float = LEVEL) -> "Columns":
        """Those of an audit."""
        return cls(any(model.has_estimates for model in models), level)

    @property
    def headings(self) -> tuple[str, ...]:
        """One for each column."""
        names = _ON_NEW_ROWS if self.expected else _ON_ROWS
        return tuple(name.format(percent(self.level)) for name in names)

    @property
    def loss(self) -> int:
        """The column whose largest figure stands out."""
        return 3 if self.expected else 6

    @property
    def note(self) -> str:
        """What the columns are about."""
        return (
            "Error and loss are those expected on new rows, with the interval of the loss; 'here' "
            "is the loss on these rows. States hold for all groups at once."
            if self.expected
            else ""
        )


# How a table is made narrower: whether intervals have lines of their own, and the longest name.
# Intervals get lines of their own before names are cut very short.
_LAYOUTS = [*product((False, True), (32, 18, 15)), (False, 11), (True, 11)]
# Losses that differ by less than this share are the same.
_ALIKE = 1e-6
# Of each column of figures, by its heading.
Decimals = Mapping[str, int | None]


def table_of(
    models: Sequence[ModelAudit],
    n_features: int,
    width: int = WIDTH,
    paint: Paint = plain,
    level: float = LEVEL,
) -> str:
    """Under each model, one line for each group and one for the disparity.

    Columns: rows of the group; the error and loss expected on new rows, the loss on these rows, the
    share of variance kept and the state. Without estimates for new rows: total variance, error with
    its interval, the best error any subspace of the same dimension has on the group, the excess
    loss, and the share of variance kept. What is too wide gets shorter names, or each interval on
    its own line; names that would look the same when cut stand above their figures.
    """
    decimals, columns = decimals_in(models), Columns.of(models, level)
    for below, longest in _LAYOUTS:
        parts = [_lines_of(model, longest, decimals, columns, below=below) for model in models]
        headings = _without_interval(columns.headings) if below else columns.headings
        rows = [headings, *(line.cells for lines in parts for line in lines)]
        widths = [max(map(terminal_width, column)) for column in zip(*rows, strict=True)]
        if sum(widths) + len(widths) - 1 <= width:
            break
    text = [*wrapped(columns.note, width, ""), "", _laid_out(headings, widths, columns)]
    text = text if columns.note else text[-1:]
    for model, lines in zip(models, parts, strict=True):
        text.append("-" * (sum(widths) + len(widths) - 1))
        text += wrapped(heading_of(model, n_features), width, "  ")
        for line in lines:
            text += line.laid_out(widths, width, paint, columns)
    return "\n".join(text)


def heading_of(model: ModelAudit, n_features: int) -> str:
    """What the figures of a model are about."""
    return (
        f"{printable(model.name)}: {model.n_components} of {n_features} dimensions, "
        f"{_ABOUT[model.center]}{', scaled' if model.scaled else ''}"
    )


def decimals_in(models: Sequence[ModelAudit]) -> Decimals:
    """Decimals of variances, of errors with their intervals, and of losses, in all models."""
    groups = [group for model in models for group in model.groups]
    errors = [value for group in groups for value in (group.error.value, group.best_error)]
    losses = [group.excess_loss for group in groups]
    losses += [abs(group.expected.loss.value) for group in groups if group.expected is not None]
    return {
        "variance": decimals_of(group.total_variance for group in groups),
        "error": decimals_of(errors),
        "loss": decimals_of(losses),
    }


def figures_of(
    model: ModelAudit, group: GroupAudit, decimals: Decimals, columns: Columns
) -> tuple[str, ...]:
    """The cells of a group beside its name, in the order of the headings."""
    kept = in_ascii(share(group.variance_kept))
    here = _shown(group.excess_loss, model, decimals["loss"])
    if not columns.expected:
        return (
            str(group.n or "-"),
            figure(group.total_variance, decimals["variance"]),
            _shown(group.error.value, model, decimals["error"]),
            _interval(group.error, decimals["error"]),
            _shown(group.best_error, model, decimals["error"]),
            here,
            kept,
        )
    if group.expected is None:
        return (str(group.n or "-"), "-", "-", "-", here, kept, group.state)
    return (
        str(group.n or "-"),
        _shown(group.expected.error.value, model, decimals["error"]),
        _shown(group.expected.loss.value, model, decimals["loss"]),
        _interval(group.expected.loss, decimals["loss"]),
        here,
        kept,
        group.state,
    )


def disparity_of(model: ModelAudit, decimals: Decimals, columns: Columns) -> tuple[str, ...]:
    """The same of the disparity; empty where it has no figure."""
    value = _shown(model.disparity.value, model, decimals["error"])
    ends = _interval(model.disparity, decimals["error"])
    return (
        ("", value, "", ends, "", "", "") if columns.expected else ("", "", value, ends, "", "", "")
    )


def _interval(estimate: Estimate, decimals: int | None) -> str:
    """Both ends, or a dash where there are none."""
    return in_ascii(interval(estimate.low, estimate.high, decimals)) or "-"


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

    def laid_out(
        self, widths: Sequence[int], width: int, paint: Paint, columns: Columns
    ) -> list[str]:
        lines = wrapped(self.above, width, "    ")
        lines.append(_laid_out(self.cells, widths, columns, paint if self.is_worst else plain))
        if self.below:
            # It ends where the figure ends to which it belongs.
            lines.append(self.below.rjust(sum(widths[:_INTERVAL]) + _INTERVAL - 1))
        return lines


def _lines_of(
    model: ModelAudit, longest_name: int, decimals: Decimals, columns: Columns, *, below: bool
) -> list[_Line]:
    whole = [group_name(group.group) for group in model.groups]
    cut, worst = cut_names(whole, longest_name), _worst(model, columns)
    names = [("", f"  {name}") for name in whole] if cut is None else [(name, "") for name in cut]
    figures = [figures_of(model, group, decimals, columns) for group in model.groups]
    if len(model.groups) > 1:
        names.append(("disparity", ""))
        figures.append(disparity_of(model, decimals, columns))
    lines = []
    for i, ((name, above), own) in enumerate(zip(names, figures, strict=True)):
        cells = (f"  {name}", *own)
        has_ends = below and cells[_INTERVAL] != "-"
        under = f"{percent(columns.level)}: {cells[_INTERVAL]}" if has_ends else ""
        lines.append(_Line(above, _without_interval(cells) if below else cells, under, i in worst))
    return lines


def _worst(model: ModelAudit, columns: Columns) -> set[int]:
    """Positions of the groups that are harmed; without estimates, of those that lose most."""
    if columns.expected:
        return {i for i, group in enumerate(model.groups) if group.state == "harmed"}
    losses = [max(group.excess_loss, model.rounding) for group in model.groups]
    most = max(losses) * (1 - _ALIKE)
    found = {i for i, loss in enumerate(losses) if loss >= most}
    return found if len(found) < len(losses) else set()


def _without_interval(cells: Sequence[str]) -> tuple[str, ...]:
    return (*cells[:_INTERVAL], *cells[_INTERVAL + 1 :])


def _laid_out(
    cells: Sequence[str], widths: Sequence[int], columns: Columns, paint: Paint = plain
) -> str:
    """Names to the left, figures to the right; a painter colours the loss."""
    name, *figures = (
        (cell, " " * (width - terminal_width(cell)))
        for cell, width in zip(cells, widths, strict=True)
    )
    loss = columns.loss
    if len(cells) < len(columns.headings) and loss > _INTERVAL:
        loss -= 1
    padded = [
        pad + (paint(cell, "worst") if index == loss else cell)
        for index, (cell, pad) in enumerate(figures, start=1)
    ]
    return " ".join([name[0] + name[1], *padded]).rstrip()
