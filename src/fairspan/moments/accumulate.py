"""Blocks of rows become moments: centred first, merged exactly, summed in float64."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput
from fairspan.moments.folds import folded
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.groups import LabelCoder
from fairspan.moments.intake import EVERY_ROW, Intake
from fairspan.moments.one_group import OneGroup
from fairspan.moments.running_group import RunningGroup
from fairspan.moments.sources.protocol import OwnMoments, RowBlock, Rows, RowSource
from fairspan.moments.uncentred import HeldRows, uncentred_groups

FloatArray = npt.NDArray[np.float64]


def accumulate(rows: Rows) -> GroupMoments:
    """Read all rows once and return the moments of each group.

    Rows of weight zero count as absent.

    Parameters
    ----------
    rows : RowSource or PartedRows
        With labels.

    Returns
    -------
    GroupMoments

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; numbers whose squares
        overflow.
    """
    moments = folded(rows, MomentsFold())
    if moments is None or moments.n_groups == 0:
        raise no_rows(EVERY_ROW if moments is None else moments.intake)
    return moments


def no_rows(intake: Intake) -> InvalidInput:
    """What to raise where no row is left, or none that counts."""
    left_out = f" ({intake})" if str(intake) else ""
    return InvalidInput(
        f"There are no rows{left_out}",
        "Allowed is at least one row of a weight above zero",
        "Check the file, the filter or the weights",
    )


@dataclass(frozen=True)
class MomentsFold:
    """The pass that every fit makes: rows to moments."""

    def over(self, rows: RowSource) -> GroupMoments | None:
        """Moments of some rows; None if there are none."""
        if isinstance(rows, OwnMoments):
            return rows.moments()
        if isinstance(rows, HeldRows) and rows.is_plain:
            groups = _at_once(rows)
            if groups is not None:
                return GroupMoments.from_groups(
                    groups, rows.n_features, rows.feature_names, EVERY_ROW
                )
        running = RunningMoments(rows.feature_names)
        for block in rows.blocks():
            running.absorb(block)
        return running.finished()

    def merged(self, left: GroupMoments, right: GroupMoments) -> GroupMoments:
        """Moments of both parts."""
        return left + right

    def to_bytes(self, result: GroupMoments) -> bytes:
        """Moments as bytes."""
        return result.to_bytes()

    def from_bytes(self, contents: bytes) -> GroupMoments:
        """The moments again."""
        return GroupMoments.from_bytes(contents)


def _at_once(rows: HeldRows) -> list[OneGroup] | None:
    """Moments at the speed of one matrix product; None where rows must be looked at in order.

    That finds the first mistake, whether in a label or in a number.
    """
    try:
        groups = uncentred_groups(rows)
    except InvalidInput:
        return None
    if groups is None:
        return None
    finite = all(np.isfinite(np.diagonal(group.scatter)).all() for group in groups)
    return groups if finite else None


class RunningMoments:
    """Moments of all groups so far.

    Parameters
    ----------
    feature_names : tuple of str or None
    """

    def __init__(self, feature_names: tuple[str, ...] | None) -> None:
        self._feature_names = feature_names
        self._coder = LabelCoder()
        self._groups: list[RunningGroup] = []
        self._n_dropped = 0
        self._n_features = 0

    def absorb(self, block: RowBlock) -> None:
        """Add a block of rows."""
        values, weights = block.values, block.weights
        self._n_dropped += block.n_dropped
        self._n_features = values.shape[1]
        if block.labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed is a label for each row", "Name a group"
            )
        codes = self._coder.encode(block.labels, block.first_row)
        if weights is not None and not weights.all():
            present = weights > 0
            values, weights, codes = values[present], weights[present], codes[present]
        new = range(len(self._groups), len(self._coder.labels))
        self._groups += [RunningGroup(self._n_features) for _ in new]
        sizes = np.bincount(codes, minlength=len(self._groups))
        # Rows of one group side by side; bytes are sorted by counting, not by comparing.
        order = np.argsort(codes.astype(np.uint8) if len(sizes) <= 256 else codes, kind="stable")
        rows = np.take(values, order, axis=0)
        weights = None if weights is None else weights[order]
        ends = np.cumsum(sizes)
        with np.errstate(over="ignore", invalid="ignore"):  # found when the groups are put together
            for code in np.flatnonzero(sizes):
                own = slice(ends[code] - sizes[code], ends[code])
                self._groups[code].absorb(rows[own], None if weights is None else weights[own])

    def finished(self) -> GroupMoments | None:
        """The moments; None if there were no rows, of no group if all of them were left out."""
        parts = [
            group.finished(label)
            for label, group in zip(self._coder.labels, self._groups, strict=False)
            if group.count
        ]
        if not parts and not self._n_dropped:
            return None
        return GroupMoments.from_groups(
            parts, self._n_features, self._feature_names, Intake(self._n_dropped)
        )
