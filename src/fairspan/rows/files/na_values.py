"""Codes for missing values in files, such as -99 and "?": cells equal to one become missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from fairspan.errors import InvalidParameter
from fairspan.rows.validation import check_columns

NaValue = str | float
# One value, several, or those of each column.
NaValuesLike = NaValue | Sequence[NaValue] | Mapping[str, NaValue | Sequence[NaValue]]


@dataclass(frozen=True)
class NaValues:
    """Which cells of a table stand for missing values.

    Numbers are compared as numbers, and text without the spaces around it.

    Attributes
    ----------
    everywhere : tuple of str
        Values that stand for a missing one in every column.
    by_column : tuple of (str, tuple of str)
        Further values of some columns.
    """

    everywhere: tuple[str, ...] = ()
    by_column: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, values: NaValuesLike | None) -> "NaValues":
        """Read what callers give as `na_values`.

        Raises
        ------
        InvalidParameter
            Something else than numbers and text.

        Examples
        --------
        >>> NaValues.of({"age": [-99, "?"]}).of_column("age")
        ('-99', '?')
        """
        if values is None:
            return cls()
        if isinstance(values, Mapping):
            return cls((), tuple((str(name), _texts(own)) for name, own in values.items()))
        return cls(_texts(values))

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_column)

    def of_column(self, name: str) -> tuple[str, ...]:
        """Return the values that stand for a missing one in a column."""
        own = (value for column, values in self.by_column if column == name for value in values)
        return tuple(dict.fromkeys((*self.everywhere, *own)))

    def check_columns(self, columns: Sequence[str]) -> None:
        """Make sure that a table has the columns that are named.

        Raises
        ------
        InvalidInput
        """
        check_columns([name for name, _ in self.by_column], columns)

    def masked(self, batch: Any) -> Any:
        """Return a pyarrow RecordBatch in which such cells are null."""
        if not self:
            return batch
        columns = [
            with_nulls(column, self.of_column(name))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.record_batch(columns, names=batch.schema.names)

    def spelled(self) -> list[str]:
        """Return the values as the command line takes them."""
        own = [f"{name}={','.join(values)}" for name, values in self.by_column]
        return [",".join(self.everywhere), *own] if self.everywhere else own


NO_NA_VALUES = NaValues()


def na_values_of_words(words: Iterable[str]) -> NaValues:
    """Read values of the option ``--na-values``: VALUE[,VALUE] or COL=VALUE[,VALUE].

    The name of a column may contain "=", as those of indicators do.

    Examples
    --------
    >>> na_values_of_words(["-99,?", "job=army=-9"])
    NaValues(everywhere=('-99', '?'), by_column=(('job=army', ('-9',)),))
    """
    everywhere: list[str] = []
    by_column: list[tuple[str, tuple[str, ...]]] = []
    for word in words:
        column, _, own = word.rpartition("=")
        if column:
            by_column.append((column, tuple(map(str.strip, own.split(",")))))
        else:
            everywhere += map(str.strip, word.split(","))
    return NaValues(tuple(dict.fromkeys(everywhere)), tuple(by_column))


def with_nulls(column: Any, values: Sequence[str]) -> Any:
    """Return an Arrow array in which cells that equal one of some values are null.

    Parameters
    ----------
    column : pyarrow.Array
        Of numbers, text, fixed-size lists of numbers, or anything else that Arrow writes as text.
    values : sequence of str
    """
    kind = column.type
    if not values or types.is_boolean(kind) or types.is_null(kind):
        return column
    if types.is_fixed_size_list(kind):
        # `flatten` would leave out missing lists, and shift those that follow.
        entries = with_nulls(column.values, values)
        masked = pa.FixedSizeListArray.from_arrays(entries, kind.list_size)
        masked = masked.slice(column.offset, len(column))
        return compute.if_else(column.is_valid(), masked, pa.scalar(None, masked.type))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False)
        codes = np.array([number for number in map(number_of, values) if number is not None])
        if types.is_float32(kind):
            codes = codes.astype(np.float32).astype(np.float64)
        is_missing = compute.is_in(numbers, value_set=pa.array(codes, pa.float64()))
    else:
        is_missing = _texts_equal(column, values)
    if not compute.any(is_missing).as_py():
        return column
    return compute.if_else(is_missing, pa.scalar(None, kind), column)


def _texts_equal(column: Any, values: Sequence[str]) -> Any:
    """Return which cells equal one of some values, as text or as a number."""
    kind = column.type
    coded = column if types.is_dictionary(kind) else column.dictionary_encode()
    texts = {value.strip() for value in values}
    numbers = {number_of(value) for value in values} - {None}
    found = []
    for cell in coded.dictionary.cast(pa.string()).to_pylist():
        text = (cell or "").strip()
        found.append(cell is not None and (text in texts or number_of(text) in numbers))
    is_missing = pa.array(found, pa.bool_()).take(coded.indices)
    return compute.fill_null(is_missing, False)


def number_of(text: str) -> float | None:
    """Return the number that a text is, with a decimal point; None if it is none.

    Examples
    --------
    >>> number_of("-99.0"), number_of("1_0"), number_of("?")
    (-99.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _texts(values: Any) -> tuple[str, ...]:
    """Return one value or several as text."""
    several = [values] if isinstance(values, str) or not isinstance(values, Iterable) else values
    texts = []
    for value in several:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidParameter(
                f"na_values holds {value!r}",
                "Allowed: numbers and text, or a mapping of columns to these",
                "Name the values that stand for missing ones, such as [-99, '?']",
            )
        texts.append(value.strip() if isinstance(value, str) else repr(value))
    return tuple(dict.fromkeys(texts))
