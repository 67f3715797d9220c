"""Which adapter reads which kind of data; each is imported only when it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.arrays import comes_from, is_device_array
from fairspan.rows.checks import check_on_missing
from fairspan.rows.frames import frame_of
from fairspan.rows.labels import Everyone
from fairspan.rows.protocol import (
    OnMissing,
    PartedRows,
    Projection,
    Rows,
    RowSource,
)
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class Adapter:
    """A module of this package with a function ``open_rows`` for one kind of data.

    Attributes
    ----------
    module : str
    takes : callable
        Whether an object is of that kind; must not import what the object's package does not.
    """

    module: str
    takes: Callable[[Any], bool]

    def imported(self) -> Any:
        """The module."""
        return import_module(f"fairspan.rows.{self.module}")


def _is_stream(X: Any) -> bool:
    """Whether it exports a table as an Arrow stream; a single column does so too, and is none."""
    is_column = hasattr(X, "__array__") and not hasattr(X, "schema")
    return hasattr(X, "__arrow_c_stream__") and not is_column


# The first that takes an object reads it; numpy reads whatever is left.
ADAPTERS = (
    Adapter("files.file_rows", lambda X: isinstance(X, str | PathLike)),
    Adapter("sparse", lambda X: hasattr(X, "tocsr")),
    Adapter("dask.collections", lambda X: comes_from(X, "dask")),
    Adapter("spark.frames", lambda X: comes_from(X, "pyspark")),
    Adapter("frames", lambda X: frame_of(X) is not None),
    Adapter("arrow", _is_stream),
    Adapter("device.arrays", is_device_array),
    Adapter("arrays", lambda X: True),
)

# Those whose rows are in memory as numpy or a data frame, and those that can only be read.
_HERE = ("frames", "arrays")
_READ_ONLY = ("files.file_rows", "arrow")
# Those that can bring reduced rows back where they lie.
_RESTORING = ("device.arrays", "dask.collections")
# Those that can compute something of each row where it lies, when it is asked for.
_LAZY = ("dask.collections",)
# Those of which only some rows are brought here, or filled, at a time.
_IN_BLOCKS = ("device.arrays", "sparse")
# Those of whose rows a number each would have nowhere to go.
_WITHOUT_NUMBERS = (*_READ_ONLY, "spark.frames")


def adapter_for(X: Any) -> Adapter:
    """The adapter that reads this kind of data."""
    return next(adapter for adapter in ADAPTERS if adapter.takes(X))


def transformed_there(X: Any, projection: Projection) -> Any | None:
    """Rows reduced where they lie, as the same kind of object; None if they lie here.

    Raises
    ------
    InvalidType
        A path or a stream, whose kind cannot be kept.
    """
    adapter = adapter_for(X)
    if adapter.module in _READ_ONLY or is_opened(X):
        raise InvalidType(
            f"X is of type {type(X).__name__}, which reduced rows cannot be written into",
            "Allowed are arrays, data frames, and Dask and Spark collections",
            "Reduce a file with the command: fairspan transform MODEL DATA -o OUT",
        )
    if adapter.module in _HERE:
        return None
    return adapter.imported().transformed(X, projection)


def restored_there(Z: Any, projection: Projection) -> Any | None:
    """Rows brought back from their coordinates where those lie; None if they lie here."""
    adapter = adapter_for(Z)
    return adapter.imported().restored(Z, projection) if adapter.module in _RESTORING else None


def is_scored_in_blocks(X: Any) -> bool:
    """Whether scores are made block by block, as its rows would not fit here as numbers."""
    return adapter_for(X).module in _IN_BLOCKS


def scored_there(X: Any, score: Callable[[Any], FloatArray]) -> Any | None:
    """One number for each row, computed lazily where the rows lie; None if they lie here.

    Parameters
    ----------
    X : collection
    score : callable
        Of rows in memory; must be fit to be sent to another process.

    Raises
    ------
    InvalidType
        A path, a stream or a Spark data frame.
    """
    adapter = adapter_for(X)
    if adapter.module in _WITHOUT_NUMBERS or is_opened(X):
        raise InvalidType(
            f"X is of type {type(X).__name__}, whose rows are read group by group only",
            "Allowed are arrays, data frames and Dask collections",
            "Read the rows into one of these, or let audit(model, X, ...) compare groups",
        )
    return adapter.imported().scored(X, score) if adapter.module in _LAZY else None


def is_opened(X: Any) -> bool:
    """Whether these are rows that an adapter opened already."""
    return type(X) is not np.ndarray and isinstance(X, RowSource | PartedRows)


def rows_of(
    X: Any, sensitive_features: Any, sample_weight: Any = None, on_missing: OnMissing = "error"
) -> Rows:
    """Choose the adapter for `X` and join it with labels and weights.

    Parameters
    ----------
    X : array, data frame, path, stream, or rows already opened
        Rows already opened are returned as they are; they bring their own labels and weights.
    sensitive_features : array-like, data frame, or column name(s) of X
    sample_weight : (n,) array-like, or column name of X, optional
    on_missing : {"error", "drop"}
        What to do with rows in which a feature or the group is missing.

    Returns
    -------
    RowSource or PartedRows

    Raises
    ------
    InvalidInput
        No labels, a missing column, lengths that differ, no rows or no features.
    InvalidParameter
        Another value of on_missing.
    """
    if is_opened(X):
        if sensitive_features is not None or sample_weight is not None:
            raise InvalidInput(
                "X is rows already opened, which bring their own groups and weights, and "
                "sensitive_features or sample_weight beside them",
                "Allowed are opened rows alone",
                "Name groups and weights where the rows are opened, for example "
                'FileRows.open(path, groups=["sex"], weight="w")',
            )
        opened: Rows = X
        return opened
    check_on_missing(on_missing)
    open_rows = adapter_for(X).imported().open_rows
    if sensitive_features is None:
        # What is wrong with the table itself is said first.
        open_rows(X, Everyone(""), sample_weight, on_missing)
        raise InvalidInput(
            "sensitive_features is missing",
            "Allowed are one group label for each row, or the name of a column of X",
            "Pass sensitive_features=...; for ordinary PCA without groups say "
            'FairPCA(missing_groups="ignore")',
        )
    rows: Rows = open_rows(X, sensitive_features, sample_weight, on_missing)
    return rows
