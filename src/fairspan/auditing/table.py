"""Figures as one text table that fits a terminal of 80 columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from fairspan.auditing.expected_losses import LEVEL, Estimate
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.formatting.text import (
    Paint,
    aligned,
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
    names = [[group_name(group.group) for group in model.groups] for model in models]
    figures = [[figures_of(model, g, decimals, columns) for g in model.groups] for model in models]
    for model, own in zip(models, figures, strict=True):
        if len(own) > 1:
            own.append(disparity_of(model, decimals, columns))
    for below, longest in _LAYOUTS:
        cut = [cut_names(whole, longest) for whole in names]
        rows: list[Sequence[str]] = [columns.headings]
        for whole, short, own in zip(names, cut, figures, strict=True):
            first = [*(short or [""] * len(whole)), "disparity"][: len(own)]
            rows += [(f"  {name}", *cells) for name, cells in zip(first, own, strict=True)]
        if below:
            rows = [(*cells[:_INTERVAL], *cells[_INTERVAL + 1 :]) for cells in rows]
        needed = max(map(terminal_width, aligned(rows, gap=" ")))
        if needed <= width:
            break
    worst = [
        i in found
        for model, own in zip(models, figures, strict=True)
        for found in [_worst(model, columns)]
        for i in range(len(own))
    ]
    loss = columns.loss - (below and columns.loss > _INTERVAL)
    heading, *lines = aligned(
        rows,
        gap=" ",
        shown=lambda row, column, cell: (
            paint(cell, "worst") if row and column == loss and worst[row - 1] else cell
        ),
    )
    # Where intervals have lines of their own, these end where the figure ends that they belong to.
    end = max(map(terminal_width, aligned([cells[:_INTERVAL] for cells in rows], gap=" ")))
    text = [*wrapped(columns.note, width), "", heading] if columns.note else [heading]
    left = iter(lines)
    for model, whole, short, own in zip(models, names, cut, figures, strict=True):
        text += ["-" * needed, *wrapped(heading_of(model, n_features), width, "  ")]
        for i, cells in enumerate(own):
            if short is None and i < len(whole):
                text += wrapped(f"  {whole[i]}", width, "    ")
            text.append(next(left))
            if below and cells[_INTERVAL - 1] not in ("-", ""):
                text.append(f"{percent(columns.level)}: {cells[_INTERVAL - 1]}".rjust(end))
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


def _worst(model: ModelAudit, columns: Columns) -> set[int]:
    """Positions of the groups that are harmed; without estimates, of those that lose most."""
    if columns.expected:
        return {i for i, group in enumerate(model.groups) if group.state == "harmed"}
    losses = [max(group.excess_loss, model.rounding) for group in model.groups]
    most = max(losses) * (1 - _ALIKE)
    found = {i for i, loss in enumerate(losses) if loss >= most}
    return found if len(found) < len(losses) else set()
