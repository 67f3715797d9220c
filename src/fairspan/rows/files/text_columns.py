"""Text columns of files: one-hot encoding, and advice on those that look like numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fairspan.errors import Cause, InvalidInput
from fairspan.formatting.messages import quoted_cell
from fairspan.rows.column_selection import MAX_CATEGORIES, is_numeric_type, is_text_type
from fairspan.rows.error_context import add_error_context
from fairspan.rows.files.batch_request import BatchRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from fairspan.rows.files.file_table import FileTable
    from fairspan.rows.files.number_format_advice import NumberAdvice
    from fairspan.rows.files.numbers_as_text import NumberStyle

Table = TypeVar("Table", bound="FileTable")

# Rows of a batch in passes over few columns.
_BATCH_ROWS = 2**16
# With fewer rows, identifiers cannot be distinguished from categories.
_MIN_ROWS_FOR_CHECK = 20


def non_numeric_features(rows: FileTable) -> tuple[str, ...]:
    """Return the features that are neither numeric nor encoded, such as text or dates."""
    from pyarrow import types

    numeric = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
        types.is_null,
        types.is_fixed_size_list,
    )
    return tuple(
        name
        for name in rows.selection.features
        if name not in rows.selection.categories
        and not any(is_type(rows.schema.field(name).type) for is_type in numeric)
    )


def drop_features(rows: Table, columns: tuple[str, ...]) -> Table:
    """Return the rows without these features, which are not numeric, or have no values.

    Raises
    ------
    InvalidInput
        No feature is left.
    """
    remaining = tuple(name for name in rows.selection.features if name not in columns)
    if not remaining:
        raise InvalidInput(
            f"{rows.location} has no numeric columns",
            "Allowed: at least one feature",
            "Encode text as numbers, or use another table",
            cause=Cause.NO_NUMERIC_COLUMN,
        )
    selection = replace(rows.selection, features=remaining)
    return replace(rows, selection=selection)  # type: ignore[type-var]


def one_hot_encode_text(rows: Table) -> Table:
    """One-hot encode all text features; reads the rows once to collect categories.

    Text columns in which all cells are missing are dropped.

    Raises
    ------
    InvalidInput
        A text column has too many distinct values.
    """
    columns = tuple(
        name for name in rows.selection.features if is_text_type(rows.schema.field(name).type)
    )
    texts_by_column = _collect_categories(rows, columns) if columns else {}
    categories = {name: tuple(sorted(texts)) for name, texts in texts_by_column.items() if texts}
    rows = drop_features(rows, tuple(name for name, texts in texts_by_column.items() if not texts))
    selection = replace(rows.selection, categories=categories)
    return replace(rows, selection=selection)  # type: ignore[type-var]


def _collect_categories(rows: FileTable, columns: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the distinct texts of each column, in the order of the rows.

    Raises
    ------
    InvalidInput
        A column has more than `MAX_CATEGORIES` texts, or more than half as many as there are rows.
    """
    from pyarrow import compute

    texts_by_column: dict[str, dict[str, None]] = {name: {} for name in columns}
    n_rows = 0
    for table in _read_tables(rows, columns):
        n_rows += len(table)
        for name, texts in texts_by_column.items():
            new_texts = compute.unique(table[name].cast("string").drop_null())
            texts.update(dict.fromkeys(new_texts.to_pylist()))
            if len(texts) > MAX_CATEGORIES:
                # Texts this different are names or identifiers rather than categories.
                raise _identifier_error(name, f"more than {MAX_CATEGORIES:,} distinct texts", texts)
    for name, texts in texts_by_column.items():
        if n_rows >= _MIN_ROWS_FOR_CHECK and 2 * len(texts) > n_rows:
            count = f"{len(texts):,} distinct texts in {n_rows:,} rows"
            raise _identifier_error(name, count, texts)
    return {name: list(texts) for name, texts in texts_by_column.items()}


def _identifier_error(name: str, count: str, texts: Iterable[str]) -> InvalidInput:
    # One cell is enough to recognize the column, and texts may be names of people.
    return InvalidInput(
        f"Column {name!r} contains {count}, such as {quoted_cell(next(iter(texts)))}",
        "Allowed: categorical columns with several rows per category",
        "Exclude it: it looks like a name or an identifier",
        cause=Cause.IDENTIFIER_COLUMN,
    )


def _read_tables(rows: FileTable, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Read columns as pyarrow Tables."""
    import pyarrow as pa

    request = BatchRequest.from_columns(columns, rows.selection.text_columns)
    for part in rows.parts:
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, request, _BATCH_ROWS):
                yield pa.Table.from_batches([batch])


def first_non_numeric_text(rows: FileTable, column: str) -> tuple[str, str | None]:
    """Return the location of the first non-numeric text of a column, and the text.

    The location, for messages, is a line of a CSV file or a row of another file. If all texts are
    numbers, the location is empty and the text None.
    """
    from fairspan.rows.files.numbers_as_text import NumberStyle

    request = BatchRequest.from_columns([column], [column])
    for part in rows.parts:
        style = NumberStyle() if part.csv_format is None else part.csv_format.style
        index = 0
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, request, _BATCH_ROWS):
                for text in batch.column(0).cast("string").to_pylist():
                    if text is not None and not _is_numeric_cell(text, style):
                        location = part.line_name(index) or f"row {index + 1}"
                        if len(rows.parts) > 1:
                            location = f"{location} of {part.path}"
                        return location, text
                    index += 1
    return "", None


def _is_numeric_cell(text: str, style: NumberStyle) -> bool:
    # Arrow trims only blanks and tabs.
    return text.strip() == text.strip(" \t") and style.is_number(text)


def text_batches(rows: FileTable, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns as text, in pyarrow RecordBatches."""
    request = BatchRequest.from_columns(columns, columns)
    for part in rows.parts:
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, request, _BATCH_ROWS):
                arrays = [cells.cast("string") for cells in batch.columns]
                yield batch.from_arrays(arrays, names=list(columns))


def advice_on_numbers(rows: FileTable, columns: Sequence[str]) -> dict[str, NumberAdvice]:
    """Return advice on how to read text columns of CSV files as numbers, by column.

    Columns that do not look like numbers have no entry.

    Parameters
    ----------
    rows : FileTable
    columns : sequence of str
    """
    csv_format = rows.parts[0].csv_format  # all parts are read with the same options
    text_columns = [name for name in columns if is_text_type(rows.schema.field(name).type)]
    if csv_format is None or not text_columns:
        return {}
    from fairspan.rows.files.number_format_advice import number_advice, scan_columns

    missing = {name: rows.parts[0].na_values.for_column(name) for name in rows.schema.names}
    scanned = scan_columns(text_batches(rows, text_columns), missing)
    if not any(column.has_numbers for column in scanned.values()):
        return {}
    # Advice on one column must be right for the others, too.
    numeric_columns = [
        name
        for name in rows.selection.features
        if name not in text_columns and is_numeric_type(rows.schema.field(name).type)
    ]
    if numeric_columns:
        scanned |= scan_columns(text_batches(rows, numeric_columns), missing)
    advice_by_column = {}
    for name in text_columns:
        advice = number_advice(scanned, name, csv_format.style, csv_format.delimiter)
        if advice is not None:
            advice_by_column[name] = advice
    return advice_by_column
