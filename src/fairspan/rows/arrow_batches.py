"""Columns of Arrow record batches as numpy arrays, without copies where the types allow it."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from fairspan.rows.arrow_values import numbers_of, vectors_of
from fairspan.rows.frames import check_numeric


class NumericColumns:
    """The features of a record batch, from which blocks are cut.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Of features alone.

    Raises
    ------
    InvalidInput
        A column that holds no numbers.
    """

    def __init__(self, batch: Any) -> None:
        import pyarrow as pa

        columns = [
            _missing_numbers(each) if pa.types.is_null(each.type) else each for each in batch
        ]
        table = pa.table(columns, names=batch.schema.names)
        check_numeric(nw.from_native(table, eager_only=True).schema)
        self._columns = [
            vectors_of(each) if _is_vector(each) else numbers_of(each) for each in columns
        ]
        self.width = sum(column.shape[1] if column.ndim == 2 else 1 for column in self._columns)

    def between(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Some rows as an array, (stop - start, p); a missing cell becomes NaN."""
        if len(self._columns) == 1 and self._columns[0].ndim == 2:
            return self._columns[0][start:stop]
        matrix = np.empty((stop - start, self.width))
        position = 0
        for column in self._columns:
            if column.ndim == 2:
                matrix[:, position : position + column.shape[1]] = column[start:stop]
                position += column.shape[1]
            else:
                matrix[:, position] = column[start:stop]
                position += 1
        return matrix


def _missing_numbers(array: Any) -> Any:
    # A file in which nothing is known of a column may lie beside others that hold its numbers.
    import pyarrow as pa

    return pa.nulls(len(array), pa.float64())


def _is_vector(array: Any) -> bool:
    return hasattr(array.type, "list_size")
