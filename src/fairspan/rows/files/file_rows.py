"""Rows of a file or a folder of files, possibly larger than memory.

Parts are read sequentially or by several processes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from multiprocessing import resource_tracker
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from threadpoolctl import threadpool_limits

from fairspan.errors import (
    Cause,
    FairspanError,
    InvalidInput,
    caller_remedies,
    import_optional,
    warn,
)
from fairspan.formatting.messages import quoted_cell
from fairspan.progress import Stage, is_progress_shown
from fairspan.rows.aggregation import Aggregator, Result, merge_in_order
from fairspan.rows.blocks import OnMissing, RowBlock, rows_per_block
from fairspan.rows.column_selection import (
    MAX_CATEGORIES,
    ColumnRoles,
    ColumnSelection,
    PartitionedColumnRows,
    StreamAdapter,
    column_roles,
    is_numeric_type,
    is_text_type,
    python_label_type,
)
from fairspan.rows.conversion import arrow_vector_lengths
from fairspan.rows.error_context import add_error_context, name_rows_in_errors
from fairspan.rows.files.batch_cache import BatchCache, BatchRequest
from fairspan.rows.frames import BLOCKS_PER_SLICE, batch_to_blocks
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_remedies import python_remedies
from fairspan.typing import TableLike

if TYPE_CHECKING:
    import pyarrow as pa

    from fairspan.rows.files.na_values import NaValues, NaValuesLike
    from fairspan.rows.files.number_format_advice import NumberAdvice
    from fairspan.rows.files.numbers_as_text import NumberStyle
    from fairspan.rows.files.table_files import FilePart

# Default remedies; callers that accept a path replace them by remedies with their own arguments.
_OPEN_REMEDIES = python_remedies("FileRows.open(..., {})")


@dataclass(frozen=True)
class FileRows(PartitionedColumnRows):
    """Rows of CSV, Parquet or Arrow files, read in batches, part by part.

    Attributes
    ----------
    path : Path
    schema : pyarrow.Schema
        Schema; for CSV inferred from the first rows.
    parts : tuple of FilePart
    selection : ColumnSelection
    n_jobs : int
        Number of processes.
    row_offset : int
        Number of rows in earlier parts, if known.
    stage_name : str
        Name of the progress stage.
    stage : Stage or None
        Progress stage that counts rows; None to open a new one.
    cache : BatchCache
        Batches of small files, shared with rows that are made from these.
    """

    path: Path
    schema: pa.Schema
    parts: tuple[FilePart, ...]
    selection: ColumnSelection
    n_jobs: int = 1
    row_offset: int = 0
    stage_name: str = "reading"
    stage: Stage | None = None
    cache: BatchCache = field(default_factory=BatchCache, repr=False, compare=False)

    @classmethod
    def open(
        cls,
        path: str | Path,
        group_columns: Sequence[str] = (),
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        weight_column: str | None = None,
        on_missing: OnMissing = "error",
        csv: Mapping[str, object] | None = None,
        na_values: NaValuesLike | NaValues | None = None,
    ) -> FileRows:
        r"""Open a file or folder and select its columns.

        Parameters
        ----------
        path : path
        group_columns : sequence of str
            Group columns; several are crossed.
        features, exclude : sequences of str
            Patterns such as "PAY_*". By default all columns except the groups, the weight and a
            stored pandas index (the unnamed column of a CSV).
        weight_column : str, optional
            Column of sample weights.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            How to treat rows in which a feature or the group is missing: raise, drop them, or
            keep missing features as NaN, for a fit by the EM algorithm ("em", "em-drop-empty").
        csv : mapping, optional
            Format of CSV files: "delimiter", by default detected from the header; "decimal", by
            default "."; "thousands", the separator between groups of three digits (",", ".", "'" or
            " "); "encoding", by default "utf-8"; "comment", the prefix of lines to skip;
            "skip_rows", the number of lines above the header; and "header", False if the first line
            is a row: the columns are then named column_1, column_2 and so on. The last two also
            apply to Excel files.
        na_values : number, str, sequence of these, or mapping of column to these, optional
            Codes for missing values, such as ``[-99, "?"]``, in all columns or by column. Numbers
            are compared as numbers, and text without surrounding spaces. `on_missing` says how such
            rows are treated.

        Raises
        ------
        InvalidInput
            Unknown column, unmatched pattern, no features left, or unreadable file.
        InvalidParameter
            Unknown CSV option, or codes that are neither numbers nor text.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
        >>> _ = path.write_text('income,sex\n"1,250",f\n-99,m\n')
        >>> rows = FileRows.open(
        ...     path, ["sex"], csv={"thousands": ","}, na_values=-99, on_missing="drop"
        ... )
        >>> [block.values.tolist() for block in rows.blocks()]
        [[[1250.0]]]
        """
        return cls.open_with_roles(
            path,
            ColumnRoles(groups=tuple(group_columns), weights=weight_column),
            features,
            exclude,
            on_missing=on_missing,
            csv=csv,
            na_values=na_values,
        )

    @classmethod
    def open_with_roles(
        cls,
        path: str | Path,
        roles: ColumnRoles,
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        on_missing: OnMissing = "error",
        csv: Mapping[str, object] | None = None,
        na_values: NaValuesLike | NaValues | None = None,
    ) -> FileRows:
        """Open a file or folder, with columns of classes and clusters as well.

        Parameters
        ----------
        path : path
        roles : ColumnRoles
            Columns of groups, classes, clusters and weights.
        features, exclude, on_missing, csv, na_values
            As for :meth:`open`.

        Raises
        ------
        InvalidInput, InvalidParameter
            As for :meth:`open`.
        """
        import_optional("pyarrow", "arrow", f"Reading {path}")
        from fairspan.rows.files.csv_format import csv_format_from
        from fairspan.rows.files.na_values import NaValues
        from fairspan.rows.files.table_files import open_table, pandas_index_columns

        if not isinstance(na_values, NaValues):
            na_values = NaValues.from_value(na_values)
        csv_format = None if csv is None else csv_format_from(csv)
        schema, parts = open_table(Path(path), csv_format, na_values)
        na_values.check_columns(schema.names)
        if "" in schema.names and not features:
            warn(
                f"{path}: an unnamed column is ignored. It is probably a stored index; name it if "
                "it is a feature."
            )
        # Whether the header, the first line, looks like a row.
        header_is_data = any(part.csv_format and part.csv_format.header_is_data for part in parts)
        try:
            selection = ColumnSelection.from_patterns(
                schema.names,
                arrow_vector_lengths(schema),
                roles,
                features,
                exclude,
                on_missing=on_missing,
                # Stored indexes: an unnamed column, and those that pandas declares.
                default_exclude=("", *pandas_index_columns(schema)),
            )
        except InvalidInput as error:
            if not header_is_data:
                raise
            names = [*roles.names, *features, *exclude]
            raise _header_is_data_error(path, names) from error
        if header_is_data:
            warn(
                f"{path}: the first line looks like a row, but is used as the header.",
                "If there is no header, name the columns column_1, column_2 and so on with "
                "FileRows.open(..., csv={'header': False}).",
                Cause.CSV_COLUMNS_OF_A_ROW,
            )
        return cls(Path(path), schema, parts, selection)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for CSV, where it is known only after reading."""
        counts = [part.n_rows for part in self.parts if part.n_rows is not None]
        return sum(counts) if len(counts) == len(self.parts) else None

    @property
    def has_row_offsets(self) -> bool:
        """Whether the number of rows before each part is known, as for Parquet and for one part."""
        return len(self.parts) == 1 or self.n_rows is not None

    def row_name(self, index: int) -> str | None:
        """Return a row's number and line in a single CSV file; None for other files."""
        if len(self.parts) > 1:
            return None
        line = self.parts[0].line_name(index)
        return None if line is None else f"row {index + 1} ({line})"

    @property
    def n_partitions(self) -> int:
        """Number of parts: files and their row groups."""
        return len(self.parts)

    def label_type(self, column: str) -> type | None:
        """Return the Python type of the labels in a column; None if unknown."""
        if column in self.selection.bins or column in self.selection.missing_labels:
            return str
        if self.parts[0].csv_format is not None:  # labels in CSV are text unless also a feature
            return str if column in self.selection.text_columns else None
        return python_label_type(self.schema.field(column).type)

    @property
    def location(self) -> str:
        """Location for messages."""
        return str(self.parts[0].location if len(self.parts) == 1 else self.path)

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all parts; None if there are no rows."""
        # Rows before each part, by which rows are assigned to folds, and in total. Parts whose
        # number of rows is unknown before reading (CSV) count as 0: folds then begin in each part.
        row_offsets = accumulate((part.n_rows or 0 for part in self.parts), initial=0)
        parts = [
            replace(self, parts=(part,), row_offset=row_offset)
            for part, row_offset in zip(self.parts, row_offsets, strict=False)  # without the total
        ]
        total: Result | None = None
        results = self.part_results(aggregator, parts)
        with closing(results):
            for part, result in zip(parts, results, strict=True):
                with add_error_context(part.location):  # if it is inconsistent with earlier parts
                    total = merge_in_order(aggregator, (total, result))
        return total

    def part_results(
        self, aggregator: Aggregator[Result], parts: Sequence[FileRows]
    ) -> Generator[Result | None, None, None]:
        """Aggregate each part, and yield the results in order, with progress.

        The result of a part without rows is None. Each of `parts` is a single file or row group.
        Results do not depend on the number of processes; with several, progress is reported per
        part, and with one, per block of rows.

        Raises
        ------
        FairspanError
            A process was killed.
        """
        n_jobs = min(self.n_jobs, len(parts))
        if n_jobs < 2:
            yield from self._read_sequentially(aggregator, parts)
            return
        results = _results_from_processes(aggregator, parts, n_jobs)
        with Stage(self.stage_name, len(parts), "parts") as stage, closing(results):
            for result in results:
                stage.advance()
                yield result

    def _read_sequentially(
        self, aggregator: Aggregator[Result], parts: Sequence[FileRows]
    ) -> Iterator[Result | None]:
        with self._reading_stage(parts) as stage:
            for part in parts:
                with _explaining_errors(part):
                    yield aggregator.aggregate(replace(part, stage=stage))

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning; rows are numbered from 0 in each part."""
        # Progress is counted by a stage, which `aggregate` opens; rows read directly have none yet.
        if self.stage is None:
            with self._reading_stage([self]) as stage:
                yield from replace(self, stage=stage).blocks()
            return
        from fairspan.rows.files.table_files import explain_read_errors

        selection = self.selection
        # Rows of a batch of a Parquet file: several blocks, which are decoded together.
        size = BLOCKS_PER_SLICE * rows_per_block(len(selection.feature_names))
        for part in self.parts:
            # Errors name the file, the line and the arguments of `FileRows.open` that help, such as
            # those to read text that looks like numbers.
            with (
                add_error_context(part.location),
                caller_remedies(_OPEN_REMEDIES),
                name_rows_in_errors(part.line_name),
                _advising_on_numbers(self),
                explain_read_errors(part.path),
            ):
                first_row = 0
                for batch in self._batches(part, size):
                    for block in batch_to_blocks(batch, selection, first_row):
                        yield block
                        self.stage.advance(len(block.values) + block.n_dropped)
                    first_row += batch.num_rows

    def _batches(self, part: FilePart, size: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a part with the selected columns, from memory if they are kept.

        `size` is the number of rows of a batch of a Parquet file.
        """
        columns = self.selection.required_columns
        text_columns = self.selection.text_columns
        request = BatchRequest.from_columns(
            columns, text_columns
        )  # kept batches must have these columns
        cached = self.cache.find(part, request)
        if cached is not None:
            return iter(cached)
        batches = prefetch(part.batches(self.schema, columns, text_columns, size))
        return self.cache.fill(part, request, batches)

    def _reading_stage(self, parts: Sequence[FileRows]) -> Stage:
        """Progress stage that counts rows; the total is estimated if files do not store it."""
        files = replace(self, parts=tuple(file for part in parts for file in part.parts))
        total = files.n_rows
        if total is None and is_progress_shown():
            total = estimate_n_rows([file.path for file in files.parts])
        return Stage(self.stage_name, total, "rows")


def _header_is_data_error(path: str | Path, names: Sequence[str]) -> InvalidInput:
    """Build the error for unknown columns of a file without a header.

    It lists the requested names only: the names in the first line may be confidential data.
    """
    return InvalidInput(
        f"{path} has no column {format_list(names)}, and its first line looks like a row",
        "Allowed: column names in the first line, or the names column_1, column_2 and so on",
        "Add a header line; or open the file with FileRows.open(path, group_columns, "
        "csv={'header': False}), and name a group as column_3, for example",
        cause=Cause.CSV_COLUMNS_OF_A_ROW,
    )


# Bytes that are sampled for the estimate of the number of rows.
_SAMPLE_BYTES = 1 << 16
# Suffixes of compressed files and workbooks, whose bytes do not show lines.
_WITHOUT_ESTIMATE = (".gz", ".bz2", ".zst", ".zip", ".xlsx", ".xlsm")
# Significant digits of the estimate, so few that it does not look like an exact count.
_ESTIMATE_DIGITS = 2


def estimate_n_rows(paths: Sequence[Path]) -> int | None:
    """Estimate the number of rows of CSV files from the first lines of one; None if impossible."""
    try:
        with paths[0].open("rb") as file:
            start = file.read(_SAMPLE_BYTES)
        size = sum(path.stat().st_size for path in paths)
    except OSError:  # reported when the file is read
        return None
    n_lines = start.count(b"\n")
    # Too few lines to estimate, or compressed.
    if n_lines < 2 or paths[0].suffix in _WITHOUT_ESTIMATE:
        return None
    total = size / len(start) * n_lines - len(paths)  # without header lines
    n_digits = len(str(int(total)))
    return int(round(total, _ESTIMATE_DIGITS - n_digits))  # to significant digits


class FileAdapter(StreamAdapter):
    """Adapter for paths of files and folders."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a path."""
        return isinstance(X, str | PathLike)

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> FileRows:
        """Open the rows of a file or folder."""
        roles = column_roles(metadata, f"the path {str(X)!r}")
        return FileRows.open_with_roles(cast("str | Path", X), roles, on_missing=on_missing)


# Rows of a batch in passes over few columns.
_BATCH_ROWS = 2**16
# With fewer rows, identifiers cannot be distinguished from categories.
_MIN_ROWS_FOR_CHECK = 20


def non_numeric_features(rows: FileRows) -> tuple[str, ...]:
    """Features that are neither numeric nor encoded, such as text or dates."""
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


def drop_features(rows: FileRows, columns: tuple[str, ...]) -> FileRows:
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
    return replace(rows, selection=replace(rows.selection, features=remaining))


def one_hot_encode_text(rows: FileRows) -> FileRows:
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
    return replace(rows, selection=replace(rows.selection, categories=categories))


def _collect_categories(rows: FileRows, columns: tuple[str, ...]) -> dict[str, list[str]]:
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


def _read_tables(rows: FileRows, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Read columns as pyarrow Tables."""
    import pyarrow as pa

    text_columns = rows.selection.text_columns
    for part in rows.parts:
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, columns, text_columns, _BATCH_ROWS):
                yield pa.Table.from_batches([batch])


def first_non_numeric_text(rows: FileRows, column: str) -> tuple[str, str | None]:
    """Return the location of the first non-numeric text of a column, and the text.

    The location, for messages, is a line of a CSV file or a row of another file. If all texts are
    numbers, the location is empty and the text None.
    """
    from fairspan.rows.files.numbers_as_text import NumberStyle

    for part in rows.parts:
        style = NumberStyle() if part.csv_format is None else part.csv_format.style
        index = 0
        with add_error_context(part.location):
            batches = part.batches(
                rows.schema, columns=(column,), text_columns=(column,), size=_BATCH_ROWS
            )
            for batch in batches:
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


def text_batches(rows: FileRows, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns as text, in pyarrow RecordBatches."""
    for part in rows.parts:
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, columns, columns, _BATCH_ROWS):
                arrays = [cells.cast("string") for cells in batch.columns]
                yield batch.from_arrays(arrays, names=list(columns))


def advice_on_numbers(rows: FileRows, columns: Sequence[str]) -> dict[str, NumberAdvice]:
    """Return advice on how to read text columns of CSV files as numbers, by column.

    Columns that do not look like numbers have no entry.

    Parameters
    ----------
    rows : FileRows
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


@contextmanager
def _advising_on_numbers(rows: FileRows) -> Iterator[None]:
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


Item = TypeVar("Item")

# Parts dispatched ahead per process. No more than the pool's own queue holds, or joblib warns about
# canceled tasks on interruption.
_PREFETCHED_PARTS = 2
# Seconds between two checks of a worker whether its parent is alive.
_POLL_SECONDS = 0.5


def _results_from_processes(
    aggregator: Aggregator[Result], parts: Sequence[FileRows], n_jobs: int
) -> Generator[Result | None, None, None]:
    """Aggregate parts in several processes, and yield the result of each in order.

    Each worker gets the id of this process, and exits when this process is killed.

    Raises
    ------
    FairspanError
        A process was killed.
    """
    from joblib import Parallel, delayed

    workers = Parallel(
        n_jobs=n_jobs,
        return_as="generator",
        pre_dispatch=_PREFETCHED_PARTS * n_jobs,
        batch_size=1,
        max_nbytes=None,  # no memory maps on disk
    )
    try:
        # Workers start with SIGINT blocked: they print no traceback on Ctrl-C, and exit with this
        # process.
        with block_sigint():
            results = workers(
                delayed(_aggregate_in_worker)(aggregator, part, os.getpid()) for part in parts
            )
        try:
            # Not `yield from`: joblib would warn about unused results.
            for result in results:  # noqa: UP028
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()
    except BrokenProcessPool as error:
        raise FairspanError(
            f"One of the {n_jobs} reader processes was killed, probably for lack of memory",
            "Allowed: as many processes as fit into memory, each with a partial result and a few "
            "batches",
            "Use fewer jobs",
        ) from error


def _aggregate_in_worker(
    aggregator: Aggregator[Result], part: FileRows, parent: int
) -> Result | None:
    _exit_with_parent(parent)
    # Oversubscribed BLAS threads would be many times slower.
    with threadpool_limits(1), _explaining_errors(part):
        return aggregator.aggregate(part)


@contextmanager
def _explaining_errors(part: FileRows) -> Iterator[None]:
    """Add the location, the names of rows and the remedies of a single part to errors."""
    with (
        add_error_context(part.location),
        caller_remedies(_OPEN_REMEDIES),
        name_rows_in_errors(part.parts[0].line_name),
    ):
        yield


@cache
def _exit_with_parent(parent: int) -> None:
    """Exit this worker when its parent is killed; nothing else notifies it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def block_sigint() -> Iterator[None]:
    """Block SIGINT in this process and in its new children; deliver it on exit."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Starting the resource tracker unblocks SIGINT, so start it first.
    resource_tracker.ensure_running()
    original_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, original_mask)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Iterate while a thread fetches the next item.

    Decoding and matrix products both release the GIL, so they overlap.

    Examples
    --------
    >>> list(prefetch([1, 2, 3]))
    [1, 2, 3]
    """
    iterator = iter(items)
    end = cast("Item", object())
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(next, iterator, end)
        while (item := future.result()) is not end:
            future = thread.submit(next, iterator, end)
            yield item
