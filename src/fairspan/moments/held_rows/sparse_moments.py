"""Moments of sparse rows of many features: the rows stay, and stand for the p x p matrices."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.moments.accumulate import no_rows
from fairspan.moments.group_means import GroupMeans
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import EVERY_ROW, GroupStatistics, Intake, check_sizes
from fairspan.moments.held_rows.sparse_group import SparseGroup, sparse_groups
from fairspan.moments.held_rows.sparse_operator import SparseSecondMoments
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import label_array
from fairspan.rows.sparse import SparseRows
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class SparseMoments(GroupMeans):
    """Weight, mean and variances of each group of sparse rows, and the rows themselves.

    What a fit asks of :class:`GroupMoments`, without matrices of p x p numbers. It refers to all
    rows, so it cannot be merged, saved or given away as moments can; `matrices()` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means, variances : (k, p) arrays
        Of each feature in each group, about the group's own mean.
    intake : Intake
    scale : (p,) array or None
        What the rows are divided by.
    """

    matrix_free = True

    groups: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    weights: FloatArray
    means: FloatArray
    variances: FloatArray
    intake: Intake = EVERY_ROW
    scale: FloatArray | None = None
    parts: tuple[SparseGroup, ...] = field(default=(), repr=False)

    @classmethod
    def of_rows(cls, rows: SparseRows, limit: GroupLimit = USUAL_LIMIT) -> "SparseMoments":
        """Moments that refer to these rows.

        Raises
        ------
        InvalidInput
            No rows, a bad label, too many groups, or numbers whose squares overflow.
        """
        groups, intake = sparse_groups(rows, limit)
        if not groups:
            raise no_rows(intake)
        parts = sorted(groups, key=lambda part: part.label)
        weights = [part.weight for part in parts]
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.array([part.mean for part in parts])
            variances = np.array([part.variances for part in parts])
            check_sizes(weights, [np.abs(means), np.sqrt(variances)])
        return cls(
            label_array([part.label for part in parts]),
            np.array([part.count for part in parts], dtype=np.int64),
            np.array(weights),
            means,
            variances,
            intake,
            parts=tuple(parts),
        )

    @property
    def feature_names(self) -> None:
        """Sparse matrices have no names."""
        return

    def operator_about(self, point: FloatArray | None) -> SparseSecondMoments:
        """Second moments about a point, or about each group's own mean if it is None."""
        offsets = np.zeros_like(self.means) if point is None else self.means - point
        return SparseSecondMoments(self.parts, self.variances, offsets, self.scale)

    def divided_by(self, scale: FloatArray) -> "SparseMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return replace(
            self,
            means=self.means / scale,
            variances=self.variances / scale**2,
            scale=scale if self.scale is None else self.scale * scale,
        )

    @property
    def scatters(self) -> FloatArray:
        """(k, p, p) scatters about each group's own mean, computed now: k p^2 numbers."""
        return self.matrices().scatters

    def matrices(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        scattered = [part.scattered() for part in self.parts]
        statistics = GroupStatistics(scattered, self.n_features, None, self.intake)
        whole = GroupMoments.of(statistics)
        return whole if self.scale is None else whole.divided_by(self.scale)
