"""Statistical parity: how far apart the groups' distributions over the outcomes are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.formatting.plain import data_frame
from fairspan.metrics.outcomes import outcomes_by_group
from fairspan.problem.parameters import check_count, check_number
from fairspan.rows.groups import Label, Scalar, spelled
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True, eq=False)
class StatisticalParity:
    """Outcomes by group and their distances; made by :func:`statistical_parity`.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    outcomes : tuple of m values
        In sorted order.
    counts : (k,) array of int
        Rows of each group.
    distribution : (k, m) array
        Share of each outcome in each group; rows sum to one.
    distances : (k, k) array
        Total variation distance of each pair of groups, between 0 and 1.
    largest : float
        The largest of them.
    pair : tuple of two labels
        The groups that are this far apart; the first such pair.
    low, high : float or None
        Ends of the interval for the largest distance; None without resamples, or where a group is
        a single row.
    epsilon, confidence : float
    """

    groups: tuple[Label, ...]
    outcomes: tuple[Scalar, ...]
    counts: IntegerArray
    distribution: FloatArray
    distances: FloatArray
    largest: float
    pair: tuple[Label, Label]
    low: float | None
    high: float | None
    epsilon: float
    confidence: float

    def is_below(self, epsilon: float | None = None, *, upper_end: bool = False) -> bool:
        """Whether statistical parity holds up to a bias epsilon: no distance exceeds it.

        Parameters
        ----------
        epsilon : float, optional
            From 0 to 1; by default the one that :func:`statistical_parity` was given.
        upper_end : bool, default=False
            Use the upper end of the interval instead of the estimate: whether the rows are enough
            to show it. False if there is no interval.

        Returns
        -------
        bool

        Raises
        ------
        InvalidParameter
        """
        if epsilon is None:
            epsilon = self.epsilon
        check_number("epsilon", epsilon, 0, 1)
        if upper_end:
            return self.high is not None and self.high <= epsilon
        return self.largest <= epsilon

    def frame(self) -> Any:
        """The distribution as a pandas DataFrame: one row for each group and outcome.

        Returns
        -------
        pandas.DataFrame
            Columns: group, n (rows of the group), outcome, share.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return data_frame(
            [
                {"group": group, "n": count, "outcome": outcome, "share": share}
                for group, count, shares in zip(
                    self.groups, self.counts.tolist(), self.distribution.tolist(), strict=True
                )
                for outcome, share in zip(self.outcomes, shares, strict=True)
            ],
            "StatisticalParity.frame()",
        )

    def __repr__(self) -> str:
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" ({self.confidence:.0%}: {self.low:.4g} to {self.high:.4g})"
        a, b = map(spelled, self.pair)
        return (
            f"<StatisticalParity of {len(self.groups)} groups and {len(self.outcomes)} outcomes, "
            f"largest distance {self.largest:.4g}{interval}, {a} and {b}>"
        )


def statistical_parity(
    labels: Any,
    sensitive_features: Any,
    *,
    epsilon: float = 0.1,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    sample_weight: Any = None,
    random_state: Any = 0,
) -> StatisticalParity:
    """Total variation distances between the groups' distributions over the outcomes.

    d(a, b) = 1/2 sum over outcomes y of abs(P(y | a) - P(y | b)), the most by which the
    probability of any set of outcomes differs. Statistical parity holds up to a bias epsilon where
    no distance exceeds it (Dwork et al. 2012, section 3). Of two outcomes the largest distance is
    fairlearn's demographic parity difference.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
        Labels or predictions: text, numbers or truth values; 1, 1.0 and True are one outcome.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes make their intersections.
    epsilon : float, default=0.1
        From 0 to 1.
    n_bootstrap : int, default=1000
        Resamples for the interval; 0 for none.
    confidence : float, default=0.95
        Between 0 and 1.
    sample_weight : (n,) array-like, optional
        Finite and not negative; a row of weight zero counts as absent.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    StatisticalParity

    Raises
    ------
    InvalidInput
        A single group, a missing label, lengths that differ.
    InvalidType
        Labels that are neither text nor numbers.
    InvalidParameter
        epsilon, n_bootstrap or confidence out of range.

    Notes
    -----
    The interval is the percentile bootstrap's, rows drawn with replacement within each group with
    their weights. The largest distance is biased upwards: chance alone moves groups apart, by
    about 1 / sqrt(rows) of the smaller group, and the more groups and outcomes, the more.
    Resampling adds the same bias once more. So an upper end below epsilon is on the safe side,
    while a lower end above zero is no proof that groups differ. A small group whose rows all have
    one outcome does not vary in the resamples, and the interval is then too short.

    Examples
    --------
    >>> from fairspan import metrics
    >>> team = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    >>> grade = [1, 2, 3, 3] + [1, 2, 3, 3] + [1, 1, 1, 2]
    >>> parity = metrics.statistical_parity(grade, team, n_bootstrap=200)
    >>> parity.distances
    array([[0. , 0. , 0.5],
           [0. , 0. , 0.5],
           [0.5, 0.5, 0. ]])
    >>> parity.pair, parity.is_below(0.1)
    (('a', 'c'), False)
    """
    check_number("epsilon", epsilon, 0, 1)
    check_count("n_bootstrap", n_bootstrap, least=0)
    table = outcomes_by_group(labels, sensitive_features, sample_weight)
    table.check_several_groups()
    distribution = table.distribution()
    distances = np.abs(distribution[:, None] - distribution[None]).sum(axis=2) / 2
    pairs = np.triu_indices(len(distances), 1)
    widest = int(np.argmax(distances[pairs]))
    low, high = table.interval(_largest_distance, n_bootstrap, confidence, random_state)
    return StatisticalParity(
        table.groups,
        table.outcomes,
        table.counts,
        distribution,
        distances,
        float(distances[pairs][widest]),
        (table.groups[pairs[0][widest]], table.groups[pairs[1][widest]]),
        low,
        high,
        float(epsilon),
        float(confidence),
    )


def _largest_distance(distributions: FloatArray) -> FloatArray:
    """Of each of b resamples, from (b, k, m) to (b,)."""
    largest = np.zeros(len(distributions))
    for group in range(1, distributions.shape[1]):
        gaps = np.abs(distributions[:, :group] - distributions[:, group : group + 1])
        largest = np.maximum(largest, gaps.sum(axis=2).max(axis=1) / 2)
    return largest
