"""Numbers as people write them in text files: decimal marks and thousands separators.

A style says how the numbers of a file are written. Text is converted strictly: with a comma between
thousands "1,234" is 1234, and "1,2" is no number.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import compute

# Separators of thousands by the name of the option, with the characters that each stands for.
# Spreadsheets and typesetters write a no-break, narrow no-break or thin space, and a curly
# apostrophe.
THOUSANDS = {
    ",": ",",
    ".": ".",
    "'": "'\u2019",
    " ": " \u00a0\u202f\u2009",
}
# What Arrow and spreadsheets write where a value is missing.
MISSING_TEXTS = (
    *("", "NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "-nan", "-NaN", "#N/A", "#NA"),
    *("#N/A N/A", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"),
)
# Texts in a column of numbers that most likely stand for missing values, in lower case.
PLACEHOLDERS = frozenset(
    (
        *("", "?", "-", "--", "---", "\u2013", "\u2014", ".", "..", "*", "x", "na", "n/a", "n.a."),
        *("nan", "null", "nil", "none", "missing", "unknown", "unk", "not available"),
        *("not applicable", "k.a.", "keine angabe", "s.o.", "#div/0!", "#n/a", "#value!", "#ref!"),
        *("#name?", "#num!", "#null!"),
    )
)
_CURRENCY_SIGNS = "$\u20ac\u00a3\u00a5\u20b9"
# More than these in one column are categories rather than codes for missing values.
_MOST_PLACEHOLDERS = 5


@dataclass(frozen=True)
class NumberStyle:
    """Marks with which numbers are written.

    Attributes
    ----------
    thousands : {",", ".", "'", " "} or None
        Separator between groups of three digits.
    decimal : {".", ","}
        Mark before the fraction.
    """

    thousands: str | None = None
    decimal: str = "."

    @cached_property
    def pattern(self) -> str:
        """Regular expression of a whole number as text, for `re` and for RE2 alike."""
        mark = re.escape(self.decimal)
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = rf"(?:[1-9][0-9]{{0,2}}(?:{self.separators}[0-9]{{3}})+|[0-9]+)"
        digits = rf"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)"
        return rf"^[+-]?(?:{digits}(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))$"

    @cached_property
    def separators(self) -> str:
        """Regular expression of one thousands separator."""
        return f"[{THOUSANDS[self.thousands or '']}]" if self.thousands else "$^"

    def is_number(self, text: str) -> bool:
        """Whether a text is a number in this style.

        Examples
        --------
        >>> style = NumberStyle(thousands=",")
        >>> style.is_number("1,234.5"), style.is_number("1,2")
        (True, False)
        """
        # In Python a dollar also matches before a line break.
        return re.match(self.pattern, text.strip()) is not None and "\n" not in text.strip()

    def number(self, text: str) -> float:
        """Return the number that a text in this style denotes."""
        bare = re.sub(self.separators, "", text.strip()) if self.thousands else text.strip()
        return float(bare.replace(self.decimal, "."))

    def converted(self, cells: Any) -> Any:
        """Return texts as numbers.

        Parameters
        ----------
        cells : pyarrow.StringArray
            Without surrounding spaces; null where missing.

        Returns
        -------
        pyarrow.DoubleArray

        Raises
        ------
        NotANumber
            A text is not a number in this style.
        """
        is_number = compute.match_substring_regex(cells, self.pattern)
        first_bad = compute.index(is_number, pa.scalar(False)).as_py()
        if first_bad >= 0:
            raise NotANumber(first_bad)
        if self.thousands is not None:
            cells = compute.replace_substring_regex(cells, self.separators, "")
        if self.decimal != ".":
            cells = compute.replace_substring(cells, self.decimal, ".")
        return cells.cast(pa.float64())


class NotANumber(Exception):
    """A text is not a number; `index` is its position among those that were converted."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


# The more usual ones first.
_STYLES = tuple(
    NumberStyle(thousands, decimal)
    for thousands in (None, *THOUSANDS)
    for decimal in (".", ",")
    if thousands != decimal
)


class NumberColumn:
    """The texts of one column, and in which styles all of them are numbers.

    Attributes
    ----------
    styles : list of NumberStyle
        Those in which every text so far is a number or a placeholder.
    placeholders : list of str
        Texts that most likely stand for missing values.
    has_percent : bool
        Whether some numbers end with a percent sign.
    has_currency : bool
        Whether some numbers begin or end with the sign of a currency.
    is_text : bool
        Whether a text is neither a number in any style nor a placeholder.
    """

    def __init__(self, missing: Collection[str] = ()) -> None:
        self.styles = list(_STYLES)
        self.placeholders: list[str] = []
        self.has_percent = False
        self.has_currency = False
        self._missing = {*MISSING_TEXTS, *missing}
        self.is_text = False
        self._has_numbers = False
        self._separated: dict[str, str] = {}

    def add(self, texts: Iterable[str | None]) -> None:
        """Look at more texts of the column."""
        for raw in texts:
            text = (raw or "").strip()
            if raw is None or (text in self._missing and raw == text):
                continue
            if text.lower() in PLACEHOLDERS or text in self._missing:
                if text not in self.placeholders:
                    self.placeholders.append(text)
                continue
            if text.endswith("%"):
                self.has_percent = True
                text = text[:-1].strip()
            amount = text.strip(_CURRENCY_SIGNS).strip()
            if amount != text:
                self.has_currency = True
                text = amount
            own_styles = [style for style in _STYLES if style.is_number(text)]
            if not own_styles:
                self.is_text = True
                return
            self.styles = [style for style in self.styles if style in own_styles]
            self._has_numbers = True
            for name, characters in THOUSANDS.items():
                if any(character in text for character in characters):
                    self._separated.setdefault(name, text)

    @property
    def holds_numbers(self) -> bool:
        """Whether each text is a number in some style, apart from a few placeholders."""
        has_few_placeholders = len(self.placeholders) <= _MOST_PLACEHOLDERS
        return self._has_numbers and not self.is_text and has_few_placeholders

    def separates(self, thousands: str) -> bool:
        """Whether this separator of thousands stands in a text."""
        return thousands in self._separated

    def example(self, style: NumberStyle) -> str | None:
        """Return the first text in which a separator of this style stands, if there is one."""
        texts = [self._separated.get(mark) for mark in (style.thousands, style.decimal) if mark]
        return next((text for text in texts if text is not None), None)
