"""ARFF, the text format of OpenML: declared columns, then rows of values separated by commas."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"[^\"]*\"|\S+)\s+(.+)", re.IGNORECASE)
_NUMBERS = ("numeric", "real", "integer")
_MISSING = "?"


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    values : (n,) array
        Numbers, NaN where missing; or texts, empty where missing.
    """

    name: str
    values: npt.NDArray[np.float64] | npt.NDArray[np.str_]

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return bool(self.values.dtype.kind == "f")


def parse_arff(text: str) -> list[Column]:
    """Columns of a table in ARFF, dense rows only.

    A nominal column whose values are all numbers, such as {0, 1}, is a column of numbers.

    Raises
    ------
    ValueError
        It is no such text; the message says what is wrong.

    Examples
    --------
    >>> lines = ["@relation toy", "@attribute age real", "@attribute 'the sex' {f, m}", "@data"]
    >>> age, sex = parse_arff(chr(10).join([*lines, "31, f", "?, m"]))
    >>> age.values.tolist(), sex.name, sex.values.tolist()
    ([31.0, nan], 'the sex', ['f', 'm'])
    """
    lines = iter(text.splitlines())
    declared = list(_declared(lines))
    if not declared:
        raise ValueError("no @attribute before @data")
    content = (line for line in lines if line.strip() and not line.lstrip().startswith("%"))
    rows = list(csv.reader(content, quotechar="'", escapechar="\\", skipinitialspace=True))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(declared):
            raise ValueError(f"row {number} has {len(row)} values for {len(declared)} columns")
    if not rows:
        raise ValueError("no rows after @data")
    return [
        _column(name, kind, [cell.strip().strip('"') for cell in cells])
        for (name, kind), cells in zip(declared, zip(*rows, strict=True), strict=True)
    ]


def _declared(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Name and type of each column, up to the line @data."""
    for line in lines:
        if line.strip().lower() == "@data":
            return
        found = _ATTRIBUTE.match(line.strip())
        if found:
            yield found[1].strip("'\"").replace("\\", ""), found[2].strip()
    raise ValueError("no line @data")


def _column(name: str, kind: str, cells: list[str]) -> Column:
    present = [cell for cell in cells if cell != _MISSING]
    try:
        # All of a nominal column's values may be numbers; texts are not taken for such.
        numbers = np.array([np.nan if cell == _MISSING else float(cell) for cell in cells])
    except ValueError:
        if kind.lower() in _NUMBERS:
            raise
        return Column(name, np.array(["" if cell == _MISSING else cell for cell in cells]))
    if kind.lower() == "string" or not present:
        return Column(name, np.array(["" if cell == _MISSING else cell for cell in cells]))
    return Column(name, numbers)
