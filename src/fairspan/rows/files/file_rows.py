"""Rows in a file, or a folder of files, that may be larger than memory."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fairspan.errors import InvalidInput, imported, warn
from fairspan.progress import Stage, is_shown
from fairspan.rows.columns import (
    BLOCKS_AT_A_TIME,
    ChosenColumns,
    ReadInBatches,
    RowsByColumns,
    named_columns_only,
    vector_lengths_of,
)
from fairspan.rows.files.csv_files import CsvFormat, format_of
from fairspan.rows.files.formats import TableFile, is_table, kind_by_name, open_file
from fairspan.rows.files.parts import Constants, FilePart, reading
from fairspan.rows.groups import listed
from fairspan.rows.parallel import error_context, merged_in_order, prefetch, results_of_parts
from fairspan.rows.protocol import Fold, OnMissing, Result, RowBlock, block_rows


@dataclass(frozen=True)
class FileRows(RowsByColumns):
    """Rows of CSV, Parquet or Arrow files, read in batches, part by part.

    Attributes
    ----------
    table : TableFile
    chosen : ChosenColumns
    jobs : int
        Number of processes that read the parts.
    first_position : int
        Rows in the parts before these, where that is known before reading.
    activity : str
        What progress calls it that rows are read.
    stage : Stage or None
        Counts the rows that are read; None for a stage of their own.
    """

    table: TableFile
    chosen: ChosenColumns
    jobs: int = 1
    first_position: int = 0
    activity: str = "reading"
    stage: Stage | None = None

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
        csv: Mapping[str, str] | None = None,
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
        csv : mapping, optional
            How CSV files are written: "delimiter", by default the one in the header, "decimal", by
            default ".", "encoding", by default "utf-8", and "comment", the beginning of lines that
            are skipped.

        Raises
        ------
        InvalidInput
            A column or pattern that the file does not have, no feature left, or a file that cannot
            be read.
        InvalidParameter
            A way of writing CSV files that is not known.
        """
        table = open_table(Path(path), None if csv is None else format_of(csv))
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
        """Number of rows; None for CSV, where only reading shows this."""
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
        starts = accumulate((part.n_rows or 0 for part in self.table.parts), initial=0)
        return [
            FileRows(replace(self.table, parts=(part,)), self.chosen, 1, start, self.activity)
            for part, start in zip(self.table.parts, starts, strict=False)
        ]

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all parts; None if there are no rows."""
        parts = self.parts
        total: Result | None = None
        results = self.results(fold, parts)
        with closing(results):
            for part, more in zip(parts, results, strict=True):
                with error_context(part.where):  # where it does not fit to what came before
                    total = merged_in_order(fold, (total, more))
        return total

    def results(
        self, fold: Fold[Result], parts: Sequence["FileRows"]
    ) -> Generator[Result | None, None, None]:
        """The fold's result over each of these parts, in their order, with progress.

        Other processes tell only when they are done with a part.
        """
        is_here = self.jobs == 1
        by_rows = is_here or all(part.n_rows is not None for part in parts)
        counting = self._begun(parts) if by_rows else Stage(self.activity, len(parts), "parts")
        with counting as stage:
            read = [replace(part, stage=stage) for part in parts] if is_here else parts
            results = results_of_parts(fold, read, self.jobs)
            with closing(results):
                for part, result in zip(parts, results, strict=True):
                    if not is_here:
                        stage.add((part.n_rows or 0) if by_rows else 1)
                    yield result

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, here; numbered from 0 in each part."""
        if self.stage is None:
            with self._begun([self]) as stage:
                yield from replace(self, stage=stage).blocks()
            return
        size = BLOCKS_AT_A_TIME * block_rows(len(self.feature_names))
        for part in self.table.parts:
            with error_context(part.where):
                first_row = 0
                with reading(part.path):
                    batches = part.batches(self.chosen.read, self.chosen.labels, size)
                    for batch in prefetch(batches):
                        for block in self.chosen.blocks(batch, first_row):
                            yield block
                            self.stage.add(len(block.values) + block.n_dropped)
                        first_row += batch.num_rows

    def _begun(self, parts: Sequence["FileRows"]) -> Stage:
        """A stage that counts rows; an estimate of their number if files do not store it."""
        files = [file for part in parts for file in part.table.parts]
        counts = [file.n_rows for file in files]
        stage = Stage(
            self.activity, None if None in counts else sum(count or 0 for count in counts), "rows"
        )
        if stage.total is None and is_shown():
            stage.total = estimated_rows(files)
        return stage


# Bytes of a file whose lines are counted, and digits of the estimate: nobody takes it for a count.
_START_BYTES, _DIGITS = 1 << 16, 2


def estimated_rows(parts: Sequence[FilePart]) -> int | None:
    """About how many rows there are, by the length of first lines; None if this is not known."""
    total = 0.0
    for part in parts:
        n_rows = _rows_by_lines(part.path) if part.n_rows is None else part.n_rows
        if n_rows is None:
            return None
        total += n_rows
    return int(round(total, _DIGITS - len(str(int(total)))))


def _rows_by_lines(path: Path) -> float | None:
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
        size = path.stat().st_size
    except OSError:  # who reads it will say so
        return None
    n_lines = start.count(b"\n")
    if n_lines < 2 or path.suffix == ".gz":  # long lines, or no lines at all
        return None
    return size / len(start) * n_lines - 1  # without the heading


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


_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_table(path: Path, form: CsvFormat | None = None) -> TableFile:
    """Open a file by the ending of its name, or else by its first bytes; or a folder.

    Raises
    ------
    InvalidInput
        Not a table that can be read: missing, empty, damaged, of another kind, or with two columns
        of the same name.
    MissingDependency
        pyarrow is not installed.
    """
    if not path.exists():
        raise InvalidInput(
            f"There is no file {path}", "Allowed: a file or folder that exists", "Check the path"
        )
    if not (path.is_dir() or path.is_file()):
        raise InvalidInput(
            f"{path} is a pipe or a device",
            "Allowed: files and folders, since rows are read more than once",
            "Write the rows to a file first",
        )
    imported("pyarrow", "arrow", f"Reading {path}")
    return open_folder(path, form) if path.is_dir() else open_file(path, form=form)


def open_folder(folder: Path, form: CsvFormat | None = None) -> TableFile:
    """Open all files of a folder and its sub-folders, in the order of their names.

    A sub-folder named ``year=2024`` gives its files the column ``year``: whole numbers if all its
    values are, else text. Names that begin with a dot or an underscore are passed over, as writers
    keep their notes there.

    Raises
    ------
    InvalidInput
        No files, files of several kinds, or files that differ in columns or in their types.
    """
    found = sorted(path for path in folder.rglob("*") if _is_data(path.relative_to(folder)))
    found = [path for path in found if path.is_file()]
    files = [path for path in found if kind_by_name(path) is not None]
    if files and len(files) < len(found):
        others = [path.name for path in found if path not in files]
        warn(
            f"{folder}: files with other endings are skipped: "
            f"{listed(others)}. Rename them if they hold rows."
        )
    kinds = sorted({str(kind_by_name(path)) for path in files})
    if len(kinds) != 1:
        raise InvalidInput(
            f"The folder {folder} holds "
            + (f"files of several kinds: {', '.join(kinds)}" if kinds else "no file of rows"),
            "Allowed: Parquet files, or CSV files, or Arrow files, at least one",
            "Check the path, or sort the files into folders",
        )
    tables = [
        open_file(file, kinds[0], constants, form)
        for file, constants in zip(files, _constants(folder, files), strict=True)
    ]
    for table in tables[1:]:
        _check_alike(tables[0], table)
    return replace(
        tables[0], path=folder, parts=tuple(part for table in tables for part in table.parts)
    )


def _is_data(relative: Path) -> bool:
    return not any(name.startswith((".", "_")) and "=" not in name for name in relative.parts)


def _constants(folder: Path, files: Sequence[Path]) -> list[Constants]:
    """Columns and values of each file's sub-folders, numbers where a column has only numbers."""
    texts: list[dict[str, str | None]] = []
    for file in files:
        pairs = [name.split("=", 1) for name in file.relative_to(folder).parts[:-1] if "=" in name]
        texts.append(
            {unquote(key): None if text == _NO_VALUE else unquote(text) for key, text in pairs}
        )
        if set(texts[-1]) != set(texts[0]):
            raise InvalidInput(
                f"{file} lies under {listed(sorted(texts[-1]))}, but {files[0]} under "
                f"{listed(sorted(texts[0]))}",
                "Allowed: files under sub-folders of the same columns, as in year=2024",
                "Move the files that do not belong here",
            )
    numbers = {
        name
        for name in texts[0]
        if all(each[name] is None or _is_whole(str(each[name])) for each in texts)
    }
    return [
        tuple(
            (name, int(value) if name in numbers and value is not None else value)
            for name, value in each.items()
        )
        for each in texts
    ]


def _is_whole(text: str) -> bool:
    # "01" is a name: as a number it would become 1. Arrow has no room for 19 digits or more.
    return text.removeprefix("-").isdecimal() and text == str(int(text)) and len(text) < 19


def _check_alike(first: TableFile, other: TableFile) -> None:
    """Make sure that two files have the same columns, and that these hold the same kind."""
    missing = [name for name in first.columns if name not in other.columns]
    extra = [name for name in other.columns if name not in first.columns]
    if missing or extra:
        differences = [f"it lacks {listed(missing)}"] if missing else []
        differences += [f"it has {listed(extra)} besides"] if extra else []
        raise InvalidInput(
            f"{other.path} has other columns than {first.path}: {' and '.join(differences)}",
            "Allowed: files of the same columns",
            "Put files of another kind into another folder",
        )
    for name in first.columns:
        left, right = (table.schema.field(name).type for table in (first, other))
        kinds = {_kind_of_type(left), _kind_of_type(right)} - {"nothing"}
        if len(kinds) > 1:
            raise InvalidInput(
                f"{other.path} holds {right} in column {name!r}, but {first.path} holds {left}",
                "Allowed: files whose columns hold the same kind of values",
                "Write one of the files again, with the types of the other",
            )


def _kind_of_type(kind: Any) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _kind_of_type(kind.value_type)
    if types.is_null(kind):
        return "nothing"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    return str(kind)
