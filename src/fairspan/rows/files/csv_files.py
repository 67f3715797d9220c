"""Files of CSV: how they are written, what is in them, and where one cannot be read."""

import codecs
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.rows.checks import first_no_number, numbers_of, warn_of_rounding

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


def open_csv(path: Path, form: CsvFormat) -> tuple[Any, CsvFormat]:
    """Schema of a CSV file, as its first rows suggest, and the format with its delimiter.

    Raises
    ------
    InvalidInput
        An empty file, or one that cannot be read in this format.
    """
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
    return schema, form


def csv_batches(
    path: Path, form: CsvFormat, schema: Any, columns: Sequence[str], texts: Sequence[str]
) -> Iterator[Any]:
    """Record batches of some columns of a CSV file.

    Parameters
    ----------
    path : Path
    form : CsvFormat
        With the delimiter.
    schema : pyarrow.Schema
        As the first rows suggest.
    columns, texts : sequences of str
        Those that are read, and which of them stay text.
    """
    # The first block may show only whole numbers, or nothing, where fractions follow. Labels are
    # text, as a CSV has no types: "01" and "1" must not become one group.
    kinds = {name: schema.field(name).type for name in columns if name not in texts}
    whole = [name for name, kind in kinds.items() if pa.types.is_integer(kind)]
    types = {
        name: pa.float64()
        for name, kind in kinds.items()
        if name in whole or pa.types.is_null(kind) or pa.types.is_floating(kind)
    }
    types |= dict.fromkeys(set(texts).intersection(columns), pa.string())
    try:
        with opened_csv(path, form, columns, types) as reader:
            for batch in reader:
                values = {name: numbers_of(batch[name]) for name in whole}
                # Later rows may have larger ones than an integer may hold.
                exact = {
                    name: numbers
                    for name, numbers in values.items()
                    if np.fmax.reduce(np.abs(numbers), initial=0) <= _LARGEST_INTEGER
                }
                warn_of_rounding(exact)
                yield batch
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise unreadable(path, form, error, columns) from error


def opened_csv(path: Path, form: CsvFormat, columns: Sequence[str] = (), types: Any = None) -> Any:
    """pyarrow's reader of some columns of a CSV file, in batches."""
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
    with opened_csv(path, form, [name], {name: pa.string()}) as reader:
        cells = (cell for batch in reader for cell in batch[name].to_pylist())
        row, cell = first_no_number(cells, form.decimal)
    return row, cell or ""
