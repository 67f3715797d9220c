"""The pass of an audit over rows: means and spreads of what projections leave of each row."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan.auditing.cross_fitting import (
    QUANTITIES,
    EvaluatedModel,
    GroupOptima,
    measure_quantities,
)
from fairspan.linalg.resources import single_thread_if_small
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import Reconstructor, squared_residuals
from fairspan.rows.groups import CodedLabels, Folds, Label, LabelEncoder, RowLabels, sort_by_code
from fairspan.rows.protocol import BaseRows, Rows, RowSource, aggregate
from fairspan.typing import FloatArray, IntegerArray

# Fewer rows may be in order by chance.
_MIN_ROWS = 20


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Means over the rows of each group, and how uncertain they are.

    Attributes
    ----------
    means, standard_errors : (m, q, k) arrays
        Of m models and q quantities; weights are taken as sampling weights.
    sizes : (k,) array of int
        How many rows or clusters of each group vary independently.
    kurtosis : (m, q, k) array
        Mean fourth power over squared mean square, of errors about their means and of differences
        of errors, each times the weight of its row; NaN where all are zero.
    training_errors : (m, q, k) array
        What is uncertain beside, as other rows would have given other models: by how much the
        means of folds differ beyond what their rows explain.
    ordered : tuple of int
        Columns whose values all differ and only rise or only fall, as row numbers do.
    freedom : (m, q, k) array or None
        Degrees of freedom of the standard errors, where these are fewer than the sizes less one.
    """

    means: FloatArray
    standard_errors: FloatArray
    n_independent: IntegerArray
    kurtosis: FloatArray
    training_standard_errors: FloatArray
    monotone_columns: tuple[int, ...] = ()
    df_override: FloatArray | None = None

    @property
    def df(self) -> FloatArray:
        """Degrees of freedom of all standard errors, (m, q, k)."""
        if self.df_override is not None:
            return self.df_override
        return np.broadcast_to(np.asarray(self.n_independent - 1.0), self.means.shape)


def compute_row_statistics(
    rows: Rows,
    moments: Moments,
    benchmarks: Sequence[GroupOptima],
    projections: Sequence[EvaluatedModel],
    folds: Folds | None = None,
    *,
    has_y: bool = False,
) -> RowStatistics:
    """Read all rows once, and judge every projection by every row.

    With r_i of row i, r its weighted group mean and n rows of the group, the standard error is
    sqrt(n / (n - 1) sum w_i^2 (r_i - r)^2) / sum w_i, which without weights is s / sqrt(n). Sums
    are taken of the difference from a mean of the moments, so that little cancels. Rows of a
    cluster are summed first.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
    moments : GroupMoments or SparseMoments
        Of the same rows, with k groups.
    benchmarks : sequence of Benchmark
    projections : sequence of m Projections
    folds : Folds, optional
        As the benchmarks were made with; without them, errors alone are measured.
    has_y : bool
        Whether the rows' labels hold, beside the group, the class that a row has in y.
    """
    mean_weights = moments.weights / np.maximum(moments.counts, 1)
    aggregator = RowStatisticsAggregator(
        tuple(moments.labels),
        # Powers of two, so that weights keep their digits.
        np.ldexp(1.0, np.frexp(mean_weights)[1]),
        tuple(benchmarks),
        tuple(projections),
        folds,
        has_y,
    )
    # Products of few features are done before a second thread is awake.
    with single_thread_if_small(rows.n_features):
        sums = aggregate(rows, aggregator)
    assert sums is not None
    return aggregator.finish(sums)


@dataclass(eq=False)
class RunningSums:
    """Sums over rows, so far.

    Attributes
    ----------
    powers : (K, m, q, 5, k) array
        Of w x, w^2, w^2 x, w^2 x^2 and w^4 x^4 in each fold, with x the difference from what the
        moments tell.
    totals : (K, 2, k) array
        Of w, and of the rows.
    clusters : dict of (group, cluster) to (m q + 1,) array
        Of w x and of w, in each cluster.
    order : (4, p) array
        Of each column the first and the last value, and whether it always rises and always falls;
        empty before any row.
    """

    power_sums: FloatArray
    totals: FloatArray
    monotonicity: FloatArray
    cluster_sums: dict[tuple[int, str], FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RowStatisticsAggregator:
    """The pass; see :func:`compute_row_statistics`.

    Attributes
    ----------
    labels : tuple of k labels
    weight_units : (k,) array
        Weights of each group are divided by its unit, so that their fourth powers stay in range.
    benchmarks : tuple of Benchmark
    projections : tuple of Projection
    folds : Folds or None
    has_y : bool
    """

    labels: tuple[Label, ...]
    weight_units: FloatArray
    benchmarks: tuple[GroupOptima, ...]
    projections: tuple[EvaluatedModel, ...]
    folds: Folds | None
    has_y: bool = False

    def aggregate(self, rows: RowSource) -> RunningSums | None:
        """The sums over some rows."""
        coder, k = LabelEncoder(self.labels), len(self.labels)
        n_quantities = len(QUANTITIES) if self.folds else 1
        n_folds = 1 if self.folds is None else self.folds.n_folds
        powers = np.zeros((n_folds, len(self.projections), n_quantities, 5, k))
        sums = RunningSums(powers, np.zeros((n_folds, 2, k)), np.empty((4, 0)))
        references, units = self._reference_means()[:, :n_quantities], self._scales()
        first_position = rows.row_offset if isinstance(rows, BaseRows) else 0
        for block in rows.blocks():
            assert block.group_labels is not None
            if not sums.monotonicity.size or sums.monotonicity[2:].any():
                sums.monotonicity = _merge_monotonicity(
                    sums.monotonicity, _monotonicity(block.values)
                )
            labels = self._assign_folds(block.group_labels, block.first_row, first_position)
            first_position += len(block.values)
            # Rows of weight zero may carry a group that has no other rows, so they go first.
            weighted_rows = np.flatnonzero(
                np.ones(len(block.values)) if block.weights is None else block.weights
            )
            order, slices = sort_by_code(
                coder.encode(labels.groups[weighted_rows], block.first_row) * n_folds
                + labels.folds[weighted_rows]
            )
            for code, slice_ in slices:
                positions = weighted_rows[order[slice_]]
                group, fold = divmod(code, n_folds)
                weights = (
                    np.ones(len(positions)) if block.weights is None else block.weights[positions]
                )
                weights = weights / self.weight_units[group]
                measured = self._measure(block.values[positions], group, fold)
                measured = (measured - references[:, :, group, None]) / units
                clusters = None if labels.clusters is None else labels.clusters[positions]
                _accumulate(sums, measured, weights, (fold, group), clusters)
        return sums

    def merge(self, left: RunningSums, right: RunningSums) -> RunningSums:
        """The sums over both parts."""
        mine, theirs = left.cluster_sums, right.cluster_sums
        both = {key: mine[key] + theirs[key] for key in theirs if key in mine}
        return RunningSums(
            left.power_sums + right.power_sums,
            left.totals + right.totals,
            _merge_monotonicity(left.monotonicity, right.monotonicity),
            {**mine, **theirs, **both},
        )

    def finish(self, sums: RunningSums) -> RowStatistics:
        """Means and standard errors of all rows."""
        _, m, q, _, k = sums.power_sums.shape
        (weight, counts), powers = sums.totals.sum(axis=0), sums.power_sums.sum(axis=0)
        offsets = powers[:, :, 0] / weight
        sum_w2, sum_w2x, sum_w2x2 = (powers[:, :, i] for i in (1, 2, 3))
        squared_deviations = sum_w2x2 - 2 * offsets * sum_w2x + offsets**2 * sum_w2
        sizes = counts.astype(np.int64)
        if self.folds is not None and self.folds.by_cluster:
            squared_deviations, sizes = np.zeros((m, q, k)), np.zeros(k, dtype=np.int64)
            for (group, _), values in sums.cluster_sums.items():
                own = values[:-1].reshape(m, q) - offsets[:, :, group] * values[-1]
                squared_deviations[:, :, group] += own**2
                sizes[group] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            correction = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)
            errors = np.sqrt(np.maximum(squared_deviations, 0.0) * correction) / weight
            kurtosis = counts * powers[:, :, 4] / sum_w2x2**2
        units = self._scales()
        return RowStatistics(
            units * offsets + self._reference_means()[:, :q],
            units * errors,
            sizes,
            kurtosis,
            units * _training_standard_errors(sums, errors),
            tuple(
                np.flatnonzero(
                    sums.monotonicity[2:].any(axis=0) & (counts.sum() >= _MIN_ROWS)
                ).tolist()
            ),
        )

    def _reference_means(self) -> FloatArray:
        """What is near the mean of each quantity, by the moments, (m, 5, k)."""
        found = np.zeros((len(self.projections), len(QUANTITIES), len(self.labels)))
        found[:, :2] = np.array([each.errors for each in self.projections])[:, None]
        return found

    def _scales(self) -> FloatArray:
        """What figures of each model are divided by, so that no power overflows, (m, 1, 1)."""
        largest = [float(each.errors.max()) for each in self.projections]
        return np.array([size if size > 0 else 1.0 for size in largest])[:, None, None]

    def _assign_folds(self, labels: CodedLabels, first_row: int, before: int) -> RowLabels:
        known = (
            RowLabels(labels, np.zeros(len(labels), dtype=np.intp))
            if self.folds is None
            else self.folds.assign(labels, first_row, before)
        )
        if self.has_y:
            known = replace(known, groups=known.groups.without_last_attribute())
        return known

    def _measure(self, values: FloatArray, group: int, fold: int) -> FloatArray:
        """All quantities of rows of one group in one fold, (m, q, r)."""

        def residuals(pairs: Sequence[tuple[GroupOptima, Reconstructor]]) -> FloatArray:
            found, alike = np.empty((len(pairs), len(values))), dict[Any, list[int]]()
            for i, (benchmark, _) in enumerate(pairs):
                alike.setdefault(benchmark.coordinates_key(group), []).append(i)
            for places in alike.values():
                rows = pairs[places[0]][0].center_and_scale(values, group)
                found[places] = squared_residuals(rows, [pairs[i][1] for i in places])
            return found

        if self.folds is None:
            own = [(self.benchmarks[each.optima_index], each.model) for each in self.projections]
            return residuals(own)[:, None]
        return measure_quantities(
            residuals, self.benchmarks, self.projections, group, fold, self.folds.n_folds
        )


def _monotonicity(rows: FloatArray) -> FloatArray:
    """What `Sums.order` says of consecutive rows, (4, p)."""
    if not len(rows):
        return np.empty((4, 0))
    rises, falls = (rows[1:] > rows[:-1]).all(axis=0), (rows[1:] < rows[:-1]).all(axis=0)
    return np.array([rows[0], rows[-1], rises, falls], dtype=np.float64)


def _merge_monotonicity(left: FloatArray, right: FloatArray) -> FloatArray:
    """What `Sums.order` says of both parts, of which the right one follows the left one."""
    if not left.size or not right.size:
        return left if left.size else right
    rises, falls = left[2:] * right[2:] * (left[1] < right[0], left[1] > right[0])
    return np.array([left[0], right[1], rises, falls])


def _training_standard_errors(sums: RunningSums, errors: FloatArray) -> FloatArray:
    """What other rows to fit to would change of each mean, (m, q, k).

    With S^2 the variance of the folds' means and s the standard error that the rows explain: S^2
    less K s^2, if it is positive, times 1 / K + 1 / (K - 1), as the folds' models share most of
    their rows (Nadeau and Bengio 2003).
    """
    weights = sums.totals[:, 0]
    if len(weights) < 2:
        return np.zeros_like(errors)
    means = (
        sums.power_sums[:, :, :, 0] / np.maximum(weights, np.finfo(np.float64).tiny)[:, None, None]
    )
    shares = weights / weights.sum(axis=0)
    mean = np.einsum("fg,fmqg->mqg", shares, means)
    variance = np.einsum("fg,fmqg->mqg", shares, (means - mean) ** 2)
    n_folds = np.maximum((weights > 0).sum(axis=0), 2)
    variance *= n_folds / (n_folds - 1)
    return np.asarray(
        np.sqrt(np.maximum(variance - n_folds * errors**2, 0.0) * (1 / n_folds + 1 / (n_folds - 1)))
    )


def _accumulate(
    sums: RunningSums,
    measured: FloatArray,
    weights: FloatArray,
    place: tuple[int, int],
    clusters: CodedLabels | None,
) -> None:
    """Add rows of one group in one fold, (m, q, r), in place."""
    fold, group = place
    powers, weighted = sums.power_sums[fold], measured * weights
    with np.errstate(over="ignore"):  # of errors that are far apart; these have no kurtosis
        powers[:, :, 0, group] += weighted.sum(axis=2)
        powers[:, :, 1, group] += float(weights @ weights)
        powers[:, :, 2, group] += weighted @ weights
        powers[:, :, 3, group] += (weighted**2).sum(axis=2)
        powers[:, :, 4, group] += (weighted**4).sum(axis=2)
    sums.totals[fold, :, group] += weights.sum(), len(weights)
    if clusters is None:
        return
    weighted_with_weights = np.vstack([weighted.reshape(-1, len(weights)), weights])
    order, places = sort_by_code(clusters.codes)
    for code, own in places:
        key = (group, repr(clusters.categories[code]))
        increment = weighted_with_weights[:, order[own]].sum(axis=1)
        sums.cluster_sums[key] = (
            sums.cluster_sums[key] + increment if key in sums.cluster_sums else increment
        )
