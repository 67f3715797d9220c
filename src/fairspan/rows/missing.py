"""What is missing in rows, by group and feature, where such rows are left out or completed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.rows.groups import (
    CodedLabels,
    Label,
    is_missing_label,
    to_python_label,
    without_last_attribute,
)
from fairspan.rows.protocol import Rows, RowSource, aggregate
from fairspan.typing import BoolArray, IntegerArray


@dataclass(frozen=True, eq=False)
class MissingCounts:
    """Rows of each group, those that were left out included, and what is missing in them.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    rows, dropped : (k,) arrays of int
        Rows of each group, and those of them that were left out.
    cells : (k, p) array of int
        Rows of each group in which a feature is missing.
    alone : (p,) array of int
        Rows that were left out because of this feature alone.
    n_without_group : int
        Rows without a group.
    """

    groups: tuple[Label, ...]
    n_rows: IntegerArray
    n_dropped: IntegerArray
    n_missing: IntegerArray
    n_dropped_by_feature: IntegerArray
    n_without_group: int


# Of each group: rows, those that were left out, missing cells of each feature, and of each feature
# the rows that were left out because of it alone.
_Counts = dict[Label | None, IntegerArray]


def count_missing(rows: Rows, n_extra_labels: int = 0) -> MissingCounts:
    """Count what is missing, in one pass over all rows, wherever they are.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        With labels; rows in which something is missing are dropped.
    n_beside : int
        How many of the last columns of the labels do not make the groups.
    """
    p = rows.n_features
    found = aggregate(rows, _MissingAggregator(n_extra_labels)) or {}
    zeros = np.zeros(2 + 2 * p, dtype=np.int64)
    unlabelled = found.pop(None, zeros)
    groups: list[Any] = sorted(label for label in found if label is not None)
    counts = np.array([found[group] for group in groups], dtype=np.int64).reshape(-1, 2 + 2 * p)
    return MissingCounts(
        tuple(groups),
        counts[:, 0],
        counts[:, 1],
        counts[:, 2 : 2 + p],
        counts[:, 2 + p :].sum(axis=0),
        int(unlabelled[0]),
    )


@dataclass(frozen=True)
class _MissingAggregator:
    """The pass; see :func:`missing_cells`."""

    n_beside: int

    def aggregate(self, rows: RowSource) -> _Counts:
        """The counts of some rows."""
        total: _Counts = {}
        for block in rows.blocks():
            assert block.group_labels is not None
            kept = np.bincount(
                block.group_labels.codes, minlength=len(block.group_labels.categories)
            )
            for label, n in zip(block.group_labels.categories, kept.tolist(), strict=True):
                self._add_counts(total, label, np.array([n, 0] + [0] * (2 * rows.n_features)))
            missing = np.isnan(block.values)
            if missing.any():  # rows that are kept with missing cells
                self._count_block(
                    total, block.group_labels, missing, np.zeros_like(missing), n_rows=0
                )
            if block.dropped_rows is None:
                continue
            labels, missing = block.dropped_rows
            sole_cause = (
                missing & (missing.sum(axis=1) == 1)[:, None] & ~labels.missing_mask[:, None]
            )
            self._count_block(total, labels, missing, sole_cause, n_rows=1)
        return total

    def _count_block(
        self,
        total: _Counts,
        labels: CodedLabels,
        missing: BoolArray,
        alone: BoolArray,
        *,
        n_rows: int,
    ) -> None:
        """Count missing cells, and each row `n_rows` times as one that was left out."""
        for code, label in enumerate(labels.categories):
            own = labels.codes == code
            counts = [missing[own].sum(axis=0), alone[own].sum(axis=0)]
            self._add_counts(total, label, np.concatenate([[n_rows * own.sum()] * 2, *counts]))

    def merge(self, left: _Counts, right: _Counts) -> _Counts:
        """The counts of both parts."""
        total = dict(left)
        for label, more in right.items():
            total[label] = total[label] + more if label in total else more
        return total

    def _add_counts(self, total: _Counts, label: Any, more: IntegerArray) -> None:
        if not more.any():
            return
        for _ in range(self.n_beside):
            label = without_last_attribute(label)
        key = None if is_missing_label(label) else to_python_label(label)
        total[key] = total[key] + more if key in total else more


def costliest_features(
    found: MissingCounts, names: Sequence[str], most: int = 3
) -> list[tuple[str, int]]:
    """The features because of which alone most rows were left out, and how many these are."""
    order = np.argsort(-found.n_dropped_by_feature, kind="stable")[:most].tolist()
    return [
        (names[column], int(found.n_dropped_by_feature[column]))
        for column in order
        if found.n_dropped_by_feature[column]
    ]
