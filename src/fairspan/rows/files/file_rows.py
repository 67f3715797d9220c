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

from fairspan.errors import Cause, FairspanError, InvalidInput, caller_remedies, imported, warn
from fairspan.formatting.text import quoted_cell
from fairspan.progress import Stage, is_shown
from fairspan.rows.arrays import Everyone
from fairspan.rows.checks import vector_lengths_of
from fairspan.rows.columns import (
    MOST_CATEGORIES,
    ChosenColumns,
    ReadInBatches,
    RowsInParts,
    is_number,
    is_text,
    label_type,
    named_columns_only,
)
from fairspan.rows.frames import BLOCKS_AT_A_TIME, blocks_of_batch
from fairspan.rows.groups import listed
from fairspan.rows.protocol import (
    OnMissing,
    Result,
    RowBlock,
    Tally,
    block_rows,
    error_context,
    merged_in_order,
    rows_named,
)
from fairspan.rows.remedies import python_remedies

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

    path: Path
    schema: Any
    parts: tuple[Any, ...]
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
        everyone: Everyone | None = None,
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
        imported("pyarrow", "arrow", f"Reading {path}")
        from fairspan.rows.files.csv_format import format_of
        from fairspan.rows.files.na_values import NaValues
        from fairspan.rows.files.tables import index_columns, open_table

        codes = na_values if isinstance(na_values, NaValues) else NaValues.of(na_values)
        form = None if csv is None else format_of(csv)
        schema, parts = open_table(Path(path), form, codes)
        codes.check_columns(schema.names)
        if "" in schema.names and not features:
            warn(
                f"{path}: a column without a name is left out. It is most likely an index that "
                "was written along; give it a name if it is a feature."
            )
        header_is_data = any(part.form and part.form.header_is_data for part in parts)
        try:
            chosen = ChosenColumns.of(
                schema.names,
                vector_lengths_of(schema),
                groups,
                features,
                exclude,
                weight=weight,
                on_missing=on_missing,
                everyone=everyone,
                no_features=("", *index_columns(schema)),
            )
        except InvalidInput as error:
            if not header_is_data:
                raise
            # The names of the columns are somebody's data, which the message would list.
            named = [*groups, *([] if weight is None else [weight]), *features, *exclude]
            raise InvalidInput(
                f"{path} has no column {listed(named)}, and its first line looks like a row",
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
    def n_parts(self) -> int:
        """Number of parts: files and their row groups."""
        return len(self.parts)

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python types of the labels in each group column; None where that is not known."""
        return tuple(map(self._label_type, self.chosen.groups))

    def _label_type(self, column: str) -> type | None:
        if column in self.chosen.bins or column in self.chosen.unknown:
            return str
        if self.parts[0].form is not None:  # labels in a CSV file are text unless also a feature
            return str if column in self.chosen.labels else None
        return label_type(self.schema.field(column).type)

    @property
    def where(self) -> str:
        """What these rows are called in messages."""
        return str(self.parts[0].where if len(self.parts) == 1 else self.path)

    def tallied(self, tally: Tally[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows."""
        starts = accumulate((part.n_rows or 0 for part in self.parts), initial=0)
        parts = [
            FileRows(self.path, self.schema, (part,), self.chosen, first_position=start)
            for part, start in zip(self.parts, starts, strict=False)
        ]
        total: Result | None = None
        results = self.results(tally, parts)
        with closing(results):
            for part, more in zip(parts, results, strict=True):
                with error_context(part.where):  # where it does not fit to what came before
                    total = merged_in_order(tally, (total, more))
        return total

    def results(
        self, tally: Tally[Result], parts: Sequence["FileRows"]
    ) -> Generator[Result | None, None, None]:
        """The tally's result over each of these parts, in their order, with progress.

        The results are the same for any number of processes. Other processes tell only when they
        are done with a part.

        Raises
        ------
        FairspanError
            A process was killed.
        """
        jobs = min(self.jobs, len(parts))
        if jobs < 2:
            with self._begun(parts) as stage:
                for part in parts:
                    named = rows_named(part.parts[0].line_name)
                    with error_context(part.where), caller_remedies(_OPENING), named:
                        yield tally.over(replace(part, stage=stage))
            return
        results = _results_of_processes(tally, parts, jobs)
        with Stage(self.activity, len(parts), "parts") as stage, closing(results):
            for result in results:
                stage.add()
                yield result

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, here; numbered from 0 in each part."""
        if self.stage is None:
            with self._begun([self]) as stage:
                yield from replace(self, stage=stage).blocks()
            return
        from fairspan.rows.files.tables import reading

        chosen = self.chosen
        size = BLOCKS_AT_A_TIME * block_rows(len(chosen.feature_names))
        for part in self.parts:
            named = rows_named(part.line_name)
            opening = caller_remedies(_OPENING)
            advising = _advising_on_numbers(self)
            with error_context(part.where), opening, named, advising, reading(part.path):
                first_row = 0
                batches = part.batches(self.schema, chosen.read, chosen.labels, size)
                for batch in prefetch(batches):
                    for block in blocks_of_batch(batch, chosen, first_row):
                        yield block
                        self.stage.add(len(block.values) + block.n_dropped)
                    first_row += batch.num_rows

    def _begun(self, parts: Sequence["FileRows"]) -> Stage:
        """A stage that counts rows; an estimate of their number if files do not store it."""
        files = replace(self, parts=tuple(file for part in parts for file in part.parts))
        total = files.n_rows
        if total is None and is_shown():
            total = estimated_rows([file.path for file in files.parts])
        return Stage(self.activity, total, "rows")


# Bytes of a file whose lines are counted, and digits of the estimate: nobody takes it for a count.
_START_BYTES, _DIGITS = 1 << 16, 2


def estimated_rows(paths: Sequence[Path]) -> int | None:
    """About how many rows files of CSV hold, by the first lines of one; None if not known."""
    try:
        with paths[0].open("rb") as file:
            start = file.read(_START_BYTES)
        size = sum(path.stat().st_size for path in paths)
    except OSError:  # who reads it will say so
        return None
    n_lines = start.count(b"\n")
    if n_lines < 2 or paths[0].suffix in (".gz", ".zst"):  # long lines, or no lines at all
        return None
    total = size / len(start) * n_lines - len(paths)  # a heading is no row
    return int(round(total, _DIGITS - len(str(int(total)))))


class Files(ReadInBatches):
    """Files and folders of tables, whose groups and weights are columns of them."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return isinstance(X, str | PathLike)

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> FileRows:
        """Rows of a file or folder, whose groups and weights are columns of it."""
        return FileRows.open(
            X,
            on_missing=on_missing,
            **named_columns_only(sensitive_features, sample_weight, f"the path {str(X)!r}"),
        )


_BATCH = 2**16
# In tables of fewer rows, categories are not told from identifiers.
_FEWEST_ROWS = 20


def not_numeric(rows: FileRows) -> tuple[str, ...]:
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
        for name in rows.chosen.features
        if name not in rows.chosen.categories
        and not any(is_kind(rows.schema.field(name).type) for is_kind in numeric)
    )


def without_features(rows: FileRows, columns: tuple[str, ...]) -> FileRows:
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


def encode_text(rows: FileRows) -> FileRows:
    """The same rows with an indicator for each category of each column of text, from one pass.

    Raises
    ------
    InvalidInput
        A column whose texts are too many, or too different, for categories.
    """
    from pyarrow import compute

    columns = tuple(name for name in rows.chosen.features if is_text(rows.schema.field(name).type))
    found: dict[str, dict[str, None]] = {name: {} for name in columns}
    n_rows = 0
    for table in _tables(rows, columns) if columns else ():
        n_rows += len(table)
        for name in columns:
            texts = compute.unique(table[name].cast("string").drop_null())
            found[name].update(dict.fromkeys(texts.to_pylist()))
            if len(found[name]) > MOST_CATEGORIES:
                raise _identifiers(name, f"more than {MOST_CATEGORIES:,} different texts", found)
    for name in columns:
        if n_rows >= _FEWEST_ROWS and 2 * len(found[name]) > n_rows:
            raise _identifiers(
                name, f"{len(found[name]):,} different texts in {n_rows:,} rows", found
            )
    categories = {name: tuple(sorted(texts)) for name, texts in found.items() if texts}
    rows = without_features(rows, tuple(name for name, texts in found.items() if not texts))
    return replace(rows, chosen=replace(rows.chosen, categories=categories))


def _identifiers(name: str, many: str, found: Mapping[str, Iterable[str]]) -> InvalidInput:
    # One cell is enough to recognize the column, and texts may be names of people.
    return InvalidInput(
        f"The column {name!r} holds {many}, such as {quoted_cell(next(iter(found[name])))}",
        "Allowed: columns of categories, each of them of several rows",
        "Leave it out with --exclude: it looks like a name or an identifier",
    )


def _tables(rows: FileRows, columns: tuple[str, ...]) -> Iterator[Any]:
    """These columns of all rows, in pyarrow Tables."""
    import pyarrow as pa

    for part in rows.parts:
        with error_context(part.where):
            for batch in part.batches(rows.schema, columns, rows.chosen.labels, _BATCH):
                yield pa.Table.from_batches([batch])


def first_text(rows: FileRows, column: str) -> tuple[str, str | None]:
    """Return where the first text of a column is that is no number, in words, and the text.

    The text is None where all of them are numbers.
    """
    from fairspan.rows.files.numbers_as_text import NumberStyle

    for part in rows.parts:
        style = NumberStyle() if part.form is None else part.form.style
        index = 0
        with error_context(part.where):
            for batch in part.batches(rows.schema, (column,), (column,), _BATCH):
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
        with error_context(part.where):
            for batch in part.batches(rows.schema, columns, columns, _BATCH):
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
    texts = [name for name in columns if is_text(rows.schema.field(name).type)]
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
        for name in rows.chosen.features
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
            advice = advice_on_numbers(rows, not_numeric(rows))
            for each in islice(advice.values(), 1):
                error.args = (*error.args[:2], each.call)
                error.cause = Cause.CSV_STYLE
                error.details = {"command": each.command}
        raise


Item = TypeVar("Item")

# Parts that are handed to each process in advance, so that none of them waits. No more than wait in
# the pool's own queue, or it complains of those that are cancelled when it is interrupted.
_PARTS_IN_ADVANCE = 2
_SECONDS_BETWEEN_LOOKS = 0.5


def _results_of_processes(
    tally: Tally[Result], parts: Sequence[FileRows], jobs: int
) -> Generator[Result | None, None, None]:
    from joblib import Parallel, delayed

    workers = Parallel(
        n_jobs=jobs,
        return_as="generator",
        pre_dispatch=_PARTS_IN_ADVANCE * jobs,
        batch_size=1,
        max_nbytes=None,
    )
    try:
        # Workers inherit this. They end with this process, and print no traceback of Ctrl-C.
        with sigint_blocked():
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


def _result_in_worker(tally: Tally[Result], part: FileRows, parent: int) -> Result | None:
    _end_with(parent)
    # Linear algebra that starts a thread for each core in each of several workers is many times
    # slower.
    named = rows_named(part.parts[0].line_name)
    opening = caller_remedies(_OPENING)
    with threadpool_limits(1), error_context(part.where), opening, named:
        return tally.over(part)


@cache
def _end_with(parent: int) -> None:
    """End this worker once the process that started it was killed, which nothing else says."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def sigint_blocked() -> Iterator[None]:
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
