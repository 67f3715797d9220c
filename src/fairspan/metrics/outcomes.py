"""Outcomes counted by group: coded labels, and a table of how many rows have each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, UnknownGroup
from fairspan.formatting.text import position
from fairspan.random_state import generator_of
from fairspan.registry import check_number
from fairspan.rows.alignment import check_alignment
from fairspan.rows.arrays import checked_weights, labels_in, labels_of
from fairspan.rows.groups import (
    CodedLabels,
    Label,
    LabelCoder,
    Scalar,
    in_order,
    is_missing,
    listed,
    plain_label,
    plain_labels,
)
from fairspan.rows.label_matching import remedy_for
from fairspan.typing import FloatArray, IntegerArray

_ALLOWED = "Allowed: one outcome for each row: text, numbers or truth values, none missing"
# Numbers drawn at once, so that memory does not grow with the number of resamples.
_CHUNK = 2**21


def coded_groups(
    groups: Any, beside: Any, n_rows: int, names: tuple[str, str]
) -> tuple[tuple[Label, ...], IntegerArray]:
    """Groups in sorted order, and the position of each row's group among them.

    Parameters
    ----------
    groups : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Several columns make their intersections.
    beside : object
        The rows, with which groups are matched by position; pandas indexes that disagree are an
        error.
    n_rows : int
        Rows of `beside`.
    names : tuple of two str
        What `beside` and the groups are called in messages.

    Returns
    -------
    tuple of k labels, (n,) array of int

    Raises
    ------
    InvalidInput
        No column of labels, lengths that differ, a missing label, pandas indexes that disagree.
    InvalidType
        Labels that cannot name a group.
    """
    beside_name, name = names
    given = groups
    if isinstance(groups, Mapping):
        groups = _crossed(groups, name)
    if (
        isinstance(groups, str)
        or not hasattr(groups, "__len__")
        or getattr(groups, "shape", None) == ()
    ):
        raise InvalidInput(
            f"{name} is {groups!r}",
            "Allowed: one group label for each row, or a column for each of several attributes",
            f"Pass {name} as a list, array, series or data frame",
        )
    coder = LabelCoder()
    labels = labels_of(groups, n_rows, beside, name, beside_name)
    check_alignment({beside_name: beside, name: given})
    codes = coder.encode(labels)
    return in_order(CodedLabels(coder.labels, codes))


def check_several(groups: tuple[Label, ...], rows: str = "All rows") -> None:
    """Make sure that there are groups to compare.

    Raises
    ------
    InvalidInput
    """
    if len(groups) < 2:
        raise InvalidInput(
            f"{rows} belong to one group, {groups[0]!r}",
            "Allowed: two groups or more",
            "Check the group column, or the filter that made these rows",
        )


def coded_outcomes(labels: Any, name: str) -> tuple[tuple[Scalar, ...], IntegerArray]:
    """Outcomes in sorted order, and the position of each row's outcome among them.

    Unlike groups, 1, 1.0 and True are one outcome: predictions are often real numbers where the
    labels are whole.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
    name : str
        What they are called in messages.

    Returns
    -------
    tuple of m values, (n,) array of int

    Raises
    ------
    InvalidInput
        Not one column, empty, a missing outcome, text beside numbers.
    InvalidType
        Outcomes that are neither text nor numbers.
    """
    coded = labels_in(labels, name)
    if not len(coded):
        raise InvalidInput(f"{name} is empty", "Allowed: at least one row", "Pass the rows")
    met: dict[Scalar, int] = {}
    places = np.zeros(len(coded.distinct), dtype=np.intp)
    for code in np.unique(coded.codes).tolist():
        value = plain_label(coded.distinct[code])
        if isinstance(value, tuple):
            raise InvalidInput(
                f"{name} is no column: its type is {type(labels).__name__}, its shape "
                f"{getattr(labels, 'shape', (len(coded),))}",
                "Allowed: one dimension: one outcome for each row",
                "Pass a single column; of scores for several classes take argmax(axis=1) first",
            )
        if is_missing(value):
            row = int(np.argmax(coded.codes == code))
            raise InvalidInput(
                f"{name} has no outcome in {position('row', row)} (None or NaN)",
                _ALLOWED,
                "Drop these rows",
            )
        if not isinstance(value, str | bool | int | float):
            raise InvalidType(
                f"{name} holds {value!r}, of type {type(value).__name__}",
                _ALLOWED,
                "Convert it, for example with astype(str)",
            )
        places[code] = met.setdefault(value, len(met))
    if len({isinstance(value, str) for value in met}) > 1:
        raise InvalidInput(f"{name} mixes text with numbers", _ALLOWED, "Convert it to one type")
    return in_order(CodedLabels(list(met), places[coded.codes]))


def _crossed(columns: Mapping[Any, Any], name: str) -> list[tuple[Any, ...]]:
    lengths = sorted({len(each) if hasattr(each, "__len__") else 0 for each in columns.values()})
    if len(lengths) != 1 or lengths == [0]:
        raise InvalidInput(
            f"The columns of {name} have lengths {listed(lengths)}",
            "Allowed: at least one column, all of the same length",
            "Take all columns from the same rows",
        )
    return list(zip(*columns.values(), strict=True))


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

    @property
    def effective_counts(self) -> FloatArray:
        """(sum w)^2 / sum w^2 of each group (Kish 1965): the number of rows, without weights."""
        sums = [np.bincount(self.group_codes, self.weights**power) for power in (1, 2)]
        return np.asarray(sums[0] ** 2 / sums[1])

    def largest_deviation(
        self, n_bootstrap: int, confidence: float, random_state: Any
    ) -> float | None:
        """How far apart chance alone moves two groups: the quantile over resamples.

        With D_g the deviation of a resample's shares from those that it was drawn from, it is that
        of the largest 1/2 |D_a - D_b|_1 over all pairs of groups. Rows are drawn within each group,
        to which half a row of each outcome is added, as what was not seen may occur.

        Parameters
        ----------
        n_bootstrap : int
            Resamples.
        confidence : float
        random_state : int, Generator, RandomState or None

        Returns
        -------
        float or None
            None without resamples, or where a group is a single row.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_number("confidence", confidence, 0, 1)
        rng = generator_of(random_state)
        if n_bootstrap == 0 or not (self.counts > 1).all():
            return None
        cells = [self._cells(group) for group in range(len(self.groups))]
        width = max(
            len(self.groups) ** 2 * len(self.outcomes), *(len(counts) for counts, _, _ in cells)
        )
        chunk, figures = max(1, _CHUNK // width), []
        for start in range(0, n_bootstrap, chunk):
            size = min(chunk, n_bootstrap - start)
            drawn = np.stack([self._deviations(*each, size, rng) for each in cells], axis=1)
            apart = np.abs(drawn[:, :, None] - drawn[:, None]).sum(axis=3) / 2
            figures.append(apart.max(axis=(1, 2)))
        return float(np.quantile(np.concatenate(figures), confidence))

    def _cells(self, group: int) -> tuple[FloatArray, FloatArray, IntegerArray]:
        """How often each pair of outcome and weight occurs in a group, the weights, the outcomes.

        Rows that agree in both are interchangeable, so drawing rows is drawing a multinomial. Half
        a row of each outcome, of the mean weight, comes last.
        """
        rows = self.group_codes == group
        pairs = np.column_stack([self.outcome_codes[rows], self.weights[rows]])
        distinct, counts = np.unique(pairs, axis=0, return_counts=True)
        m = len(self.outcomes)
        return (
            np.concatenate([counts, np.full(m, 0.5)]),
            np.concatenate([distinct[:, 1], np.full(m, self.weights[rows].mean())]),
            np.concatenate([distinct[:, 0].astype(np.int64), np.arange(m)]),
        )

    def _deviations(
        self,
        counts: FloatArray,
        weights: FloatArray,
        outcome_codes: IntegerArray,
        size: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """By how much the shares in resamples of a group's cells differ from its own, (size, m)."""
        weights, chances = weights / weights.max(), counts / counts.sum()
        n_rows = round(counts.sum() - len(self.outcomes) / 2)
        drawn = np.vstack([chances, rng.multinomial(n_rows, chances, size=size)]) * weights
        shares = drawn @ (outcome_codes[:, None] == np.arange(len(self.outcomes)))
        shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray(shares[1:] - shares[0])

    def against_rest(self, protected: Any, rest: Any = None) -> "OutcomesByGroup":
        """Two groups: the rest, by default all the others, then the protected one.

        Parameters
        ----------
        protected : label
        rest : label or list of labels, optional

        Raises
        ------
        UnknownGroup
            No row is of the protected group, or of a group of the rest.
        InvalidInput
            Every row is of the protected group, or the rest contains it.
        """
        asked = [] if rest is None else rest if isinstance(rest, list) else [rest]
        label, *others = plain_labels([protected, *asked])
        for each in (label, *others):
            if each not in self.groups:
                raise UnknownGroup(
                    f"The {'protected' if each is label else 'compared'} group is {each!r}, which "
                    "no row belongs to",
                    f"The rows hold the groups {listed(self.groups)}",
                    remedy_for(each, self.groups, "Name one of these groups"),
                )
        check_several(self.groups)
        if label in others:
            raise InvalidInput(
                f"The rest holds {label!r}, which is the protected group",
                f"Allowed: others of the groups {listed(self.groups)}",
                "Leave it out",
            )
        codes = self.group_codes
        kept = np.isin(codes, [self.groups.index(each) for each in (label, *others)])
        kept |= rest is None
        its = (codes[kept] == self.groups.index(label)).astype(np.int64)
        return OutcomesByGroup(
            ("rest", label), self.outcomes, its, self.outcome_codes[kept], self.weights[kept]
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
    given = checked_weights(sample_weight, n)
    check_alignment(
        {name: labels, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    )
    weights = np.ones(n) if given is None else given
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
