"""Advice on reading a CSV file so that its columns of numbers are numbers.

Advice is given only if it was checked against all cells of the columns concerned.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import compute

from fairspan.formatting.text import quoted_cell
from fairspan.rows.files.numbers_as_text import NumberColumn, NumberStyle

PERCENT = "Write numbers without a percent sign"
_CURRENCY = "Write numbers without the sign of a currency"
_BOTH = "Both readings are possible, as every separator has three digits after it"
_NO_COMMA = "Write numbers with a decimal point, or separate the cells by another letter"
_MIXED = "Write all numbers with the same decimal mark and thousands separator"
# How values of options are typed in a shell.
_TYPED = {"'": '"\'"', " ": "space"}


def columns_of_numbers(
    batches: Iterable[Any], missing: Mapping[str, Sequence[str]]
) -> dict[str, NumberColumn]:
    """Look at the texts of each column.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Of text.
    missing : mapping of column to sequence of str
        Texts that are known to stand for missing values.
    """
    found: dict[str, NumberColumn] = {}
    for batch in batches:
        for name, cells in zip(batch.schema.names, batch.columns, strict=True):
            column = found.setdefault(name, NumberColumn(missing.get(name, ())))
            if not column.is_text:
                column.add(compute.unique(cells).to_pylist())
    return found


@dataclass(frozen=True)
class NumberAdvice:
    """Advice that makes a column of text one of numbers, in terms of each kind of caller.

    Attributes
    ----------
    command : str
        With options of the command line.
    call : str
        With arguments in Python.
    is_separated : bool
        Whether its numbers have separators that are not read as such.
    """

    command: str
    call: str
    is_separated: bool = False

    @classmethod
    def of_file(cls, remedy: str) -> "NumberAdvice":
        """Return advice to change the file, which is the same for all callers."""
        return cls(remedy, remedy)


@dataclass(frozen=True)
class StyleReading:
    """A style in which columns are numbers, and a cell that shows the style.

    Attributes
    ----------
    style : NumberStyle
    cell : str
        A cell in which the separator stands; empty where nothing is separated.
    """

    style: NumberStyle
    cell: str

    def options(self, now: NumberStyle) -> str:
        """Return the options of the command line that change the present style to this one."""
        return " ".join(
            f"--{name} {_TYPED.get(value, value)}"
            for name, value in self._marks()
            if value is not None and value != getattr(now, name)
        )

    def arguments(self) -> str:
        """Return the argument of `FileRows.open` that names this style."""
        marks = [
            f"{name!r}: {value!r}"
            for name, value in self._marks()
            if value != getattr(NumberStyle(), name)
        ]
        return f"csv={{{', '.join(marks)}}}"

    def advice(self, now: NumberStyle) -> NumberAdvice:
        """Return which options to add, or which one to leave out."""
        options = self.options(now)
        if options:
            return NumberAdvice(f"Add {options} to the command", _open_with(self.arguments()))
        name = "decimal" if now.thousands is None else "thousands"
        return NumberAdvice(f"Leave out --{name}", f"Leave {name!r} out of csv=")

    def _marks(self) -> tuple[tuple[str, str | None], ...]:
        return ("thousands", self.style.thousands), ("decimal", self.style.decimal)


def number_advice(
    columns: Mapping[str, NumberColumn],
    name: str,
    now: NumberStyle,
    delimiter: str | None,
) -> NumberAdvice | None:
    """Return what makes a column numbers; None if it was not meant as numbers.

    Parameters
    ----------
    columns : mapping of name to NumberColumn
        All columns of features, as other columns must stay numbers.
    name : str
    now : NumberStyle
        How the file is read.
    delimiter : str or None
    """
    column = columns[name]
    if not column.holds_numbers:
        return None
    if column.has_percent:
        return NumberAdvice.of_file(PERCENT)
    if column.has_currency:
        return NumberAdvice.of_file(_CURRENCY)
    numeric = {each: own for each, own in columns.items() if own.holds_numbers}
    codes = _codes(numeric)
    on_codes = _code_advice(codes) if codes else None
    if now in column.styles:
        return on_codes
    styles = [
        style
        for style in column.styles
        if all(style in own.styles for own in numeric.values())
        # A separator that stands nowhere in the table need not be named.
        and (
            style.thousands is None
            or any(own.separates(style.thousands) for own in numeric.values())
        )
    ]
    on_style = _style_advice(column, styles, now, delimiter)
    if on_codes is None:
        return replace(on_style, is_separated=True)
    return NumberAdvice(
        f"{on_style.command}. {on_codes.command}",
        f"{on_style.call}. {on_codes.call}",
        is_separated=True,
    )


def _style_advice(
    column: NumberColumn,
    styles: Sequence[NumberStyle],
    now: NumberStyle,
    delimiter: str | None,
) -> NumberAdvice:
    """Return which of the styles in which all columns are numbers has to be named, and how."""
    if not styles:
        return NumberAdvice.of_file(_MIXED)
    readings = _readings(column, styles, now)
    # Between commas, a decimal comma cannot be named.
    possible = [each for each in readings if not each.style.decimal == "," == delimiter]
    if not possible:
        return NumberAdvice.of_file(_NO_COMMA)
    if len(readings) == 1:
        return possible[0].advice(now)
    typed_ways = []
    passed_ways = []
    for each in readings:
        value = f"{each.style.number(each.cell):.15g}"
        if each in possible:
            reads = f"reads {quoted_cell(each.cell)} as {value}"
            typed_ways.append(f"{each.options(now)} {reads}")
            passed_ways.append(f"{each.arguments()} {reads}")
        else:
            other = f"if it is {value}, write a decimal point, as commas separate the cells"
            typed_ways.append(other)
            passed_ways.append(other)
    return NumberAdvice(
        f"{_BOTH}: {'; '.join(typed_ways)}. Choose the right one",
        f"{_BOTH}: {'; '.join(passed_ways)}. Choose the right one for FileRows.open",
    )


def _readings(
    column: NumberColumn, styles: Sequence[NumberStyle], now: NumberStyle
) -> list[StyleReading]:
    """Return one reading for each set of different numbers, those nearest to the present first."""
    found: dict[float, StyleReading] = {}
    nearest_first = sorted(styles, key=lambda style: style.decimal != now.decimal)
    for style in nearest_first:
        cell = column.example(style)
        if cell is not None:
            found.setdefault(style.number(cell), StyleReading(style, cell))
    return list(found.values())


def _codes(columns: Mapping[str, NumberColumn]) -> dict[str, list[str]]:
    """Return codes for missing values by column; symbols stand for all columns, under ''."""
    codes: dict[str, list[str]] = {}
    for name, column in columns.items():
        for text in column.placeholders:
            # A word may also be the label of a group.
            place = name if any(map(str.isalpha, text)) and not text.startswith("#") else ""
            if text not in codes.setdefault(place, []):
                codes[place].append(text)
    return codes


def _code_advice(codes: Mapping[str, Sequence[str]]) -> NumberAdvice:
    """Return which option makes texts missing values, and what then becomes of the rows."""
    texts = [text for own in codes.values() for text in own]
    shown = ", ".join(quoted_cell(text) if text else "a blank cell" for text in texts)
    condition = f"If {shown} {'stands' if len(texts) == 1 else 'stand'} for a missing value"
    options = " ".join(_na_option(name, own) for name, own in codes.items())
    argument = f"na_values={_na_argument(codes)!r}, on_missing='drop'"
    return NumberAdvice(
        f"{condition}, add {options} and --on-missing drop or em",
        f"{condition}, {_open_with(argument, verb='open')}",
    )


def _open_with(arguments: str, verb: str = "Open") -> str:
    return f"{verb} the file with FileRows.open(path, groups, {arguments})"


def _na_argument(codes: Mapping[str, Sequence[str]]) -> Any:
    """Return codes as the argument `na_values`: those of one column, or those of all columns."""
    if len(codes) == 1 and "" not in codes:
        return {name: list(own) for name, own in codes.items()}
    if len(codes) == 1:
        return list(codes[""])
    # A mapping has no entry for all columns.
    return sorted({text for own in codes.values() for text in own})


def _na_option(name: str, texts: Sequence[str]) -> str:
    """Return codes as the option `--na-values`, as typed in a shell."""
    values = ",".join(text or " " for text in texts)
    return f"--na-values {shlex.quote(f'{name}={values}' if name else values)}"
