"""What becomes of text in the columns of a table.

A column of text becomes an indicator (1 or 0) for each of its categories, named "column=category".
A model keeps the names of its features, which is all that is needed to encode other rows alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray

# A column of more different texts is a name or an identifier.
MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Encoding:
    """How cells become numbers.

    Attributes
    ----------
    categories : tuple of (column, tuple of str)
        Columns of text, and the categories that have an indicator each.
    ignores_unseen : bool
        Whether a text that is no known category is 0 in all indicators; otherwise it is an error.
    """

    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ignores_unseen: bool = False

    def names_of(self, column: str) -> tuple[str, ...] | None:
        """Names of the indicators of a column; None if it is no column of categories."""
        categories = dict(self.categories).get(column)
        return None if categories is None else tuple(f"{column}={each}" for each in categories)

    def indicators(self, column: str, cells: Any) -> FloatArray:
        """Indicators of a column as an (r, number of categories) array; NaN for missing cells.

        Parameters
        ----------
        column : str
        cells : pyarrow.ChunkedArray
            Of text.

        Raises
        ------
        InvalidInput
            A text that is no known category, where these are not ignored.
        """
        import pyarrow as pa
        from pyarrow import compute

        known = dict(self.categories)[column]
        texts = as_text(cells)
        codes = compute.index_in(texts, value_set=pa.array(known, pa.string()))
        missing = texts.is_null().to_numpy()
        found = compute.fill_null(codes, -1).to_numpy()
        unseen = np.flatnonzero((found < 0) & ~missing)
        if len(unseen) and not self.ignores_unseen:
            raise InvalidInput(
                f"The column {column!r} has the category {texts[int(unseen[0])].as_py()!r}",
                f"Allowed: the categories that the model was fitted on: {listed(known)}",
                "Fit again; audit, report and transform take other categories for none of these "
                "with --unseen ignore",
            )
        matrix = np.zeros((len(found), len(known)))
        rows = np.flatnonzero(found >= 0)
        matrix[rows, found[rows]] = 1.0
        matrix[missing] = np.nan
        return matrix


def as_text(cells: Any) -> Any:
    """Cells of a pyarrow ChunkedArray of text, whatever type of text it is."""
    import pyarrow as pa

    return cells.cast(pa.string())


def is_text(kind: Any) -> bool:
    """Whether a pyarrow type holds text."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def categories_in(
    names: Sequence[str], columns: Sequence[str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The columns, and their categories, that features of these names are made of.

    Examples
    --------
    >>> categories_in(["age", "job=clerk", "job=smith"], ["age", "job"])
    (('job', ('clerk', 'smith')),)
    """
    longest_first = sorted(columns, key=len, reverse=True)
    found: dict[str, list[str]] = {}
    for name in names:
        column = next((each for each in longest_first if name.startswith(f"{each}=")), None)
        if column is not None and name not in columns:
            found.setdefault(column, []).append(name.removeprefix(f"{column}="))
    return tuple((column, tuple(categories)) for column, categories in found.items())
