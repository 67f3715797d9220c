"""Rows in memory with labels and sample weights, and those in what numpy reads as an array."""

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
from fairspan.formatting.text import counted, shown_reason
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

# Whole numbers within such a range are coded by a table of the whole range.
_MAX_TABLE_RANGE = 1 << 12
# Up to so many different texts, by so many of the first, each is compared with all of them.
_MAX_COMPARED_TEXTS, _N_SAMPLED_TEXTS = 12, 256

_NAMES_OR_LABELS = "Allowed: the name of a column of X, or one label for each row"


@dataclass(frozen=True)
class ArrayBackend:
    """The package and the device of an array.

    Attributes
    ----------
    xp : module
        The functions of the Array API standard for it.
    device : object
    """

    xp: Any
    device: Any

    def to_device(self, values: AnyArray) -> Any:
        """A numpy array, brought here."""
        if not values.flags.writeable:  # torch warns about those
            values = values.copy()
        return self.xp.asarray(values, device=self.device)

    def float64(self, array: Any) -> Any:
        """An array in double precision."""
        return self.xp.astype(array, self.xp.float64, copy=False)


@dataclass(frozen=True)
class SingleGroup:
    """In place of labels: all rows are of one group, of this label."""

    label: str

    def labels_for(self, n_rows: int) -> CodedLabels:
        """The label of each of so many rows."""
        return CodedLabels([self.label], np.zeros(n_rows, dtype=np.intp))


def as_eager_frame(X: Any) -> nw.DataFrame[Any] | None:
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


def labels_from_columns(
    frame: Any,
    names: Sequence[str],
    bins: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
    unknown: Mapping[str, str] = MappingProxyType({}),
) -> CodedLabels:
    """Columns of a data frame or a pyarrow Table; several are crossed.

    Parameters
    ----------
    frame : narwhals DataFrame, or pyarrow Table
    names : sequence of str
    bins : mapping of column to tuple of float
        Columns of numbers that are cut into groups.
    unknown : mapping of column to str
        The label of rows in which that of a column is missing.
    """
    columns = []
    for name in names:
        if name in bins:
            labels = _bin_labels(numeric_columns(frame.select([name]))[0], name, bins[name])
        else:
            labels = labels_from_series(frame[name], (name,))
        columns.append(labels.fill_missing(unknown[name]) if name in unknown else labels)
    return CodedLabels.cross(columns)


def _bin_labels(numbers: AnyArray, name: str, edges: tuple[float, ...]) -> CodedLabels:
    """Numbers by the bin that they are in, which holds its lower edge and not its upper one."""
    formatted_edges = [f"{edge:.15g}" for edge in edges]
    intervals = [f"{low} to below {high}" for low, high in pairwise(formatted_edges)]
    distinct = [f"below {formatted_edges[0]}", *intervals, f"{formatted_edges[-1]} or more", None]
    codes = np.where(np.isnan(numbers), len(edges) + 1, np.digitize(numbers, edges))
    return CodedLabels(distinct, codes, (name,))


def labels_from_series(series: Any, names: tuple[Any, ...]) -> CodedLabels:
    """One column of a data frame or a pyarrow Table."""
    native = series.to_native() if hasattr(series, "to_native") else series
    if hasattr(native, "dictionary_encode"):
        labels = _labels_from_arrow(native)
    elif hasattr(getattr(native, "cat", None), "codes"):
        # Missing is coded as -1, which then points at the last one.
        distinct = [*native.cat.categories.tolist(), None]
        codes = native.cat.codes.to_numpy().astype(np.intp) % len(distinct)
        counts = np.bincount(codes, minlength=len(distinct))[:-1]
        unused = [distinct[code] for code in np.flatnonzero(counts == 0).tolist()]
        # Bins, as pandas.cut makes them, are edges that somebody chose; some may well be empty.
        unused = [label for label in unused if type(label).__name__ != "Interval"]
        labels = CodedLabels(distinct, codes, unused=tuple(unused))
    elif (
        series.dtype.is_integer()
        and series.dtype not in (nw.Int128, nw.UInt128)  # numpy has no type for those
        and series.null_count() == 0
    ):
        labels = _labels_from_array(series.to_numpy(), "")
    else:
        labels = CodedLabels.from_labels(series.to_list())
    return replace(labels, column_names=tuple(name for name in names if name not in (None, "")))


def label_type_of_series(series: Any) -> type | None:
    """Return the Python type of labels in a narwhals Series; None where that is not known."""
    kind = series.dtype
    if kind == nw.Boolean:
        return bool
    if kind.is_integer():
        return int
    if kind.is_float():
        return float
    return str if kind == nw.String else None


def _labels_from_array(array: AnyArray, name: str) -> CodedLabels:
    """One or two dimensions; columns of the second are crossed.

    Raises
    ------
    InvalidType
        Dates or durations.
    """
    kind = array.dtype.kind
    if kind in "mM":  # as plain numbers they would pass for labels
        raise InvalidType(
            f"{name} holds dates or durations ({array.dtype})",
            "Allowed: text, numbers and truth values",
            "Convert them, for example with astype(str)",
        )
    if array.ndim == 2:
        return CodedLabels.cross([_labels_from_array(column, name) for column in array.T])
    if kind == "U" and len(set(array[:_N_SAMPLED_TEXTS].tolist())) <= _MAX_COMPARED_TEXTS:
        return _labels_from_text_array(array)
    if kind not in "iub":
        return CodedLabels.from_labels(array.tolist())
    if kind != "b" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < _MAX_TABLE_RANGE:
            # A table of all whole numbers in the range is far faster than sorting the rows.
            if array.dtype.itemsize == 8:  # where whole numbers beyond those of intp have room
                codes = (array - array.dtype.type(low)).astype(np.intp, copy=False)
            else:
                codes = array.astype(np.intp)
                codes -= low
            return CodedLabels(list(range(low, high + 1)), codes)
    distinct, codes = np.unique(array, return_inverse=True)
    return CodedLabels(distinct.tolist(), codes)


def _labels_from_text_array(array: AnyArray) -> CodedLabels:
    """Texts of one width, found by comparing all with each: a few times as fast as Python's own."""
    codes, distinct = np.empty(len(array), dtype=np.intp), list[str]()
    rest, left = np.arange(len(array)), array
    while len(left):
        if len(distinct) == _MAX_COMPARED_TEXTS:  # the first did not show that there are more
            return CodedLabels.from_labels(array.tolist())
        same = left == left[0]
        codes[rest[same]] = len(distinct)
        distinct.append(str(left[0]))
        rest, left = rest[~same], left[~same]
    return CodedLabels(distinct, codes)


def _labels_from_arrow(column: Any) -> CodedLabels:
    """An Arrow column, coded by Arrow itself, which is many times faster than Python."""
    from pyarrow import types

    try:
        dictionary_array = (
            column if types.is_dictionary(column.type) else column.dictionary_encode()
        )
        dictionary_array = dictionary_array.unify_dictionaries().combine_chunks()
    except NotImplementedError:  # lists and the like: no labels, which the coder says
        return CodedLabels.from_labels(column.to_pylist())
    distinct = dictionary_array.dictionary.to_pylist()
    codes = dictionary_array.indices.cast("int64")  # narrow ones have no room for one code more
    if codes.null_count:
        codes = codes.fill_null(len(distinct))
        distinct.append(None)
    return CodedLabels(distinct, arrow_to_numpy(codes))


def resolve_labels(
    values: Any,
    n_rows: int,
    X: Any,
    name: str = "sensitive_features",
    rows_name: str = "X",
) -> CodedLabels:
    """Labels in columns of X, where they are named, or beside the rows; by these names in messages.

    Raises
    ------
    InvalidInput
        A column that is not there, lengths that differ, or a shape that is no column.
    """
    if isinstance(values, SingleGroup):
        return values.labels_for(n_rows)
    frame = as_eager_frame(X)
    names = [] if frame is None else resolve_group_columns(frame, values)
    if frame is not None and names:
        return labels_from_columns(frame, names)
    if isinstance(values, str):
        raise InvalidInput(
            f"{name} is the name {values!r}, but {rows_name} has no column names",
            _NAMES_OR_LABELS,
            "Pass X as a data frame, or pass the labels themselves",
        )
    labels = labels_from_values(values, name)
    check_consistent_length(n_rows, len(labels), f"labels in {name}", rows_name)
    return labels


def resolve_labels_and_weights(
    X: Any, n_rows: int, sensitive_features: Any, sample_weight: Any
) -> dict[str, Any]:
    """Labels and weights of rows in memory, checked: where they are given, beside X or by name.

    Weights out of range are scaled; `weight_exponent` is the exponent of their unit.

    Raises
    ------
    InvalidInput
        As of :func:`labels_of` and :func:`check_sample_weight`.
    """
    if isinstance(sample_weight, str) and (frame := as_eager_frame(X)) is not None:
        sample_weight = weights_from_column(frame, sample_weight)
    labels = resolve_labels(sensitive_features, n_rows, X)
    weights, exponent = scaled_weights(check_sample_weight(sample_weight, n_rows), labels)
    return {"group_labels": labels, "weights": weights, "weight_exponent": exponent}


def source_column_names(values: Any) -> tuple[Any, ...]:
    """Names of the columns that labels come from: of a data frame, or of a series that has one.

    Examples
    --------
    >>> names_of(["a", "b"])
    ()
    """
    if hasattr(values, "columns"):
        return tuple(values.columns)
    name = getattr(values, "name", None)
    return () if name is None or name == "" else (name,)


def resolve_group_columns(frame: nw.DataFrame[Any], sensitive_features: Any) -> list[str]:
    """Columns of the frame that `sensitive_features` names; none if it holds labels.

    Raises
    ------
    InvalidInput
        A name that the frame does not have, or a list that could be names or labels.
    """
    if isinstance(sensitive_features, str):
        names = [sensitive_features]
    elif (
        isinstance(sensitive_features, list | tuple)
        and len(sensitive_features) > 0
        and all(isinstance(each, str) for each in sensitive_features)
    ):
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
    else:
        return []
    check_columns(names, frame.columns)
    return names


def labels_from_values(values: Any, name: str) -> CodedLabels:
    """Labels of any kind, by this name in messages."""
    if isinstance(values, CodedLabels):
        return values
    values, native = to_host(values), None
    if type(values) is not np.ndarray:  # which is known at once
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
        # Rows of several attributes; of a single one they are plain labels.
        if values and isinstance(values[0], list):
            values = [tuple(row) for row in values]
        return CodedLabels.from_labels(
            [each[0] if isinstance(each, tuple) and len(each) == 1 else each for each in values]
        )
    if np.ma.is_masked(values):
        raise InvalidInput(
            f"{name} has masked labels",
            "Allowed: a label for every row",
            "Drop these rows, or give them a group of their own such as 'unknown'",
        )
    array = np.asarray(values)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise _invalid_labels_error(name, values, array.shape)
    return _labels_from_array(array, name)


def _invalid_labels_error(name: str, values: Any, shape: tuple[int, ...]) -> InvalidInput:
    return InvalidInput(
        f"{name} is of type {type(values).__name__} and shape {shape}",
        "Allowed: labels of shape (n,), or (n, a) for a attributes whose intersections count",
        "Pass one label, or one row of labels, for each row of X",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemoryRows(BaseRows, ABC):
    """Rows that can be read from any place, with labels and weights on the host.

    Attributes
    ----------
    labels : CodedLabels or None
    weights : (n,) array or None
    weight_exponent : int
        Binary exponent of the unit of the weights.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    first_position : int
        Rows of the whole table before these, where they are a part of it.
    first_row : int
        Number of the first of them in messages.
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
        """(n, p)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return None

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return () if self.group_labels is None else self.group_labels.column_names

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return self.on_missing in KEEPING_MISSING

    @property
    def validate(self) -> Callable[[AnyArray, int, tuple[str, ...] | None], FloatArray]:
        """What makes sure that values are numbers, and that none is missing if none may be."""
        return to_float64_with_missing if self.keeps_missing else to_finite_float64

    def select_features(self, names: tuple[str, ...]) -> Self:
        """The same rows, whose width must fit where there are no names to select by.

        Raises
        ------
        InvalidInput
            Another number of columns.
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
        """Some rows as numbers, not checked, shape (stop - start, p); not to be written to."""

    @abstractmethod
    def take(self, places: IndexArray) -> Self:
        """Return some of the rows, by their positions."""

    def without_dropped(self) -> tuple[Self, int]:
        """Return the rows that are not left out since something is missing, and how many are.

        Where none remains, all rows are returned: their sums raise an error that says why.

        Raises
        ------
        InvalidInput, InvalidType
            As :func:`make_row_block`: what is wrong is found before rows change their numbers.
        """
        labels = self.group_labels
        if labels is None or self.on_missing == "error":
            return self, 0
        left_out = labels.missing_mask
        size = rows_per_block(self.n_features)
        drops = {"drop": np.any, "em-drop-empty": np.all}.get(self.on_missing)
        starts = () if drops is None else range(0, self.n_rows, size)
        for start in starts:
            part = slice(start, min(start + size, self.n_rows))
            values = self.read_slice(start, part.stop)
            if values.dtype.kind != "f":
                values = to_numeric(values)
            if not np.isfinite(values).all():
                assert drops is not None
                left_out[part] |= drops(np.isnan(values), axis=1)
                make_row_block(
                    self.first_row + start,
                    values,
                    labels[part],
                    None,
                    self.feature_names,
                    self.on_missing,
                )
        n_dropped = int(left_out.sum())
        if n_dropped in (0, self.n_rows):
            return self, 0
        return self.take(np.flatnonzero(~left_out)), n_dropped

    def extra_columns(self, start: int, stop: int) -> Any:
        """Other columns of some rows that were requested, if any."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size, names = rows_per_block(self.n_features), self.feature_names
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield make_row_block(
                self.first_row + start,
                self.read_slice(start, stop),
                None if self.group_labels is None else self.group_labels[start:stop],
                None if self.weights is None else self.weights[start:stop],
                names,
                self.on_missing,
                self.extra_columns(start, stop),
            )


@dataclass(frozen=True, eq=False)
class ArrayRows(InMemoryRows):
    """Rows of an (n, p) array.

    Parameters
    ----------
    array : array-like of shape (n, p)
        Numbers of any precision; never copied as a whole.
    """

    array: Any

    def __post_init__(self) -> None:
        given = self.array
        object.__setattr__(self, "array", _as_array(given))
        check_shape(self.array.shape, given)
        check_dtype(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.array.shape)

    def to_array(self) -> FloatArray:
        """All rows at once, checked, shape (n, p)."""
        return self.validate(self.array, 0, None)

    def take(self, places: IndexArray) -> Self:
        """Return some of the rows, by their positions."""
        assert self.group_labels is not None
        weights = None if self.weights is None else self.weights[places]
        array = np.asarray(self.array)[places]
        return replace(self, array=array, group_labels=self.group_labels[places], weights=weights)

    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Some rows as they are in the array."""
        return np.asarray(self.array[start:stop])


class ArrayAdapter(SourceAdapter):
    """Arrays of numpy, and what numpy reads as one."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return hasattr(X, "__array__") or isinstance(X, list | tuple)

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> ArrayRows:
        """Rows of an array, whose groups and weights are beside it."""
        array = ArrayRows(X).array
        if array.dtype.kind in "iu":
            warn_if_rounded({"X": array})
        beside = resolve_labels_and_weights(X, len(array), sensitive_features, sample_weight)
        return ArrayRows(array, on_missing=on_missing, **beside)


def is_from_package(X: Any, package: str) -> bool:
    """Whether an object is of a class of a package, which need not be installed."""
    return any(cls.__module__.split(".")[0] == package for cls in type(X).__mro__)


def is_device_array(X: Any) -> bool:
    """Whether it is an array of another package than numpy, which may lie on a GPU."""
    is_numpy = isinstance(X, np.ndarray | np.generic)
    return not is_numpy and (hasattr(X, "__array_namespace__") or is_from_package(X, "torch"))


def _as_array(values: Any) -> Any:
    if hasattr(values, "tocsr"):
        raise InvalidType(
            "X is a sparse matrix",
            "Allowed: dense arrays and data frames",
            "Convert it with X.toarray() if it fits into memory",
        )
    if hasattr(values, "collect"):
        raise InvalidType(
            f"X is a lazy {type(values).__name__}",
            "Allowed: arrays and data frames that hold their rows",
            "Call collect() on it first",
        )
    rows = values if isinstance(values, list | tuple) else [values]
    if any(isinstance(each, np.ma.MaskedArray) and np.ma.is_masked(each) for each in rows):
        raise InvalidInput(
            "X is an array with masked cells",
            "Allowed: complete rows",
            "Fill in or drop the masked rows first",
        )
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
            f"X is of type {type(values).__name__}, which holds no rows here",
            "Allowed: arrays and data frames of shape (n rows, p features)",
            "Read the rows into one of these first",
        )
    return array


def check_sample_weight(
    sample_weight: Any, n_rows: int, *, is_part: bool = False
) -> FloatArray | None:
    """Sample weights as a (n,) float64 array, or None; all may be zero in a part of a table.

    Raises
    ------
    InvalidInput
        A weight is negative or not finite, all are zero, or their number is not that of the rows.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str):
        raise InvalidInput(
            f"sample_weight is the name {sample_weight!r}, but X has no column names",
            "Allowed: the name of a column of X, or one weight for each row",
            "Pass X as a data frame, or pass the weights themselves",
        )
    try:
        sample_weight = to_host(sample_weight)
        weights = np.asarray(sample_weight)
        if np.ma.is_masked(sample_weight) or weights.dtype.kind not in "fiubO":
            # numpy would drop a mask or an imaginary part, and read text and dates as numbers.
            raise TypeError(f"masked, or of type {weights.dtype}")
        objects = weights.ravel().tolist() if weights.dtype.kind == "O" else []
        if any(isinstance(each, str | bytes) for each in objects):
            raise TypeError("text among objects")
        weights = weights.astype(np.float64, copy=False)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"sample_weight holds values that are no numbers ({shown_reason(error)})",
            "Allowed: finite numbers, zero or above",
            "Convert the weights to numbers",
        ) from error
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight has shape {weights.shape} for {counted(n_rows, 'row')}",
            "Allowed: one weight for each row",
            "Take X and the weights from the same rows",
        )
    return _check_weight_range(weights, "sample_weight", may_be_zero=is_part)


def weights_from_column(frame: Any, name: str) -> FloatArray:
    """Sample weights in a column of a table, or of a part of it, where all may be zero.

    Raises
    ------
    InvalidInput
        A weight is missing, negative or not finite, or the column holds no numbers.
    """
    column = nw.from_native(frame, eager_only=True)[name]
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise InvalidInput(
            f"The column of weights {name!r} holds no numbers, only values of type "
            f"{native_dtype(column)}",
            "Allowed: finite weights, zero or above",
            "Name a column of numbers",
        )
    return _check_weight_range(
        series_to_float64(column), f"The column of weights {name!r}", may_be_zero=True
    )


def _check_weight_range(weights: FloatArray, name: str, *, may_be_zero: bool) -> FloatArray:
    # NaN, if there is one, is the smallest and the largest.
    is_usable = not len(weights) or (weights.min() >= 0 and np.isfinite(weights.max()))
    if not is_usable or not (may_be_zero or weights.any()):
        raise InvalidInput(
            f"{name} holds a negative, NaN or infinite weight, or no positive one",
            "Allowed: finite weights, zero or above, not all zero",
            "Correct or drop the rows with such weights",
        )
    return weights


def to_host(values: Any) -> Any:
    """Values on the host, wherever they are."""
    return to_numpy(values) if is_device_array(values) else values


def to_numpy(array: Any) -> AnyArray:
    """An array as numpy's; what numpy has no name for (bfloat16) must be converted before."""
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    try:
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError):  # those that move only if told to
        return np.asarray(np.from_dlpack(array))
