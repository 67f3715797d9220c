"""Parts of files that are read at once: a row group of a Parquet file, or another file as a whole.

A part is a plain value that can be sent to another process. How a CSV file is written, and where it
cannot be read, is told here too.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.rows.checks import first_no_number, numbers_of, warn_of_rounding
from fairspan.typing import FloatArray

Constants = tuple[tuple[str, str | int | None], ...]


@dataclass(frozen=True)
class FilePart(ABC):
    """What is read at once and counted as one.

    Attributes
    ----------
    path : Path
        The file.
    constants : tuple of (column, value)
        Columns that the file's place in a folder implies.
    n_rows : int or None
        Number of rows, if it is known before reading.
    """

    path: Path
    constants: Constants
    n_rows: int | None = None

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return str(self.path)

    @property
    def choices(self) -> list[str]:
        """How the file is read, where it does not say that itself."""
        return []

    def batches(self, columns: Sequence[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of these columns, of about `size` rows where the format allows.

        Columns in `labels` stay text if the file has no types.
        """
        import pyarrow as pa

        known = dict(self.constants)
        stored = [name for name in columns if name not in known]
        with reading(self.path):
            for batch in self._stored(stored, labels, size):
                arrays = [
                    pa.repeat(pa.scalar(known[name]), batch.num_rows)
                    if name in known
                    else batch.column(name)
                    for name in columns
                ]
                yield pa.record_batch(arrays, names=list(columns))

    @abstractmethod
    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of columns that are in the file."""


@dataclass(frozen=True)
class RowGroup(FilePart):
    """A row group of a Parquet file, counted from 0."""

    number: int = 0

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return f"{self.path}, row group {self.number}"

    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        from pyarrow import parquet

        # Buffered ahead, row groups stay in memory until the whole file has been read. One thread:
        # the next batch is read while the one before is worked on.
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            yield from file.iter_batches(size, [self.number], columns=columns, use_threads=False)


@dataclass(frozen=True)
class ArrowPart(FilePart):
    """A whole Arrow file, whose batches stay as they are in the file."""

    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index).select(columns)
                # Arrow trusts the file, and a damaged one would end the process.
                batch.validate(full=True)
                yield batch


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into InvalidInput that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({' '.join(str(error).split())})",
            "Allowed: complete CSV, Parquet and Arrow files of equally long rows",
            "Check the file; a damaged one must be made again",
        ) from error


_DELIMITERS = ",;\t|"
# That a column of whole numbers may hold.
_LARGEST_INTEGER = 2.0**64
_SNIFFED = 1 << 16
# What pyarrow says of a cell that is no number, or no text, and of rows of another length.
_OF_A_COLUMN = re.compile(r"In CSV column #(\d+)")
_OF_A_ROW = re.compile(r"Expected (\d+) columns, got (\d+)")
_ALLOWED = "Allowed: complete CSV files of equally long rows"
_OPTIONS = "--delimiter, --decimal, --encoding, --comment; in Python, csv="


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written.

    Parameters
    ----------
    delimiter : str, optional
        The letter between cells; without it, the one that the header shows.
    decimal : {".", ","}
        The letter before the fraction of a number.
    encoding : str
        The name of the encoding, as Python knows it.
    comment : str, optional
        What lines begin with that are passed over.

    Raises
    ------
    InvalidParameter

    Examples
    --------
    >>> CsvFormat(decimal=",", encoding="latin-1").delimiter is None
    True
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    comment: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and not (
            self.delimiter.isascii() and len(self.delimiter) == 1
        ):
            raise InvalidParameter(
                f"delimiter is {self.delimiter!r}", "Allowed: one ASCII letter", "Name one"
            )
        if self.decimal not in (".", ",") or self.decimal == self.delimiter:
            raise InvalidParameter(
                f"decimal is {self.decimal!r} and delimiter {self.delimiter!r}",
                "Allowed: '.' or ',', other than the delimiter",
                "Leave decimal out, or name the delimiter, such as ';'",
            )
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidParameter(
                f"encoding is {self.encoding!r}",
                "Allowed: the encodings that Python knows, such as 'latin-1' or 'utf-16'",
                "Correct the name",
            ) from error
        if self.comment == "":
            raise InvalidParameter("comment is ''", "Allowed: a text", "Use '#', for example")


def format_of(said: Mapping[str, str]) -> CsvFormat:
    """The format of these choices, by their names.

    Raises
    ------
    InvalidParameter
    """
    names = [each.name for each in fields(CsvFormat)]
    unknown = [name for name in said if name not in names]
    if unknown:
        raise InvalidParameter(
            f"csv has the entry {unknown[0]!r}",
            f"Allowed: {', '.join(map(repr, names))}",
            "Choose one of these",
        )
    return CsvFormat(**said)


@dataclass(frozen=True)
class CsvPart(FilePart):
    """A whole CSV file, since only reading shows where a row begins.

    Attributes
    ----------
    form : CsvFormat
        With the delimiter.
    number_like : frozenset of str
        Columns that hold numbers, or nothing, in the first rows.
    whole : frozenset of str
        Those of them that hold whole numbers there.
    """

    form: CsvFormat = CsvFormat(",")
    number_like: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()

    @property
    def choices(self) -> list[str]:
        """How the file is written."""
        return [str(getattr(self.form, each.name)) for each in fields(self.form)]

    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa

        # The first block may show only whole numbers, or nothing, where fractions follow. Labels
        # are text, as a CSV has no types: "01" and "1" must not become one group.
        types = dict.fromkeys(self.number_like.intersection(columns), pa.float64())
        types |= dict.fromkeys(set(labels).intersection(columns), pa.string())
        try:
            with opened_csv(self.path, self.form, columns, types) as reader:
                for batch in reader:
                    warn_of_rounding(dict(self._whole_columns(batch, columns, labels)))
                    yield batch
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise unreadable(self.path, self.form, error, columns) from error

    def _whole_columns(
        self, batch: Any, columns: list[str], labels: Sequence[str]
    ) -> Iterator[tuple[str, FloatArray]]:
        """Columns of whole numbers that an integer may hold; later rows may have larger ones."""
        for name in self.whole.intersection(columns).difference(labels):
            values = numbers_of(batch[name])
            if np.fmax.reduce(np.abs(values), initial=0) <= _LARGEST_INTEGER:
                yield name, values


def open_csv(path: Path, form: CsvFormat) -> tuple[Any, tuple[FilePart, ...]]:
    """Schema of a CSV file, as its first rows suggest, and its part.

    Raises
    ------
    InvalidInput
        An empty file, or one that cannot be read in this format.
    """
    import pyarrow as pa

    try:
        with _stream(path, form) as stream:
            start = stream.read(_SNIFFED)
        if not start.strip():
            raise InvalidInput(
                f"{path} is empty",
                "Allowed: a header line and at least one row",
                "Check the file",
            )
        form = replace(form, delimiter=form.delimiter or _delimiter_of(path, start))
        with opened_csv(path, form) as reader:
            schema = reader.schema
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise unreadable(path, form, error) from error
    whole = frozenset(field.name for field in schema if pa.types.is_integer(field.type))
    numbers = whole | {
        field.name
        for field in schema
        if pa.types.is_null(field.type) or pa.types.is_floating(field.type)
    }
    return schema, (CsvPart(path, (), None, form, numbers, whole),)


def opened_csv(path: Path, form: CsvFormat, columns: Sequence[str] = (), types: Any = None) -> Any:
    """pyarrow's reader of some columns of a CSV file, in batches."""
    from pyarrow import csv

    return csv.open_csv(
        _stream(path, form),
        # Without newlines_in_values a quoted line break fails wherever two blocks meet.
        parse_options=csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns),
            column_types=types,
            strings_can_be_null=True,
            decimal_point=form.decimal,
        ),
    )


def unreadable(
    path: Path, form: CsvFormat, error: Exception, columns: Sequence[str] = ()
) -> InvalidInput:
    """What to raise where a file cannot be read: with row and column, and what helps.

    Parameters
    ----------
    path : Path
    form : CsvFormat
    error : Exception
        Of pyarrow or a codec.
    columns : sequence of str
        Those that were read, in this order.
    """
    told = " ".join(str(error).split())
    if isinstance(error, UnicodeError) or "invalid UTF8" in told:
        return InvalidInput(
            f"{path} is not written in {form.encoding}{_place_of_bytes(path, form)}",
            "Allowed: any encoding that Python knows, if it is named",
            f"Name it: --encoding {_likely_encoding(path)} (in Python: csv={{'encoding': ...}})",
        )
    if found := _OF_A_ROW.search(told):
        wanted, got = map(int, found.groups())
        line = told[found.end() :].removeprefix(":").strip()
        return InvalidInput(
            f"{path} has a row of {got} cells below a header of {wanted}: {line!r}",
            _ALLOWED,
            f"Correct the row, or say how the file is written ({_OPTIONS})",
        )
    found = _OF_A_COLUMN.search(told)
    if found and columns:
        name = columns[int(found[1])]
        row, cell = _first_no_number(path, form, name)
        return InvalidInput(
            f"{path} has {cell!r} in row {row} of the column {name!r}, which holds numbers before",
            "Allowed: numbers, or nothing where they are missing",
            "Correct the cell, or leave the column out",
        )
    return InvalidInput(
        f"{path} cannot be read ({told})",
        _ALLOWED,
        f"Check the file, or say how it is written ({_OPTIONS})",
    )


def _stream(path: Path, form: CsvFormat) -> Any:
    """The bytes of a file in UTF-8, unpacked and without the lines that are comments."""
    import pyarrow as pa

    stream = pa.input_stream(str(path), compression="detect")
    if codecs.lookup(form.encoding).name != "utf-8":
        stream = pa.transcoding_input_stream(stream, form.encoding, "utf-8")
    if form.comment is not None:
        stream = pa.TransformInputStream(stream, _WithoutComments(form.comment.encode()))
    return stream


class _WithoutComments:
    """Passes on whole lines, but for those that begin like a comment."""

    def __init__(self, begin: bytes) -> None:
        self._begin, self._rest = begin, b""

    def __call__(self, chunk: Any) -> bytes:
        more = bytes(chunk)
        lines = (self._rest + more).splitlines(keepends=True)
        # The last line may go on in the next chunk; an empty chunk is the end.
        self._rest = lines.pop() if more and lines else b""
        kept = b"".join(line for line in lines if not line.startswith(self._begin))
        # No bytes would be taken for the end; a blank line is passed over.
        return kept or (b"\n" if more else b"")


def _delimiter_of(path: Path, start: bytes) -> str:
    """What the header shows most often outside quotes; a comma if it is a single column."""
    header = start.strip(b"\r\n").splitlines()[0].decode("utf-8-sig")
    if "\t" in header and re.search(r"\.tsv(\.|$)", path.name.lower()):
        return "\t"
    return max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)


def _likely_encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_utf16 else "latin-1, or cp1252 of Windows,"


def _place_of_bytes(path: Path, form: CsvFormat) -> str:
    """Where the first line is that cannot be decoded."""
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        lines = io.BufferedReader(stream)
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(form.encoding)
            except UnicodeDecodeError as error:
                return f": line {number} has the byte 0x{line[error.start]:02x}"
            except UnicodeError as error:
                return f": {error}"
    return ""


def _first_no_number(path: Path, form: CsvFormat, name: str) -> tuple[int, str]:
    """Row, counted from 1 below the header, and text of the first cell that is no number."""
    import pyarrow as pa

    with opened_csv(path, form, [name], {name: pa.string()}) as reader:
        cells = (cell for batch in reader for cell in batch[name].to_pylist())
        row, cell = first_no_number(cells, form.decimal)
    return row, cell or ""
