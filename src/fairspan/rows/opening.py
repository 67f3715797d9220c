"""The rows of any object, with what is known of them beside their groups, and their SHA-256.

What is known is their class in y, and the cluster they belong to. Both travel as further columns
of the labels, the cluster last, so that every source reads them as it reads groups.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidType, warn
from fairspan.registry import builtin_names, check_choice, get_factory
from fairspan.rows.alignment import check_alignment
from fairspan.rows.arrays import (
    ArrayAdapter,
    InMemoryRows,
    SingleGroup,
    as_eager_frame,
    resolve_group_columns,
    resolve_labels,
)
from fairspan.rows.attributes import ColumnKey, RowsWithAttributes
from fairspan.rows.columns import ColumnRows
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.frames import drop_columns
from fairspan.rows.groups import CodedLabels, format_label, format_list, to_python_label
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.mapped import MappedRows
from fairspan.rows.protocol import (
    ON_MISSING,
    BaseRows,
    OnMissing,
    PartitionedRows,
    RowBlock,
    RowMap,
    Rows,
    RowSource,
    SourceAdapter,
)
from fairspan.rows.remedies import group_limit_remedies, python_remedies
from fairspan.rows.validation import check_columns, check_n_columns


def adapter_for(X: Any) -> SourceAdapter:
    """The first kind of data that takes an object.

    Data that no source takes are passed to numpy, whose errors say what is wrong.
    """
    if type(X) is np.ndarray:  # known at once
        return ArrayAdapter()
    for name in builtin_names("source"):
        adapter: SourceAdapter = get_factory("source", name)()
        if adapter.accepts(X):
            return adapter
    return ArrayAdapter()


def is_row_source(X: Any) -> TypeGuard[Rows]:
    """Whether these are rows that were opened already."""
    return type(X) is not np.ndarray and isinstance(X, RowSource | PartitionedRows)


def row_remedies(X: Any, call: str = "{}") -> MappingProxyType[Cause, str]:
    """Return remedies of a function with arguments `on_missing` and `max_groups`.

    Parameters
    ----------
    X : object
        What was passed as rows; rows already opened keep the remedies of their own opener.
    call : str
        Where the arguments are passed, such as "FairPCA({})"; by default to the function itself.
    """
    return _row_remedies(is_row_source(X), call)


@cache  # written once, although every call of a function needs them
def _row_remedies(has_own_opener: bool, call: str) -> MappingProxyType[Cause, str]:
    of_missing = {} if has_own_opener else python_remedies(call)
    return MappingProxyType(of_missing | group_limit_remedies(call))


def open_group_rows(
    X: Any, sensitive_features: Any, sample_weight: Any = None, on_missing: OnMissing = "error"
) -> Rows:
    """Open the rows of `X`, with labels and weights.

    Parameters
    ----------
    X : array, data frame, path, stream, or rows already opened
        Rows already opened are returned as they are; they bring their own labels and weights.
    sensitive_features : array-like, data frame, or column name(s) of X
    sample_weight : (n,) array-like, or column name of X, optional
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        What to do with rows in which a feature or the group is missing.

    Returns
    -------
    RowSource or PartitionedRows

    Raises
    ------
    InvalidInput
        No labels, a missing column, lengths that differ, pandas indexes that disagree, no rows or
        no features.
    InvalidParameter
        Another value of on_missing.
    """
    if is_row_source(X):
        if sensitive_features is not None or sample_weight is not None:
            raise InvalidInput(
                "X is rows already opened, which bring their own groups and weights, and "
                "sensitive_features or sample_weight beside them",
                "Allowed: opened rows alone",
                "Name groups and weights where the rows are opened, for example "
                'FileRows.open(path, groups=["sex"], weight="w")',
            )
        return X
    check_choice("on_missing", on_missing, ON_MISSING)
    adapter = adapter_for(X)
    if sensitive_features is None:
        # What is wrong with the table itself is said first.
        adapter.open(X, SingleGroup(""), sample_weight, on_missing)
        raise InvalidInput(
            "sensitive_features is missing",
            "Allowed: one group label for each row, or the name of a column of X",
            "Pass sensitive_features=...; for ordinary PCA without groups say "
            'FairPCA(missing_groups="ignore")',
        )
    rows = adapter.open(X, sensitive_features, sample_weight, on_missing)
    # After the lengths were checked, whose message says more.
    check_alignment(
        {"X": X, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    )
    return rows


def map_rows(X: Any, row_map: RowMap) -> Any | None:
    """A function of rows, as the same kind of object where they lie; None if they lie here.

    Of rows that were opened it is an array.

    Raises
    ------
    InvalidType
        A path or a stream, whose kind cannot be kept.
    """
    if is_row_source(X):
        parts = [row_map.function(block.values) for block in feature_blocks(X, row_map)]
        return np.concatenate(parts or [np.empty((0, len(row_map.output_names)))])
    return adapter_for(X).map_rows(X, row_map)


def feature_blocks(rows: Rows, row_map: RowMap) -> Iterator[RowBlock]:
    """Blocks of the features that a function needs, matched by their names where they have names.

    Raises
    ------
    InvalidType
        Rows that are not read here.
    InvalidInput
        A feature is missing, or there is another number of them.
    """
    if not isinstance(rows, RowSource) or isinstance(rows, PartitionedRows):
        raise InvalidType(
            f"X is of type {type(rows).__name__}, whose rows are read part by part where they lie",
            "Allowed: arrays, data frames, Dask and Spark collections, and rows in blocks",
            "Reduce a file with the command: fairspan transform MODEL DATA -o OUT",
        )
    if row_map.feature_names is not None and rows.feature_names is not None:
        rows = rows.select_features(row_map.feature_names)
    check_n_columns(rows.n_features, row_map.n_inputs, "features")
    return rows.blocks()


def open_rows(
    X: Any,
    sensitive_features: Any,
    beside: Mapping[str, Any],
    sample_weight: Any = None,
    on_missing: OnMissing = "error",
    *,
    attributes: Sequence[ColumnKey] = (),
) -> Rows:
    """Open the rows of `X` with labels whose last columns are what is known beside the groups.

    Parameters
    ----------
    X : table, as :func:`fairspan.rows.opening.rows_of` takes it
    sensitive_features : array-like, data frame, or column name(s) of X
    beside : mapping of name to (n,) array-like, column name of X, or None
        What it is called in messages, in the order of the columns; what is None is left out.
    sample_weight : (n,) array-like, or column name of X, optional
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    attributes : sequence of str or int
        Columns of X that are no features, but are read with them (:mod:`fairspan.rows.attributes`).

    Raises
    ------
    InvalidInput
        A column that is not there, lengths that differ, or values beside rows that are not in
        memory.
    """
    rows = _open_with_extra_labels(X, sensitive_features, beside, sample_weight, on_missing)
    return RowsWithAttributes.wrap(rows, attributes) if attributes else rows


def _open_with_extra_labels(
    X: Any,
    sensitive_features: Any,
    beside: Mapping[str, Any],
    sample_weight: Any,
    on_missing: OnMissing,
) -> Rows:
    known = {name: values for name, values in beside.items() if values is not None}
    if known and is_row_source(X):
        raise InvalidInput(
            f"X is rows already opened, and {format_list(list(known))} was given beside them",
            "Allowed: opened rows alone",
            "Pass the table itself, with the names of its columns",
        )
    if not known or sensitive_features is None or isinstance(sensitive_features, SingleGroup):
        return open_group_rows(X, sensitive_features, sample_weight, on_missing)
    columns = [values for values in known.values() if isinstance(values, str)]
    frame, groups = as_eager_frame(X), sensitive_features
    names = [groups] if isinstance(groups, str) else groups
    if frame is not None:
        names = resolve_group_columns(frame, groups)
    if len(columns) == len(known) and (frame is None or names):
        return open_group_rows(X, [*names, *columns], sample_weight, on_missing)
    if frame is not None:
        check_columns(columns, frame.columns)
    opened = open_group_rows(drop_columns(X, columns), groups, sample_weight, on_missing)
    if not isinstance(opened, InMemoryRows):
        name = next(name for name, values in known.items() if not isinstance(values, str))
        raise InvalidInput(
            f"{name} holds values, but the rows are not in memory",
            "Allowed with such rows: the name of a column",
            f"Name the column of the {name}",
        )
    assert opened.group_labels is not None
    more = [resolve_labels(values, opened.n_rows, X, name) for name, values in known.items()]
    check_alignment({"X": X, "sensitive_features": groups, "sample_weight": sample_weight, **known})
    labels = replace(
        CodedLabels.cross([opened.group_labels, *more]),
        column_names=opened.group_labels.column_names,
    )
    return replace(opened, group_labels=labels)


def warn_of_unused_categories(rows: Rows) -> None:
    """Warn of categories that the group columns of rows in memory declare, and that no row has."""
    while isinstance(rows, RowsWithAttributes):
        rows = rows.source
    labels = rows.group_labels if isinstance(rows, InMemoryRows) else None
    if labels is not None and labels.unused:
        unused = [to_python_label(label) for label in labels.unused]
        several = len(unused) > 1
        warn(
            f"No row has the declared categor{'ies' if several else 'y'} {format_list(unused)}, so "
            f"nothing is known of {'them' if several else 'it'}. Check how the rows were selected; "
            "if that is intended, pass the column after cat.remove_unused_categories()."
        )


def match_groups(rows: Rows, known: KnownLabels) -> Rows:
    """Return the rows with labels of a fit in place of labels that are equal as text.

    Warns where the types of the labels differ, as far as they are known before the rows are read.

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
        if rows.group_labels is None:
            return rows
        matched = known.match(rows.group_labels)
        if matched is rows.group_labels:
            return rows
        if (notice := known.notice(rows.group_labels)) is not None:
            warn(notice)
        return replace(rows, group_labels=matched)
    if isinstance(rows, ColumnRows):
        if (notice := known.notice_of_types(rows.label_types)) is not None:
            warn(notice)
        return replace(rows, selection=replace(rows.selection, known_labels=known))  # type: ignore[type-var]
    return MappedRows.wrap(rows, known.match_block, is_completed=False)


def compute_fingerprint(rows: Rows) -> str | None:
    """SHA-256 of the bytes of files, or of the numbers, groups and weights of other rows.

    Of rows it is that of n, p and the SHA-256 of values, groups and weights, a line each. Values
    and weights are little-endian float64, row by row; groups are text, a line each.

    Returns
    -------
    str or None
        None where the rows lie elsewhere, on a cluster.
    """
    if isinstance(rows, RowsWithAttributes):
        return compute_fingerprint(rows.source)
    if isinstance(rows, FileRows):
        return sha256_of_files(rows.path, [part.path for part in rows.parts])
    if not isinstance(rows, RowSource):
        return None
    values, groups, weights = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    known = rows if isinstance(rows, BaseRows) else BaseRows()
    n_rows = 0
    for block in rows.blocks():
        n_rows += len(block.values)
        values.update(np.ascontiguousarray(block.values, dtype="<f8").data)
        if block.group_labels is not None:
            # Half of a pair of surrogates, which Python's text may hold, is no UTF-8.
            texts = [
                f"{format_label(label)}\n".encode(errors="surrogatepass")
                for label in block.group_labels.categories
            ]
            groups.update(b"".join(texts[code] for code in block.group_labels.codes.tolist()))
        if block.weights is not None:
            given = np.ldexp(block.weights, known.weight_exponent)
            weights.update(np.ascontiguousarray(given, dtype="<f8").data)
    parts = [each.hexdigest() for each in (values, groups, weights)]
    return sha256_of_bytes("\n".join([f"{n_rows} {rows.n_features}", *parts, ""]).encode())


def sha256_of_files(path: Path, files: Sequence[Path]) -> str:
    """SHA-256 of a file; of a folder, of the sorted names in it and the SHA-256 of each file."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    names = sorted({file.relative_to(path).as_posix() for file in files})
    return sha256_of_bytes(
        "".join(f"{sha256_of_files(path / name, ())}  {name}\n" for name in names).encode()
    )


def sha256_of_bytes(contents: bytes) -> str:
    """SHA-256 of bytes as they are."""
    return hashlib.sha256(contents).hexdigest()
