"""Blocks of validated rows."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.validation import to_finite_float64, to_float64_with_missing, to_numeric
from fairspan.typing import AnyArray, BoolArray, FloatArray

# Entries of one block (2 MB of float64): large enough for matrix products at full speed, small
# enough to stay in cache.
_BLOCK_ENTRIES = 2**18
# Minimum rows of one block, so that the overhead per block is negligible.
_MIN_BLOCK_ROWS = 512
# Maximum entries of one block (32 MB). An update of a p x p matrix is limited by memory bandwidth,
# so about 2 p rows are used per update if this allows.
_MAX_BLOCK_ENTRIES = 2**22
OnMissing = Literal["error", "drop", "drop without group", "em", "em-drop-empty"]
ON_MISSING = ("error", "drop", "em", "em-drop-empty")
# Values of `on_missing` with which rows keep missing cells, as NaN.
KEEPING_MISSING = ("em", "em-drop-empty")


class DroppedRows(NamedTuple):
    """Rows of a block that were dropped because of missing values.

    Attributes
    ----------
    group_labels : CodedLabels of n_dropped rows
    missing : (n_dropped, p) array of bool
        Mask of their missing features.
    """

    group_labels: CodedLabels
    missing: BoolArray


@dataclass(frozen=True)
class RowBlock:
    """A block of consecutive rows.

    Attributes
    ----------
    first_row : int
        Position of the first row in the whole table, counted from 0.
    values : (r, p) array
        Finite float64; NaN marks missing cells if the source keeps them. May be a view of the
        user's data: do not modify.
    group_labels : CodedLabels of r rows, or None
        Group label of each row; None if the source has no groups.
    weights : (r,) array or None
    n_dropped : int
        Number of rows of this block that were dropped because of missing values.
    extra_columns : pyarrow Table or narwhals DataFrame of r rows, or None
        Requested columns that are passed through unchanged.
    dropped_rows : DroppedRows or None
    """

    first_row: int
    values: FloatArray
    group_labels: CodedLabels | None
    weights: FloatArray | None
    n_dropped: int = 0
    extra_columns: Any = None
    dropped_rows: DroppedRows | None = None


def rows_per_block(n_features: int) -> int:
    """Return the number of rows in one block of p features."""
    max_rows = max(_MAX_BLOCK_ENTRIES // n_features, _MIN_BLOCK_ROWS)
    return max(_BLOCK_ENTRIES // n_features, min(2 * n_features, max_rows), _MIN_BLOCK_ROWS)


def make_row_block(
    first_row: int,
    values: AnyArray,
    labels: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
    extra_columns: Any = None,
) -> RowBlock:
    """Make a block of validated rows, dropping incomplete ones as `on_missing` says.

    Parameters
    ----------
    first_row : int
        Position of the first row in the whole table.
    values : (r, p) array
        Values that are not validated yet; NaN marks missing cells.
    labels : CodedLabels of r rows, or None
    weights : (r,) array or None
    feature_names : tuple of str or None
        For error messages.
    on_missing : {"error", "drop", "drop without group", "em", "em-drop-empty"}
        "error" drops no row, and a missing cell raises; missing labels are left to the
        `LabelEncoder`. All others drop rows without a group. "drop" also drops rows with a missing
        cell. "drop without group" raises for missing cells of other rows. The last two keep missing
        cells as NaN; of rows in which every feature is missing, "em" raises for the first, and
        "em-drop-empty" drops all.
    extra_columns : pyarrow Table or narwhals DataFrame of r rows, or None

    Raises
    ------
    InvalidInput, InvalidType
        Same as for :func:`to_finite_float64`: infinity is not a missing cell, and raises unless its
        row is dropped. With "em", also a row in which every feature is missing.
    """
    if on_missing == "error":
        values = to_finite_float64(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, extra_columns=extra_columns)
    values = to_numeric(values)
    drop_mask = _drop_mask(values, labels, on_missing)
    n_dropped = int(drop_mask.sum())
    check = to_float64_with_missing if on_missing in KEEPING_MISSING else to_finite_float64
    if not n_dropped:
        values = check(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, extra_columns=extra_columns)
    # Validate before dropping rows, so that errors name the row of the original table. Zeros stand
    # for the rows to drop, since these may be incomplete.
    check(np.where(drop_mask[:, None], 0, values), first_row, feature_names)
    keep_mask = ~drop_mask
    dropped_rows = None
    if labels is not None:
        dropped_rows = DroppedRows(labels[drop_mask], np.isnan(values[drop_mask]))
        labels = labels[keep_mask]
    if weights is not None:
        weights = weights[keep_mask]
    if extra_columns is not None:
        # A pyarrow Table has `take`, a narwhals DataFrame is indexed.
        take = getattr(extra_columns, "take", extra_columns.__getitem__)
        extra_columns = take(np.flatnonzero(keep_mask))
    # Validated above: this only converts them to float64.
    values = check(values[keep_mask], first_row, feature_names)
    return RowBlock(first_row, values, labels, weights, n_dropped, extra_columns, dropped_rows)


def _drop_mask(values: AnyArray, labels: CodedLabels | None, on_missing: OnMissing) -> BoolArray:
    """Return the mask of the rows to drop, shape (r,)."""
    mask = np.zeros(len(values), dtype=bool) if labels is None else labels.missing_mask
    if on_missing == "drop":
        mask |= np.isnan(values).any(axis=1)
    if on_missing == "em-drop-empty":
        mask |= np.isnan(values).all(axis=1)
    return mask
