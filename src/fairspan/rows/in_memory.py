"""Base class of rows in memory, with random access."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted
from fairspan.rows.blocks import (
    DropRule,
    RowBlock,
    ValueCheck,
    cross_with_classes,
    keeps_missing,
    missing_label_mask,
    rows_per_block,
    select_rows,
    validate_block,
    value_check,
)
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import Label, format_list, is_missing_label, to_python_label
from fairspan.rows.protocol import BaseRows
from fairspan.typing import AnyArray, BoolArray, ColumnName, EagerFrame, FloatArray, IndexArray


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemoryRows(BaseRows, ABC):
    """Base class of rows in memory, with random access.

    Attributes
    ----------
    groups : CodedLabels or None
        Group of each row.
    classes : CodedLabels or None
        Class of each row (y).
    clusters : CodedLabels or None
        Cluster of each row.
    weights : (n,) array or None
    weight_exponent : int
        Binary exponent of the unit of the weights.
    on_missing : {"error", "drop", "drop without group", "em", "em-drop-empty"}
    row_offset : int
        Number of rows of the whole table before these.
    first_row : int
        Row number of the first row in messages.
    """

    groups: CodedLabels | None = None
    classes: CodedLabels | None = None
    clusters: CodedLabels | None = None
    weights: FloatArray | None = None
    weight_exponent: int = 0
    on_missing: DropRule = "error"
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

    @cached_property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    @property
    def group_columns(self) -> tuple[ColumnName, ...]:
        """Names of the group columns; empty if unnamed."""
        return () if self.groups is None else self.groups.column_names

    @property
    def has_classes(self) -> bool:
        """Whether each row has a class (y)."""
        return self.classes is not None

    @property
    def has_clusters(self) -> bool:
        """Whether each row has a cluster."""
        return self.clusters is not None

    @property
    def finest_groups(self) -> CodedLabels | None:
        """Group of each row, crossed with its class if the rows have classes."""
        return cross_with_classes(self.groups, self.classes)

    @property
    def positions(self) -> IndexArray:
        """Position of each row in messages, shape (n,)."""
        return np.arange(self.first_row, self.first_row + self.n_rows)

    @property
    def missing_label_mask(self) -> BoolArray:
        """Mask of the rows without a group, class or cluster, (n,)."""
        return missing_label_mask(self.n_rows, self.groups, self.classes, self.clusters)

    def lost_groups(self, remaining: Collection[Label]) -> frozenset[Label]:
        """Return the groups that are lost when incomplete rows are dropped.

        These are the groups of rows with positive weight that are not among `remaining`, the groups
        of the complete rows. Called for the rows before incomplete ones are dropped.
        """
        labels = self.groups
        if labels is None:
            return frozenset()
        if self.weights is not None:
            labels = labels[self.weights > 0]
        groups = map(to_python_label, labels.present)
        return frozenset(group for group in groups if not is_missing_label(group)).difference(
            remaining
        )

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return keeps_missing(self.on_missing)

    @property
    def validate(self) -> ValueCheck:
        """Validation function for values: with or without missing cells."""
        return value_check(self.on_missing)

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

    def extra_columns(self, start: int, stop: int) -> EagerFrame | None:
        """Pass-through columns of a row range, if requested."""

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows in validated blocks, from the beginning.

        Each block drops or keeps incomplete rows as `on_missing` says. Columns that were requested
        besides the features are passed through.
        """
        size = rows_per_block(self.n_features)
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            part = slice(start, stop)
            block = RowBlock(
                self.first_row + start,
                self.read_slice(start, stop),
                groups=select_rows(self.groups, part),
                weights=select_rows(self.weights, part),
                classes=select_rows(self.classes, part),
                clusters=select_rows(self.clusters, part),
                extra_columns=self.extra_columns(start, stop),
            )
            yield validate_block(block, self.feature_names, self.on_missing)
