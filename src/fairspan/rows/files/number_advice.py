"""How a CSV file has to be read so that its columns of numbers are numbers.

Advice is given only if it was checked against all cells of the columns concerned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
class Reading:
    """Settings that make columns numbers, and how one cell is then read.

    Attributes
    ----------
    style : NumberStyle
    cell : str
        A cell in which the separator stands; empty where nothing is separated.
    """

    style: NumberStyle
    cell: str

    def options(self, now: NumberStyle) -> tuple[str, str]:
        """Return options that differ from the present style, and all settings in Python."""
        typed, passed = [], []
        for name in ("thousands", "decimal"):
            value, before = getattr(self.style, name), getattr(now, name)
            if value != before and value is not None:
                typed.append(f"--{name} {_TYPED.get(value, value)}")
            if value != getattr(NumberStyle(), name):
                passed.append(f"{name!r}: {value!r}")
        return " ".join(typed), f"csv={{{', '.join(passed)}}}"

    def advice(self, now: NumberStyle) -> "Advice":
        """Say which options to add, or which one to leave out."""
        typed, passed = self.options(now)
        if typed:
            return Advice(f"Add {typed} to the command", _open_with(passed))
        name = "decimal" if now.thousands is None else "thousands"
        return Advice(f"Leave out --{name}", f"Leave {name!r} out of csv=")


@dataclass(frozen=True)
class Advice:
    """What to do next, in terms of each kind of caller.

    Attributes
    ----------
    command : str
        With options of the command line.
    call : str
        With arguments in Python.
    """

    command: str
    call: str


@dataclass(frozen=True)
class NumberAdvice:
    """What makes a column of text numbers.

    Attributes
    ----------
    remedy : str
        On the command line.
    call : str
        In Python.
    is_separated : bool
        Whether its numbers have separators that are not read as such.
    """

    remedy: str
    call: str
    is_separated: bool = False


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
        return NumberAdvice(PERCENT, PERCENT)
    if column.has_currency:
        return NumberAdvice(_CURRENCY, _CURRENCY)
    numbers = [own for own in columns.values() if own.holds_numbers]
    codes = _codes({each: own for each, own in columns.items() if own.holds_numbers})
    if now in column.styles:
        if not codes:
            return None
        marked = _codes_stand_for_missing(codes)
        return NumberAdvice(marked.command, marked.call)
    styles = [
        style
        for style in column.styles
        if all(style in own.styles for own in numbers)
        # A separator that stands nowhere in the table need not be named.
        and (style.thousands is None or any(own.separates(style.thousands) for own in numbers))
    ]
    written = _style_advice(column, styles, now, delimiter)
    if not codes:
        return NumberAdvice(written.command, written.call, is_separated=True)
    marked = _codes_stand_for_missing(codes)
    return NumberAdvice(
        f"{written.command}. {marked.command}", f"{written.call}. {marked.call}", is_separated=True
    )


def _style_advice(
    column: NumberColumn,
    styles: Sequence[NumberStyle],
    now: NumberStyle,
    delimiter: str | None,
) -> Advice:
    """Say which of the styles in which all columns are numbers has to be named, and how."""
    if not styles:
        return Advice(_MIXED, _MIXED)
    readings = _readings(column, styles, now)
    # Between commas, a decimal comma cannot be named.
    possible = [each for each in readings if not each.style.decimal == "," == delimiter]
    if not possible:
        return Advice(_NO_COMMA, _NO_COMMA)
    if len(readings) == 1:
        return possible[0].advice(now)
    typed_ways, passed_ways = [], []
    for each in readings:
        value = f"{each.style.number(each.cell):.15g}"
        if each in possible:
            typed, passed = each.options(now)
            reads = f"reads {quoted_cell(each.cell)} as {value}"
            typed_ways.append(f"{typed} {reads}")
            passed_ways.append(f"{passed} {reads}")
        else:
            other = f"if it is {value}, write a decimal point, as commas separate the cells"
            typed_ways.append(other)
            passed_ways.append(other)
    return Advice(
        f"{_BOTH}: {'; '.join(typed_ways)}. Choose the right one",
        f"{_BOTH}: {'; '.join(passed_ways)}. Choose the right one for FileRows.open",
    )


def _readings(
    column: NumberColumn, styles: Sequence[NumberStyle], now: NumberStyle
) -> list[Reading]:
    """Return one reading for each set of different numbers, those nearest to the present first."""
    found: dict[float, Reading] = {}
    nearest_first = sorted(styles, key=lambda style: style.decimal != now.decimal)
    for style in nearest_first:
        cell = column.example(style)
        if cell is not None:
            found.setdefault(style.number(cell), Reading(style, cell))
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


def _codes_stand_for_missing(codes: Mapping[str, Sequence[str]]) -> Advice:
    """Say which option makes texts missing values, and what then becomes of the rows."""
    shown = [
        quoted_cell(text) if text else "a blank cell" for own in codes.values() for text in own
    ]
    typed = " ".join(_na_option(name, own) for name, own in codes.items())
    by_column = {name: list(own) for name, own in codes.items()}
    # A mapping of columns has no entry for all of them.
    passed = by_column.get("") if set(by_column) == {""} else by_column
    if len(by_column) > 1:
        passed = sorted({text for own in codes.values() for text in own})
    means = f"{', '.join(shown)} {'stands' if len(shown) == 1 else 'stand'} for a missing value"
    opened = _open_with(f"na_values={passed!r}, on_missing='drop'")
    return Advice(
        f"If {means}, add {typed} and --on-missing drop or em",
        f"If {means}, {opened[0].lower()}{opened[1:]}",
    )


def _open_with(arguments: str) -> str:
    return f"Open the file with FileRows.open(path, groups, {arguments})"


def _na_option(name: str, texts: Sequence[str]) -> str:
    value = ",".join(text or " " for text in texts)
    value = f"{name}={value}" if name else value
    is_plain = value != "" and all(char.isalnum() or char in "-.,_/=" for char in value)
    return f"--na-values {value}" if is_plain else f"--na-values '{value}'"
