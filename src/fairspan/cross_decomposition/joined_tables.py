"""Two tables whose rows belong together, joined into one table of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fairspan.errors import FairspanError, InvalidInput, InvalidType, describe_type
from fairspan.formatting.messages import counted
from fairspan.registry import LazyModule
from fairspan.rows.aggregation import Rows
from fairspan.rows.alignment import check_alignment
from fairspan.rows.blocks import OnMissing
from fairspan.rows.frames import open_features
from fairspan.rows.label_resolution import as_eager_frame
from fairspan.rows.labels import format_list
from fairspan.rows.opening import open_rows, warn_about_unused_categories
from fairspan.rows.protocol import row_metadata
from fairspan.typing import AnyArray, LabelsLike, TableLike, WeightsLike

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.stable.v2.typing import IntoDataFrame
else:
    nw = LazyModule("narwhals.stable.v2")


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Rows of two tables: the columns of X, followed by those of Y.

    Attributes
    ----------
    rows : RowSource or PartitionedRows
    n_targets : int
        Number of columns of Y, q.
    reserved_columns : tuple of str
        Columns of groups and weights, which belong to neither table.
    target_names : tuple of str or None
        Names of the columns of Y; None if they have none.
    """

    rows: Rows
    n_targets: int
    reserved_columns: tuple[str, ...]
    target_names: tuple[str, ...] | None = None


def open_joined(
    X: TableLike,
    Y: object,
    sensitive_features: LabelsLike,
    sample_weight: WeightsLike,
    on_missing: OnMissing,
    *,
    clusters: LabelsLike = None,
) -> JoinedRows:
    """Open the rows of two tables, with their groups and weights.

    Parameters
    ----------
    X : (n, p) table, or table with the columns of both
    Y : (n, q) or (n,) array or data frame in memory, or names of columns of X
        Names if X is not in memory: a file, or a Dask or Spark data frame.
    sensitive_features, sample_weight, on_missing
        As for :meth:`fairspan.FairPCA.fit`.
    clusters : (n,) array-like, or column name of X, optional
        Cluster of each row.

    Raises
    ------
    InvalidInput, InvalidType
        Y is missing or not such a table; the numbers of rows differ; two columns have one name; or
        the rows are invalid.
    """
    if Y is None:
        raise InvalidInput(
            "Y is missing",
            "Allowed: a second table with as many rows as X, or the names of columns of X",
            "Pass Y; for one table use FairPCA",
        )
    names = column_names(Y)
    target_names = names
    if names is None:
        metadata = {
            "sensitive_features": sensitive_features,
            "sample_weight": sample_weight,
            "clusters": clusters,
        }
        check_alignment({"X": X, "Y": Y, **metadata})
        target_names = _target_names(Y)
        _check_no_target(metadata, target_names)
        targets = _target_values(Y, on_missing)
        n_targets = targets.shape[1]
        X = _join(X, targets, target_names, on_missing)
    else:
        n_targets = len(names)
    rows = open_rows(
        X,
        sensitive_features,
        clusters=clusters,
        sample_weight=sample_weight,
        on_missing=on_missing,
    )
    warn_about_unused_categories(rows)
    if names is not None:
        rows = _move_targets_last(rows, names)
    return JoinedRows(rows, n_targets, row_metadata(rows).reserved_columns, target_names)


def _check_no_target(metadata: Mapping[str, object], target_names: tuple[str, ...] | None) -> None:
    """Check that groups, weights and clusters are no columns of Y, all of which are targets.

    Raises
    ------
    InvalidInput
    """
    for argument, value in metadata.items():
        named_columns = set(column_names(value) or ())
        taken = sorted(named_columns.intersection(target_names or ()))
        if taken:
            raise InvalidInput(
                f"{argument} names the columns {format_list(taken)} of Y",
                "Allowed: columns of X, or one value for each row",
                "Move the columns to X, or pass their values",
            )


def column_names(Y: object) -> tuple[str, ...] | None:
    """Names of columns of X, if that is what Y is."""
    if isinstance(Y, str):
        return (Y,)
    if isinstance(Y, list | tuple) and Y and all(isinstance(name, str) for name in Y):
        return tuple(Y)
    return None


def _move_targets_last(rows: Rows, names: tuple[str, ...]) -> Rows:
    """Rows with the named columns behind all others.

    Raises
    ------
    InvalidInput
        X has no named columns, lacks one of them, or has no others.
    """
    available = rows.feature_names
    if available is None:
        raise InvalidInput(
            f"Y names the columns {format_list(names)}, and the columns of X have no names",
            "Allowed: names with a data frame or a file; otherwise a table of numbers",
            "Pass the numbers of Y",
        )
    missing = [name for name in names if name not in available]
    if missing or len(set(names)) < len(names):
        raise InvalidInput(
            f"Y names the columns {format_list(names)}",
            f"Allowed: distinct columns of X: {format_list(available)}",
            "Check the names; columns of groups and weights are no columns of Y",
        )
    others = tuple(name for name in available if name not in names)
    if not others:
        raise InvalidInput(
            "Y names every column of X",
            "Allowed: at least two columns in each table",
            "Leave some columns to X",
        )
    return rows.select_features((*others, *names))


def _join(
    X: TableLike,
    targets: AnyArray,
    target_names: tuple[str, ...] | None,
    on_missing: OnMissing,
) -> TableLike:
    """Join the columns of Y, (n, q) numbers, to those of X.

    Returns
    -------
    table
        A data frame if X is one, a sparse matrix if X is one, else an array.

    Raises
    ------
    InvalidInput, InvalidType
    """
    frame = as_eager_frame(X)
    if frame is not None:
        _check_lengths(len(frame), len(targets))
        names = target_names or _free_names(frame.columns, targets.shape[1])
        return _with_columns(frame, names, targets)
    if scipy.sparse.issparse(X):
        matrix = scipy.sparse.csr_array(X)
        _check_lengths(matrix.shape[0], len(targets))
        return scipy.sparse.hstack([matrix, scipy.sparse.csr_array(targets)]).tocsr()
    if not (hasattr(X, "__array__") or isinstance(X, list | tuple)) or hasattr(X, "dask"):
        raise InvalidType(
            f"X is {describe_type(X)}, and Y is a table of its own",
            "Allowed: two tables in memory, or one table and the names of its columns in Y",
            'Put the columns into one table and pass their names, as in Y=["height", "weight"]',
        )
    rows = open_features(X, on_missing)
    array = np.asarray(rows.array if hasattr(rows, "array") else rows.values())
    _check_lengths(len(array), len(targets))
    return np.column_stack([array, targets])


def _target_values(Y: TableLike, on_missing: OnMissing) -> AnyArray:
    """Numbers of Y, validated, shape (n, q); NaN where cells are missing and may be.

    Raises
    ------
    InvalidInput, InvalidType
    """
    if scipy.sparse.issparse(Y):
        Y = scipy.sparse.csr_array(Y).toarray()
    if _is_vector(Y):
        Y = np.asarray(Y).reshape(-1, 1)
    try:
        rows = open_features(Y, "error" if on_missing == "error" else "em")
        return rows.to_array() if hasattr(rows, "to_array") else rows.values()
    except FairspanError as error:
        raise error.located("Y") from error


def _is_vector(Y: object) -> bool:
    """Whether Y is one column: a vector, series, or list of numbers."""
    if isinstance(Y, list | tuple):
        return bool(Y) and np.ndim(Y[0]) == 0
    return len(getattr(Y, "shape", ())) == 1


def _target_names(Y: object) -> tuple[str, ...] | None:
    """Names of the columns of Y: those of a frame or series; None for other tables."""
    frame = as_eager_frame(Y)
    if frame is not None:
        return tuple(str(name) for name in frame.columns)
    name = getattr(Y, "name", None)
    return (name,) if isinstance(name, str) and name else None


def _free_names(taken: Sequence[str], n_targets: int) -> tuple[str, ...]:
    """Names y0, y1 and so on, with as many underscores in front as make them free."""
    names = tuple(f"y{index}" for index in range(n_targets))
    while set(names).intersection(taken):
        names = tuple(f"_{name}" for name in names)
    return names


def _with_columns(
    frame: nw.DataFrame[IntoDataFrame], names: Sequence[str], values: AnyArray
) -> TableLike:
    """Frame with these columns behind its own.

    Raises
    ------
    InvalidInput
        The frame has a column of one of these names.
    """
    taken = [name for name in names if name in frame.columns]
    if taken:
        raise InvalidInput(
            f"X and Y both have the columns {format_list(taken)}",
            "Allowed: different names in the two tables",
            "Rename the columns of one table",
        )
    columns = [
        nw.new_series(name, np.ascontiguousarray(column), backend=frame.implementation)
        for name, column in zip(names, values.T, strict=True)
    ]
    return frame.with_columns(*columns).to_native()


def _check_lengths(n_rows: int, n_target_rows: int) -> None:
    """Check that both tables have as many rows.

    Raises
    ------
    InvalidInput
    """
    if n_rows != n_target_rows:
        raise InvalidInput(
            f"X has {counted(n_rows, 'row')} and Y has {n_target_rows}",
            "Allowed: two tables whose rows belong together, one by one",
            "Pass both tables of the same rows, in the same order",
        )
