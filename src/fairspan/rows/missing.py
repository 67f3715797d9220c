"""Counts of missing cells and dropped rows, by group and feature."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, eq=False)
class _GroupCounts:
    """Counts of the rows of one group, or of the rows without a group.

    Attributes
    ----------
    n_rows, n_dropped : int
        Rows, and how many of them were dropped.
    n_missing : (p,) array of int
        Rows in which a feature is missing, by feature.
    n_sole_causes : (p,) array of int
        Rows dropped because of this feature alone.
    """

    n_rows: int
    n_dropped: int
    n_missing: IntegerArray
    n_sole_causes: IntegerArray

    @classmethod
    def of_complete_rows(cls, n_rows: int, n_features: int) -> "_GroupCounts":
        """Return the counts of rows without missing cells."""
        no_cells = np.zeros(n_features, dtype=np.int64)
        return cls(n_rows, 0, no_cells, no_cells)

    def __add__(self, other: "_GroupCounts") -> "_GroupCounts":
        return _GroupCounts(
            self.n_rows + other.n_rows,
            self.n_dropped + other.n_dropped,
            self.n_missing + other.n_missing,
            self.n_sole_causes + other.n_sole_causes,
        )


# Counts by group; None stands for rows without a group.
_CountsByGroup = dict[Label | None, _GroupCounts]


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
    unlabeled = by_group.pop(None, None)
    groups: list[Label] = sorted(label for label in by_group if label is not None)
    counts = [by_group[group] for group in groups]
    n_missing = np.array([group.n_missing for group in counts], dtype=np.int64)
    n_sole_causes = np.array([group.n_sole_causes for group in counts], dtype=np.int64)
    return MissingCounts(
        groups=tuple(groups),
        n_rows=np.array([group.n_rows for group in counts], dtype=np.int64),
        n_dropped=np.array([group.n_dropped for group in counts], dtype=np.int64),
        n_missing=n_missing.reshape(-1, p),
        n_dropped_by_feature=n_sole_causes.reshape(-1, p).sum(axis=0),
        n_without_group=0 if unlabeled is None else unlabeled.n_rows,
    )


class _MissingAggregator:
    """Aggregator for :func:`count_missing`."""

    def aggregate(self, rows: RowSource) -> _CountsByGroup:
        """Count the rows and missing cells of some rows, by group."""
        total: _CountsByGroup = {}
        for block in rows.blocks():
            assert block.groups is not None
            # The values of a block are those of the rows that are kept.
            self._count_kept_rows(total, block.groups, np.isnan(block.values))
            if block.dropped_rows is not None:
                self._count_dropped_rows(total, *block.dropped_rows)
        return total

    def _count_kept_rows(
        self, total: _CountsByGroup, labels: CodedLabels, missing: BoolArray
    ) -> None:
        """Add the counts of rows that are kept, with an (r, p) mask of missing cells."""
        n_rows = np.bincount(labels.codes, minlength=len(labels.categories)).tolist()
        is_complete = not missing.any()
        for code, label in enumerate(labels.categories):
            counts = _GroupCounts.of_complete_rows(n_rows[code], missing.shape[1])
            if not is_complete:
                n_missing = missing[labels.codes == code].sum(axis=0)
                counts = replace(counts, n_missing=n_missing)
            self._add_counts(total, label, counts)

    def _count_dropped_rows(
        self, total: _CountsByGroup, labels: CodedLabels, missing: BoolArray
    ) -> None:
        """Add the counts of dropped rows, and which feature alone was the cause."""
        has_one_cause = (missing.sum(axis=1) == 1) & ~labels.missing_mask
        is_sole_cause = missing & has_one_cause[:, None]
        for code, label in enumerate(labels.categories):
            mask = labels.codes == code
            n_dropped = int(mask.sum())
            n_missing = missing[mask].sum(axis=0)
            n_sole_causes = is_sole_cause[mask].sum(axis=0)
            counts = _GroupCounts(n_dropped, n_dropped, n_missing, n_sole_causes)
            self._add_counts(total, label, counts)

    def merge(self, left: _CountsByGroup, right: _CountsByGroup) -> _CountsByGroup:
        """Add the counts of two parts."""
        total = dict(left)
        for label, counts in right.items():
            total[label] = total[label] + counts if label in total else counts
        return total

    def _add_counts(self, total: _CountsByGroup, label: RawLabel, counts: _GroupCounts) -> None:
        """Add the counts of rows with a label to those of its group."""
        if not counts.n_rows:  # a category that does not occur
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
