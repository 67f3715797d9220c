"""Columns to read of a part of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchRequest:
    """Columns to read of a part, or of a file.

    Attributes
    ----------
    columns : tuple of str
    text_columns : tuple of str
        Those of the columns that are read as text.
    """

    columns: tuple[str, ...]
    text_columns: tuple[str, ...]

    @classmethod
    def from_columns(cls, columns: Sequence[str], text_columns: Sequence[str]) -> BatchRequest:
        """Make the request for columns, of which some are read as text."""
        as_text = tuple(name for name in columns if name in text_columns)
        return cls(tuple(columns), as_text)

    def includes(self, other: BatchRequest) -> bool:
        """Return whether batches of this request contain those of another, read the same way."""
        if not set(other.columns) <= set(self.columns):
            return False
        same_columns_as_text = set(self.text_columns).intersection(other.columns)
        return same_columns_as_text == set(other.text_columns)
