"""Advice on how to read text columns of a CSV file as numbers.

Advice is given only if all cells of the columns concerned confirm it.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import compute

from fairspan.formatting.messages import quoted_cell
from fairspan.rows.files.numbers_as_text import NumberColumn, NumberStyle

PERCENT = "Write numbers without a percent sign"
_CURRENCY = "Write numbers without a currency sign"
_BOTH = "Both readings are possible, since every separator is followed by three digits"
_NO_COMMA = "Write numbers with a decimal point, or use another delimiter"
_MIXED = "Write all numbers with the same decimal point and thousands separator"
# Separators as values of options in a shell.
_SHELL_VALUES = {"'": '"\'"', " ": "space"}


def scan_columns(
    batches: Iterable[Any], missing: Mapping[str, Sequence[str]]
) -> dict[str, NumberColumn]:
    """Find out in which styles the texts of each column are numbers.

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
            if not column.is_text:
                column.add(compute.unique(cells).to_pylist())
    return columns


@dataclass(frozen=True)
class NumberAdvice:
    """Advice on how to read a text column as numbers, for each kind of caller.

    Attributes
    ----------
    command : str
        Advice with options of the command line.
    call : str
        Advice with arguments in Python.
    is_separated : bool
        Whether its numbers have separators that the current format does not recognize.
    """

    command: str
    call: str
    is_separated: bool = False

    @classmethod
    def for_file(cls, remedy: str) -> "NumberAdvice":
        """Return advice to change the file, which is the same for all callers."""
        return cls(remedy, remedy)


@dataclass(frozen=True)
class StyleReading:
    """A style in which columns are numbers, and a cell that shows the style.

    Attributes
    ----------
    style : NumberStyle
    cell : str
        A cell with the separator; empty if no cell has one.
    """

    style: NumberStyle
    cell: str

    def options(self, current: NumberStyle) -> str:
        """Return the command line options that change the current style to this one."""
        return " ".join(
            f"--{name} {_SHELL_VALUES.get(value, value)}"
            for name, value in self._marks()
            if value is not None and value != getattr(current, name)
        )

    def arguments(self) -> str:
        """Return the argument of `FileRows.open` for this style."""
        marks = [
            f"{name!r}: {value!r}"
            for name, value in self._marks()
            if value != getattr(NumberStyle(), name)
        ]
        return f"csv={{{', '.join(marks)}}}"

    def advice(self, current: NumberStyle) -> NumberAdvice:
        """Return which options to add, or which one to omit."""
        options = self.options(current)
        if options:
            return NumberAdvice(f"Add {options} to the command", _open_with(self.arguments()))
        # The numbers have the default style, and the current one has an option too many.
        name = "decimal" if current.thousands is None else "thousands"
        return NumberAdvice(f"Omit --{name}", f"Omit {name!r} from csv=")

    def _marks(self) -> tuple[tuple[str, str | None], ...]:
        return ("thousands", self.style.thousands), ("decimal", self.style.decimal)


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
        return NumberAdvice.for_file(PERCENT)
    if column.has_currency:
        return NumberAdvice.for_file(_CURRENCY)
    numeric = {key: other for key, other in columns.items() if other.has_numbers}
    codes = _missing_codes(numeric)
    code_advice = _code_advice(codes) if codes else None
    if current in column.styles:  # only codes for missing values are not numbers
        return code_advice
    styles = [style for style in column.styles if _suits_all(style, numeric.values())]
    # The numbers have separators that the current style does not recognize (is_separated).
    style_advice = _style_advice(column, styles, current, delimiter)
    if code_advice is None:
        return replace(style_advice, is_separated=True)
    return NumberAdvice(
        f"{style_advice.command}. {code_advice.command}",
        f"{style_advice.call}. {code_advice.call}",
        is_separated=True,
    )


def _suits_all(style: NumberStyle, columns: Collection[NumberColumn]) -> bool:
    """Return whether all columns are numbers in a style, and one of them uses its separator."""
    if not all(style in column.styles for column in columns):
        return False
    if style.thousands is None:
        return True
    return any(column.separates(style.thousands) for column in columns)


def _style_advice(
    column: NumberColumn,
    styles: Sequence[NumberStyle],
    current: NumberStyle,
    delimiter: str | None,
) -> NumberAdvice:
    """Return advice on which of the styles to specify, and how.

    Parameters
    ----------
    column : NumberColumn
    styles : sequence of NumberStyle
        Styles in which this column and all others are numbers. If they read its cells as different
        numbers, the advice lists each reading.
    current : NumberStyle
        Style with which the file is read.
    delimiter : str or None
        Delimiter of the file, which cannot be the decimal point.
    """
    if not styles:  # the columns have no style in common
        return NumberAdvice.for_file(_MIXED)
    # A reading is a style with an example cell; styles that read it as the same number share one.
    readings = _readings(column, styles, current)
    # A decimal comma is not allowed if the delimiter is a comma.
    possible = [reading for reading in readings if not reading.style.decimal == "," == delimiter]
    if not possible:
        return NumberAdvice.for_file(_NO_COMMA)
    if len(readings) == 1:  # the numbers are unambiguous
        return possible[0].advice(current)
    by_options = []
    by_arguments = []
    for reading in readings:
        value = f"{reading.style.number(reading.cell):.15g}"
        if reading in possible:
            effect = f"reads {quoted_cell(reading.cell)} as {value}"
            by_options.append(f"{reading.options(current)} {effect}")
            by_arguments.append(f"{reading.arguments()} {effect}")
        else:
            other = f"if it is {value}, write a decimal point, since the delimiter is a comma"
            by_options.append(other)
            by_arguments.append(other)
    return NumberAdvice(
        f"{_BOTH}: {'; '.join(by_options)}. Choose the right one",
        f"{_BOTH}: {'; '.join(by_arguments)}. Choose the right one for FileRows.open",
    )


def _readings(
    column: NumberColumn, styles: Sequence[NumberStyle], current: NumberStyle
) -> list[StyleReading]:
    """Return one reading per distinct value of the numbers, those nearest to the current first."""
    reading_by_value: dict[float, StyleReading] = {}
    nearest_first = sorted(styles, key=lambda style: style.decimal != current.decimal)
    for style in nearest_first:
        cell = column.example(style)
        if cell is not None:
            reading_by_value.setdefault(style.number(cell), StyleReading(style, cell))
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


def _code_advice(codes: Mapping[str, Sequence[str]]) -> NumberAdvice:
    """Return advice on the option for codes of missing values, and on the rows with them."""
    texts = [text for column_codes in codes.values() for text in column_codes]
    text_list = ", ".join(quoted_cell(text) if text else "a blank cell" for text in texts)
    verb = "stands" if len(texts) == 1 else "stand"
    condition = f"If {text_list} {verb} for a missing value"
    options = " ".join(_na_option(name, column_codes) for name, column_codes in codes.items())
    argument = f"na_values={_na_argument(codes)!r}, on_missing='drop'"
    return NumberAdvice(
        f"{condition}, add {options} and --on-missing drop or em",
        f"{condition}, {_open_with(argument, verb='open')}",
    )


def _open_with(arguments: str, verb: str = "Open") -> str:
    return f"{verb} the file with FileRows.open(path, group_columns, {arguments})"


def _na_argument(codes: Mapping[str, Sequence[str]]) -> Any:
    """Return codes as the argument `na_values`: of a single column, or of all columns."""
    if len(codes) > 1:
        # A mapping has no entry for all columns.
        return sorted({text for column_codes in codes.values() for text in column_codes})
    if "" in codes:
        return list(codes[""])
    return {name: list(column_codes) for name, column_codes in codes.items()}


def _na_option(name: str, texts: Sequence[str]) -> str:
    """Return codes as the option `--na-values`, quoted for a shell."""
    values = ",".join(text or " " for text in texts)
    if name:
        values = f"{name}={values}"
    return f"--na-values {shlex.quote(values)}"
