"""Advice on how to read text columns of a CSV file as numbers.

Advice is given only if all cells of the columns concerned confirm it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyarrow import compute

from fairspan.formatting.messages import quoted_cell
from fairspan.rows.files.numbers_as_text import NumberColumn, NumberStyle

if TYPE_CHECKING:
    import pyarrow as pa

PERCENT = "Write numbers without a percent sign"
_CURRENCY = "Write numbers without a currency sign"
_BOTH = "Both readings are possible, since every separator is followed by three digits"
_NO_COMMA = "Write numbers with a decimal point, or use another delimiter"
_MIXED = "Write all numbers with the same decimal point and thousands separator"


def scan_columns(
    batches: Iterable[pa.RecordBatch], missing: Mapping[str, Sequence[str]]
) -> dict[str, NumberColumn]:
    """Return the styles in which the texts of each column are numbers, by name of the column.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Batches of text columns.
    missing : mapping of column to sequence of str
        Known codes for missing values.
    """
    columns: dict[str, NumberColumn] = {}
    for batch in batches:
        for name, cells in zip(batch.schema.names, batch.columns, strict=True):
            column = columns.setdefault(name, NumberColumn(missing.get(name, ())))
            # One text that is no number in any style decides: the rest of the column is not needed.
            if not column.is_text:
                column.add(compute.unique(cells).to_pylist())
    return columns


@dataclass(frozen=True)
class StyleReading:
    """A style in which columns are numbers, and a cell that shows the style.

    Attributes
    ----------
    style : NumberStyle
    cell : str
        A cell with the separator; empty if no cell has one.
    is_possible : bool
        Whether the file can be read in this style, whose decimal point is not the delimiter.
    """

    style: NumberStyle
    cell: str
    is_possible: bool

    @property
    def value(self) -> str:
        """Number that the cell is in this style."""
        return f"{self.style.to_number(self.cell):.15g}"

    @property
    def effect(self) -> str:
        """Part of a sentence on how the cell is read."""
        return f"reads {quoted_cell(self.cell)} as {self.value}"

    def changes_from(self, current: NumberStyle) -> dict[str, str]:
        """Return the separators to set so that the current style becomes this one, by name."""
        return {
            name: value
            for name, value in (
                ("thousands", self.style.thousands),
                ("decimal", self.style.decimal),
            )
            if value is not None and value != getattr(current, name)
        }

    @property
    def arguments(self) -> str:
        """Argument of `FileRows.open` for this style."""
        return f"csv={self.changes_from(NumberStyle())!r}"


@dataclass(frozen=True)
class NumberAdvice:
    """Advice on how to read a text column as numbers.

    The remedy is to change the file, to read it in another style, or to name codes for missing
    values; or one of the first two and the last.

    Attributes
    ----------
    current : NumberStyle
        Style with which the file is read.
    file_remedy : str
        How to change the file, which cannot be read as it is; empty otherwise.
    readings : tuple of StyleReading
        Styles to read the file in. Several read its cells as different numbers.
    codes : mapping of str to sequence of str
        Codes for missing values by column, under an empty name for all columns.
    is_separated : bool
        Whether the numbers have separators that the current style does not recognize.
    """

    current: NumberStyle
    file_remedy: str = ""
    readings: tuple[StyleReading, ...] = ()
    codes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_separated: bool = False

    @property
    def call(self) -> str:
        """Advice with arguments in Python."""
        parts = [self.file_remedy] if self.file_remedy else []
        if self.readings:
            parts.append(self._style_call())
        if self.codes:
            argument = f"na_values={_na_argument(self.codes)!r}, on_missing='drop'"
            parts.append(f"{self.condition_of_codes}, {_open_with(argument, verb='open')}")
        return ". ".join(parts)

    @property
    def condition_of_codes(self) -> str:
        """Condition under which the codes are to be named: if they stand for missing values."""
        texts = [text for column_codes in self.codes.values() for text in column_codes]
        text_list = ", ".join(quoted_cell(text) if text else "a blank cell" for text in texts)
        verb = "stands" if len(texts) == 1 else "stand"
        return f"If {text_list} {verb} for a missing value"

    @property
    def superfluous_option(self) -> str:
        """Format option to omit, if the numbers have the default style."""
        return "decimal" if self.current.thousands is None else "thousands"

    def each_reading(self, options: Callable[[StyleReading], str]) -> str:
        """Return advice that lists several readings of the same cells, one of which to choose.

        `options` returns the text of the arguments or options that select a reading.
        """
        effects = []  # such as --thousands , reads '1,234' as 1234
        for reading in self.readings:
            if reading.is_possible:
                effects.append(f"{options(reading)} {reading.effect}")
            else:
                effects.append(
                    f"if it is {reading.value}, write a decimal point, since the delimiter is a "
                    "comma"
                )
        return f"{_BOTH}: {'; '.join(effects)}. Choose the right one"

    def _style_call(self) -> str:
        if len(self.readings) > 1:
            several = self.each_reading(lambda reading: reading.arguments)
            return f"{several} for FileRows.open"
        [reading] = self.readings
        if not reading.changes_from(self.current):
            return f"Omit {self.superfluous_option!r} from csv="
        return _open_with(reading.arguments)


def number_advice(
    columns: Mapping[str, NumberColumn],
    name: str,
    current: NumberStyle,
    delimiter: str | None,
) -> NumberAdvice | None:
    """Return advice on how to read a column as numbers; None if it does not look like numbers.

    Parameters
    ----------
    columns : mapping of name to NumberColumn
        All feature columns, since the other columns must stay numeric.
    name : str
        Name of the column.
    current : NumberStyle
        Style with which the file is read.
    delimiter : str or None
        Delimiter of the file, which cannot be the decimal point.
    """
    column = columns[name]
    if not column.has_numbers:
        return None
    # No style includes percent or currency signs: the file must be changed.
    if column.has_percent:
        return NumberAdvice(current, file_remedy=PERCENT)
    if column.has_currency:
        return NumberAdvice(current, file_remedy=_CURRENCY)
    numeric = {key: other for key, other in columns.items() if other.has_numbers}
    codes = _missing_codes(numeric)  # texts such as "?" among the numbers, by column
    if current in column.styles:  # only codes for missing values are not numbers
        return NumberAdvice(current, codes=codes) if codes else None
    # The numbers have separators that the current style does not recognize (`is_separated`).
    styles = [style for style in column.styles if _suits_all(style, numeric.values())]
    if not styles:  # the columns have no style in common
        return NumberAdvice(current, file_remedy=_MIXED, codes=codes, is_separated=True)
    readings = tuple(_readings(column, styles, current, delimiter))
    if not any(reading.is_possible for reading in readings):
        return NumberAdvice(current, file_remedy=_NO_COMMA, codes=codes, is_separated=True)
    return NumberAdvice(current, readings=readings, codes=codes, is_separated=True)


def _suits_all(style: NumberStyle, columns: Collection[NumberColumn]) -> bool:
    """Return whether all columns are numbers in a style, and one of them uses its separator."""
    if not all(style in column.styles for column in columns):
        return False
    if style.thousands is None:
        return True
    return any(column.separates(style.thousands) for column in columns)


def _readings(
    column: NumberColumn,
    styles: Sequence[NumberStyle],
    current: NumberStyle,
    delimiter: str | None,
) -> list[StyleReading]:
    """Return a reading for each number that a cell of the column may be in these styles.

    Styles that read a cell as the same number share one reading, of the style with the current
    decimal point, if there is one. The decimal point cannot be a comma if the delimiter is one.
    """
    reading_by_value: dict[float, StyleReading] = {}
    # Styles with the current decimal point come first, since the first reading of a number is kept.
    nearest_first = sorted(styles, key=lambda style: style.decimal != current.decimal)
    for style in nearest_first:
        cell = column.example(style)  # the first with a separator of the style, if any
        if cell is not None:
            is_possible = not style.decimal == "," == delimiter
            reading = StyleReading(style, cell, is_possible)
            reading_by_value.setdefault(style.to_number(cell), reading)
    return list(reading_by_value.values())


def _missing_codes(columns: Mapping[str, NumberColumn]) -> dict[str, list[str]]:
    """Return codes for missing values by column; symbols apply to all columns, under ''."""
    codes: dict[str, list[str]] = {}
    for name, column in columns.items():
        for text in column.placeholders:
            # A word may also be the label of a group.
            is_word = any(map(str.isalpha, text)) and not text.startswith("#")
            key = name if is_word else ""
            if text not in codes.setdefault(key, []):
                codes[key].append(text)
    return codes


def _open_with(arguments: str, verb: str = "Open") -> str:
    return f"{verb} the file with FileRows.open(path, group_columns, {arguments})"


def _na_argument(codes: Mapping[str, Sequence[str]]) -> list[str] | dict[str, list[str]]:
    """Return codes as the argument `na_values`: of a single column, or of all columns."""
    if len(codes) > 1:
        # A mapping has no entry for all columns.
        return sorted({text for column_codes in codes.values() for text in column_codes})
    if "" in codes:
        return list(codes[""])
    return {name: list(column_codes) for name, column_codes in codes.items()}
