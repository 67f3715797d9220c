"""Moments of rows with missing cells: maximum likelihood by the EM algorithm, pass by pass.

A pass over the rows (E step) sums what each group's normal model expects: rows, their products, and
the covariance of what is missing. The sums make the next models (M step; Dempster, Laird and Rubin
1977). They are additive over parts, so rows may lie anywhere.

Where a group has fewer than p + 2 rows in which some pair of features is observed together, its
correlations are a weighted mean of its own and those of all groups: so many rows of the latter are
added as are lacking. What all groups lack is added as rows of uncorrelated features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.text import counted, describe_position
from fairspan.linalg.resources import single_thread_if_small
from fairspan.moments.accumulate import RunningMoments, StackedMoments, stack_by_label
from fairspan.moments.base import check_magnitudes
from fairspan.moments.fixed_point import FixedPoint, fixed_point
from fairspan.moments.normal_model import RIDGE, NormalModel, blocks_to_complete
from fairspan.rows.groups import Label, LabelEncoder, sort_by_code
from fairspan.rows.protocol import GroupLimit, Rows, RowSource, aggregate
from fairspan.typing import AnyArray, BoolArray, FloatArray, IntegerArray

# Where models are further than this from their limit, in standard deviations, a warning says so,
# whether rounding or the number of passes is the reason. Less is told by certificates alone.
_WARN_CHANGE = 3e-2
# Numbers of rows that are completed at a time.
_CHUNK_ENTRIES = 2**21


@dataclass(frozen=True, eq=False)
class EMSummary:
    """How moments came from rows with missing cells.

    Attributes
    ----------
    cells : (k,) array of int
        Cells of each group that are missing.
    pool_weights : (k,) array
        What the correlations of all groups weigh in those of each group, from 0 to below 1.
    n_passes : int
        Passes of the EM algorithm over the rows.
    change : float
        By how much the last one changed the models, in standard deviations.
    left : float
        About how far the models still are from those that passes without end would give: the root
        of the sum of squares over means and covariances, in standard deviations.
    """

    n_missing_cells: IntegerArray
    pool_weights: FloatArray
    n_passes: int
    last_change: float
    left: float = 0.0

    def select_groups(self, chosen: BoolArray | Sequence[int]) -> "EMSummary":
        """Of some of the groups."""
        return replace(
            self,
            n_missing_cells=self.n_missing_cells[chosen],
            pool_weights=self.pool_weights[chosen],
        )

    def merge_groups(self, group_of: Sequence[int], n_groups: int) -> "EMSummary":
        """Of groups of groups: the missing cells of all, and the largest weight of the pool."""
        cells, weights = np.zeros(n_groups, dtype=np.int64), np.zeros(n_groups)
        np.add.at(cells, group_of, self.n_missing_cells)
        np.maximum.at(weights, group_of, self.pool_weights)
        return replace(self, n_missing_cells=cells, pool_weights=weights)


def fit_em(rows: Rows, limit: GroupLimit) -> tuple[StackedMoments, int, EMSummary]:
    """Moments of each group by the EM algorithm: one pass over the rows before, and one a step.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        With labels, and NaN in missing cells.
    limit : GroupLimit
        How many groups there may be.

    Returns
    -------
    Stacked
        A scatter is the group's weight times its covariance.
    int
        Rows left out since they have no group.
    Completion

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; a row in which every cell is missing, or a
        column without a value in a group; too many groups.
    """
    with single_thread_if_small(rows.n_features):
        return _fit_em(rows, limit)


def _fit_em(rows: Rows, limit: GroupLimit) -> tuple[StackedMoments, int, EMSummary]:
    with np.errstate(over="ignore", invalid="ignore"):  # found when the sizes are checked
        seen = aggregate(rows, _ObservedAggregator(limit))
    if seen is None or not seen.groups:
        return (
            stack_by_label({}, rows.n_features),
            0 if seen is None else seen.n_dropped,
            _EMPTY_SUMMARY,
        )
    groups = {label: seen.groups[label] for label in sorted(seen.groups)}
    for label, each in groups.items():
        _check_observed(label, each, rows.feature_names)
    means = np.array([each.means for each in groups.values()])
    variances = np.array([each.squares / each.weights for each in groups.values()])
    check_magnitudes(means, variances, rows.feature_names)
    step = _EMStep.of(rows, groups)
    start = [
        np.vstack([each.means, np.diag(each.squares / each.weights)]) for each in groups.values()
    ]
    end = _limit_of(step, np.array(start))
    totals: dict[Label, RunningMoments] = {}
    for (label, each), model in zip(groups.items(), end.point, strict=True):
        totals[label] = RunningMoments(
            model[0], each.count, each.weight, 0.0, each.weight * model[1:]
        )
    cells = np.array([each.cells for each in groups.values()], dtype=np.int64)
    how = EMSummary(cells, step.pool_weights, end.n_steps, end.change, end.left)
    return stack_by_label(totals, rows.n_features), seen.n_dropped, how


_EMPTY_SUMMARY = EMSummary(np.zeros(0, dtype=np.int64), np.zeros(0), 0, 0.0)


# Models of all groups are (k, p + 1, p) numbers: of each group the mean, and then the covariance.
def _limit_of(step: "_EMStep", models: FloatArray) -> FixedPoint:
    """Where steps lead the models; warns if that remains unknown."""
    found = fixed_point(step, models, _standard_units(models), _are_models)
    if found.left > _WARN_CHANGE:
        warn(
            f"The EM algorithm ended after {counted(found.n_steps, 'pass', 'passes')}, with the "
            f"models still up to {found.left:.0e} standard deviations from where they go; "
            "certificates allow for that. Some features are hardly ever observed together: leave "
            "one of them out."
        )
    return found


def _are_models(models: FloatArray) -> bool:
    """Whether all covariances are positive semidefinite, up to the ridge."""
    variances = np.einsum("gjj->gj", models[:, 1:])
    if not np.isfinite(models).all() or (variances < 0).any():
        return False
    correlations = models[:, 1:] / _standard_units(models)[:, 1:]
    return bool((np.linalg.eigvalsh(correlations) >= -RIDGE / 2).all())


def _standard_units(models: FloatArray) -> FloatArray:
    """What is 1 in standard deviations, (k, p + 1, p); those of zero count as 1."""
    units = np.sqrt(np.einsum("gjj->gj", models[:, 1:]))
    units = np.where(units > 0, units, 1.0)
    return np.concatenate([units[:, None], units[:, :, None] * units[:, None]], axis=1)


def _check_observed(
    label: Label, each: "_ObservedStatistics", names: tuple[str, ...] | None
) -> None:
    empty = np.flatnonzero(each.weights == 0)
    if len(empty):
        first = int(empty[0])
        name = describe_position("column", first) if names is None else f"column {names[first]!r}"
        raise InvalidInput(
            f"Every value of {name} is missing in the group {label!r}",
            "Allowed: features of which each group has values: what a group's values would be "
            "cannot be learnt from the other groups",
            "Leave the column out, leave out the group, or join it with another",
            cause=Cause.UNOBSERVED_COLUMN,
        )


@dataclass(frozen=True, eq=False)
class _EMStep:
    """A step: a pass over the rows, and the models that its sums make.

    Attributes
    ----------
    rows : RowSource or PartitionedRows
    labels : tuple of k labels
    weights : (k,) array
        Of the correlations of all groups in those of each group.
    independence_weight : float
        Of no correlation in those of all groups.
    """

    rows: Rows
    labels: tuple[Label, ...]
    pool_weights: FloatArray
    independence_weight: float

    @classmethod
    def of(cls, rows: Rows, groups: Mapping[Label, "_ObservedStatistics"]) -> "_EMStep":
        """With weights by the rows in which pairs of features are observed together."""

        def weight(count: int, pairs: IntegerArray) -> float:
            min_pairs = int(pairs.min())
            n_lacking = max(len(pairs) + 2 - min_pairs, 0) if min_pairs < count else 0
            return n_lacking / (n_lacking + count)

        counts = [each.count for each in groups.values()]
        pairs = np.array([each.pairs for each in groups.values()])
        weights = np.array([weight(*each) for each in zip(counts, pairs, strict=True)])
        return cls(rows, tuple(groups), weights, weight(sum(counts), pairs.sum(axis=0)))

    def __call__(self, models: FloatArray) -> FloatArray:
        """The models that follow."""
        expected = {
            label: NormalModel(model[0], model[1:])
            for label, model in zip(self.labels, models, strict=True)
        }
        sums = aggregate(self.rows, _EStepAggregator(expected))
        assert sums is not None
        own = [sums[label] for label in self.labels]
        weights = np.array([each.weight for each in own])
        first = np.array([each.first for each in own]) / weights[:, None]
        second = np.array([each.second for each in own]) / weights[:, None, None]
        deviations = np.sqrt(np.einsum("gjj->gj", models[:, 1:]))
        second = _outer_products(deviations) * (second - _outer_products(first))
        second = (second + second.transpose(0, 2, 1)) / 2
        if self.pool_weights.any():
            flush = np.tensordot(weights, second, axes=1)
            pool = (1 - self.independence_weight) * NormalModel(first[0], flush).correlation
            np.fill_diagonal(pool, 1.0)
            pooled = pool * _outer_products(np.sqrt(np.einsum("gjj->gj", second)))
            second = second + self.pool_weights[:, None, None] * (pooled - second)
        means = models[:, 0] + deviations * first
        return np.concatenate([means[:, None], second], axis=1)


def _outer_products(vectors: FloatArray) -> FloatArray:
    """Of each vector of (k, p) the products of its entries, (k, p, p)."""
    return np.asarray(vectors[:, :, None] * vectors[:, None])


@dataclass(eq=False)
class _ObservedStatistics:
    """What is observed of one group.

    Attributes
    ----------
    count, cells : int
        Rows, and their missing cells.
    weight : float
    pairs : (p, p) array of int
        Rows in which two features are observed.
    weights, means, squares : (p,) arrays
        Of each feature: weight of the rows in which it is observed, their mean, and their squared
        distances from it.
    """

    count: int
    cells: int
    weight: float
    pairs: IntegerArray
    weights: FloatArray
    means: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray) -> "_ObservedStatistics":
        """Of some rows."""
        observed = ~np.isnan(rows)
        own = weights @ observed
        # About the first value of each feature, so that the mean of equal values is that value.
        first = np.take_along_axis(rows, observed.argmax(axis=0)[None], axis=0)[0]
        first = np.where(np.isnan(first), 0.0, first)
        mean_difference = np.where(observed, rows - first, 0.0)
        means = first + weights @ mean_difference / np.where(own > 0, own, 1.0)
        squares = weights @ np.where(observed, rows - means, 0.0) ** 2
        ones = observed.astype(np.float64)
        pairs = (ones.T @ ones).astype(np.int64)
        cells = observed.size - int(observed.sum())
        return cls(len(rows), cells, float(weights.sum()), pairs, own, means, squares)

    def merge(self, other: "_ObservedStatistics") -> "_ObservedStatistics":
        """Of both parts of a group."""
        total = self.weights + other.weights
        share = other.weights / np.where(total > 0, total, 1.0)
        mean_difference = other.means - self.means
        return _ObservedStatistics(
            self.count + other.count,
            self.cells + other.cells,
            self.weight + other.weight,
            self.pairs + other.pairs,
            total,
            self.means + share * mean_difference,
            self.squares + other.squares + self.weights * share * mean_difference**2,
        )


@dataclass(frozen=True, eq=False)
class _FirstPassResult:
    """What the first pass found: each group, and rows left out."""

    groups: dict[Label, _ObservedStatistics]
    n_dropped: int


@dataclass(frozen=True)
class _ObservedAggregator:
    """The pass that shows which groups there are, and what is observed of them."""

    limit: GroupLimit

    def aggregate(self, rows: RowSource) -> _FirstPassResult:
        """What some rows show."""
        found: dict[Label, _ObservedStatistics] = {}
        dropped: list[int] = []
        for label, values, weights in _chunks_by_group(rows, LabelEncoder(), dropped):
            _merge_into(found, label, _ObservedStatistics.of(values, weights))
            self._check(found, rows.n_features)
        return _FirstPassResult(found, sum(dropped))

    def merge(self, left: _FirstPassResult, right: _FirstPassResult) -> _FirstPassResult:
        """What both parts show."""
        found = dict(left.groups)
        for label, more in right.groups.items():
            _merge_into(found, label, more)
        self._check(found, len(next(iter(found.values())).means) if found else 1)
        return _FirstPassResult(found, left.n_dropped + right.n_dropped)

    def _check(self, found: Mapping[Label, _ObservedStatistics], n_features: int) -> None:
        n_rows = sum(each.count for each in found.values())
        LabelEncoder(list(found))  # all of one type
        self.limit.check(list(found), n_rows, so_far=True)
        self.limit.check_memory(len(found), n_features)


@dataclass(eq=False)
class _ExpectedSums:
    """Sums of completed rows about a model, in its standard deviations: of 1, x and xx' + C."""

    weight: float
    first: FloatArray
    second: FloatArray

    def merge(self, other: "_ExpectedSums") -> "_ExpectedSums":
        """Of both parts of a group."""
        weight, first = self.weight + other.weight, self.first + other.first
        return _ExpectedSums(weight, first, self.second + other.second)


@dataclass(frozen=True)
class _EStepAggregator:
    """The pass of the E step."""

    models: dict[Label, NormalModel]

    def aggregate(self, rows: RowSource) -> dict[Label, _ExpectedSums]:
        """The sums over some rows."""
        found: dict[Label, _ExpectedSums] = {}
        for label, values, weights in _chunks_by_group(rows, LabelEncoder(list(self.models))):
            for place in blocks_to_complete(values):
                completed, own = self.models[label].complete(values[place]), weights[place]
                weighted = completed.values * own[:, None]
                second = weighted.T @ completed.values + completed.covariance(own)
                _merge_into(
                    found, label, _ExpectedSums(float(own.sum()), weighted.sum(axis=0), second)
                )
        return found

    def merge(
        self, left: dict[Label, _ExpectedSums], right: dict[Label, _ExpectedSums]
    ) -> dict[Label, _ExpectedSums]:
        """The sums over both parts."""
        found = dict(left)
        for label, more in right.items():
            _merge_into(found, label, more)
        return found


def _merge_into(found: dict[Label, Any], label: Label, more: Any) -> None:
    found[label] = found[label].merge(more) if label in found else more


def _chunks_by_group(
    rows: RowSource, coder: LabelEncoder, dropped: list[int] | None = None
) -> Iterator[tuple[Label, FloatArray, FloatArray]]:
    """Rows of one group at a time, many together, with their weights; those of weight zero not."""
    buffer: dict[int, list[tuple[FloatArray, FloatArray]]] = {}
    n_waiting = 0

    def flush() -> Iterator[tuple[Label, FloatArray, FloatArray]]:
        for code in sorted(buffer):
            values, weights = zip(*buffer[code], strict=True)
            yield coder.labels[code], np.concatenate(values), np.concatenate(weights)

    for block in rows.blocks():
        if block.group_labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
            )
        if dropped is not None:
            dropped.append(block.n_dropped)
        codes: AnyArray = coder.encode(block.group_labels, block.first_row)
        weights = np.ones(len(codes)) if block.weights is None else block.weights
        kept = np.flatnonzero(weights)
        order, places = sort_by_code(codes[kept])
        for code, place in places:
            own = kept[order[place]]
            buffer.setdefault(code, []).append((block.values[own], weights[own]))
        n_waiting += block.values.size
        if n_waiting >= _CHUNK_ENTRIES:
            yield from flush()
            buffer.clear()
            n_waiting = 0
    yield from flush()
