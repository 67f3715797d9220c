"""Moments computed where an array lies; only means and scatters leave the device.

Nothing here waits for the device, so that it never waits for the host: that all was finite shows in
the sums at the end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.moments.device.groups import OwnRows
from fairspan.moments.one_group import OneGroup
from fairspan.rows.device.place import Place, on_host, spans
from fairspan.rows.groups import Label
from fairspan.rows.protocol import FloatArray

_FEWEST_BLOCK_ROWS = 512
# A library multiplies matrices in tiles of about this many rows and columns.
_TILE = 128


@dataclass(frozen=True)
class BlockPlan:
    """How much a device is given to do at once.

    Attributes
    ----------
    numbers : int
        Numbers in one block, which takes eight bytes each (twice that with weights).
    chunk_rows : int
        Rows that are sorted by group at once.
    tiles : int
        Tiles of a product that should be under way at once. Few columns make few tiles, and would
        leave most of a GPU idle, so that their rows are multiplied in several strips side by side.
    """

    numbers: int
    chunk_rows: int
    tiles: int

    @classmethod
    def for_place(cls, place: Place) -> "BlockPlan":
        """Blocks that stay in the cache of a CPU, or that keep a GPU busy in 128 MB."""
        return cls(2**18, 2**16, 1) if place.is_cpu else cls(2**24, 2**22, 128)

    def block_rows(self, n_features: int) -> int:
        """Rows of one block."""
        return max(self.numbers // n_features, _FEWEST_BLOCK_ROWS)

    def strips(self, n_features: int) -> int:
        """Strips of rows that are multiplied side by side."""
        return max(self.tiles // (-(-n_features // _TILE)) ** 2, 1)


class DeviceMoments:
    """Moments of all groups so far.

    Parameters
    ----------
    place : Place
    plan : BlockPlan
    n_features : int
    """

    def __init__(self, place: Place, plan: BlockPlan, n_features: int) -> None:
        self._place, self._plan, self._n_features = place, plan, n_features
        self._groups: dict[int, _Group] = {}
        self._unweighted: Any = place.xp.zeros((), dtype=place.xp.float64, device=place.device)

    def absorb(self, chunk: Any, parts: Iterable[OwnRows]) -> None:
        """Add consecutive rows, of which each group's are known."""
        for part in parts:
            for rows, weights in self._blocks(chunk, part):
                if part.code is None:
                    self._unweighted = self._unweighted + self._place.xp.sum(rows)
                    continue
                if part.code not in self._groups:
                    strips = self._plan.strips(self._n_features)
                    self._groups[part.code] = _Group(self._place, strips, rows[0, :])
                self._groups[part.code].absorb(rows, weights)

    def _blocks(self, chunk: Any, part: OwnRows) -> Iterator[tuple[Any, FloatArray | None]]:
        size = self._plan.block_rows(self._n_features)
        for own in spans(part.count, size):
            if part.rows is None:
                rows = chunk[own, :]
            else:
                rows = self._place.xp.take(chunk, part.rows[own], axis=0)
            if part.code is None:
                rows = self._place.float64(rows)
            yield rows, None if part.weights is None else part.weights[own]

    def finished(self, labels: list[Label]) -> tuple[list[OneGroup], bool]:
        """The groups by code, and whether all numbers were finite."""
        parts = [group.finished(labels[code]) for code, group in self._groups.items()]
        sums = [self._place.finite(self._unweighted)]
        sums += [bool(np.isfinite(part.mean).all()) for part in parts]
        return parts, all(sums)


class _Group:
    """Moments of one group so far.

    The mean is a point, at first the group's first row, plus what is missing to it, so that a large
    common offset costs no digits. Each block is centred on the mean so far: what is left of its own
    mean is small, and is taken out of the products rather than out of the rows, which saves a pass
    over them.
    """

    def __init__(self, place: Place, strips: int, pilot: Any) -> None:
        self._place, self._strips = place, strips
        self._pilot = place.float64(pilot)
        self._mean = self._pilot * 0.0
        self._scatter: Any = 0.0
        self._count, self._weight = 0, 0.0

    def absorb(self, rows: Any, row_weights: FloatArray | None) -> None:
        """Add a block of rows; all weights are positive."""
        xp, place = self._place.xp, self._place
        centre = self._pilot + self._mean
        left = self._mean - (centre - self._pilot)  # what rounding left out of the centre
        rows = place.minus(rows, centre)
        if row_weights is None:
            weight = float(rows.shape[0])
            mean = xp.sum(rows, axis=0) / weight
        else:
            weight = float(row_weights.sum())
            mean = xp.matmul(place.constant(row_weights / weight), rows)
        delta = mean - left
        heavier = weight > self._weight
        if heavier:  # the mean so far may be far off, and products about it would cost digits
            rows = rows - mean
        if row_weights is not None:
            rows = rows * place.constant(np.sqrt(row_weights))[:, None]
        total = self._weight + weight
        between = self._weight * (weight / total)
        scatter = self._products(rows) + between * _outer(delta)
        self._scatter = self._scatter + (scatter if heavier else scatter - weight * _outer(mean))
        self._pilot, self._mean = centre, left + (weight / total) * delta
        self._weight, self._count = total, self._count + rows.shape[0]

    def _products(self, rows: Any) -> Any:
        """rows' rows, (p, p)."""
        xp, (n_rows, p) = self._place.xp, rows.shape
        strips = self._strips if n_rows >= self._strips * _FEWEST_BLOCK_ROWS else 1
        if strips == 1:
            return xp.matmul(xp.matrix_transpose(rows), rows)
        even = n_rows - n_rows % strips
        stack = xp.reshape(rows[:even, :], (strips, even // strips, p))
        products = xp.sum(xp.matmul(xp.matrix_transpose(stack), stack), axis=0)
        if even < n_rows:
            rest = rows[even:, :]
            products = products + xp.matmul(xp.matrix_transpose(rest), rest)
        return products

    def finished(self, label: Label) -> OneGroup:
        """The group's moments, on the host."""
        lower = np.tril(on_host(self._scatter))
        mean = on_host(self._pilot) + on_host(self._mean)
        return OneGroup(label, self._count, self._weight, mean, lower + np.tril(lower, -1).T)


def _outer(vector: Any) -> Any:
    return vector[:, None] * vector[None, :]
