"""Rows in a Dask array or data frame, folded by its workers, one task for each partition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.arrays import comes_from
from fairspan.rows.checks import check_dtype, check_shape
from fairspan.rows.columns import ChosenColumns
from fairspan.rows.dask.engine import computed, literal, merged_in_pairs, task
from fairspan.rows.dask.labels import (
    labels_by_partition,
    row_sizes,
    weights_by_partition,
)
from fairspan.rows.dask.lazy import (
    reduced_array,
    reduced_data_frame,
    restored_array,
    scored_array,
    scored_data_frame,
)
from fairspan.rows.dask.partitions import (
    ArrayPartition,
    FramePartition,
    columns_of,
    result_of_partition,
)
from fairspan.rows.frames import frame_of, named_weight
from fairspan.rows.labels import Everyone, named_columns, names_of
from fairspan.rows.numbers import check_numeric, vector_lengths
from fairspan.rows.protocol import Fold, OnMissing, Projection, Result
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Rows of a Dask array or data frame, read by the tasks of its scheduler.

    Attributes
    ----------
    collection : dask array or data frame
    opening : FramePartition or ArrayPartition
        How each partition is opened where it is.
    labels, weights : list of delayed, or None
        Of each partition, where they are not columns.
    n_rows : int or None
        Known for some arrays.
    label_names : tuple of names
        Of the columns that labels beside the rows come from.
    """

    collection: Any
    opening: FramePartition | ArrayPartition
    labels: Sequence[Any] | None
    weights: Sequence[Any] | None
    n_rows: int | None = None
    label_names: tuple[Any, ...] = ()

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return self.label_names if self.chosen is None else self.chosen.groups or self.label_names

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return self.opening.feature_names

    @property
    def chosen(self) -> ChosenColumns | None:
        """Which columns of a data frame are what; None for an array."""
        return self.opening.chosen if isinstance(self.opening, FramePartition) else None

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return self.opening.n_features

    def selected(self, names: tuple[str, ...]) -> "DaskRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        return replace(self, opening=self.opening.selected(names))

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all partitions; None if there are no rows."""
        to_all, opening = literal(fold), literal(self.opening)
        partitions = _partitions(self.opening.read_from(self.collection))
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
        meta = _meta_frame(X)
        if meta is not None:
            return _open_frame(X, meta, sensitive_features, sample_weight, on_missing)
        _check_array(X)
        everyone = sensitive_features.label if isinstance(sensitive_features, Everyone) else None
        opening = ArrayPartition(int(X.shape[1]), everyone, on_missing)
        partitions, sizes = _partitions(opening.read_from(X)), row_sizes(X)
        return DaskRows(
            X,
            opening,
            None if everyone else labels_by_partition(sensitive_features, partitions, sizes),
            None
            if sample_weight is None
            else weights_by_partition(sample_weight, partitions, sizes),
            None if sizes is None else sum(sizes),
            _names_of(sensitive_features),
        )

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
        if meta is not None:
            return reduced_data_frame(X, meta, projection)
        _check_array(X)
        return reduced_array(X, projection)

    def restored(self, Z: Any, projection: Projection) -> Any:
        """Rows in the original features from their coordinates, lazily, as a Dask array (n, p).

        Raises
        ------
        InvalidType, InvalidInput
            As `transformed`.
        """
        array = Z if _meta_frame(Z) is None else Z.to_dask_array()
        _check_array(array)
        return restored_array(array, projection)

    def scored(self, X: Any, score: Callable[[Any], FloatArray]) -> Any:
        """A number for each row by a function of rows in memory: a lazy Dask array or series."""
        if _meta_frame(X) is not None:
            return scored_data_frame(X, score)
        _check_array(X)
        return scored_array(X, score)


def _open_frame(
    X: Any,
    meta: nw.DataFrame[Any],
    sensitive_features: Any,
    sample_weight: Any,
    on_missing: OnMissing,
) -> DaskRows:
    everyone = sensitive_features.label if isinstance(sensitive_features, Everyone) else None
    groups = named_columns(meta, sensitive_features)
    weight = next(iter(named_weight(meta, sample_weight)), None)
    chosen = ChosenColumns.of(
        meta.columns,
        vector_lengths(meta.schema),
        groups,
        weight=weight,
        on_missing=on_missing,
        everyone=everyone,
    )
    check_numeric(columns_of(meta, chosen.features).schema)
    partitions = _partitions(X)
    labels = weights = None
    if not groups and everyone is None:
        labels = labels_by_partition(sensitive_features, partitions, None)
    if sample_weight is not None and weight is None:
        weights = weights_by_partition(sample_weight, partitions, None)
    names = _names_of(sensitive_features)
    return DaskRows(X, FramePartition(chosen), labels, weights, label_names=names)


def _meta_frame(X: Any) -> nw.DataFrame[Any] | None:
    """The columns of a Dask data frame, without rows; None for anything else."""
    return frame_of(getattr(X, "_meta", None))


def _names_of(labels: Any) -> tuple[Any, ...]:
    """Names of the columns of labels; the name of a Dask array is no such name."""
    return names_of(getattr(labels, "_meta", labels))


def _partitions(X: Any) -> list[Any]:
    return list(np.ravel(np.array(X.to_delayed(), dtype=object)))


def _check_array(X: Any) -> None:
    if not hasattr(X, "chunks") or not isinstance(X._meta, np.ndarray):
        blocks = f" of {type(X._meta).__name__} blocks" if hasattr(X, "chunks") else ""
        raise InvalidType(
            f"X is a Dask {type(X).__name__}{blocks}",
            "Allowed are Dask arrays of numpy blocks, and Dask data frames",
            "Convert it, for example with to_dask_dataframe() or map_blocks(numpy.asarray)",
        )
    # A number of rows that is not known is no reason to refuse it.
    check_shape(tuple(1 if np.isnan(size) else int(size) for size in X.shape))
    if np.isnan(X.shape[-1]):
        raise InvalidInput(
            "X does not know how many columns it has",
            "Allowed are arrays whose number of features is known",
            "Call X.compute_chunk_sizes() first",
        )
    check_dtype(X.dtype)
