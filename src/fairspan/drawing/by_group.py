"""Pictures of one row for each group: audited models, and variance kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairspan.drawing.labels import (
    BEST,
    FAINT,
    FAIR,
    PLAIN,
    Axes,
    for_legend,
    head,
    labels_within,
    other_look,
    rows_size,
    set_rows,
    width_of,
)
from fairspan.drawing.layout import plain_numbers, set_shares
from fairspan.drawing.picture import Picture
from fairspan.formatting.text import count, label_of, percent, spoken
from fairspan.typing import FloatArray

AuditQuantity = Literal["expected loss", "error", "loss", "variance kept"]

_TITLES = {
    "error": "Reconstruction error of each group under each model",
    "loss": "Excess loss of each group: its error beyond that of its own best subspace",
    "variance kept": "The share of each group's variance that each model keeps",
}
_LABELS = {
    "error": "reconstruction error",
    "loss": "excess loss",
    "variance kept": "share of the group's variance that is kept",
}
# Share of a row that its models take; inches of a row, and of each model in it.
_SPREAD = 0.66
_AUDIT_ROW, _OF_MODEL = 0.22, 0.14


@dataclass(eq=False)
class AuditPicture(Picture):
    """A figure of every group under every model, with intervals where there are.

    Attributes
    ----------
    groups : tuple of k str
    models : tuple of m str
    values : (m, k) array
        NaN where there is none.
    low, high : (m, k) arrays or None
        Ends of the intervals; NaN where there is none.
    plain : tuple of int
        Positions of the models that are ordinary PCA.
    quantity : {"expected loss", "error", "loss", "variance kept"}
    level : float
        Level of the intervals.
    """

    groups: tuple[str, ...]
    models: tuple[str, ...]
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    plain: tuple[int, ...] = ()
    quantity: AuditQuantity = "error"
    level: float = 0.95

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups, _AUDIT_ROW + _OF_MODEL * len(self.models))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group."""
        none = np.full(self.values.shape, np.nan)
        models, groups = (each.ravel() for each in np.indices(self.values.shape))
        return {
            "model": [self.models[i] for i in models],
            "group": [self.groups[g] for g in groups],
            self.quantity: self.values.ravel().tolist(),
            "low": (none if self.low is None else self.low).ravel().tolist(),
            "high": (none if self.high is None else self.high).ravel().tolist(),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        handles = [self._draw_model(axes, i) for i in range(len(self.models))]
        if self.quantity == "variance kept":
            set_shares(axes, self.values)
        else:
            # Their size is seen, not only their difference.
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]) if self.quantity == "error" else None)
            plain_numbers((axes,), "x")
        axes.set_xlabel(_LABELS[self.quantity])
        beside = set_rows(axes, self.groups)
        labels = labels_within(axes, self.models, width_of(axes) / 2.5, 10)
        note = "" if self.low is None else f"Lines are {percent(self.level)} confidence intervals."
        head(axes, _TITLES[self.quantity], handles, labels, note=note, beside=beside)
        return (axes,)

    def _draw_model(self, axes: Axes, i: int) -> Any:
        m, is_plain = len(self.models), i in self.plain
        rows = np.arange(len(self.groups)) + (i - (m - 1) / 2) * _SPREAD / m
        # Ordinary PCA has a look of its own, which no other model gets.
        own = PLAIN if is_plain else other_look(i - sum(each < i for each in self.plain))
        if self.low is not None and self.high is not None:
            axes.hlines(rows, self.low[i], self.high[i], color=own.colour, linewidth=2)
        (marks,) = axes.plot(
            self.values[i],
            rows,
            own.marker,
            color=own.colour,
            markerfacecolor="white" if is_plain else own.colour,
            markersize=7.5 if is_plain else 6.5,
            markeredgewidth=2 if is_plain else 1,
            gid=f"model-{i}",
        )
        return marks


@dataclass(eq=False)
class VarianceKeptPicture(Picture):
    """The share of each group's variance that PCA keeps, a fair criterion, and the best possible.

    Attributes
    ----------
    groups : tuple of k str
    plain, fair, best : (k,) arrays
        From 0 to 1; NaN for a group without variance.
    n_components : int
    name : str
        The criterion's.
    """

    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    best: FloatArray
    n_components: int
    name: str = "fair"

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each group."""
        return {
            "group": list(self.groups),
            "PCA": self.plain.tolist(),
            self.name: self.fair.tolist(),
            "best possible": self.best.tolist(),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        rows = np.arange(len(self.groups))
        axes.hlines(rows, self.plain, self.fair, color=FAINT, linewidth=2.5, zorder=1)
        (best,) = axes.plot(
            self.best, rows, "|", color=BEST.colour, markersize=17, markeredgewidth=2.2
        )
        (fair,) = axes.plot(self.fair, rows, FAIR.marker, color=FAIR.colour, markersize=8)
        (plain,) = axes.plot(
            self.plain,
            rows,
            PLAIN.marker,
            color=PLAIN.colour,
            markersize=11,
            fillstyle="none",
            markeredgewidth=2.2,
        )
        axes.set_xlabel("share of the group's variance that is kept")
        set_shares(axes, np.concatenate([self.plain, self.fair, self.best]))
        beside = set_rows(axes, self.groups)
        labels = ["PCA", label_of(spoken(self.name)), "the group's own best subspace"]
        dimensions = count(self.n_components, "dimension")
        title = f"The share of each group's variance that {dimensions} can keep"
        head(axes, title, for_legend([plain, fair, best]), labels, beside=beside)
        return (axes,)
