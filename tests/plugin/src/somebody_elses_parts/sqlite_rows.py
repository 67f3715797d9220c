"""A source of rows: a table of an SQLite database, read in blocks."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairspan.extending import CodedLabels, RowBlock, make_row_block, rows_per_block


@dataclass(frozen=True)
class SqliteTable:
    """A table in a database file."""

    path: str
    table: str

    def query(self, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield some columns of all rows, one list for each block."""
        with closing(sqlite3.connect(self.path)) as database:
            rows = database.execute(f'SELECT {columns} FROM "{self.table}"')
            while batch := rows.fetchmany(rows_per_block(len(rows.description))):
                yield batch

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns."""
        with closing(sqlite3.connect(self.path)) as database:
            described = database.execute(f'SELECT * FROM "{self.table}" LIMIT 0').description
        return tuple(name for name, *_ in described)


@dataclass(frozen=True)
class SqliteRows:
    """Rows of a table, grouped by one of its columns; passed as X."""

    source: SqliteTable
    feature_names: tuple[str, ...]
    group: str
    on_missing: Literal["error", "drop"] = "error"

    @classmethod
    def of(cls, table: SqliteTable, group: str) -> "SqliteRows":
        """Names of all columns but the group."""
        return cls(table, tuple(name for name in table.columns if name != group), group)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Number of rows, counted by the database."""
        return int(next(self.source.query("count(*)"))[0][0])

    def select_features(self, names: tuple[str, ...]) -> "SqliteRows":
        """Return the same rows with these features, in this order."""
        return replace(self, feature_names=names)

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows; make_row_block rejects empty cells."""
        p = self.n_features
        first = 0
        columns = (*self.feature_names, self.group)
        for batch in self.source.query(", ".join(f'"{name}"' for name in columns)):
            values = np.array([row[:p] for row in batch], dtype=np.float64)
            labels = CodedLabels.from_labels([row[p] for row in batch])
            yield make_row_block(first, values, labels, None, self.feature_names, self.on_missing)
            first += len(batch)
