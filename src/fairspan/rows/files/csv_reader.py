"""Bytes, rows and columns of a CSV file in a known format."""

import codecs
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_lines import RowLines, rows_of_lines
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.files.numbers_as_text import MISSING_TEXTS

# Bytes at the start of a file that show its delimiter and its encoding.
SNIFFED_BYTES = 1 << 16
# Bytes by their numbers, as indexing gives them.
QUOTE, _LINE_END = b'"\n'


def open_csv_reader(
    path: Path,
    form: CsvFormat,
    columns: Sequence[str] = (),
    kinds: Any = None,
    na_values: NaValues = NO_NA_VALUES,
    lines: "CountedLines | None" = None,
) -> Any:
    """pyarrow's reader of some columns of a CSV file, in batches."""
    return csv.open_csv(
        csv_stream(path, form, lines),
        read_options=csv.ReadOptions(
            skip_rows=form.n_skipped,
            column_names=form.names,
            skip_rows_after_names=int(form.header and bool(form.names)),
            autogenerate_column_names=not form.header and not form.names,
        ),
        # Without newlines_in_values a quoted line break fails wherever two blocks meet.
        parse_options=csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns),
            column_types=kinds,
            null_values=[*MISSING_TEXTS, *na_values.everywhere],
            strings_can_be_null=True,
            decimal_point=form.decimal,
        ),
    )


def csv_stream(path: Path, form: CsvFormat, lines: "CountedLines | None" = None) -> Any:
    """The bytes of a file in UTF-8, unpacked and without the lines that are comments."""
    stream = pa.input_stream(str(path), compression="detect")
    if codecs.lookup(form.encoding).name != "utf-8":
        stream = pa.transcoding_input_stream(stream, form.encoding, "utf-8")
    if form.comment is None and lines is None:
        return stream
    return pa.TransformInputStream(stream, lines or CountedLines(form.comment))


class CountedLines:
    """Filter that removes the comments from the bytes of a file, and counts quotes and line ends.

    Attributes
    ----------
    n_quotes, n_line_ends : int
    """

    def __init__(self, comment: str | None) -> None:
        self.n_quotes = 0
        self.n_line_ends = 0
        self._comment = None if comment is None else comment.encode()
        self._rest = b""

    def __call__(self, chunk: Any) -> Any:
        """Return the bytes of a chunk that are passed on, and count them."""
        passed = chunk if self._comment is None else self._without_comments(bytes(chunk))
        found = np.frombuffer(passed, np.uint8)
        self.n_quotes += int(np.count_nonzero(found == QUOTE))
        self.n_line_ends += int(np.count_nonzero(found == _LINE_END))
        return passed

    def _without_comments(self, more: bytes) -> bytes:
        lines = (self._rest + more).splitlines(keepends=True)
        # The last line may continue in the next chunk; an empty chunk is the end.
        self._rest = lines.pop() if more and lines else b""
        kept = b"".join(line for line in lines if not line.startswith(self._comment or b""))
        # No bytes would be taken for the end; a blank line is passed over.
        return kept or (b"\n" if more else b"")


def numbers_of_text(cells: Any, form: CsvFormat, missing: Sequence[str]) -> Any:
    """Return texts as numbers, with null for the texts that stand for missing values.

    Raises
    ------
    NotANumber
    """
    trimmed = compute.utf8_trim_whitespace(cells)
    # The missing ones by their text, which need not be a number in this format.
    texts = pa.array([*MISSING_TEXTS[1:], *missing], pa.string())
    is_missing = compute.is_in(trimmed, value_set=texts)
    present = compute.if_else(is_missing, pa.scalar(None, pa.string()), trimmed)
    return form.style.converted(present)


def line_of_row(path: Path, form: CsvFormat, index: int) -> int | None:
    """Return the line in which a row begins, counted from 1 as editors do.

    Parameters
    ----------
    path : Path
    form : CsvFormat
        With the delimiter.
    index : int
        Number of the row, counted from 0 below the header.
    """
    rows = islice(rows_of_file(path, form), index + form.header, None)
    return next((row.first_line for row in rows), None)


def rows_of_file(path: Path, form: CsvFormat) -> Iterator[RowLines]:
    """Yield where each row of a file stands, the header first."""
    with pa.input_stream(str(path), compression="detect") as stream:
        yield from rows_of_lines(
            stream, form.encoding, form.delimiter or ",", form.comment, form.n_skipped
        )
