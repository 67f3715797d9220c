"""Arrow files, also called Feather: one part each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.rows.files.formats import (
    Constants,
    TableFile,
    reading,
    with_constant_fields,
    with_constants,
)


@dataclass(frozen=True)
class ArrowPart:
    """A whole Arrow file.

    Attributes
    ----------
    path : Path
    n_rows : int
    constants : tuple of (column, value)
        Columns that the file's place in a folder stands for.
    """

    path: Path
    n_rows: int
    constants: Constants

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return str(self.path)

    def batches(self, columns: Sequence[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of these columns, as they are in the file."""
        import pyarrow as pa

        known = dict(self.constants)
        stored = [name for name in columns if name not in known]
        with (
            reading(self.path),
            pa.memory_map(str(self.path)) as file,
            pa.ipc.open_file(file) as reader,
        ):
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index).select(stored)
                # Arrow trusts the file, and a damaged one would end the process.
                batch.validate(full=True)
                yield with_constants(batch, columns, self.constants)


def opened(path: Path, constants: Constants) -> TableFile:
    """Open a file; a column in it comes before one that its place in a folder stands for."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
        n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    constants = tuple(each for each in constants if each[0] not in schema.names)
    part = ArrowPart(path, n_rows, constants)
    return TableFile.of(path, with_constant_fields(schema, constants), (part,))
