"""Outcomes by group: encode outcomes and groups, and count them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, UnknownGroup
from fairspan.formatting.messages import describe_position
from fairspan.parameters import check_number
from fairspan.random_state import as_generator
from fairspan.rows.alignment import check_alignment
from fairspan.rows.coded_labels import CodedLabels, LabelEncoder, factorize_sorted
from fairspan.rows.label_matching import remedy_for
from fairspan.rows.label_resolution import labels_from_values, resolve_labels
from fairspan.rows.labels import (
    Label,
    Scalar,
    format_list,
    is_missing_label,
    to_python_label,
    to_python_labels,
)
from fairspan.rows.sample_weights import check_sample_weight
from fairspan.typing import FloatArray, IntegerArray, RandomSource

_ALLOWED_OUTCOMES = "Allowed: one outcome per row: text, numbers or booleans, none missing"
# Number of draws at once, so that memory does not grow with the number of resamples.
_MAX_DRAWS_AT_ONCE = 2**21


def encode_groups(
    groups: object, reference: object, n_rows: int, names: tuple[str, str]
) -> tuple[tuple[Label, ...], IntegerArray]:
    """Sorted groups, and the index of each row's group.

    Parameters
    ----------
    groups : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Several columns define their intersections.
    reference : object
        Rows that the groups are matched with by position; a conflicting pandas index is an error.
    n_rows : int
        Number of rows of `reference`.
    names : tuple of two str
        Names of `reference` and of the groups in messages.

    Returns
    -------
    tuple of k labels, (n,) array of int

    Raises
    ------
    InvalidInput
        Not a column of labels, inconsistent lengths, a missing label, or conflicting pandas
        indexes.
    InvalidType
        Labels that cannot be groups.
    """
    reference_name, groups_name = names
    received_groups = groups
    if isinstance(groups, Mapping):
        groups = _intersect_columns(groups, groups_name)
    has_length = hasattr(groups, "__len__") and getattr(groups, "shape", None) != ()
    if isinstance(groups, str) or not has_length:
        raise InvalidInput(
            f"{groups_name} is {groups!r}",
            "Allowed: one group label per row, or a column for each of several attributes",
            f"Pass {groups_name} as a list, array, series or data frame",
        )
    encoder = LabelEncoder()
    labels = resolve_labels(groups, n_rows, reference, groups_name, reference_name)
    check_alignment({reference_name: reference, groups_name: received_groups})
    codes = encoder.encode(labels)
    return factorize_sorted(CodedLabels(encoder.labels, codes))


def check_multiple_groups(groups: tuple[Label, ...], rows: str = "All rows") -> None:
    """Check that there are at least two groups.

    Raises
    ------
    InvalidInput
    """
    if len(groups) < 2:
        raise InvalidInput(
            f"{rows} belong to the same group, {groups[0]!r}",
            "Allowed: at least two groups",
            "Check the group column, or the filter that made these rows",
        )


def encode_outcomes(outcomes: object, name: str) -> tuple[tuple[Scalar, ...], IntegerArray]:
    """Sorted outcomes, and the index of each row's outcome.

    Unlike for groups, 1, 1.0 and True are the same outcome, since predictions are often floats
    where labels are integers.

    Parameters
    ----------
    outcomes : (n,) array-like or series, or a frame or array of one column
    name : str
        Name in messages.

    Returns
    -------
    tuple of m values, (n,) array of int

    Raises
    ------
    InvalidInput
        More than one column, no rows, a missing outcome, or a mixture of text and numbers.
    InvalidType
        Outcomes that are neither text nor numbers.
    """
    labels = labels_from_values(outcomes, name)
    if not len(labels):
        raise InvalidInput(f"{name} is empty", "Allowed: at least one row", "Pass the rows")
    outcome_codes: dict[Scalar, int] = {}
    code_map = np.zeros(len(labels.categories), dtype=np.intp)
    for code in np.unique(labels.codes).tolist():
        value = to_python_label(labels.categories[code])
        if isinstance(value, tuple):  # several columns
            shape = getattr(outcomes, "shape", (len(labels),))
            raise InvalidInput(
                f"{name} is not a column: its type is {type(outcomes).__name__}, its shape {shape}",
                "Allowed: one dimension, with one outcome per row",
                "Pass a single column; for scores of several classes, apply argmax(axis=1) first",
            )
        if is_missing_label(value):
            row = int(np.argmax(labels.codes == code))
            raise InvalidInput(
                f"{name} has no outcome in {describe_position('row', row)} (None or NaN)",
                _ALLOWED_OUTCOMES,
                "Drop these rows",
            )
        if not isinstance(value, str | bool | int | float):
            raise InvalidType(
                f"{name} contains {value!r}, of type {type(value).__name__}",
                _ALLOWED_OUTCOMES,
                "Convert it, for example with astype(str)",
            )
        # Equal numbers of different types get the same code.
        code_map[code] = outcome_codes.setdefault(value, len(outcome_codes))
    if len({isinstance(value, str) for value in outcome_codes}) > 1:
        raise InvalidInput(
            f"{name} mixes text with numbers", _ALLOWED_OUTCOMES, "Convert it to one type"
        )
    values, codes = factorize_sorted(CodedLabels(list(outcome_codes), code_map[labels.codes]))
    return cast("tuple[Scalar, ...]", values), codes


def _intersect_columns(columns: Mapping[object, object], name: str) -> list[tuple[object, ...]]:
    lengths = sorted(
        {len(column) if hasattr(column, "__len__") else 0 for column in columns.values()}
    )
    if len(lengths) != 1 or lengths == [0]:
        raise InvalidInput(
            f"The columns of {name} have lengths {format_list(lengths)}",
            "Allowed: at least one column, all of the same length",
            "Take all columns from the same rows",
        )
    return list(zip(*columns.values(), strict=True))


@dataclass(frozen=True, eq=False)
class _BootstrapCells:
    """Distinct rows of one group, from which resamples are drawn.

    Attributes
    ----------
    counts, weights : (c,) arrays
        Number of rows of each cell, and the weight of each of them.
    outcome_codes : (c,) array of int
    n_outcomes : int
        m.
    """

    counts: FloatArray
    weights: FloatArray
    outcome_codes: IntegerArray
    n_outcomes: int

    def resample_deviations(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Deviations of resampled outcome shares from those of the cells, shape (size, m).

        A cell stands for all rows of the group with the same outcome and weight. There are m
        outcomes; the share of one is its share in the total weight.
        A resample has as many rows as the group, without the half row that was added per outcome.
        """
        weights = self.weights / self.weights.max()
        probabilities = self.counts / self.counts.sum()
        n_rows = round(self.counts.sum() - self.n_outcomes / 2)
        resampled_counts = rng.multinomial(n_rows, probabilities, size=size)
        # Weight of each cell; the first row is the group itself, the others are resamples.
        cell_weights = np.vstack([probabilities, resampled_counts]) * weights
        shares = cell_weights @ (self.outcome_codes[:, None] == np.arange(self.n_outcomes))
        shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray(shares[1:] - shares[0])


@dataclass(frozen=True, eq=False)
class OutcomesByGroup:
    """Outcome, group and weight of each row.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    outcomes : tuple of m values
        In sorted order.
    group_codes, outcome_codes : (n,) arrays of int
        Indices into `groups` and `outcomes`.
    weights : (n,) array
        Positive; ones without sample weights.
    """

    groups: tuple[Label, ...]
    outcomes: tuple[Scalar, ...]
    group_codes: IntegerArray
    outcome_codes: IntegerArray
    weights: FloatArray

    @classmethod
    def from_arrays(
        cls,
        outcomes: object,
        sensitive_features: object,
        sample_weight: object = None,
        name: str = "outcomes",
    ) -> "OutcomesByGroup":
        """Read and check one outcome, one group and one weight per row.

        Parameters
        ----------
        outcomes : (n,) array-like or series, or a frame or array of one column
        sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        sample_weight : (n,) array-like, optional
            Rows of weight zero are ignored.
        name : str
            Name of the outcomes in messages.

        Returns
        -------
        OutcomesByGroup

        Raises
        ------
        InvalidInput, InvalidType
        """
        values, outcome_codes = encode_outcomes(outcomes, name)
        n = len(outcome_codes)
        groups, group_codes = encode_groups(
            sensitive_features, outcomes, n, (name, "sensitive_features")
        )
        weights = check_sample_weight(sample_weight, n)
        check_alignment(
            {
                name: outcomes,
                "sensitive_features": sensitive_features,
                "sample_weight": sample_weight,
            }
        )
        if weights is None:
            weights = np.ones(n)
        has_weight = weights > 0
        present_groups, group_codes = np.unique(group_codes[has_weight], return_inverse=True)
        present_outcomes, outcome_codes = np.unique(outcome_codes[has_weight], return_inverse=True)
        return cls(
            tuple(groups[i] for i in present_groups),
            tuple(values[i] for i in present_outcomes),
            group_codes.astype(np.int64),
            outcome_codes.astype(np.int64),
            weights[has_weight] / weights.max(),  # so that sums stay within float64's range
        )

    @property
    def counts(self) -> IntegerArray:
        """Number of rows of each group, shape (k,)."""
        return np.bincount(self.group_codes, minlength=len(self.groups)).astype(np.int64)

    def distribution(self) -> FloatArray:
        """Weighted share of each outcome in each group, shape (k, m); rows sum to one."""
        k = len(self.groups)
        m = len(self.outcomes)
        group_cells = self.group_codes * m + self.outcome_codes
        sums = np.bincount(group_cells, self.weights, k * m).reshape(k, m)
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))

    @property
    def effective_sample_sizes(self) -> FloatArray:
        """Effective sample size of each group: the number of rows, if they are unweighted.

        (sum w)^2 / sum w^2, Kish (1965).
        """
        sums = [np.bincount(self.group_codes, self.weights**power) for power in (1, 2)]
        return np.asarray(sums[0] ** 2 / sums[1])

    def bootstrap_max_deviation(
        self, n_bootstrap: int, level: float, random_state: RandomSource
    ) -> float | None:
        """Bootstrap quantile of the largest distance of two groups that is due to chance alone.

        With D_g the deviation of a resample's shares from those it was drawn from, the quantile is
        that of the maximum of 1/2 |D_a - D_b|_1 over all pairs of groups. Rows are drawn within
        each group, after adding half a row of each outcome, since unobserved outcomes may occur.

        Parameters
        ----------
        n_bootstrap : int
            Number of resamples.
        level : float
        random_state : int, Generator, RandomState or None

        Returns
        -------
        float or None
            None without resamples, or if a group has a single row.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_number("level", level, 0, 1)
        rng = as_generator(random_state)
        if n_bootstrap == 0 or not (self.counts > 1).all():
            return None
        group_cells = [self._bootstrap_cells(group) for group in range(len(self.groups))]
        # Numbers per resample: the distances of all pairs of groups, or the counts of the cells.
        n_distances = len(self.groups) ** 2 * len(self.outcomes)
        max_cells = max(len(cells.counts) for cells in group_cells)
        chunk_size = max(1, _MAX_DRAWS_AT_ONCE // max(n_distances, max_cells))
        maxima = []
        for start in range(0, n_bootstrap, chunk_size):
            size = min(chunk_size, n_bootstrap - start)
            deviations = np.stack(
                [cells.resample_deviations(size, rng) for cells in group_cells], axis=1
            )
            # Axes: resample, group, other group, outcome.
            distances = np.abs(deviations[:, :, None] - deviations[:, None]).sum(axis=3) / 2
            maxima.append(distances.max(axis=(1, 2)))
        return float(np.quantile(np.concatenate(maxima), level))

    def _bootstrap_cells(self, group: int) -> "_BootstrapCells":
        """Return the distinct rows of a group.

        Rows with the same outcome and weight are interchangeable, so resampling rows is multinomial
        sampling. Half a row of each outcome, with the mean weight, is appended, since an outcome
        that was not observed may still occur.
        """
        rows = self.group_codes == group
        pairs = np.column_stack([self.outcome_codes[rows], self.weights[rows]])
        distinct, counts = np.unique(pairs, axis=0, return_counts=True)
        m = len(self.outcomes)
        return _BootstrapCells(
            counts=np.concatenate([counts, np.full(m, 0.5)]),
            weights=np.concatenate([distinct[:, 1], np.full(m, self.weights[rows].mean())]),
            outcome_codes=np.concatenate([distinct[:, 0].astype(np.int64), np.arange(m)]),
            n_outcomes=m,
        )

    def protected_vs_reference(
        self, protected: object, reference: object = None
    ) -> "OutcomesByGroup":
        """Reduce to two groups: the reference, by default all other groups, and the protected one.

        They come in this order in `groups`, and so in all figures by group. Rows of groups that are
        neither are dropped.

        Parameters
        ----------
        protected : label
        reference : label or list of labels, optional

        Raises
        ------
        UnknownGroup
            No row belongs to the protected group, or to a reference group.
        InvalidInput
            All rows belong to the protected group, or the reference contains it.
        """
        if reference is None:
            reference_groups = []
        elif isinstance(reference, list):
            reference_groups = reference
        else:
            reference_groups = [reference]
        protected_label, *reference_labels = to_python_labels([protected, *reference_groups])
        self._check_group(protected_label, "protected")
        for label in reference_labels:
            self._check_group(label, "reference")
        check_multiple_groups(self.groups)
        if protected_label in reference_labels:
            raise InvalidInput(
                f"The reference groups contain {protected_label!r}, which is the protected group",
                f"Allowed: other groups among {format_list(self.groups)}",
                "Remove it",
            )
        codes = self.group_codes
        compared_codes = [
            self.groups.index(label) for label in (protected_label, *reference_labels)
        ]
        selected = np.isin(codes, compared_codes)
        # Without a reference, all rows are compared.
        selected |= reference is None
        is_protected = (codes[selected] == self.groups.index(protected_label)).astype(np.int64)
        return OutcomesByGroup(
            ("reference", protected_label),
            self.outcomes,
            is_protected,
            self.outcome_codes[selected],
            self.weights[selected],
        )

    def _check_group(self, label: Label, role: str) -> None:
        """Raise UnknownGroup if no row belongs to a group."""
        if label not in self.groups:
            raise UnknownGroup(
                f"The {role} group is {label!r}, to which no row belongs",
                f"Allowed: the groups {format_list(self.groups)}",
                remedy_for(label, self.groups, "Name one of these groups"),
            )
