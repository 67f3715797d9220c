"""Rows in a Dask array or data frame, folded by its workers, one task for each partition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.arrays import comes_from
from fairspan.rows.checks import check_dtype, check_shape, check_width
from fairspan.rows.columns import ChosenColumns
from fairspan.rows.dask.engine import computed, literal, merged_in_pairs, task
from fairspan.rows.dask.partitions import (
    Opening,
    columns_of,
    labels_by_partition,
    mapped_array,
    mapped_frame,
    partitions_of,
    result_of_partition,
    row_sizes,
    weights_by_partition,
)
from fairspan.rows.frames import frame_of, named_weight
from fairspan.rows.labels import Everyone, named_columns, names_of
from fairspan.rows.numbers import check_numeric, collapsed, expanded, vector_lengths
from fairspan.rows.protocol import Fold, OnMissing, Projection, Result
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Rows of a Dask array or data frame, read by the tasks of its scheduler.

    Attributes
    ----------
    collection : dask array or data frame
    opening : Opening
        How each partition is opened where it is.
    labels, weights : list of delayed, or None
        Of each partition, where they are not columns.
    n_rows : int or None
        Known for some arrays.
    label_names : tuple of names
        Of the columns that labels beside the rows come from.
    """

    collection: Any
    opening: Opening
    labels: Sequence[Any] | None
    weights: Sequence[Any] | None
    n_rows: int | None = None
    label_names: tuple[Any, ...] = ()

    @property
    def chosen(self) -> ChosenColumns | None:
        """Which columns of a data frame are what; None for an array."""
        return self.opening.chosen

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return self.label_names if self.chosen is None else self.chosen.groups or self.label_names

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None for arrays, and where the names of columns are no text."""
        names: tuple[Any, ...] = (None,) if self.chosen is None else self.chosen.feature_names
        return names if all(isinstance(name, str) for name in names) else None

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return self.opening.n_features

    def selected(self, names: tuple[str, ...]) -> "DaskRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing, or an array has another number of features.
        """
        chosen = None if self.chosen is None else self.chosen.selected(names)
        if chosen is None:
            check_width(self.n_features, len(names), "features")
        return replace(self, opening=replace(self.opening, n_features=len(names), chosen=chosen))

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all partitions; None if there are no rows."""
        to_all, opening = literal(fold), literal(self.opening)
        partitions = partitions_of(_read(self.collection, self.chosen))
        none = [None] * len(partitions)
        beside = zip(partitions, self.labels or none, self.weights or none, strict=True)
        results = [
            task(result_of_partition, to_all, opening, number, *parts)
            for number, parts in enumerate(beside)
        ]
        result: Result | None = computed(merged_in_pairs(to_all, results, "partition"))
        return result


class DaskCollections:
    """Dask arrays and data frames."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return comes_from(X, "dask")

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> DaskRows:
        """Rows of a Dask collection, whose groups and weights are columns of it or beside it.

        Raises
        ------
        InvalidType
            Another collection than an array or a data frame.
        InvalidInput
            No numbers, no features, a missing column, or lengths that are known to differ.
        """
        everyone = sensitive_features.label if isinstance(sensitive_features, Everyone) else None
        meta = _meta_frame(X)
        if meta is None:
            _check_array(X)
            chosen, sizes = None, row_sizes(X)
            starts = None if sizes is None else tuple(accumulate(sizes, initial=0))
            opening = Opening(int(X.shape[1]), on_missing, everyone, starts=starts)
        else:
            weight = next(iter(named_weight(meta, sample_weight)), None)
            groups, lengths = named_columns(meta, sensitive_features), vector_lengths(meta.schema)
            chosen = ChosenColumns.of(meta.columns, lengths, groups, weight=weight)
            check_numeric(columns_of(meta, chosen.features).schema)
            sizes = None
            opening = Opening(len(chosen.feature_names), on_missing, everyone, chosen)
        partitions = partitions_of(_read(X, chosen))
        labels = weights = None
        if everyone is None and (chosen is None or not chosen.groups):
            labels = labels_by_partition(sensitive_features, partitions, sizes)
        if sample_weight is not None and (chosen is None or chosen.weight is None):
            weights = weights_by_partition(sample_weight, partitions, sizes)
        n_rows = None if sizes is None else sum(sizes)
        # The name of a Dask array is no name of a column.
        names = names_of(getattr(sensitive_features, "_meta", sensitive_features))
        return DaskRows(X, opening, labels, weights, n_rows, names)

    def transformed(self, X: Any, projection: Projection) -> Any:
        """Rows of a Dask collection reduced lazily, partition by partition, as the same kind.

        Returns
        -------
        dask array (n, d)
            Of the precision of X (float32 or float64), with its row chunks.
        dask data frame
            With the projection's component names as columns, and the index and divisions of X.

        Raises
        ------
        InvalidType, InvalidInput
            As `open_rows`; a missing column or another number of features, before anything is
            computed.
        """
        meta = _meta_frame(X)
        d, p = projection.encoder.shape
        if meta is None:
            _check_array(X)
            check_width(X.shape[1], p, "features")
            dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
            return mapped_array(X, projection.transform, dtype, d)
        columns, lengths = meta.columns, vector_lengths(meta.schema)
        if projection.feature_names is not None:
            columns = list(collapsed(projection.feature_names, columns, lengths))
        check_width(len(expanded(columns, lengths)), p, "features")
        check_numeric(columns_of(meta, columns).schema)
        # Where all are needed, each partition is checked by its task, whose error says more.
        read = X if columns == meta.columns else X[columns]
        return mapped_frame(read, projection.transform, projection.component_names)

    def restored(self, Z: Any, projection: Projection) -> Any:
        """Rows in the original features from their coordinates, lazily, as a Dask array (n, p).

        Raises
        ------
        InvalidType, InvalidInput
            As `transformed`.
        """
        array = Z if _meta_frame(Z) is None else Z.to_dask_array()
        _check_array(array)
        d, p = projection.encoder.shape
        check_width(array.shape[1], d, "coordinates")
        return mapped_array(array, projection.inverse_transform, np.dtype(np.float64), p)

    def scored(self, X: Any, score: Callable[[Any], FloatArray]) -> Any:
        """A number for each row by a function of rows in memory: a lazy Dask array or series."""
        if _meta_frame(X) is not None:
            return mapped_frame(X, score, ["score"])["score"]
        _check_array(X)
        return mapped_array(X, score, np.dtype(np.float64), 1)[:, 0]


def _meta_frame(X: Any) -> nw.DataFrame[Any] | None:
    """The columns of a Dask data frame, without rows; None for anything else."""
    return frame_of(getattr(X, "_meta", None))


def _read(collection: Any, chosen: ChosenColumns | None) -> Any:
    """What is needed of a collection: a Dask array whose rows are not cut, or some columns."""
    if chosen is None:
        return collection.rechunk({1: -1})
    # Where all are needed, each partition is checked when it is opened, whose error says more.
    whole = len(chosen.read) == len(chosen.available)
    return collection if whole else collection[list(chosen.read)]


def _check_array(X: Any) -> None:
    if not hasattr(X, "chunks") or not isinstance(X._meta, np.ndarray):
        blocks = f" of {type(X._meta).__name__} blocks" if hasattr(X, "chunks") else ""
        raise InvalidType(
            f"X is a Dask {type(X).__name__}{blocks}",
            "Allowed: Dask arrays of numpy blocks, and Dask data frames",
            "Convert it, for example with to_dask_dataframe() or map_blocks(numpy.asarray)",
        )
    # A number of rows that is not known is no reason to refuse it.
    check_shape(tuple(1 if np.isnan(size) else int(size) for size in X.shape))
    if np.isnan(X.shape[-1]):
        raise InvalidInput(
            "X does not know how many columns it has",
            "Allowed: arrays whose number of features is known",
            "Call X.compute_chunk_sizes() first",
        )
    check_dtype(X.dtype)
