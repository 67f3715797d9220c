"""Columns that hold a vector of fixed length in each row: each entry is a feature of its own."""

from collections.abc import Mapping, Sequence

from fairspan.errors import InvalidInput
from fairspan.rows.groups import listed


def expanded(columns: Sequence[str], lengths: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the features in these columns.

    Parameters
    ----------
    columns : sequence of str
    lengths : mapping of str to int
        Length of the vectors of each column that holds vectors.

    Examples
    --------
    >>> expanded(["age", "face"], {"face": 2})
    ('age', 'face[0]', 'face[1]')
    """
    names: list[str] = []
    for column in columns:
        names += _entries(column, lengths[column]) if column in lengths else [column]
    return tuple(names)


def collapsed(
    names: Sequence[str], columns: Sequence[str], lengths: Mapping[str, int]
) -> tuple[str, ...]:
    """The columns whose features are these, in this order.

    Raises
    ------
    InvalidInput
        A feature that no column holds, or only some entries of a vector.

    Examples
    --------
    >>> collapsed(["face[0]", "face[1]", "age"], ["age", "face"], {"face": 2})
    ('face', 'age')
    """
    firsts = {_entries(column, 1)[0]: column for column in columns if column in lengths}
    chosen: list[str] = []
    position = 0
    while position < len(names):
        name = names[position]
        column = firsts.get(name, name)
        width = lengths.get(column, 1)
        whole = tuple(names[position : position + width]) == expanded([column], lengths)
        if column not in columns or not whole:
            missing = [each for each in names if each not in expanded(columns, lengths)]
            raise InvalidInput(
                f"X has no column {listed(missing or [name])}",
                f"The model was fitted on {listed(names)}",
                "Add these columns, or fit again without them",
            )
        chosen.append(column)
        position += width
    return tuple(chosen)


def _entries(column: str, length: int) -> list[str]:
    return [f"{column}[{index}]" for index in range(length)]
