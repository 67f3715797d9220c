"""Rows in a file that may be larger than memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from fairspan.errors import InvalidInput, warn
from fairspan.moments.groups import listed
from fairspan.moments.sources.formats import TableFile, open_table, reading
from fairspan.moments.sources.frames import FrameRows
from fairspan.moments.sources.labels import Labels
from fairspan.moments.sources.protocol import RowBlock, block_rows

# Columns are decoded a few blocks at a time, which spreads their overhead.
_BLOCKS_AT_A_TIME = 4


@dataclass(frozen=True)
class FileRows:
    """Rows of a CSV, Parquet or Arrow file, read in batches.

    Attributes
    ----------
    table : TableFile
    features : tuple of str
        Columns that are features, in this order.
    groups : tuple of str
        Columns that make the groups; none if groups are not needed.
    """

    table: TableFile
    features: tuple[str, ...]
    groups: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        path: str | Path,
        groups: Sequence[str] = (),
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> "FileRows":
        """Open a file and choose its columns.

        Parameters
        ----------
        path : path
        groups : sequence of str
            Group columns; several make their intersections.
        features, exclude : sequences of str
            Patterns such as "PAY_*". Without `features`, all columns are taken but the groups and
            the index that pandas stored, which has no name in a CSV.

        Raises
        ------
        InvalidInput
            A column or pattern that the file does not have, no feature left, or a file that cannot
            be read.
        """
        table = open_table(Path(path))
        _check_present(groups, table.columns)
        others = [name for name in table.columns if name not in groups]
        if features:
            chosen = [name for name in others if any(fnmatchcase(name, f) for f in features)]
        else:
            chosen = [name for name in others if name and name not in table.index]
            if "" in others:
                warn(
                    f"{path}: a column without a name is left out. It is most likely an index that "
                    "was written along; give it a name if it is a feature."
                )
        for pattern in (*features, *exclude):
            if not any(fnmatchcase(name, pattern) for name in table.columns):
                raise _nothing_matches(pattern, table.columns)
        left = [name for name in chosen if not any(fnmatchcase(name, e) for e in exclude)]
        if not left:
            raise InvalidInput(
                "No column is left as a feature",
                f"The columns are {listed(table.columns)}",
                "Loosen the patterns of features and exclude",
            )
        return cls(table, tuple(left), tuple(dict.fromkeys(groups)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.features

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for CSV, where only reading tells."""
        return self.table.n_rows

    def selected(self, names: tuple[str, ...]) -> "FileRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        _check_present(names, self.table.columns)
        return replace(self, features=names)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size = _BLOCKS_AT_A_TIME * block_rows(len(self.features))
        # A model may take as a feature what groups the rows: it is read once, as a number.
        columns = tuple(dict.fromkeys((*self.features, *self.groups)))
        labels = tuple(name for name in self.groups if name not in self.features)
        first_row = 0
        with reading(self.table.path):
            for batch in self.table.batches(columns, labels, size):
                yield from self._blocks_of(batch, first_row)
                first_row += batch.num_rows

    def _blocks_of(self, batch: Any, first_row: int) -> Iterator[RowBlock]:
        if batch.num_rows == 0:
            return
        import pyarrow as pa

        frame = nw.from_native(pa.Table.from_batches([batch]), eager_only=True)
        labels = Labels.of_columns(frame, self.groups) if self.groups else None
        rows = FrameRows(frame.select(list(self.features)), first_row=first_row).joined(labels)
        yield from rows.blocks()


def _check_present(names: Sequence[str], columns: Sequence[str]) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        close = get_close_matches(missing[0], columns, n=1)
        raise InvalidInput(
            f"The file has no column {listed(missing)}",
            f"Its columns are {listed(columns)}",
            "Check the spelling" + (f"; the closest is {close[0]!r}" if close else ""),
        )


def _nothing_matches(pattern: str, columns: Sequence[str]) -> InvalidInput:
    return InvalidInput(
        f"The pattern {pattern!r} matches no column",
        f"The columns are {listed(columns)}",
        "Correct the pattern; * stands for any text",
    )
