"""Losses of k groups, and the bound that no subspace can beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.drawing.heading import head
from fairspan.drawing.layout import plain_numbers
from fairspan.drawing.palette import FAIR, INK, PLAIN
from fairspan.drawing.picture import Picture
from fairspan.drawing.rows import rows_size, set_rows
from fairspan.formatting.names import label_of, spoken
from fairspan.formatting.numbers import axis_number
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ROW, _BAR = 0.46, 0.38


@dataclass(eq=False)
class GroupLossPicture(Picture):
    """What each group loses against its own best subspace, under PCA and a criterion.

    Attributes
    ----------
    groups : tuple of k str
    plain, fair : (k,) arrays
        Excess losses of ordinary PCA and of the criterion.
    n_components : int
    name : str
        The criterion's.
    bound : float or None
        No subspace has a smaller largest loss; None where the criterion proves no such thing.
    status : str
        How the fit ended: "optimal", "estimated", "open gap" or "unresolved".
    """

    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    n_components: int
    name: str = "fair"
    bound: float | None = None
    status: str = "optimal"

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups, _ROW)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each group; the bound is the same in all."""
        bound = np.nan if self.bound is None else self.bound
        return {
            "group": list(self.groups),
            "PCA": self.plain.tolist(),
            self.name: self.fair.tolist(),
            "bound": [bound] * len(self.groups),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        rows = np.arange(len(self.groups))
        plain = axes.barh(
            rows - _BAR / 2,
            self.plain,
            _BAR,
            facecolor="white",
            edgecolor=PLAIN.colour,
            hatch=PLAIN.hatch,
        )
        fair = axes.barh(
            rows + _BAR / 2, self.fair, _BAR, facecolor=FAIR.colour, edgecolor=FAIR.colour
        )
        handles: list[Any] = [plain, fair]
        labels = ["PCA", label_of(spoken(self.name))]
        if self.bound is not None:
            handles.append(axes.axvline(self.bound, color=INK, linewidth=1.6, gid="bound"))
            is_proven = self.status != "estimated"
            labels.append("no largest loss can be less" if is_proven else "estimated least")
        axes.set_xlabel("excess loss of the group")
        beside = set_rows(axes, self.groups)
        axes.set_xlim(left=0)
        plain_numbers((axes,), "x")
        head(axes, self._title(), handles, labels, note=self._note(), beside=beside)
        return (axes,)

    def _title(self) -> str:
        d = self.n_components
        own = "its own best dimension" if d == 1 else f"its own best {d} dimensions"
        return f"What each group loses against {own}"

    def _note(self) -> str:
        """What is proven of the largest loss."""
        name = label_of(spoken(self.name))
        if self.bound is None:
            return f"{name} minimises something else, so it proves nothing about the largest loss."
        if self.status == "optimal":
            return f"Proven: no subspace has a smaller largest loss than {name}."
        if self.status == "estimated":
            return "The line is an estimate: eigenvectors found by iteration prove no bound."
        if self.status == "unresolved":
            return "The gap to the line is no larger than double precision can tell of these data."
        above = axis_number(float(f"{self.fair.max() - self.bound:.3g}"))
        return f"Open gap: a largest loss smaller by up to {above} is not ruled out."
