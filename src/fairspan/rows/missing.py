"""What is missing in rows, by group and feature, where such rows are left out or completed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.rows.groups import (
    CodedLabels,
    Label,
    is_missing,
    plain_label,
    without_last_attribute,
)
from fairspan.rows.protocol import Rows, RowSource, tallied
from fairspan.typing import BoolArray, IntegerArray


@dataclass(frozen=True, eq=False)
class MissingCells:
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
    n_unlabelled : int
        Rows without a group.
    """

    groups: tuple[Label, ...]
    rows: IntegerArray
    dropped: IntegerArray
    cells: IntegerArray
    alone: IntegerArray
    n_unlabelled: int


# Of each group: rows, those that were left out, missing cells of each feature, and of each feature
# the rows that were left out because of it alone.
_Counts = dict[Label | None, IntegerArray]


def missing_cells(rows: Rows, n_beside: int = 0) -> MissingCells:
    """Count what is missing, in one pass over all rows, wherever they are.

    Parameters
    ----------
    rows : RowSource or PartedRows
        With labels; rows in which something is missing are dropped.
    n_beside : int
        How many of the last columns of the labels do not make the groups.
    """
    p = rows.n_features
    found = tallied(rows, _MissingTally(n_beside)) or {}
    nothing = np.zeros(2 + 2 * p, dtype=np.int64)
    unlabelled = found.pop(None, nothing)
    groups: list[Any] = sorted(label for label in found if label is not None)
    counts = np.array([found[group] for group in groups], dtype=np.int64).reshape(-1, 2 + 2 * p)
    return MissingCells(
        tuple(groups),
        counts[:, 0],
        counts[:, 1],
        counts[:, 2 : 2 + p],
        counts[:, 2 + p :].sum(axis=0),
        int(unlabelled[0]),
    )


@dataclass(frozen=True)
class _MissingTally:
    """The pass; see :func:`missing_cells`."""

    n_beside: int

    def over(self, rows: RowSource) -> _Counts:
        """The counts of some rows."""
        total: _Counts = {}
        for block in rows.blocks():
            assert block.labels is not None
            kept = np.bincount(block.labels.codes, minlength=len(block.labels.distinct))
            for label, n in zip(block.labels.distinct, kept.tolist(), strict=True):
                self._add(total, label, np.array([n, 0] + [0] * (2 * rows.n_features)))
            missing = np.isnan(block.values)
            if missing.any():  # rows that are kept with missing cells
                self._count(total, block.labels, missing, np.zeros_like(missing), n_rows=0)
            if block.dropped is None:
                continue
            labels, missing = block.dropped
            alone = missing & (missing.sum(axis=1) == 1)[:, None] & ~labels.missing[:, None]
            self._count(total, labels, missing, alone, n_rows=1)
        return total

    def _count(
        self,
        total: _Counts,
        labels: CodedLabels,
        missing: BoolArray,
        alone: BoolArray,
        *,
        n_rows: int,
    ) -> None:
        """Count missing cells, and each row `n_rows` times as one that was left out."""
        for code, label in enumerate(labels.distinct):
            own = labels.codes == code
            counts = [missing[own].sum(axis=0), alone[own].sum(axis=0)]
            self._add(total, label, np.concatenate([[n_rows * own.sum()] * 2, *counts]))

    def merged(self, left: _Counts, right: _Counts) -> _Counts:
        """The counts of both parts."""
        total = dict(left)
        for label, more in right.items():
            total[label] = total[label] + more if label in total else more
        return total

    def _add(self, total: _Counts, label: Any, more: IntegerArray) -> None:
        if not more.any():
            return
        for _ in range(self.n_beside):
            label = without_last_attribute(label)
        key = None if is_missing(label) else plain_label(label)
        total[key] = total[key] + more if key in total else more


def most_costly(found: MissingCells, names: Sequence[str], most: int = 3) -> list[tuple[str, int]]:
    """The features because of which alone most rows were left out, and how many these are."""
    order = np.argsort(-found.alone, kind="stable")[:most].tolist()
    return [(names[column], int(found.alone[column])) for column in order if found.alone[column]]
