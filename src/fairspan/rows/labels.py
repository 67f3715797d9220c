"""Group labels beside the rows: arrays, lists, series, frames, or columns of the table itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.checks import check_columns, check_same_length
from fairspan.rows.groups import CodedLabels, listed
from fairspan.rows.numbers import is_wide, numbers_of
from fairspan.typing import AnyArray

# Whole numbers within such a range are coded by a table of the whole range.
_SMALL_RANGE = 1 << 12

_NAMES_OR_LABELS = "Allowed: the name of a column of X, or one label for each row"


@dataclass(frozen=True)
class Everyone:
    """In place of labels: all rows are of one group, of this label."""

    label: str

    def of_rows(self, n_rows: int) -> CodedLabels:
        """The label of each of so many rows."""
        return CodedLabels([self.label], np.zeros(n_rows, dtype=np.intp))


def labels_of_columns(frame: nw.DataFrame[Any], names: Sequence[str]) -> CodedLabels:
    """One column of a data frame as it is; several columns as tuples, their intersections."""
    return CodedLabels.crossed([labels_of_series(frame[name]) for name in names])


def labels_of_series(series: nw.Series[Any]) -> CodedLabels:
    """One column of a data frame."""
    native, kind = series.to_native(), series.dtype
    if series.implementation.is_pyarrow():
        labels = _of_arrow(native)
    elif hasattr(getattr(native, "cat", None), "codes"):
        # Missing is coded as -1, which then points at the last one.
        distinct = [*native.cat.categories.tolist(), None]
        codes = native.cat.codes.to_numpy().astype(np.intp) % len(distinct)
        labels = CodedLabels(distinct, codes)
    elif kind.is_integer() and not is_wide(kind) and series.null_count() == 0:
        labels = _of_array(series.to_numpy())
    else:
        labels = CodedLabels.of(series.to_list())
    return replace(labels, names=names_of(series))


def _of_array(array: AnyArray) -> CodedLabels:
    """One or two dimensions; columns of the second are crossed.

    Raises
    ------
    InvalidType
        Dates or durations.
    """
    kind = array.dtype.kind
    if kind in "mM":  # as plain numbers they would pass for labels
        raise InvalidType(
            f"sensitive_features holds dates or durations ({array.dtype})",
            "Allowed: text, numbers and truth values",
            "Convert them, for example with astype(str)",
        )
    if array.ndim == 2:
        return CodedLabels.crossed([_of_array(column) for column in array.T])
    if kind not in "iub":
        return CodedLabels.of(array.tolist())
    if kind != "b" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < _SMALL_RANGE:
            # A table of all whole numbers in the range is far faster than sorting the rows.
            wide = array if array.dtype.itemsize == 8 else array.astype(np.intp)
            codes = (wide - wide.dtype.type(low)).astype(np.intp)
            return CodedLabels(list(range(low, high + 1)), codes)
    distinct, codes = np.unique(array, return_inverse=True)
    return CodedLabels(distinct.tolist(), codes)


def _of_arrow(column: Any) -> CodedLabels:
    """An Arrow column, coded by Arrow itself, which is many times faster than Python."""
    from pyarrow import types

    try:
        coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
        coded = coded.unify_dictionaries().combine_chunks()
    except NotImplementedError:  # lists and the like: no labels, which the coder says
        return CodedLabels.of(column.to_pylist())
    distinct = coded.dictionary.to_pylist()
    codes = coded.indices.cast("int64")  # narrow ones have no room for one code more
    if codes.null_count:
        codes = codes.fill_null(len(distinct))
        distinct.append(None)
    return CodedLabels(distinct, numbers_of(codes))


def labels_of(
    sensitive_features: Any, n_rows: int, X: Any, name: str = "sensitive_features"
) -> CodedLabels:
    """Labels given beside the rows, by this name in messages.

    Raises
    ------
    InvalidInput
        Lengths that differ, an index in another order than that of X, or a shape that is no column.
    """
    if isinstance(sensitive_features, str):
        raise InvalidInput(
            f"sensitive_features is the name {sensitive_features!r}, but X has no column names",
            _NAMES_OR_LABELS,
            "Pass X as a data frame, or pass the labels themselves",
        )
    if isinstance(sensitive_features, Everyone):
        return sensitive_features.of_rows(n_rows)
    labels = _read(sensitive_features)
    check_same_length(n_rows, len(labels), f"labels in {name}")
    check_index(X, sensitive_features, name)
    return labels


def names_of(values: Any) -> tuple[Any, ...]:
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


def named_columns(frame: nw.DataFrame[Any], sensitive_features: Any) -> list[str]:
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
                f"sensitive_features {listed(names)} could be column names or labels of the "
                f"{len(frame)} rows",
                _NAMES_OR_LABELS,
                "Pass labels as an array, or a table with more rows",
            )
        if len(sensitive_features) > len(frame.columns):
            return []
    else:
        return []
    check_columns(names, frame.columns)
    return names


def _read(values: Any) -> CodedLabels:
    if isinstance(values, CodedLabels):
        return values
    native: Any = None
    if type(values) is not np.ndarray:  # which is known at once
        native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        if not native.columns:
            raise _no_labels(values, native.shape)
        return labels_of_columns(native, native.columns)
    if isinstance(native, nw.Series):
        return labels_of_series(native)
    if isinstance(values, list | tuple):
        # Rows of several attributes; of a single one they are plain labels.
        if values and isinstance(values[0], list):
            values = [tuple(row) for row in values]
        return CodedLabels.of(
            [each[0] if isinstance(each, tuple) and len(each) == 1 else each for each in values]
        )
    if np.ma.is_masked(values):
        raise InvalidInput(
            "sensitive_features has masked labels",
            "Allowed: a label for every row",
            "Drop these rows, or give them a group of their own such as 'unknown'",
        )
    array = np.asarray(values)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise _no_labels(values, array.shape)
    return _of_array(array)


def _no_labels(values: Any, shape: tuple[int, ...]) -> InvalidInput:
    return InvalidInput(
        f"sensitive_features is of type {type(values).__name__} and shape {shape}",
        "Allowed: labels of shape (n,), or (n, a) for a attributes whose intersections count",
        "Pass one label, or one row of labels, for each row of X",
    )


def check_index(X: Any, labels: Any, name: str) -> None:
    """Pandas users expect a match by index; we match by position, so both must agree.

    An index of other values (after a reset, say) is taken as intended.

    Raises
    ------
    InvalidInput
    """
    left: Any = getattr(X, "index", None)
    right: Any = getattr(labels, "index", None)
    # Lists and pyarrow arrays have a method of that name.
    if not hasattr(left, "equals") or not hasattr(right, "equals") or left.equals(right):
        return
    # By hash, as an index may hold values that have no order among each other.
    if left.isin(right).all() and right.isin(left).all():
        raise InvalidInput(
            f"X and {name} carry the same index in different orders",
            "Allowed: values in the order of the rows (they are matched by position)",
            f"Reorder with {name}.loc[X.index]",
        )
