"""Errors in parts of files, with their location and remedies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairspan.errors import Cause, InvalidInput, caller_remedies
from fairspan.rows.error_context import add_error_context, name_rows_in_errors
from fairspan.rows.files.text_columns import advice_on_numbers, non_numeric_features
from fairspan.rows.row_remedies import python_remedies

if TYPE_CHECKING:
    from fairspan.rows.files.file_table import FileTable

# Default remedies; callers that accept a path replace them by remedies with their own arguments.
OPEN_REMEDIES = python_remedies("FileRows.open(..., {})")


@contextmanager
def advise_on_numbers(rows: FileTable) -> Iterator[None]:
    """Replace the remedy of errors about text columns that can be read as numbers.

    The arguments of these errors are what was received, what is allowed, and the remedy in Python.
    The advice on the first such column is used; the command line finds it among the details.
    """
    try:
        yield
    except InvalidInput as error:
        if error.cause is Cause.TEXT_COLUMN:
            advice_by_column = advice_on_numbers(rows, non_numeric_features(rows))
            advice = next(iter(advice_by_column.values()), None)
            if advice is not None:
                received, allowed = error.args[:2]
                error.args = (received, allowed, advice.call)
                error.cause = Cause.NUMBER_FORMAT
                error.details = {"advice": advice}
        raise


@contextmanager
def explain_part_errors(part: FileTable) -> Iterator[None]:
    """Add the location, the names of rows and the remedies of a single part to errors."""
    with (
        add_error_context(part.location),
        caller_remedies(OPEN_REMEDIES),
        name_rows_in_errors(part.parts[0].line_name),
    ):
        yield
