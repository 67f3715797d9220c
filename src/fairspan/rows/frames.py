"""Rows in named columns: a data frame that narwhals reads eagerly, or a stream of Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import InvalidInput, imported
from fairspan.registry import ImportedLater
from fairspan.rows.arrays import (
    ArrayRows,
    RowsInMemory,
    check_apart,
    check_index,
    checked_weights,
    labels_of,
    labels_of_columns,
    named_columns,
    weights_of_column,
)
from fairspan.rows.checks import (
    check_columns,
    check_names,
    check_shape,
    checked_values,
    collapsed,
    features_of,
    number_columns,
    side_by_side,
    vector_lengths,
    warn_of_rounding,
)
from fairspan.rows.columns import (
    ChosenColumns,
    ReadInBatches,
    RowsByColumns,
    named_columns_only,
    vector_lengths_of,
)
from fairspan.rows.protocol import OnMissing, RowBlock, RowOpener
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = ImportedLater("narwhals.stable.v2")


@dataclass(frozen=True, eq=False)
class FrameRows(RowsInMemory):
    """Rows of a data frame whose columns are all features.

    Parameters
    ----------
    frame : narwhals DataFrame
    set_aside : narwhals DataFrame or None
        Group columns of the same table, which are features only if requested by name.
    """

    frame: nw.DataFrame[Any]
    set_aside: nw.DataFrame[Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_shape(self.frame.shape)
        check_names(self.frame.columns)

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """Column names; None where they are not text (pandas numbers unnamed columns)."""
        is_text = isinstance(self.frame.columns[0], str)
        return tuple(chain(*self._features.values())) if is_text else None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return len(self.frame), sum(map(len, self._features.values()))

    def selected(self, names: tuple[str, ...]) -> FrameRows:
        """The same rows with these columns, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        if self.set_aside is not None and set(names).intersection(self.set_aside.columns):
            whole = nw.concat([self.frame, self.set_aside], how="horizontal")
            return replace(self, frame=whole, set_aside=None).selected(names)
        columns = collapsed(names, self._features)
        return replace(self, frame=self.frame.select(list(columns)))

    @cached_property
    def _features(self) -> dict[str, tuple[str, ...]]:
        return features_of(self.frame.columns, vector_lengths(self.frame.schema))

    def values(self) -> FloatArray:
        """All rows at once, checked, shape (n, p)."""
        return checked_values(self.between(0, self.n_rows), 0, self.feature_names)

    @cached_property
    def _columns(self) -> Any:
        """Columns of numbers, or a pandas frame of nothing else, which pandas puts side by side."""
        native = self.frame.to_native()
        if self.frame.implementation.is_pandas() and all(
            isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in native.dtypes
        ):
            whole = {name: native[name].to_numpy() for name in native.select_dtypes("integer")}
            warn_of_rounding(whole)
            return native
        return number_columns(self.frame)

    def between(self, start: int, stop: int) -> FloatArray:
        """Some rows as float64; a missing cell becomes NaN."""
        columns = self._columns
        if isinstance(columns, list):
            return side_by_side(columns, start, stop)
        return np.asarray(columns.iloc[start:stop].to_numpy(dtype=np.float64))


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
        names = named_columns(frame, sensitive_features)
        weight = [sample_weight] if isinstance(sample_weight, str) else []
        check_columns(weight, frame.columns)
        check_apart(names, *weight)
        features = frame.drop([*names, *weight])
        check_shape(features.shape)
        labels = (
            labels_of_columns(frame, names)
            if names
            else labels_of(sensitive_features, len(frame), X)
        )
        check_index(X, sample_weight, "sample_weight")
        given = weights_of_column(frame[weight[0]]) if weight else sample_weight
        return FrameRows(
            features,
            labels=labels,
            weights=checked_weights(given, len(frame)),
            on_missing=on_missing,
            set_aside=frame.select(names) if names else None,
            reserved_columns=(*names, *weight),
        )


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """X as a narwhals frame if it is a data frame that holds its rows; None otherwise.

    Raises
    ------
    InvalidInput
        Two columns of the same name.
    """
    if type(X) is np.ndarray:  # known at once
        return None
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InvalidInput(
            f"Several columns of X have the same name ({' '.join(str(error).split())})",
            "Allowed: columns of different names",
            "Rename them",
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


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


def feature_values(X: Any, names: tuple[str, ...] | None) -> FloatArray:
    """Checked values of an array or frame; columns of a frame by their names, where given."""
    frame = frame_of(X)
    if frame is None:
        return ArrayRows(X).values()
    rows = FrameRows(without_sparse(frame))
    return (rows if names is None else rows.selected(names)).values()


def without_columns(X: Any, names: tuple[str, ...]) -> Any:
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
class ArrowStream(RowsByColumns):
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

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning.

        Raises
        ------
        InvalidInput
            The stream has been read, and cannot be read again.
        """
        n_rows = 0
        for batch in self.opened.pop() if self.opened else _opened(self.source):
            yield from self.chosen.blocks(batch.select(list(self.chosen.read)), n_rows)
            n_rows += batch.num_rows
        self.counts.append(n_rows)
        if n_rows != self.counts[0]:
            raise InvalidInput(
                f"The stream {type(self.source).__name__} gave {self.counts[0]} rows the first "
                f"time and {n_rows} the next",
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
        named = named_columns_only(
            sensitive_features, sample_weight, f"a stream of rows ({type(X).__name__})"
        )
        reader = _opened(X)
        chosen = ChosenColumns.of(
            reader.schema.names,
            vector_lengths_of(reader.schema),
            on_missing=on_missing,
            **named,
        )
        return ArrowStream(X, chosen, opened=[reader])


def _opened(source: Any) -> Any:
    pa = imported("pyarrow", "arrow", "Reading a stream")
    if isinstance(source, pa.RecordBatchReader):
        return source
    try:
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(
            f"X, of type {type(source).__name__}, is no stream of rows ({error})",
            "Allowed: streams of tables with named columns",
            "Pass a table with one column for each feature",
        ) from error
