"""CSV files: one part each, since only reading tells where a row begins."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.rows.files.formats import (
    Constants,
    TableFile,
    reading,
    with_constant_fields,
    with_constants,
)

_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class CsvPart:
    """A whole CSV file.

    Attributes
    ----------
    path : Path
    delimiter : str
    number_like : frozenset of str
        Columns that hold numbers, or nothing, in the first rows.
    constants : tuple of (column, value)
        Columns that the file's place in a folder stands for.
    """

    path: Path
    delimiter: str
    number_like: frozenset[str]
    constants: Constants
    n_rows: None = None

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return str(self.path)

    def batches(self, columns: Sequence[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of these columns; those in `labels` stay text."""
        import pyarrow as pa
        from pyarrow import csv

        known = dict(self.constants)
        stored = [name for name in columns if name not in known]
        # The first block may show only whole numbers, or nothing, where fractions follow. Labels
        # are text, as a CSV has no types: "01" and "1" must not become one group.
        types = {name: pa.float64() for name in stored if name in self.number_like}
        types |= dict.fromkeys((name for name in labels if name in stored), pa.string())
        convert = csv.ConvertOptions(
            include_columns=stored, column_types=types, strings_can_be_null=True
        )
        parse = _parse_options(self.delimiter)
        with (
            reading(self.path),
            csv.open_csv(self.path, parse_options=parse, convert_options=convert) as reader,
        ):
            for batch in reader:
                yield with_constants(batch, columns, self.constants)


def opened(path: Path, constants: Constants) -> TableFile:
    """Open a file; a column in it comes before one that its place in a folder stands for.

    Raises
    ------
    InvalidInput
        The file is empty.
    """
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16)
    if not start.strip():
        raise InvalidInput(
            f"{path} is empty", "Allowed is a header line and at least one row", "Check the file"
        )
    header = start.strip(b"\r\n").splitlines()[0].decode("utf-8-sig")
    delimiter = _delimiter(path, header)
    with csv.open_csv(path, parse_options=_parse_options(delimiter)) as reader:
        schema = reader.schema
    constants = tuple(each for each in constants if each[0] not in schema.names)
    tests = (pa.types.is_null, pa.types.is_integer, pa.types.is_floating)
    number_like = frozenset(
        field.name for field in schema if any(matches(field.type) for matches in tests)
    )
    part = CsvPart(path, delimiter, number_like, constants)
    return TableFile.of(path, with_constant_fields(schema, constants), (part,))


def _parse_options(delimiter: str) -> Any:
    from pyarrow import csv

    # Without newlines_in_values a quoted line break fails wherever two blocks meet.
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _delimiter(path: Path, header: str) -> str:
    """What the header shows most often outside quotes; a comma if it is a single column."""
    if "\t" in header and path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    return max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)
