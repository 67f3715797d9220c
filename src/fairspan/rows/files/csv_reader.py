"""Readers of the bytes, rows and columns of a CSV file in a known format."""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from fairspan.rows.files.compression import LineSkipper, open_decompressed
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_lines import RowLines, iterate_row_lines
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.files.numbers_as_text import MISSING_TEXTS

# Leading bytes of a file from which its delimiter and encoding are detected.
SNIFF_BYTES = 1 << 16
# Bytes that suffice for the first batch: four blocks of Arrow's CSV reader, of which it yields the
# first once it has the second.
_BEGINNING_BYTES = 1 << 22
QUOTE = ord('"')
_LINE_END = ord("\n")


def open_csv_reader(
    path: Path,
    csv_format: CsvFormat,
    columns: Sequence[str] = (),
    column_types: Mapping[str, pa.DataType] | None = None,
    na_values: NaValues = NO_NA_VALUES,
    line_counter: "LineCounter | None" = None,
    *,
    only_beginning: bool = False,
) -> csv.CSVStreamingReader:
    """Open a pyarrow streaming reader for columns of a CSV file.

    Parameters
    ----------
    path : Path
    csv_format : CsvFormat
        Format with its delimiter.
    columns : sequence of str
        Columns to read; all if empty.
    column_types : mapping of column to pyarrow type, optional
        Types of columns; other types are inferred from the first block.
    na_values : NaValues
        Those of all columns are read as null; those of single columns are left to the caller.
    line_counter : LineCounter, optional
        Counts quotes and line ends as the file is read.
    only_beginning : bool
        Whether only the schema and the first batch are needed. A reader would otherwise read up to
        32 blocks ahead. It then ends after four blocks, possibly within a row.
    """
    stream = open_utf8_stream(path, csv_format, line_counter)
    if only_beginning:
        with stream:
            stream = pa.BufferReader(stream.read(_BEGINNING_BYTES))
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(
            skip_rows=csv_format.n_skipped,
            column_names=csv_format.names,
            # Names of the format replace the header, which is then skipped like a row.
            skip_rows_after_names=int(csv_format.header and bool(csv_format.names)),
            autogenerate_column_names=not csv_format.header and not csv_format.names,
        ),
        # newlines_in_values: otherwise a quoted line break fails at block boundaries.
        parse_options=csv.ParseOptions(delimiter=csv_format.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns),
            column_types=column_types,
            null_values=[*MISSING_TEXTS, *na_values.everywhere],
            strings_can_be_null=True,
            decimal_point=csv_format.decimal,
        ),
    )


def open_utf8_stream(
    path: Path, csv_format: CsvFormat, line_counter: "LineCounter | None" = None
) -> pa.NativeFile:
    """Open a file as a decompressed UTF-8 stream, without skipped lines and comments.

    The remaining lines are counted by `line_counter`.
    """
    stream = open_decompressed(path)
    if codecs.lookup(csv_format.encoding).name != "utf-8":
        stream = pa.transcoding_input_stream(stream, csv_format.encoding, "utf-8")
    if csv_format.skip_rows:
        stream = pa.TransformInputStream(stream, LineSkipper(csv_format.skip_rows))
    if csv_format.comment is None and line_counter is None:
        return stream
    return pa.TransformInputStream(stream, line_counter or LineCounter(csv_format.comment))


class LineCounter:
    """Stream filter that removes comment lines, and counts quotes and line ends.

    Attributes
    ----------
    n_quotes, n_line_ends : int
    """

    def __init__(self, comment: str | None) -> None:
        self.n_quotes = 0
        self.n_line_ends = 0
        self._comment = None if comment is None else comment.encode()
        self._partial_line = b""

    def __call__(self, chunk: pa.Buffer) -> pa.Buffer | bytes:
        """Return a chunk without comments, and count its quotes and line ends."""
        filtered = chunk if self._comment is None else self._remove_comments(bytes(chunk))
        content = np.frombuffer(filtered, np.uint8)
        self.n_quotes += int(np.count_nonzero(content == QUOTE))
        self.n_line_ends += int(np.count_nonzero(content == _LINE_END))
        return filtered

    def _remove_comments(self, chunk: bytes) -> bytes:
        lines = (self._partial_line + chunk).splitlines(keepends=True)
        # The last line may continue in the next chunk; an empty chunk marks the end.
        self._partial_line = lines.pop() if chunk and lines else b""
        filtered = b"".join(line for line in lines if not line.startswith(self._comment or b""))
        # Empty output would signal the end of the stream; blank lines are skipped.
        if not filtered and chunk:
            return b"\n"
        return filtered


def parse_numbers(
    cells: pa.StringArray, csv_format: CsvFormat, missing: Sequence[str]
) -> pa.DoubleArray:
    """Parse texts as numbers, with null for codes of missing values.

    `missing` are the codes in addition to `MISSING_TEXTS`.

    Raises
    ------
    NotANumber
        A text is neither a code nor a number in the style of this format.
    """
    trimmed = compute.utf8_trim_whitespace(cells)
    # Codes are compared as text, since they need not be numbers in this format. The first of them,
    # the empty text, is left out: empty cells are null already, and a blank cell is not a number.
    codes = pa.array([*MISSING_TEXTS[1:], *missing], pa.string())
    is_missing = compute.is_in(trimmed, value_set=codes)
    present = compute.if_else(is_missing, pa.scalar(None, pa.string()), trimmed)
    return csv_format.style.parse(present)


def line_of_row(path: Path, csv_format: CsvFormat, index: int) -> int | None:
    """Return the line in which a row begins, counted from 1 as in editors; None without that row.

    Parameters
    ----------
    path : Path
    csv_format : CsvFormat
        Format with its delimiter.
    index : int
        Index of the row, counted from 0 below the header.
    """
    rows = islice(iterate_rows(path, csv_format), index + csv_format.header, None)
    return next((row.first_line for row in rows), None)


def iterate_rows(path: Path, csv_format: CsvFormat) -> Iterator[RowLines]:
    """Yield the lines of each row of a file, the header first."""
    with open_decompressed(path) as stream:
        yield from iterate_row_lines(
            stream,
            csv_format.encoding,
            csv_format.delimiter or ",",
            csv_format.comment,
            csv_format.skip_rows + csv_format.n_skipped,
        )
