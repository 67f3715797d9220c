"""Codes for missing values in files, such as -99 and "?": cells equal to one become missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from fairspan.errors import InvalidParameter
from fairspan.rows.row_validation import check_columns
from fairspan.typing import FloatArray

# Above this number of codes, a hash table is faster than comparing with one code at a time.
_MAX_COMPARED_CODES = 8

NaValue = str | float
# One value, several, or those of each column.
NaValuesLike = NaValue | Sequence[NaValue] | Mapping[str, NaValue | Sequence[NaValue]]


@dataclass(frozen=True)
class NaValues:
    """Codes for missing values in a table.

    Numbers are compared as numbers, and text without surrounding spaces.

    Attributes
    ----------
    everywhere : tuple of str
        Codes in all columns.
    by_column : tuple of (str, tuple of str)
        Additional codes of single columns.
    """

    everywhere: tuple[str, ...] = ()
    by_column: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def from_value(cls, values: NaValuesLike | None) -> "NaValues":
        """Convert the parameter `na_values`.

        Raises
        ------
        InvalidParameter
            Anything other than numbers and text.

        Examples
        --------
        >>> NaValues.from_value({"age": [-99, "?"]}).for_column("age")
        ('-99', '?')
        """
        if values is None:
            return cls()
        if isinstance(values, Mapping):
            return cls((), tuple((str(name), _texts(codes)) for name, codes in values.items()))
        return cls(_texts(values))

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_column)

    def for_column(self, name: str) -> tuple[str, ...]:
        """Return the codes for missing values in a column."""
        codes = list(self.everywhere)
        for column, column_codes in self.by_column:
            if column == name:
                codes += column_codes
        return tuple(dict.fromkeys(codes))

    def check_columns(self, columns: Sequence[str]) -> None:
        """Check that a table has the columns with their own codes.

        Raises
        ------
        InvalidInput
        """
        check_columns([name for name, _ in self.by_column], columns)

    def mask(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Replace codes in a pyarrow RecordBatch by nulls."""
        if not self:
            return batch
        columns = [
            replace_by_null(column, self.for_column(name))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.record_batch(columns, names=batch.schema.names)

    def to_words(self) -> list[str]:
        """Format the codes as values of the option ``--na-values``."""
        words = [",".join(self.everywhere)] if self.everywhere else []
        words += [f"{name}={','.join(codes)}" for name, codes in self.by_column]
        return words


NO_NA_VALUES = NaValues()


def parse_na_words(words: Iterable[str]) -> NaValues:
    """Parse values of the option ``--na-values``: VALUE[,VALUE] or COL=VALUE[,VALUE].

    The name of a column may contain "=", like those of one-hot features.

    Examples
    --------
    >>> parse_na_words(["-99,?", "job=army=-9"])
    NaValues(everywhere=('-99', '?'), by_column=(('job=army', ('-9',)),))
    """
    everywhere: list[str] = []
    by_column: list[tuple[str, tuple[str, ...]]] = []
    for word in words:
        column, _, codes = word.rpartition("=")
        if column:
            by_column.append((column, tuple(map(str.strip, codes.split(",")))))
        else:
            everywhere += map(str.strip, word.split(","))
    return NaValues(tuple(dict.fromkeys(everywhere)), tuple(by_column))


def replace_by_null(column: pa.Array, values: Sequence[str]) -> pa.Array:
    """Replace the cells of an Arrow array that equal a code for missing values by nulls.

    Parameters
    ----------
    column : pyarrow.Array
        Numbers, text, fixed-size lists of numbers, or any other type that Arrow casts to text.
    values : sequence of str
        Codes, which numbers are compared with as numbers.
    """
    dtype = column.type
    # Codes are numbers or texts, never booleans.
    if not values or types.is_boolean(dtype) or types.is_null(dtype):
        return column
    if types.is_fixed_size_list(dtype):
        # `flatten` would omit null lists, and shift those that follow. `values` has the entries of
        # all lists, also those before the offset of a slice.
        entries = replace_by_null(column.values, values)
        masked = pa.FixedSizeListArray.from_arrays(entries, dtype.list_size)
        masked = masked.slice(column.offset, len(column))
        return compute.if_else(column.is_valid(), masked, pa.scalar(None, masked.type))
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        numbers = column.cast(pa.float64(), safe=False)
        codes = np.array([number for number in map(parse_number, values) if number is not None])
        if types.is_float32(dtype):  # rounded like the cells
            codes = codes.astype(np.float32).astype(np.float64)
        if not len(codes):
            return column
        is_missing = _equals_any_number(numbers, codes)
    else:
        is_missing = _equals_any(column, values)
    if not compute.any(is_missing).as_py():
        return column
    return compute.if_else(is_missing, pa.scalar(None, dtype), column)


def _equals_any_number(numbers: pa.DoubleArray, codes: FloatArray) -> pa.BooleanArray:
    """Return which numbers of a float64 array equal one of some codes; null or false if null."""
    # NaN is in a set that contains it, but equals no number.
    if len(codes) > _MAX_COMPARED_CODES or np.isnan(codes).any():
        return compute.is_in(numbers, value_set=pa.array(codes, pa.float64()))
    is_equal = pa.scalar(False)
    for code in codes.tolist():
        is_equal = compute.or_(compute.equal(numbers, code), is_equal)
    return is_equal


def _equals_any(column: pa.Array, values: Sequence[str]) -> pa.BooleanArray:
    """Return which cells equal one of some values, as text or as a number."""
    # Each distinct cell is compared once.
    encoded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    texts = {value.strip() for value in values}
    numbers = {parse_number(value) for value in values} - {None}
    is_equal = []
    for cell in encoded.dictionary.cast(pa.string()).to_pylist():
        text = (cell or "").strip()
        is_equal.append(cell is not None and (text in texts or parse_number(text) in numbers))
    is_missing = pa.array(is_equal, pa.bool_()).take(encoded.indices)
    return compute.fill_null(is_missing, False)


def parse_number(text: str) -> float | None:
    """Parse a number with a decimal point; None if the text is not one.

    Examples
    --------
    >>> parse_number("-99.0"), parse_number("1_0"), parse_number("?")
    (-99.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _texts(values: object) -> tuple[str, ...]:
    """Convert one code for missing values, or several, to texts without duplicates."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    texts = []
    for value in values:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidParameter(
                f"na_values contains {value!r}",
                "Allowed: numbers and text, or a mapping of columns to these",
                "Pass the codes for missing values, such as [-99, '?']",
            )
        texts.append(value.strip() if isinstance(value, str) else repr(value))
    return tuple(dict.fromkeys(texts))
