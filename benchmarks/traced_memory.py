"""Memory that a fit holds in addition to the table, by kind of table; traced, hence exact."""

import gc
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from benchmarks.effort import Effort
from benchmarks.measurement import format_table, log_progress
from benchmarks.report import SectionContent
from fairspan import FairPCA, MeanParity

_MEGABYTE = 1e6
_MISSING_SHARE = 0.02
_SPARSE_SHARE = 0.05
# Axes that are sums of the rows would not be orthonormal for rows this near to fewer dimensions.
_DISTANCE_FROM_SPAN = 1e-5


@dataclass(frozen=True)
class Table:
    """Kind of table, and settings of the fit.

    Attributes
    ----------
    name : str
    make : callable
        Returns the table.
    settings : mapping
        Of the fit.
    """

    name: str
    make: Callable[[], Any]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TracedPeak:
    """Bytes of a table, and the largest number that a fit holds in addition."""

    table_bytes: int
    peak_bytes: int


def measure(effort: Effort) -> SectionContent:
    """Trace a tall and a wide table of each kind."""
    tall = (10_000, 20) if effort.quick else (200_000, 20)
    wide = (50, 2000) if effort.quick else (200, 20_000)
    lines = []
    for shape in (tall, wide):
        for table in tables(*shape):
            log_progress(f"{table.name}, {shape[0]:,} x {shape[1]:,}")
            lines.append(_format_line(table, shape, trace_peak(table, shape)))
    table = format_table(["table", "n x p", "MB", "held beside it, MB", "ratio"], lines)
    return SectionContent("\n\n".join([_EXPLANATION, table]))


_EXPLANATION = """
Most that NumPy and Python hold beside the table during a fit of two components of two groups,
traced. A tall fit holds blocks of the rows. A wide one, of fewer rows than features, holds blocks
of the columns, matrices of n x n, and vectors of p numbers. It copies the table in two cases: a
data frame of many columns is converted to one array, and rows that nearly depend on each other get
orthonormal axes of their own. Of sparse rows it keeps the search subspace."""


def tables(n: int, p: int) -> list[Table]:
    """Return the kinds of table of n rows and p features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    integers = partial(_rounded, X)
    kinds = [
        Table("float64", lambda: X),
        Table("float64, scaled, centered by group", lambda: X, {"scale": True, "center": "group"}),
        Table("float64, mean parity", lambda: X, {"restriction": MeanParity()}),
        Table("float64 in Fortran order", partial(np.asfortranarray, X)),
        Table("every second column", lambda: np.repeat(X, 2, axis=1)[:, ::2]),
        Table("float32", partial(X.astype, np.float32)),
        Table("int64", integers),
        Table("data frame of one block", partial(pd.DataFrame, X)),
        Table("CSR, 5 % stored", partial(_sparse, n, p)),
        Table("data frame of many columns", partial(_by_column, X)),
        Table("missing cells, rows dropped", partial(_with_holes, X), {"on_missing": "drop"}),
    ]
    if p > n:
        kinds.append(Table("rows near ten dimensions", partial(_near_ten_dimensions, n, p)))
    return kinds


def trace_peak(table: Table, shape: tuple[int, int]) -> TracedPeak:
    """Fit once, and trace the memory that NumPy and Python allocate meanwhile."""
    X = table.make()
    labels = np.arange(shape[0]) % 2
    model = FairPCA(2, **table.settings)
    # Load what a fit needs, on rows of the same kind.
    few = X.iloc[:40] if isinstance(X, pd.DataFrame) else X[:40]
    model.fit(few, sensitive_features=labels[:40])
    gc.collect()
    tracemalloc.start()
    try:
        model.fit(X, sensitive_features=labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return TracedPeak(_bytes_of(X), peak)


def _format_line(table: Table, shape: tuple[int, int], traced: TracedPeak) -> list[str]:
    return [
        table.name,
        f"{shape[0]:,} x {shape[1]:,}",
        f"{traced.table_bytes / _MEGABYTE:.0f}",
        f"{traced.peak_bytes / _MEGABYTE:.1f}",
        f"{traced.peak_bytes / traced.table_bytes:.2f}",
    ]


def _bytes_of(X: Any) -> int:
    if isinstance(X, pd.DataFrame):
        return int(X.memory_usage(index=False).sum())
    if scipy.sparse.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def _rounded(X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (10 * X).astype(np.int64)


def _by_column(X: np.ndarray[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame({f"x{j}": column.copy() for j, column in enumerate(X.T)}, copy=False)


def _with_holes(X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Leave a cell out of some of the rows."""
    rng = np.random.default_rng(1)
    holes = X.copy()
    rows = rng.random(len(X)) < _MISSING_SHARE
    rows[:40] = False
    holes[rows, 0] = np.nan
    return holes


def _near_ten_dimensions(n: int, p: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    near = rng.standard_normal((n, 10)) @ rng.standard_normal((10, p))
    return near + _DISTANCE_FROM_SPAN * rng.standard_normal((n, p))


def _sparse(n: int, p: int) -> scipy.sparse.csr_array:
    return scipy.sparse.random_array(
        (n, p), density=_SPARSE_SHARE, format="csr", rng=np.random.default_rng(2)
    )
