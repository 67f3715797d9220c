"""Rows of a file or a folder of files, possibly larger than memory.

Parts are read sequentially or by several processes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fairspan.errors import Cause, InvalidInput, caller_remedies, import_optional, warn
from fairspan.progress import Stage, is_progress_shown
from fairspan.rows.aggregation import Aggregator, Result, merge_in_order
from fairspan.rows.blocks import OnMissing, RowBlock, rows_per_block
from fairspan.rows.column_selection import (
    ColumnRoles,
    ColumnSelection,
    PartitionedColumnRows,
    StreamAdapter,
    column_roles,
    python_label_type,
)
from fairspan.rows.conversion import arrow_vector_lengths
from fairspan.rows.error_context import add_error_context, name_rows_in_errors
from fairspan.rows.files.batch_cache import BatchCache
from fairspan.rows.files.batch_request import BatchRequest
from fairspan.rows.files.parallel import prefetch, results_from_processes
from fairspan.rows.files.part_errors import OPEN_REMEDIES, advise_on_numbers, explain_part_errors
from fairspan.rows.files.row_estimate import estimate_n_rows
from fairspan.rows.frames import BLOCKS_PER_SLICE, batch_to_blocks
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.typing import TableLike

if TYPE_CHECKING:
    import pyarrow as pa

    from fairspan.rows.files.na_values import NaValues, NaValuesLike
    from fairspan.rows.files.table_files import FilePart


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
        # If the header, the first line, looks like a row, errors and warnings say so.
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
            _warn_of_row_as_header(path)
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
        results = results_from_processes(aggregator, parts, n_jobs)
        with Stage(self.stage_name, len(parts), "parts") as stage, closing(results):
            for result in results:
                stage.advance()
                yield result

    def _read_sequentially(
        self, aggregator: Aggregator[Result], parts: Sequence[FileRows]
    ) -> Iterator[Result | None]:
        with self._reading_stage(parts) as stage:
            for part in parts:
                with explain_part_errors(part):
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
                caller_remedies(OPEN_REMEDIES),
                name_rows_in_errors(part.line_name),
                advise_on_numbers(self),
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
        # Batches in memory must have these columns.
        request = BatchRequest.from_columns(
            self.selection.required_columns, self.selection.text_columns
        )
        cached = self.cache.find(part, request)
        if cached is not None:
            return iter(cached)
        batches = prefetch(part.batches(self.schema, request, size))
        return self.cache.fill(part, request, batches)

    def _reading_stage(self, parts: Sequence[FileRows]) -> Stage:
        """Progress stage that counts rows; the total is estimated if files do not store it."""
        files = replace(self, parts=tuple(file for part in parts for file in part.parts))
        total = files.n_rows
        if total is None and is_progress_shown():
            total = estimate_n_rows([file.path for file in files.parts])
        return Stage(self.stage_name, total, "rows")


def _warn_of_row_as_header(path: str | Path) -> None:
    """Warn that the header of a file looks like a row."""
    warn(
        f"{path}: the first line looks like a row, but is used as the header.",
        "If there is no header, name the columns column_1, column_2 and so on with "
        "FileRows.open(..., csv={'header': False}).",
        Cause.CSV_COLUMNS_OF_A_ROW,
    )


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


class FileAdapter(StreamAdapter):
    """Adapter for paths of files and folders."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a path."""
        return isinstance(X, str | PathLike)

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> FileRows:
        """Open the rows of a file or folder."""
        roles = column_roles(metadata, f"the path {str(X)!r}")
        return FileRows.open_with_roles(cast("str | Path", X), roles, on_missing=on_missing)
