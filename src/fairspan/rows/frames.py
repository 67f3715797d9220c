"""Rows in named columns: a data frame that narwhals reads eagerly, or a stream of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import Cause, InvalidInput, caller_remedies, imported
from fairspan.formatting.text import quoted_cell, quoted_label, shown_reason
from fairspan.registry import ImportedLater
from fairspan.rows.arrays import (
    ArrayRows,
    RowsInMemory,
    beside_rows,
    frame_of,
    labels_of_columns,
    named_columns,
    weights_of_column,
)
from fairspan.rows.checks import (
    check_names,
    check_shape,
    number_columns,
    side_by_side,
    vector_lengths,
    vector_lengths_of,
    warn_of_rounding,
)
from fairspan.rows.columns import (
    ChosenColumns,
    ReadInBatches,
    RowsByColumns,
    RowsInParts,
    label_type,
    named_columns_only,
)
from fairspan.rows.groups import listed
from fairspan.rows.protocol import OnMissing, RowBlock, RowOpener, block_rows, rows_named
from fairspan.typing import FloatArray, IndexArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = ImportedLater("narwhals.stable.v2")


# Of callers that take labels of the rows, which may be a column of text.
_WITH_LABELS = {
    Cause.TEXT_COLUMN: "Leave such columns out, or encode them as numbers; name the group column "
    "as sensitive_features"
}


@dataclass(frozen=True, eq=False)
class FrameRows(RowsByColumns, RowsInMemory):
    """Rows of a data frame, or of a part of a table that is read in parts.

    Parameters
    ----------
    frame : narwhals DataFrame, or pyarrow Table
    chosen : ChosenColumns
        Labels and weights are in the columns that it names, or else they are given.
    """

    frame: Any
    chosen: ChosenColumns

    def __post_init__(self) -> None:
        chosen, labels, weights = self.chosen, self.labels, self.weights
        check_shape(self.shape)
        check_names(chosen.features)
        if labels is None and chosen.groups:
            labels = labels_of_columns(self.frame, chosen.groups, chosen.bins, chosen.unknown)
        elif labels is None and chosen.everyone is not None:
            labels = chosen.everyone.of_rows(len(self.frame))
        if labels is not None:
            labels = chosen.known_labels.match(labels)
        if weights is None and chosen.weight is not None:
            weights = chosen.weight_scale.scaled(weights_of_column(self.frame, chosen.weight))
            vars(self).update(weight_exponent=chosen.weight_scale.exponent)
        vars(self).update(labels=labels, weights=weights, on_missing=chosen.on_missing)

    @classmethod
    def of(cls, frame: nw.DataFrame[Any], on_missing: OnMissing = "error") -> FrameRows:
        """Rows whose columns are all features, without labels."""
        check_shape(frame.shape)
        lengths = vector_lengths(frame.schema)
        return cls(frame, ChosenColumns.of(frame.columns, lengths, on_missing=on_missing))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return len(self.frame), self.n_features

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return () if self.labels is None else self.labels.names

    @cached_property
    def features(self) -> Any:
        """The columns of the features alone."""
        return columns_of(self.frame, self.chosen.features)

    def values(self) -> FloatArray:
        """All rows at once, checked, shape (n, p)."""
        with rows_named(self.row_name):
            return self.checked(self.between(0, self.n_rows), 0, self.feature_names)

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

    def at(self, places: IndexArray) -> FrameRows:
        """Return some of the rows, by their positions."""
        assert self.labels is not None
        weights = None if self.weights is None else self.weights[places]
        # A pyarrow Table, or a narwhals DataFrame.
        take = getattr(self.frame, "take", self.frame.__getitem__)
        return replace(self, frame=take(places), labels=self.labels[places], weights=weights)

    @cached_property
    def _columns(self) -> Any:
        """Columns of numbers, or a pandas frame of nothing else, which pandas puts side by side."""
        categories = self.chosen.categories
        if categories:
            names = [name for name in self.chosen.features if name not in categories]
            numbers = dict(zip(names, number_columns(self.frame.select(names)), strict=True))
            return [
                self._encoded(name) if name in categories else numbers[name]
                for name in self.chosen.features
            ]
        native: Any = getattr(self.features, "to_native", lambda: None)()
        if hasattr(native, "iloc") and all(
            isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in native.dtypes
        ):
            whole = {name: native[name].to_numpy() for name in native.select_dtypes("integer")}
            warn_of_rounding(whole)
            return native
        has_groups = self.labels is not None and len(self.labels.distinct) > 1
        with caller_remedies(_WITH_LABELS if has_groups else {}):
            return number_columns(self.features)

    def _encoded(self, column: str) -> FloatArray:
        """Indicators of a column of text, (r, number of categories); NaN for missing cells.

        Raises
        ------
        InvalidInput
            A text that is no known category, where these are not ignored.
        """
        import pyarrow as pa
        from pyarrow import compute

        known = self.chosen.categories[column]
        cells = self.frame[column]
        cells = cells.to_arrow() if hasattr(cells, "to_arrow") else cells
        texts = cells.cast("string")  # there are several types of text
        codes = compute.index_in(texts, value_set=pa.array(known, pa.string()))
        found = np.asarray(compute.fill_null(codes, -1))
        missing = np.asarray(texts.is_null())
        unseen = np.flatnonzero((found < 0) & ~missing)
        if len(unseen) and not self.chosen.ignores_unseen:
            category = quoted_cell(texts[int(unseen[0])].as_py())
            raise InvalidInput(
                f"The column {column!r} has the category {category}",
                f"Allowed: the categories that the model was fitted on: {listed(known)}",
                "Fit again on rows with this category, or replace it",
                cause=Cause.UNKNOWN_CATEGORY,
            )
        matrix = np.zeros((len(found), len(known)))
        rows = np.flatnonzero(found >= 0)
        matrix[rows, found[rows]] = 1.0
        matrix[missing] = np.nan
        return matrix

    def between(self, start: int, stop: int) -> FloatArray:
        """Some rows as float64; a missing cell becomes NaN."""
        columns = self._columns
        if isinstance(columns, list):
            return side_by_side(columns, start, stop)
        return np.asarray(columns.iloc[start:stop].to_numpy(dtype=np.float64))

    def extra_columns(self, start: int, stop: int) -> Any:
        """Other columns of some rows that were requested, if any."""
        names = self.chosen.extra_columns
        return self.frame.select(names)[start:stop] if names else None


def columns_of(frame: Any, names: Sequence[str]) -> Any:
    """Some columns of a data frame or Table; those of pandas may have numbers for names."""
    if list(names) == getattr(frame, "column_names", None) or list(names) == frame.columns:
        return frame
    if names and not isinstance(names[0], str):
        return nw.from_native(frame.to_native()[list(names)], eager_only=True)
    return frame.select(list(names))


# Blocks whose columns are decoded at once, which spreads the overhead.
BLOCKS_AT_A_TIME = 8


def blocks_of_batch(batch: Any, chosen: ChosenColumns, first_row: int) -> Iterator[RowBlock]:
    """The blocks of a pyarrow RecordBatch, whose first row has this number."""
    import pyarrow as pa

    size = BLOCKS_AT_A_TIME * block_rows(len(chosen.feature_names))
    for start in range(0, batch.num_rows, size):
        table = pa.Table.from_batches([batch.slice(start, size)])
        # A column of which nothing is known is of numbers: others may lie beside it in a file.
        for place, name in enumerate(table.column_names):
            if pa.types.is_null(table.schema.types[place]):
                table = table.set_column(place, name, pa.nulls(len(table), pa.float64()))
        yield from FrameRows(table, chosen, first_row=first_row + start).blocks()


class DataFrames(RowOpener):
    """Data frames in memory, whose groups and weights are beside them or columns of them."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return frame_of(X) is not None

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> FrameRows:
        """Rows of a data frame, whose groups and weights are beside it or columns of it."""
        frame = frame_of(X)
        assert frame is not None
        frame = without_sparse(frame)
        groups = named_columns(frame, sensitive_features)
        weight = sample_weight if isinstance(sample_weight, str) else None
        reserved = {*groups, weight}.intersection(frame.columns)
        check_shape((len(frame), len(frame.columns) - len(reserved)))
        chosen = ChosenColumns.of(
            frame.columns,
            vector_lengths(frame.schema),
            groups,
            weight=weight,
            on_missing=on_missing,
        )
        return FrameRows(
            frame, chosen, **beside_rows(X, len(frame), sensitive_features, sample_weight)
        )


def without_sparse(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """The same data frame, with pandas' sparse columns in full."""
    if frame.implementation.is_pandas():
        kinds = zip(frame.columns, frame.to_native().dtypes, strict=True)
        sparse = {name: kind for name, kind in kinds if type(kind).__name__ == "SparseDtype"}
        if sparse:
            full = {name: kind.subtype for name, kind in sparse.items()}
            return nw.from_native(frame.to_native().astype(full), eager_only=True)
    return frame


def precision_of(X: Any, names: tuple[str, ...] | None = None) -> np.dtype[Any]:
    """float32 where rows in memory hold nothing else, and float64 otherwise.

    Parameters
    ----------
    X : array or data frame
    names : tuple of str, optional
        The columns of a frame that count.

    Examples
    --------
    >>> precision_of(np.zeros((2, 2), dtype=np.float32)), precision_of([[1, 2]])
    (dtype('float32'), dtype('float64'))
    """
    frame = frame_of(X)
    if frame is None:
        is_single = getattr(X, "dtype", None) == np.float32
    else:
        counted = [kind for name, kind in frame.schema.items() if names is None or name in names]
        is_single = bool(counted) and all(kind == nw.Float32 for kind in counted)
    return np.dtype(np.float32 if is_single else np.float64)


def feature_values(
    X: Any, names: tuple[str, ...] | None, on_missing: OnMissing = "error"
) -> FloatArray:
    """Checked values of an array or frame; columns of a frame by their names, where given."""
    frame = frame_of(X)
    if frame is None:
        return ArrayRows(X, on_missing=on_missing).values()
    rows = FrameRows.of(without_sparse(frame), on_missing)
    return (rows if names is None else rows.selected(names)).values()


def without_columns(X: Any, names: Sequence[str]) -> Any:
    """Drop these columns from a data frame, here or on a cluster, where present.

    Anything else is returned as it is.
    """
    if not names:
        return X
    frame = nw.from_native(X, pass_through=True) if frame_of(X) is None else frame_of(X)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return X
    return frame.drop(list(names), strict=False).to_native()


@dataclass(frozen=True)
class ArrowStream(RowsInParts):
    """Rows of an object with the method ``__arrow_c_stream__``, read in its own batches.

    Attributes
    ----------
    source : object
    chosen : ChosenColumns
    n_rows : int or None
        Not known before reading.
    counts : list of int
        Rows of each pass so far: some streams can be read only once, and would end at once later.
    opened : list of pyarrow.RecordBatchReader
        What was opened for the schema, for the first pass to use: opening may run a query.
    """

    source: Any
    chosen: ChosenColumns
    n_rows: int | None = None
    counts: list[int] = field(default_factory=list, repr=False, compare=False)
    opened: list[Any] = field(default_factory=list, repr=False, compare=False)

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python types of the labels in each group column; None where that is not known."""
        if not self.opened:
            return super().label_types
        schema = self.opened[0].schema
        return tuple(label_type(schema.field(column).type) for column in self.chosen.groups)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning.

        Raises
        ------
        InvalidInput
            The stream has been read, and cannot be read again.
        """
        n_rows = 0
        for batch in self.opened.pop() if self.opened else _opened(self.source):
            yield from blocks_of_batch(batch.select(list(self.chosen.read)), self.chosen, n_rows)
            n_rows += batch.num_rows
        self.counts.append(n_rows)
        if n_rows != self.counts[0]:
            raise InvalidInput(
                f"The stream {type(self.source).__name__} gave {self.counts[0]} rows the "
                f"first time and {n_rows} the next",
                "Allowed: streams that can be read again, where rows are needed twice",
                "Read it into a table first (read_all()), or use moments: "
                "GroupMoments.from_rows(...), which need one pass",
            )


class ArrowStreams(ReadInBatches):
    """Objects that export an Arrow stream, whose groups and weights are columns of it."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        # A single column exports a stream too, and is no table.
        is_column = hasattr(X, "__array__") and not hasattr(X, "schema")
        return hasattr(X, "__arrow_c_stream__") and not is_column

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> ArrowStream:
        """Rows of a stream, whose groups and weights are columns of it."""
        what = f"a stream of rows ({type(X).__name__})"
        named = named_columns_only(sensitive_features, sample_weight, what)
        reader = _opened(X)
        names, lengths = reader.schema.names, vector_lengths_of(reader.schema)
        chosen = ChosenColumns.of(names, lengths, on_missing=on_missing, **named)
        return ArrowStream(X, chosen, opened=[reader])


def _opened(source: Any) -> Any:
    pa = imported("pyarrow", "arrow", "Reading a stream")
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
