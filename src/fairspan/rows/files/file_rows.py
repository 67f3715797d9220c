"""Rows in a file, or a folder of files, that may be larger than memory; their categories.

Parts are read one after the other, or by several processes.
"""

import os
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, islice
from multiprocessing import resource_tracker
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from threadpoolctl import threadpool_limits

from fairspan.errors import (
    Cause,
    FairspanError,
    InvalidInput,
    caller_remedies,
    import_optional,
    warn,
)
from fairspan.formatting.text import quoted_cell
from fairspan.progress import Stage, is_progress_shown
from fairspan.rows.arrays import SingleGroup
from fairspan.rows.columns import (
    MAX_CATEGORIES,
    ColumnSelection,
    RowsInParts,
    StreamAdapter,
    column_name_arguments,
    is_number,
    is_text_type,
    label_type,
)
from fairspan.rows.frames import BLOCKS_PER_SLICE, batch_to_blocks
from fairspan.rows.groups import format_list
from fairspan.rows.protocol import (
    Aggregator,
    OnMissing,
    Result,
    RowBlock,
    add_error_context,
    merge_in_order,
    rows_named,
    rows_per_block,
)
from fairspan.rows.remedies import python_remedies
from fairspan.rows.validation import arrow_vector_lengths

if TYPE_CHECKING:
    from fairspan.rows.files.number_advice import NumberAdvice

# Callers that were passed a path may have an argument of their own.
_OPENING = python_remedies("FileRows.open(..., {})")


@dataclass(frozen=True)
class FileRows(RowsInParts):
    """Rows of CSV, Parquet or Arrow files, read in batches, part by part.

    Attributes
    ----------
    path : Path
    schema : pyarrow.Schema
        Of a CSV, as its first rows suggest.
    parts : tuple of FilePart
    chosen : ColumnSelection
    jobs : int
        Number of processes that read the parts.
    first_position : int
        Rows in the parts before these, where that is known before reading.
    activity : str
        What progress calls it that rows are read.
    stage : Stage or None
        Counts the rows that are read; None for a stage of their own.
    """

    path: Path
    schema: Any
    parts: tuple[Any, ...]
    selection: ColumnSelection
    n_jobs: int = 1
    row_offset: int = 0
    stage_name: str = "reading"
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
        everyone: SingleGroup | None = None,
        csv: Mapping[str, Any] | None = None,
        na_values: Any = None,
    ) -> "FileRows":
        r"""Open a file or folder and choose its columns.

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
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            What to do with rows in which a feature or the group is missing.
        everyone : Everyone, optional
            The label of all rows, in place of group columns.
        csv : mapping, optional
            How CSV files are written: "delimiter", by default the one in the header, "decimal", by
            default ".", "thousands", the separator between groups of three digits (",", ".", "'" or
            " "), "encoding", by default "utf-8", "comment", the beginning of lines that are
            skipped, and "header", which is False where the first line is a row: the columns are
            then named column_1, column_2 and so on.
        na_values : number, str, sequence of these, or mapping of column to these, optional
            Values of cells that stand for missing ones, such as ``[-99, "?"]``, in all columns or
            in those that the mapping names. Numbers are compared as numbers, and text without the
            spaces around it. `on_missing` says what becomes of such rows.

        Raises
        ------
        InvalidInput
            A column or pattern that the file does not have, no feature left, or a file that cannot
            be read.
        InvalidParameter
            A way of writing CSV files that is not known, or values that are no numbers and no text.

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
        import_optional("pyarrow", "arrow", f"Reading {path}")
        from fairspan.rows.files.csv_format import csv_format_from
        from fairspan.rows.files.na_values import NaValues
        from fairspan.rows.files.tables import open_table, pandas_index_columns

        codes = na_values if isinstance(na_values, NaValues) else NaValues.of(na_values)
        form = None if csv is None else csv_format_from(csv)
        schema, parts = open_table(Path(path), form, codes)
        codes.check_columns(schema.names)
        if "" in schema.names and not features:
            warn(
                f"{path}: a column without a name is left out. It is most likely an index that "
                "was written along; give it a name if it is a feature."
            )
        header_is_data = any(part.form and part.form.header_is_data for part in parts)
        try:
            chosen = ColumnSelection.from_patterns(
                schema.names,
                arrow_vector_lengths(schema),
                groups,
                features,
                exclude,
                weight=weight,
                on_missing=on_missing,
                everyone=everyone,
                default_exclude=("", *pandas_index_columns(schema)),
            )
        except InvalidInput as error:
            if not header_is_data:
                raise
            # The names of the columns are somebody's data, which the message would list.
            named = [*groups, *([] if weight is None else [weight]), *features, *exclude]
            raise InvalidInput(
                f"{path} has no column {format_list(named)}, and its first line looks like a row",
                "Allowed: names of columns in the first line, or the names column_1, column_2 and "
                "so on",
                "Add a line of names; or open the file with FileRows.open(path, groups, "
                "csv={'header': False}), and name a group as column_3, for example",
                cause=Cause.CSV_STYLE,
                command="Add a line of names; or add --no-header and name a group as column_3, for "
                "example",
            ) from error
        if header_is_data:
            warn(
                f"{path}: the first line looks like a row, and is taken for the names of the "
                "columns. If they have no names, name them column_1, column_2 and so on with "
                "--no-header (in Python: FileRows.open(..., csv={'header': False}))."
            )
        return cls(Path(path), schema, parts, chosen)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for CSV, where only reading shows this."""
        counts = [part.n_rows for part in self.parts]
        return None if None in counts else sum(counts)

    @property
    def n_partitions(self) -> int:
        """Number of parts: files and their row groups."""
        return len(self.parts)

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python types of the labels in each group column; None where that is not known."""
        return tuple(map(self._label_type, self.selection.group_columns))

    def _label_type(self, column: str) -> type | None:
        if column in self.selection.bins or column in self.selection.missing_labels:
            return str
        if self.parts[0].form is not None:  # labels in a CSV file are text unless also a feature
            return str if column in self.selection.text_columns else None
        return label_type(self.schema.field(column).type)

    @property
    def location(self) -> str:
        """What these rows are called in messages."""
        return str(self.parts[0].location if len(self.parts) == 1 else self.path)

    def aggregate(self, tally: Aggregator[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows."""
        starts = accumulate((part.n_rows or 0 for part in self.parts), initial=0)
        parts = [
            FileRows(self.path, self.schema, (part,), self.selection, row_offset=start)
            for part, start in zip(self.parts, starts, strict=False)
        ]
        total: Result | None = None
        results = self.part_results(tally, parts)
        with closing(results):
            for part, more in zip(parts, results, strict=True):
                with add_error_context(part.location):  # where it does not fit to what came before
                    total = merge_in_order(tally, (total, more))
        return total

    def part_results(
        self, tally: Aggregator[Result], parts: Sequence["FileRows"]
    ) -> Generator[Result | None, None, None]:
        """The tally's result over each of these parts, in their order, with progress.

        The results are the same for any number of processes. Other processes tell only when they
        are done with a part.

        Raises
        ------
        FairspanError
            A process was killed.
        """
        jobs = min(self.n_jobs, len(parts))
        if jobs < 2:
            with self._reading_stage(parts) as stage:
                for part in parts:
                    named = rows_named(part.parts[0].line_name)
                    with add_error_context(part.location), caller_remedies(_OPENING), named:
                        yield tally.aggregate(replace(part, stage=stage))
            return
        results = _results_from_processes(tally, parts, jobs)
        with Stage(self.stage_name, len(parts), "parts") as stage, closing(results):
            for result in results:
                stage.advance()
                yield result

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, here; numbered from 0 in each part."""
        if self.stage is None:
            with self._reading_stage([self]) as stage:
                yield from replace(self, stage=stage).blocks()
            return
        from fairspan.rows.files.tables import explain_read_errors

        chosen = self.selection
        size = BLOCKS_PER_SLICE * rows_per_block(len(chosen.feature_names))
        for part in self.parts:
            named = rows_named(part.line_name)
            opening = caller_remedies(_OPENING)
            advising = _advising_on_numbers(self)
            with (
                add_error_context(part.location),
                opening,
                named,
                advising,
                explain_read_errors(part.path),
            ):
                first_row = 0
                batches = part.batches(
                    self.schema, chosen.required_columns, chosen.text_columns, size
                )
                for batch in prefetch(batches):
                    for block in batch_to_blocks(batch, chosen, first_row):
                        yield block
                        self.stage.advance(len(block.values) + block.n_dropped)
                    first_row += batch.num_rows

    def _reading_stage(self, parts: Sequence["FileRows"]) -> Stage:
        """A stage that counts rows; an estimate of their number if files do not store it."""
        files = replace(self, parts=tuple(file for part in parts for file in part.parts))
        total = files.n_rows
        if total is None and is_progress_shown():
            total = estimate_n_rows([file.path for file in files.parts])
        return Stage(self.stage_name, total, "rows")


# Bytes of a file whose lines are counted, and digits of the estimate: nobody takes it for a count.
_SAMPLE_BYTES, _ESTIMATE_DIGITS = 1 << 16, 2


def estimate_n_rows(paths: Sequence[Path]) -> int | None:
    """About how many rows files of CSV hold, by the first lines of one; None if not known."""
    try:
        with paths[0].open("rb") as file:
            start = file.read(_SAMPLE_BYTES)
        size = sum(path.stat().st_size for path in paths)
    except OSError:  # who reads it will say so
        return None
    n_lines = start.count(b"\n")
    if n_lines < 2 or paths[0].suffix in (".gz", ".zst"):  # long lines, or no lines at all
        return None
    total = size / len(start) * n_lines - len(paths)  # a heading is no row
    return int(round(total, _ESTIMATE_DIGITS - len(str(int(total)))))


class FileAdapter(StreamAdapter):
    """Files and folders of tables, whose groups and weights are columns of them."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return isinstance(X, str | PathLike)

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> FileRows:
        """Rows of a file or folder, whose groups and weights are columns of it."""
        return FileRows.open(
            X,
            on_missing=on_missing,
            **column_name_arguments(sensitive_features, sample_weight, f"the path {str(X)!r}"),
        )


_BATCH_ROWS = 2**16
# In tables of fewer rows, categories are not told from identifiers.
_MIN_ROWS_FOR_CHECK = 20


def non_numeric_features(rows: FileRows) -> tuple[str, ...]:
    """Features that are neither numbers nor encoded: text, or dates."""
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
        and not any(is_kind(rows.schema.field(name).type) for is_kind in numeric)
    )


def drop_features(rows: FileRows, columns: tuple[str, ...]) -> FileRows:
    """The same rows without these features.

    Raises
    ------
    InvalidInput
        No feature is left.
    """
    remaining = tuple(name for name in rows.selection.features if name not in columns)
    if not remaining:
        raise InvalidInput(
            f"No column of {rows.location} holds numbers",
            "Allowed: at least one feature",
            "Encode text with --one-hot, or name another table",
        )
    return replace(rows, selection=replace(rows.selection, features=remaining))


def one_hot_encode_text(rows: FileRows) -> FileRows:
    """The same rows with an indicator for each category of each column of text, from one pass.

    Raises
    ------
    InvalidInput
        A column whose texts are too many, or too different, for categories.
    """
    from pyarrow import compute

    columns = tuple(
        name for name in rows.selection.features if is_text_type(rows.schema.field(name).type)
    )
    found: dict[str, dict[str, None]] = {name: {} for name in columns}
    n_rows = 0
    for table in _read_tables(rows, columns) if columns else ():
        n_rows += len(table)
        for name in columns:
            texts = compute.unique(table[name].cast("string").drop_null())
            found[name].update(dict.fromkeys(texts.to_pylist()))
            if len(found[name]) > MAX_CATEGORIES:
                raise _identifier_error(
                    name, f"more than {MAX_CATEGORIES:,} different texts", found
                )
    for name in columns:
        if n_rows >= _MIN_ROWS_FOR_CHECK and 2 * len(found[name]) > n_rows:
            raise _identifier_error(
                name, f"{len(found[name]):,} different texts in {n_rows:,} rows", found
            )
    categories = {name: tuple(sorted(texts)) for name, texts in found.items() if texts}
    rows = drop_features(rows, tuple(name for name, texts in found.items() if not texts))
    return replace(rows, selection=replace(rows.selection, categories=categories))


def _identifier_error(name: str, many: str, found: Mapping[str, Iterable[str]]) -> InvalidInput:
    # One cell is enough to recognize the column, and texts may be names of people.
    return InvalidInput(
        f"The column {name!r} holds {many}, such as {quoted_cell(next(iter(found[name])))}",
        "Allowed: columns of categories, each of them of several rows",
        "Leave it out with --exclude: it looks like a name or an identifier",
    )


def _read_tables(rows: FileRows, columns: tuple[str, ...]) -> Iterator[Any]:
    """These columns of all rows, in pyarrow Tables."""
    import pyarrow as pa

    for part in rows.parts:
        with add_error_context(part.location):
            for batch in part.batches(
                rows.schema, columns, rows.selection.text_columns, _BATCH_ROWS
            ):
                yield pa.Table.from_batches([batch])


def first_non_numeric_text(rows: FileRows, column: str) -> tuple[str, str | None]:
    """Return where the first text of a column is that is no number, in words, and the text.

    The text is None where all of them are numbers.
    """
    from fairspan.rows.files.numbers_as_text import NumberStyle

    for part in rows.parts:
        style = NumberStyle() if part.form is None else part.form.style
        index = 0
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, (column,), (column,), _BATCH_ROWS):
                for text in batch.column(0).cast("string").to_pylist():
                    # Arrow trims blanks and tabs alone.
                    is_bare = text is None or text.strip() == text.strip(" \t")
                    if text is not None and not (is_bare and style.is_number(text)):
                        where = part.line_name(index) or f"row {index + 1}"
                        return where if len(rows.parts) == 1 else f"{where} of {part.path}", text
                    index += 1
    return "", None


def text_batches(rows: FileRows, columns: Sequence[str]) -> Iterator[Any]:
    """Read columns as text, in pyarrow RecordBatches."""
    for part in rows.parts:
        with add_error_context(part.location):
            for batch in part.batches(rows.schema, columns, columns, _BATCH_ROWS):
                arrays = [each.cast("string") for each in batch.columns]
                yield batch.from_arrays(arrays, names=list(columns))


def advice_on_numbers(rows: FileRows, columns: Sequence[str]) -> dict[str, "NumberAdvice"]:
    """Return what makes columns of text numbers, for those of CSV files that were meant as such.

    Parameters
    ----------
    rows : FileRows
    columns : sequence of str
    """
    form = rows.parts[0].form
    texts = [name for name in columns if is_text_type(rows.schema.field(name).type)]
    if form is None or not texts:
        return {}
    from fairspan.rows.files.number_advice import columns_of_numbers, number_advice

    missing = {name: rows.parts[0].na_values.of_column(name) for name in rows.schema.names}
    found = columns_of_numbers(text_batches(rows, texts), missing)
    if not any(column.holds_numbers for column in found.values()):
        return {}
    # What is said of one column must suit the others, too.
    others = [
        name
        for name in rows.selection.features
        if name not in texts and is_number(rows.schema.field(name).type)
    ]
    if others:
        found |= columns_of_numbers(text_batches(rows, others), missing)
    advice = {name: number_advice(found, name, form.style, form.delimiter) for name in texts}
    return {name: each for name, each in advice.items() if each is not None}


@contextmanager
def _advising_on_numbers(rows: FileRows) -> Iterator[None]:
    """Say in errors about columns of text what makes these numbers, if anything does."""
    try:
        yield
    except InvalidInput as error:
        if error.cause is Cause.TEXT_COLUMN:
            advice = advice_on_numbers(rows, non_numeric_features(rows))
            for each in islice(advice.values(), 1):
                error.args = (*error.args[:2], each.call)
                error.cause = Cause.CSV_STYLE
                error.details = {"command": each.command}
        raise


Item = TypeVar("Item")

# Parts that are handed to each process in advance, so that none of them waits. No more than wait in
# the pool's own queue, or it complains of those that are cancelled when it is interrupted.
_PREFETCHED_PARTS = 2
_POLL_SECONDS = 0.5


def _results_from_processes(
    tally: Aggregator[Result], parts: Sequence[FileRows], jobs: int
) -> Generator[Result | None, None, None]:
    from joblib import Parallel, delayed

    workers = Parallel(
        n_jobs=jobs,
        return_as="generator",
        pre_dispatch=_PREFETCHED_PARTS * jobs,
        batch_size=1,
        max_nbytes=None,
    )
    try:
        # Workers inherit this. They end with this process, and print no traceback of Ctrl-C.
        with block_sigint():
            results = workers(
                delayed(_result_in_worker)(tally, part, os.getpid()) for part in parts
            )
        try:
            # No `yield from`, which would let joblib warn of results that nobody takes.
            for result in results:  # noqa: UP028
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()
    except BrokenProcessPool as error:
        raise FairspanError(
            f"One of the {jobs} processes that read files was killed, most likely because memory "
            "ran out",
            "Allowed: as many processes as fit into memory, each with a partial result and some "
            "batches of rows",
            "Use fewer jobs",
        ) from error


def _result_in_worker(tally: Aggregator[Result], part: FileRows, parent: int) -> Result | None:
    _exit_with_parent(parent)
    # Linear algebra that starts a thread for each core in each of several workers is many times
    # slower.
    named = rows_named(part.parts[0].line_name)
    opening = caller_remedies(_OPENING)
    with threadpool_limits(1), add_error_context(part.location), opening, named:
        return tally.aggregate(part)


@cache
def _exit_with_parent(parent: int) -> None:
    """End this worker once the process that started it was killed, which nothing else says."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def block_sigint() -> Iterator[None]:
    """Block SIGINT here and in processes started meanwhile; deliver it here on exit."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # It lets SIGINT through when it starts, which it does before the first worker.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, of which another thread fetches the next one in the meantime.

    Decoding a file and multiplying matrices both leave Python's lock to others, so that they share
    two cores well.

    Examples
    --------
    >>> list(prefetch([1, 2, 3]))
    [1, 2, 3]
    """
    source, end = iter(items), cast("Item", object())
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(next, source, end)
        while (item := fetched.result()) is not end:
            fetched = thread.submit(next, source, end)
            yield item
