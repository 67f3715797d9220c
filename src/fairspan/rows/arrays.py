"""Rows of numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.messages import shown_reason
from fairspan.rows.blocks import DropRule, OnMissing
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.label_resolution import resolve_metadata
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_adapters import SourceAdapter
from fairspan.rows.row_validation import check_dtype, check_shape, warn_if_rounded
from fairspan.typing import AnyArray, FloatArray, TableLike


@dataclass(frozen=True, eq=False)
class ArrayRows(InMemoryRows):
    """Rows of an (n, p) array.

    Attributes
    ----------
    array : (n, p) array
        Numeric values of any precision; never copied in full.
    """

    array: AnyArray

    @classmethod
    def from_table(cls, X: TableLike, on_missing: DropRule = "error") -> Self:
        """Open an array-like that a caller passed, after checks of its shape and type.

        Raises
        ------
        InvalidInput, InvalidType
            Masked cells, rows of different lengths, no rows or features, or something that is not a
            table of numbers.
        """
        array = _as_array(X)
        check_shape(array.shape, X)
        check_dtype(array.dtype)
        return cls(array=array, on_missing=on_missing)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""
        return tuple(self.array.shape)

    def to_array(self) -> FloatArray:
        """All rows, validated, shape (n, p)."""
        return self.validate(self.array, 0, None)

    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Return a row range of the array."""
        return np.asarray(self.array[start:stop])


class ArrayAdapter(SourceAdapter):
    """Adapter for numpy arrays and array-likes."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is an array-like."""
        return hasattr(X, "__array__") or isinstance(X, list | tuple)

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> ArrayRows:
        """Open the rows of an array."""
        rows = ArrayRows.from_table(X, on_missing=on_missing)
        if rows.array.dtype.kind in "iu":
            warn_if_rounded({"X": rows.array})
        return replace(rows, **resolve_metadata(X, rows.n_rows, metadata))


def _reject_unsupported(values: TableLike) -> None:
    """Raise for sparse, lazy and masked objects, which numpy would convert to something else."""
    if hasattr(values, "tocsr"):
        raise InvalidType(
            "X is a sparse matrix",
            "Allowed: dense arrays and data frames",
            "Convert it with X.toarray() if it fits into memory",
        )
    if hasattr(values, "collect"):
        raise InvalidType(
            f"X is a lazy {type(values).__name__}",
            "Allowed: arrays and eager data frames",
            "Call collect() on it first",
        )
    arrays = values if isinstance(values, list | tuple) else [values]
    if any(isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array) for array in arrays):
        raise InvalidInput(
            "X is an array with masked cells",
            "Allowed: arrays without masked entries",
            "Fill in or drop the masked rows first",
        )


def _as_array(values: TableLike) -> AnyArray:
    """Convert the rows that a user passed to a numpy array, of any shape and numeric type.

    Raises
    ------
    InvalidInput, InvalidType
        Masked cells, rows of different lengths, or something that is not a table.
    """
    _reject_unsupported(values)
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(
            f"X cannot be read as a table ({shown_reason(error)})",
            "Allowed: an array of shape (n rows, p features)",
            "Make all rows equally long",
        ) from error
    # A single number is left to `check_shape`.
    if array.ndim == 0 and array.dtype.kind in "OSU":
        raise InvalidType(
            f"X is of type {type(values).__name__}, which is not a table",
            "Allowed: arrays and data frames of shape (n rows, p features)",
            "Load the rows into one of these first",
        )
    return array
