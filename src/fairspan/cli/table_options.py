"""Options that say how tables are written, and what becomes of text and of missing numbers."""

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


def csv_format(
    delimiter: str | None, decimal: str | None, encoding: str | None, comment: str | None
) -> dict[str, str] | None:
    """How CSV files are written, for `FileRows.open`; None where nothing was said."""
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    said = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "comment": comment}
    return {name: value for name, value in said.items() if value is not None} or None


def prepared(rows: "FileRows", *, numeric_only: bool, one_hot: bool, fills: bool) -> "FileRows":
    """Rows whose columns of text are left out or encoded, and whose missing numbers are filled."""
    from fairspan.rows.files import first_pass

    if one_hot:
        rows = first_pass.one_hot(rows)
    if numeric_only and (others := first_pass.not_numeric(rows)):
        rows = first_pass.without(rows, others)
        click.echo(f"fairspan: --numeric-only leaves out {_listed(others)}.", err=True)
    return first_pass.filled_by_means(rows) if fills else rows


def check_numeric(rows: "Rows") -> None:
    """Make sure that the features of files are numbers, before any row is read.

    Raises
    ------
    InvalidInput
        Columns of text or dates, with what most likely helps.
    """
    from fairspan.rows.files.file_rows import FileRows
    from fairspan.rows.files.first_pass import not_numeric

    if isinstance(rows, FileRows) and (others := not_numeric(rows)):
        raise _refusal(rows, others)


def _refusal(rows: "FileRows", columns: tuple[str, ...]) -> InvalidInput:
    """What to raise of columns that are no numbers, with what most likely helps."""
    from fairspan.rows.encoding import is_text
    from fairspan.rows.files.csv_files import CsvPart, unreadable
    from fairspan.rows.files.first_pass import first_text

    part = rows.table.parts[0]
    kinds = {str(rows.table.schema.field(name).type) for name in columns}
    if isinstance(part, CsvPart) and "binary" in kinds:  # as what cannot be decoded is taken for
        return unreadable(part.path, part.form, UnicodeError())
    column, which = columns[0], "the column" if len(columns) == 1 else "the columns"
    kind = rows.table.schema.field(column).type
    row, example = first_text(rows, column) if is_text(kind) else (0, None)
    held = f"no numbers ({kind})"
    if example is not None:
        held = f"text, such as {example!r} in row {row} of {column!r}"
    elif is_text(kind):  # as numbers are with a decimal point where commas were named
        held = "numbers with a decimal point"
    remedy = "Leave them out with --numeric-only or --exclude, or encode text with --one-hot"
    if example is None and is_text(kind):
        remedy = "Use one decimal mark in all columns, or leave out --decimal"
    elif example is not None and _DECIMAL_COMMA.fullmatch(example):
        remedy = "Read decimal commas with --decimal ,"
    elif example is not None and _THOUSANDS.fullmatch(example):
        remedy = "Write numbers without commas between thousands"
    elif example is not None and example.strip().lower() in _MISSING:
        remedy = "Leave cells empty where a value is missing, and say --on-missing drop or mean"
    elif example is not None and example.endswith("%"):
        remedy = "Write numbers without a per-cent sign"
    return InvalidInput(
        f"{rows.where}: {which} {_listed(columns)} hold{'s' * (len(columns) == 1)} {held}",
        "Allowed: numbers and truth values; a group column is named with --group",
        remedy,
    )


def _listed(names: tuple[str, ...]) -> str:
    from fairspan.rows.groups import listed

    return listed(list(names))


CSV = (
    click.option(
        "--delimiter",
        metavar="LETTER",
        help="Letter between the cells of a CSV file, or 'tab'; by default as in the header.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Letter before the fraction of numbers in a CSV file.  [default: .]",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of a CSV file, such as latin-1.  [default: utf-8]",
    ),
    click.option(
        "--comment",
        metavar="TEXT",
        help="Skip lines of a CSV file that begin with this text, such as '#'.",
    ),
)

TEXT = (
    click.option(
        "--numeric-only",
        is_flag=True,
        help="Leave out columns that hold no numbers, and say which.",
    ),
    click.option(
        "--one-hot",
        is_flag=True,
        help="Make an indicator (1 or 0) of each category of each column of text.",
    ),
)
