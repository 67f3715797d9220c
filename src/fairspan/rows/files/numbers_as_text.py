"""Numbers in text files: decimal points and thousands separators.

A style is the format of the numbers of a file. Text is parsed strictly: with a comma between
thousands "1,234" is 1234, and "1,2" is not a number.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import compute

# Thousands separators by the value of the option, with the characters that each includes:
# spreadsheets and typesetters write a no-break, narrow no-break or thin space, and a curly
# apostrophe.
THOUSANDS = {
    ",": ",",
    ".": ".",
    "'": "'\u2019",
    " ": " \u00a0\u202f\u2009",
}
# Texts that Arrow and spreadsheets write for a missing value.
MISSING_TEXTS = (
    *("", "NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "-nan", "-NaN", "#N/A", "#NA"),
    *("#N/A N/A", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"),
)
# Texts in a numeric column that are most likely codes for missing values, in lower case.
_NUMBER_PLACEHOLDERS = frozenset(
    (
        *("", "?", "-", "--", "---", "\u2013", "\u2014", ".", "..", "*", "x", "na", "n/a", "n.a."),
        *("nan", "null", "nil", "none", "missing", "unknown", "unk", "not available"),
        *("not applicable", "k.a.", "keine angabe", "s.o.", "#div/0!", "#n/a", "#value!", "#ref!"),
        *("#name?", "#num!", "#null!"),
    )
)
_CURRENCY_SIGNS = "$\u20ac\u00a3\u00a5\u20b9"
# Maximum number of distinct placeholders in a numeric column; more of them are categories rather
# than codes for missing values.
_MAX_PLACEHOLDERS = 5


@dataclass(frozen=True)
class NumberStyle:
    """Format of numbers in a text file.

    Attributes
    ----------
    thousands : {",", ".", "'", " "} or None
        Separator between groups of three digits.
    decimal : {".", ","}
        Decimal point.
    """

    thousands: str | None = None
    decimal: str = "."

    @cached_property
    def pattern(self) -> str:
        """Regular expression of a number, valid for both `re` and RE2."""
        point = re.escape(self.decimal)
        integer = "[0-9]+"
        if self.thousands is not None:
            integer = rf"(?:[1-9][0-9]{{0,2}}(?:{self.separators}[0-9]{{3}})+|[0-9]+)"
        digits = rf"(?:{integer}(?:{point}[0-9]*)?|{point}[0-9]+)"
        return rf"^[+-]?(?:{digits}(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))$"

    @cached_property
    def separators(self) -> str:
        """Regular expression of one thousands separator."""
        return f"[{THOUSANDS[self.thousands or '']}]" if self.thousands else "$^"

    def is_number(self, text: str) -> bool:
        """Return whether a text is a number in this style.

        Examples
        --------
        >>> style = NumberStyle(thousands=",")
        >>> style.is_number("1,234.5"), style.is_number("1,2")
        (True, False)
        """
        stripped = text.strip()
        # In Python, "$" also matches before a final line break.
        return re.match(self.pattern, stripped) is not None and "\n" not in stripped

    def to_number(self, text: str) -> float:
        """Parse a number in this style."""
        digits = text.strip()
        if self.thousands:
            digits = re.sub(self.separators, "", digits)
        return float(digits.replace(self.decimal, "."))

    def parse(self, cells: pa.StringArray) -> pa.DoubleArray:
        """Parse an Arrow array of texts.

        Parameters
        ----------
        cells : pyarrow.StringArray
            Texts without surrounding spaces; null if missing.

        Returns
        -------
        pyarrow.DoubleArray

        Raises
        ------
        NotANumber
            A text is not a number in this style.
        """
        is_number = compute.match_substring_regex(cells, self.pattern)
        first_invalid = compute.index(is_number, pa.scalar(False)).as_py()
        if first_invalid >= 0:
            raise NotANumber(first_invalid)
        if self.thousands is not None:
            cells = compute.replace_substring_regex(cells, self.separators, "")
        if self.decimal != ".":
            cells = compute.replace_substring(cells, self.decimal, ".")
        return cells.cast(pa.float64())


class NotANumber(Exception):
    """Error for a text that is not a number; `index` is its position in the array."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


# The more common ones first.
_STYLES = tuple(
    NumberStyle(thousands, decimal)
    for thousands in (None, *THOUSANDS)
    for decimal in (".", ",")
    if thousands != decimal
)


class NumberColumn:
    """Styles in which all texts of a column are numbers.

    Attributes
    ----------
    styles : list of NumberStyle
        Styles in which every text so far is a number or a placeholder.
    placeholders : list of str
        Texts that are most likely codes for missing values.
    has_percent : bool
        Whether some numbers end with a percent sign.
    has_currency : bool
        Whether some numbers begin or end with a currency sign.
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
        """Take more texts of the column into account, up to the first that is no number.

        Missing values are ignored, and placeholders such as "?", which most likely stand for them,
        are collected. Percent and currency signs are removed before a text is compared with each
        style.
        """
        for raw_text in texts:
            if raw_text is None:
                continue
            text = raw_text.strip()
            # Arrow does not recognize a code between spaces, so this counts as a placeholder.
            if text in self._missing and raw_text == text:
                continue
            if text.lower() in _NUMBER_PLACEHOLDERS or text in self._missing:
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
            styles = [style for style in _STYLES if style.is_number(text)]
            if not styles:
                self.is_text = True
                return
            self.styles = [style for style in self.styles if style in styles]
            self._has_numbers = True
            # Keep the first number with each separator, as an example.
            for name, characters in THOUSANDS.items():
                if any(character in text for character in characters):
                    self._separated.setdefault(name, text)

    @property
    def has_numbers(self) -> bool:
        """Whether all texts are numbers in some style, apart from a few placeholders."""
        has_few_placeholders = len(self.placeholders) <= _MAX_PLACEHOLDERS
        return self._has_numbers and not self.is_text and has_few_placeholders

    def separates(self, thousands: str) -> bool:
        """Return whether a text contains this thousands separator."""
        return thousands in self._separated

    def example(self, style: NumberStyle) -> str | None:
        """Return the first text with a separator of this style, if any."""
        texts = [self._separated.get(mark) for mark in (style.thousands, style.decimal) if mark]
        return next((text for text in texts if text is not None), None)
