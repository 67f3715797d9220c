"""A random sample of rows, drawn in one pass, for a first look."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.rows.groups import CodedLabels, Label, LabelCoder, listed
from fairspan.rows.protocol import (
    NamedGroups,
    RowBlock,
    RowSource,
    block_rows,
)
from fairspan.typing import FloatArray

# Arrays of the same rows: keys and values, with codes and weights where rows have them.
_Part = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows in memory that were drawn from more rows.

    Attributes
    ----------
    values : (n, p) array
    codes : (n,) array of int, or None
        Position of each row's label among `labels`.
    labels : tuple of labels
    weights : (n,) array or None
    feature_names : tuple of str or None
    drawn_from : int or None
        Number of rows they were drawn from; None if all of them are in.
    n_dropped : int
        Rows left out before since something is missing in them.
    group_columns : tuple of names
        Columns that make the groups; none where they have no names.
    """

    values: FloatArray
    codes: npt.NDArray[np.intp] | None
    labels: tuple[Label, ...]
    weights: FloatArray | None
    feature_names: tuple[str, ...] | None
    drawn_from: int | None = None
    n_dropped: int = 0
    group_columns: tuple[Any, ...] = ()

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return int(self.values.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def selected(self, names: tuple[str, ...]) -> "SampledRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A feature that the rows do not have.
        """
        own = self.feature_names or ()
        missing = [name for name in names if name not in own]
        if missing:
            raise InvalidInput(
                f"The sampled rows have no feature {listed(missing)}",
                f"Their features are {listed(own)}",
                "Select the features before sampling",
            )
        columns = [own.index(name) for name in names]
        return replace(self, values=self.values[:, columns], feature_names=names)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size = block_rows(self.n_features)
        # A block even of no rows, as it may tell of rows that were left out.
        for start in range(0, max(self.n_rows, 1), size):
            own = slice(start, start + size)
            yield RowBlock(
                start,
                self.values[own],
                None if self.codes is None else CodedLabels(list(self.labels), self.codes[own]),
                None if self.weights is None else self.weights[own],
                self.n_dropped if start == 0 else 0,
            )


def sampled(rows: RowSource, size: int, seed: int = 0) -> SampledRows:
    """Draw rows without replacement, each with the same chance, in one pass.

    Each row is given a random key, and those of the smallest keys are kept: the same rows in the
    same order give the same sample, in whatever blocks they are read. Rows of weight zero count as
    absent. Memory is that of the sample and a block.

    Parameters
    ----------
    rows : RowSource
    size : int
        Rows to draw; if there are fewer, all of them are kept.
    seed : int

    Returns
    -------
    SampledRows
        In the order of the rows.

    Raises
    ------
    InvalidParameter
        A sample of less than one row.
    InvalidInput
        Whatever the source finds wrong with its rows, drawn or not.
    """
    if size < 1:
        raise InvalidParameter(
            f"A sample of {size} rows was asked for", "Allowed is at least one", "Ask for more"
        )
    reservoir = _Reservoir(rows.n_features, size, seed)
    for block in rows.blocks():
        reservoir.absorb(block)
    names = rows.group_columns if isinstance(rows, NamedGroups) else ()
    return replace(reservoir.finished(rows.feature_names), group_columns=names)


class _Reservoir:
    """The rows of the smallest keys so far, and others that were kept until room is made."""

    def __init__(self, n_features: int, size: int, seed: int) -> None:
        self._size = size
        self._random = np.random.default_rng(seed)
        self._coder = LabelCoder()
        self._n_features = n_features
        self._n_read = 0
        self._n_dropped = 0
        self._largest_key = np.inf
        self._kept: list[_Part] = []

    def absorb(self, block: RowBlock) -> None:
        """Offer a block of rows."""
        self._n_dropped += block.n_dropped
        present = np.arange(len(block.values))
        if block.weights is not None:
            present = np.flatnonzero(block.weights)
        keys = self._random.random(len(present))
        self._n_read += len(present)
        chosen = keys < self._largest_key
        rows = present[chosen]
        part: _Part = {"keys": keys[chosen], "values": block.values[rows]}
        if block.labels is not None:
            # Of all rows, so that a bad label is found whether or not it is drawn.
            part["codes"] = self._coder.encode(block.labels, block.first_row)[rows]
        if block.weights is not None:
            part["weights"] = block.weights[rows]
        self._kept.append(part)
        if sum(len(each["keys"]) for each in self._kept) > self._size + len(block.values):
            self._make_room()

    def _make_room(self) -> _Part:
        """Keep the rows of the smallest keys, in their order."""
        joined = {
            name: np.concatenate([part[name] for part in self._kept]) for name in self._kept[0]
        }
        smallest = np.sort(np.argsort(joined["keys"], kind="stable")[: self._size])
        joined = {name: array[smallest] for name, array in joined.items()}
        if len(smallest) == self._size:
            self._largest_key = joined["keys"].max()
        self._kept = [joined]
        return joined

    def finished(self, feature_names: tuple[str, ...] | None) -> SampledRows:
        """The sample."""
        kept = self._make_room() if self._kept else _no_rows(self._n_features)
        return SampledRows(
            kept["values"],
            kept.get("codes"),
            tuple(self._coder.labels),
            kept.get("weights"),
            feature_names,
            self._n_read if self._n_read > self._size else None,
            self._n_dropped,
        )


def _no_rows(n_features: int) -> _Part:
    return {"values": np.empty((0, n_features))}
