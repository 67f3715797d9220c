"""Summary of the first rows of a table: dependence between rows, and imputed values.

A bounded number of rows is inspected for what moments cannot show, so run time does not grow with
the table.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.auditing.missing_value_codes import ColumnCodes, codes_in
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.nearest_neighbors import neighbor_jump
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.aggregation import Rows, as_row_source
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.label_resolution import labels_from_columns
from fairspan.rows.labels import Label, is_missing_label, to_python_labels
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.typing import AnyArray, FloatArray, IndexArray

# z-value beyond which similarity of rows is significant.
MIN_Z = 4.0
# Maximum number of rows to inspect.
_MAX_ROWS = 20_000
# Maximum number of cells to inspect (4 MB), as long as there are _MIN_ROWS rows.
_MAX_CELLS = 2**19
_MIN_ROWS = 1000
# Below this number of rows, statistics of a group are too noisy.
_MIN_GROUP_ROWS = 20
# Number of rows that decide whether a column has enough distinct values to identify clusters.
_N_PREVIEW_ROWS = 500
# Column names of identifiers: patient_id, PatientID, id.
_IDENTIFIER_NAME = re.compile(r"(^|[^A-Za-z])(?i:id|uid|uuid|identifier)([^A-Za-z]|$)|[a-z]I[Dd]$")
# Multiplier of SplitMix64 (Steele, Lea and Flood 2014).
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


# Below this number of distinct values, the intraclass correlation is too noisy.
_MIN_CLUSTERS = 20
# With fewer distinct values among the preview rows, a column holds categories.
_MIN_PREVIEW_VALUES = 5
# A value with a larger share of the rows is a category, not a cluster.
_MAX_CLUSTER_SHARE = 0.2
# Intraclass correlation from which a column is reported as a cluster.
_MIN_INTRACLASS_CORRELATION = 0.2
# Beginnings of the names of types, in lower case, that hold text or integers.
_KEY_DTYPES = ("int", "uint", "str", "large_string", "categorical", "dictionary", "enum")


@dataclass(frozen=True)
class CandidateClusters:
    """A column whose values may identify clusters of dependent rows.

    Attributes
    ----------
    column : str
        Name of the column.
    n_values : int
        Number of its distinct values, that is of possible clusters.
    intraclass_correlation : float
        Correlation between the errors of two rows with the same value.
    """

    column: str
    n_values: int
    intraclass_correlation: float


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
    candidate_clusters : tuple of CandidateClusters
        Columns whose values group rows with similar errors.
    share_at_mean : (k, p) array
        Share of each group's rows in which a feature equals its overall mean, as after mean
        imputation.
    identifier_features : tuple of str
        Features named like an identifier whose values are distinct and unsorted.
    codes : mapping of str to ColumnCodes
        Features with values that look like codes for missing ones.
    neighbor_jumps : (k,) array
        For each group: by how much the distance to a near neighbor grows faster than that to
        farther ones (:func:`~fairspan.auditing.nearest_neighbors.neighbor_jump`); NaN if unknown.
    """

    n_rows: int
    autocorrelation_z: FloatArray
    n_duplicates: int
    candidate_clusters: tuple[CandidateClusters, ...]
    share_at_mean: FloatArray
    identifier_features: tuple[str, ...]
    codes: Mapping[str, ColumnCodes]
    neighbor_jumps: FloatArray


def summarize_first_rows(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments,
) -> FirstRowsSummary | None:
    """Summarize dependence and suspicious values in the first rows, at most about 20,000.

    The result has the autocorrelation and duplicates of rows, columns that may identify clusters,
    features that look like identifiers, shares of values that equal the mean of their feature, and
    codes that seem to stand for missing values, such as -99. None if there are no rows or they are
    not read in this process.

    Parameters
    ----------
    models : sequence of AuditedModel
        Models; errors are those under the first.
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    """
    source = as_row_source(rows)
    if source is None:
        return None
    sample = _read_sample(source, moments)
    if sample is None:
        return None
    values = sample.values
    autocorrelation_z = [
        _autocorrelation_z(values[group_rows], group, models[0], moments)
        for group, group_rows in enumerate(sample.groups)
    ]
    # Rows are counted as duplicates only if some feature has many distinct values: without one,
    # rows agree by chance.
    n_duplicates = 0
    if _has_continuous_feature(values[:_N_PREVIEW_ROWS]):
        n_duplicates = len(values) - len(np.unique(_row_hashes(values)))
    names = moments.feature_names or tuple(f"x{j}" for j in range(values.shape[1]))
    # Named like an identifier, with distinct values that are not sorted; sorted ones are reported
    # as a monotone feature.
    identifier_features = [
        name
        for j, name in enumerate(moments.feature_names or ())
        if _IDENTIFIER_NAME.search(name) and _is_unsorted_key(values[:, j])
    ]
    return FirstRowsSummary(
        n_rows=len(values),
        autocorrelation_z=np.array(autocorrelation_z),
        n_duplicates=n_duplicates,
        candidate_clusters=tuple(_candidate_clusters(sample, models[0], moments)),
        share_at_mean=_shares_at_mean(values, sample.groups, moments),
        identifier_features=tuple(identifier_features),
        codes={names[codes.column]: codes for codes in codes_in(values)},
        neighbor_jumps=np.array(
            [neighbor_jump(values[group_rows]) for group_rows in sample.groups]
        ),
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """First rows of a table.

    Attributes
    ----------
    values : (n, p) array
        Features, with missing cells imputed.
    groups : list of k arrays of int
        Positions of each group's rows.
    keys : mapping of str to (n,) array of int
        Codes of the values of columns that may identify clusters; -1 if missing.
    """

    values: FloatArray
    groups: list[IndexArray]
    keys: Mapping[str, IndexArray]


def _read_sample(rows: RowSource, moments: Moments) -> _Sample | None:
    """Read the first rows; None if there are none.

    Columns that may identify clusters, the keys, are read along with the features: of files and
    frames those of text or integers, of arrays the features of integers. There are none if the
    clusters are given.
    """
    source = rows
    has_clusters = row_metadata(rows).has_clusters
    key_columns: tuple[str, ...] = ()
    if not has_clusters:
        key_columns = _key_columns(rows)
    if key_columns:
        source = _with_extra_columns(cast(FileRows | FrameRows, rows), key_columns)
    blocks = _first_blocks(source, rows.n_features)
    if not any(len(block.values) for block in blocks):
        return None
    values = np.vstack([block.values for block in blocks])
    # Fill missing cells by their expectation given the observed ones.
    if moments.imputation_model is not None:
        values = moments.imputation_model.complete(values).fill(values)
    keys = _key_codes(key_columns, [block.extra_columns for block in blocks])
    if isinstance(rows, ArrayRows) and not has_clusters:
        keys = _integer_keys(values)
    group_codes = np.concatenate([_group_codes(block.groups, moments.labels) for block in blocks])
    groups = [np.flatnonzero(group_codes == group) for group in range(moments.n_groups)]
    return _Sample(values, groups, keys)


def _first_blocks(rows: RowSource, n_features: int) -> list[RowBlock]:
    """Return blocks from the beginning of the rows until a limit on rows or cells is reached.

    The last block is not cut, so that the limit may be exceeded.
    """
    max_rows = min(_MAX_ROWS, max(_MAX_CELLS // n_features, _MIN_ROWS))
    blocks: list[RowBlock] = []
    n_rows = 0
    for block in rows.blocks():
        blocks.append(block)
        n_rows += len(block.values)
        if n_rows >= max_rows:
            break
    return blocks


def _shares_at_mean(
    values: FloatArray, groups: Sequence[IndexArray], moments: Moments
) -> FloatArray:
    """Share of each group's rows in which a feature equals its overall mean, (k, p)."""
    deviations = moments.standard_deviations
    # Values that equal the mean of their column.
    low = moments.mean - LOOSE_TOL * deviations
    high = moments.mean + LOOSE_TOL * deviations
    is_mean = (values > low) & (values < high)  # never for a constant column
    return np.array(
        [is_mean[group_rows].sum(axis=0) / max(len(group_rows), 1) for group_rows in groups]
    )


def _is_unsorted_key(values: FloatArray) -> bool:
    """Whether the values are distinct and not monotone."""
    steps = np.diff(values)
    is_distinct = len(values) >= _MIN_GROUP_ROWS and len(np.unique(values)) == len(values)
    return is_distinct and bool(steps.min() < 0 < steps.max())


def _group_codes(groups: CodedLabels | None, known_groups: Sequence[Label]) -> IndexArray:
    """Group index of each row; -1 for groups without weight, which have no moments.

    Parameters
    ----------
    groups : CodedLabels
        Groups of the rows.
    known_groups : sequence of k labels
        Groups with weight.
    """
    assert groups is not None
    position_by_label = {label: position for position, label in enumerate(known_groups)}
    categories = to_python_labels(groups.categories)
    positions = [position_by_label.get(label, -1) for label in categories]
    return np.array(positions, dtype=np.intp)[groups.codes]


def _has_continuous_feature(values: FloatArray) -> bool:
    """Whether some feature has at least half as many distinct values as there are rows."""
    n_values = (np.diff(np.sort(values, axis=0), axis=0) != 0).sum(axis=0) + 1
    return bool((2 * n_values >= len(values)).any())


def _row_hashes(values: FloatArray) -> AnyArray:
    """64-bit hash of each row, equal for equal rows; (n,) array of uint64."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # maps -0.0 to 0.0
    hashes = np.zeros(len(values), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            hashes = (hashes ^ column) * _HASH_MULTIPLIER
            hashes ^= hashes >> np.uint64(29)
    return hashes


def _autocorrelation_z(
    values: FloatArray, group: int, model: AuditedModel, moments: Moments
) -> float:
    """z-value of the lag-1 autocorrelation of a group's rows; 0 if it cannot be computed.

    With x_i the n rows of `values` (the first ones of the group), centered and scaled, S the second
    moment matrix of all rows of the group and rho = sum x_i' x_(i+1) / sum x_i'x_i, it is
    (rho + 1/n) sqrt(n) tr S / sqrt(tr S^2): if rows are independent, rho has mean -1/n and variance
    tr S^2 / (n (tr S)^2).
    """
    n = len(values)
    if n < _MIN_GROUP_ROWS or not isinstance(moments, GroupMoments):
        return 0.0
    scale = model.subspace.scale
    if scale is None:
        scale = np.ones(values.shape[1])
    rows = (values - values.mean(axis=0)) / scale
    # S times the weight of the group, a factor that cancels in tr S / sqrt(tr S^2).
    scatter = moments.scatters[group] / np.outer(scale, scale)
    total_square = float(np.einsum("ij,ij->", rows, rows))
    frobenius_norm = float(np.linalg.norm(scatter))
    if total_square == 0 or frobenius_norm == 0:
        return 0.0
    rho = float(np.einsum("ij,ij->", rows[1:], rows[:-1])) / total_square
    return float((rho + 1 / n) * np.sqrt(n) * np.trace(scatter) / frobenius_norm)


def _candidate_clusters(
    sample: _Sample, model: AuditedModel, moments: Moments
) -> Iterator[CandidateClusters]:
    """Yield the columns whose values explain the rows' errors far better than chance.

    Candidates are `sample.keys`, columns of text or integers that may identify clusters. There are
    none for a model that is not a projection.
    """
    if model.row_model is not None or not sample.keys:
        return
    subspace = model.subspace
    frame = subspace.reference_frame(moments)
    ranks = np.zeros(len(sample.values))
    for group, group_rows in enumerate(sample.groups):
        scaled_values = frame.of_group(group).standardize(sample.values[group_rows])
        errors = subspace.projector.squared_residuals(scaled_values)
        # Rank within each group, so that group differences do not count and a few large errors do
        # not dominate.
        ranks[group_rows] = (np.argsort(np.argsort(errors)) + 0.5) / max(len(group_rows), 1)
    for name, codes in sample.keys.items():
        present = codes >= 0
        correlation = _intraclass_correlation(codes[present], ranks[present])
        if correlation is not None and correlation > _MIN_INTRACLASS_CORRELATION:
            n_values = len(np.unique(codes[present]))
            yield CandidateClusters(name, n_values, correlation)


def _intraclass_correlation(codes: IndexArray, values: FloatArray) -> float | None:
    """Intraclass correlation of values with the same code, or None if it is not significant.

    Also None for codes that cannot be clusters: few of them, hardly repeated, or one for a large
    share of the rows. The variance between codes is estimated from differences between the means of
    neighboring codes (von Neumann et al. 1941), so that a smooth dependence on a numeric code does
    not count.

    Parameters
    ----------
    codes : (n,) array of int
    values : (n,) array
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
    # With variances u within and v between codes, these squares have mean u + 2 v weight. The mean
    # of all has a relative variance of about 3 / n_clusters if v is zero.
    weights = 1 / (1 / counts[1:] + 1 / counts[:-1])
    squares = np.diff(sums / counts) ** 2 * weights
    if squares.mean() <= within * (1 + MIN_Z * np.sqrt(3 / n_clusters)):
        return None
    between = (squares.mean() - within) / (2 * weights.mean())
    return float(between / (between + within))


def _integer_keys(values: FloatArray) -> dict[str, IndexArray]:
    """Codes of the values of each column of integers, by column name."""
    # A few rows exclude most other columns, so that only the rest is examined in full.
    candidates = np.flatnonzero((values[:_MIN_GROUP_ROWS] % 1 == 0).all(axis=0))
    integer_columns = candidates[(values[:, candidates] % 1 == 0).all(axis=0)]
    return {
        f"x{j}": np.unique(values[:, j], return_inverse=True)[1] for j in integer_columns.tolist()
    }


def _key_columns(rows: Rows) -> tuple[str, ...]:
    """Names of text and integer columns that are neither reserved nor one-hot encoded.

    Reserved are the columns of groups, weights and the like, and those without a name. Empty for
    rows without other columns.
    """
    if not isinstance(rows, FileRows | FrameRows):
        return ()
    schema = rows.schema if isinstance(rows, FileRows) else rows.frame.schema
    # The schema of a data frame maps names to types; that of Arrow has two lists.
    if isinstance(schema, Mapping):
        dtypes = dict(schema)
    else:
        dtypes = dict(zip(schema.names, schema.types, strict=True))
    reserved = {*rows.selection.roles.names, *rows.selection.categories, ""}
    candidates = [name for name in dtypes if isinstance(name, str) and name not in reserved]
    return tuple(name for name in candidates if str(dtypes[name]).lower().startswith(_KEY_DTYPES))


def _with_extra_columns(rows: FileRows | FrameRows, columns: tuple[str, ...]) -> RowSource:
    """Return the rows with additional columns."""
    return cast(RowSource, replace(rows, selection=replace(rows.selection, extra_columns=columns)))


def _key_codes(columns: Sequence[str], tables: Sequence[Any]) -> dict[str, IndexArray]:
    """Code of each row's value in each key column (sorted order; -1 if missing).

    Columns with fewer than five distinct values at the beginning are omitted.

    Parameters
    ----------
    columns : sequence of str
    tables : sequence of tables
        The columns of each block of rows.
    """
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
