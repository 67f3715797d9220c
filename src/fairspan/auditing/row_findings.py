"""Findings about the rows: missing values, duplicates and dependence.

Besides the counts of missing values, a bounded number of first rows is inspected for what moments
cannot show (dependence between rows, imputed values), so run time does not grow with the table.
"""

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.auditing.codes import ColumnCodes, codes_in
from fairspan.auditing.cross_fitting import GroupOptima, reference_points
from fairspan.auditing.findings import make_finding
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.results import (
    Finding,
    MissingFeature,
    MissingValues,
    format_group,
    quote_group,
)
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_count, format_integer, format_share, to_ascii
from fairspan.formatting.table import Cell, Column, Table, name_column, share_column
from fairspan.moments.em import EMSummary
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.rows.aggregation import Rows
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.label_resolution import labels_from_columns
from fairspan.rows.labels import Label, is_missing_label, to_python_labels
from fairspan.rows.missing import MissingCounts
from fairspan.rows.protocol import RowSource
from fairspan.typing import AnyArray, FloatArray, IndexArray

# Difference between groups in shares of missing values that counts as uneven.
_MIN_SHARE_DIFFERENCE = 0.1
# Share from which a group or a feature is largely missing.
_LARGE_SHARE = 0.3
# z-value beyond which similarity of rows is significant.
_MIN_Z = 4.0
# Share of duplicate rows beyond which rows are dependent.
_MAX_DUPLICATE_SHARE = 0.1
# Maximum number of features in the table.
_MAX_FEATURES_SHOWN = 4
# Maximum number of rows to inspect.
_MAX_ROWS = 20_000
# Maximum number of cells to inspect (4 MB), as long as there are _MIN_ROWS rows.
_MAX_CELLS = 2**19
_MIN_ROWS = 1000
# Below this number of rows, statistics of a group are too noisy.
_MIN_GROUP_ROWS = 20
# Below this number of distinct values, the intraclass correlation is too noisy.
_MIN_CLUSTERS = 20
# Number of rows that decide whether a column has enough distinct values to identify clusters.
_N_PREVIEW_ROWS = 500
_MIN_PREVIEW_VALUES = 5
# A value with a larger share of the rows is a category, not a cluster.
_MAX_CLUSTER_SHARE = 0.2
# Intraclass correlation from which a column is reported as a cluster.
_MIN_INTRACLASS_CORRELATION = 0.2
# Tolerance, in standard deviations, for a value to equal the column's mean.
_MEAN_TOL = 1e-6
# Column names of identifiers: patient_id, PatientID, id.
_IDENTIFIER_NAME = re.compile(r"(^|[^A-Za-z])(?i:id|uid|uuid|identifier)([^A-Za-z]|$)|[a-z]I[Dd]$")
# Multiplier of SplitMix64 (Steele, Lea and Flood 2014).
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_KEY_DTYPES = ("int", "uint", "str", "large_string", "categorical", "dictionary", "enum")


@dataclass(frozen=True, eq=False)
class FirstRowsSummary:
    """Summary of the first rows of a table.

    Attributes
    ----------
    n_rows : int
        Number of rows inspected.
    autocorrelation_z : (k,) array
        z-value of the lag-1 autocorrelation of each group's rows; approximately standard normal if
        rows are independent.
    n_duplicates : int
        Number of rows that equal an earlier row in every feature; 0 if all features take so few
        values that duplicates are expected.
    candidate_clusters : tuple of (str, int, float)
        Columns whose values group rows with similar errors: (name, number of distinct values,
        intraclass correlation of the errors).
    share_at_mean : (k, p) array
        Share of each group's rows in which a feature equals its overall mean, as after mean
        imputation.
    identifier_features : tuple of str
        Features named like an identifier whose values are distinct and unsorted.
    codes : mapping of str to ColumnCodes
        Features with values that look like codes for missing ones.
    """

    n_rows: int
    autocorrelation_z: FloatArray
    n_duplicates: int
    candidate_clusters: tuple[tuple[str, int, float], ...]
    share_at_mean: FloatArray
    identifier_features: tuple[str, ...]
    codes: Mapping[str, ColumnCodes]


def summarize_first_rows(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments,
    n_extra_labels: int,
    *,
    has_clusters: bool,
) -> FirstRowsSummary | None:
    """Summarize the first rows; None if there are no rows or they are not read in this process.

    Parameters
    ----------
    models : sequence of AuditedModel
        Models; errors are those under the first.
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    n_extra_labels : int
        Number of trailing label columns that are not part of the group label.
    has_clusters : bool
        Whether clusters were given; if so, candidate columns are not searched.
    """
    if not isinstance(rows, RowSource):
        return None
    key_columns = () if has_clusters else _key_columns(rows)
    source = _with_extra_columns(rows, key_columns) if key_columns else rows
    blocks = _first_blocks(source, rows.n_features)
    n_rows = sum(len(block.values) for block in blocks)
    if not n_rows:
        return None
    values = np.vstack([block.values for block in blocks])
    if moments.imputation_model is not None:
        values = moments.imputation_model.complete(values).fill(values)
    keys = _key_codes(key_columns, [block.extra_columns for block in blocks])
    if isinstance(rows, ArrayRows) and not has_clusters:
        keys = _integer_keys(values)
    group_codes = np.concatenate(
        [_group_codes(block.group_labels, moments.labels, n_extra_labels) for block in blocks]
    )
    groups = [np.flatnonzero(group_codes == group) for group in range(moments.n_groups)]
    autocorrelation_z = [
        _autocorrelation_z(values[group_rows], group, models[0], moments)
        for group, group_rows in enumerate(groups)
    ]
    n_duplicates = 0
    if _has_continuous_feature(values[:_N_PREVIEW_ROWS]):
        n_duplicates = n_rows - len(np.unique(_row_hashes(values)))
    names = moments.feature_names
    identifier_features = [
        name
        for j, name in enumerate(names or ())
        if _IDENTIFIER_NAME.search(name) and _is_unsorted_key(values[:, j])
    ]
    codes_by_name = {
        f"x{codes.column}" if names is None else names[codes.column]: codes
        for codes in codes_in(values)
    }
    return FirstRowsSummary(
        n_rows=n_rows,
        autocorrelation_z=np.array(autocorrelation_z),
        n_duplicates=n_duplicates,
        candidate_clusters=tuple(_candidate_clusters(keys, values, groups, models[0], moments)),
        share_at_mean=_shares_at_mean(values, groups, moments),
        identifier_features=tuple(identifier_features),
        codes=codes_by_name,
    )


def _first_blocks(rows: RowSource, n_features: int) -> list[Any]:
    """Return blocks from the beginning of the rows, with enough rows in total."""
    max_rows = min(_MAX_ROWS, max(_MAX_CELLS // n_features, _MIN_ROWS))
    blocks = []
    n_rows = 0
    for block in rows.blocks():
        blocks.append(block)
        n_rows += len(block.values)
        if n_rows >= max_rows:
            break
    return blocks


def _integer_keys(values: FloatArray) -> dict[str, IndexArray]:
    """Codes of the values of each column of integers; few rows exclude most of the others."""
    candidates = np.flatnonzero((values[:_MIN_GROUP_ROWS] % 1 == 0).all(axis=0))
    integer_columns = candidates[(values[:, candidates] % 1 == 0).all(axis=0)]
    return {
        f"x{j}": np.unique(values[:, j], return_inverse=True)[1] for j in integer_columns.tolist()
    }


def _shares_at_mean(
    values: FloatArray, groups: Sequence[IndexArray], moments: Moments
) -> FloatArray:
    """Share of each group's rows in which a feature equals its overall mean, (k, p)."""
    deviations = moments.standard_deviations
    low = moments.mean - _MEAN_TOL * deviations
    high = moments.mean + _MEAN_TOL * deviations
    is_mean = (values > low) & (values < high)  # never for a constant column
    return np.array(
        [is_mean[group_rows].sum(axis=0) / max(len(group_rows), 1) for group_rows in groups]
    )


def _is_unsorted_key(values: FloatArray) -> bool:
    """Whether the values are distinct and not monotone."""
    steps = np.diff(values)
    is_distinct = len(values) >= _MIN_GROUP_ROWS and len(np.unique(values)) == len(values)
    return is_distinct and bool(steps.min() < 0 < steps.max())


def _key_columns(rows: Rows) -> tuple[str, ...]:
    """Names of text and integer columns that are neither reserved nor one-hot encoded."""
    if not isinstance(rows, FileRows | FrameRows):
        return ()
    schema = rows.schema if isinstance(rows, FileRows) else rows.frame.schema
    if hasattr(schema, "types"):
        dtypes = dict(zip(schema.names, schema.types, strict=True))
    else:
        dtypes = dict(schema)
    reserved = {*rows.selection.reserved_columns, *rows.selection.categories, ""}
    candidates = [name for name in dtypes if isinstance(name, str) and name not in reserved]
    return tuple(name for name in candidates if str(dtypes[name]).lower().startswith(_KEY_DTYPES))


def _with_extra_columns(rows: Any, columns: tuple[str, ...]) -> RowSource:
    """Return the rows with additional columns."""
    return cast(RowSource, replace(rows, selection=replace(rows.selection, extra_columns=columns)))


def _group_codes(
    labels: CodedLabels | None, group_labels: Sequence[Label], n_extra_labels: int
) -> IndexArray:
    """Group index of each row; -1 for groups without weight."""
    assert labels is not None
    for _ in range(n_extra_labels):
        labels = labels.without_last_attribute()
    position_by_label = {label: position for position, label in enumerate(group_labels)}
    categories = to_python_labels(labels.categories)
    positions = [position_by_label.get(label, -1) for label in categories]
    return np.array(positions, dtype=np.intp)[labels.codes]


def _key_codes(columns: Sequence[str], tables: Sequence[Any]) -> dict[str, IndexArray]:
    """Code of each row's value in each key column (sorted order; -1 if missing)."""
    codes_by_column = {}
    for name in columns:
        preview = labels_from_columns(tables[0][:_N_PREVIEW_ROWS], [name])
        if len(set(preview.categories)) < _MIN_PREVIEW_VALUES:
            continue
        parts = [labels_from_columns(table, [name]) for table in tables]
        labels = {label for part in parts for label in part.categories}
        present = sorted(label for label in labels if not is_missing_label(label))
        position_by_label = {label: position for position, label in enumerate(present)}
        codes = []
        for part in parts:
            positions = [position_by_label.get(label, -1) for label in part.categories]
            codes.append(np.array(positions, dtype=np.intp)[part.codes])
        codes_by_column[name] = np.concatenate(codes)
    return codes_by_column


def _candidate_clusters(
    keys: Mapping[str, IndexArray],
    values: FloatArray,
    groups: Sequence[IndexArray],
    model: AuditedModel,
    moments: Moments,
) -> Iterator[tuple[str, int, float]]:
    """Yield the columns whose values explain the rows' errors far better than chance."""
    if model.row_model is not None or not keys:
        return
    subspace = model.subspace
    optima = GroupOptima(reference_points(subspace, moments), subspace.scale)
    ranks = np.zeros(len(values))
    for group, group_rows in enumerate(groups):
        scaled_values = optima.center_and_scale(values[group_rows], group)
        errors = subspace.projector.squared_residuals(scaled_values)
        # Rank within each group, so that group differences do not count and a few large errors do
        # not dominate.
        ranks[group_rows] = (np.argsort(np.argsort(errors)) + 0.5) / max(len(group_rows), 1)
    for name, codes in keys.items():
        present = codes >= 0
        correlation = _intraclass_correlation(codes[present], ranks[present])
        if correlation is not None and correlation > _MIN_INTRACLASS_CORRELATION:
            yield name, len(np.unique(codes[present])), correlation


def _intraclass_correlation(codes: IndexArray, values: FloatArray) -> float | None:
    """Intraclass correlation of values with the same code, or None if it is not significant.

    The variance between codes is estimated from differences between neighboring codes (von Neumann
    et al. 1941), so that a smooth dependence on a numeric code does not count.
    """
    counts = np.bincount(codes)
    sums = np.bincount(codes, values)[counts > 0]
    counts = counts[counts > 0]
    n_clusters = len(counts)
    n_rows = len(codes)
    if n_clusters < _MIN_CLUSTERS or 2 * n_clusters > n_rows:
        return None
    if counts.max() > _MAX_CLUSTER_SHARE * n_rows:
        return None
    sum_of_squares = np.bincount(codes, values**2).sum()
    within = (sum_of_squares - (sums**2 / counts).sum()) / (n_rows - n_clusters)
    weights = 1 / (1 / counts[1:] + 1 / counts[:-1])
    squares = np.diff(sums / counts) ** 2 * weights
    if squares.mean() <= within * (1 + _MIN_Z * np.sqrt(3 / n_clusters)):
        return None
    between = (squares.mean() - within) / (2 * weights.mean())
    return float(between / (between + within))


def _autocorrelation_z(
    values: FloatArray, group: int, model: AuditedModel, moments: Moments
) -> float:
    """z-value of the lag-1 autocorrelation of a group's rows; 0 if it cannot be computed.

    With x the centered rows, S their second moment matrix and rho = sum x_i' x_(i+1) / sum x_i'x_i,
    it is (rho + 1/n) sqrt(n) tr S / sqrt(tr S^2).
    """
    n = len(values)
    if n < _MIN_GROUP_ROWS or not isinstance(moments, GroupMoments):
        return 0.0
    scale = np.ones(values.shape[1]) if model.subspace.scale is None else model.subspace.scale
    rows = (values - values.mean(axis=0)) / scale
    second_moment = moments.scatters[group] / np.outer(scale, scale)
    total_square = float(np.einsum("ij,ij->", rows, rows))
    frobenius_norm = float(np.linalg.norm(second_moment))
    if total_square == 0 or frobenius_norm == 0:
        return 0.0
    rho = float(np.einsum("ij,ij->", rows[1:], rows[:-1])) / total_square
    return float((rho + 1 / n) * np.sqrt(n) * np.trace(second_moment) / frobenius_norm)


def _has_continuous_feature(values: FloatArray) -> bool:
    """Whether some feature has at least half as many distinct values as there are rows."""
    n_values = (np.diff(np.sort(values, axis=0), axis=0) != 0).sum(axis=0) + 1
    return bool((2 * n_values >= len(values)).any())


def _row_hashes(values: FloatArray) -> AnyArray:
    """64-bit hash of each row."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # maps -0.0 to 0.0
    hashes = np.zeros(len(values), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            hashes = (hashes ^ column) * _HASH_MULTIPLIER
            hashes ^= hashes >> np.uint64(29)
    return hashes


def missing_values_table(missing: MissingValues) -> Table:
    """Table of dropped rows and shares of missing values by group."""
    shown = missing.features[:_MAX_FEATURES_SHOWN]
    title = "Shares of missing values in each group."
    if missing.costliest_text:
        title += f" {missing.costliest_text}"
    n_more = len(missing.features) - len(shown)
    if n_more:
        title += f" {to_ascii(format_count(n_more, 'more feature'))} with missing values."
    if missing.n_without_group:
        n_rows = to_ascii(format_count(missing.n_without_group, "row"))
        title += f" Dropped because the group is missing: {n_rows}."
    columns = [
        name_column("group", [format_group(group) for group in missing.groups]),
        Column("rows", [Cell(format_integer(n_rows), n_rows) for n_rows in missing.n_rows]),
        share_column("dropped", missing.dropped_shares),
    ]
    for feature in shown:
        heading = f"{feature.name}, mean-imputed" if feature.is_mean_imputed else feature.name
        columns.append(share_column(heading, feature.shares))
    return Table(title, tuple(columns))


def summarize_missing_values(
    cells: MissingCounts | None,
    first_rows: FirstRowsSummary | None,
    moments: Moments,
    names: Sequence[str],
) -> MissingValues | None:
    """Summarize missing and mean-imputed values by group and feature; None if there are none.

    Parameters
    ----------
    cells : MissingCounts or None
        Counts of missing cells; None if no row was dropped and none has missing cells.
    first_rows : FirstRowsSummary or None
    moments : Moments
        Moments of the rows that were kept.
    names : sequence of p str
    """
    groups: tuple[Label, ...] = tuple(moments.labels) if cells is None else cells.groups
    features = []
    if cells is not None:
        shares = cells.n_missing / np.maximum(cells.n_rows, 1)[:, None]
        features = [
            MissingFeature(
                names[j], False, tuple(shares[:, j].tolist()), int(cells.n_dropped_by_feature[j])
            )
            for j in np.flatnonzero(cells.n_missing.any(axis=0)).tolist()
        ]
    if first_rows is not None:
        shares_by_label = dict(zip(moments.labels, first_rows.share_at_mean, strict=True))
        no_shares = np.zeros(len(names))
        at_mean = np.array([shares_by_label.get(label, no_shares) for label in groups])
        features += [
            MissingFeature(names[j], True, tuple(at_mean[:, j].tolist()))
            for j in np.flatnonzero((at_mean > _MIN_SHARE_DIFFERENCE).any(axis=0)).tolist()
        ]
    features.sort(key=lambda feature: -max(feature.shares))
    if cells is not None:
        return MissingValues(
            groups,
            tuple(cells.n_rows.tolist()),
            tuple(cells.n_dropped.tolist()),
            cells.n_without_group,
            tuple(features),
        )
    if not features:
        return None
    n_rows = tuple(moments.counts.tolist())
    n_dropped = (0,) * len(groups)
    return MissingValues(groups, n_rows, n_dropped, 0, tuple(features))


def row_findings(
    missing: MissingValues | None, first_rows: FirstRowsSummary | None, moments: Moments
) -> Iterator[Finding]:
    """Yield the findings about missing values and dependent rows."""
    if missing is not None:
        yield from _uneven_missingness(missing, is_completed=moments.imputation_model is not None)
        yield from _largely_missing_groups(missing)
    if isinstance(moments, GroupMoments) and moments.em_summary is not None:
        yield from _imputed_cells(moments, moments.em_summary)
    if first_rows is not None:
        yield from _dependent_rows(first_rows)
        yield from _codes_for_missing_values(
            first_rows,
            has_names=moments.feature_names is not None,
            are_all_rows=first_rows.n_rows >= moments.counts.sum(),
        )


def _codes_for_missing_values(
    first_rows: FirstRowsSummary, *, has_names: bool, are_all_rows: bool
) -> Iterator[Finding]:
    """FS412: repeated values far from all others, such as -99, and spikes at zero."""
    if not first_rows.codes:
        return
    descriptions = [
        _describe_codes(quote_group(name) if has_names else name, codes)
        for name, codes in first_rows.codes.items()
    ]
    scope = "" if are_all_rows else f"In the first {first_rows.n_rows:,} rows, "
    remedy = _remedy_in_python(first_rows.codes, has_names=has_names)
    if has_names:
        options = [_option_for_codes(name, codes) for name, codes in first_rows.codes.items()]
        on_command_line = " ".join(options[:_MAX_FEATURES_SHOWN])
        remedy = f"{on_command_line} with --on-missing drop or em; {remedy}"
    yield make_finding(
        "FS412",
        f"Codes for missing values? {scope}{join_truncated(descriptions)}. They are treated as "
        "numbers, and may dominate errors and verdicts. If they are codes, name them "
        f'({remedy} with on_missing="drop" or "em").',
        columns=tuple(first_rows.codes),
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


def _option_for_codes(name: str, codes: ColumnCodes) -> str:
    """Return the option of the command line that makes codes of a column missing."""
    values = ",".join(f"{code:.15g}" for code in codes.codes)
    return f"--na-values {shlex.quote(f'{name}={values}')}"


def _remedy_in_python(codes: Mapping[str, ColumnCodes], *, has_names: bool) -> str:
    """Return code that makes codes missing: of a pandas frame, or of an array without names."""
    shown = dict(itertools.islice(codes.items(), _MAX_FEATURES_SHOWN))
    lists = {
        name: f"[{', '.join(f'{code:.15g}' for code in column_codes.codes)}]"
        for name, column_codes in shown.items()
    }
    if has_names:
        replacements = ", ".join(f"{name!r}: {values}" for name, values in lists.items())
        return f"with pandas X.replace({{{replacements}}}, np.nan)"
    steps = [
        f"X[np.isin(X[:, {column_codes.column}], {lists[name]}), {column_codes.column}] = np.nan"
        for name, column_codes in shown.items()
    ]
    # An array of integers cannot hold NaN.
    return f"in Python X = np.array(X, dtype=float); {'; '.join(steps)}"


def _imputed_cells(moments: GroupMoments, completion: EMSummary) -> Iterator[Finding]:
    """FS411: missing cells were imputed by their expectation."""
    if not completion.n_missing_cells.any():
        return
    n_columns = (moments.all_columns or moments).n_features  # attributes are imputed as well
    shares = completion.n_missing_cells / np.maximum(moments.counts * n_columns, 1)
    labels = moments.labels
    affected = np.flatnonzero(shares).tolist()
    descriptions = [f"{quote_group(labels[i])} ({_ascii_share(shares[i])})" for i in affected]
    message = (
        f"Missing cells of {join_truncated(descriptions)} are replaced by their expectation given "
        "the observed cells of the row. This is valid if cells are missing at random given what is "
        "observed; whether a value is missing because of the value itself cannot be seen from the "
        "table."
    )
    pooled_groups = [
        f"{quote_group(labels[i])} (weight {completion.pool_weights[i]:.2f})"
        for i in np.flatnonzero(completion.pool_weights)
    ]
    if pooled_groups:
        message += (
            f" For {join_truncated(pooled_groups)}, too few rows have pairs of features observed "
            "together, so their correlations are partly those of all groups."
        )
    yield make_finding("FS411", message, groups=[labels[i] for i in affected])


def _uneven_missingness(missing: MissingValues, *, is_completed: bool) -> Iterator[Finding]:
    """FS407: features missing in many rows, or unevenly across groups."""
    features = [feature for feature in missing.features if _is_uneven(feature)]
    if not features:
        return
    descriptions = [
        f"{quote_group(feature.name)} ({_share_range(missing.groups, feature.shares)}"
        f"{', exactly the mean' if feature.is_mean_imputed else ''})"
        for feature in features
    ]
    consequence = "The results then describe a different population than the table."
    if is_completed:
        consequence = "The results then rest on imputed values."
    yield make_finding(
        "FS407",
        "Values are missing or mean-imputed in many rows, or unevenly across groups: "
        f"{join_truncated(descriptions)}. {consequence} Compare the rows with and without these "
        "values.",
        columns=tuple(feature.name for feature in features),
    )


def _is_uneven(feature: MissingFeature) -> bool:
    """Whether values are missing in many rows of a group, or much more often than in another."""
    largest = max(feature.shares)
    return largest - min(feature.shares) > _MIN_SHARE_DIFFERENCE or largest > _LARGE_SHARE


def _share_range(groups: Sequence[Label], shares: Sequence[float]) -> str:
    """Describe the smallest and largest share and their groups."""
    low = int(np.argmin(shares))
    high = int(np.argmax(shares))
    largest = f"{_ascii_share(shares[high])} of {quote_group(groups[high])}"
    if low == high:
        return largest
    return f"{_ascii_share(shares[low])} of {quote_group(groups[low])}, {largest}"


def _largely_missing_groups(missing: MissingValues) -> Iterator[Finding]:
    """FS408: groups with a large share of dropped or mean-imputed rows."""
    imputed_shares = [feature.shares for feature in missing.features if feature.is_mean_imputed]
    shares = np.max([missing.dropped_shares, *imputed_shares], axis=0)
    affected = np.flatnonzero(shares > _LARGE_SHARE).tolist()
    if not affected:
        return
    descriptions = [
        f"{quote_group(missing.groups[i])} ({_ascii_share(shares[i])})" for i in affected
    ]
    names = join_truncated(descriptions)
    sentences = [f"More than 30 % of the rows are dropped or mean-imputed for {names}."]
    lost = [
        quote_group(missing.groups[i])
        for i in affected
        if missing.n_dropped[i] == missing.n_rows[i]
    ]
    if lost:
        pronoun = "it" if len(lost) == 1 else "them"
        sentences.append(
            f"No row of {join_truncated(lost)} is left, so there are no figures for {pronoun}."
        )
    if missing.costliest_text:
        sentences.append(missing.costliest_text)
    sentences.append(
        "Exclude such features (--exclude), or state which population the results describe."
    )
    yield make_finding("FS408", " ".join(sentences), groups=[missing.groups[i] for i in affected])


def _ascii_share(share: float) -> str:
    return to_ascii(format_share(share))


def _dependent_rows(first_rows: FirstRowsSummary) -> Iterator[Finding]:
    """FS402, FS409, FS410: identifiers, candidate clusters, duplicates and autocorrelation."""
    if first_rows.identifier_features:
        noun = "feature" if len(first_rows.identifier_features) == 1 else "features"
        names = join_truncated([quote_group(name) for name in first_rows.identifier_features])
        yield make_finding(
            "FS402",
            f"{noun} {names}: all values differ, and the name suggests an identifier. Exclude it, "
            "unless it is a measurement (drop the column; --exclude).",
            columns=first_rows.identifier_features,
        )
    for name, n_values, correlation in first_rows.candidate_clusters:
        yield make_finding(
            "FS409",
            f"Rows with the same value of {quote_group(name)} ({n_values:,} values) have far more "
            f"similar errors than other rows (intraclass correlation {correlation:.2f}). If they "
            "are clusters, such as rows of one person or place, the intervals are far too short: "
            f"pass clusters={name!r} (--clusters {name}).",
            columns=(name,),
        )
    largest_z = float(np.max(first_rows.autocorrelation_z))
    verb = "duplicates" if first_rows.n_duplicates == 1 else "duplicate"
    n_duplicates = to_ascii(format_count(first_rows.n_duplicates, "row"))
    duplicates = f"{n_duplicates} of {first_rows.n_rows:,} {verb} an earlier row"
    if not first_rows.candidate_clusters and largest_z > _MIN_Z:
        message = f"Neighboring rows are correlated (z = {largest_z:.0f})"
        if first_rows.n_duplicates:
            message += f", and {duplicates}"
        yield make_finding(
            "FS410",
            f"{message}. If the table is not just sorted but neighboring rows form clusters (rows "
            "of one person, consecutive times), the intervals are too short: pass clusters= "
            "(--clusters).",
        )
    elif first_rows.n_duplicates > _MAX_DUPLICATE_SHARE * first_rows.n_rows:
        yield make_finding(
            "FS410",
            f"{duplicates[0].upper()}{duplicates[1:]} in every feature. If the table was assembled "
            "from overlapping parts or rows were sampled with replacement, the intervals are too "
            "short: pass clusters= (--clusters).",
        )
