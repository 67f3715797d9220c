"""Rows in a file, or a folder of files, that may be larger than memory."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from fairspan.errors import warn
from fairspan.rows.columns import (
    BLOCKS_AT_A_TIME,
    ChosenColumns,
    ReadInBatches,
    RowsByColumns,
    named_columns_only,
    vector_lengths_of,
)
from fairspan.rows.engines import Engine, InThisProcess, located, total
from fairspan.rows.files.folders import open_table
from fairspan.rows.files.formats import TableFile, is_table
from fairspan.rows.files.parts import FilePart, reading
from fairspan.rows.protocol import Fold, OnMissing, Result, RowBlock, block_rows

Item = TypeVar("Item")


@dataclass(frozen=True)
class FileRows(RowsByColumns):
    """Rows of CSV, Parquet or Arrow files, read in batches, part by part.

    Attributes
    ----------
    table : TableFile
    chosen : ChosenColumns
    engine : Engine
        Where the parts are read.
    """

    table: TableFile
    chosen: ChosenColumns
    engine: Engine = field(default_factory=InThisProcess)

    @classmethod
    def open(
        cls,
        path: str | Path,
        groups: Sequence[str] = (),
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        weight: str | None = None,
        on_missing: OnMissing = "error",
        everyone: str | None = None,
    ) -> "FileRows":
        """Open a file or folder and choose its columns.

        Parameters
        ----------
        path : path
        groups : sequence of str
            Group columns; several make their intersections.
        features, exclude : sequences of str
            Patterns such as "PAY_*". Without `features`, all columns are taken but the groups, the
            weight and the index that pandas stored, which has no name in a CSV.
        weight : str, optional
            Column of sample weights.
        on_missing : {"error", "drop"}
            What to do with rows in which a feature or the group is missing.
        everyone : str, optional
            The label of all rows, in place of group columns.

        Raises
        ------
        InvalidInput
            A column or pattern that the file does not have, no feature left, or a file that cannot
            be read.
        """
        table = open_table(Path(path))
        if "" in table.columns and not features:
            warn(
                f"{path}: a column without a name is left out. It is most likely an index that "
                "was written along; give it a name if it is a feature."
            )
        chosen = ChosenColumns.of(
            table.columns,
            vector_lengths_of(table.schema),
            groups,
            features,
            exclude,
            weight=weight,
            on_missing=on_missing,
            everyone=everyone,
            no_features=("", *table.index),
        )
        return cls(table, chosen)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for CSV, where only reading tells."""
        return self.table.n_rows

    @property
    def n_parts(self) -> int:
        """Number of parts: files and their row groups."""
        return len(self.table.parts)

    @property
    def where(self) -> str:
        """What these rows are called in messages."""
        parts = self.table.parts
        return parts[0].where if len(parts) == 1 else str(self.table.path)

    @property
    def parts(self) -> list["FileRows"]:
        """The same rows, part by part."""
        return [
            FileRows(replace(self.table, parts=(part,)), self.chosen) for part in self.table.parts
        ]

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all parts; None if there are no rows."""
        return total(self.engine, fold, self.parts)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, here; numbered from 0 in each part."""
        for part in self.table.parts:
            with located(part.where):
                yield from self._blocks_of(part)

    def _blocks_of(self, part: FilePart) -> Iterator[RowBlock]:
        size = BLOCKS_AT_A_TIME * block_rows(len(self.feature_names))
        first_row = 0
        with reading(part.path):
            for batch in ahead(part.batches(self.chosen.read, self.chosen.labels, size)):
                yield from self.chosen.blocks(batch, first_row)
                first_row += batch.num_rows


class Files(ReadInBatches):
    """Files and folders of tables, whose groups and weights are columns of them."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return isinstance(X, str | PathLike) and is_table(Path(X))

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> FileRows:
        """Rows of a file or folder, whose groups and weights are columns of it."""
        named = named_columns_only(sensitive_features, sample_weight, f"the path {str(X)!r}")
        return FileRows.open(X, on_missing=on_missing, **named)


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, of which the next is fetched by another thread in the meantime.

    Decoding a file and multiplying matrices both leave Python's lock to others, so that they share
    two cores well.

    Examples
    --------
    >>> list(ahead([1, 2, 3]))
    [1, 2, 3]
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(_next, source)
        while item := fetched.result():
            fetched = thread.submit(_next, source)
            yield item[0]


def _next(source: Iterator[Item]) -> tuple[Item] | None:
    for item in source:
        return (item,)
    return None
