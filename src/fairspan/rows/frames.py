"""Rows of eager data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fairspan.errors import Cause, InvalidInput, caller_remedies
from fairspan.formatting.messages import quoted_cell, quoted_label
from fairspan.registry import LazyModule
from fairspan.rows.alignment import pandas_index
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import OnMissing, RowBlock, rows_per_block
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.column_selection import ColumnRoles, ColumnRows, ColumnSelection
from fairspan.rows.conversion import narwhals_vector_lengths, numeric_columns, stack_columns
from fairspan.rows.error_context import name_rows_in_errors
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.label_resolution import (
    as_eager_frame,
    labels_from_columns,
    resolve_group_columns,
    resolve_metadata,
)
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_adapters import SourceAdapter
from fairspan.rows.row_validation import check_feature_names, check_shape, warn_if_rounded
from fairspan.rows.sample_weights import weights_from_column
from fairspan.typing import AnyArray, EagerFrame, FloatArray, TableLike

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pandas as pd
    import pyarrow as pa
    from narwhals.stable.v2.typing import IntoDataFrame
else:
    nw = LazyModule("narwhals.stable.v2")

# Remedies for callers that take group labels, since a text column may be the group column.
_REMEDIES_WITH_LABELS = {
    Cause.TEXT_COLUMN: "Exclude such columns, or encode them as numbers; pass the group column as "
    "sensitive_features"
}


@dataclass(frozen=True, eq=False)
class FrameRows(ColumnRows, InMemoryRows):
    """Rows of a data frame, or of one piece of a larger table.

    Attributes
    ----------
    frame : narwhals DataFrame, or pyarrow Table
    selection : ColumnSelection
        Columns of the features.
    """

    frame: EagerFrame
    selection: ColumnSelection

    @classmethod
    def from_columns(
        cls,
        frame: EagerFrame,
        selection: ColumnSelection,
        *,
        groups: CodedLabels | None = None,
        weights: FloatArray | None = None,
        first_row: int = 0,
    ) -> FrameRows:
        """Open a frame whose labels and weights are columns of the selection, unless passed.

        Labels are matched to those of a fit, if the rows are to be compared with one. Weights in a
        column are divided by 2**weight_exponent, the unit that all parts of a table share.

        Parameters
        ----------
        frame : narwhals DataFrame, or pyarrow Table
        selection : ColumnSelection
        groups : CodedLabels of r rows, optional
        weights : (r,) array, optional
            Weights that have been divided by this unit.
        first_row : int
            Position of the first row in messages.
        """
        roles = selection.roles
        check_shape((len(frame), len(selection.feature_names)))
        check_feature_names(selection.features)
        if groups is None:
            groups = _groups_of_rows(frame, selection)
        if groups is not None:
            groups = selection.known_labels.match(groups)
        classes = None
        if roles.classes is not None:
            classes = labels_from_columns(frame, [roles.classes])
            classes = selection.known_labels.match_classes(classes)
        clusters = None
        if roles.clusters is not None:
            clusters = labels_from_columns(frame, [roles.clusters])
        if weights is None and roles.weights is not None:
            weights = weights_from_column(frame, roles.weights)
            weights = selection.weight_scale.scale(weights)
        return cls(
            frame,
            selection,
            groups=groups,
            classes=classes,
            clusters=clusters,
            weights=weights,
            weight_exponent=selection.weight_scale.exponent,
            on_missing=selection.on_missing,
            first_row=first_row,
        )

    @classmethod
    def all_features(
        cls, frame: nw.DataFrame[IntoDataFrame], on_missing: OnMissing = "error"
    ) -> FrameRows:
        """Open a frame whose columns are all features, without labels."""
        check_shape(frame.shape)
        lengths = narwhals_vector_lengths(frame.schema)
        selection = ColumnSelection.from_patterns(
            frame.columns, lengths, ColumnRoles(), on_missing=on_missing
        )
        return cls.from_columns(frame, selection)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""
        return len(self.frame), self.n_features

    # Labels may be passed separately, so the labels themselves decide, not the roles of columns.
    group_columns = InMemoryRows.group_columns
    has_classes = InMemoryRows.has_classes
    has_clusters = InMemoryRows.has_clusters

    @cached_property
    def feature_frame(self) -> EagerFrame:
        """Frame of the feature columns."""
        return select_columns(self.frame, self.selection.features)

    def values(self) -> FloatArray:
        """All rows, validated, shape (n, p)."""
        with name_rows_in_errors(self.row_name):
            return self.validate(self.unvalidated(), 0, self.feature_names)

    def unvalidated(self) -> FloatArray:
        """All rows, shape (n, p), with NaN for missing cells."""
        with name_rows_in_errors(self.row_name):
            return self.read_slice(0, self.n_rows)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        with name_rows_in_errors(self.row_name):
            yield from super().blocks()

    def row_name(self, index: int) -> str | None:
        """Return a row's position and label in a pandas index.

        None for other frames, and if the label is the position, which messages have anyway.
        """
        pandas_frame = _pandas_frame(self.frame)
        if pandas_frame is None or index >= len(pandas_frame.index):
            return None
        label = pandas_frame.index[index]
        if isinstance(label, np.generic):
            label = label.item()
        if not isinstance(label, str | int | float | tuple):
            label = str(label)
        return None if label == index else f"row {index + 1} (index {quoted_label(label)})"

    @cached_property
    def _numeric_columns(self) -> list[AnyArray] | pd.DataFrame:
        """Numeric feature columns as a list of arrays, or as an all-numeric pandas frame.

        Slices of such a frame are converted as a whole, without an array for each column.
        """
        if self.selection.categories:  # text columns to encode, so the frame is not all-numeric
            return self._encoded_columns()
        pandas_frame = _pandas_frame(self.feature_frame)
        if pandas_frame is not None and _has_numpy_numbers(pandas_frame):
            integer_names = pandas_frame.select_dtypes("integer")
            warn_if_rounded({name: pandas_frame[name].to_numpy() for name in integer_names})
            return pandas_frame
        # A text column among the features may be the group column: if the caller takes groups, the
        # error says so. Rows of a caller without groups have no labels, or all the same.
        has_groups = self.groups is not None and len(self.groups.categories) > 1
        with caller_remedies(_REMEDIES_WITH_LABELS if has_groups else {}):
            return numeric_columns(self.feature_frame)

    def _encoded_columns(self) -> list[AnyArray]:
        """Return the feature columns as arrays, with text columns one-hot encoded."""
        categories = self.selection.categories
        names = [name for name in self.selection.features if name not in categories]
        columns = dict(zip(names, numeric_columns(self.frame.select(names)), strict=True))
        return [
            self._one_hot(name) if name in categories else columns[name]
            for name in self.selection.features
        ]

    def _one_hot(self, column: str) -> FloatArray:
        """One-hot encode a text column to (r, n_categories); missing cells become NaN.

        Raises
        ------
        InvalidInput
            An unseen category, unless these are ignored.
        """
        import pyarrow as pa
        from pyarrow import compute

        categories = self.selection.categories[column]
        series = self.frame[column]
        cells = series if isinstance(series, pa.ChunkedArray) else series.to_arrow()
        texts = cells.cast("string")  # unify string types
        code_or_null = compute.index_in(texts, value_set=pa.array(categories, pa.string()))
        codes = np.asarray(compute.fill_null(code_or_null, -1))
        missing = np.asarray(texts.is_null())
        unseen_rows = np.flatnonzero((codes < 0) & ~missing)
        if len(unseen_rows) and not self.selection.ignore_unseen:
            category = quoted_cell(texts[int(unseen_rows[0])].as_py())
            raise InvalidInput(
                f"Column {column!r} contains the unseen category {category}",
                f"Allowed: the categories that the model was fitted on: {format_list(categories)}",
                "Refit on rows with this category, or replace it",
                cause=Cause.UNKNOWN_CATEGORY,
            )
        matrix = np.zeros((len(codes), len(categories)))
        rows = np.flatnonzero(codes >= 0)
        matrix[rows, codes[rows]] = 1.0
        matrix[missing] = np.nan
        return matrix

    def read_slice(self, start: int, stop: int) -> FloatArray:
        """Values of a row range as float64; missing cells become NaN."""
        columns = self._numeric_columns
        if isinstance(columns, list):
            return stack_columns(columns, start, stop)
        return np.asarray(columns.iloc[start:stop].to_numpy(dtype=np.float64))

    def extra_columns(self, start: int, stop: int) -> EagerFrame | None:
        """Pass-through columns of a row range, if requested."""
        names = self.selection.extra_columns
        return self.frame.select(names)[start:stop] if names else None


def _groups_of_rows(frame: EagerFrame, selection: ColumnSelection) -> CodedLabels | None:
    """Return the groups in columns of the selection, or its single group; None without any."""
    roles = selection.roles
    if roles.groups:
        return labels_from_columns(frame, roles.groups, selection.bins, selection.missing_labels)
    if roles.single_group is not None:
        return roles.single_group.labels_for(len(frame))
    return None


def _has_numpy_numbers(frame: pd.DataFrame) -> bool:
    """Return whether all columns of a pandas frame are numbers or booleans of numpy types."""
    # Extension types of pandas and Arrow, which may hold missing values, are converted by column.
    return all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in frame.dtypes)


def _pandas_frame(frame: EagerFrame) -> pd.DataFrame | None:
    """Return the pandas frame that narwhals wraps; None for other frames."""
    # A Table of pyarrow has no such method; a test of the class would import narwhals for files.
    native = frame.to_native() if hasattr(frame, "to_native") else frame
    return native if hasattr(native, "iloc") else None  # only pandas (and its kin) has `iloc`


def select_columns(frame: EagerFrame, names: Sequence[str | int]) -> EagerFrame:
    """Select columns of a data frame or Table; pandas column names may be integers."""
    if list(names) == getattr(frame, "column_names", None) or list(names) == frame.columns:
        return frame
    if names and not isinstance(names[0], str):
        pandas_frame: pd.DataFrame = frame.to_native()
        return nw.from_native(pandas_frame[list(names)], eager_only=True)
    return frame.select([str(name) for name in names])


# Number of blocks that are decoded together, to amortize overhead.
BLOCKS_PER_SLICE = 8


def batch_to_blocks(
    batch: pa.RecordBatch, selection: ColumnSelection, first_row: int
) -> Iterator[RowBlock]:
    """Split a RecordBatch into blocks, with rows numbered from `first_row`."""
    import pyarrow as pa

    # Decode several blocks at a time, to amortize overhead; the slice is then split into them.
    size = BLOCKS_PER_SLICE * rows_per_block(len(selection.feature_names))
    for start in range(0, batch.num_rows, size):
        table = pa.Table.from_batches([batch.slice(start, size)])
        # An all-null column counts as numeric; other batches of the file may have values.
        for position, name in enumerate(table.column_names):
            if pa.types.is_null(table.schema.types[position]):
                table = table.set_column(position, name, pa.nulls(len(table), pa.float64()))
        rows = FrameRows.from_columns(table, selection, first_row=first_row + start)
        yield from rows.blocks()


class DataFrameAdapter(SourceAdapter):
    """Adapter for data frames in memory."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a data frame."""
        return as_eager_frame(X) is not None

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> FrameRows:
        """Open a data frame; labels and weights are columns or passed separately."""
        X = with_index_levels(X, metadata)
        frame = as_eager_frame(X)
        assert frame is not None
        frame = densify_sparse_columns(frame)
        # Columns of labels and weights are not features.
        roles = roles_in_frame(frame, metadata)
        reserved = set(roles.names).intersection(frame.columns)
        # Before columns are selected: the error says that the table has no features.
        check_shape((len(frame), len(frame.columns) - len(reserved)))
        selection = ColumnSelection.from_patterns(
            frame.columns, narwhals_vector_lengths(frame.schema), roles, on_missing=on_missing
        )
        check_feature_names(selection.features)
        resolved = resolve_metadata(X, len(frame), metadata)
        return FrameRows(frame, selection, on_missing=on_missing, **resolved)


def with_index_levels(X: TableLike, metadata: RowMetadata) -> TableLike:
    """Return a pandas frame with the named levels of its index that the metadata name as columns.

    Any other frame is returned unchanged, as is a name that both a column and a level have: it is
    that of the column.
    """
    index = pandas_index(X)
    if index is None or not hasattr(X, "assign"):
        return X
    frame: Any = X
    named: set[object] = set()
    for _, values in metadata.by_argument():
        if isinstance(values, str):
            named.add(values)
        # A longer list holds labels.
        elif isinstance(values, list | tuple) and len(values) <= frame.shape[1] + index.nlevels:
            named.update(value for value in values if isinstance(value, str))
    levels = [name for name in index.names if name in named and name not in frame.columns]
    if not levels:
        return X
    columns = {name: index.get_level_values(name) for name in levels}
    return cast(TableLike, frame.assign(**columns))


def roles_in_frame(frame: nw.DataFrame[IntoDataFrame], metadata: RowMetadata) -> ColumnRoles:
    """Return the columns of a frame that the metadata name; values are left to the caller.

    Raises
    ------
    InvalidInput
        Unknown column, or an ambiguous list (names or labels).
    """

    def named(values: object) -> str | None:
        return values if isinstance(values, str) else None

    return ColumnRoles(
        groups=tuple(resolve_group_columns(frame, metadata.groups)),
        classes=named(metadata.classes),
        clusters=named(metadata.clusters),
        weights=named(metadata.weights),
    )


def densify_sparse_columns(frame: nw.DataFrame[IntoDataFrame]) -> nw.DataFrame[IntoDataFrame]:
    """Convert pandas sparse columns to dense."""
    if not frame.implementation.is_pandas():
        return frame
    pandas_frame: pd.DataFrame = frame.to_native()
    dtypes = zip(frame.columns, pandas_frame.dtypes, strict=True)
    dense_dtypes = {
        name: dtype.subtype for name, dtype in dtypes if type(dtype).__name__ == "SparseDtype"
    }
    if not dense_dtypes:
        return frame
    return nw.from_native(pandas_frame.astype(dense_dtypes), eager_only=True)


def float_dtype(X: TableLike, names: tuple[str, ...] | None = None) -> np.dtype[np.generic]:
    """Return float32 if all features in memory are float32, otherwise float64.

    Parameters
    ----------
    X : array or data frame
    names : tuple of str, optional
        Columns of a frame to consider; all by default.

    Examples
    --------
    >>> float_dtype(np.zeros((2, 2), dtype=np.float32)), float_dtype([[1, 2]])
    (dtype('float32'), dtype('float64'))
    """
    frame = as_eager_frame(X)
    if frame is None:
        is_float32 = getattr(X, "dtype", None) == np.float32
    else:
        dtypes = [dtype for name, dtype in frame.schema.items() if names is None or name in names]
        is_float32 = bool(dtypes) and all(dtype == nw.Float32 for dtype in dtypes)
    return np.dtype(np.float32 if is_float32 else np.float64)


def open_features(X: TableLike, on_missing: OnMissing = "error") -> ArrayRows | FrameRows:
    """Open an array or frame in memory whose columns are all features, without labels."""
    frame = as_eager_frame(X)
    if frame is None:
        return ArrayRows.from_table(X, on_missing=on_missing)
    return FrameRows.all_features(densify_sparse_columns(frame), on_missing)


def feature_values(rows: ArrayRows | FrameRows, names: tuple[str, ...] | None) -> FloatArray:
    """Return validated values of opened rows; select frame columns by name if given."""
    if isinstance(rows, ArrayRows):
        return rows.to_array()
    if names is not None:
        rows = rows.select_features(names)
    return rows.values()


def drop_columns(X: TableLike, names: Sequence[str]) -> TableLike:
    """Drop these columns, if present, from an eager or lazy data frame.

    Anything else is returned unchanged.
    """
    if not names:
        return X
    eager_frame = as_eager_frame(X)
    frame = nw.from_native(X, pass_through=True) if eager_frame is None else eager_frame
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return X
    return frame.drop(list(names), strict=False).to_native()
