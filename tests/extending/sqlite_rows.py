"""A source of rows: a table of an SQLite database, read in blocks."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.rows.checks import row_block
from fairspan.rows.groups import CodedLabels
from fairspan.rows.protocol import OnMissing, RowBlock, block_rows


@dataclass(frozen=True)
class SqliteTable:
    """A table in a database file: what a user would pass as X."""

    path: str
    table: str

    def query(self, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        """Some columns of all rows, in lists of as many rows as make a block."""
        with closing(sqlite3.connect(self.path)) as database:
            rows = database.execute(f'SELECT {columns} FROM "{self.table}"')
            while batch := rows.fetchmany(block_rows(len(rows.description))):
                yield batch


@dataclass(frozen=True)
class SqliteRows:
    """Its rows, with one column that tells the groups."""

    source: SqliteTable
    feature_names: tuple[str, ...]
    group: str
    on_missing: OnMissing = "error"

    @property
    def n_features(self) -> int:
        """p."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Counted by the database."""
        return int(next(self.source.query("count(*)"))[0][0])

    def selected(self, names: tuple[str, ...]) -> "SqliteRows":
        """The same rows with these features, in this order."""
        return replace(self, feature_names=names)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning; an empty cell is missing, and found by row_block."""
        columns = ", ".join(f'"{name}"' for name in (*self.feature_names, self.group))
        first = 0
        for batch in self.source.query(columns):
            values = np.array([row[:-1] for row in batch], dtype=np.float64)
            labels = CodedLabels.of([row[-1] for row in batch])
            yield row_block(first, values, labels, None, self.feature_names, self.on_missing)
            first += len(batch)


def open_rows(
    X: SqliteTable, sensitive_features: str, sample_weight: Any, on_missing: OnMissing
) -> SqliteRows:
    """What an adapter's module offers; weights are left out here."""
    with closing(sqlite3.connect(X.path)) as database:
        described = database.execute(f'SELECT * FROM "{X.table}" LIMIT 0').description
    features = tuple(name for name, *_ in described if name != sensitive_features)
    return SqliteRows(X, features, sensitive_features, on_missing)
