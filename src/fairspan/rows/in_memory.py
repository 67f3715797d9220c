"""Base class of rows in memory, with random access."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted
from fairspan.registry import LazyModule
from fairspan.rows.blocks import (
    KEEPING_MISSING,
    OnMissing,
    RowBlock,
    make_row_block,
    rows_per_block,
)
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import format_list
from fairspan.rows.protocol import BaseRows
from fairspan.rows.validation import (
    to_finite_float64,
    to_float64_with_missing,
    to_numeric,
)
from fairspan.typing import AnyArray, FloatArray, IndexArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = LazyModule("narwhals.stable.v2")


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemoryRows(BaseRows, ABC):
    """Base class of rows in memory, with random access.

    Attributes
    ----------
    group_labels : CodedLabels or None
    weights : (n,) array or None
    weight_exponent : int
        Binary exponent of the unit of the weights.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    row_offset : int
        Number of rows of the whole table before these.
    first_row : int
        Row number of the first row in messages.
    """

    group_labels: CodedLabels | None = None
    weights: FloatArray | None = None
    weight_exponent: int = 0
    on_missing: OnMissing = "error"
    row_offset: int = 0
    first_row: int = 0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Feature names, if any."""
        return None

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the group columns; empty if unnamed."""
        return () if self.group_labels is None else self.group_labels.column_names

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return self.on_missing in KEEPING_MISSING

    @property
    def validate(self) -> Callable[[AnyArray, int, tuple[str, ...] | None], FloatArray]:
        """Validation function for values: with or without missing cells."""
        return to_float64_with_missing if self.keeps_missing else to_finite_float64

    def select_features(self, names: tuple[str, ...]) -> Self:
        """Return the same rows after checking the number of features.

        These rows have no feature names, so their columns cannot be matched to those of a model,
        which `names` are.

        Raises
        ------
        InvalidInput
            Wrong number of columns.
        """
        if self.n_features != len(names):
            raise InvalidInput(
                f"X has {counted(self.n_features, 'feature')}",
                f"The model was fitted on {len(names)}: {format_list(names)}",
                "Pass the columns that it was fitted on",
            )
        return self

    @abstractmethod
    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Unvalidated values of a row range, shape (stop - start, p); must not be modified."""

    @abstractmethod
    def take(self, indices: IndexArray) -> Self:
        """Select rows by position."""

    def without_dropped(self) -> tuple[Self, int]:
        """Return the rows without those that `on_missing` drops, and the number of dropped rows.

        "drop" drops rows with a missing cell, "em-drop-empty" rows in which all cells are missing,
        and all values but "error" drop rows without a group. If none remains, all rows are
        returned: aggregating them raises an error with the reason.

        Raises
        ------
        InvalidInput, InvalidType
            Same as for :func:`make_row_block`, raised before row numbers change.
        """
        labels = self.group_labels
        if labels is None or self.on_missing == "error":
            return self, 0
        drop_mask = labels.missing_mask
        # Values of `on_missing` that are not in this table look at the group only.
        is_dropped = {"drop": np.any, "em-drop-empty": np.all}.get(self.on_missing)
        if is_dropped is not None:
            size = rows_per_block(self.n_features)
            for start in range(0, self.n_rows, size):
                part = slice(start, min(start + size, self.n_rows))
                values = self.read_slice(start, part.stop)
                if values.dtype.kind != "f":
                    values = to_numeric(values)
                if np.isfinite(values).all():
                    continue
                drop_mask[part] |= is_dropped(np.isnan(values), axis=1)
                # Called for its validation only: an error is to give the row number that the user
                # knows, which changes once rows are dropped. It needs no weights.
                make_row_block(
                    self.first_row + start,
                    values,
                    labels[part],
                    weights=None,
                    feature_names=self.feature_names,
                    on_missing=self.on_missing,
                )
        n_dropped = int(drop_mask.sum())
        if n_dropped in (0, self.n_rows):
            return self, 0
        return self.take(np.flatnonzero(~drop_mask)), n_dropped

    def extra_columns(self, start: int, stop: int) -> Any:
        """Pass-through columns of a row range, if requested."""

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows in validated blocks, from the beginning.

        Each block drops or keeps incomplete rows as `on_missing` says.
        """
        size = rows_per_block(self.n_features)
        feature_names = self.feature_names
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield make_row_block(
                self.first_row + start,
                self.read_slice(start, stop),
                None if self.group_labels is None else self.group_labels[start:stop],
                None if self.weights is None else self.weights[start:stop],
                feature_names,
                self.on_missing,
                self.extra_columns(start, stop),
            )
