"""Rows in a numpy array, or in anything that numpy can read as one."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.checks import check_dtype, check_shape, checked_values, row_block
from fairspan.rows.groups import CodedLabels, listed
from fairspan.rows.labels import Labels, check_index, labels_of
from fairspan.rows.protocol import OnMissing, RowBlock, block_rows
from fairspan.rows.weights import checked_weights
from fairspan.typing import FloatArray


class UnnamedRows(Protocol):
    """Rows of an (n, p) table whose features have no names."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""

    @property
    def feature_names(self) -> None:
        """There are none."""
        return

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows, whose width must fit, as there are no names to select by.

        Raises
        ------
        InvalidInput
            Another number of columns.
        """
        if self.n_features != len(names):
            raise InvalidInput(
                f"X has {self.n_features} features",
                f"The model was fitted on {len(names)}: {listed(names)}",
                "Pass the columns that it was fitted on",
            )
        return self


@dataclass(frozen=True)
class ArrayRows(UnnamedRows):
    """Rows of an (n, p) array.

    Parameters
    ----------
    array : array-like of shape (n, p)
        Numbers of any precision; never copied as a whole.
    """

    array: Any
    labels: Labels | None = field(default=None, kw_only=True)
    weights: FloatArray | None = field(default=None, kw_only=True)
    on_missing: OnMissing = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "array", _as_array(self.array))
        check_shape(self.array.shape)
        check_dtype(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.array.shape)

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return () if self.labels is None else self.labels.names

    def joined(
        self, labels: Labels | None, sample_weight: Any = None, on_missing: OnMissing = "error"
    ) -> "ArrayRows":
        """The same rows with labels and weights."""
        weights = checked_weights(sample_weight, self.n_rows)
        return replace(self, labels=labels, weights=weights, on_missing=on_missing)

    def values(self) -> FloatArray:
        """All rows at once, checked, shape (n, p)."""
        return checked_values(self.array, 0, None)

    @property
    def is_plain(self) -> bool:
        """Whether these are numbers with labels, without weights, of which no row is left out."""
        numbers = self.array.dtype.kind in "fiub" and self.labels is not None
        return numbers and self.weights is None and self.on_missing == "error"

    def numbers_between(self, start: int, stop: int) -> FloatArray:
        """Some rows as float64, not checked for NaN; not to be written to."""
        return np.asarray(self.array[start:stop].astype(np.float64, copy=False))

    def numbers_at(self, rows: npt.NDArray[np.intp]) -> FloatArray:
        """Single rows as float64, not checked for NaN."""
        return np.asarray(self.array[rows].astype(np.float64, copy=False))

    def labels_between(self, start: int, stop: int) -> CodedLabels:
        """Their labels."""
        assert self.labels is not None
        return self.labels.between(start, stop)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size = block_rows(self.n_features)
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield row_block(
                start,
                self.array[start:stop],
                None if self.labels is None else self.labels.between(start, stop),
                None if self.weights is None else self.weights[start:stop],
                None,
                self.on_missing,
            )


def open_rows(
    X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
) -> ArrayRows:
    """Rows of an array, whose groups and weights are beside it."""
    check_index(X, sample_weight, "sample_weight")
    rows = ArrayRows(X)
    return rows.joined(labels_of(sensitive_features, rows.n_rows, X), sample_weight, on_missing)


def comes_from(X: Any, package: str) -> bool:
    """Whether an object is of a class of a package, which need not be installed."""
    return any(cls.__module__.split(".")[0] == package for cls in type(X).__mro__)


def is_device_array(X: Any) -> bool:
    """Whether it is an array of another package than numpy, which may lie on a GPU."""
    if isinstance(X, np.ndarray | np.generic):
        return False
    return hasattr(X, "__array_namespace__") or comes_from(X, "torch")


def _as_array(values: Any) -> Any:
    if hasattr(values, "tocsr"):
        raise InvalidType(
            "X is a sparse matrix",
            "Allowed are dense arrays and data frames",
            "Convert it with X.toarray() if it fits into memory",
        )
    if hasattr(values, "collect"):
        raise InvalidType(
            f"X is a lazy {type(values).__name__}",
            "Allowed are arrays and data frames that hold their rows",
            "Call collect() on it first",
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInput(
            "X is an array with masked cells",
            "Allowed are complete rows",
            "Fill in or drop the masked rows first",
        )
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(
            f"X cannot be read as a table ({error})",
            "Allowed is an array of shape (n rows, p features)",
            "Make all rows equally long",
        ) from error
    if array.ndim == 0 and array.dtype.kind in "OSU":
        raise InvalidType(
            f"X is of type {type(values).__name__}, which holds no rows here",
            "Allowed are arrays and data frames of shape (n rows, p features)",
            "Read the rows into one of these first",
        )
    return array
