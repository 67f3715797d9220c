"""Format of CSV files: delimiter, marks of numbers, encoding and header."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairspan.errors import Cause, InvalidParameter
from fairspan.rows.files.numbers_as_text import THOUSANDS, NumberStyle

# Settings that callers choose; the rest is found in the file.
_SETTINGS = ("delimiter", "decimal", "thousands", "encoding", "comment", "header")


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
    thousands : {",", ".", "'", " "}, optional
        The separator between groups of three digits. A space includes no-break and thin
        spaces, and an apostrophe the curly one.
    header : bool
        Whether the first row holds the names of the columns. Without names, the columns are named
        column_1, column_2 and so on.
    n_skipped : int
        Lines at the start that are neither header nor rows. Found when a file is opened.
    names : tuple of str
        Names of all columns in place of those in the header; none to read these. Found when a file
        is opened.
    header_is_data : bool
        Whether the header looks like a row. Found when a file is opened.

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
    n_skipped: int = 0
    names: tuple[str, ...] = ()
    header_is_data: bool = False

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
                "Leave 'decimal' out, or name the 'delimiter', such as ';'",
                cause=Cause.CSV_STYLE,
                command="Leave out --decimal, or name the delimiter, such as --delimiter ';'",
            )
        self._check_thousands()
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

    def _check_thousands(self) -> None:
        is_known = self.thousands is None or self.thousands in THOUSANDS
        if is_known and self.thousands != self.decimal:
            return
        remedy = "Choose one of these"
        command = remedy
        if self.thousands == ".":
            reason = "as a point is the usual decimal mark"
            remedy = f"Pass csv={{'thousands': '.', 'decimal': ','}}, {reason}"
            command = f"Add --decimal , to the command, {reason}"
        raise InvalidParameter(
            f"thousands is {self.thousands!r} and decimal {self.decimal!r}",
            f"Allowed: {', '.join(map(repr, THOUSANDS))}, other than the decimal mark",
            remedy,
            cause=Cause.CSV_STYLE,
            command=command,
        )

    @property
    def style(self) -> NumberStyle:
        """How numbers are written."""
        return NumberStyle(self.thousands, self.decimal)


def csv_format_from(options: Mapping[str, Any]) -> CsvFormat:
    """The format of these choices, by their names.

    Raises
    ------
    InvalidParameter
    """
    unknown = [name for name in options if name not in _SETTINGS]
    if unknown:
        raise InvalidParameter(
            f"csv has the entry {unknown[0]!r}",
            f"Allowed: {', '.join(map(repr, _SETTINGS))}",
            "Choose one of these",
        )
    if not isinstance(options.get("header", True), bool):
        raise InvalidParameter(
            f"csv has the header {options['header']!r}",
            "Allowed: True or False",
            "Say whether the first row holds the names of the columns",
        )
    return CsvFormat(**options)
