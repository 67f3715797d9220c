"""Pandas indexes of rows and of the values passed beside them.

Values are matched with rows by position. Users of pandas expect a match by index, so indexes that
disagree are refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.rows.groups import to_python_label

# What pandas calls labels that are all numbers; none of them equals a text.
_NUMERIC_KINDS = frozenset({"integer", "floating"})


def check_alignment(values: Mapping[str, Any]) -> None:
    """Make sure that matching by position does not contradict any two pandas indexes.

    Two indexes agree if they are equal in the same order, or if they have no label in common (after
    `reset_index`, for example). Objects without a pandas index agree with everything.

    Parameters
    ----------
    values : mapping of str to object
        The rows and whatever is passed beside them, by the names that messages use. A mapping
        among them holds one column for each of its names.

    Raises
    ------
    InvalidInput
        Two indexes share labels and are not equal; the message shows the first difference.

    Examples
    --------
    >>> check_alignment({"X": [[1.0], [2.0]], "sensitive_features": ["a", "b"]})
    """
    distinct: dict[str, Any] = {}
    for name, index in _indexes_of(values):
        # Equality is transitive, so one representative of equal indexes is enough.
        if any(index.equals(other) for other in distinct.values()):
            continue
        for other_name, other in distinct.items():
            if _share_labels(other, index) and not _equal_as_objects(other, index):
                raise _misaligned(other_name, other, name, index)
        distinct[name] = index


def _indexes_of(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the index of each pandas object."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _indexes_of({f"{name}[{key!r}]": column for key, column in value.items()})
            continue
        index = pandas_index(value)
        if index is not None:
            yield name, index


def pandas_index(value: Any) -> Any | None:
    """Return the index of a pandas object, also inside one of narwhals; None of anything else."""
    native = value.to_native() if hasattr(value, "to_native") else value
    index = getattr(native, "index", None)
    # Lists and Arrow arrays have a method `index`, and the index of a Dask frame is lazy.
    is_index = hasattr(index, "equals") and hasattr(index, "get_indexer")
    return index if is_index else None


def _share_labels(first: Any, second: Any) -> bool:
    """Return whether two indexes have a label in common."""
    if first.nlevels != second.nlevels:
        return False
    # Known without a look at each label, as after `reset_index` of rows that had names.
    kinds = {first.inferred_type, second.inferred_type}
    if "string" in kinds and kinds & _NUMERIC_KINDS:
        return False
    try:
        # By hash, as labels of several types have no order; `isin` would read text as dates.
        return len(first.intersection(second, sort=False)) > 0
    except TypeError:  # unhashable labels, by which no user can match
        return False


def _equal_as_objects(first: Any, second: Any) -> bool:
    """Return whether two indexes of different types, such as Int64 and int64, hold equal labels."""
    if len(first) != len(second) or first.dtype == second.dtype:
        return False
    return bool(first.astype(object).equals(second.astype(object)))


def _misaligned(first_name: str, first: Any, second_name: str, second: Any) -> InvalidInput:
    """Return the error for two indexes that share labels and differ."""
    place = _first_difference(first.astype(object), second.astype(object))
    labels = [
        repr(to_python_label(index[place])) if place < len(index) else "no row"
        for index in (first, second)
    ]
    remedy = _realignment(first_name, first, second_name, second)
    if len(first) == len(second):
        remedy += f"; if the rows are in the same order already, pass {second_name}.to_numpy()"
    return InvalidInput(
        f"The pandas indexes of {first_name} and {second_name} share labels but are not equal: at "
        f"position {place}, {first_name} has {labels[0]} and {second_name} has {labels[1]}",
        "Allowed: equal indexes in the same order, or indexes without a common label, as values "
        "are matched by position",
        remedy,
    )


def _first_difference(first: Any, second: Any) -> int:
    """Return the first position at which two unequal indexes differ."""
    same, different = 0, max(len(first), len(second))
    while different - same > 1:
        middle = (same + different) // 2
        if first[:middle].equals(second[:middle]):
            same = middle
        else:
            different = middle
    return same


def _realignment(first_name: str, first: Any, second_name: str, second: Any) -> str:
    """Return the advice that matches two pandas objects by index."""
    if not first.is_unique or not second.is_unique:
        return f"Take {first_name} and {second_name} from the same rows of one table"
    if first.isin(second).all():
        return f"To match by index, pass {second_name}.loc[{first_name}.index]"
    return (
        f"To match by index, take rows = {first_name}.index.intersection({second_name}.index), "
        f"and pass {first_name}.loc[rows] and {second_name}.loc[rows]"
    )
