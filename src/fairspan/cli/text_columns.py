"""What becomes of columns of text, and what helps where text was meant as numbers."""

import re
from typing import TYPE_CHECKING

import click

from fairspan.errors import InvalidInput

if TYPE_CHECKING:
    from fairspan.rows.files.file_rows import FileRows
    from fairspan.rows.protocol import Rows

# As pandas writes them, and people in Europe.
_DECIMAL_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_MISSING = {"?", "-", "--", ".", "missing", "none", "unknown"}
_ALLOWED = "Allowed: numbers and truth values; a group column is named with --group"
_LEAVE_OUT = "Leave them out with --numeric-only or --exclude, or encode text with --one-hot"
_READ_COMMAS = "Read decimal commas with --decimal ,"
_NO_THOUSANDS = "Write numbers without commas between thousands"
_POINT = "Write numbers with a decimal point"


def prepared(rows: "FileRows", *, numeric_only: bool, one_hot: bool) -> "FileRows":
    """Rows whose columns of text are left out or encoded.

    Raises
    ------
    InvalidInput
        A column of text looks like numbers with commas, which would be lost.
    """
    from fairspan.rows.files import first_pass

    others = first_pass.not_numeric(rows) if numeric_only or one_hot else ()
    texts = _texts(rows, others)
    remedies = {name: _remedy(rows, text) for name, (_, text) in texts.items()}
    commas = tuple(
        name for name in texts if remedies[name] in (_READ_COMMAS, _NO_THOUSANDS, _POINT)
    )
    if commas:
        row, text = texts[commas[0]]
        raise InvalidInput(
            f"{rows.where}: {_held(commas)} numbers with commas, such as {text!r} in row "
            f"{row} of {commas[0]!r}",
            _ALLOWED,
            f"{remedies[commas[0]]}; or leave these columns out with --exclude",
        )
    if one_hot:
        rows = first_pass.one_hot(rows)
    if numeric_only and others:
        rows = first_pass.without(rows, others)
        click.echo(f"fairspan: --numeric-only leaves out {_listed(others)}.", err=True)
    return rows


def check_numeric(rows: "Rows", allowed: str = _ALLOWED, remedy: str = _LEAVE_OUT) -> None:
    """Make sure that the features of files are numbers, before any row is read.

    Parameters
    ----------
    rows : Rows
    allowed, remedy : str
        What an error says of columns that were not meant as numbers, either.

    Raises
    ------
    InvalidInput
        Columns of text or dates, with what most likely helps.
    """
    from fairspan.rows.files.file_rows import FileRows
    from fairspan.rows.files.first_pass import not_numeric

    if isinstance(rows, FileRows) and (others := not_numeric(rows)):
        raise _refusal(rows, others, allowed, remedy)


def _refusal(rows: "FileRows", columns: tuple[str, ...], allowed: str, usual: str) -> InvalidInput:
    """What to raise of columns that are no numbers, with what most likely helps."""
    from fairspan.rows.files.csv_files import CsvPart, unreadable

    part = rows.table.parts[0]
    kinds = {name: str(rows.table.schema.field(name).type) for name in columns}
    if isinstance(part, CsvPart) and "binary" in kinds.values():  # as what cannot be decoded is
        return unreadable(part.path, part.form, UnicodeError())
    texts = _texts(rows, columns)
    # A column that was meant as numbers tells more than one of names.
    remedies = {name: _remedy(rows, text) for name, (_, text) in texts.items()}
    column = next((name for name in remedies if remedies[name]), columns[0])
    remedy = remedies.get(column)
    row, text = texts.get(column, (0, None))
    held = f"no numbers ({kinds[column]})"
    if text is not None:
        held = f"text, such as {text!r} in row {row} of {column!r}"
    elif column in texts:  # as numbers are with a decimal point where commas were named
        held, remedy = (
            "numbers with a decimal point",
            "Use one decimal mark in all columns, or leave out --decimal",
        )
    return InvalidInput(f"{rows.where}: {_held(columns)} {held}", allowed, remedy or usual)


def _texts(rows: "FileRows", columns: tuple[str, ...]) -> dict[str, tuple[int, str | None]]:
    """The first text that is no number of each column of text, and its row, counted from 1."""
    from fairspan.rows.encoding import is_text
    from fairspan.rows.files.first_pass import first_text

    schema = rows.table.schema
    return {name: first_text(rows, name) for name in columns if is_text(schema.field(name).type)}


def _remedy(rows: "FileRows", text: str | None) -> str | None:
    """What helps where a text was meant as a number; None if it was not."""
    from fairspan.rows.files.csv_files import CsvPart

    part = rows.table.parts[0]
    between_commas = isinstance(part, CsvPart) and part.form.delimiter == ","
    if text is None:
        return None
    if not between_commas and _DECIMAL_COMMA.fullmatch(text):
        return _READ_COMMAS
    if _THOUSANDS.fullmatch(text):
        return _NO_THOUSANDS
    if _DECIMAL_COMMA.fullmatch(text):
        return _POINT
    if text.strip().lower() in _MISSING:
        return "Leave cells empty where a value is missing, and say --on-missing drop"
    if text.endswith("%"):
        return "Write numbers without a per-cent sign"
    return None


def _held(columns: tuple[str, ...]) -> str:
    """Columns, and that they hold what follows."""
    several = len(columns) > 1
    return f"the column{'s' * several} {_listed(columns)} hold{'s' * (not several)}"


def _listed(names: tuple[str, ...]) -> str:
    from fairspan.rows.groups import listed

    return listed(list(names))
