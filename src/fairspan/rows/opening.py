"""Open the rows of any supported object, with their groups, classes, clusters and weights."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TypeGuard

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidType, warn
from fairspan.parameters import check_choice
from fairspan.rows.aggregation import PartitionedRows, Rows, as_partitioned, as_row_source
from fairspan.rows.alignment import check_alignment
from fairspan.rows.arrays import ArrayAdapter
from fairspan.rows.attributes import ColumnKey, RowsWithAttributes
from fairspan.rows.blocks import ON_MISSING, OnMissing, RowBlock
from fairspan.rows.column_selection import ColumnRows
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.label_resolution import SingleGroup
from fairspan.rows.labels import format_list, to_python_label
from fairspan.rows.mapped import MappedRows
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.protocol import RowSource
from fairspan.rows.row_adapters import RowMap, SourceAdapter
from fairspan.rows.row_remedies import MEMORY_REMEDIES, group_limit_remedies, python_remedies
from fairspan.rows.row_validation import check_n_columns
from fairspan.typing import LabelsLike, TableLike, WeightsLike


def adapter_for(X: TableLike) -> SourceAdapter:
    """Return the first adapter that accepts `X`.

    Anything else goes to the array adapter, which raises a helpful error.
    """
    if type(X) is np.ndarray:  # fast path
        return ArrayAdapter()
    for adapter in _adapters():
        if adapter.accepts(X):
            return adapter
    return ArrayAdapter()


def _adapters() -> Iterator[SourceAdapter]:
    """Yield the adapters in the order in which they are tried; each is imported only then."""
    from fairspan.rows.files.file_rows import FileAdapter

    yield FileAdapter()
    from fairspan.rows.sparse_rows import SparseAdapter

    yield SparseAdapter()
    from fairspan.rows.dask import DaskAdapter

    yield DaskAdapter()
    from fairspan.rows.spark import SparkAdapter

    yield SparkAdapter()
    from fairspan.rows.arrow_streams import ArrowStreamAdapter
    from fairspan.rows.frames import DataFrameAdapter

    yield DataFrameAdapter()
    from fairspan.rows.lazy_frames import LazyFrameAdapter

    yield LazyFrameAdapter()
    yield ArrowStreamAdapter()
    from fairspan.rows.devices import DeviceArrayAdapter

    yield DeviceArrayAdapter()
    yield ArrayAdapter()


def is_row_source(X: TableLike) -> TypeGuard[Rows]:
    """Return whether `X` is an open row source."""
    return type(X) is not np.ndarray and isinstance(X, RowSource | PartitionedRows)


def row_remedies(X: TableLike, call: str = "{}") -> MappingProxyType[Cause, str]:
    """Return remedies for a function of rows with arguments `on_missing` and `max_groups`.

    Parameters
    ----------
    X : object
        The rows that were passed; open rows keep the remedies of the function that opened them.
    call : str
        Call that takes the arguments, such as "FairPCA({})"; by default the function itself.
    """
    return _row_remedies(is_row_source(X), call)


@cache  # every call of a function needs them
def _row_remedies(is_open: bool, call: str) -> MappingProxyType[Cause, str]:
    on_missing_remedies = {} if is_open else python_remedies(call)
    return MappingProxyType(on_missing_remedies | group_limit_remedies(call) | MEMORY_REMEDIES)


def open_group_rows(
    X: TableLike,
    sensitive_features: LabelsLike,
    sample_weight: WeightsLike = None,
    on_missing: OnMissing = "error",
) -> Rows:
    """Open the rows of `X`, with labels and weights.

    Parameters
    ----------
    X : array, data frame, path, stream, or open rows
        Open rows are returned unchanged; they carry their own labels and weights.
    sensitive_features : array-like, data frame, or column name(s) of X
    sample_weight : (n,) array-like, or column name of X, optional
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        How to treat rows in which a feature or the group is missing: raise, drop them, or
        keep missing features as NaN, for a fit by the EM algorithm ("em", "em-drop-empty").

    Returns
    -------
    RowSource or PartitionedRows

    Raises
    ------
    InvalidInput
        No labels, unknown column, inconsistent lengths, pandas indexes that disagree, no rows or no
        features.
    InvalidParameter
        Unknown value of on_missing.
    """
    return _open(X, RowMetadata(sensitive_features, weights=sample_weight), on_missing)


def open_rows(
    X: TableLike,
    sensitive_features: LabelsLike,
    *,
    y: LabelsLike = None,
    clusters: LabelsLike = None,
    sample_weight: WeightsLike = None,
    on_missing: OnMissing = "error",
    attributes: Sequence[ColumnKey] = (),
) -> Rows:
    """Open the rows of `X`, with their classes and clusters.

    Parameters
    ----------
    X, sensitive_features, sample_weight, on_missing
        As for :func:`open_group_rows`.
    y, clusters : (n,) array-like, or column name of X, optional
        Class and cluster of each row; ignored without groups.
    attributes : sequence of str or int
        Columns of X, such as age, that a restriction uses. They are read with the features but are
        not features.

    Raises
    ------
    InvalidInput
        Unknown column, inconsistent lengths, or values passed for rows that are not in memory.
    """
    metadata = RowMetadata(sensitive_features, y, clusters, sample_weight)
    rows = _open(X, metadata, on_missing)
    return RowsWithAttributes.wrap(rows, attributes) if attributes else rows


def _open(X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> Rows:
    """Open rows with everything that is known about them; see :func:`open_rows`."""
    if is_row_source(X):
        _check_no_metadata(metadata)
        return X
    check_choice("on_missing", on_missing, ON_MISSING)
    adapter = adapter_for(X)
    if metadata.groups is None:
        # Report problems of the table itself first: open it as if all rows were one group.
        one_group = RowMetadata(SingleGroup(""), weights=metadata.weights)
        adapter.open(X, one_group, on_missing)
        raise InvalidInput(
            "sensitive_features is missing",
            "Allowed: one group label per row, or the name of a column of X",
            "Pass sensitive_features=...; for ordinary PCA without groups use "
            'FairPCA(missing_groups="ignore")',
        )
    if isinstance(metadata.groups, SingleGroup):
        # All rows are one group, as in a fit without groups, which ignores y and clusters. Callers
        # may pass them all the same.
        metadata = replace(metadata, classes=None, clusters=None)
    rows = adapter.open(X, metadata, on_missing)
    # After the lengths are checked: inconsistent lengths have a clearer message.
    check_alignment({"X": X, **dict(metadata.by_argument())})
    return rows


def _check_no_metadata(metadata: RowMetadata) -> None:
    """Check that nothing is passed with open rows, which carry their groups and weights.

    Raises
    ------
    InvalidInput
    """
    if metadata.classes is not None or metadata.clusters is not None:
        names = [name for name, _ in metadata.by_argument() if name in ("y", "clusters")]
        raise InvalidInput(
            f"{format_list(names)} was passed with open rows",
            "Allowed: open rows without them",
            "Pass the table itself and the names of its columns",
        )
    if metadata.groups is not None or metadata.weights is not None:
        raise InvalidInput(
            "sensitive_features or sample_weight was passed with open rows, which carry their "
            "own groups and weights",
            "Allowed: open rows without them",
            "Pass groups and weights when opening the rows, for example "
            'FileRows.open(path, group_columns=["sex"], weight_column="w")',
        )


def map_rows(X: TableLike, row_map: RowMap) -> TableLike | None:
    """Apply a row function, such as a projection, where the data are stored.

    The result is an object of the same kind, or a numpy array for open rows. None for arrays and
    data frames in memory: the caller then applies the function itself.

    Raises
    ------
    InvalidType
        `X` is a path or a stream, which cannot be returned in kind.
    """
    if is_row_source(X):
        parts = [row_map.function(block.values) for block in feature_blocks(X, row_map)]
        if not parts:
            return np.empty((0, len(row_map.output_names)))
        return np.concatenate(parts)
    return adapter_for(X).map_rows(X, row_map)


def feature_blocks(rows: Rows, row_map: RowMap) -> Iterator[RowBlock]:
    """Return the rows in blocks with the features that `row_map`, a function of rows, takes.

    Features are matched by name if both have names; otherwise only their number is checked.

    Raises
    ------
    InvalidType
        The rows are partitioned.
    InvalidInput
        A feature is missing, or their number is wrong.
    """
    source = as_row_source(rows)
    # Partitioned rows are refused even if this process could read them in blocks, like a file: they
    # may be larger than memory, and the caller collects the results in one array.
    if source is None or as_partitioned(rows) is not None:
        raise InvalidType(
            f"X is of type {type(rows).__name__}, whose partitions are read in place",
            "Allowed: arrays, data frames, Dask and Spark collections, and rows in blocks",
            "Transform a file on the command line (fairspan transform)",
        )
    if row_map.feature_names is not None and source.feature_names is not None:
        source = source.select_features(row_map.feature_names)
    check_n_columns(source.n_features, row_map.n_inputs, "features")
    return source.blocks()


def warn_about_unused_categories(rows: Rows) -> None:
    """Warn about categories that a group column in memory declares but no row has."""
    while isinstance(rows, RowsWithAttributes):
        rows = rows.source
    labels = rows.groups if isinstance(rows, InMemoryRows) else None
    if labels is None or not labels.unused:
        return
    unused = [to_python_label(label) for label in labels.unused]
    noun = "categories" if len(unused) > 1 else "category"
    warn(
        f"No row has the declared {noun} {format_list(unused)}, so there are no results for "
        f"{'them' if len(unused) > 1 else 'it'}. Check how the rows were selected; if that is "
        "intended, pass the column after cat.remove_unused_categories()."
    )


def match_groups(rows: Rows, known: KnownLabels) -> Rows:
    """Replace labels by those of a fit that are equal as text.

    Warns if the types of the labels differ, as far as they are known before the rows are read.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
    known : KnownLabels
        Labels of the fit.
    """
    if not known.values:
        return rows
    if isinstance(rows, RowsWithAttributes):
        return replace(rows, source=match_groups(rows.source, known))
    if isinstance(rows, InMemoryRows):
        return _match_in_memory(rows, known)
    if isinstance(rows, ColumnRows):
        # Labels are matched as they are read; until then only the types of columns are known.
        roles = rows.selection.roles
        notice = known.describe_type_differences(
            [rows.label_type(column) for column in roles.groups],
            None if roles.classes is None else rows.label_type(roles.classes),
        )
        if notice is not None:
            warn(notice)
        return replace(rows, selection=replace(rows.selection, known_labels=known))  # type: ignore[type-var]
    # Labels of other rows are matched in each block as it is read. This fills in no missing cells.
    return MappedRows(rows, known.match_block, fills_missing=False)


def _match_in_memory(rows: InMemoryRows, known: KnownLabels) -> Rows:
    """Replace labels of rows in memory, with a notice if there are any to replace."""
    labels = rows.finest_groups  # pairs of group and class, if the rows have classes
    known_pairs = known.of_pairs()  # the same of the fit
    # `match` returns the labels themselves if none is to be replaced, or if two would become one.
    if labels is None or known_pairs.match(labels) is labels:
        return rows
    if (notice := known_pairs.describe_matches(labels)) is not None:
        warn(notice)
    matched = rows
    if rows.groups is not None:
        matched = replace(matched, groups=known.match(rows.groups))
    if rows.classes is not None:
        matched = replace(matched, classes=known.match_classes(rows.classes))
    return matched
