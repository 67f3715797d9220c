"""Tables in Excel workbooks, read as Arrow tables."""

import datetime
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from fairspan.errors import InvalidInput, import_optional, warn
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.na_values import NaValues
from fairspan.rows.files.numbers_as_text import MISSING_TEXTS
from fairspan.rows.labels import format_list

# Rows of a batch.
_BATCH_ROWS = 2**16


def read_excel_table(path: Path, csv_format: CsvFormat, na_values: NaValues) -> pa.Table:
    """Read the first sheet of a workbook; formulas have the values that were saved with them.

    Columns of numbers, booleans or dates keep their type. Other columns are text, with numbers
    among them as text. Rows without any cell, and trailing columns without a name, are ignored.

    Parameters
    ----------
    path : Path
    csv_format : CsvFormat
        Its number of skipped lines and whether there is a header apply to workbooks as well.
    na_values : NaValues
        Codes for missing values.

    Raises
    ------
    MissingDependency
        openpyxl is not installed.
    InvalidInput
        There is no row, or a cell in a column without a name.
    """
    rows = list(_sheet_rows(path, csv_format.skip_rows))
    names = _column_names(path, rows, has_header=csv_format.header)
    body = rows[1:] if csv_format.header else rows
    if not body:
        raise InvalidInput(
            f"{path} is empty", "Allowed: a header line and at least one row", "Check the file"
        )
    columns = []
    for position, name in enumerate(names):
        missing = {*MISSING_TEXTS, *na_values.for_column(name)}
        cells = [row[position] if position < len(row) else None for row in body]
        columns.append(_arrow_column([None if cell in missing else cell for cell in cells]))
    for row in body:
        if any(cell is not None for cell in row[len(names) :]):
            raise InvalidInput(
                f"{path} has a cell in column {len(names) + 1}, which has no name in the header",
                "Allowed: a name for each column that is not empty",
                "Name the column in the header, or delete it",
            )
    return pa.Table.from_arrays(columns, names=names)


def read_excel_batches(
    path: Path,
    csv_format: CsvFormat,
    schema: pa.Schema,
    columns: Sequence[str],
    na_values: NaValues,
) -> Iterator[pa.RecordBatch]:
    """Read columns as record batches with the types of the schema."""
    table = read_excel_table(path, csv_format, na_values).select(list(columns))
    expected = pa.schema([schema.field(name) for name in columns])
    yield from table.cast(expected).to_batches(_BATCH_ROWS)


def _sheet_rows(path: Path, n_skipped: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the first sheet that have any cell, from a number of rows on."""
    openpyxl = import_optional("openpyxl", "excel", f"Reading {path}")
    with warnings.catch_warnings():
        # Styles and validations that openpyxl does not know have no part in the values.
        warnings.simplefilter("ignore", UserWarning)
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = workbook.worksheets
        if not sheets:
            raise InvalidInput(
                f"{path} has no sheet of cells", "Allowed: workbooks with a table", "Check the file"
            )
        if len(sheets) > 1:
            titles = [sheet.title for sheet in sheets]
            warn(f"{path}: reading the first of the sheets {format_list(titles)}.")
        for row in islice(sheets[0].iter_rows(values_only=True), n_skipped, None):
            if any(cell is not None for cell in row):
                yield row
    finally:
        workbook.close()


def _column_names(path: Path, rows: Sequence[Sequence[Any]], *, has_header: bool) -> list[str]:
    """Return the names of the columns up to the last that has a name, or any cell without header.

    The first column may be an index, which has no name.
    """
    if not rows:
        raise InvalidInput(
            f"{path} is empty", "Allowed: a header line and at least one row", "Check the file"
        )
    if not has_header:
        width = max(_width(row) for row in rows)
        return [f"column_{i}" for i in range(1, width + 1)]
    return ["" if cell is None else str(cell) for cell in rows[0][: _width(rows[0])]]


def _width(row: Sequence[Any]) -> int:
    """Return the number of cells up to the last that is not empty."""
    return max(i for i, cell in enumerate(row, start=1) if cell is not None)


def _arrow_column(cells: Sequence[Any]) -> pa.Array:
    """Make an Arrow array of cells of one kind, or of text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float}:
        return pa.array(cells, None if not kinds or kinds == {int} else pa.float64())
    if kinds == {bool} or (len(kinds) == 1 and kinds <= {datetime.datetime, datetime.time}):
        return pa.array(cells)
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
