"""Counts of missing cells and dropped rows, by group and feature."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import Label, is_missing_label, to_python_label
from fairspan.rows.protocol import RowSource
from fairspan.typing import BoolArray, IntegerArray, RawLabel


@dataclass(frozen=True, eq=False)
class MissingCounts:
    """Row and missing-cell counts of each group, dropped rows included.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    n_rows, n_dropped : (k,) arrays of int
        Rows of each group, and how many of them were dropped.
    n_missing : (k, p) array of int
        Rows of each group in which a feature is missing, by feature.
    n_dropped_by_feature : (p,) array of int
        Rows dropped because of this feature alone.
    n_without_group : int
        Rows without a group.
    """

    groups: tuple[Label, ...]
    n_rows: IntegerArray
    n_dropped: IntegerArray
    n_missing: IntegerArray
    n_dropped_by_feature: IntegerArray
    n_without_group: int


# By group, or None for rows without a group, an array of 2 + 2p counts: rows, dropped rows, missing
# cells by feature, and rows dropped because of one feature alone, by feature.
_Counts = dict[Label | None, IntegerArray]


def count_missing(rows: Rows) -> MissingCounts:
    """Count missing cells in one pass over all rows.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with group labels that drop incomplete rows.

    Returns
    -------
    MissingCounts
        Rows, dropped rows and missing cells of each group, and the rows dropped because of each
        feature alone.
    """
    p = rows.n_features
    by_group = aggregate(rows, _MissingAggregator()) or {}
    # Columns of the counts: rows, dropped rows, p of missing cells by feature, and p of rows
    # dropped because of one feature alone. The key None stands for rows without a group.
    zeros = np.zeros(2 + 2 * p, dtype=np.int64)
    unlabeled = by_group.pop(None, zeros)
    groups: list[Label] = sorted(label for label in by_group if label is not None)
    counts = np.array([by_group[group] for group in groups], dtype=np.int64)
    counts = counts.reshape(-1, 2 + 2 * p)
    return MissingCounts(
        groups=tuple(groups),
        n_rows=counts[:, 0],
        n_dropped=counts[:, 1],
        n_missing=counts[:, 2 : 2 + p],
        n_dropped_by_feature=counts[:, 2 + p :].sum(axis=0),
        n_without_group=int(unlabeled[0]),
    )


class _MissingAggregator:
    """Aggregator for :func:`count_missing`."""

    def aggregate(self, rows: RowSource) -> _Counts:
        """Count the rows and missing cells of some rows, by group.

        The counts of a group are an array of 2 + 2p numbers: rows, dropped rows, missing cells by
        feature, and rows dropped because of one feature alone, by feature.
        """
        total: _Counts = {}
        for block in rows.blocks():
            labels = block.groups
            assert labels is not None
            # The rows of a block are those that are kept; `dropped_rows` holds the others.
            n_rows = np.bincount(labels.codes, minlength=len(labels.categories)).tolist()
            for label, n in zip(labels.categories, n_rows, strict=True):
                counts = np.zeros(2 + 2 * rows.n_features, dtype=np.int64)
                counts[0] = n
                self._add_counts(total, label, counts)
            missing = np.isnan(block.values)
            if missing.any():
                # Incomplete rows that are kept: no cell caused a drop, and they have been counted
                # as rows.
                no_drop = np.zeros_like(missing)
                self._count_block(total, labels, missing, sole_cause=no_drop, n_rows=0)
            if block.dropped_rows is not None:
                self._count_dropped(total, *block.dropped_rows)
        return total

    def _count_dropped(self, total: _Counts, labels: CodedLabels, missing: BoolArray) -> None:
        """Count dropped rows, and which feature alone was the cause."""
        has_one_cause = (missing.sum(axis=1) == 1) & ~labels.missing_mask
        sole_cause = missing & has_one_cause[:, None]
        self._count_block(total, labels, missing, sole_cause, n_rows=1)

    def _count_block(
        self,
        total: _Counts,
        labels: CodedLabels,
        missing: BoolArray,
        sole_cause: BoolArray,
        *,
        n_rows: int,
    ) -> None:
        """Add the counts of some rows to `total`, in place.

        Parameters
        ----------
        total : dict of label to (2 + 2p,) array of int
            By group: rows, dropped rows, missing cells by feature, and rows dropped because of one
            feature alone, by feature.
        labels : CodedLabels of r rows
        missing, sole_cause : (r, p) arrays of bool
            Masks of missing cells, and of those that alone caused their row to be dropped.
        n_rows : int
            1 for dropped rows, each of which adds to the rows and to the dropped rows of its group;
            0 for other rows, which have been counted.
        """
        for code, label in enumerate(labels.categories):
            mask = labels.codes == code
            by_feature = [missing[mask].sum(axis=0), sole_cause[mask].sum(axis=0)]
            n_dropped = n_rows * mask.sum()
            counts = np.concatenate([[n_dropped, n_dropped], *by_feature])
            self._add_counts(total, label, counts)

    def merge(self, left: _Counts, right: _Counts) -> _Counts:
        """Add the counts of two parts."""
        total = dict(left)
        for label, counts in right.items():
            total[label] = total[label] + counts if label in total else counts
        return total

    def _add_counts(self, total: _Counts, label: RawLabel, counts: IntegerArray) -> None:
        if not counts.any():  # a category that does not occur
            return
        group = None if is_missing_label(label) else to_python_label(label)
        total[group] = total[group] + counts if group in total else counts


def costliest_features(
    missing: MissingCounts, names: Sequence[str], max_features: int = 3
) -> list[tuple[str, int]]:
    """Return the features that alone cause the most dropped rows, with the number of rows."""
    n_dropped = missing.n_dropped_by_feature
    order = np.argsort(-n_dropped, kind="stable")[:max_features].tolist()
    return [(names[column], int(n_dropped[column])) for column in order if n_dropped[column]]
