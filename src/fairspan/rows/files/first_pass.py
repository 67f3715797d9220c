"""What has to be known of files before their rows can be numbers: the categories of text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.rows.encoding import MOST_CATEGORIES, Encoding, as_text, is_text
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import listed
from fairspan.rows.numbers import is_number
from fairspan.rows.parallel import error_context

_BATCH = 2**16
# In tables of fewer rows, categories are not told from identifiers.
_FEWEST_ROWS = 20


def not_numeric(rows: FileRows) -> tuple[str, ...]:
    """Features that are neither numbers nor encoded: text, or dates."""
    from pyarrow import types

    numeric = [types.is_integer, types.is_floating, types.is_boolean, types.is_decimal]
    numeric += [types.is_null, types.is_fixed_size_list]
    encoded = dict(rows.chosen.encoding.categories)
    columns = [name for name in rows.chosen.features if name not in encoded]
    kinds = {name: rows.table.schema.field(name).type for name in columns}
    return tuple(name for name in kinds if not any(is_kind(kinds[name]) for is_kind in numeric))


def without(rows: FileRows, columns: tuple[str, ...]) -> FileRows:
    """The same rows without these features.

    Raises
    ------
    InvalidInput
        No feature is left.
    """
    left = tuple(name for name in rows.chosen.features if name not in columns)
    if not left:
        raise InvalidInput(
            f"No column of {rows.where} holds numbers",
            "Allowed: at least one feature",
            "Encode text with --one-hot, or name another table",
        )
    return replace(rows, chosen=replace(rows.chosen, features=left))


def one_hot(rows: FileRows) -> FileRows:
    """The same rows with an indicator for each category of each column of text, from one pass.

    Raises
    ------
    InvalidInput
        A column whose texts are too many, or too different, for categories.
    """
    schema = rows.table.schema
    columns = tuple(name for name in rows.chosen.features if is_text(schema.field(name).type))
    found: dict[str, dict[str, None]] = {name: {} for name in columns}
    n_rows = 0
    for table in _tables(rows, columns) if columns else ():
        n_rows += len(table)
        for name in columns:
            found[name].update(dict.fromkeys(_distinct(table[name])))
            if len(found[name]) > MOST_CATEGORIES:
                raise _identifiers(name, f"more than {MOST_CATEGORIES:,} different texts", found)
    for name in columns:
        if n_rows >= _FEWEST_ROWS and 2 * len(found[name]) > n_rows:
            many = f"{len(found[name]):,} different texts in {n_rows:,} rows"
            raise _identifiers(name, many, found)
    categories = tuple((name, tuple(sorted(texts))) for name, texts in found.items() if texts)
    empty = tuple(name for name, texts in found.items() if not texts)
    rows = without(rows, empty)
    return replace(rows, chosen=replace(rows.chosen, encoding=Encoding(categories)))


def _identifiers(name: str, many: str, found: Mapping[str, Iterable[str]]) -> InvalidInput:
    return InvalidInput(
        f"The column {name!r} holds {many}, such as {listed(list(found[name]), 3)}",
        "Allowed: columns of categories, each of them of several rows",
        "Leave it out with --exclude: it looks like a name or an identifier",
    )


def _distinct(cells: Any) -> list[str]:
    from pyarrow import compute

    return [text for text in compute.unique(as_text(cells)).to_pylist() if text is not None]


def _tables(rows: FileRows, columns: tuple[str, ...]) -> Iterator[Any]:
    """These columns of all rows, in pyarrow Tables."""
    import pyarrow as pa

    for part in rows.table.parts:
        with error_context(part.where):
            for batch in part.batches(columns, rows.chosen.labels, _BATCH):
                yield pa.Table.from_batches([batch])


def first_text(rows: FileRows, column: str) -> tuple[int, str | None]:
    """The first text of a column that is no number, and its row, counted from 1."""
    row = 0
    for table in _tables(rows, (column,)):
        for text in as_text(table[column]).to_pylist():
            row += 1
            if text is not None and not is_number(text):
                return row, text
    return row, None
