"""What a task does with one partition of a Dask collection: it opens its rows and folds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
from threadpoolctl import threadpool_limits

from fairspan.errors import InvalidInput
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.checks import check_same_length, check_width
from fairspan.rows.columns import ChosenColumns
from fairspan.rows.engines import located
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import CodedLabels, listed
from fairspan.rows.labels import Labels, labels_of
from fairspan.rows.protocol import Fold, OnMissing, Result, RowSource
from fairspan.rows.weights import checked_weights, weights_of_column


@dataclass(frozen=True)
class FramePartition:
    """How the rows of a partition of a data frame are opened.

    Attributes
    ----------
    chosen : ChosenColumns
    """

    chosen: ChosenColumns

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None where columns have names that are no text."""
        names = self.chosen.feature_names
        return names if all(isinstance(name, str) for name in names) else None

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return len(self.chosen.feature_names)

    def selected(self, names: tuple[str, ...]) -> "FramePartition":
        """The same with these features, in this order."""
        return FramePartition(self.chosen.selected(names))

    def read_from(self, collection: Any) -> Any:
        """The columns that are needed of a Dask data frame."""
        read = list(self.chosen.read)
        # Where all are needed, each partition is checked by `rows`, whose error says more.
        return collection if len(read) == len(self.chosen.available) else collection[read]

    def rows(self, partition: Any, labels: Any, weights: Any) -> RowSource:
        """The rows of a pandas data frame, of at least one row.

        Raises
        ------
        InvalidInput
            A missing column, or labels or weights of another length.
        """
        chosen = self.chosen
        frame = nw.from_native(partition, eager_only=True)
        missing = [name for name in chosen.read if name not in frame.columns]
        if missing:
            raise InvalidInput(
                f"There is no column {listed(missing)}, only {listed(frame.columns)}",
                "Allowed are partitions with the columns of the whole data frame",
                "Make all partitions alike",
            )
        if chosen.weight is not None:
            weights = weights_of_column(frame[chosen.weight])
        elif weights is not None:
            weights = checked_weights(weights, len(frame), is_part=True)
        return FrameRows(
            columns_of(frame, chosen.features),
            labels=self._labels(frame, labels),
            weights=weights,
            on_missing=chosen.on_missing,
        )

    def _labels(self, frame: nw.DataFrame[Any], labels: Any) -> Labels:
        if self.chosen.everyone is not None:
            return Labels.constant(self.chosen.everyone, len(frame))
        if self.chosen.groups:
            return Labels.of_columns(frame, self.chosen.groups)
        return _labels_beside(labels, len(frame), frame.to_native())


@dataclass(frozen=True)
class ArrayPartition:
    """How the rows of a block of an array are opened.

    Attributes
    ----------
    n_features : int
        p, which every block must have.
    everyone : str or None
        The label of all rows, in place of labels.
    on_missing : {"error", "drop"}
    """

    n_features: int
    everyone: str | None
    on_missing: OnMissing

    @property
    def feature_names(self) -> None:
        """Arrays have no names."""
        return

    def selected(self, names: tuple[str, ...]) -> "ArrayPartition":
        """The same, whose width must fit."""
        check_width(self.n_features, len(names), "features")
        return self

    def read_from(self, collection: Any) -> Any:
        """A Dask array whose rows are not cut."""
        return collection.rechunk({1: -1})

    def rows(self, partition: Any, labels: Any, weights: Any) -> RowSource:
        """The rows of a numpy array, of at least one row.

        Raises
        ------
        InvalidInput
            Another number of features, or labels or weights of another length.
        """
        check_block(partition.shape, self.n_features)
        n_rows = len(partition)
        return ArrayRows(
            partition,
            labels=Labels.constant(self.everyone, n_rows)
            if self.everyone is not None
            else _labels_beside(labels, n_rows, partition),
            weights=None if weights is None else checked_weights(weights, n_rows, is_part=True),
            on_missing=self.on_missing,
        )


def result_of_partition(
    fold: Fold[Result],
    opening: FramePartition | ArrayPartition,
    number: int,
    partition: Any,
    labels: Any,
    weights: Any,
) -> Result | None:
    """What a worker does with a partition, beside others at work: so with one thread.

    Parameters
    ----------
    fold : Fold
    opening : FramePartition or ArrayPartition
    number : int
        Of the partition, for messages.
    partition : data frame or array
    labels, weights : array-like, CodedLabels or None
        Of its rows, where they are not in it.

    Returns
    -------
    result or None
        None for a partition without rows.
    """
    with located(f"partition {number}"), threadpool_limits(1):
        if len(partition) == 0:
            check_same_length(
                0, 0 if labels is None else len(labels), "labels in sensitive_features"
            )
            check_same_length(0, 0 if weights is None else len(weights), "weights in sample_weight")
            return None
        return fold.over(opening.rows(partition, labels, weights))


def columns_of(frame: nw.DataFrame[Any], names: Sequence[str]) -> nw.DataFrame[Any]:
    """Some columns of a pandas data frame, whose names may be numbers."""
    return nw.from_native(frame.to_native()[list(names)], eager_only=True)


def check_block(shape: tuple[int, ...], n_features: int) -> None:
    """Make sure that these are rows of p features.

    Raises
    ------
    InvalidInput
    """
    if len(shape) != 2 or shape[1] != n_features:
        raise InvalidInput(
            f"X has shape {shape}",
            f"Allowed are rows of {n_features} features",
            "Correct the chunks of the array, or the function that makes its blocks",
        )


def _labels_beside(labels: Any, n_rows: int, partition: Any) -> Labels:
    if isinstance(labels, CodedLabels):
        return Labels(n_rows, lambda start, stop: labels[start:stop])
    return labels_of(labels, n_rows, partition)
