"""Which outcome each row of each group got: read from labels or predictions, and resampled."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.metrics.columns import coded_groups, coded_outcomes
from fairspan.problem.parameters import check_number
from fairspan.random_state import generator_of
from fairspan.rows.arrays import checked_weights
from fairspan.rows.groups import Label, Scalar, listed, plain_labels
from fairspan.rows.labels import check_index
from fairspan.typing import FloatArray, IntegerArray

# Numbers drawn at once, so that memory does not grow with the number of resamples.
_CHUNK = 2**21


@dataclass(frozen=True, eq=False)
class OutcomesByGroup:
    """The outcome and the group of each row.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    outcomes : tuple of m values
        In sorted order.
    group_codes, outcome_codes : (n,) arrays of int
        Positions in `groups` and `outcomes`.
    weights : (n,) array
        Positive; ones without sample weights.
    """

    groups: tuple[Label, ...]
    outcomes: tuple[Scalar, ...]
    group_codes: IntegerArray
    outcome_codes: IntegerArray
    weights: FloatArray

    @property
    def counts(self) -> IntegerArray:
        """Rows of each group, shape (k,)."""
        return np.bincount(self.group_codes, minlength=len(self.groups)).astype(np.int64)

    def distribution(self) -> FloatArray:
        """Share of each outcome in each group by weight, shape (k, m); rows sum to one."""
        k, m = len(self.groups), len(self.outcomes)
        cells = self.group_codes * m + self.outcome_codes
        sums = np.bincount(cells, self.weights, k * m).reshape(k, m)
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))

    def interval(
        self,
        statistic: Callable[[FloatArray], FloatArray],
        n_bootstrap: int,
        confidence: float,
        random_state: Any,
    ) -> tuple[float | None, float | None]:
        """Ends of a percentile bootstrap interval (Efron and Tibshirani 1993, section 13.3).

        Parameters
        ----------
        statistic : callable
            Takes (b, k, m) distributions, returns (b,) figures.
        n_bootstrap : int
            Resamples; rows are drawn within each group.
        confidence : float
        random_state : int, Generator, RandomState or None

        Returns
        -------
        low, high : float or None
            None without resamples, or where a group is a single row.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_number("confidence", confidence, 0, 1)
        rng = generator_of(random_state)
        if n_bootstrap == 0 or not (self.counts > 1).all():
            return None, None
        cells = [self._cells(group) for group in range(len(self.groups))]
        width = max(len(self.groups) * len(self.outcomes), *(len(each.counts) for each in cells))
        chunk = max(1, _CHUNK // width)
        sizes = [min(chunk, n_bootstrap - start) for start in range(0, n_bootstrap, chunk)]
        draws = (np.stack([each.drawn(size, rng) for each in cells], axis=1) for size in sizes)
        tail = (1 - confidence) / 2
        figures = np.concatenate([statistic(each) for each in draws])
        low, high = np.quantile(figures, [tail, 1 - tail]).tolist()
        return low, high

    def _cells(self, group: int) -> "_Cells":
        rows = self.group_codes == group
        pairs = np.column_stack([self.outcome_codes[rows], self.weights[rows]])
        distinct, counts = np.unique(pairs, axis=0, return_counts=True)
        codes = distinct[:, 0].astype(np.int64)
        return _Cells(counts, distinct[:, 1], codes, len(self.outcomes))

    def against_rest(self, protected: Any) -> "OutcomesByGroup":
        """Two groups: all the others, then the protected one.

        Raises
        ------
        UnknownGroup
            No row is of the protected group.
        InvalidInput
            Every row is.
        """
        (label,) = plain_labels([protected])
        if label not in self.groups:
            raise UnknownGroup(
                f"The protected group is {label!r}, which no row belongs to",
                f"The rows hold the groups {listed(self.groups)}",
                "Name one of these groups",
            )
        self.check_several_groups()
        codes = (self.group_codes == self.groups.index(label)).astype(np.int64)
        return replace(self, groups=("rest", label), group_codes=codes)

    def check_several_groups(self) -> None:
        """Make sure that there are groups to compare.

        Raises
        ------
        InvalidInput
        """
        if len(self.groups) < 2:
            raise InvalidInput(
                f"All rows belong to one group, {self.groups[0]!r}",
                "Allowed: two groups or more",
                "Check the group column, or the filter that made these rows",
            )


def outcomes_by_group(
    labels: Any, sensitive_features: Any, sample_weight: Any = None, name: str = "labels"
) -> OutcomesByGroup:
    """Read and check one outcome, one group and one weight for each row.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
    sample_weight : (n,) array-like, optional
        Rows of weight zero count as absent.
    name : str
        What the outcomes are called in messages.

    Returns
    -------
    OutcomesByGroup

    Raises
    ------
    InvalidInput, InvalidType
    """
    outcomes, outcome_codes = coded_outcomes(labels, name)
    n = len(outcome_codes)
    groups, group_codes = coded_groups(sensitive_features, labels, n, (name, "sensitive_features"))
    check_index(labels, sample_weight, "sample_weight")
    weights = checked_weights(sample_weight, n)
    if weights is None:
        weights = np.ones(n)
    present = weights > 0
    kept_groups, group_codes = np.unique(group_codes[present], return_inverse=True)
    kept_outcomes, outcome_codes = np.unique(outcome_codes[present], return_inverse=True)
    return OutcomesByGroup(
        tuple(groups[i] for i in kept_groups),
        tuple(outcomes[i] for i in kept_outcomes),
        group_codes.astype(np.int64),
        outcome_codes.astype(np.int64),
        weights[present] / weights.max(),  # so that sums stay within float64's range
    )


@dataclass(frozen=True, eq=False)
class _Cells:
    """How often each pair of outcome and weight occurs in one group, sorted by outcome.

    Rows that agree in both are interchangeable, so drawing rows is drawing a multinomial.
    """

    counts: IntegerArray
    weights: FloatArray
    outcome_codes: IntegerArray
    n_outcomes: int

    def drawn(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Distributions of the outcomes in resamples of the group's rows, (size, m)."""
        n = self.counts.sum()
        weighted = rng.multinomial(n, self.counts / n, size=size) * self.weights
        present, starts = np.unique(self.outcome_codes, return_index=True)
        shares = np.zeros((size, self.n_outcomes))
        shares[:, present] = np.add.reduceat(weighted, starts, axis=1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
