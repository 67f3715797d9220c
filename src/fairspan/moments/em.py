"""Maximum-likelihood moments of incomplete rows by the EM algorithm.

The E step is a pass over the rows that sums conditional expectations of rows and of their products
under each group's normal model. The M step turns the sums into new models (Dempster, Laird and
Rubin 1977). The sums are additive, so rows may be partitioned.

If some pair of features is observed together in fewer than p + 2 rows of a group, its correlations
are shrunk towards those of all groups, as if the missing number of rows came from the pooled model.
If all groups together lack rows, the pooled correlations are shrunk towards zero in the same way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairspan.errors import warn
from fairspan.formatting.messages import counted
from fairspan.linalg.symmetric import outer_products
from fairspan.linalg.threads import single_thread_if_small
from fairspan.moments.base_moments import check_magnitudes
from fairspan.moments.fixed_point import CONVERGENCE_TOL, FixedPoint, find_fixed_point
from fairspan.moments.normal_model import RIDGE, IncompleteRows, NormalModel, blocks_to_complete
from fairspan.moments.observed_cells import (
    CHUNK_ENTRIES,
    ChunkReader,
    ObservedAggregator,
    ObservedStatistics,
    check_observed,
    merge_statistics,
)
from fairspan.moments.running_moments import RunningMoments, StackedMoments, stack_by_label
from fairspan.rows.aggregation import Rows, aggregate, as_partitioned
from fairspan.rows.coded_labels import LabelEncoder
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import Label
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.typing import BoolArray, FloatArray, IntegerArray

MAX_SILENT_DISTANCE = 3e-2
"""Distance of models to their limit above which there is a warning, in standard deviations.

Rounding and the number of passes limit it. Smaller distances only enter the resolution of
certificates.
"""


@dataclass(frozen=True, eq=False)
class EMSummary:
    """Summary of the EM fit to incomplete rows.

    Attributes
    ----------
    n_missing_cells : (k,) array of int
        Number of missing cells by group.
    pool_weights : (k,) array
        Weight of the pooled correlations in those of each group, in [0, 1).
    min_pair_counts : (k,) array of int
        Smallest number of rows of each group in which a pair of features is observed together.
    n_passes : int
        Number of EM passes over the rows.
    last_change : float
        Change of the models in the last pass, in standard deviations.
    distance : float
        Estimated distance of the models to the limit of the iteration: root of the sum of squares
        over means and covariances, in standard deviations.
    """

    n_missing_cells: IntegerArray
    pool_weights: FloatArray
    min_pair_counts: IntegerArray
    n_passes: int
    last_change: float
    distance: float = 0.0

    def select_groups(self, mask: BoolArray | Sequence[int]) -> "EMSummary":
        """Select groups by mask or by position."""
        return replace(
            self,
            n_missing_cells=self.n_missing_cells[mask],
            pool_weights=self.pool_weights[mask],
            min_pair_counts=self.min_pair_counts[mask],
        )

    def merge_groups(self, group_of: Sequence[int], n_groups: int) -> "EMSummary":
        """Merge groups: sum missing cells and observed pairs, and take the largest pool weight."""
        n_missing_cells = np.zeros(n_groups, dtype=np.int64)
        np.add.at(n_missing_cells, group_of, self.n_missing_cells)
        pool_weights = np.zeros(n_groups)
        np.maximum.at(pool_weights, group_of, self.pool_weights)
        # A lower bound: the rarest pair need not be the same in all merged groups.
        min_pair_counts = np.zeros(n_groups, dtype=np.int64)
        np.add.at(min_pair_counts, group_of, self.min_pair_counts)
        return replace(
            self,
            n_missing_cells=n_missing_cells,
            pool_weights=pool_weights,
            min_pair_counts=min_pair_counts,
        )


class EMFit(NamedTuple):
    """Moments of incomplete rows, fitted by EM.

    Attributes
    ----------
    stacked : StackedMoments
        A scatter is the group's weight times its covariance.
    n_dropped : int
        Number of rows dropped because they have no group.
    summary : EMSummary
    """

    stacked: StackedMoments
    n_dropped: int
    summary: EMSummary


def fit_em(rows: Rows, limit: GroupLimit, convergence_tol: float = CONVERGENCE_TOL) -> EMFit:
    """Fit the moments of each group by EM: one initial pass, then one pass per step.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with group labels, and NaN in missing cells.
    limit : GroupLimit
        Maximum number of groups, and memory.
    convergence_tol : float
        Distance of the models to their limit at which steps end, in standard deviations.

    Returns
    -------
    EMFit

    Raises
    ------
    InvalidInput
        Invalid rows, a row in which every cell is missing, a column without a value in a group, or
        too many groups.
    """
    with single_thread_if_small(rows.n_features):
        return _fit_em(rows, limit, convergence_tol)


def _fit_em(rows: Rows, limit: GroupLimit, convergence_tol: float) -> EMFit:
    """Fit the moments, see :func:`fit_em`; a model is a mean, stacked on a covariance."""
    with np.errstate(over="ignore", invalid="ignore"):  # detected by check_magnitudes
        cells = aggregate(rows, ObservedAggregator(limit, row_metadata(rows).has_classes))
    if cells is None or not cells.groups:  # no rows, or all were dropped or have weight zero
        n_dropped = 0 if cells is None else cells.n_dropped
        return EMFit(stack_by_label({}, rows.n_features), n_dropped, _EMPTY_SUMMARY)
    # Statistics of the observed cells of each group, in label order.
    statistics = {label: cells.groups[label] for label in sorted(cells.groups)}
    start = _initial_models(statistics, rows.feature_names)
    step = _EMStep.from_groups(rows, statistics)
    result = _iterate(step, start, convergence_tol)
    n_missing_cells = [group.n_missing for group in statistics.values()]
    min_pair_counts = [group.pairs.min() for group in statistics.values()]
    summary = EMSummary(
        n_missing_cells=np.array(n_missing_cells, np.int64),
        pool_weights=step.pool_weights,
        min_pair_counts=np.array(min_pair_counts, np.int64),
        n_passes=result.n_steps,
        last_change=result.last_change,
        distance=result.distance,
    )
    return EMFit(_stack_models(statistics, result.point), cells.n_dropped, summary)


def _initial_models(
    statistics: Mapping[Label, ObservedStatistics], feature_names: tuple[str, ...] | None
) -> FloatArray:
    """Return models with the observed means and variances, without correlations, (k, p + 1, p).

    Raises
    ------
    InvalidInput
        A feature without a value in a group, or magnitudes out of range.
    """
    for label, group in statistics.items():
        check_observed(label, group, feature_names)
    means = np.array([group.means for group in statistics.values()])
    variances = np.array([group.squares / group.weights for group in statistics.values()])
    check_magnitudes(means, variances, feature_names)
    return np.array(
        [
            np.vstack([mean, np.diag(variance)])
            for mean, variance in zip(means, variances, strict=True)
        ]
    )


def _stack_models(
    statistics: Mapping[Label, ObservedStatistics], models: FloatArray
) -> StackedMoments:
    """Return the fitted moments of each group: scatters are weights times covariances."""
    moments: dict[Label, RunningMoments] = {}
    for (label, group), model in zip(statistics.items(), models, strict=True):
        scatter = group.weight * model[1:]
        moments[label] = RunningMoments(
            shift=model[0], count=group.count, weight=group.weight, scatter=scatter
        )
    return stack_by_label(moments, models.shape[2])


_EMPTY_SUMMARY = EMSummary(
    n_missing_cells=np.zeros(0, dtype=np.int64),
    pool_weights=np.zeros(0),
    min_pair_counts=np.zeros(0, dtype=np.int64),
    n_passes=0,
    last_change=0.0,
)


# Models are stored as a (k, p + 1, p) array: the mean of each group, then its covariance.
def _iterate(step: "_EMStep", models: FloatArray, convergence_tol: float) -> FixedPoint:
    """Iterate to the limit of the models; warns if that is not reached."""
    units = _standard_units(models)
    result = find_fixed_point(step, models, units, _are_valid_models, convergence_tol)
    if result.distance > MAX_SILENT_DISTANCE:
        warn(
            f"EM ended after {counted(result.n_steps, 'pass', 'passes')} without convergence: the "
            f"models are up to {result.distance:.0e} standard deviations from their limit, which "
            "certificates allow for. Some features are rarely observed together: exclude one of "
            "them."
        )
    return result


def _are_valid_models(models: FloatArray) -> bool:
    """Return whether all covariances are positive semidefinite, up to the ridge."""
    variances = np.einsum("gjj->gj", models[:, 1:])
    if not np.isfinite(models).all() or (variances < 0).any():
        return False
    correlations = models[:, 1:] / _standard_units(models)[:, 1:]
    return bool((np.linalg.eigvalsh(correlations) >= -RIDGE / 2).all())


def _standard_units(models: FloatArray) -> FloatArray:
    """Standardization units of models, (k, p + 1, p); zero standard deviations count as 1."""
    deviations = np.sqrt(np.einsum("gjj->gj", models[:, 1:]))
    deviations = np.where(deviations > 0, deviations, 1.0)
    return np.concatenate([deviations[:, None], outer_products(deviations)], axis=1)


@dataclass(frozen=True, eq=False)
class _EMStep:
    """One EM step: a pass over the rows and the resulting models.

    Attributes
    ----------
    rows : RowSource or PartitionedRows
    labels : tuple of k labels
    pool_weights : (k,) array
        Weight of the pooled correlations in each group.
    independence_weight : float
        Weight of zero correlations in the pooled ones.
    chunks : list of _PatternedChunk, optional
        All rows, if they are few enough to stay in memory; by default, each step reads them again.
    """

    rows: Rows
    labels: tuple[Label, ...]
    pool_weights: FloatArray
    independence_weight: float
    chunks: "list[_PatternedChunk] | None" = None

    @classmethod
    def from_groups(cls, rows: Rows, groups: Mapping[Label, "ObservedStatistics"]) -> "_EMStep":
        """Derive shrinkage weights from the numbers of rows that observe each pair of features.

        If a pair is observed in few rows, the correlations of the group are shrunk towards those of
        all groups (pool weight), and these towards zero (independence weight). Rows that
        are few, and not partitioned over workers, are read into memory here.
        """
        counts = [observed.count for observed in groups.values()]
        pairs = np.array([observed.pairs for observed in groups.values()])
        pool_weights = [
            _shrinkage_weight(count, group_pairs)
            for count, group_pairs in zip(counts, pairs, strict=True)
        ]
        independence_weight = _shrinkage_weight(sum(counts), pairs.sum(axis=0))
        labels = tuple(groups)
        is_small = sum(counts) * pairs.shape[1] <= CHUNK_ENTRIES
        stays_in_memory = is_small and as_partitioned(rows) is None
        chunks = aggregate(rows, _ChunkCollector(labels)) if stays_in_memory else None
        return cls(rows, labels, np.array(pool_weights), independence_weight, chunks)

    def __call__(self, models: FloatArray) -> FloatArray:
        """Return the next models.

        Models are a (k, p + 1, p) array: the mean of each group, then its covariance.
        """
        # Expected sums of z = (x - mean) / deviation and of zz', standardized by the old models.
        expected = self._expected_sums(models)
        weights = np.array([sums.weight for sums in expected])
        mean_z = np.array([sums.first for sums in expected]) / weights[:, None]
        mean_zz = np.array([sums.second for sums in expected]) / weights[:, None, None]
        deviations = np.sqrt(np.einsum("gjj->gj", models[:, 1:]))
        covariances = outer_products(deviations) * (mean_zz - outer_products(mean_z))
        covariances = (covariances + covariances.transpose(0, 2, 1)) / 2
        if self.pool_weights.any():
            covariances = self._shrink(covariances, weights)
        means = models[:, 0] + deviations * mean_z
        return np.concatenate([means[:, None], covariances], axis=1)

    def _expected_sums(self, models: FloatArray) -> "list[_ExpectedSums]":
        """Return the expected sums of the standardized rows of each group: the E step."""
        normal_models = {
            label: NormalModel(model[0], model[1:])
            for label, model in zip(self.labels, models, strict=True)
        }
        aggregator = _EStepAggregator(normal_models)
        if self.chunks is None:
            sums_by_label = aggregate(self.rows, aggregator)
            assert sums_by_label is not None
        else:
            sums_by_label = aggregator.sum_chunks(self.chunks)
        return [sums_by_label[label] for label in self.labels]

    def _shrink(self, covariances: FloatArray, weights: FloatArray) -> FloatArray:
        """Shrink correlations towards the pooled ones, which are shrunk towards zero."""
        pooled_covariance = np.tensordot(weights, covariances, axes=1)
        pooled_model = NormalModel(np.zeros(len(pooled_covariance)), pooled_covariance)
        correlation = (1 - self.independence_weight) * pooled_model.correlation
        np.fill_diagonal(correlation, 1.0)
        deviations = np.sqrt(np.einsum("gjj->gj", covariances))
        targets = correlation * outer_products(deviations)
        return covariances + self.pool_weights[:, None, None] * (targets - covariances)


def _shrinkage_weight(count: int, pairs: IntegerArray) -> float:
    """Return the weight in [0, 1) of the target towards which correlations are shrunk.

    The target counts as many rows as the least observed of the (p, p) pairs lacks to p + 2. It is
    zero if every pair is observed in all of the `count` rows.
    """
    min_pairs = int(pairs.min())
    n_lacking = max(len(pairs) + 2 - min_pairs, 0) if min_pairs < count else 0
    return n_lacking / (n_lacking + count)


@dataclass(frozen=True, eq=False)
class _PatternedChunk:
    """Rows of one group that are completed together, with their missingness patterns.

    Attributes
    ----------
    label : label of the group
    rows : IncompleteRows
    weights : (n,) array
    """

    label: Label
    rows: IncompleteRows
    weights: FloatArray


@dataclass(frozen=True)
class _ChunkCollector:
    """Aggregator that reads rows into memory."""

    labels: tuple[Label, ...]

    def aggregate(self, rows: RowSource) -> list[_PatternedChunk]:
        """Read some rows."""
        return list(_iterate_chunks(rows, self.labels))

    def merge(
        self, left: list[_PatternedChunk], right: list[_PatternedChunk]
    ) -> list[_PatternedChunk]:
        """Concatenate two lists."""
        return left + right


def _iterate_chunks(rows: RowSource, labels: tuple[Label, ...]) -> Iterator[_PatternedChunk]:
    """Iterate over rows of one group at a time, with their missingness patterns."""
    for chunk in ChunkReader(rows, LabelEncoder(list(labels))).chunks():
        for block in blocks_to_complete(chunk.values):
            incomplete = IncompleteRows.from_values(chunk.values[block])
            yield _PatternedChunk(chunk.label, incomplete, chunk.weights[block])


@dataclass(eq=False)
class _ExpectedSums:
    """Expected sums over the rows of a group, standardized by a normal model.

    Attributes
    ----------
    weight : float
        Total weight of the rows.
    first : (p,) array
        Weighted sum of the rows z.
    second : (p, p) array
        Weighted sum of zz'.
    """

    weight: float
    first: FloatArray
    second: FloatArray

    def merge(self, other: "_ExpectedSums") -> "_ExpectedSums":
        """Add the sums of two parts."""
        return _ExpectedSums(
            self.weight + other.weight, self.first + other.first, self.second + other.second
        )


@dataclass(frozen=True)
class _EStepAggregator:
    """Aggregator of the E step."""

    models: dict[Label, NormalModel]

    def aggregate(self, rows: RowSource) -> dict[Label, _ExpectedSums]:
        """Sum over some rows."""
        return self.sum_chunks(_iterate_chunks(rows, tuple(self.models)))

    def sum_chunks(self, chunks: "Iterable[_PatternedChunk]") -> dict[Label, _ExpectedSums]:
        """Sum over rows whose missingness patterns are known."""
        sums: dict[Label, _ExpectedSums] = {}
        for chunk in chunks:
            completed = self.models[chunk.label].complete(chunk.rows)
            weighted = completed.values * chunk.weights[:, None]
            second = weighted.T @ completed.values + completed.covariance(chunk.weights)
            weight = float(chunk.weights.sum())
            expected = _ExpectedSums(weight, weighted.sum(axis=0), second)
            merge_statistics(sums, chunk.label, expected)
        return sums

    def merge(
        self, left: dict[Label, _ExpectedSums], right: dict[Label, _ExpectedSums]
    ) -> dict[Label, _ExpectedSums]:
        """Add the sums of two parts."""
        sums = dict(left)
        for label, expected in right.items():
            merge_statistics(sums, label, expected)
        return sums
