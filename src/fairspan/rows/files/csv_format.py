"""Format of CSV files: delimiter, decimal point, thousands separator, encoding and header."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict, cast

from fairspan.errors import Cause, InvalidParameter
from fairspan.parameters import check_integer
from fairspan.rows.files.numbers_as_text import THOUSANDS, NumberStyle

# Options of callers; the other fields are detected in the file.
_OPTIONS = ("delimiter", "decimal", "thousands", "encoding", "comment", "header", "skip_rows")


class CsvOptions(TypedDict, total=False):
    """Options of a caller for the format of a CSV file, as those of :class:`CsvFormat`."""

    delimiter: str | None
    decimal: str
    encoding: str
    comment: str | None
    thousands: str | None
    header: bool
    skip_rows: int


@dataclass(frozen=True)
class CsvFormat:
    """CSV format options.

    Parameters
    ----------
    delimiter : str, optional
        Field separator; detected from the header by default.
    decimal : {".", ","}
        Decimal point.
    encoding : str
        Name of the encoding in Python.
    comment : str, optional
        Prefix of comment lines.
    thousands : {",", ".", "'", " "}, optional
        Separator between groups of three digits. A space includes no-break and thin spaces, and an
        apostrophe the curly one.
    header : bool
        Whether the first row contains the column names. Without names, the columns are named
        column_1, column_2 and so on.
    skip_rows : int
        Number of lines of the file above the header, or above the first row, that are skipped.
    n_skipped : int
        Number of further lines that are neither header nor rows. Detected when a file is opened.
    names : tuple of str
        Names of all columns that replace the header; empty to use the header. Detected when a file
        is opened.
    header_is_data : bool
        Whether the header looks like a row. Detected when a file is opened.

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
    thousands: str | None = None
    header: bool = True
    skip_rows: int = 0
    n_skipped: int = 0
    names: tuple[str, ...] = ()
    header_is_data: bool = False

    def __post_init__(self) -> None:
        """Check each option, and that separators differ; raises InvalidParameter."""
        delimiter = self.delimiter
        if delimiter is not None and not (delimiter.isascii() and len(delimiter) == 1):
            raise InvalidParameter(
                f"delimiter is {delimiter!r}",
                "Allowed: a single ASCII character",
                "Pass one, such as ';'",
            )
        if self.decimal not in (".", ",") or self.decimal == delimiter:
            raise InvalidParameter(
                f"decimal is {self.decimal!r} and delimiter {delimiter!r}",
                "Allowed: '.' or ',', different from the delimiter",
                "Omit 'decimal', or pass the 'delimiter', such as ';'",
                cause=Cause.DECIMAL_IS_DELIMITER,
            )
        self._check_thousands()
        check_integer("skip_rows", self.skip_rows, minimum=0)
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidParameter(
                f"encoding is {self.encoding!r}",
                "Allowed: the encodings that Python knows, such as 'latin-1' or 'utf-16'",
                "Correct the name",
            ) from error
        if self.comment == "":
            raise InvalidParameter(
                "comment is ''", "Allowed: non-empty text", "Pass a prefix, such as '#'"
            )

    def _check_thousands(self) -> None:
        """Check that the thousands separator is known and differs from the decimal point."""
        is_known = self.thousands is None or self.thousands in THOUSANDS
        if is_known and self.thousands != self.decimal:
            return
        remedy = "Choose one of these"
        cause = None
        if self.thousands == ".":
            remedy = (
                "Pass csv={'thousands': '.', 'decimal': ','}, since the default decimal point is "
                "'.'"
            )
            cause = Cause.DECIMAL_IS_THOUSANDS
        raise InvalidParameter(
            f"thousands is {self.thousands!r} and decimal {self.decimal!r}",
            f"Allowed: {', '.join(map(repr, THOUSANDS))}, different from the decimal point",
            remedy,
            cause=cause,
        )

    @property
    def style(self) -> NumberStyle:
        """Format of numbers."""
        return NumberStyle(self.thousands, self.decimal)


def csv_format_from(options: CsvOptions | Mapping[str, object]) -> CsvFormat:
    """Make a `CsvFormat` from options by name.

    Raises
    ------
    InvalidParameter
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise InvalidParameter(
            f"csv has the unknown option {unknown[0]!r}",
            f"Allowed: {', '.join(map(repr, _OPTIONS))}",
            "Choose one of these",
        )
    if not isinstance(options.get("header", True), bool):
        raise InvalidParameter(
            f"The csv option header is {options['header']!r}",
            "Allowed: True or False",
            "Pass whether the first row contains the column names",
        )
    return CsvFormat(**cast(CsvOptions, options))
