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
from fairspan.formatting.text import counted, position
from fairspan.linalg.resources import threads_for
from fairspan.moments.accumulate import Stacked, Sums, in_order
from fairspan.moments.fixed_point import FixedPoint, fixed_point
from fairspan.moments.group_means import check_sizes
from fairspan.moments.normal import RIDGE, Normal, blocks_to_complete
from fairspan.rows.groups import Label, LabelCoder, side_by_side
from fairspan.rows.protocol import GroupLimit, Rows, RowSource, tallied
from fairspan.typing import AnyArray, BoolArray, FloatArray, IntegerArray

# Where models are further than this from their limit, in standard deviations, a warning says so,
# whether rounding or the number of passes is the reason. Less is told by certificates alone.
_MUCH = 3e-2
# Numbers of rows that are completed at a time.
_CHUNK_NUMBERS = 2**21


@dataclass(frozen=True, eq=False)
class Completion:
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

    cells: IntegerArray
    pool_weights: FloatArray
    n_passes: int
    change: float
    left: float = 0.0

    def of_groups(self, chosen: BoolArray | Sequence[int]) -> "Completion":
        """Of some of the groups."""
        return replace(self, cells=self.cells[chosen], pool_weights=self.pool_weights[chosen])

    def over(self, kinds: Sequence[int], n_kinds: int) -> "Completion":
        """Of groups of groups: the missing cells of all, and the largest weight of the pool."""
        cells, weights = np.zeros(n_kinds, dtype=np.int64), np.zeros(n_kinds)
        np.add.at(cells, kinds, self.cells)
        np.maximum.at(weights, kinds, self.pool_weights)
        return replace(self, cells=cells, pool_weights=weights)


def expected_sums(rows: Rows, limit: GroupLimit) -> tuple[Stacked, int, Completion]:
    """Moments of each group by the EM algorithm: one pass over the rows before, and one a step.

    Parameters
    ----------
    rows : RowSource or PartedRows
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
    with threads_for(rows.n_features):
        return _expected_sums(rows, limit)


def _expected_sums(rows: Rows, limit: GroupLimit) -> tuple[Stacked, int, Completion]:
    with np.errstate(over="ignore", invalid="ignore"):  # found when the sizes are checked
        seen = tallied(rows, _FirstPass(limit))
    if seen is None or not seen.groups:
        return in_order({}, rows.n_features), 0 if seen is None else seen.n_dropped, _NOTHING
    groups = {label: seen.groups[label] for label in sorted(seen.groups)}
    for label, each in groups.items():
        _check_observed(label, each, rows.feature_names)
    means = np.array([each.means for each in groups.values()])
    variances = np.array([each.squares / each.weights for each in groups.values()])
    check_sizes(means, variances, rows.feature_names)
    step = _Step.of(rows, groups)
    start = [
        np.vstack([each.means, np.diag(each.squares / each.weights)]) for each in groups.values()
    ]
    end = _limit_of(step, np.array(start))
    totals: dict[Label, Sums] = {}
    for (label, each), model in zip(groups.items(), end.point, strict=True):
        totals[label] = Sums(model[0], each.count, each.weight, 0.0, each.weight * model[1:])
    cells = np.array([each.cells for each in groups.values()], dtype=np.int64)
    how = Completion(cells, step.weights, end.n_steps, end.change, end.left)
    return in_order(totals, rows.n_features), seen.n_dropped, how


_NOTHING = Completion(np.zeros(0, dtype=np.int64), np.zeros(0), 0, 0.0)


# Models of all groups are (k, p + 1, p) numbers: of each group the mean, and then the covariance.
def _limit_of(step: "_Step", models: FloatArray) -> FixedPoint:
    """Where steps lead the models; warns if that remains unknown."""
    found = fixed_point(step, models, _units(models), _are_models)
    if found.left > _MUCH:
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
    correlations = models[:, 1:] / _units(models)[:, 1:]
    return bool((np.linalg.eigvalsh(correlations) >= -RIDGE / 2).all())


def _units(models: FloatArray) -> FloatArray:
    """What is 1 in standard deviations, (k, p + 1, p); those of zero count as 1."""
    units = np.sqrt(np.einsum("gjj->gj", models[:, 1:]))
    units = np.where(units > 0, units, 1.0)
    return np.concatenate([units[:, None], units[:, :, None] * units[:, None]], axis=1)


def _check_observed(label: Label, each: "_Observed", names: tuple[str, ...] | None) -> None:
    empty = np.flatnonzero(each.weights == 0)
    if len(empty):
        first = int(empty[0])
        name = position("column", first) if names is None else f"column {names[first]!r}"
        raise InvalidInput(
            f"Every value of {name} is missing in the group {label!r}",
            "Allowed: features of which each group has values: what a group's values would be "
            "cannot be learnt from the other groups",
            "Leave the column out, leave out the group, or join it with another",
            cause=Cause.UNOBSERVED_COLUMN,
        )


@dataclass(frozen=True, eq=False)
class _Step:
    """A step: a pass over the rows, and the models that its sums make.

    Attributes
    ----------
    rows : RowSource or PartedRows
    labels : tuple of k labels
    weights : (k,) array
        Of the correlations of all groups in those of each group.
    of_none : float
        Of no correlation in those of all groups.
    """

    rows: Rows
    labels: tuple[Label, ...]
    weights: FloatArray
    of_none: float

    @classmethod
    def of(cls, rows: Rows, groups: Mapping[Label, "_Observed"]) -> "_Step":
        """With weights by the rows in which pairs of features are observed together."""

        def weight(count: int, pairs: IntegerArray) -> float:
            fewest = int(pairs.min())
            lacking = max(len(pairs) + 2 - fewest, 0) if fewest < count else 0
            return lacking / (lacking + count)

        counts = [each.count for each in groups.values()]
        pairs = np.array([each.pairs for each in groups.values()])
        weights = np.array([weight(*each) for each in zip(counts, pairs, strict=True)])
        return cls(rows, tuple(groups), weights, weight(sum(counts), pairs.sum(axis=0)))

    def __call__(self, models: FloatArray) -> FloatArray:
        """The models that follow."""
        expected = {
            label: Normal(model[0], model[1:])
            for label, model in zip(self.labels, models, strict=True)
        }
        sums = tallied(self.rows, _Expectation(expected))
        assert sums is not None
        own = [sums[label] for label in self.labels]
        weights = np.array([each.weight for each in own])
        first = np.array([each.first for each in own]) / weights[:, None]
        second = np.array([each.second for each in own]) / weights[:, None, None]
        deviations = np.sqrt(np.einsum("gjj->gj", models[:, 1:]))
        second = _outer(deviations) * (second - _outer(first))
        second = (second + second.transpose(0, 2, 1)) / 2
        if self.weights.any():
            together = np.tensordot(weights, second, axes=1)
            pool = (1 - self.of_none) * Normal(first[0], together).correlation
            np.fill_diagonal(pool, 1.0)
            pooled = pool * _outer(np.sqrt(np.einsum("gjj->gj", second)))
            second = second + self.weights[:, None, None] * (pooled - second)
        means = models[:, 0] + deviations * first
        return np.concatenate([means[:, None], second], axis=1)


def _outer(vectors: FloatArray) -> FloatArray:
    """Of each vector of (k, p) the products of its entries, (k, p, p)."""
    return np.asarray(vectors[:, :, None] * vectors[:, None])


@dataclass(eq=False)
class _Observed:
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
    def of(cls, rows: FloatArray, weights: FloatArray) -> "_Observed":
        """Of some rows."""
        observed = ~np.isnan(rows)
        own = weights @ observed
        # About the first value of each feature, so that the mean of equal values is that value.
        first = np.take_along_axis(rows, observed.argmax(axis=0)[None], axis=0)[0]
        first = np.where(np.isnan(first), 0.0, first)
        apart = np.where(observed, rows - first, 0.0)
        means = first + weights @ apart / np.where(own > 0, own, 1.0)
        squares = weights @ np.where(observed, rows - means, 0.0) ** 2
        ones = observed.astype(np.float64)
        pairs = (ones.T @ ones).astype(np.int64)
        cells = observed.size - int(observed.sum())
        return cls(len(rows), cells, float(weights.sum()), pairs, own, means, squares)

    def with_more(self, more: "_Observed") -> "_Observed":
        """Of both parts of a group."""
        total = self.weights + more.weights
        share = more.weights / np.where(total > 0, total, 1.0)
        apart = more.means - self.means
        return _Observed(
            self.count + more.count,
            self.cells + more.cells,
            self.weight + more.weight,
            self.pairs + more.pairs,
            total,
            self.means + share * apart,
            self.squares + more.squares + self.weights * share * apart**2,
        )


@dataclass(frozen=True, eq=False)
class _Seen:
    """What the first pass found: each group, and rows left out."""

    groups: dict[Label, _Observed]
    n_dropped: int


@dataclass(frozen=True)
class _FirstPass:
    """The pass that shows which groups there are, and what is observed of them."""

    limit: GroupLimit

    def over(self, rows: RowSource) -> _Seen:
        """What some rows show."""
        found: dict[Label, _Observed] = {}
        dropped: list[int] = []
        for label, values, weights in _by_group(rows, LabelCoder(), dropped):
            _add(found, label, _Observed.of(values, weights))
            self._check(found, rows.n_features)
        return _Seen(found, sum(dropped))

    def merged(self, left: _Seen, right: _Seen) -> _Seen:
        """What both parts show."""
        found = dict(left.groups)
        for label, more in right.groups.items():
            _add(found, label, more)
        self._check(found, len(next(iter(found.values())).means) if found else 1)
        return _Seen(found, left.n_dropped + right.n_dropped)

    def _check(self, found: Mapping[Label, _Observed], n_features: int) -> None:
        n_rows = sum(each.count for each in found.values())
        LabelCoder(list(found))  # all of one type
        self.limit.check(list(found), n_rows, so_far=True)
        self.limit.check_memory(len(found), n_features)


@dataclass(eq=False)
class _Expected:
    """Sums of completed rows about a model, in its standard deviations: of 1, x and xx' + C."""

    weight: float
    first: FloatArray
    second: FloatArray

    def with_more(self, more: "_Expected") -> "_Expected":
        """Of both parts of a group."""
        weight, first = self.weight + more.weight, self.first + more.first
        return _Expected(weight, first, self.second + more.second)


@dataclass(frozen=True)
class _Expectation:
    """The pass of the E step."""

    models: dict[Label, Normal]

    def over(self, rows: RowSource) -> dict[Label, _Expected]:
        """The sums over some rows."""
        found: dict[Label, _Expected] = {}
        for label, values, weights in _by_group(rows, LabelCoder(list(self.models))):
            for place in blocks_to_complete(values):
                completed, own = self.models[label].completed(values[place]), weights[place]
                weighted = completed.values * own[:, None]
                second = weighted.T @ completed.values + completed.covariance(own)
                _add(found, label, _Expected(float(own.sum()), weighted.sum(axis=0), second))
        return found

    def merged(
        self, left: dict[Label, _Expected], right: dict[Label, _Expected]
    ) -> dict[Label, _Expected]:
        """The sums over both parts."""
        found = dict(left)
        for label, more in right.items():
            _add(found, label, more)
        return found


def _add(found: dict[Label, Any], label: Label, more: Any) -> None:
    found[label] = found[label].with_more(more) if label in found else more


def _by_group(
    rows: RowSource, coder: LabelCoder, dropped: list[int] | None = None
) -> Iterator[tuple[Label, FloatArray, FloatArray]]:
    """Rows of one group at a time, many together, with their weights; those of weight zero not."""
    waiting: dict[int, list[tuple[FloatArray, FloatArray]]] = {}
    n_waiting = 0

    def together() -> Iterator[tuple[Label, FloatArray, FloatArray]]:
        for code in sorted(waiting):
            values, weights = zip(*waiting[code], strict=True)
            yield coder.labels[code], np.concatenate(values), np.concatenate(weights)

    for block in rows.blocks():
        if block.labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
            )
        if dropped is not None:
            dropped.append(block.n_dropped)
        codes: AnyArray = coder.encode(block.labels, block.first_row)
        weights = np.ones(len(codes)) if block.weights is None else block.weights
        kept = np.flatnonzero(weights)
        order, places = side_by_side(codes[kept])
        for code, place in places:
            own = kept[order[place]]
            waiting.setdefault(code, []).append((block.values[own], weights[own]))
        n_waiting += block.values.size
        if n_waiting >= _CHUNK_NUMBERS:
            yield from together()
            waiting.clear()
            n_waiting = 0
    yield from together()
