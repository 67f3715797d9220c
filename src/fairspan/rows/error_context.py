"""Errors with the location and the names of the rows they concern."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairspan.errors import FairspanError
from fairspan.formatting.messages import with_row_names


@contextmanager
def add_error_context(location: str) -> Iterator[None]:
    """Prefix errors with the location of the rows they concern."""
    try:
        yield
    except FairspanError as error:
        if location in error.args[0]:  # an inner context has added it
            raise
        raise error.located(location) from error


@contextmanager
def name_rows_in_errors(row_name: Callable[[int], str | None]) -> Iterator[None]:
    """Replace positions of rows in errors by the names that users see."""
    try:
        yield
    except FairspanError as error:
        problem, *remaining = error.args
        error.args = (with_row_names(problem, row_name), *remaining)
        raise
