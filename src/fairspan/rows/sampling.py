"""A random sample of rows, drawn in one pass, for a first look."""

from dataclasses import dataclass, replace

import numpy as np

from fairspan.errors import InvalidParameter
from fairspan.rows.arrays import RowsInMemory
from fairspan.rows.checks import check_columns
from fairspan.rows.groups import CodedLabels, LabelCoder
from fairspan.rows.labels import Labels
from fairspan.rows.protocol import RowBlock, RowSource
from fairspan.typing import AnyArray, FloatArray

# Arrays of the same rows: keys and values, with codes and weights where rows have them.
_Part = dict[str, AnyArray]


@dataclass(frozen=True, eq=False)
class SampledRows(RowsInMemory):
    """Rows in memory that were drawn from more rows.

    Attributes
    ----------
    values : (n, p) array
    names : tuple of str or None
        Of the features.
    drawn_from : int or None
        Number of rows they were drawn from; None if all of them are in.
    n_dropped : int
        Rows left out before since something is missing in them.
    """

    values: FloatArray
    names: tuple[str, ...] | None
    drawn_from: int | None = None
    n_dropped: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return self.values.shape

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return self.names

    def selected(self, names: tuple[str, ...]) -> "SampledRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A feature that the rows do not have.
        """
        own = self.names or ()
        check_columns(names, own)
        columns = [own.index(name) for name in names]
        return replace(self, values=self.values[:, columns], names=names)

    def between(self, start: int, stop: int) -> FloatArray:
        """Some rows."""
        return self.values[start:stop]


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
    return reservoir.finished(rows)


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

    def finished(self, rows: RowSource) -> SampledRows:
        """The sample of these rows."""
        kept = self._make_room() if self._kept else _no_rows(self._n_features)
        labels = None
        if "codes" in kept:
            coded = CodedLabels(self._coder.labels, kept["codes"])
            columns = tuple(getattr(rows, "group_columns", ()))
            labels = Labels(len(coded), lambda start, stop: coded[start:stop], columns)
        return SampledRows(
            kept["values"],
            rows.feature_names,
            self._n_read if self._n_read > self._size else None,
            self._n_dropped,
            labels=labels,
            weights=kept.get("weights"),
        )


def _no_rows(n_features: int) -> _Part:
    return {"values": np.empty((0, n_features))}
