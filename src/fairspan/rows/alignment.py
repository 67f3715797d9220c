"""Pandas indexes of rows and of the values that are passed with them.

Values are matched with rows by position. Users of pandas expect a match by index, so indexes that
disagree raise an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fairspan.errors import InvalidInput
from fairspan.rows.labels import to_python_label

if TYPE_CHECKING:
    import pandas as pd

# Names that pandas infers for labels that are all numbers; no number equals a text.
_NUMERIC_TYPES = frozenset({"integer", "floating"})


def check_alignment(values: Mapping[str, object]) -> None:
    """Check that matching by position does not contradict any two pandas indexes.

    Two indexes agree if they are equal in the same order, or if they have no label in common (after
    `reset_index`, for example). Objects without a pandas index agree with everything.

    Parameters
    ----------
    values : mapping of str to object
        The rows and the values that are passed with them, by their names in messages. A value that
        is a mapping contains columns by name.

    Raises
    ------
    InvalidInput
        Two indexes share labels and are not equal; the message shows the first difference.

    Examples
    --------
    >>> check_alignment({"X": [[1.0], [2.0]], "sensitive_features": ["a", "b"]})
    """
    distinct: dict[str, pd.Index] = {}
    for name, index in _indexes_of(values):
        # Equality is transitive, so one representative of equal indexes is enough.
        if any(index.equals(other) for other in distinct.values()):
            continue
        # Indexes of different types, such as Int64 and int64, are not equal but may agree.
        for other_name, other in distinct.items():
            if _share_labels(other, index) and not _equal_as_objects(other, index):
                raise _misalignment_error(other_name, other, name, index)
        distinct[name] = index


def _indexes_of(values: Mapping[str, object]) -> Iterator[tuple[str, pd.Index]]:
    """Yield the name and the index of each pandas object."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _indexes_of({f"{name}[{key!r}]": column for key, column in value.items()})
            continue
        index = pandas_index(value)
        if index is not None:
            yield name, index


def pandas_index(value: object) -> pd.Index | None:
    """Return the index of a pandas object, also if narwhals wraps it; None for anything else."""
    native = value.to_native() if hasattr(value, "to_native") else value
    index = getattr(native, "index", None)
    # Lists and Arrow arrays have an `index` method, and the index of a Dask frame is lazy.
    is_index = hasattr(index, "equals") and hasattr(index, "get_indexer")
    return index if is_index else None


def _share_labels(first: pd.Index, second: pd.Index) -> bool:
    """Return whether two indexes have a label in common."""
    if first.nlevels != second.nlevels:
        return False
    # Fast path: numbers and texts differ, as after `reset_index` of rows that had names.
    types = {first.inferred_type, second.inferred_type}
    if "string" in types and types & _NUMERIC_TYPES:
        return False
    try:
        # intersection() hashes: labels may not be sortable, and `isin` would parse text as dates.
        return len(first.intersection(second, sort=False)) > 0
    except TypeError:  # unhashable labels cannot be matched
        return False


def _equal_as_objects(first: pd.Index, second: pd.Index) -> bool:
    """Return whether two indexes of different types, such as Int64 and int64, hold equal labels."""
    if len(first) != len(second) or first.dtype == second.dtype:
        return False
    return bool(first.astype(object).equals(second.astype(object)))


def _misalignment_error(
    first_name: str, first: pd.Index, second_name: str, second: pd.Index
) -> InvalidInput:
    """Build the error for two indexes that share labels and differ."""
    position = _first_difference(first.astype(object), second.astype(object))
    first_label = _format_index_label(first, position)
    second_label = _format_index_label(second, position)
    remedy = _realignment_remedy(first_name, first, second_name, second)
    if len(first) == len(second):
        remedy += f"; if the rows are in the same order already, pass {second_name}.to_numpy()"
    return InvalidInput(
        f"The pandas indexes of {first_name} and {second_name} share labels but are not equal: at "
        f"position {position}, {first_name} has {first_label} and {second_name} has {second_label}",
        "Allowed: equal indexes in the same order, or indexes without a common label, as values "
        "are matched by position",
        remedy,
    )


def _format_index_label(index: pd.Index, position: int) -> str:
    return repr(to_python_label(index[position])) if position < len(index) else "no row"


def _first_difference(first: pd.Index, second: pd.Index) -> int:
    """Return the first position at which two unequal indexes differ, by bisection."""
    n_equal = 0
    n_unequal = max(len(first), len(second))
    while n_unequal - n_equal > 1:
        middle = (n_equal + n_unequal) // 2
        if first[:middle].equals(second[:middle]):
            n_equal = middle
        else:
            n_unequal = middle
    return n_equal


def _realignment_remedy(
    first_name: str, first: pd.Index, second_name: str, second: pd.Index
) -> str:
    """Return advice on how to match two pandas objects by index."""
    if not first.is_unique or not second.is_unique:
        return f"Take {first_name} and {second_name} from the same rows of one table"
    if first.isin(second).all():
        return f"To match by index, pass {second_name}.loc[{first_name}.index]"
    return (
        f"To match by index, take rows = {first_name}.index.intersection({second_name}.index), "
        f"and pass {first_name}.loc[rows] and {second_name}.loc[rows]"
    )
