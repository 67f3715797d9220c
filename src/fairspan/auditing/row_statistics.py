"""The pass of an audit over rows: means and spreads of what projections leave of each row."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan.auditing.cross_fitting import (
    QUANTITIES,
    Benchmark,
    Projection,
    measured_by,
)
from fairspan.linalg.resources import threads_for
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import Reconstructs, squared_residuals
from fairspan.rows.groups import CodedLabels, FoldedLabels, Folds, Label, LabelCoder, side_by_side
from fairspan.rows.protocol import KnownRows, Rows, RowSource, tallied
from fairspan.typing import FloatArray, IntegerArray

# Fewer rows may be in order by chance.
_FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class RowFigures:
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
    sizes: IntegerArray
    kurtosis: FloatArray
    training_errors: FloatArray
    ordered: tuple[int, ...] = ()
    freedom: FloatArray | None = None

    @property
    def degrees(self) -> FloatArray:
        """Degrees of freedom of all standard errors, (m, q, k)."""
        if self.freedom is not None:
            return self.freedom
        return np.broadcast_to(np.asarray(self.sizes - 1.0), self.means.shape)


def row_figures(
    rows: Rows,
    moments: Moments,
    benchmarks: Sequence[Benchmark],
    projections: Sequence[Projection],
    folds: Folds | None = None,
    *,
    has_labels: bool = False,
) -> RowFigures:
    """Read all rows once, and judge every projection by every row.

    With r_i of row i, r its weighted group mean and n rows of the group, the standard error is
    sqrt(n / (n - 1) sum w_i^2 (r_i - r)^2) / sum w_i, which without weights is s / sqrt(n). Sums
    are taken of the difference from a mean of the moments, so that little cancels. Rows of a
    cluster are summed first.

    Parameters
    ----------
    rows : RowSource or PartedRows
    moments : GroupMoments or SparseMoments
        Of the same rows, with k groups.
    benchmarks : sequence of Benchmark
    projections : sequence of m Projections
    folds : Folds, optional
        As the benchmarks were made with; without them, errors alone are measured.
    has_labels : bool
        Whether the rows' labels hold, beside the group, the class that a row has in y.
    """
    mean_weights = moments.weights / np.maximum(moments.counts, 1)
    seen = RowStatistics(
        tuple(moments.labels),
        # Powers of two, so that weights keep their digits.
        np.ldexp(1.0, np.frexp(mean_weights)[1]),
        tuple(benchmarks),
        tuple(projections),
        folds,
        has_labels,
    )
    # Products of few features are done before a second thread is awake.
    with threads_for(rows.n_features):
        sums = tallied(rows, seen)
    assert sums is not None
    return seen.figures(sums)


@dataclass(eq=False)
class Sums:
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

    powers: FloatArray
    totals: FloatArray
    order: FloatArray
    clusters: dict[tuple[int, str], FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """The pass; see :func:`row_figures`.

    Attributes
    ----------
    labels : tuple of k labels
    weight_units : (k,) array
        Weights of each group are divided by its unit, so that their fourth powers stay in range.
    benchmarks : tuple of Benchmark
    projections : tuple of Projection
    folds : Folds or None
    has_labels : bool
    """

    labels: tuple[Label, ...]
    weight_units: FloatArray
    benchmarks: tuple[Benchmark, ...]
    projections: tuple[Projection, ...]
    folds: Folds | None
    has_labels: bool = False

    def over(self, rows: RowSource) -> Sums | None:
        """The sums over some rows."""
        coder, k = LabelCoder(self.labels), len(self.labels)
        n_quantities = len(QUANTITIES) if self.folds else 1
        n_folds = 1 if self.folds is None else self.folds.n_folds
        powers = np.zeros((n_folds, len(self.projections), n_quantities, 5, k))
        sums = Sums(powers, np.zeros((n_folds, 2, k)), np.empty((4, 0)))
        references, units = self._references()[:, :n_quantities], self._units()
        before = rows.first_position if isinstance(rows, KnownRows) else 0
        for block in rows.blocks():
            assert block.labels is not None
            if not sums.order.size or sums.order[2:].any():
                sums.order = _joined_order(sums.order, _order_of(block.values))
            known = self._folded(block.labels, block.first_row, before)
            before += len(block.values)
            # Rows of weight zero may carry a group that has no other rows, so they go first.
            kept = np.flatnonzero(
                np.ones(len(block.values)) if block.weights is None else block.weights
            )
            order, places = side_by_side(
                coder.encode(known.groups[kept], block.first_row) * n_folds + known.folds[kept]
            )
            for code, place in places:
                chosen = kept[order[place]]
                group, fold = divmod(code, n_folds)
                weights = np.ones(len(chosen)) if block.weights is None else block.weights[chosen]
                weights = weights / self.weight_units[group]
                measured = self._measured(block.values[chosen], group, fold)
                measured = (measured - references[:, :, group, None]) / units
                clusters = None if known.clusters is None else known.clusters[chosen]
                _add(sums, measured, weights, (fold, group), clusters)
        return sums

    def merged(self, left: Sums, right: Sums) -> Sums:
        """The sums over both parts."""
        mine, theirs = left.clusters, right.clusters
        both = {key: mine[key] + theirs[key] for key in theirs if key in mine}
        return Sums(
            left.powers + right.powers,
            left.totals + right.totals,
            _joined_order(left.order, right.order),
            {**mine, **theirs, **both},
        )

    def figures(self, sums: Sums) -> RowFigures:
        """Means and standard errors of all rows."""
        _, m, q, _, k = sums.powers.shape
        (weight, counts), powers = sums.totals.sum(axis=0), sums.powers.sum(axis=0)
        offsets = powers[:, :, 0] / weight
        squared, linear, squares = (powers[:, :, i] for i in (1, 2, 3))
        spread = squares - 2 * offsets * linear + offsets**2 * squared
        sizes = counts.astype(np.int64)
        if self.folds is not None and self.folds.by_cluster:
            spread, sizes = np.zeros((m, q, k)), np.zeros(k, dtype=np.int64)
            for (group, _), values in sums.clusters.items():
                own = values[:-1].reshape(m, q) - offsets[:, :, group] * values[-1]
                spread[:, :, group] += own**2
                sizes[group] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            correction = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)
            errors = np.sqrt(np.maximum(spread, 0.0) * correction) / weight
            kurtosis = counts * powers[:, :, 4] / squares**2
        units = self._units()
        return RowFigures(
            units * offsets + self._references()[:, :q],
            units * errors,
            sizes,
            kurtosis,
            units * _training_errors(sums, errors),
            tuple(
                np.flatnonzero(sums.order[2:].any(axis=0) & (counts.sum() >= _FEWEST_ROWS)).tolist()
            ),
        )

    def _references(self) -> FloatArray:
        """What is near the mean of each quantity, by the moments, (m, 5, k)."""
        found = np.zeros((len(self.projections), len(QUANTITIES), len(self.labels)))
        found[:, :2] = np.array([each.errors for each in self.projections])[:, None]
        return found

    def _units(self) -> FloatArray:
        """What figures of each model are divided by, so that no power overflows, (m, 1, 1)."""
        largest = [float(each.errors.max()) for each in self.projections]
        return np.array([size if size > 0 else 1.0 for size in largest])[:, None, None]

    def _folded(self, labels: CodedLabels, first_row: int, before: int) -> FoldedLabels:
        known = (
            FoldedLabels(labels, np.zeros(len(labels), dtype=np.intp))
            if self.folds is None
            else self.folds.of_rows(labels, first_row, before)
        )
        if self.has_labels:
            known = replace(known, groups=known.groups.without_last_attribute())
        return known

    def _measured(self, values: FloatArray, group: int, fold: int) -> FloatArray:
        """All quantities of rows of one group in one fold, (m, q, r)."""

        def residuals(pairs: Sequence[tuple[Benchmark, Reconstructs]]) -> FloatArray:
            found, alike = np.empty((len(pairs), len(values))), dict[Any, list[int]]()
            for i, (benchmark, _) in enumerate(pairs):
                alike.setdefault(benchmark.frame(group), []).append(i)
            for places in alike.values():
                rows = pairs[places[0]][0].centred(values, group)
                found[places] = squared_residuals(rows, [pairs[i][1] for i in places])
            return found

        if self.folds is None:
            own = [(self.benchmarks[each.benchmark], each.projector) for each in self.projections]
            return residuals(own)[:, None]
        return measured_by(
            residuals, self.benchmarks, self.projections, group, fold, self.folds.n_folds
        )


def _order_of(rows: FloatArray) -> FloatArray:
    """What `Sums.order` says of consecutive rows, (4, p)."""
    if not len(rows):
        return np.empty((4, 0))
    rises, falls = (rows[1:] > rows[:-1]).all(axis=0), (rows[1:] < rows[:-1]).all(axis=0)
    return np.array([rows[0], rows[-1], rises, falls], dtype=np.float64)


def _joined_order(left: FloatArray, right: FloatArray) -> FloatArray:
    """What `Sums.order` says of both parts, of which the right one follows the left one."""
    if not left.size or not right.size:
        return left if left.size else right
    rises, falls = left[2:] * right[2:] * (left[1] < right[0], left[1] > right[0])
    return np.array([left[0], right[1], rises, falls])


def _training_errors(sums: Sums, errors: FloatArray) -> FloatArray:
    """What other rows to fit to would change of each mean, (m, q, k).

    With S^2 the variance of the folds' means and s the standard error that the rows explain: S^2
    less K s^2, if it is positive, times 1 / K + 1 / (K - 1), as the folds' models share most of
    their rows (Nadeau and Bengio 2003).
    """
    weights = sums.totals[:, 0]
    if len(weights) < 2:
        return np.zeros_like(errors)
    means = sums.powers[:, :, :, 0] / np.maximum(weights, np.finfo(np.float64).tiny)[:, None, None]
    shares = weights / weights.sum(axis=0)
    mean = np.einsum("fg,fmqg->mqg", shares, means)
    variance = np.einsum("fg,fmqg->mqg", shares, (means - mean) ** 2)
    several = np.maximum((weights > 0).sum(axis=0), 2)
    variance *= several / (several - 1)
    return np.asarray(
        np.sqrt(np.maximum(variance - several * errors**2, 0.0) * (1 / several + 1 / (several - 1)))
    )


def _add(
    sums: Sums,
    measured: FloatArray,
    weights: FloatArray,
    place: tuple[int, int],
    clusters: CodedLabels | None,
) -> None:
    """Add rows of one group in one fold, (m, q, r), in place."""
    fold, group = place
    powers, weighted = sums.powers[fold], measured * weights
    with np.errstate(over="ignore"):  # of errors that are far apart; these have no kurtosis
        powers[:, :, 0, group] += weighted.sum(axis=2)
        powers[:, :, 1, group] += float(weights @ weights)
        powers[:, :, 2, group] += weighted @ weights
        powers[:, :, 3, group] += (weighted**2).sum(axis=2)
        powers[:, :, 4, group] += (weighted**4).sum(axis=2)
    sums.totals[fold, :, group] += weights.sum(), len(weights)
    if clusters is None:
        return
    flat = np.vstack([weighted.reshape(-1, len(weights)), weights])
    order, places = side_by_side(clusters.codes)
    for code, own in places:
        key = (group, repr(clusters.distinct[code]))
        more = flat[:, order[own]].sum(axis=1)
        sums.clusters[key] = sums.clusters[key] + more if key in sums.clusters else more
