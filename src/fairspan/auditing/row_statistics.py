"""Second pass of an audit: means and standard errors of the rows' squared residuals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairspan.auditing.cross_fitting import (
    EvaluatedModel,
    GroupOptima,
    Quantity,
    measure_quantities,
)
from fairspan.auditing.kept_rows import GroupRows, groups_to_keep
from fairspan.auditing.largest_rows import (
    GroupModel,
    LargestRow,
    RowError,
    describe_largest_rows,
    keep_largest_rows,
    merge_largest_rows,
)
from fairspan.linalg.threads import single_thread_if_small
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Reconstructor, squared_residuals
from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.blocks import RowBlock, select_rows
from fairspan.rows.coded_labels import CodedLabels, LabelEncoder, sort_by_code
from fairspan.rows.folds import Folds
from fairspan.rows.labels import Label
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.typing import FloatArray, IndexArray, IntegerArray

# Minimum number of rows for reporting a monotone column.
_MIN_ROWS = 20


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Means over the rows of each group with their standard errors.

    Attributes
    ----------
    means, standard_errors : (m, q, k) arrays
        For m models, q quantities (:class:`Quantity`; without folds only the first) and k groups.
        Weights are sampling weights.
    n_independent : (k,) array of int
        Number of independent rows or clusters of each group.
    kurtosis : (m, q, k) array
        Kurtosis of the errors (about reference means) and of differences of errors; NaN if all are
        zero.
    training_standard_errors : (m, q, k) array
        Additional standard errors due to the training rows: variation of the folds' means beyond
        what their rows explain.
    monotone_columns : tuple of int
        Strictly monotone columns, such as row numbers.
    df_override : (m, q, k) array or None
        Degrees of freedom if they differ from `n_independent` - 1 (after pooling imputations).
    kept_rows : mapping of int to GroupRows
        Rows of small groups, by index.
    effective_counts : (k,) array or None
        Effective number of rows of each group, (sum of w)^2 / sum of w^2 (Kish 1965), with the
        weights w of rows or clusters; None if these are not known.
    weight_variation : (k,) array or None
        Squared coefficient of variation of w^2, of the same weights: with it varies by how much
        other rows with such weights are effective.
    largest_rows : mapping of GroupModel to LargestRow
        Row with the largest error, for the groups and models of which a few rows dominate it.
    """

    means: FloatArray
    standard_errors: FloatArray
    n_independent: IntegerArray
    kurtosis: FloatArray
    training_standard_errors: FloatArray
    monotone_columns: tuple[int, ...] = ()
    df_override: FloatArray | None = None
    kept_rows: Mapping[int, GroupRows] = field(default_factory=dict)
    effective_counts: FloatArray | None = None
    weight_variation: FloatArray | None = None
    largest_rows: Mapping[GroupModel, LargestRow] = field(default_factory=dict)

    def without_columns(self) -> "RowStatistics":
        """Return the statistics without those about columns, which are not those of the table."""
        largest_rows = {
            key: LargestRow(row.name, row.error_share) for key, row in self.largest_rows.items()
        }
        return replace(self, monotone_columns=(), largest_rows=largest_rows)

    @property
    def df(self) -> FloatArray:
        """Degrees of freedom of the standard errors, (m, q, k)."""
        if self.df_override is not None:
            return self.df_override
        return np.broadcast_to(np.asarray(self.n_independent - 1.0), self.means.shape)


def compute_row_statistics(
    rows: Rows,
    moments: Moments,
    optima: Sequence[GroupOptima],
    models: Sequence[EvaluatedModel],
    folds: Folds | None = None,
) -> RowStatistics:
    """Read all rows once and compute the statistics of every model.

    The statistics are means over the rows of each group, with their standard errors, of the row's
    squared residual and of quantities derived from it (:class:`Quantity`). With r_i the value of
    row i, w_i its weight, r the weighted group mean and n the number of rows of the group,
    the standard error is sqrt(n / (n - 1) sum w_i^2 (r_i - r)^2) / sum w_i; without weights this is
    s / sqrt(n). Sums are taken of deviations from reference means, the errors that are known from
    the moments, to limit cancellation. Rows of a cluster are summed first. With folds, the rows of
    small groups are kept for the loss test.

    Parameters
    ----------
    rows : Rows
    moments : GroupMoments or SparseMoments
        Of the same rows, with k groups.
    optima : sequence of GroupOptima
        Best subspaces of the groups, for each combination of dimension, center and scale.
    models : sequence of m EvaluatedModel
    folds : Folds, optional
        The folds used for the optima; without folds, only errors are measured.
    """
    kept_groups = frozenset[int]()
    if folds is not None:
        kept_groups = groups_to_keep(moments.counts, rows.n_features)
    mean_weights = moments.weights / np.maximum(moments.counts, 1)
    aggregator = RowStatisticsAggregator(
        tuple(moments.labels),
        # Powers of two near the mean weights, so that weights keep their digits.
        weight_units=np.ldexp(1.0, np.frexp(mean_weights)[1]),
        optima=tuple(optima),
        models=tuple(models),
        folds=folds,
        has_clusters=row_metadata(rows).has_clusters,
        kept_groups=kept_groups,
    )
    # For few features, starting threads costs more than the products.
    with single_thread_if_small(rows.n_features):
        sums = aggregate(rows, aggregator)
    assert sums is not None
    statistics = aggregator.finish(sums)
    group_weights = sums.totals[:, 0].sum(axis=0)
    largest_rows = describe_largest_rows(
        sums.largest_rows,
        rows,
        moments,
        optima,
        models,
        total_errors=group_weights * statistics.means[:, Quantity.ERROR],
        kurtosis=statistics.kurtosis[:, Quantity.ERROR],
    )
    return replace(statistics, largest_rows=largest_rows)


@dataclass(eq=False)
class RunningSums:
    """Running sums over rows, for K folds, m models, q quantities and k groups.

    With w the weight of a row in units of its group (`weight_units`) and x its value of a quantity,
    as deviation from the reference mean and divided by the model's scale:

    Attributes
    ----------
    power_sums : (K, m, q, 5, k) array
        Sums of w x, w^2, w^2 x, (w x)^2 and (w x)^4.
    totals : (K, 3, k) array
        Sum of weights w, number of rows, and sum of w^4.
    cluster_sums : dict of (group, cluster) to (m q + 1,) array
        Sums of w x for each model and quantity, and last the sum of w.
    monotonicity : (4, p) array
        First value, last value, whether strictly increasing, and whether strictly decreasing, for
        each column; empty before the first row.
    kept_rows : dict of int to GroupRows
        Rows of the groups to keep, by index.
    largest_rows : dict of GroupModel to RowError
        Row with the largest error of each group under each model.
    """

    power_sums: FloatArray
    totals: FloatArray
    monotonicity: FloatArray
    cluster_sums: dict[tuple[int, str], FloatArray] = field(default_factory=dict)
    kept_rows: dict[int, GroupRows] = field(default_factory=dict)
    largest_rows: dict[GroupModel, RowError] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RowStatisticsAggregator:
    """Aggregator for :func:`compute_row_statistics`.

    Attributes
    ----------
    labels : tuple of k labels
    weight_units : (k,) array
        Weights of each group are divided by its unit, so that their fourth powers stay in range.
    optima : tuple of GroupOptima
    models : tuple of EvaluatedModel
    folds : Folds or None
    has_clusters : bool
        Whether rows of a cluster are dependent, so that they are summed first.
    kept_groups : frozenset of int
        Indices of the groups whose rows are kept.
    """

    labels: tuple[Label, ...]
    weight_units: FloatArray
    optima: tuple[GroupOptima, ...]
    models: tuple[EvaluatedModel, ...]
    folds: Folds | None
    has_clusters: bool
    kept_groups: frozenset[int] = frozenset()

    def aggregate(self, rows: RowSource) -> RunningSums | None:
        """Return the sums over some rows; rows of weight zero count only for monotonicity.

        Each value is summed as its deviation from a reference mean, divided by the model's scale,
        with weights in units of the group: this limits cancellation and overflow. None, which other
        aggregators return for no rows, is never returned.
        """
        n_quantities = len(Quantity) if self.folds else 1
        sums = RunningSums(
            # Five sums of each quantity: of w x, w^2, w^2 x, (w x)^2 and (w x)^4.
            power_sums=np.zeros(
                (self.n_folds, len(self.models), n_quantities, 5, len(self.labels))
            ),
            totals=np.zeros((self.n_folds, 3, len(self.labels))),
            monotonicity=np.empty((4, 0)),
        )
        accumulator = _Accumulator(
            self,
            sums,
            coder=LabelEncoder(self.labels),
            references=self._reference_means()[:, :n_quantities],
            scales=self._scales(),
            row_offset=row_metadata(rows).row_offset,
        )
        for block in rows.blocks():
            accumulator.add_block(block)
        sums.kept_rows = {
            group: GroupRows.concatenate(parts) for group, parts in accumulator.kept_parts.items()
        }
        return sums

    @property
    def n_folds(self) -> int:
        """Number of folds; without folds, all rows are in one."""
        return 1 if self.folds is None else self.folds.n_folds

    def merge(self, left: RunningSums, right: RunningSums) -> RunningSums:
        """Add the sums of two parts, `left` being the one with the earlier rows."""
        left_clusters = left.cluster_sums
        right_clusters = right.cluster_sums
        shared_clusters = {
            key: left_clusters[key] + right_clusters[key]
            for key in right_clusters
            if key in left_clusters
        }
        return RunningSums(
            power_sums=left.power_sums + right.power_sums,
            totals=left.totals + right.totals,
            monotonicity=_merge_monotonicity(left.monotonicity, right.monotonicity),
            cluster_sums={**left_clusters, **right_clusters, **shared_clusters},
            kept_rows=_merge_kept_rows(left.kept_rows, right.kept_rows),
            largest_rows=merge_largest_rows(left.largest_rows, right.largest_rows),
        )

    def finish(self, sums: RunningSums) -> RowStatistics:
        """Compute means and standard errors from the sums.

        The quantities of each row (see :class:`Quantity`) are its squared residuals under a model
        and under refits of it, and differences of such residuals. The sums are of deviations from
        the reference means, which are the known errors of the models for residuals and zero for
        differences of residuals, divided by a scale of each model. So are the `offsets`, the means
        of these deviations, and the standard errors; the result is in units of errors again. Sums
        over all folds have shape (m, q, k), for m models, q quantities (a single one without
        folds) and k groups.
        """
        n_quantities = sums.power_sums.shape[2]
        group_weights, counts, sum_w4 = sums.totals.sum(axis=0)
        power_sums = sums.power_sums.sum(axis=0)
        # In the order of `RunningSums.power_sums`.
        sum_wx, sum_w2, sum_w2x, sum_w2x2, sum_w4x4 = (power_sums[:, :, i] for i in range(5))
        offsets = sum_wx / group_weights
        if self.has_clusters:
            units = _UnitSums.of_clusters(sums, offsets)
        else:
            units = _UnitSums(
                squared_deviations=sum_w2x2 - 2 * offsets * sum_w2x + offsets**2 * sum_w2,
                squared_weights=sum_w2[0, 0],
                fourth_powers=sum_w4,
                counts=counts.astype(np.int64),
            )
        n_independent = units.counts
        with np.errstate(invalid="ignore", divide="ignore"):
            correction = np.where(
                n_independent > 1, n_independent / np.maximum(n_independent - 1, 1), 0.0
            )
            variances = np.maximum(units.squared_deviations, 0.0) * correction
            standard_errors = np.sqrt(variances) / group_weights
            # About the reference mean; NaN if all values equal it.
            kurtosis = counts * sum_w4x4 / sum_w2x2**2
        # Feature columns of the table whose values rise throughout (third row of `monotonicity`)
        # or fall throughout (fourth row), in the order of the rows: they may be row numbers or
        # dates. Columns of few rows may be so by chance.
        is_monotone = sums.monotonicity[2:].any(axis=0) & (counts.sum() >= _MIN_ROWS)
        scales = self._scales()
        return RowStatistics(
            means=scales * offsets + self._reference_means()[:, :n_quantities],
            standard_errors=scales * standard_errors,
            n_independent=n_independent,
            kurtosis=kurtosis,
            # Variation of the means between folds beyond that of their rows.
            training_standard_errors=scales * _training_standard_errors(sums, standard_errors),
            monotone_columns=tuple(np.flatnonzero(is_monotone).tolist()),
            kept_rows=sums.kept_rows,
            effective_counts=group_weights**2 / units.squared_weights,
            weight_variation=n_independent * units.fourth_powers / units.squared_weights**2 - 1,
        )

    def _reference_means(self) -> FloatArray:
        """Return the reference means, (m, 5, k): errors of the models, and zero for differences."""
        means = np.zeros((len(self.models), len(Quantity), len(self.labels)))
        means[:, :2] = np.array([model.errors for model in self.models])[:, None]
        return means

    def _scales(self) -> FloatArray:
        """Scale of each model's values, to avoid overflow of powers, (m, 1, 1)."""
        largest_errors = [float(model.errors.max()) for model in self.models]
        return np.array([error if error > 0 else 1.0 for error in largest_errors])[:, None, None]

    def measure(self, values: FloatArray, group: int, fold: int) -> FloatArray:
        """Measure q quantities of m models for r rows of one group in one fold, (m, q, r).

        The quantities are squared residuals of the rows (under the model, its refit without the
        fold, and the group's best subspaces) and differences of these, see :class:`Quantity`.
        Without folds, only the first quantity, the model's squared residual, is measured.
        """

        def residuals(pairs: Sequence[tuple[GroupOptima, Reconstructor]]) -> FloatArray:
            """Squared residuals under l projections, (l, r); the optima give center and scale."""
            # Center and scale the rows once for all pairs that share both.
            residuals_by_pair = np.empty((len(pairs), len(values)))
            pairs_by_key = dict[object, list[int]]()
            for i, (optima, _) in enumerate(pairs):
                pairs_by_key.setdefault(optima.frame.of_group(group).key, []).append(i)
            for indices in pairs_by_key.values():
                rows = pairs[indices[0]][0].frame.of_group(group).standardize(values)
                residuals_by_pair[indices] = squared_residuals(rows, [pairs[i][1] for i in indices])
            return residuals_by_pair

        if self.folds is None:
            pairs = [(self.optima[model.optima_index], model.model) for model in self.models]
            return residuals(pairs)[:, None]  # with an axis for the single quantity
        return measure_quantities(
            residuals, self.optima, self.models, group, fold, self.folds.n_folds
        )


@dataclass(frozen=True, eq=False)
class _Accumulator:
    """One pass over rows: the sums so far, and what is the same for every block.

    Attributes
    ----------
    aggregator : RowStatisticsAggregator
    sums : RunningSums
        Updated in place.
    coder : LabelEncoder
        Coder of the groups.
    references : (m, q, k) array
        Reference means of q quantities of m models in k groups.
    scales : (m, 1, 1) array
    row_offset : int
        Position in the table of the first row that is read.
    kept_parts : dict of int to list of GroupRows
        Rows of the groups to keep, by index, in parts; updated in place.
    """

    aggregator: RowStatisticsAggregator
    sums: RunningSums
    coder: LabelEncoder
    references: FloatArray
    scales: FloatArray
    row_offset: int
    kept_parts: dict[int, list[GroupRows]] = field(default_factory=dict)

    def add_block(self, block: RowBlock) -> None:
        """Add a block of rows to the sums, cell by cell.

        A cell is a pair of a group and a fold, whose rows share center and refits.
        """
        assert block.groups is not None
        self._add_monotonicity(block.values)
        folds = np.zeros(len(block.values), dtype=np.intp)
        if self.aggregator.folds is not None:
            folds = self.aggregator.folds.assign(block.positions, block.clusters, self.row_offset)
        # Drop rows of weight zero first: their group may have no other rows.
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        weighted_rows = np.flatnonzero(weights)
        group_codes = self.coder.encode(block.groups[weighted_rows], block.first_row)
        n_folds = self.aggregator.n_folds
        order, slices = sort_by_code(group_codes * n_folds + folds[weighted_rows])
        for code, slice_ in slices:
            group, fold = divmod(code, n_folds)
            positions = weighted_rows[order[slice_]]
            self._add_cell(block, positions, weights[positions], group, fold)

    def _add_monotonicity(self, values: FloatArray) -> None:
        """Update which columns are increasing or decreasing so far."""
        sums = self.sums
        # The last two rows of the monotonicity tell that. Once no column is either, further blocks
        # cannot change it.
        if not sums.monotonicity.size or sums.monotonicity[2:].any():
            sums.monotonicity = _merge_monotonicity(sums.monotonicity, _monotonicity(values))

    def _add_cell(
        self, block: RowBlock, positions: IndexArray, weights: FloatArray, group: int, fold: int
    ) -> None:
        """Add the rows of one group in one fold, by their positions in a block."""
        weights = weights / self.aggregator.weight_units[group]
        rows = block.values[positions]
        values = self.aggregator.measure(rows, group, fold)
        keep_largest_rows(
            self.sums.largest_rows,
            group,
            weighted_errors=values[:, Quantity.ERROR] * weights,
            values=rows,
            positions=self.row_offset + block.positions[positions],
        )
        deviations = (values - self.references[:, :, group, None]) / self.scales
        clusters = select_rows(block.clusters, positions)
        _accumulate(self.sums, deviations, weights, fold, group, clusters)
        if group in self.aggregator.kept_groups:
            kept = GroupRows(rows, weights, _cluster_keys(clusters))
            self.kept_parts.setdefault(group, []).append(kept)


@dataclass(frozen=True, eq=False)
class _UnitSums:
    """Sums over the independent units of each group: its rows, or its clusters of rows.

    The weight of a cluster is the sum of the weights w of its rows, and its deviation the sum of
    w (x - offset).

    Attributes
    ----------
    squared_deviations : (m, q, k) array
        Sums of the squared deviations, for m models, q quantities and k groups.
    squared_weights, fourth_powers : (k,) arrays
        Sums of the second and of the fourth powers of the weights.
    counts : (k,) array of int
        Number of units.
    """

    squared_deviations: FloatArray
    squared_weights: FloatArray
    fourth_powers: FloatArray
    counts: IntegerArray

    @classmethod
    def of_clusters(cls, sums: RunningSums, offsets: FloatArray) -> "_UnitSums":
        """Sum over clusters, about the (m, q, k) offsets of the groups."""
        n_models, n_quantities, n_groups = offsets.shape
        squared_deviations = np.zeros_like(offsets)
        squared_weights = np.zeros(n_groups)
        fourth_powers = np.zeros(n_groups)
        counts = np.zeros(n_groups, dtype=np.int64)
        for (group, _), values in sums.cluster_sums.items():
            # Sums of w x over the cluster for each model and quantity, and last the sum of w.
            weight = values[-1]
            deviations = values[:-1].reshape(n_models, n_quantities) - offsets[:, :, group] * weight
            squared_deviations[:, :, group] += deviations**2
            squared_weights[group] += weight**2
            fourth_powers[group] += weight**4
            counts[group] += 1
        return cls(squared_deviations, squared_weights, fourth_powers, counts)


def _monotonicity(rows: FloatArray) -> FloatArray:
    """`RunningSums.monotonicity` of consecutive rows, (4, p); (4, 0) if there are none."""
    if not len(rows):
        return np.empty((4, 0))
    rises = (rows[1:] > rows[:-1]).all(axis=0)
    falls = (rows[1:] < rows[:-1]).all(axis=0)
    return np.array([rows[0], rows[-1], rises, falls], dtype=np.float64)


def _merge_monotonicity(left: FloatArray, right: FloatArray) -> FloatArray:
    """Combine the monotonicity of two consecutive parts."""
    if not left.size:
        return right
    if not right.size:
        return left
    last_of_left = left[1]
    first_of_right = right[0]
    rises = left[2] * right[2] * (last_of_left < first_of_right)
    falls = left[3] * right[3] * (last_of_left > first_of_right)
    return np.array([left[0], right[1], rises, falls])


def _cluster_keys(clusters: CodedLabels | None) -> list[str]:
    """Return the label of each row's cluster as text; empty without clusters."""
    if clusters is None:
        return []
    # As text, since some labels are equal as keys, such as 1 and True.
    keys = [repr(label) for label in clusters.categories]
    return [keys[code] for code in clusters.codes.tolist()]


def _merge_kept_rows(
    left: Mapping[int, GroupRows], right: Mapping[int, GroupRows]
) -> dict[int, GroupRows]:
    """Combine the kept rows of two parts by group."""
    groups = sorted({*left, *right})
    return {
        group: GroupRows.concatenate([part[group] for part in (left, right) if group in part])
        for group in groups
    }


def _training_standard_errors(sums: RunningSums, standard_errors: FloatArray) -> FloatArray:
    """Return the standard error of each mean due to the choice of training rows, (m, q, k).

    There is a mean for each of m models, q quantities and k groups. Its variation between the folds
    beyond what their rows explain is due to the refits. With S^2 the variance of the means in K
    folds and s the standard error from the rows (`standard_errors`, as are the sums, in scaled
    units), the squared standard error is the positive part of S^2 - K s^2 times
    1 / K + 1 / (K - 1), since the folds' models share most of their training rows (Nadeau and
    Bengio 2003). Zero without folds.
    """
    weights = sums.totals[:, 0]
    if len(weights) < 2:
        return np.zeros_like(standard_errors)
    divisors = np.maximum(weights, np.finfo(np.float64).tiny)
    # Means by fold, from the sums of w x, and over all folds.
    means = sums.power_sums[:, :, :, 0] / divisors[:, None, None]
    shares = weights / weights.sum(axis=0)
    mean = np.einsum("fg,fmqg->mqg", shares, means)
    variance = np.einsum("fg,fmqg->mqg", shares, (means - mean) ** 2)
    # Number of folds with rows of the group; with a single one, the variance is zero.
    n_folds = np.maximum((weights > 0).sum(axis=0), 2)
    variance *= n_folds / (n_folds - 1)
    excess_variance = np.maximum(variance - n_folds * standard_errors**2, 0.0)
    return np.asarray(np.sqrt(excess_variance * (1 / n_folds + 1 / (n_folds - 1))))


def _accumulate(
    sums: RunningSums,
    values: FloatArray,
    weights: FloatArray,
    fold: int,
    group: int,
    clusters: CodedLabels | None,
) -> None:
    """Add r rows of one group in one fold to `sums`, in place.

    The five power sums are those of w x, w^2, w^2 x, (w x)^2 and (w x)^4. With clusters, the sums
    of w x and of w over each cluster are kept as well.

    Parameters
    ----------
    sums : RunningSums
    values : (m, q, r) array
        Deviations x of each row's quantities from the reference means, in scaled units, for m
        models and q quantities.
    weights : (r,) array
        Weights w in units of the group.
    fold, group : int
    clusters : CodedLabels of r rows, or None
    """
    power_sums = sums.power_sums[fold]
    weighted_values = values * weights
    # Powers of widely spread errors may overflow, which then have no valid kurtosis.
    with np.errstate(over="ignore"):
        power_sums[:, :, 0, group] += weighted_values.sum(axis=2)
        power_sums[:, :, 1, group] += float(weights @ weights)
        power_sums[:, :, 2, group] += weighted_values @ weights
        power_sums[:, :, 3, group] += (weighted_values**2).sum(axis=2)
        power_sums[:, :, 4, group] += (weighted_values**4).sum(axis=2)
    sums.totals[fold, :, group] += weights.sum(), len(weights), float((weights**4).sum())
    if clusters is None:
        return
    # Rows of the matrix: w x for each model and quantity, and last w.
    weighted_with_weights = np.vstack([weighted_values.reshape(-1, len(weights)), weights])
    order, slices = sort_by_code(clusters.codes)
    for code, slice_ in slices:
        # As text, since some labels are equal as keys, such as 1 and True.
        key = (group, repr(clusters.categories[code]))
        increment = weighted_with_weights[:, order[slice_]].sum(axis=1)
        if key in sums.cluster_sums:
            increment = sums.cluster_sums[key] + increment
        sums.cluster_sums[key] = increment
