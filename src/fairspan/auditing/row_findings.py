"""Findings about the rows of a table: what is missing, and whether rows belong together.

Beside counts of missing values, a bounded number of the first rows is read, which show what moments
do not: rows alike, and values filled in. So the time it takes does not grow with the table.
"""

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
from fairspan.formatting.table import Cell, Column, Table, name_column, share_column
from fairspan.formatting.text import (
    format_count,
    format_integer,
    format_share,
    join_truncated,
    to_ascii,
)
from fairspan.moments.em import EMSummary
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.rows.arrays import ArrayRows, labels_from_columns
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import CodedLabels, Label, is_missing_label, to_python_labels
from fairspan.rows.missing import MissingCounts
from fairspan.rows.protocol import Rows, RowSource
from fairspan.typing import AnyArray, FloatArray, IndexArray

# Shares of a group's rows that are told apart, and from which most of what is said of it is of
# other rows than those of the table.
_MIN_SHARE_DIFFERENCE, _LARGE_SHARE = 0.1, 0.3
# Standard errors beyond which alikeness is not chance, and a share of copies that is none.
_MIN_Z, _MAX_DUPLICATE_SHARE = 4.0, 0.1
# Features that the table shows.
_MAX_FEATURES_SHOWN = 4
# Rows, and numbers in them (4 MB), that are looked at; so many rows in any case.
_MAX_ROWS, _MAX_CELLS, _MIN_ROWS = 20_000, 2**19, 1000
# With fewer rows of a group, or values of a column, chance decides.
_MIN_GROUP_ROWS, _MIN_CLUSTERS, _MIN_PREVIEW_VALUES = 20, 20, 5
# A glance shows whether a column has values enough to tell rows apart.
_N_PREVIEW_ROWS, _MAX_CLUSTER_SHARE = 500, 0.2
# The intraclass correlation from which rows of one value belong together.
_MIN_INTRACLASS_CORRELATION = 0.2
# A value this close to a column's mean, in its standard deviations, is the mean.
_MEAN_TOL = 1e-6
# Words of a column's name that say it is an identifier: patient_id, PatientID, id.
_IDENTIFIER_NAME = re.compile(r"(^|[^A-Za-z])(?i:id|uid|uuid|identifier)([^A-Za-z]|$)|[a-z]I[Dd]$")
# An odd number whose multiples spread over all 64 bits (Steele, Lea and Flood 2014).
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_KEY_DTYPES = ("int", "uint", "str", "large_string", "categorical", "dictionary", "enum")


@dataclass(frozen=True, eq=False)
class FirstRowsSummary:
    """What some rows show of the table that they begin.

    Attributes
    ----------
    n : int
        How many rows there were.
    neighbours : (k,) array
        Of each group, how alike neighbouring rows are: near the standard normal distribution where
        rows are independent.
    n_duplicates : int
        Rows that equal an earlier one in every feature; 0 where every feature has so few values
        that rows may be equal by chance.
    clusters : tuple of (str, int, float)
        Columns of which rows of one value are alike: how many values there are, and the
        intraclass correlation of the rows' errors.
    at_mean : (k, p) array
        Share of each group's rows in which a feature is its mean over all rows, as it is where
        missing values were filled in.
    identifiers : tuple of str
        Features that are named like an identifier, whose values all differ and are in no order.
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
    audited: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments,
    n_beside: int,
    *,
    by_cluster: bool,
) -> FirstRowsSummary | None:
    """Look at the first rows of a table; None where rows are read elsewhere.

    Parameters
    ----------
    audited : sequence of Audited
        The errors are those of the first.
    rows : RowSource or PartitionedRows
    moments : GroupMoments, SparseMoments or WideMoments
        Of all rows.
    n_beside : int
        How many of the last columns of the labels do not make the groups.
    by_cluster : bool
        Whether it is known which rows belong together: then columns are not looked for.
    """
    if not isinstance(rows, RowSource):
        return None
    key_columns = () if by_cluster else _key_columns(rows)
    blocks, n_rows = [], 0
    for block in (_with_extra_columns(rows, key_columns) if key_columns else rows).blocks():
        blocks.append(block)
        n_rows += len(block.values)
        if n_rows >= min(_MAX_ROWS, max(_MAX_CELLS // rows.n_features, _MIN_ROWS)):
            break
    if not n_rows:
        return None
    values = np.vstack([block.values for block in blocks])
    if moments.imputation_model is not None:
        values = moments.imputation_model.complete(values).fill(values)
    names = moments.feature_names
    codes_by_name = {
        f"x{found.column}" if names is None else names[found.column]: found
        for found in codes_in(values)
    }
    codes = np.concatenate(
        [_group_codes(block.group_labels, moments.labels, n_beside) for block in blocks]
    )
    keys = _key_codes(key_columns, [block.extra_columns for block in blocks])
    if isinstance(rows, ArrayRows) and not by_cluster:
        integer_in_preview = np.flatnonzero((values[:_MIN_GROUP_ROWS] % 1 == 0).all(axis=0))
        integer_columns = integer_in_preview[(values[:, integer_in_preview] % 1 == 0).all(axis=0)]
        keys = {
            f"x{j}": np.unique(values[:, j], return_inverse=True)[1]
            for j in integer_columns.tolist()
        }
    groups = [np.flatnonzero(codes == group) for group in range(moments.n_groups)]
    deviations = moments.standard_deviations
    mean_low, mean_high = (
        moments.mean - _MEAN_TOL * deviations,
        moments.mean + _MEAN_TOL * deviations,
    )
    is_mean = (values > mean_low) & (values < mean_high)  # of a constant column none
    return FirstRowsSummary(
        n_rows,
        np.array(
            [
                _autocorrelation_z(values[own], g, audited[0], moments)
                for g, own in enumerate(groups)
            ]
        ),
        n_rows - len(np.unique(_row_hashes(values)))
        if _has_continuous_feature(values[:_N_PREVIEW_ROWS])
        else 0,
        tuple(_candidate_clusters(keys, values, groups, audited[0], moments)),
        np.array([is_mean[own].sum(axis=0) / max(len(own), 1) for own in groups]),
        tuple(
            name
            for j, name in enumerate(moments.feature_names or ())
            if _IDENTIFIER_NAME.search(name) and _is_unsorted_key(values[:, j])
        ),
        codes_by_name,
    )


def _is_unsorted_key(values: FloatArray) -> bool:
    """Whether all of several values differ, and are neither rising nor falling."""
    steps = np.diff(values)
    differ = len(values) >= _MIN_GROUP_ROWS and len(np.unique(values)) == len(values)
    return differ and bool(steps.min() < 0 < steps.max())


def _key_columns(rows: Rows) -> tuple[str, ...]:
    """Columns of text and whole numbers, of which no indicators were made."""
    if not isinstance(rows, FileRows | FrameRows):
        return ()
    schema = rows.schema if isinstance(rows, FileRows) else rows.frame.schema
    dtypes = (
        dict(zip(schema.names, schema.types, strict=True))
        if hasattr(schema, "types")
        else dict(schema)
    )
    reserved = {*rows.selection.reserved_columns, *rows.selection.categories, ""}
    return tuple(
        name
        for name, dtype in dtypes.items()
        if name not in reserved
        and str(dtype).lower().startswith(_KEY_DTYPES)
        and isinstance(name, str)
    )


def _with_extra_columns(rows: Any, columns: tuple[str, ...]) -> RowSource:
    """The same rows, which bring these columns along."""
    return cast(RowSource, replace(rows, selection=replace(rows.selection, extra_columns=columns)))


def _group_codes(
    labels: CodedLabels | None, group_labels: Sequence[Label], n_extra_labels: int
) -> IndexArray:
    """Position of each row's group; -1 for a group of which no row counts."""
    assert labels is not None
    for _ in range(n_extra_labels):
        labels = labels.without_last_attribute()
    position_by_label = {label: position for position, label in enumerate(group_labels)}
    found = [position_by_label.get(label, -1) for label in to_python_labels(labels.categories)]
    return np.array(found, dtype=np.intp)[labels.codes]


def _key_codes(columns: Sequence[str], tables: Sequence[Any]) -> dict[str, IndexArray]:
    """Position of each row's value among those of a column in sorted order; -1 where missing."""
    found = {}
    for name in columns:
        if (
            len(set(labels_from_columns(tables[0][:_N_PREVIEW_ROWS], [name]).categories))
            < _MIN_PREVIEW_VALUES
        ):
            continue
        parts = [labels_from_columns(table, [name]) for table in tables]
        known = {
            label for part in parts for label in part.categories if not is_missing_label(label)
        }
        position_by_label = {label: position for position, label in enumerate(sorted(known))}
        found[name] = np.concatenate(
            [
                np.array(
                    [position_by_label.get(each, -1) for each in part.categories], dtype=np.intp
                )[part.codes]
                for part in parts
            ]
        )
    return found


def _candidate_clusters(
    keys: Mapping[str, IndexArray],
    values: FloatArray,
    groups: Sequence[IndexArray],
    model: AuditedModel,
    moments: Moments,
) -> Iterator[tuple[str, int, float]]:
    """Columns of which rows of one value have errors that are far more alike than chance."""
    if model.row_model is not None or not keys:
        return
    subspace = model.subspace
    benchmark = GroupOptima(reference_points(subspace, moments), subspace.scale)
    ranks = np.zeros(len(values))
    for group, own in enumerate(groups):
        errors = subspace.projector.squared_residuals(
            benchmark.center_and_scale(values[own], group)
        )
        # Within the group: rows are not alike for being of one group. And a few large errors do
        # not decide.
        ranks[own] = (np.argsort(np.argsort(errors)) + 0.5) / max(len(own), 1)
    for name, codes in keys.items():
        known = codes >= 0
        found = _intraclass_correlation(codes[known], ranks[known])
        if found is not None and found > _MIN_INTRACLASS_CORRELATION:
            yield name, len(np.unique(codes[known])), found


def _intraclass_correlation(codes: IndexArray, values: FloatArray) -> float | None:
    """That of values with the same code, where it is beyond chance; None where it is not.

    The variance between codes is estimated by the differences between neighbouring ones (von
    Neumann et al. 1941), so that values which follow a number smoothly do not count.
    """
    counts = np.bincount(codes)
    sums, counts = np.bincount(codes, values)[counts > 0], counts[counts > 0]
    m, n = len(counts), len(codes)
    # A value that many rows share is a category.
    if m < _MIN_CLUSTERS or 2 * m > n or counts.max() > _MAX_CLUSTER_SHARE * n:
        return None
    total = np.bincount(codes, values**2).sum()
    within = (total - (sums**2 / counts).sum()) / (n - m)
    weights = 1 / (1 / counts[1:] + 1 / counts[:-1])
    squares = np.diff(sums / counts) ** 2 * weights
    if squares.mean() <= within * (1 + _MIN_Z * np.sqrt(3 / m)):
        return None
    between = (squares.mean() - within) / (2 * weights.mean())
    return float(between / (between + within))


def _autocorrelation_z(
    values: FloatArray, group: int, model: AuditedModel, moments: Moments
) -> float:
    """How alike neighbouring rows of a group are, in standard errors; 0 where that is not known.

    With x the rows about their mean, S their second moment and rho = sum x_i' x_(i+1) / sum x_i'x_i
    it is (rho + 1/n) sqrt(n) tr S / sqrt(tr S^2).
    """
    n = len(values)
    if n < _MIN_GROUP_ROWS or not isinstance(moments, GroupMoments):
        return 0.0
    unit = np.ones(values.shape[1]) if model.subspace.scale is None else model.subspace.scale
    rows = (values - values.mean(axis=0)) / unit
    second = moments.scatters[group] / np.outer(unit, unit)
    total_square, frobenius_norm = (
        float(np.einsum("ij,ij->", rows, rows)),
        float(np.linalg.norm(second)),
    )
    if total_square == 0 or frobenius_norm == 0:
        return 0.0
    rho = float(np.einsum("ij,ij->", rows[1:], rows[:-1])) / total_square
    return float((rho + 1 / n) * np.sqrt(n) * np.trace(second) / frobenius_norm)


def _has_continuous_feature(values: FloatArray) -> bool:
    """Whether a feature has as many values as half of the rows, or more."""
    n_values = (np.diff(np.sort(values, axis=0), axis=0) != 0).sum(axis=0) + 1
    return bool((2 * n_values >= len(values)).any())


def _row_hashes(values: FloatArray) -> AnyArray:
    """A whole number of each row, the same for rows that are equal."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # without the sign of zeros
    found = np.zeros(len(values), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            found = (found ^ column) * _HASH_MULTIPLIER
            found ^= found >> np.uint64(29)
    return found


def missing_values_table(missing: MissingValues) -> Table:
    """Rows that were left out of each group, and shares of missing values."""
    shown = missing.features[:_MAX_FEATURES_SHOWN]
    n_more = len(missing.features) - len(shown)
    more = f" {format_count(n_more, 'feature')} more with missing values." if n_more else ""
    without = f" Left out without a group: {format_count(missing.n_without_group, 'row')}."
    costly = f" {missing.costliest_text}" if missing.costliest_text else ""
    return Table(
        f"Missing values, as shares of each group's rows.{costly}{to_ascii(more)}"
        f"{to_ascii(without) if missing.n_without_group else ''}".strip(),
        (
            name_column("group", [format_group(group) for group in missing.groups]),
            Column("rows", [Cell(format_integer(n), n) for n in missing.n_rows]),
            share_column("left out", missing.dropped_shares),
            *(
                share_column(
                    f"{each.name}{', filled in' if each.is_mean_imputed else ''}", each.shares
                )
                for each in shown
            ),
        ),
    )


def summarize_missing_values(
    cells: MissingCounts | None,
    first_rows: FirstRowsSummary | None,
    moments: Moments,
    names: Sequence[str],
) -> MissingValues | None:
    """What is missing, or was filled in; None where nothing was.

    Parameters
    ----------
    cells : MissingCounts or None
        None where no row was left out.
    first : FirstRowsSummary or None
    moments : Moments
        Of the rows that were not left out.
    names : sequence of p str
    """
    groups: tuple[Label, ...] = tuple(moments.labels) if cells is None else cells.groups
    key_columns = []
    if cells is not None:
        shares = cells.n_missing / np.maximum(cells.n_rows, 1)[:, None]
        key_columns = [
            MissingFeature(
                names[j], False, tuple(shares[:, j].tolist()), int(cells.n_dropped_by_feature[j])
            )
            for j in np.flatnonzero(cells.n_missing.any(axis=0)).tolist()
        ]
    if first_rows is not None:
        place = {label: position for position, label in enumerate(moments.labels)}
        at_mean = np.array(
            [
                first_rows.share_at_mean[place[group]] if group in place else np.zeros(len(names))
                for group in groups
            ]
        )
        key_columns += [
            MissingFeature(names[j], True, tuple(at_mean[:, j].tolist()))
            for j in np.flatnonzero((at_mean > _MIN_SHARE_DIFFERENCE).any(axis=0)).tolist()
        ]
    if cells is None and not key_columns:
        return None
    key_columns.sort(key=lambda each: -max(each.shares))
    rows = moments.counts if cells is None else cells.n_rows
    dropped = np.zeros_like(rows) if cells is None else cells.n_dropped
    return MissingValues(
        groups,
        tuple(rows.tolist()),
        tuple(dropped.tolist()),
        0 if cells is None else cells.n_without_group,
        tuple(key_columns),
    )


def row_findings(
    missing: MissingValues | None, first_rows: FirstRowsSummary | None, moments: Moments
) -> Iterator[Finding]:
    """Apply every rule about what is missing, and about rows that depend on each other."""
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
    """FS412: values far from the rest that repeat, such as -99, and zeros that are a spike."""
    if not first_rows.codes:
        return
    described = [
        _described_codes(quote_group(name) if has_names else name, found)
        for name, found in first_rows.codes.items()
    ]
    of_first = "" if are_all_rows else f"Of the first {first_rows.n_rows:,} rows, "
    remedy = _remedy_in_python(first_rows.codes, has_names=has_names)
    if has_names:
        options = [_option_for_codes(name, found) for name, found in first_rows.codes.items()]
        on_command_line = " ".join(options[:_MAX_FEATURES_SHOWN])
        remedy = f"{on_command_line} with --on-missing drop or em; {remedy}"
    yield make_finding(
        "FS412",
        f"Codes for missing values? {of_first}{join_truncated(described)}. They count as numbers here, "
        f"and may decide errors and verdicts. If they are codes, name them ({remedy} with "
        'on_missing="drop" or "em").',
        columns=tuple(first_rows.codes),
    )


def _described_codes(name: str, found: ColumnCodes) -> str:
    """Return what a column holds, for a message."""
    codes = [
        f"{code:.15g} ({to_ascii(format_count(n, 'row'))})"
        for code, n in zip(found.codes, found.counts, strict=True)
    ]
    return (
        f"{name} holds {' and '.join(codes)} far from its other values "
        f"({found.low:.6g} to {found.high:.6g})"
    )


def _option_for_codes(name: str, found: ColumnCodes) -> str:
    """Return the option of the command line that makes codes of a column missing."""
    codes = ",".join(f"{code:.15g}" for code in found.codes)
    return f"--na-values {shlex.quote(f'{name}={codes}')}"


def _remedy_in_python(codes: Mapping[str, ColumnCodes], *, has_names: bool) -> str:
    """Return code that makes codes missing: of a pandas frame, or of an array without names."""
    shown = list(codes.items())[:_MAX_FEATURES_SHOWN]
    lists = [f"[{', '.join(f'{code:.15g}' for code in found.codes)}]" for _, found in shown]
    if has_names:
        by_name = [f"{name!r}: {own}" for (name, _), own in zip(shown, lists, strict=True)]
        return f"with pandas X.replace({{{', '.join(by_name)}}}, np.nan)"
    steps = [
        f"X[np.isin(X[:, {found.column}], {own}), {found.column}] = np.nan"
        for (_, found), own in zip(shown, lists, strict=True)
    ]
    # An array of whole numbers takes no NaN.
    return f"in Python X = np.array(X, dtype=float); {'; '.join(steps)}"


def _imputed_cells(moments: GroupMoments, completion: EMSummary) -> Iterator[Finding]:
    """FS411: figures rest on what observed cells let expect of missing ones."""
    key_columns = (moments.all_columns or moments).n_features  # attributes are completed as well
    shares = completion.n_missing_cells / np.maximum(moments.counts * key_columns, 1)
    if not completion.n_missing_cells.any():
        return
    labels = moments.labels
    told = [
        f"{quote_group(labels[i])} ({to_ascii(format_share(shares[i]))})"
        for i in np.flatnonzero(shares)
    ]
    pooled_groups = [
        f"{quote_group(labels[i])} (weight {completion.pool_weights[i]:.2f})"
        for i in np.flatnonzero(completion.pool_weights)
    ]
    pooled = (
        f" Too few rows have pairs of features observed together in {join_truncated(pooled_groups)}: "
        "correlations there are partly those of all groups."
        if pooled_groups
        else ""
    )
    yield make_finding(
        "FS411",
        f"Missing cells of {join_truncated(told)} count as what the other cells of their rows let "
        "expect. That is right if cells are missing at random given what is observed. Whether a "
        f"value is missing because of the value itself, no table shows.{pooled}",
        groups=[labels[i] for i in np.flatnonzero(shares).tolist()],
    )


def _uneven_missingness(missing: MissingValues, *, is_completed: bool) -> Iterator[Finding]:
    """FS407: features that are missing in some groups more than in others, or in many rows."""
    found = [
        each
        for each in missing.features
        if max(each.shares) - min(each.shares) > _MIN_SHARE_DIFFERENCE
        or max(each.shares) > _LARGE_SHARE
    ]
    if found:
        told = [
            f"{quote_group(each.name)} ({_share_range(missing.groups, each.shares)}"
            f"{', which hold exactly its mean' if each.is_mean_imputed else ''})"
            for each in found
        ]
        consequence = (
            "What is found then rests on what the other cells of these rows let expect."
            if is_completed
            else "What is found is then of other rows than those of the table."
        )
        yield make_finding(
            "FS407",
            f"Values are missing, or were filled in, in many rows, or in some groups more than in "
            f"others: {join_truncated(told)}. {consequence} Compare the rows with and without these values.",
            columns=tuple(each.name for each in found),
        )


def _share_range(groups: Sequence[Label], shares: Sequence[float]) -> str:
    """The smallest and the largest of some shares, and whose they are."""
    mean_low, mean_high = int(np.argmin(shares)), int(np.argmax(shares))
    most = f"{to_ascii(format_share(shares[mean_high]))} of {quote_group(groups[mean_high])}"
    return (
        most
        if mean_low == mean_high
        else f"{to_ascii(format_share(shares[mean_low]))} of {quote_group(groups[mean_low])}, {most}"
    )


def _largely_missing_groups(missing: MissingValues) -> Iterator[Finding]:
    """FS408: groups of which much is left out, or of which a feature is mostly filled in."""
    filled_shares = np.array([each.shares for each in missing.features if each.is_mean_imputed])
    filled = filled_shares.max(axis=0) if len(filled_shares) else np.zeros(len(missing.groups))
    shares = np.maximum(filled, missing.dropped_shares)
    found = np.flatnonzero(shares > _LARGE_SHARE).tolist()
    if not found:
        return
    told = [
        f"{quote_group(missing.groups[i])} ({to_ascii(format_share(shares[i]))})" for i in found
    ]
    sentences = [
        f"More than 30 % of the rows are left out, or filled in, of {join_truncated(told)}."
    ]
    lost = [
        quote_group(missing.groups[i]) for i in found if missing.n_dropped[i] == missing.n_rows[i]
    ]
    if lost:
        them = "it" if len(lost) == 1 else "them"
        sentences.append(f"No row of {join_truncated(lost)} is left, so nothing is said of {them}.")
    if missing.costliest_text:
        sentences.append(missing.costliest_text)
    sentences.append("Leave such features out (--exclude), or say what the figures are of.")
    yield make_finding("FS408", " ".join(sentences), groups=[missing.groups[i] for i in found])


def _dependent_rows(first_rows: FirstRowsSummary) -> Iterator[Finding]:
    """FS402, FS409, FS410: what columns, their names or the order of rows say of the rows."""
    if first_rows.identifier_features:
        listed = join_truncated([quote_group(name) for name in first_rows.identifier_features])
        yield make_finding(
            "FS402",
            f"{'feature' if len(first_rows.identifier_features) == 1 else 'features'} {listed}: all values "
            "differ, and the name is that of an identifier. Leave it out, unless it measures "
            "something about each row (drop the column; --exclude).",
            columns=first_rows.identifier_features,
        )
    for name, n_values, correlation in first_rows.candidate_clusters:
        yield make_finding(
            "FS409",
            f"Rows of one value of {quote_group(name)} ({n_values:,} values) have errors that are far "
            f"more alike than those of others (intraclass correlation {correlation:.2f}). If they belong "
            f"together, such as those of one person or place, intervals are far too short: name "
            f"the column, clusters={name!r} (--clusters {name}).",
            columns=(name,),
        )
    largest = float(np.max(first_rows.autocorrelation_z))
    equal = "equals" if first_rows.n_duplicates == 1 else "equal"
    copies = f"{to_ascii(format_count(first_rows.n_duplicates, 'row'))} of {first_rows.n_rows:,} {equal} an earlier one"
    if not first_rows.candidate_clusters and largest > _MIN_Z:
        yield make_finding(
            "FS410",
            f"Neighbouring rows are alike ({largest:.0f} standard errors)"
            f"{f', and {copies}' if first_rows.n_duplicates else ''}. Is the table sorted, or do "
            "neighbouring rows belong together, such as those of one person or of consecutive "
            "times? Then intervals are too short without clusters= (--clusters).",
        )
    elif first_rows.n_duplicates > _MAX_DUPLICATE_SHARE * first_rows.n_rows:
        yield make_finding(
            "FS410",
            f"{copies[0].upper()}{copies[1:]} in every feature. Is the table put together from "
            "parts that overlap, or were rows drawn with replacement? Then intervals are too short "
            "without clusters= (--clusters).",
        )
