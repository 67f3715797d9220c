"""Rows in memory, with labels and sample weights; and rows of numpy arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.messages import counted, shown_reason
from fairspan.registry import LazyModule
from fairspan.rows.groups import CodedLabels, format_list
from fairspan.rows.protocol import (
    KEEPING_MISSING,
    BaseRows,
    OnMissing,
    RowBlock,
    SourceAdapter,
    make_row_block,
    rows_per_block,
)
from fairspan.rows.validation import (
    arrow_to_numpy,
    check_columns,
    check_consistent_length,
    check_dtype,
    check_shape,
    native_dtype,
    numeric_columns,
    series_to_float64,
    to_finite_float64,
    to_float64_with_missing,
    to_numeric,
    warn_if_rounded,
)
from fairspan.rows.weights import scaled_weights
from fairspan.typing import AnyArray, FloatArray, IndexArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = LazyModule("narwhals.stable.v2")

# Integers within a range this small are encoded by subtracting the minimum: a category for each
# integer of the range costs little memory.
_MAX_TABLE_RANGE = 1 << 12
# If the first rows contain at most this many distinct texts, all rows are compared with each text:
# with more texts a dictionary is faster.
_MAX_COMPARED_TEXTS = 12
# Number of these first rows.
_N_SAMPLED_TEXTS = 256

_NAMES_OR_LABELS = "Allowed: the name of a column of X, or one label per row"


@dataclass(frozen=True)
class ArrayBackend:
    """Array API namespace and device of an array.

    Attributes
    ----------
    xp : module
        Array API namespace.
    device : object
    """

    xp: Any
    device: Any

    def to_device(self, values: AnyArray) -> Any:
        """Copy a numpy array to the device."""
        if not values.flags.writeable:  # torch warns about read-only arrays
            values = values.copy()
        return self.xp.asarray(values, device=self.device)

    def float64(self, array: Any) -> Any:
        """Cast an array to float64."""
        return self.xp.astype(array, self.xp.float64, copy=False)


@dataclass(frozen=True)
class SingleGroup:
    """Placeholder for labels: all rows belong to one group."""

    label: str

    def labels_for(self, n_rows: int) -> CodedLabels:
        """Return the labels of `n_rows` rows."""
        return CodedLabels([self.label], np.zeros(n_rows, dtype=np.intp))


def as_eager_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return `X` as an eager narwhals DataFrame; None if it is not one.

    Raises
    ------
    InvalidInput
        Two columns with the same name.
    """
    if type(X) is np.ndarray:  # fast path
        return None
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InvalidInput(
            f"Several columns of X have the same name ({' '.join(str(error).split())})",
            "Allowed: unique column names",
            "Rename them",
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def labels_from_columns(
    frame: Any,
    names: Sequence[str],
    bins: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
    missing_labels: Mapping[str, str] = MappingProxyType({}),
) -> CodedLabels:
    """Return labels from columns of a data frame or pyarrow Table; several columns are crossed.

    Parameters
    ----------
    frame : narwhals DataFrame, or pyarrow Table
    names : sequence of str
    bins : mapping of column to tuple of float
        Bin edges of numeric columns.
    missing_labels : mapping of column to str
        Label for missing values, by column.
    """
    columns = []
    for name in names:
        if name in bins:
            labels = _bin_labels(numeric_columns(frame.select([name]))[0], name, bins[name])
        else:
            labels = labels_from_series(frame[name], (name,))
        if name in missing_labels:
            labels = labels.fill_missing(missing_labels[name])
        columns.append(labels)
    return CodedLabels.cross(columns)


def _bin_labels(numbers: AnyArray, name: str, edges: tuple[float, ...]) -> CodedLabels:
    """Bin numbers into left-closed intervals."""
    formatted_edges = [f"{edge:.15g}" for edge in edges]
    intervals = [f"{low} to below {high}" for low, high in pairwise(formatted_edges)]
    categories = [f"below {formatted_edges[0]}", *intervals, f"{formatted_edges[-1]} or more", None]
    codes = np.where(np.isnan(numbers), len(edges) + 1, np.digitize(numbers, edges))
    return CodedLabels(categories, codes, (name,))


def labels_from_series(series: Any, names: tuple[Any, ...]) -> CodedLabels:
    """Return labels from one column of a data frame or pyarrow Table."""
    native = series.to_native() if hasattr(series, "to_native") else series
    if hasattr(native, "dictionary_encode"):
        labels = _labels_from_arrow(native)
    elif hasattr(getattr(native, "cat", None), "codes"):
        labels = _labels_from_categorical(native.cat)
    elif (
        series.dtype.is_integer()
        and series.dtype not in (nw.Int128, nw.UInt128)  # numpy has no 128-bit integers
        and series.null_count() == 0
    ):
        labels = _labels_from_array(series.to_numpy(), "")
    else:
        labels = CodedLabels.from_labels(series.to_list())
    return replace(labels, column_names=tuple(name for name in names if name not in (None, "")))


def _labels_from_categorical(accessor: Any) -> CodedLabels:
    """Return labels from the accessor `cat` of a categorical pandas Series."""
    categories = [*accessor.categories.tolist(), None]
    # Code -1 (missing) wraps around to the last category, None.
    codes = accessor.codes.to_numpy().astype(np.intp) % len(categories)
    counts = np.bincount(codes, minlength=len(categories))[:-1]
    unused = [categories[code] for code in np.flatnonzero(counts == 0).tolist()]
    # Intervals come from pandas.cut with edges that the user chose; empty bins are expected.
    unused = [label for label in unused if type(label).__name__ != "Interval"]
    return CodedLabels(categories, codes, unused=tuple(unused))


def label_type_of_series(series: Any) -> type | None:
    """Return the Python type of the labels in a narwhals Series; None if unknown."""
    dtype = series.dtype
    if dtype == nw.Boolean:
        return bool
    if dtype.is_integer():
        return int
    if dtype.is_float():
        return float
    return str if dtype == nw.String else None


def _labels_from_array(array: AnyArray, name: str) -> CodedLabels:
    """Return labels from a 1-D or 2-D array; columns of a 2-D array are crossed.

    Raises
    ------
    InvalidType
        Dates or durations.
    """
    kind = array.dtype.kind
    if kind in "mM":  # tolist() would turn them into integers
        raise InvalidType(
            f"{name} contains dates or durations ({array.dtype})",
            "Allowed: text, numbers and booleans",
            "Convert them, for example with astype(str)",
        )
    if array.ndim == 2:
        return CodedLabels.cross([_labels_from_array(column, name) for column in array.T])
    if kind == "U" and len(set(array[:_N_SAMPLED_TEXTS].tolist())) <= _MAX_COMPARED_TEXTS:
        return _labels_from_text_array(array)
    if kind not in "iub":
        return CodedLabels.from_labels(array.tolist())
    if kind != "b" and len(array):
        low = int(array.min())
        high = int(array.max())
        if high - low < _MAX_TABLE_RANGE:
            # Offset encoding is far faster than sorting.
            return CodedLabels(list(range(low, high + 1)), _offset_codes(array, low))
    categories, codes = np.unique(array, return_inverse=True)
    return CodedLabels(categories.tolist(), codes)


def _offset_codes(array: AnyArray, low: int) -> IndexArray:
    """Return integers less their minimum, as codes."""
    if array.dtype.itemsize == 8:  # uint64 may exceed intp, so subtract first
        offsets = array - array.dtype.type(low)
        return np.asarray(offsets, dtype=np.intp)
    codes = array.astype(np.intp)
    codes -= low
    return codes


def _labels_from_text_array(array: AnyArray) -> CodedLabels:
    """Return labels from a fixed-width text array, by comparing all rows with each text."""
    codes = np.empty(len(array), dtype=np.intp)
    categories: list[str] = []
    remaining = array
    remaining_rows = np.arange(len(array))
    while len(remaining):
        if len(categories) == _MAX_COMPARED_TEXTS:  # more distinct texts than the sample suggested
            return CodedLabels.from_labels(array.tolist())
        is_equal = remaining == remaining[0]
        codes[remaining_rows[is_equal]] = len(categories)
        categories.append(str(remaining[0]))
        remaining_rows = remaining_rows[~is_equal]
        remaining = remaining[~is_equal]
    return CodedLabels(categories, codes)


def _labels_from_arrow(column: Any) -> CodedLabels:
    """Return labels from an Arrow column, dictionary-encoded by Arrow."""
    from pyarrow import types

    try:
        dictionary_array = (
            column if types.is_dictionary(column.type) else column.dictionary_encode()
        )
        dictionary_array = dictionary_array.unify_dictionaries().combine_chunks()
    except NotImplementedError:  # lists etc.: the encoder raises
        return CodedLabels.from_labels(column.to_pylist())
    categories = dictionary_array.dictionary.to_pylist()
    # Narrow index types may lack room for one more code.
    codes = dictionary_array.indices.cast("int64")
    if codes.null_count:
        codes = codes.fill_null(len(categories))
        categories.append(None)
    return CodedLabels(categories, arrow_to_numpy(codes))


def resolve_labels(
    values: Any,
    n_rows: int,
    X: Any,
    name: str = "sensitive_features",
    rows_name: str = "X",
) -> CodedLabels:
    """Resolve labels given as column names of `X` or as one value per row.

    Parameters
    ----------
    values : array-like, column name(s) of X, or SingleGroup
    n_rows : int
    X : object
    name, rows_name : str
        Names of the labels and of the rows in messages.

    Raises
    ------
    InvalidInput
        Unknown column, inconsistent lengths, or an invalid shape.
    """
    if isinstance(values, SingleGroup):
        return values.labels_for(n_rows)
    frame = as_eager_frame(X)
    names = [] if frame is None else resolve_group_columns(frame, values)
    if frame is not None and names:
        return labels_from_columns(frame, names)
    if isinstance(values, str):
        raise InvalidInput(
            f"{name} is the column name {values!r}, but {rows_name} has no column names",
            _NAMES_OR_LABELS,
            "Pass X as a data frame, or pass an array of labels",
        )
    labels = labels_from_values(values, name)
    check_consistent_length(n_rows, len(labels), f"labels in {name}", rows_name)
    return labels


def resolve_labels_and_weights(
    X: Any, n_rows: int, sensitive_features: Any, sample_weight: Any
) -> dict[str, Any]:
    """Resolve and validate labels and weights, given by value or by column name.

    Weights out of range are scaled; `weight_exponent` is the exponent of their unit.

    Raises
    ------
    InvalidInput
        Same as for :func:`resolve_labels` and :func:`check_sample_weight`.
    """
    if isinstance(sample_weight, str):
        frame = as_eager_frame(X)
        if frame is not None:
            sample_weight = weights_from_column(frame, sample_weight)
    labels = resolve_labels(sensitive_features, n_rows, X)
    weights, exponent = scaled_weights(check_sample_weight(sample_weight, n_rows), labels)
    return {"group_labels": labels, "weights": weights, "weight_exponent": exponent}


def source_column_names(values: Any) -> tuple[Any, ...]:
    """Column names of a data frame, or the name of a series.

    Examples
    --------
    >>> source_column_names(["a", "b"])
    ()
    """
    if hasattr(values, "columns"):
        return tuple(values.columns)
    name = getattr(values, "name", None)
    return () if name is None or name == "" else (name,)


def resolve_group_columns(frame: nw.DataFrame[Any], sensitive_features: Any) -> list[str]:
    """Return the group columns if `sensitive_features` names columns; empty if it contains labels.

    A string names a column. A list of strings contains labels if there are as many as rows or more
    than columns; else it names columns.

    Raises
    ------
    InvalidInput
        Unknown column, or an ambiguous list (names or labels).
    """
    if isinstance(sensitive_features, str):
        check_columns([sensitive_features], frame.columns)
        return [sensitive_features]
    if not isinstance(sensitive_features, list | tuple) or len(sensitive_features) == 0:
        return []
    if not all(isinstance(value, str) for value in sensitive_features):
        return []
    names = list(dict.fromkeys(sensitive_features))
    if len(sensitive_features) == len(frame):
        if not set(names).issubset(frame.columns):
            return []
        raise InvalidInput(
            f"sensitive_features {format_list(names)} could be column names or labels of the "
            f"{counted(len(frame), 'row')}",
            _NAMES_OR_LABELS,
            "Pass labels as an array, or a table with more rows",
        )
    if len(sensitive_features) > len(frame.columns):
        return []
    check_columns(names, frame.columns)
    return names


def labels_from_values(values: Any, name: str) -> CodedLabels:
    """Factorize labels given as an array, series, data frame or list; `name` is for messages."""
    if isinstance(values, CodedLabels):
        return values
    values = to_host(values)
    native = None
    if type(values) is not np.ndarray:  # fast path
        pandas = nw.dependencies.get_pandas()
        if pandas is not None and isinstance(values, (pandas.Categorical, pandas.CategoricalIndex)):
            values = pandas.Series(values)
        native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        if not native.columns:
            raise _invalid_labels_error(name, values, native.shape)
        return labels_from_columns(native, native.columns)
    if isinstance(native, nw.Series):
        return labels_from_series(native, (native.name,))
    if isinstance(values, list | tuple):
        # Rows of several attributes; single-attribute rows are unwrapped.
        if values and isinstance(values[0], list):
            values = [tuple(row) for row in values]
        return CodedLabels.from_labels([_unwrap(label) for label in values])
    if np.ma.is_masked(values):
        raise InvalidInput(
            f"{name} contains masked labels",
            "Allowed: a label for every row",
            "Drop these rows, or assign them to a separate group such as 'unknown'",
        )
    array = np.asarray(values)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise _invalid_labels_error(name, values, array.shape)
    return _labels_from_array(array, name)


def _unwrap(label: Any) -> Any:
    return label[0] if isinstance(label, tuple) and len(label) == 1 else label


def _invalid_labels_error(name: str, values: Any, shape: tuple[int, ...]) -> InvalidInput:
    return InvalidInput(
        f"{name} is of type {type(values).__name__} and shape {shape}",
        "Allowed: labels of shape (n,), or (n, a) for intersections of a attributes",
        "Pass one label, or one row of labels, for each row of X",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemoryRows(BaseRows, ABC):
    """Base class of rows in memory, with random access.

    Attributes
    ----------
    group_labels : CodedLabels or None
    weights : (n,) array or None
    weight_exponent : int
        Binary exponent of the unit of the weights.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    row_offset : int
        Number of rows of the whole table before these.
    first_row : int
        Row number of the first row in messages.
    """

    group_labels: CodedLabels | None = None
    weights: FloatArray | None = None
    weight_exponent: int = 0
    on_missing: OnMissing = "error"
    row_offset: int = 0
    first_row: int = 0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Feature names, if any."""
        return None

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the group columns; empty if unnamed."""
        return () if self.group_labels is None else self.group_labels.column_names

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return self.on_missing in KEEPING_MISSING

    @property
    def validate(self) -> Callable[[AnyArray, int, tuple[str, ...] | None], FloatArray]:
        """Validation function for values: with or without missing cells."""
        return to_float64_with_missing if self.keeps_missing else to_finite_float64

    def select_features(self, names: tuple[str, ...]) -> Self:
        """Return the same rows; without names only the number of features is checked.

        Raises
        ------
        InvalidInput
            Wrong number of columns.
        """
        if self.n_features != len(names):
            raise InvalidInput(
                f"X has {counted(self.n_features, 'feature')}",
                f"The model was fitted on {len(names)}: {format_list(names)}",
                "Pass the columns that it was fitted on",
            )
        return self

    @abstractmethod
    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Unvalidated values of a row range, shape (stop - start, p); must not be modified."""

    @abstractmethod
    def take(self, indices: IndexArray) -> Self:
        """Select rows by position."""

    def without_dropped(self) -> tuple[Self, int]:
        """Return the rows without incomplete ones, and the number of dropped rows.

        If none remains, all rows are returned: aggregating them raises an error with the reason.

        Raises
        ------
        InvalidInput, InvalidType
            Same as for :func:`make_row_block`, raised before row numbers change.
        """
        labels = self.group_labels
        if labels is None or self.on_missing == "error":
            return self, 0
        drop_mask = labels.missing_mask
        drops = {"drop": np.any, "em-drop-empty": np.all}.get(self.on_missing)
        if drops is not None:
            size = rows_per_block(self.n_features)
            for start in range(0, self.n_rows, size):
                part = slice(start, min(start + size, self.n_rows))
                values = self.read_slice(start, part.stop)
                if values.dtype.kind != "f":
                    values = to_numeric(values)
                if np.isfinite(values).all():
                    continue
                drop_mask[part] |= drops(np.isnan(values), axis=1)
                # Called for its validation only.
                make_row_block(
                    self.first_row + start,
                    values,
                    labels[part],
                    None,
                    self.feature_names,
                    self.on_missing,
                )
        n_dropped = int(drop_mask.sum())
        if n_dropped in (0, self.n_rows):
            return self, 0
        return self.take(np.flatnonzero(~drop_mask)), n_dropped

    def extra_columns(self, start: int, stop: int) -> Any:
        """Pass-through columns of a row range, if requested."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size = rows_per_block(self.n_features)
        feature_names = self.feature_names
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield make_row_block(
                self.first_row + start,
                self.read_slice(start, stop),
                None if self.group_labels is None else self.group_labels[start:stop],
                None if self.weights is None else self.weights[start:stop],
                feature_names,
                self.on_missing,
                self.extra_columns(start, stop),
            )


@dataclass(frozen=True, eq=False)
class ArrayRows(InMemoryRows):
    """Rows of an (n, p) array.

    Parameters
    ----------
    array : array-like of shape (n, p)
        Numeric values of any precision; never copied in full.
    """

    array: Any

    def __post_init__(self) -> None:
        X = self.array
        object.__setattr__(self, "array", _as_array(X))
        check_shape(self.array.shape, X)
        check_dtype(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""
        return tuple(self.array.shape)

    def to_array(self) -> FloatArray:
        """All rows, validated, shape (n, p)."""
        return self.validate(self.array, 0, None)

    def take(self, indices: IndexArray) -> Self:
        """Select rows by position."""
        assert self.group_labels is not None
        weights = None if self.weights is None else self.weights[indices]
        array = np.asarray(self.array)[indices]
        return replace(self, array=array, group_labels=self.group_labels[indices], weights=weights)

    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Return a row range of the array."""
        return np.asarray(self.array[start:stop])


class ArrayAdapter(SourceAdapter):
    """Adapter for numpy arrays and array-likes."""

    def accepts(self, X: Any) -> bool:
        """Return whether `X` is an array-like."""
        return hasattr(X, "__array__") or isinstance(X, list | tuple)

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> ArrayRows:
        """Open the rows of an array."""
        array = ArrayRows(X).array
        if array.dtype.kind in "iu":
            warn_if_rounded({"X": array})
        metadata = resolve_labels_and_weights(X, len(array), sensitive_features, sample_weight)
        return ArrayRows(array, on_missing=on_missing, **metadata)


def is_from_package(X: Any, package: str) -> bool:
    """Return whether an object's class comes from a package, without importing it."""
    return any(cls.__module__.split(".")[0] == package for cls in type(X).__mro__)


def is_device_array(X: Any) -> bool:
    """Return whether `X` is a non-numpy array, possibly on a GPU."""
    is_numpy = isinstance(X, np.ndarray | np.generic)
    return not is_numpy and (hasattr(X, "__array_namespace__") or is_from_package(X, "torch"))


def _reject_unsupported(values: Any) -> None:
    """Raise for sparse, lazy and masked objects, which numpy would convert to something else."""
    if hasattr(values, "tocsr"):
        raise InvalidType(
            "X is a sparse matrix",
            "Allowed: dense arrays and data frames",
            "Convert it with X.toarray() if it fits into memory",
        )
    if hasattr(values, "collect"):
        raise InvalidType(
            f"X is a lazy {type(values).__name__}",
            "Allowed: arrays and eager data frames",
            "Call collect() on it first",
        )
    arrays = values if isinstance(values, list | tuple) else [values]
    if any(isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array) for array in arrays):
        raise InvalidInput(
            "X is an array with masked cells",
            "Allowed: arrays without masked entries",
            "Fill in or drop the masked rows first",
        )


def _as_array(values: Any) -> Any:
    _reject_unsupported(values)
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(
            f"X cannot be read as a table ({shown_reason(error)})",
            "Allowed: an array of shape (n rows, p features)",
            "Make all rows equally long",
        ) from error
    if array.ndim == 0 and array.dtype.kind in "OSU":
        raise InvalidType(
            f"X is of type {type(values).__name__}, which is not a table",
            "Allowed: arrays and data frames of shape (n rows, p features)",
            "Load the rows into one of these first",
        )
    return array


def check_sample_weight(
    sample_weight: Any, n_rows: int, *, is_part: bool = False
) -> FloatArray | None:
    """Validate sample weights; returns an (n,) float64 array, or None.

    Parameters
    ----------
    sample_weight : array-like or None
    n_rows : int
    is_part : bool
        Whether the rows are one partition of a table, in which all weights may be zero.

    Raises
    ------
    InvalidInput
        A weight is negative or not finite, all are zero, or lengths are inconsistent.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str):
        raise InvalidInput(
            f"sample_weight is the column name {sample_weight!r}, but X has no column names",
            "Allowed: the name of a column of X, or one weight per row",
            "Pass X as a data frame, or pass an array of weights",
        )
    try:
        sample_weight = to_host(sample_weight)
        weights = np.asarray(sample_weight)
        _reject_non_numeric_weights(sample_weight, weights)
        weights = weights.astype(np.float64, copy=False)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"sample_weight contains non-numeric values ({shown_reason(error)})",
            "Allowed: finite numbers, zero or above",
            "Convert the weights to numbers",
        ) from error
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight has shape {weights.shape} for {counted(n_rows, 'row')}",
            "Allowed: one weight per row",
            "Pass X and the weights of the same rows",
        )
    return _check_weight_range(weights, "sample_weight", may_be_zero=is_part)


def _reject_non_numeric_weights(sample_weight: Any, weights: AnyArray) -> None:
    """Raise TypeError for weights that `astype` would convert to numbers silently."""
    # numpy would drop a mask or an imaginary part, and read text and dates as numbers.
    if np.ma.is_masked(sample_weight) or weights.dtype.kind not in "fiubO":
        raise TypeError(f"masked, or of type {weights.dtype}")
    if weights.dtype.kind != "O":
        return
    if any(isinstance(weight, str | bytes) for weight in weights.ravel().tolist()):
        raise TypeError("text among objects")


def weights_from_column(frame: Any, name: str) -> FloatArray:
    """Return the validated sample weights in a column; all may be zero, as in one partition.

    Raises
    ------
    InvalidInput
        A weight is missing, negative or not finite, or the column is not numeric.
    """
    column = nw.from_native(frame, eager_only=True)[name]
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise InvalidInput(
            f"The weight column {name!r} is not numeric ({native_dtype(column)})",
            "Allowed: finite weights, zero or above",
            "Pass the name of a numeric column",
        )
    return _check_weight_range(
        series_to_float64(column), f"The weight column {name!r}", may_be_zero=True
    )


def _check_weight_range(weights: FloatArray, name: str, *, may_be_zero: bool) -> FloatArray:
    # If a weight is NaN, then so are minimum and maximum.
    is_usable = not len(weights) or (weights.min() >= 0 and np.isfinite(weights.max()))
    if not is_usable or not (may_be_zero or weights.any()):
        raise InvalidInput(
            f"{name} contains a negative, NaN or infinite weight, or no positive one",
            "Allowed: finite weights, zero or above, not all zero",
            "Correct or drop the rows with such weights",
        )
    return weights


def to_host(values: Any) -> Any:
    """Copy values to the host if they are on a device."""
    return to_numpy(values) if is_device_array(values) else values


def to_numpy(array: Any) -> AnyArray:
    """Convert a device array to numpy.

    Types that numpy lacks (bfloat16) must be converted first.
    """
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    try:
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError):  # arrays that require an explicit transfer
        return np.asarray(np.from_dlpack(array))
