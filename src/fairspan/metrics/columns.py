"""Columns beside each other: outcomes and groups of the same rows, checked and coded."""

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.numbers import position
from fairspan.rows.coded_labels import CodedLabels, LabelCoder, in_order
from fairspan.rows.groups import Label, Scalar, listed, plain_labels
from fairspan.rows.labels import check_index, labels_of
from fairspan.typing import IntegerArray

_ALLOWED = "Allowed: one outcome for each row: text, numbers or truth values, none missing"


def coded_groups(
    groups: Any, beside: Any, n_rows: int, names: tuple[str, str]
) -> tuple[tuple[Label, ...], IntegerArray]:
    """Groups in sorted order, and the position of each row's group among them.

    Parameters
    ----------
    groups : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Several columns make their intersections.
    beside : object
        What the groups are matched with by position; an index that disagrees is an error.
    n_rows : int
        Rows of `beside`.
    names : tuple of two str
        What `beside` and the groups are called in messages.

    Returns
    -------
    tuple of k labels, (n,) array of int

    Raises
    ------
    InvalidInput
        No column of labels, lengths that differ, a missing label, an index in another order.
    InvalidType
        Labels that cannot name a group.
    """
    beside_name, name = names
    if isinstance(groups, Mapping):
        groups = _crossed(groups, name)
    if (
        isinstance(groups, str)
        or not hasattr(groups, "__len__")
        or getattr(groups, "shape", None) == ()
    ):
        raise InvalidInput(
            f"{name} is {groups!r}",
            "Allowed: one group label for each row, or a column for each of several attributes",
            f"Pass {name} as a list, array, series or data frame",
        )
    if len(groups) != n_rows:
        raise InvalidInput(
            f"The lengths differ: {n_rows} rows in {beside_name}, {len(groups)} in {name}",
            "Allowed: one group label for each row",
            "Take both from the same rows",
        )
    try:
        check_index(beside, groups, name)
    except InvalidInput as error:  # it says X, whatever the rows are called here
        raise InvalidInput(
            f"{beside_name} and {name} carry the same index in different orders",
            "Allowed: values in the order of the rows (they are matched by position)",
            f"Reorder with {name}.loc[{beside_name}.index]",
        ) from error
    coder = LabelCoder()
    codes = coder.encode(labels_of(groups, n_rows, None).between(0, n_rows))
    return in_order(CodedLabels(coder.labels, codes))


def coded_outcomes(labels: Any, name: str) -> tuple[tuple[Scalar, ...], IntegerArray]:
    """Outcomes in sorted order, and the position of each row's outcome among them.

    Unlike groups, 1, 1.0 and True are one outcome: predictions are often real numbers where the
    labels are whole.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
    name : str
        What they are called in messages.

    Returns
    -------
    tuple of m values, (n,) array of int

    Raises
    ------
    InvalidInput
        Not one column, empty, a missing outcome, text beside numbers.
    InvalidType
        Outcomes that are neither text nor numbers.
    """
    values = _values(labels, name)
    if not values:
        raise InvalidInput(f"{name} is empty", "Allowed: at least one row", "Pass the rows")
    try:
        met = {value: index for index, value in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise InvalidType(
            f"{name} cannot be compared ({error})", _ALLOWED, "Pass one column"
        ) from error
    is_text = {_is_text(value, name, values) for value in met}
    if len(is_text) > 1:
        raise InvalidInput(f"{name} mixes text with numbers", _ALLOWED, "Convert it to one type")
    codes = np.fromiter(map(met.__getitem__, values), np.intp, len(values))
    return in_order(CodedLabels(list(met), codes))


def _crossed(columns: Mapping[Any, Any], name: str) -> list[tuple[Any, ...]]:
    lengths = sorted({len(each) if hasattr(each, "__len__") else 0 for each in columns.values()})
    if len(lengths) != 1 or lengths == [0]:
        raise InvalidInput(
            f"The columns of {name} have lengths {listed(lengths)}",
            "Allowed: at least one column, all of the same length",
            "Take all columns from the same rows",
        )
    return list(zip(*columns.values(), strict=True))


def _values(labels: Any, name: str) -> list[Any]:
    native: Any = nw.from_native(labels, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame) and len(native.columns) == 1:
        native = native[native.columns[0]]
    if isinstance(native, nw.Series):
        return list(native.to_list())
    if isinstance(native, list | tuple) and not any(isinstance(x, list | tuple) for x in native):
        # numpy would turn [1, "a"] into text.
        return plain_labels(native)
    try:
        array = np.asarray(labels)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(f"{name} is no column ({error})", _ALLOWED, "Pass one column") from error
    if np.ma.is_masked(labels):
        raise InvalidInput(f"{name} has masked entries", _ALLOWED, "Drop these rows")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(
            f"{name} is of type {type(labels).__name__} and shape {array.shape}",
            "Allowed: one dimension: one outcome for each row",
            "Pass a single column; of scores for several classes take argmax(axis=1) first",
        )
    # As plain numbers, dates would pass for outcomes.
    return list(array) if array.dtype.kind in "mM" else plain_labels(array.tolist())


def _is_text(value: Any, name: str, values: list[Any]) -> bool:
    kind = type(value)
    is_nan = isinstance(value, float) and value != value
    if value is None or is_nan or kind.__name__ in ("NAType", "NaTType"):
        row = next(row for row, each in enumerate(values) if each is value)
        raise InvalidInput(
            f"{name} has no outcome in {position('row', row)} (None or NaN)",
            _ALLOWED,
            "Drop these rows",
        )
    if not isinstance(value, str | bool | int | float):
        raise InvalidType(
            f"{name} holds {value!r}, of type {kind.__name__}",
            _ALLOWED,
            "Convert it, for example with astype(str)",
        )
    return isinstance(value, str)
