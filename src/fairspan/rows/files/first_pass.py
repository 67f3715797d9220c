"""What has to be known of files before their rows can be numbers: categories, and means."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.arrays import weights_of_column
from fairspan.rows.columns import ChosenColumns
from fairspan.rows.encoding import MOST_CATEGORIES, Encoding, as_text, is_text
from fairspan.rows.engines import located
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import listed
from fairspan.rows.numbers import is_number, side_by_side

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


def filled_by_means(rows: FileRows) -> FileRows:
    """The same rows with the mean of each numeric feature, from one pass, where it is missing.

    Raises
    ------
    InvalidInput
        A feature that is missing in every row.
    """
    if others := not_numeric(rows):
        means = filled_by_means(without(rows, others)).chosen.encoding
        return replace(rows, chosen=replace(rows.chosen, encoding=means))
    chosen = rows.chosen
    names = chosen.feature_names
    sums, weights = np.zeros(len(names)), np.zeros(len(names))
    for table in _tables(rows, chosen.read):
        values = side_by_side(chosen.decoded(table), 0, len(table))
        own = _weights(chosen, table)
        present = ~np.isnan(values)
        sums += own @ np.where(present, values, 0.0)
        weights += own @ present
    if not weights.all():
        missing = [names[i] for i in np.flatnonzero(weights == 0)]
        raise InvalidInput(
            f"{listed(missing)} of {rows.where} is missing in every row",
            "Allowed: a feature with at least one number",
            "Leave it out with --exclude",
        )
    fill = tuple(zip(names, (sums / weights).tolist(), strict=True))
    return replace(rows, chosen=replace(chosen, encoding=replace(chosen.encoding, fill=fill)))


def _weights(chosen: ChosenColumns, table: Any) -> Any:
    import narwhals.stable.v2 as nw

    if chosen.weight is None:
        return np.ones(len(table))
    return weights_of_column(nw.from_native(table, eager_only=True)[chosen.weight])


def _distinct(cells: Any) -> list[str]:
    from pyarrow import compute

    return [text for text in compute.unique(as_text(cells)).to_pylist() if text is not None]


def _tables(rows: FileRows, columns: tuple[str, ...]) -> Iterator[Any]:
    """These columns of all rows, in pyarrow Tables."""
    import pyarrow as pa

    for part in rows.table.parts:
        with located(part.where):
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
