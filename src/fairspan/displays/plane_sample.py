"""Sample of rows in the plane of two components, with moment sums of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.model.subspace import FairSubspace
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import LabelEncoder
from fairspan.rows.labels import Label
from fairspan.rows.protocol import RowSource
from fairspan.typing import FloatArray, IndexArray


class PlaneMoments(NamedTuple):
    """Moments of groups in the plane of two components.

    Attributes
    ----------
    groups : (g,) array of int
        Indices of the groups with rows.
    means : (g, 2) array
    covariances : (g, 2, 2) array
    """

    groups: IndexArray
    means: FloatArray
    covariances: FloatArray


class PlaneSample(NamedTuple):
    """Rows in the plane of two components: moment sums of all rows and a subsample of points.

    Attributes
    ----------
    n_rows : int
        Number of all rows with weight.
    moment_sums : (k, 3, 3) array
        Sum over all rows of each group of the weighted outer products of (1, x, y).
    priorities : (n,) array
        Random priorities of the points, in [0, 1); of each group, the points with the smallest are
        kept.
    group_codes : (n,) array of int
        Group of each point, as an index of the k groups.
    points : (n, 2) array
        The sampled rows (x, y) in the plane; at most as many as requested.
    """

    n_rows: int
    moment_sums: FloatArray
    priorities: FloatArray
    group_codes: IndexArray
    points: FloatArray

    def group_moments(self) -> "PlaneMoments":
        """Return the weighted means and covariances of the groups with rows."""
        # The first entry of each sum is the total weight of the group.
        present = np.flatnonzero(self.moment_sums[:, 0, 0])
        mean_products = self.moment_sums[present] / self.moment_sums[present, :1, :1]
        means = mean_products[:, 0, 1:]
        covariances = mean_products[:, 1:, 1:] - np.einsum("gi,gj->gij", means, means)
        return PlaneMoments(present, means, covariances)

    def subsample(self, max_points: int) -> Self:
        """Keep at most `max_points` points, in row order; the moment sums are unchanged.

        Groups get equal numbers as far as they have rows; unused slots go to other groups. Of each
        group, the points with the smallest of the random priorities are kept. Therefore a point
        that is kept of all rows is also kept of its part, and parts can be subsampled before they
        are merged.
        """
        # Order the points by group, and within a group by priority.
        by_group = np.lexsort((self.priorities, self.group_codes))
        sorted_codes = self.group_codes[by_group]
        # The rank is the position after the first point of the same group.
        rank_in_group = np.empty(len(by_group), dtype=np.intp)
        rank_in_group[by_group] = np.arange(len(by_group)) - np.searchsorted(
            sorted_codes, sorted_codes
        )
        # Take the first point of every group, then the second of every group, and so on.
        round_robin = np.lexsort((self.group_codes, rank_in_group))
        selected = np.sort(round_robin[:max_points])
        return self._replace(
            priorities=self.priorities[selected],
            group_codes=self.group_codes[selected],
            points=self.points[selected],
        )


def point_columns(
    points: FloatArray, codes: IndexArray, groups: Sequence[str]
) -> dict[str, Sequence[object]]:
    """Return columns with the group and the coordinates of each point.

    Parameters
    ----------
    points : (n, 2) array
    codes : (n,) array of int
        Index of the group of each point.
    groups : sequence of k str
    """
    return {
        "group": [groups[g] for g in codes],
        "component 1": points[:, 0].tolist(),
        "component 2": points[:, 1].tolist(),
    }


@dataclass(frozen=True, eq=False)
class PlaneSampleAggregator:
    """Aggregator that computes a `PlaneSample`.

    Attributes
    ----------
    subspace : FairSubspace
        Subspace with at least two components.
    labels : tuple of k labels
    max_points : int
        Maximum number of points to keep.
    seed : int
    """

    subspace: FairSubspace
    labels: tuple[Label, ...]
    max_points: int
    seed: int

    def aggregate(self, rows: RowSource) -> PlaneSample | None:
        """Sample some rows block by block, and sum their moments; None if there are no blocks."""
        rng = np.random.default_rng(self.seed)
        encoder = LabelEncoder(self.labels)
        parts = (self._aggregate_block(block, encoder, rng) for block in rows.blocks())
        return reduce(self.merge, parts, None)

    def merge(self, left: PlaneSample | None, right: PlaneSample) -> PlaneSample:
        """Merge the results of two parts, and sample the points again; None is an empty part."""
        if left is None:
            return right
        both = PlaneSample(
            n_rows=left.n_rows + right.n_rows,
            moment_sums=left.moment_sums + right.moment_sums,
            priorities=np.concatenate([left.priorities, right.priorities]),
            group_codes=np.concatenate([left.group_codes, right.group_codes]),
            points=np.concatenate([left.points, right.points]),
        )
        return both.subsample(self.max_points)

    def _aggregate_block(
        self, block: RowBlock, encoder: LabelEncoder, rng: np.random.Generator
    ) -> PlaneSample:
        """Project one block of rows, sum their moments and sample the points.

        Rows of weight zero are skipped; the points kept do not depend on the weights otherwise. The
        sample consists of the points with the smallest random priorities of each group.
        """
        if block.groups is None:
            raise InvalidInput(
                "The rows have no groups",
                "Allowed: rows with a group label each",
                "Open them with the name of the group column",
            )
        subspace = self.subspace
        # Drawn for all rows of the block, also for those without weight, so that weights do not
        # change the priorities of other rows.
        priorities = rng.random(len(block.values))
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        present = np.flatnonzero(weights)
        # The position of the first row is for error messages.
        codes = encoder.encode(block.groups, block.first_row)[present]
        rows = subspace.row_frame.standardize(block.values[present])
        # Scores of the first two components: rows are centered and scaled as in the fit.
        points = rows @ subspace.components[:2].T
        # Weighted sums of the products of (1, x, y): total weights, sums of points and of squares.
        with_one = np.column_stack([np.ones(len(points)), points])
        products = np.einsum("n,ni,nj->nij", weights[present], with_one, with_one)
        moment_sums = np.zeros((len(self.labels), 3, 3))
        np.add.at(moment_sums, codes, products)
        sample = PlaneSample(
            n_rows=len(present),
            moment_sums=moment_sums,
            priorities=priorities[present],
            group_codes=codes,
            points=points,
        )
        return sample.subsample(self.max_points)
