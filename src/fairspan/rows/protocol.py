"""Protocols of row sources, and the limit on the number of groups.

An identifier used as the group column would need a matrix per row, so the number of groups and the
memory for their matrices are limited.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from fairspan.errors import Cause, FairspanError, InvalidInput
from fairspan.formatting.messages import counted, with_row_names
from fairspan.linalg.memory import check_memory
from fairspan.parameters import check_integer
from fairspan.rows.groups import CodedLabels, Label, format_list, without_last_attribute
from fairspan.rows.validation import to_finite_float64, to_float64_with_missing, to_numeric
from fairspan.typing import AnyArray, BoolArray, FloatArray

# Entries of one block (2 MB of float64): large enough for matrix products at full speed, small
# enough to stay in cache.
_BLOCK_ENTRIES = 2**18
# Minimum rows of one block, so that the overhead per block is negligible.
_MIN_BLOCK_ROWS = 512
# Maximum entries of one block (32 MB). An update of a p x p matrix is limited by memory bandwidth,
# so about 2 p rows are used per update if this allows.
_MAX_BLOCK_ENTRIES = 2**22

Result = TypeVar("Result")
OnMissing = Literal["error", "drop", "drop without group", "em", "em-drop-empty"]
ON_MISSING = ("error", "drop", "em", "em-drop-empty")
# Values of `on_missing` with which rows keep missing cells, as NaN.
KEEPING_MISSING = ("em", "em-drop-empty")


class DroppedRows(NamedTuple):
    """Rows of a block that were dropped because of missing values.

    Attributes
    ----------
    group_labels : CodedLabels of n_dropped rows
    missing : (n_dropped, p) array of bool
        Mask of their missing features.
    """

    group_labels: CodedLabels
    missing: BoolArray


@dataclass(frozen=True)
class RowBlock:
    """A block of consecutive rows.

    Attributes
    ----------
    first_row : int
        Position of the first row in the whole table, counted from 0.
    values : (r, p) array
        Finite float64; NaN marks missing cells if the source keeps them. May be a view of the
        user's data: do not modify.
    group_labels : CodedLabels of r rows, or None
        Group label of each row; None if the source has no groups.
    weights : (r,) array or None
    n_dropped : int
        Number of rows of this block that were dropped because of missing values.
    extra_columns : pyarrow.Table of r rows, or None
        Requested columns that are passed through unchanged.
    dropped_rows : DroppedRows or None
    """

    first_row: int
    values: FloatArray
    group_labels: CodedLabels | None
    weights: FloatArray | None
    n_dropped: int = 0
    extra_columns: Any = None
    dropped_rows: DroppedRows | None = None


class BaseRows:
    """Base class of built-in rows, with default metadata beyond `RowsInfo`."""

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the group columns; empty if they have no names."""
        return ()

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the group and weight columns, for sources with named columns."""
        return ()

    @property
    def n_partitions(self) -> int | None:
        """Number of partitions, if known."""
        return None

    @property
    def row_offset(self) -> int:
        """Number of rows of the whole table before these; 0 if unknown."""
        return 0

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return False

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights; 0 for weights of ordinary size."""
        return 0

    def find_weight_scale(self) -> None:
        """Read all weights to choose a unit that brings them into range."""

    def row_name(self, index: int) -> str | None:
        """Return the name of a row for messages; None to use its position."""
        return None


class RowsInfo(Protocol):
    """Metadata available before any row is read."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Feature names, if any."""

    @property
    def n_features(self) -> int:
        """Number of features, p."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if known before reading."""


@runtime_checkable
class RowSource(RowsInfo, Protocol):
    """Rows that can be read in blocks, repeatedly."""

    def select_features(self, names: tuple[str, ...]) -> "RowSource":
        """Return the same rows with these features, in this order."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""


class Aggregator(Protocol[Result]):
    """An aggregation over rows: one pass, with mergeable results.

    An aggregator and its results must be picklable. It keeps no state between partitions, so that a
    failed partition can be read again without being counted twice.
    """

    def aggregate(self, rows: RowSource) -> Result | None:
        """Return the result for some rows; None if there are none."""

    def merge(self, left: Result, right: Result) -> Result:
        """Merge the results of two parts; associative up to rounding."""


@runtime_checkable
class PartitionedRows(RowsInfo, Protocol):
    """Partitioned rows, aggregated in place: in several files, processes or machines."""

    def select_features(self, names: tuple[str, ...]) -> "PartitionedRows":
        """Return the same rows with these features, in this order."""

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all partitions; None if there are no rows.

        The result is bit-identical for any number of processes.
        """


Rows = RowSource | PartitionedRows


def as_partitioned(rows: Rows) -> PartitionedRows | None:
    """Return the rows if they are partitioned, else None."""
    # `isinstance` is slower: it looks up every member of the protocol.
    return cast(PartitionedRows, rows) if hasattr(rows, "aggregate") else None


@dataclass(frozen=True)
class MappedAggregator(Aggregator[Result]):
    """An aggregator applied to transformed rows.

    Attributes
    ----------
    aggregator : Aggregator
    transform : callable
        Transformation of the rows.
    """

    aggregator: Aggregator[Result]
    transform: Callable[[RowSource], RowSource]

    def aggregate(self, rows: RowSource) -> Result | None:
        """Return the result for the transformed rows."""
        return self.aggregator.aggregate(self.transform(rows))

    def merge(self, left: Result, right: Result) -> Result:
        """Merge the results of two parts."""
        return self.aggregator.merge(left, right)


def aggregate(rows: Rows, aggregator: Aggregator[Result]) -> Result | None:
    """Aggregate all rows, in memory or partitioned; None if there are none.

    If weights turn out to be too large or too small, the rows are read twice more: to find the
    largest weight, and to aggregate them with scaled weights.
    """
    try:
        return _aggregate_once(rows, aggregator)
    except InvalidInput as error:
        if error.cause is not Cause.EXTREME_WEIGHTS or not isinstance(rows, BaseRows):
            raise
    rows.find_weight_scale()
    return _aggregate_once(rows, aggregator)


def _aggregate_once(rows: Rows, aggregator: Aggregator[Result]) -> Result | None:
    partitioned = as_partitioned(rows)
    if partitioned is not None:
        return partitioned.aggregate(aggregator)
    info = rows if isinstance(rows, BaseRows) else BaseRows()
    with name_rows_in_errors(info.row_name):
        return aggregator.aggregate(cast(RowSource, rows))


class SourceAdapter(ABC):
    """Adapter for one kind of data source, such as data frames or files."""

    @abstractmethod
    def accepts(self, X: Any) -> bool:
        """Return whether this adapter accepts `X`, without importing optional packages."""

    @abstractmethod
    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> Rows:
        """Open the rows of an accepted object.

        Parameters
        ----------
        X : object
        sensitive_features : array-like, column name(s), or SingleGroup
        sample_weight : array-like, column name, or None
        on_missing : {"error", "drop", "em", "em-drop-empty"}
        """

    def map_rows(self, X: Any, row_map: "RowMap") -> Any:
        """Apply a row function where the data are stored, and return the same kind of object.

        None if `X` is in memory: the caller then applies the function to numpy arrays.
        """
        return None


class AffineMap(NamedTuple):
    """Affine function of rows: (x - shift) @ matrix + offset."""

    shift: Any
    matrix: FloatArray
    offset: Any


@dataclass(frozen=True)
class RowMap:
    """A function of each row, to be evaluated where the rows are stored.

    Attributes
    ----------
    function : callable
        Maps rows in memory to an (n, m) or (n,) array. Must be picklable.
    n_inputs : int
        Number of entries of an input row.
    input_kind : {"features", "coordinates"}
        Kind of the input rows.
    feature_names : tuple of str or None
        Names of the input features.
    output_names : tuple of m str
        Names of the output columns.
    affine : AffineMap or None
        Shift, matrix of shape (n_inputs, m) and offset, if the function is affine.
    """

    function: Callable[[Any], Any]
    n_inputs: int
    input_kind: Literal["features", "coordinates"]
    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...]
    affine: AffineMap | None = None


def rows_per_block(n_features: int) -> int:
    """Return the number of rows in one block of p features."""
    max_rows = max(_MAX_BLOCK_ENTRIES // n_features, _MIN_BLOCK_ROWS)
    return max(_BLOCK_ENTRIES // n_features, min(2 * n_features, max_rows), _MIN_BLOCK_ROWS)


def make_row_block(
    first_row: int,
    values: AnyArray,
    labels: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
    extra_columns: Any = None,
) -> RowBlock:
    """Make a block of validated rows, dropping incomplete ones as `on_missing` says.

    "drop" drops rows with a missing cell or without a group. "drop without group", "em" and
    "em-drop-empty" drop rows without a group; the latter two keep missing cells as NaN, and
    "em-drop-empty" also drops rows in which every feature is missing.

    Infinity is never treated as missing: it raises. `extra_columns` is a Table of as many rows.

    Raises
    ------
    InvalidInput, InvalidType
        Same as for :func:`to_finite_float64`; with "em" a row in which every feature is missing.
    """
    if on_missing == "error":
        values = to_finite_float64(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, extra_columns=extra_columns)
    values = to_numeric(values)
    drop_mask = _drop_mask(values, labels, on_missing)
    n_dropped = int(drop_mask.sum())
    check = to_float64_with_missing if on_missing in KEEPING_MISSING else to_finite_float64
    if not n_dropped:
        values = check(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, extra_columns=extra_columns)
    # Validate before dropping rows, so that errors name the row of the original table.
    check(np.where(drop_mask[:, None], 0, values), first_row, feature_names)
    keep_mask = ~drop_mask
    dropped_rows = None
    if labels is not None:
        dropped_rows = DroppedRows(labels[drop_mask], np.isnan(values[drop_mask]))
        labels = labels[keep_mask]
    if weights is not None:
        weights = weights[keep_mask]
    if extra_columns is not None:
        # A pyarrow Table has `take`, a narwhals DataFrame is indexed.
        take = getattr(extra_columns, "take", extra_columns.__getitem__)
        extra_columns = take(np.flatnonzero(keep_mask))
    values = check(values[keep_mask], first_row, feature_names)
    return RowBlock(first_row, values, labels, weights, n_dropped, extra_columns, dropped_rows)


def _drop_mask(values: AnyArray, labels: CodedLabels | None, on_missing: OnMissing) -> BoolArray:
    """Return the mask of the rows to drop, shape (r,)."""
    mask = np.zeros(len(values), dtype=bool) if labels is None else labels.missing_mask
    if on_missing == "drop":
        mask |= np.isnan(values).any(axis=1)
    if on_missing == "em-drop-empty":
        mask |= np.isnan(values).all(axis=1)
    return mask


# More groups than this raise an error unless allowed explicitly or known to the model.
DEFAULT_MAX_GROUPS = 100


@dataclass(frozen=True)
class GroupLimit:
    """Limit on the number of groups.

    More groups suggest an identifier or a continuous variable, and a matrix for each would be slow.

    Attributes
    ----------
    max_groups : int or None
        Maximum number of groups; `DEFAULT_MAX_GROUPS` by default.
    n_fitted_groups : int
        Number of groups of a fitted model; the default limit is at least this.
    group_columns : tuple of names
        Names of the group columns for messages; empty if unnamed.
    is_partial : bool
        Whether a pass sees only part of the rows at a time.
    has_y : bool
        Whether the last attribute of each label is the class in y; at most `DEFAULT_MAX_GROUPS`
        classes are allowed.
    max_memory : int or None
        Peak memory for the matrices in bytes; by default what the machine has.

    Raises
    ------
    InvalidType, InvalidParameter
        max_groups or max_memory is not an integer, or below 1.

    Examples
    --------
    >>> GroupLimit().allowed, GroupLimit(7).allowed, GroupLimit(n_fitted_groups=120).allowed
    (100, 7, 120)
    """

    max_groups: int | None = None
    n_fitted_groups: int = 0
    group_columns: tuple[Any, ...] = ()
    is_partial: bool = False
    has_y: bool = False
    max_memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_groups", "max_memory"):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value)

    def for_rows(self, rows: Rows) -> "GroupLimit":
        """Return the limit with the group columns and partitioning of these rows."""
        info = rows if isinstance(rows, BaseRows) else BaseRows()
        is_partitioned = info.n_partitions != 1 and as_partitioned(rows) is not None
        is_partial = self.is_partial or is_partitioned
        return replace(self, group_columns=info.group_columns, is_partial=is_partial)

    @property
    def allowed(self) -> int:
        """Maximum number of groups."""
        if self.max_groups is not None:
            return self.max_groups
        return max(DEFAULT_MAX_GROUPS, self.n_fitted_groups)

    def check(self, labels: Collection[Label], n_rows: int, *, so_far: bool = False) -> None:
        """Check that there are no more groups than allowed.

        Parameters
        ----------
        labels : collection of labels, all different
        n_rows : int
            Number of rows with these labels.
        so_far : bool
            Whether more rows may follow.

        Raises
        ------
        InvalidInput
        """
        so_far |= self.is_partial
        rows = f"{n_rows} rows so far" if so_far else f"{n_rows} rows"
        if self.has_y:
            classes = {label[-1] for label in labels if isinstance(label, tuple)}
            if len(classes) > DEFAULT_MAX_GROUPS:
                raise InvalidInput(
                    f"y has {len(classes)} classes among {rows}, which looks like an identifier or "
                    "a continuous variable",
                    f"Allowed: up to {DEFAULT_MAX_GROUPS} classes",
                    "Pass class labels, or bin continuous values",
                )
            labels = set(map(without_last_attribute, labels))
        if len(labels) > self.allowed:
            suggested = "N" if so_far else len(labels)
            raise self._too_many_groups_error(f"{len(labels)} groups among {rows}", suggested)

    def _too_many_groups_error(self, groups: str, suggested: int | str) -> InvalidInput:
        """Build the error for too many groups.

        Parameters
        ----------
        groups : str
            Number of groups and of rows, in words.
        suggested : int or str
            Limit with which the same rows would be accepted.
        """
        if not self.group_columns:
            problem = f"There are {groups}"
            appearance = "the labels look"
        elif len(self.group_columns) == 1:
            problem = f"Column {format_list(self.group_columns)} has {groups}"
            appearance = "its values look"
        else:
            problem = f"Columns {format_list(self.group_columns)} define {groups}"
            appearance = "their values look"
        if self.max_groups is not None:
            return InvalidInput(
                f"{problem}, and max_groups is {self.max_groups}",
                f"Allowed: at most {counted(self.max_groups, 'group')}",
                "Pass another column as sensitive_features",
                cause=Cause.OVER_MAX_GROUPS,
                n_groups=suggested,
            )
        return InvalidInput(
            f"{problem}, so {appearance} like an identifier or a continuous variable rather than "
            "groups",
            f"Allowed: up to {counted(self.allowed, 'group')}",
            "Pass another column as sensitive_features, or bin continuous values (pandas.cut)",
            cause=Cause.MANY_GROUPS,
            n_groups=suggested,
        )

    def check_memory(self, n_groups: int, n_features: int) -> None:
        """Check that the matrices of this many groups fit into memory; raises InvalidInput."""
        check_memory(n_groups, n_features, self.max_memory)


DEFAULT_GROUP_LIMIT = GroupLimit()
"""Default limit."""


@contextmanager
def add_error_context(location: str) -> Iterator[None]:
    """Prefix errors with the location of the rows they concern."""
    try:
        yield
    except FairspanError as error:
        if location in error.args[0]:
            raise
        raise error.located(location) from error


@contextmanager
def name_rows_in_errors(row_name: Callable[[int], str | None]) -> Iterator[None]:
    """Replace positions of rows in errors by the names that users see."""
    try:
        yield
    except FairspanError as error:
        problem, *remaining = error.args
        error.args = (with_row_names(problem, row_name), *remaining)
        raise


def merge_in_order(
    aggregator: Aggregator[Result], results: Iterable[Result | None]
) -> Result | None:
    """Merge results from left to right, so that the outcome is the same on any schedule."""
    present = (result for result in results if result is not None)
    first = next(present, None)
    return None if first is None else reduce(aggregator.merge, present, first)
