"""Moments of sparse rows of many features: the rows are kept instead of the p x p matrices."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from fairspan.errors import running_out_told
from fairspan.linalg import GUARD, IterativeSubspace, LeadingSubspace, leading_subspace_of
from fairspan.linalg.machine import check_memory
from fairspan.moments.accumulate import no_rows
from fairspan.moments.group_means import GroupMeans
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import EVERY_ROW, GroupStatistics, Intake, check_sizes
from fairspan.moments.held_rows.sparse_group import SparseGroup, sparse_groups
from fairspan.moments.operators import CANCELLING
from fairspan.moments.running_group import USUAL_LIMIT, GroupLimit
from fairspan.projector import softened
from fairspan.rows.groups import label_array
from fairspan.rows.protocol import block_rows
from fairspan.rows.sparse import SparseRows
from fairspan.typing import AnyArray, FloatArray, IndexArray, IntegerArray

# Features that are zero in every row are left out where they are more than all but this share.
_FEW_USED = 2


@dataclass(frozen=True, eq=False)
class SparseSecondMoments:
    """Second moments of groups of sparse rows about a point, or about each group's own mean.

    Parameters
    ----------
    parts : sequence of SparseGroup
    variances : (k, p) array
        Of each (scaled) feature in each group, about the group's own mean.
    offsets : (k, p) array
        Means of the (scaled) groups minus the point; zero about each group's own mean.
    scale : (p,) array or None
        What the rows are divided by.
    """

    parts: Sequence[SparseGroup]
    variances: FloatArray
    offsets: FloatArray
    scale: FloatArray | None = None
    has_matrices: ClassVar[bool] = False

    @property
    def n_groups(self) -> int:
        """k."""
        return len(self.parts)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.offsets.shape[1])

    @cached_property
    def traces(self) -> FloatArray:
        """tr S_g of each group, shape (k,)."""
        return np.asarray((self.variances + self.offsets**2).sum(axis=1))

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'S_gV), shape (k,)."""
        scaled = self._scaled(basis)
        within = np.array([part.captured(scaled) for part in self.parts])
        return np.asarray(within + ((self.offsets @ basis) ** 2).sum(axis=1))

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - c_g(V) of each group, accurate however little is lost, shape (k,).

        Where nearly everything is captured, the difference would only be rounding; the
        residual of each row has no such cancellation.
        """
        losses = self.traces - self.captured_variances(basis)
        soft = softened(basis)
        for group in np.flatnonzero(losses <= CANCELLING * self.traces):
            losses[group] = self._mean_residual(int(group), soft)
        return np.maximum(losses, 0.0)

    def compressed(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""
        products = basis.T @ self.applied(basis)
        return np.asarray((products + products.transpose(0, 2, 1)) / 2)

    def applied(self, basis: FloatArray) -> FloatArray:
        """S_gV of every group, shape (k, p, d)."""
        return np.array([self._image(group, basis) for group in range(self.n_groups)])

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g, as far as an iteration can tell."""
        return self.sought(weights, n_components, tie_tolerance=tie_tolerance).leading

    def sought(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        tie_tolerance: float = 0.0,
        sum_goal: float | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """The same, with how far the eigenvalue sum may be off.

        Parameters
        ----------
        weights : (k,) array
            Of either sign.
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        tie_tolerance : float
        sum_goal : float, optional
            Enough, as an uncertainty of the eigenvalue sum.
        n_vectors : int, optional
            How many are wanted; some more than d if left out.
        """
        used = self._used
        wanted = max(n_vectors or 0, n_components + GUARD)
        if max(_FEW_USED * len(used), wanted) < self.n_features and len(used) > wanted:
            # Bases of many vectors are then as long as the features that matter.
            return self._narrow.sought(
                weights,
                n_components,
                start=None if start is None else start[used],
                tie_tolerance=tie_tolerance,
                sum_goal=sum_goal,
                n_vectors=n_vectors,
            ).widened(used, self.n_features)
        return leading_subspace_of(
            lambda block: self.mixed(weights, block),
            self.n_features,
            n_components,
            float(np.abs(weights) @ self.traces),
            start=start,
            tie_tolerance=tie_tolerance,
            sum_goal=sum_goal,
            n_vectors=n_vectors,
        )

    @cached_property
    def _used(self) -> IndexArray:
        """Features that are not zero in every row, once moved to the point."""
        return np.flatnonzero((self.variances != 0).any(axis=0) | (self.offsets != 0).any(axis=0))

    @cached_property
    def _narrow(self) -> "SparseSecondMoments":
        """The same without the features that do not matter."""
        used = self._used
        return SparseSecondMoments(
            [part.selected(used) for part in self.parts],
            self.variances[:, used],
            self.offsets[:, used],
            None if self.scale is None else self.scale[used],
        )

    def n_held(self, n_components: int) -> int:
        """How many leading vectors are found with d of them."""
        return min(n_components + GUARD, self.n_features)

    def mixed(self, weights: FloatArray, block: FloatArray) -> FloatArray:
        """sum_g weights_g S_g times a block."""
        images = (
            weights[group] * self._image(group, block) for group in np.flatnonzero(weights).tolist()
        )
        return sum(images, start=np.zeros_like(block))

    def _image(self, group: int, basis: FloatArray) -> FloatArray:
        offset = self.offsets[group]
        within = self._scaled(self.parts[group].applied(self._scaled(basis)))
        return within + np.outer(offset, offset @ basis)

    def _scaled(self, block: FloatArray) -> FloatArray:
        return block if self.scale is None else block / self.scale[:, None]

    def _mean_residual(self, group: int, soft: FloatArray) -> float:
        part, scale = self.parts[group], self.scale
        offset = self.offsets[group] * (1.0 if scale is None else scale)
        total = 0.0
        for rows, weights in part.deviations(part.mean - offset, block_rows(self.n_features)):
            scaled = rows if scale is None else rows / scale
            residuals = scaled - (scaled @ soft) @ soft.T
            total += float(weights @ np.einsum("ij,ij->i", residuals, residuals))
        return total / part.weight


@dataclass(frozen=True, eq=False, repr=False)
class SparseMoments(GroupMeans):
    """Weight, mean and variances of each group of sparse rows, and the rows themselves.

    What a fit needs of :class:`GroupMoments`, without matrices of p x p numbers. It refers to all
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

    groups: AnyArray
    counts: IntegerArray
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
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.array([part.mean for part in parts])
            variances = np.array([part.variances for part in parts])
        check_sizes(means, variances, None, in_part=True)
        return cls(
            label_array([part.label for part in parts]),
            np.array([part.count for part in parts], dtype=np.int64),
            np.array([part.weight for part in parts]),
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

    @running_out_told()
    def matrices(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        check_memory(len(self.parts), self.n_features)
        groups = [part.scattered() for part in self.parts]
        whole = GroupMoments.of(GroupStatistics(groups, self.n_features, None, self.intake))
        return whole if self.scale is None else whole.divided_by(self.scale)
