"""Blocks of validated rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.row_validation import to_finite_float64, to_float64_with_missing, to_numeric
from fairspan.typing import AnyArray, BoolArray, EagerFrame, FloatArray, IndexArray, RowIndex

# Entries of one block (2 MB of float64): large enough for matrix products at full speed, small
# enough to stay in cache.
_BLOCK_ENTRIES = 2**18
# Minimum rows of one block, so that the overhead per block is negligible.
_MIN_BLOCK_ROWS = 512
# Maximum entries of one block (32 MB). An update of a p x p matrix is limited by memory bandwidth,
# so about 2 p rows are used per update if this allows.
_MAX_BLOCK_ENTRIES = 2**22
OnMissing = Literal["error", "drop", "em", "em-drop-empty"]
ON_MISSING: tuple[OnMissing, ...] = get_args(OnMissing)
# How incomplete rows of a block are treated: as `on_missing` says; "drop without group" drops rows
# without a group and raises for missing cells of the others.
DropRule = OnMissing | Literal["drop without group"]
ValueCheck = Callable[[AnyArray, int, tuple[str, ...] | None], FloatArray]
"""Function of values, the number of their first row and the feature names."""


def keeps_missing(rule: DropRule) -> bool:
    """Return whether a rule keeps missing cells, as NaN, for the EM algorithm to complete."""
    return rule in ("em", "em-drop-empty")


def value_check(rule: DropRule) -> ValueCheck:
    """Return the function that validates the values of rows, with or without missing cells."""
    return to_float64_with_missing if keeps_missing(rule) else to_finite_float64


class DroppedRows(NamedTuple):
    """Rows of a block that were dropped because of missing values.

    Attributes
    ----------
    groups : CodedLabels of n_dropped rows
    missing : (n_dropped, p) array of bool
        Mask of their missing features.
    """

    groups: CodedLabels
    missing: BoolArray


@dataclass(frozen=True)
class RowBlock:
    """Block of consecutive rows.

    Attributes
    ----------
    first_row : int
        Position of the first row in the table, counted from 0, before rows are dropped.
    values : (r, p) array
        Finite float64; NaN marks missing cells if the source keeps them. May be a view of the
        user's data: do not modify.
    groups : CodedLabels of r rows, or None
        Group of each row; None if the source has no groups.
    weights : (r,) array or None
    classes : CodedLabels of r rows, or None
        Class of each row (y), for restrictions within classes.
    clusters : CodedLabels of r rows, or None
        Cluster of each row, such as a person with several rows; None if rows are independent.
    n_dropped : int
        Number of rows of this block that were dropped because of missing values.
    extra_columns : pyarrow Table or narwhals DataFrame of r rows, or None
        Requested columns that are passed through unchanged.
    dropped_rows : DroppedRows or None
    kept_offsets : (r,) array of int, or None
        Position of each row minus `first_row`; None if no row was dropped.
    """

    first_row: int
    values: FloatArray
    groups: CodedLabels | None
    weights: FloatArray | None = None
    classes: CodedLabels | None = None
    clusters: CodedLabels | None = None
    n_dropped: int = 0
    extra_columns: EagerFrame | None = None
    dropped_rows: DroppedRows | None = None
    kept_offsets: IndexArray | None = None

    @property
    def positions(self) -> IndexArray:
        """Position of each row in the table, counted from 0, before rows are dropped."""
        if self.kept_offsets is None:
            return np.arange(self.first_row, self.first_row + len(self.values))
        return self.first_row + self.kept_offsets

    @property
    def missing_label_mask(self) -> BoolArray:
        """Mask of the rows without a group, class or cluster, (r,)."""
        return missing_label_mask(len(self.values), self.groups, self.classes, self.clusters)

    @property
    def finest_groups(self) -> CodedLabels | None:
        """Group of each row, crossed with its class if the rows have classes."""
        return cross_with_classes(self.groups, self.classes)


def cross_with_classes(
    groups: CodedLabels | None, classes: CodedLabels | None
) -> CodedLabels | None:
    """Cross groups with classes: each label is then a tuple that ends with the class.

    Groups of rows without classes are returned unchanged, and None without groups.
    """
    if groups is None or classes is None:
        return groups
    return CodedLabels.cross([groups, classes])


def missing_label_mask(n_rows: int, *columns: CodedLabels | None) -> BoolArray:
    """Return the mask of the rows without a label in some column, (n_rows,)."""
    mask = np.zeros(n_rows, dtype=bool)
    for labels in columns:
        if labels is not None:
            mask |= labels.missing_mask
    return mask


def rows_per_block(n_features: int) -> int:
    """Return the number of rows in one block of p features."""
    max_rows = max(_MAX_BLOCK_ENTRIES // n_features, _MIN_BLOCK_ROWS)
    return max(_BLOCK_ENTRIES // n_features, min(2 * n_features, max_rows), _MIN_BLOCK_ROWS)


def make_row_block(
    first_row: int,
    values: AnyArray,
    groups: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
) -> RowBlock:
    """Make a block of validated rows, dropping incomplete ones as `on_missing` says.

    Parameters
    ----------
    first_row : int
        Position of the first row in the whole table.
    values : (r, p) array
        Values that are not validated yet; NaN marks missing cells.
    groups : CodedLabels of r rows, or None
    weights : (r,) array or None
    feature_names : tuple of str or None
        For error messages.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        "error" drops no row, and a missing cell raises. All others drop rows without a group.
        "drop" also drops rows with a missing cell. The last two keep missing cells as NaN; of rows
        in which every feature is missing, "em" raises for the first, and "em-drop-empty" drops all.

    Raises
    ------
    InvalidInput, InvalidType
        Same as for :func:`to_finite_float64`: infinity is not a missing cell, and raises unless its
        row is dropped. With "em", also a row in which every feature is missing.
    """
    return validate_block(RowBlock(first_row, values, groups, weights), feature_names, on_missing)


def validate_block(
    block: RowBlock, feature_names: tuple[str, ...] | None, drop_rule: DropRule
) -> RowBlock:
    """Validate the values of a block, and drop incomplete rows.

    Parameters
    ----------
    block : RowBlock
        Its values are not validated yet, and no row has been dropped.
    feature_names : tuple of str or None
        For error messages.
    drop_rule : {"error", "drop", "drop without group", "em", "em-drop-empty"}
        Value of `on_missing`, as for :func:`make_row_block`; or "drop without group", which drops
        rows without a group and raises for missing cells of other rows. "error" leaves missing
        labels to the `LabelEncoder`. A row without a class or a cluster, if there are any, counts
        as one without a group.

    Raises
    ------
    InvalidInput, InvalidType
        Same as for :func:`make_row_block`.
    """
    if drop_rule == "error":
        values = to_finite_float64(block.values, block.first_row, feature_names)
        return replace(block, values=values)
    block = replace(block, values=to_numeric(block.values))
    drop_mask = _drop_mask(block, drop_rule)
    check = value_check(drop_rule)
    if drop_mask.any():
        # Validate before dropping rows, so that errors name the row of the original table. Zeros
        # stand for the rows to drop, since these may be incomplete. The rows that are kept are
        # converted below.
        check(np.where(drop_mask[:, None], 0, block.values), block.first_row, feature_names)
        block = _drop_rows(block, drop_mask)
    return replace(block, values=check(block.values, block.first_row, feature_names))


def _drop_mask(block: RowBlock, drop_rule: DropRule) -> BoolArray:
    """Return the mask of the rows to drop, shape (r,)."""
    mask = block.missing_label_mask
    if drop_rule == "drop":
        mask |= np.isnan(block.values).any(axis=1)
    if drop_rule == "em-drop-empty":
        mask |= np.isnan(block.values).all(axis=1)
    return mask


def _drop_rows(block: RowBlock, drop_mask: BoolArray) -> RowBlock:
    """Return the block without the rows of a mask, and with a record of these."""
    kept_offsets = np.flatnonzero(~drop_mask)
    dropped_rows = None  # counted by group, so there is no record without groups
    if block.groups is not None:
        dropped_rows = DroppedRows(block.groups[drop_mask], np.isnan(block.values[drop_mask]))
    extra_columns = block.extra_columns
    if extra_columns is not None:
        # A pyarrow Table has `take`, a narwhals DataFrame is indexed.
        take = getattr(extra_columns, "take", extra_columns.__getitem__)
        extra_columns = take(kept_offsets)
    return RowBlock(
        first_row=block.first_row,
        values=block.values[kept_offsets],
        groups=select_rows(block.groups, kept_offsets),
        weights=select_rows(block.weights, kept_offsets),
        classes=select_rows(block.classes, kept_offsets),
        clusters=select_rows(block.clusters, kept_offsets),
        n_dropped=int(drop_mask.sum()),
        extra_columns=extra_columns,
        dropped_rows=dropped_rows,
        kept_offsets=kept_offsets,
    )


Column = TypeVar("Column", CodedLabels, FloatArray)


def select_rows(column: Column | None, rows: RowIndex) -> Column | None:
    """Return the labels or weights of some rows, by mask, positions or slice; None if None."""
    return None if column is None else column[rows]
