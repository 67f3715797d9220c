"""Labels and weights given as column names or as one value per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.messages import counted
from fairspan.registry import LazyModule
from fairspan.rows.array_backend import to_host
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.conversion import arrow_to_numpy, numeric_columns
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_validation import check_columns, check_consistent_length
from fairspan.rows.sample_weights import check_sample_weight, weights_from_column
from fairspan.rows.weights import scaled_weights
from fairspan.typing import (
    AnyArray,
    ColumnName,
    EagerFrame,
    FloatArray,
    IndexArray,
    LabelsLike,
    RawLabel,
    TableLike,
)

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pyarrow as pa
    from narwhals import Series
    from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
else:
    nw = LazyModule("narwhals.stable.v2")

# Integers within a range this small are encoded by subtracting the minimum: a category for each
# integer of the range costs little memory.
_MAX_TABLE_RANGE = 1 << 12
# If some of the rows contain at most this many distinct texts, all rows are compared with these:
# with more texts a dictionary is faster.
_MAX_COMPARED_TEXTS = 12
# Number of these rows, or up to twice as many.
_N_SAMPLED_TEXTS = 256

_NAMES_OR_LABELS = "Allowed: the name of a column of X, or one label per row"


class ResolvedMetadata(TypedDict):
    """Groups, classes, clusters and weights of rows in memory, as arguments of `InMemoryRows`."""

    groups: CodedLabels
    classes: CodedLabels | None
    clusters: CodedLabels | None
    weights: FloatArray | None
    weight_exponent: int


@dataclass(frozen=True)
class SingleGroup:
    """Placeholder for labels: all rows belong to one group."""

    label: str

    def labels_for(self, n_rows: int) -> CodedLabels:
        """Return the labels of `n_rows` rows."""
        return CodedLabels([self.label], np.zeros(n_rows, dtype=np.intp))


def as_eager_frame(X: TableLike) -> nw.DataFrame[IntoDataFrame] | None:
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
    frame: EagerFrame,
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
    """Bin numbers into left-closed intervals; NaN becomes None, a missing label."""
    formatted_edges = [f"{edge:.15g}" for edge in edges]
    intervals = [f"{low} to below {high}" for low, high in pairwise(formatted_edges)]
    categories = [f"below {formatted_edges[0]}", *intervals, f"{formatted_edges[-1]} or more", None]
    codes = np.where(np.isnan(numbers), len(edges) + 1, np.digitize(numbers, edges))
    return CodedLabels(categories, codes, (name,))


def labels_from_series(
    series: Series[IntoSeries] | pa.ChunkedArray, names: tuple[ColumnName, ...]
) -> CodedLabels:
    """Return labels from one column of a data frame or pyarrow Table.

    Parameters
    ----------
    series : narwhals Series, or pyarrow ChunkedArray
    names : tuple of names
        Names of the column for messages; None and "" are omitted.
    """
    native: Any = series.to_native() if hasattr(series, "to_native") else series
    if hasattr(native, "dictionary_encode"):  # pyarrow
        labels = _labels_from_arrow(native)
    elif hasattr(getattr(native, "cat", None), "codes"):  # categorical, of pandas
        labels = _labels_from_categorical(native.cat)
    elif (
        series.dtype.is_integer()
        and series.dtype not in (nw.Int128, nw.UInt128)  # numpy has no 128-bit integers
        and series.null_count() == 0
    ):
        labels = _labels_from_array(series.to_numpy(), name="")  # only errors about dates use it
    else:
        labels = CodedLabels.from_labels(series.to_list())
    return labels.with_column_names(tuple(name for name in names if name not in (None, "")))


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


def label_type_of_series(series: Series[IntoSeries]) -> type | None:
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

    `name` is the name of the labels in messages.

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
    if kind == "U" and len(_sample_texts(array)) <= _MAX_COMPARED_TEXTS:
        return _labels_from_text_array(array)
    if kind not in "iub":  # longer texts, objects and floats are encoded by a dictionary
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
    """Return labels from a fixed-width text array, by comparing all rows with few texts.

    The texts are those of some rows. They are told apart by a few characters, which give each row
    the code of one text; then every row is compared with all of that text. If there are more texts
    than the caller expects from these rows, labels are encoded by a dictionary.
    """
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("native"))
    codes = np.empty(len(array), dtype=np.intp)
    texts: list[str] = []
    remaining = array
    remaining_rows: IndexArray | slice = slice(None)
    while len(remaining):
        new_texts = _sample_texts(remaining)
        if len(texts) + len(new_texts) > _MAX_COMPARED_TEXTS:
            return CodedLabels.from_labels(array.tolist())
        text_array = np.array(new_texts, dtype=array.dtype)
        nearest = _nearest_texts(remaining, text_array)
        codes[remaining_rows] = len(texts) + nearest
        texts += new_texts
        nearest_texts = text_array.take(nearest)
        # Integers are compared faster than texts.
        if np.array_equal(_characters(nearest_texts), _characters(remaining)):
            break
        is_other = nearest_texts != remaining
        remaining = remaining[is_other]
        remaining_rows = np.arange(len(array))[remaining_rows][is_other]
    return CodedLabels(texts, codes)


def _sample_texts(array: AnyArray) -> list[str]:
    """Return the distinct texts of some rows, spread over all since these may be sorted."""
    step = max(len(array) // _N_SAMPLED_TEXTS, 1)
    return list(dict.fromkeys(array[::step].tolist()))


def _characters(array: AnyArray) -> npt.NDArray[np.uint32]:
    """Return the code points of a contiguous fixed-width text array, (n, w), zero at the end."""
    n_characters = array.itemsize // np.dtype(np.uint32).itemsize
    return array.view(np.uint32).reshape(len(array), n_characters)


def _nearest_texts(array: AnyArray, texts: AnyArray) -> IndexArray:
    """Return the code of the only one of distinct texts that each row may be equal to.

    Code 0 is that of the first text. Only the characters that tell the texts apart are compared.
    """
    characters = _characters(texts)
    positions = _distinguishing_positions(characters)
    # Contiguous columns are compared faster.
    columns = np.ascontiguousarray(_characters(array)[:, positions].T)
    codes = np.zeros(len(array), dtype=np.intp)
    for code, values in enumerate(characters[1:, positions], start=1):
        codes[(columns == values[:, None]).all(axis=0)] = code
    return codes


def _distinguishing_positions(characters: npt.NDArray[np.uint32]) -> list[int]:
    """Return positions of characters that tell all texts apart, as few as a greedy choice finds.

    Parameters
    ----------
    characters : (n, w) array of distinct rows
        Code points of n texts.
    """
    positions: list[int] = []
    # Texts with the same characters at these positions have the same code.
    codes = np.zeros(len(characters), dtype=np.int64)
    while codes.max() < len(characters) - 1:
        keys = codes[:, None] << 32 | characters
        n_distinct = np.count_nonzero(np.diff(np.sort(keys, axis=0), axis=0), axis=0)
        position = int(n_distinct.argmax())
        positions.append(position)
        codes = np.unique(keys[:, position], return_inverse=True)[1]
    return positions


def _labels_from_arrow(column: pa.ChunkedArray) -> CodedLabels:
    """Return labels from an Arrow column, dictionary-encoded by Arrow; nulls become None."""
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
    values: LabelsLike,
    n_rows: int,
    X: TableLike,
    name: str = "sensitive_features",
    rows_name: str = "X",
) -> CodedLabels:
    """Resolve labels given as column names of `X` or as one value per row.

    Parameters
    ----------
    values : array-like, column name(s) of X, or SingleGroup
    n_rows : int
    X : object
        The rows; only a data frame has names of columns.
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
    check_consistent_length(n_rows, len(labels), name, "label", rows_name)
    return labels


def resolve_metadata(X: TableLike, n_rows: int, metadata: RowMetadata) -> ResolvedMetadata:
    """Resolve and validate groups, classes, clusters and weights of rows in memory.

    Returns the arguments `groups`, `classes`, `clusters`, `weights` and `weight_exponent` of
    `InMemoryRows`. Weights so large or small that their squares could overflow or underflow are
    divided by 2**weight_exponent, which is one for other weights.

    Raises
    ------
    InvalidInput
        Same as for :func:`resolve_labels` and :func:`check_sample_weight`.
    """
    weights = metadata.weights
    if isinstance(weights, str):
        frame = as_eager_frame(X)
        if frame is not None:
            weights = weights_from_column(frame, weights)
    groups = resolve_labels(metadata.groups, n_rows, X)
    scaled, exponent = scaled_weights(check_sample_weight(weights, n_rows), groups)
    return {
        "groups": groups,
        "classes": _resolve_optional_labels(metadata.classes, n_rows, X, "y"),
        "clusters": _resolve_optional_labels(metadata.clusters, n_rows, X, "clusters"),
        "weights": scaled,
        "weight_exponent": exponent,
    }


def _resolve_optional_labels(
    values: LabelsLike, n_rows: int, X: TableLike, name: str
) -> CodedLabels | None:
    return None if values is None else resolve_labels(values, n_rows, X, name)


def source_column_names(values: LabelsLike) -> tuple[ColumnName, ...]:
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


def resolve_group_columns(
    frame: nw.DataFrame[IntoDataFrame], sensitive_features: LabelsLike
) -> list[str]:
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


def labels_from_values(values: LabelsLike, name: str) -> CodedLabels:
    """Factorize labels given as an array, series, data frame or list; `name` is for messages.

    Several columns, and lists of rows, are crossed to one label per row.

    Raises
    ------
    InvalidInput, InvalidType
        Masked labels, an unsupported shape, or dates.
    """
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


def _unwrap(label: RawLabel) -> RawLabel:
    return label[0] if isinstance(label, tuple) and len(label) == 1 else label


def _invalid_labels_error(name: str, values: LabelsLike, shape: tuple[int, ...]) -> InvalidInput:
    return InvalidInput(
        f"{name} is of type {type(values).__name__} and shape {shape}",
        "Allowed: labels of shape (n,), or (n, a) for intersections of a attributes",
        "Pass one label, or one row of labels, for each row of X",
    )
