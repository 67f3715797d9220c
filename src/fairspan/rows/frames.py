"""Rows in named columns: a data frame that narwhals reads eagerly, or a stream of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import Cause, InvalidInput, caller_remedies, import_optional
from fairspan.formatting.text import quoted_cell, quoted_label, shown_reason
from fairspan.registry import LazyModule
from fairspan.rows.arrays import (
    ArrayRows,
    InMemoryRows,
    as_eager_frame,
    labels_from_columns,
    resolve_group_columns,
    resolve_labels_and_weights,
    weights_from_column,
)
from fairspan.rows.columns import (
    ColumnRows,
    ColumnSelection,
    RowsInParts,
    StreamAdapter,
    column_name_arguments,
    label_type,
)
from fairspan.rows.groups import format_list
from fairspan.rows.protocol import OnMissing, RowBlock, SourceAdapter, rows_named, rows_per_block
from fairspan.rows.validation import (
    arrow_vector_lengths,
    check_feature_names,
    check_shape,
    narwhals_vector_lengths,
    numeric_columns,
    stack_columns,
    warn_if_rounded,
)
from fairspan.typing import FloatArray, IndexArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = LazyModule("narwhals.stable.v2")


# Of callers that take labels of the rows, which may be a column of text.
_WITH_LABELS = {
    Cause.TEXT_COLUMN: "Leave such columns out, or encode them as numbers; name the group column "
    "as sensitive_features"
}


@dataclass(frozen=True, eq=False)
class FrameRows(ColumnRows, InMemoryRows):
    """Rows of a data frame, or of a part of a table that is read in parts.

    Parameters
    ----------
    frame : narwhals DataFrame, or pyarrow Table
    chosen : ColumnSelection
        Labels and weights are in the columns that it names, or else they are given.
    """

    frame: Any
    selection: ColumnSelection

    def __post_init__(self) -> None:
        chosen, labels, weights = self.selection, self.group_labels, self.weights
        check_shape(self.shape)
        check_feature_names(chosen.features)
        if labels is None and chosen.group_columns:
            labels = labels_from_columns(
                self.frame, chosen.group_columns, chosen.bins, chosen.missing_labels
            )
        elif labels is None and chosen.single_group is not None:
            labels = chosen.single_group.labels_for(len(self.frame))
        if labels is not None:
            labels = chosen.known_labels.match(labels)
        if weights is None and chosen.weight_column is not None:
            weights = chosen.weight_scale.scaled(
                weights_from_column(self.frame, chosen.weight_column)
            )
            vars(self).update(weight_exponent=chosen.weight_scale.exponent)
        vars(self).update(group_labels=labels, weights=weights, on_missing=chosen.on_missing)

    @classmethod
    def all_features(cls, frame: nw.DataFrame[Any], on_missing: OnMissing = "error") -> FrameRows:
        """Rows whose columns are all features, without labels."""
        check_shape(frame.shape)
        lengths = narwhals_vector_lengths(frame.schema)
        return cls(
            frame, ColumnSelection.from_patterns(frame.columns, lengths, on_missing=on_missing)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return len(self.frame), self.n_features

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return () if self.group_labels is None else self.group_labels.column_names

    @cached_property
    def feature_frame(self) -> Any:
        """The columns of the features alone."""
        return select_columns(self.frame, self.selection.features)

    def values(self) -> FloatArray:
        """All rows at once, checked, shape (n, p)."""
        with rows_named(self.row_name):
            return self.validate(self.read_slice(0, self.n_rows), 0, self.feature_names)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        with rows_named(self.row_name):
            yield from super().blocks()

    def row_name(self, index: int) -> str | None:
        """Return a row's position and its label in the index of a pandas frame; None for others."""
        native: Any = getattr(self.frame, "to_native", lambda: None)()
        labels = getattr(native, "index", None)
        if not hasattr(native, "iloc") or labels is None or not index < len(labels):
            return None
        label = labels[index]
        label = label.item() if isinstance(label, np.generic) else label
        if not isinstance(label, str | int | float | tuple):
            label = str(label)
        return None if label == index else f"row {index + 1} (index {quoted_label(label)})"

    def take(self, places: IndexArray) -> FrameRows:
        """Return some of the rows, by their positions."""
        assert self.group_labels is not None
        weights = None if self.weights is None else self.weights[places]
        # A pyarrow Table, or a narwhals DataFrame.
        take = getattr(self.frame, "take", self.frame.__getitem__)
        return replace(
            self, frame=take(places), group_labels=self.group_labels[places], weights=weights
        )

    @cached_property
    def _numeric_columns(self) -> Any:
        """Columns of numbers, or a pandas frame of nothing else, which pandas puts side by side."""
        categories = self.selection.categories
        if categories:
            names = [name for name in self.selection.features if name not in categories]
            numbers = dict(zip(names, numeric_columns(self.frame.select(names)), strict=True))
            return [
                self._one_hot(name) if name in categories else numbers[name]
                for name in self.selection.features
            ]
        native: Any = getattr(self.feature_frame, "to_native", lambda: None)()
        if hasattr(native, "iloc") and all(
            isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in native.dtypes
        ):
            whole = {name: native[name].to_numpy() for name in native.select_dtypes("integer")}
            warn_if_rounded(whole)
            return native
        has_groups = self.group_labels is not None and len(self.group_labels.categories) > 1
        with caller_remedies(_WITH_LABELS if has_groups else {}):
            return numeric_columns(self.feature_frame)

    def _one_hot(self, column: str) -> FloatArray:
        """Indicators of a column of text, (r, number of categories); NaN for missing cells.

        Raises
        ------
        InvalidInput
            A text that is no known category, where these are not ignored.
        """
        import pyarrow as pa
        from pyarrow import compute

        known = self.selection.categories[column]
        cells = self.frame[column]
        cells = cells.to_arrow() if hasattr(cells, "to_arrow") else cells
        texts = cells.cast("string")  # there are several types of text
        codes = compute.index_in(texts, value_set=pa.array(known, pa.string()))
        found = np.asarray(compute.fill_null(codes, -1))
        missing = np.asarray(texts.is_null())
        unseen = np.flatnonzero((found < 0) & ~missing)
        if len(unseen) and not self.selection.ignore_unseen:
            category = quoted_cell(texts[int(unseen[0])].as_py())
            raise InvalidInput(
                f"The column {column!r} has the category {category}",
                f"Allowed: the categories that the model was fitted on: {format_list(known)}",
                "Fit again on rows with this category, or replace it",
                cause=Cause.UNKNOWN_CATEGORY,
            )
        matrix = np.zeros((len(found), len(known)))
        rows = np.flatnonzero(found >= 0)
        matrix[rows, found[rows]] = 1.0
        matrix[missing] = np.nan
        return matrix

    def read_slice(self, start: int, stop: int) -> FloatArray:
        """Some rows as float64; a missing cell becomes NaN."""
        columns = self._numeric_columns
        if isinstance(columns, list):
            return stack_columns(columns, start, stop)
        return np.asarray(columns.iloc[start:stop].to_numpy(dtype=np.float64))

    def extra_columns(self, start: int, stop: int) -> Any:
        """Other columns of some rows that were requested, if any."""
        names = self.selection.extra_columns
        return self.frame.select(names)[start:stop] if names else None


def select_columns(frame: Any, names: Sequence[str]) -> Any:
    """Some columns of a data frame or Table; those of pandas may have numbers for names."""
    if list(names) == getattr(frame, "column_names", None) or list(names) == frame.columns:
        return frame
    if names and not isinstance(names[0], str):
        return nw.from_native(frame.to_native()[list(names)], eager_only=True)
    return frame.select(list(names))


# Blocks whose columns are decoded at once, which spreads the overhead.
BLOCKS_PER_SLICE = 8


def batch_to_blocks(batch: Any, chosen: ColumnSelection, first_row: int) -> Iterator[RowBlock]:
    """The blocks of a pyarrow RecordBatch, whose first row has this number."""
    import pyarrow as pa

    size = BLOCKS_PER_SLICE * rows_per_block(len(chosen.feature_names))
    for start in range(0, batch.num_rows, size):
        table = pa.Table.from_batches([batch.slice(start, size)])
        # A column of which nothing is known is of numbers: others may lie beside it in a file.
        for place, name in enumerate(table.column_names):
            if pa.types.is_null(table.schema.types[place]):
                table = table.set_column(place, name, pa.nulls(len(table), pa.float64()))
        yield from FrameRows(table, chosen, first_row=first_row + start).blocks()


class DataFrameAdapter(SourceAdapter):
    """Data frames in memory, whose groups and weights are beside them or columns of them."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return as_eager_frame(X) is not None

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> FrameRows:
        """Rows of a data frame, whose groups and weights are beside it or columns of it."""
        frame = as_eager_frame(X)
        assert frame is not None
        frame = densify_sparse_columns(frame)
        groups = resolve_group_columns(frame, sensitive_features)
        weight = sample_weight if isinstance(sample_weight, str) else None
        reserved = {*groups, weight}.intersection(frame.columns)
        check_shape((len(frame), len(frame.columns) - len(reserved)))
        chosen = ColumnSelection.from_patterns(
            frame.columns,
            narwhals_vector_lengths(frame.schema),
            groups,
            weight=weight,
            on_missing=on_missing,
        )
        return FrameRows(
            frame,
            chosen,
            **resolve_labels_and_weights(X, len(frame), sensitive_features, sample_weight),
        )


def densify_sparse_columns(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """The same data frame, with pandas' sparse columns in full."""
    if frame.implementation.is_pandas():
        kinds = zip(frame.columns, frame.to_native().dtypes, strict=True)
        sparse = {name: kind for name, kind in kinds if type(kind).__name__ == "SparseDtype"}
        if sparse:
            full = {name: kind.subtype for name, kind in sparse.items()}
            return nw.from_native(frame.to_native().astype(full), eager_only=True)
    return frame


def float_dtype(X: Any, names: tuple[str, ...] | None = None) -> np.dtype[Any]:
    """float32 where rows in memory hold nothing else, and float64 otherwise.

    Parameters
    ----------
    X : array or data frame
    names : tuple of str, optional
        The columns of a frame that count.

    Examples
    --------
    >>> float_dtype(np.zeros((2, 2), dtype=np.float32)), float_dtype([[1, 2]])
    (dtype('float32'), dtype('float64'))
    """
    frame = as_eager_frame(X)
    if frame is None:
        is_float32 = getattr(X, "dtype", None) == np.float32
    else:
        dtypes = [kind for name, kind in frame.schema.items() if names is None or name in names]
        is_float32 = bool(dtypes) and all(kind == nw.Float32 for kind in dtypes)
    return np.dtype(np.float32 if is_float32 else np.float64)


def feature_values(
    X: Any, names: tuple[str, ...] | None, on_missing: OnMissing = "error"
) -> FloatArray:
    """Checked values of an array or frame; columns of a frame by their names, where given."""
    frame = as_eager_frame(X)
    if frame is None:
        return ArrayRows(X, on_missing=on_missing).to_array()
    rows = FrameRows.all_features(densify_sparse_columns(frame), on_missing)
    return (rows if names is None else rows.select_features(names)).values()


def drop_columns(X: Any, names: Sequence[str]) -> Any:
    """Drop these columns from a data frame, here or on a cluster, where present.

    Anything else is returned as it is.
    """
    if not names:
        return X
    frame = nw.from_native(X, pass_through=True) if as_eager_frame(X) is None else as_eager_frame(X)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return X
    return frame.drop(list(names), strict=False).to_native()


@dataclass(frozen=True)
class ArrowStreamRows(RowsInParts):
    """Rows of an object with the method ``__arrow_c_stream__``, read in its own batches.

    Attributes
    ----------
    source : object
    chosen : ColumnSelection
    n_rows : int or None
        Not known before reading.
    counts : list of int
        Rows of each pass so far: some streams can be read only once, and would end at once later.
    opened : list of pyarrow.RecordBatchReader
        What was opened for the schema, for the first pass to use: opening may run a query.
    """

    source: Any
    selection: ColumnSelection
    n_rows: int | None = None
    rows_per_pass: list[int] = field(default_factory=list, repr=False, compare=False)
    unread_readers: list[Any] = field(default_factory=list, repr=False, compare=False)

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python types of the labels in each group column; None where that is not known."""
        if not self.unread_readers:
            return super().label_types
        schema = self.unread_readers[0].schema
        return tuple(
            label_type(schema.field(column).type) for column in self.selection.group_columns
        )

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning.

        Raises
        ------
        InvalidInput
            The stream has been read, and cannot be read again.
        """
        n_rows = 0
        for batch in (
            self.unread_readers.pop() if self.unread_readers else _open_reader(self.source)
        ):
            yield from batch_to_blocks(
                batch.select(list(self.selection.required_columns)), self.selection, n_rows
            )
            n_rows += batch.num_rows
        self.rows_per_pass.append(n_rows)
        if n_rows != self.rows_per_pass[0]:
            raise InvalidInput(
                f"The stream {type(self.source).__name__} gave {self.rows_per_pass[0]} rows the "
                f"first time and {n_rows} the next",
                "Allowed: streams that can be read again, where rows are needed twice",
                "Read it into a table first (read_all()), or use moments: "
                "GroupMoments.from_rows(...), which need one pass",
            )


class ArrowStreamAdapter(StreamAdapter):
    """Objects that export an Arrow stream, whose groups and weights are columns of it."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        # A single column exports a stream too, and is no table.
        is_column = hasattr(X, "__array__") and not hasattr(X, "schema")
        return hasattr(X, "__arrow_c_stream__") and not is_column

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> ArrowStreamRows:
        """Rows of a stream, whose groups and weights are columns of it."""
        what = f"a stream of rows ({type(X).__name__})"
        named = column_name_arguments(sensitive_features, sample_weight, what)
        reader = _open_reader(X)
        names, lengths = reader.schema.names, arrow_vector_lengths(reader.schema)
        chosen = ColumnSelection.from_patterns(names, lengths, on_missing=on_missing, **named)
        return ArrowStreamRows(X, chosen, unread_readers=[reader])


def _open_reader(source: Any) -> Any:
    pa = import_optional("pyarrow", "arrow", "Reading a stream")
    if isinstance(source, pa.RecordBatchReader):
        return source
    try:
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(
            f"X, of type {type(source).__name__}, is no stream of rows ({shown_reason(error)})",
            "Allowed: streams of tables with named columns",
            "Pass a table with one column for each feature",
        ) from error
