"""A random sample of rows, drawn in one pass, for a first look."""

from dataclasses import dataclass, replace

import numpy as np

from fairspan.errors import InvalidParameter
from fairspan.rows.arrays import RowsInMemory
from fairspan.rows.checks import check_columns
from fairspan.rows.coded_labels import CodedLabels, LabelCoder
from fairspan.rows.labels import Labels
from fairspan.rows.protocol import RowSource
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
            f"A sample of {size} rows was requested", "Allowed: at least one", "Choose more rows"
        )
    random, coder = np.random.default_rng(seed), LabelCoder()
    n_read = n_dropped = 0
    largest_key = np.inf
    kept: list[_Part] = []
    for block in rows.blocks():
        n_dropped += block.n_dropped
        present = np.arange(len(block.values))
        if block.weights is not None:
            present = np.flatnonzero(block.weights)
        keys = random.random(len(present))
        n_read += len(present)
        chosen = present[keys < largest_key]
        part: _Part = {"keys": keys[keys < largest_key], "values": block.values[chosen]}
        if block.labels is not None:
            # Of all rows, so that a bad label is found whether or not it is drawn.
            part["codes"] = coder.encode(block.labels, block.first_row)[chosen]
        if block.weights is not None:
            part["weights"] = block.weights[chosen]
        kept.append(part)
        # Rows of larger keys are kept too until room is made.
        if sum(len(each["keys"]) for each in kept) > size + len(block.values):
            kept = [_of_smallest_keys(kept, size)]
            largest_key = kept[0]["keys"].max()
    drawn: _Part = {"values": np.empty((0, rows.n_features))}
    if kept:
        drawn = _of_smallest_keys(kept, size)
    labels = None
    if "codes" in drawn:
        coded = CodedLabels(coder.labels, drawn["codes"])
        columns = tuple(getattr(rows, "group_columns", ()))
        labels = Labels(len(coded), lambda start, stop: coded[start:stop], columns)
    return SampledRows(
        drawn["values"],
        rows.feature_names,
        n_read if n_read > size else None,
        n_dropped,
        labels=labels,
        weights=drawn.get("weights"),
    )


def _of_smallest_keys(parts: list[_Part], size: int) -> _Part:
    """The rows of the smallest keys, in their order."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    smallest = np.sort(np.argsort(joined["keys"], kind="stable")[:size])
    return {name: array[smallest] for name, array in joined.items()}
