"""FS407, FS408, FS411 and FS412: missing values, and codes that stand for them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairspan.auditing.audited_rows import MissingFeature, MissingValues
from fairspan.auditing.findings.finding import Finding, Setting
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.first_rows import FirstRowsSummary
from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.missing_value_codes import ColumnCodes
from fairspan.auditing.missing_values import MIN_SHARE_DIFFERENCE
from fairspan.auditing.observed_pairs import MIN_PAIRS_PER_FEATURE, has_enough_pairs
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_count, noun_form, to_ascii
from fairspan.moments.em import EMSummary
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.labels import Label

# Maximum number of columns in a remedy.
_MAX_COLUMNS_SHOWN = 4
# Share from which a group or a feature is largely missing.
_LARGE_SHARE = 0.3


def uneven_missingness(missing: MissingValues, *, is_completed: bool) -> Iterator[Finding]:
    """FS407: features missing in many rows, or unevenly across groups.

    `is_completed` tells that rows were completed by imputation rather than dropped.
    """
    features = [feature for feature in missing.features if _is_uneven(feature)]
    if not features:
        return
    descriptions = [
        f"{quote_group(feature.name)} ({_share_range(missing.groups, feature.shares)}"
        f"{', exactly the mean' if feature.is_mean_imputed else ''})"
        for feature in features
    ]
    yield make_finding(
        "FS407",
        {"features": join_truncated(descriptions)},
        case="completed" if is_completed else None,
        columns=tuple(feature.name for feature in features),
    )


def _is_uneven(feature: MissingFeature) -> bool:
    """Whether values are missing in many rows of a group, or much more often than in another."""
    largest = max(feature.shares)
    return largest - min(feature.shares) > MIN_SHARE_DIFFERENCE or largest > _LARGE_SHARE


def _share_range(groups: Sequence[Label], shares: Sequence[float]) -> str:
    """Describe the smallest and largest share and their groups; one if all are equal."""
    low = int(np.argmin(shares))
    high = int(np.argmax(shares))
    largest = f"{ascii_share(shares[high])} of {quote_group(groups[high])}"
    if low == high:
        return largest
    return f"{ascii_share(shares[low])} of {quote_group(groups[low])}, {largest}"


def largely_missing_groups(missing: MissingValues) -> Iterator[Finding]:
    """FS408: groups with more than 30 % of the rows dropped, or mean-imputed in one feature."""
    imputed_shares = [feature.shares for feature in missing.features if feature.is_mean_imputed]
    shares = np.max([missing.dropped_shares, *imputed_shares], axis=0)
    affected = np.flatnonzero(shares > _LARGE_SHARE).tolist()
    if not affected:
        return
    descriptions = [
        f"{quote_group(missing.groups[i])} ({ascii_share(shares[i])})" for i in affected
    ]
    # A sentence on the features that alone cause the most dropped rows.
    costliest_text = ""
    if missing.costliest_text:
        costliest_text = f" {missing.costliest_text}"
    yield make_finding(
        "FS408",
        {
            "groups": join_truncated(descriptions),
            "lost_groups": _describe_empty_groups(missing),
            "costliest_features": costliest_text,
        },
        groups=[missing.groups[i] for i in affected],
        settings=[Setting("exclude", "drop the columns")],
    )


def _describe_empty_groups(missing: MissingValues) -> str:
    """Return a sentence on groups of which every row was dropped; empty if there are none."""
    empty_groups = [
        quote_group(group)
        for group, n_dropped, n_rows in zip(
            missing.groups, missing.n_dropped, missing.n_rows, strict=True
        )
        if n_dropped == n_rows
    ]
    if not empty_groups:
        return ""
    pronoun = noun_form(len(empty_groups), "it", "them")
    return (
        f" No row of {join_truncated(empty_groups)} is left, so there are no figures for {pronoun}."
    )


def imputed_cells(moments: GroupMoments, em_summary: EMSummary) -> Iterator[Finding]:
    """FS411: missing cells were imputed by their expectation.

    Groups with too few rows, whose correlations are partly those of all groups, are named as well,
    and so are groups with more rows, but not enough for figures on new rows.
    """
    if not em_summary.n_missing_cells.any():
        return
    # Columns that only a restriction uses, not the model, are imputed along with the features.
    n_columns = (moments.all_columns or moments).n_features
    shares = em_summary.n_missing_cells / np.maximum(moments.counts * n_columns, 1)
    labels = moments.labels
    affected = np.flatnonzero(shares).tolist()
    descriptions = [f"{quote_group(labels[i])} ({ascii_share(shares[i])})" for i in affected]
    yield make_finding(
        "FS411",
        {
            "groups": join_truncated(descriptions),
            "pooled_groups": _describe_pooled_groups(labels, em_summary),
            "groups_with_few_pairs": _describe_groups_with_few_pairs(moments, em_summary),
        },
        groups=[labels[i] for i in affected],
    )


def _describe_pooled_groups(labels: Sequence[Label], em_summary: EMSummary) -> str:
    """Return a sentence on groups with correlations of all groups; empty if there are none.

    The weight of the correlations of all groups is positive for groups with too few rows.
    """
    pooled_groups = [
        f"{quote_group(labels[i])} (weight {em_summary.pool_weights[i]:.2f})"
        for i in np.flatnonzero(em_summary.pool_weights).tolist()
    ]
    if not pooled_groups:
        return ""
    return (
        f" For {join_truncated(pooled_groups)}, too few rows have pairs of features observed "
        "together, so their correlations are partly those of all groups."
    )


def _describe_groups_with_few_pairs(moments: GroupMoments, em_summary: EMSummary) -> str:
    """Return a sentence on groups without figures for new rows; empty if there are none."""
    groups_with_few_pairs = []
    for i in np.flatnonzero(~has_enough_pairs(moments)).tolist():
        n_rows = to_ascii(format_count(int(em_summary.min_pair_counts[i]), "row"))
        groups_with_few_pairs.append(f"{quote_group(moments.labels[i])} ({n_rows})")
    if not groups_with_few_pairs:
        return ""
    return (
        f" There are no figures for new rows of {join_truncated(groups_with_few_pairs)}: some "
        f"pair of features is observed together in fewer than "
        f"{MIN_PAIRS_PER_FEATURE * moments.n_features} rows."
    )


def codes_for_missing_values(
    first_rows: FirstRowsSummary, *, has_names: bool, are_all_rows: bool
) -> Iterator[Finding]:
    """FS412: values that look like codes for missing ones.

    Those are repeated values far from all others, such as -99, and many zeros away from the other
    values.

    Parameters
    ----------
    first_rows : FirstRowsSummary
    has_names : bool
        Whether features have names, so that columns can be named.
    are_all_rows : bool
        Whether the first rows are all rows.
    """
    if not first_rows.codes:
        return
    descriptions = [
        _describe_codes(quote_group(name) if has_names else name, codes)
        for name, codes in first_rows.codes.items()
    ]
    scope = ""
    if not are_all_rows:
        scope = f"In the first {first_rows.n_rows:,} rows, "
    remedy = _remedy_in_python(first_rows.codes, has_names=has_names)
    advice = f'{remedy} with on_missing="drop" or "em"'
    settings: list[Setting] = []
    if has_names:
        values = {name: tuple(codes.codes) for name, codes in first_rows.codes.items()}
        settings = [Setting("na_values", advice, values)]
    yield make_finding(
        "FS412",
        {
            "scope": scope,
            "columns": join_truncated(descriptions),
            "replacement": f" ({advice})",
        },
        columns=tuple(first_rows.codes),
        settings=settings,
    )


def _describe_codes(name: str, codes: ColumnCodes) -> str:
    """Describe the suspected codes of a column and the range of its other values."""
    values = [
        f"{code:.15g} ({to_ascii(format_count(n_rows, 'row'))})"
        for code, n_rows in zip(codes.codes, codes.counts, strict=True)
    ]
    return (
        f"{name} holds {' and '.join(values)} far from its other values "
        f"({codes.low:.6g} to {codes.high:.6g})"
    )


def _remedy_in_python(codes: Mapping[str, ColumnCodes], *, has_names: bool) -> str:
    """Return Python code that sets codes for missing values to NaN, for at most four columns.

    It is for a pandas frame, or for an array if features have no names.
    """
    listed_codes = dict(itertools.islice(codes.items(), _MAX_COLUMNS_SHOWN))
    lists = {
        name: f"[{', '.join(f'{code:.15g}' for code in column_codes.codes)}]"
        for name, column_codes in listed_codes.items()
    }
    if has_names:
        replacements = ", ".join(f"{name!r}: {values}" for name, values in lists.items())
        return f"with pandas X.replace({{{replacements}}}, np.nan)"
    steps = [
        f"X[np.isin(X[:, {column_codes.column}], {lists[name]}), {column_codes.column}] = np.nan"
        for name, column_codes in listed_codes.items()
    ]
    # An array of integers cannot hold NaN.
    return f"in Python X = np.array(X, dtype=float); {'; '.join(steps)}"
