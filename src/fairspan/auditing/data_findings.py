"""Findings about data that cannot mean what they seem to; docs/findings.md has each code.

All except the order of rows follows from the means and variances of the moments.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.models import Audited
from fairspan.auditing.results import Finding, quoted
from fairspan.formatting.text import count, first_of, in_ascii, share
from fairspan.moments.of_rows import Moments
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray, IndexArray

# Each limit is justified where its code stands in docs/findings.md.
_MOST_WITHIN_GROUPS = 0.02
_FEWEST_DEGREES_OF_FREEDOM = 10
_MOST_OF_THE_VARIANCE = 0.9
_NEARLY_ALL = 0.999
_RARE = 0.01
_MOST_OF_A_COMPONENT = 0.5
_MANY_GROUPS = 20
_FEW_ROWS_OF_MANY_GROUPS = 100
# A column of zeros and ones has its mean for second moment, up to this share of rounding.
_ROUNDING = 1e-9


def find_in_data(
    audited: Sequence[Audited], moments: Moments, ordered: Sequence[int] = ()
) -> tuple[Finding, ...]:
    """Apply every rule about the data, in the order of the codes.

    Parameters
    ----------
    audited : sequence of Audited
    moments : GroupMoments, SparseMoments or ThinMoments
        Of the audited rows, unscaled.
    ordered : sequence of int
        Columns whose values all differ and only rise or only fall from row to row.

    Returns
    -------
    tuple of Finding
    """
    columns = _Columns.of(audited, moments)
    return (
        *_columns_that_are_the_group(moments, columns),
        *_ordered_columns(ordered, columns),
        *_a_column_with_most_of_the_variance(audited, moments, columns),
        *_components_of_rare_indicators(audited, moments, columns),
        *labels_spelled_differently(moments.labels),
        *_many_labels(moments),
    )


@dataclass(frozen=True)
class _Columns:
    """How findings name the features: x0, x1, ... where these have no names."""

    names: tuple[str, ...] | None

    @classmethod
    def of(cls, audited: Sequence[Audited], moments: Moments) -> "_Columns":
        """The names of the rows' features, or else of the models'."""
        named = (moments.feature_names, *(each.subspace.feature_names for each in audited))
        return cls(next(filter(None, named), None))

    def named(self, columns: Iterable[int]) -> tuple[str, ...]:
        """The names as they are in the data."""
        return tuple(f"x{i}" if self.names is None else self.names[i] for i in columns)

    def listed(self, columns: Sequence[int]) -> str:
        """The names as a sentence has them."""
        names = self.named(columns)
        shown = names if self.names is None else [quoted(name) for name in names]
        return f"{'feature' if len(columns) == 1 else 'features'} {first_of(shown)}"


def _columns_that_are_the_group(moments: Moments, columns: _Columns) -> Iterator[Finding]:
    """FS401: columns that hardly vary within groups and differ between them."""
    n_rows = int(moments.counts.sum())
    freedom = n_rows - moments.n_groups
    if moments.n_groups < 2 or freedom < _FEWEST_DEGREES_OF_FREEDOM:
        return
    total = moments.standard_deviations**2
    # With the degrees of freedom of an analysis of variance, so that many groups of few rows, which
    # vary little about their own means, do not make every column look like the group.
    within = (moments.proportions @ moments.variances) * ((n_rows - 1) / freedom)
    seen = np.flatnonzero((total > 0) & (within < _MOST_WITHIN_GROUPS * total)).tolist()
    if seen:
        yield Finding(
            "FS401",
            "warning",
            f"{columns.listed(seen)} {'encodes' if len(seen) == 1 else 'encode'} the group: "
            f"(nearly) "
            "constant within groups, different between them. Such a feature can hide or reverse "
            "the effect of a projection on the groups. Leave it out (drop the column; --exclude).",
            columns=columns.named(seen),
        )


def _ordered_columns(ordered: Sequence[int], columns: _Columns) -> Iterator[Finding]:
    """FS402: columns whose values all differ and are in order."""
    if ordered:
        yield Finding(
            "FS402",
            "warning",
            f"{columns.listed(ordered)}: all values differ, and they only rise or only fall from "
            "row to row. This is typical of a row number, an identifier, a time, or the column by "
            "which the table is sorted. Leave it out, unless it measures something about each row "
            "(drop the column; --exclude).",
            columns=columns.named(ordered),
        )


def _a_column_with_most_of_the_variance(
    audited: Sequence[Audited], moments: Moments, columns: _Columns
) -> Iterator[Finding]:
    """FS403: without scaling, one column is nearly all that there is to keep."""
    if moments.n_features < 2:
        return
    found: dict[int, float] = {}
    concerned = []
    for each in audited:
        if each.subspace.scale is not None:
            continue
        sizes = _second_moments(moments, each.subspace.reference_point(moments))
        largest = int(np.argmax(sizes))
        held = sizes[largest] / sizes.sum() if sizes.any() else 0.0
        if held > _MOST_OF_THE_VARIANCE:
            concerned.append(each.name)
            found[largest] = max(held, found.get(largest, 0.0))
    if found:
        holds = "; ".join(
            f"{columns.listed([column])} holds "
            f"{'more than 99.9 %' if held > _NEARLY_ALL else in_ascii(share(held))} of the variance"
            for column, held in sorted(found.items())
        )
        yield Finding(
            "FS403",
            "warning",
            f"{holds}, and {first_of(concerned)} {'does' if len(concerned) == 1 else 'do'} not "
            "scale: the other features have little influence. Use scale=True (--standardize), or "
            "divide it "
            "by its unit.",
            columns=columns.named(sorted(found)),
        )


def _components_of_rare_indicators(
    audited: Sequence[Audited], moments: Moments, columns: _Columns
) -> Iterator[Finding]:
    """FS404: standardised, a rare indicator is as large as any other column."""
    indicators = _rare_indicators(moments)
    making: set[int] = set()
    made = []
    for each in audited:
        if each.subspace.scale is None or each.by_rows is not None or not len(indicators):
            continue
        loadings = each.subspace.components**2
        loadings = loadings / loadings.sum(axis=1, keepdims=True)
        mostly = np.flatnonzero(loadings[:, indicators].sum(axis=1) > _MOST_OF_A_COMPONENT)
        for component in mostly:
            making |= _making_most(loadings[component], indicators)
        if len(mostly):
            made.append(f"{len(mostly)} of {count(len(loadings), 'component')} of {each.name}")
    if making:
        seen = sorted(making)
        yield Finding(
            "FS404",
            "warning",
            f"{first_of(made)}: made mostly of rare indicators (0 or 1, one value in less "
            f"than 1 % of the rows): {columns.listed(seen)}. Scaling makes them as large as any "
            "other feature. Join such categories, leave them out (--exclude), or do not scale.",
            columns=columns.named(seen),
        )


def labels_spelled_differently(labels: Sequence[Label]) -> Iterator[Finding]:
    """FS405: labels that differ only by case or blanks."""
    alike: dict[Label, list[Label]] = defaultdict(list)
    for label in labels:
        alike[_without_case_and_blanks(label)].append(label)
    several = [spellings for spellings in alike.values() if len(spellings) > 1]
    if several:
        spelled = [" and ".join(map(quoted, spellings)) for spellings in several]
        yield Finding(
            "FS405",
            "warning",
            f"Labels that differ only by case or blanks: {first_of(spelled)}. They count as "
            "different groups. Use one spelling in the group column.",
            groups=tuple(label for spellings in several for label in spellings),
        )


def _many_labels(moments: Moments) -> Iterator[Finding]:
    """FS406: many groups, of which at least half have few rows."""
    k = moments.n_groups
    known = moments.counts[moments.counts > 0]
    n_few = int((known < _FEW_ROWS_OF_MANY_GROUPS).sum())
    if k > _MANY_GROUPS and 2 * n_few >= k:
        yield Finding(
            "FS406",
            "warning",
            f"{k:,} groups, of which {n_few:,} have fewer than {_FEW_ROWS_OF_MANY_GROUPS} rows, "
            "too few to say much about each. Check that the group column is no identifier; cross "
            "fewer attributes, or join groups.",
        )


def _second_moments(moments: Moments, point: FloatArray | None) -> FloatArray:
    """Pooled second moment of each column about a point, or each group's own mean, (p,)."""
    parts = moments.variances
    if point is not None:
        parts = parts + (moments.means - point) ** 2
    return np.asarray(moments.proportions @ parts)


def _rare_indicators(moments: Moments) -> IndexArray:
    """Columns of zeros and ones of which one value is rare.

    Of whole numbers x, x^2 >= x, with equality for zero and one alone; so only zeros and ones have
    a second moment that equals the mean. Fractions may too, by a coincidence.
    """
    ones = moments.mean
    second = _second_moments(moments, np.zeros(moments.n_features))
    is_indicator = np.abs(second - ones) <= _ROUNDING * second
    return np.flatnonzero(
        is_indicator & (np.minimum(ones, 1 - ones) < _RARE) & (moments.standard_deviations > 0)
    )


def _making_most(loadings: FloatArray, indicators: IndexArray) -> set[int]:
    """The fewest of the indicators that together make most of a component."""
    by_size = indicators[np.argsort(-loadings[indicators], kind="stable")]
    return set(
        by_size[: int(np.argmax(np.cumsum(loadings[by_size]) > _MOST_OF_A_COMPONENT)) + 1].tolist()
    )


def _without_case_and_blanks(label: Label) -> Label:
    """What two spellings of one label have in common; control characters count as blanks."""
    if isinstance(label, tuple):
        return tuple(_bare(part) if isinstance(part, str) else part for part in label)
    return _bare(label) if isinstance(label, str) else label


def _bare(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isprintable() and char != " ")
