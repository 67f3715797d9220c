"""What every source of rows offers, whatever holds them, and how many groups they may have.

An identifier makes no groups, and would need a matrix for each row; so the number of groups and the
memory of their matrices are limited.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from fairspan.errors import Cause, FairspanError, InvalidInput
from fairspan.formatting.text import counted, with_row_names
from fairspan.linalg.resources import check_memory
from fairspan.registry import check_integer
from fairspan.rows.groups import CodedLabels, Label, format_list, without_last_attribute
from fairspan.rows.validation import to_finite_float64, to_float64_with_missing, to_numeric
from fairspan.typing import AnyArray, BoolArray, FloatArray

# Numbers in one block: large enough that a matrix product runs at full speed, small enough to stay
# in cache and to keep memory flat however many rows there are.
_BLOCK_ENTRIES = 2**18
_MIN_BLOCK_ROWS = 512
# Updating p x p numbers takes as long as reading them, so there are about twice as many rows to an
# update where memory allows.
_MAX_BLOCK_ENTRIES = 2**22

Result = TypeVar("Result")
OnMissing = Literal["error", "drop", "drop without group", "em", "em-drop-empty"]
ON_MISSING = ("error", "drop", "em", "em-drop-empty")
# Those with which rows keep missing cells, as NaN.
KEEPING_MISSING = ("em", "em-drop-empty")


@dataclass(frozen=True)
class RowBlock:
    """A block of consecutive rows.

    Attributes
    ----------
    first_row : int
        Number of the first row in the whole table, counted from 0.
    values : (r, p) array
        Finite float64, with NaN where a cell is missing and rows are to keep such cells; may be a
        view of the user's data, so it must not be written to.
    labels : CodedLabels of r rows, or None
        Group of each row; None where the source has no groups.
    weights : (r,) array or None
    n_dropped : int
        Rows between them that were left out since something is missing.
    dropped : (CodedLabels, (n_dropped, p) array of bool) or None
        Groups of these rows, and which of their features are missing.
    extra_columns : pyarrow.Table of r rows, or None
        Other columns of a file that were requested.
    """

    first_row: int
    values: FloatArray
    group_labels: CodedLabels | None
    weights: FloatArray | None
    n_dropped: int = 0
    extra_columns: Any = None
    dropped_rows: tuple[CodedLabels, BoolArray] | None = None


class BaseRows:
    """What rows of this library know beside the members of `Features`; most know nothing of it."""

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return ()

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of columns of groups and weights, where rows are read by the names of columns."""
        return ()

    @property
    def n_partitions(self) -> int | None:
        """In how many parts they are read, if that is known."""
        return None

    @property
    def row_offset(self) -> int:
        """How many rows of the whole table come before these; 0 where that is not known."""
        return 0

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return False

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights; 0 for weights of ordinary size."""
        return 0

    def find_weight_scale(self) -> None:
        """Read all weights, to choose the unit of weights out of range."""

    def row_name(self, index: int) -> str | None:
        """Return what messages call a row, by its position; None for the position itself."""
        return None


class RowsInfo(Protocol):
    """What all rows know before any of them is read."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""

    @property
    def n_features(self) -> int:
        """p, the number of features."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""


@runtime_checkable
class RowSource(RowsInfo, Protocol):
    """Rows that can be read in blocks, as often as needed."""

    def select_features(self, names: tuple[str, ...]) -> "RowSource":
        """The same rows with these features, in this order."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""


class Aggregator(Protocol[Result]):
    """One pass over rows.

    A tally and its results are plain values that can be sent to another process. It keeps nothing
    between parts, so that a part may be read again, anywhere, without being counted twice.
    """

    def aggregate(self, rows: RowSource) -> Result | None:
        """The result over some rows; None if there are none."""

    def merge(self, left: Result, right: Result) -> Result:
        """The result over both parts; associative up to rounding."""


@runtime_checkable
class PartitionedRows(RowsInfo, Protocol):
    """Rows that are read where they lie: in several files, processes or machines."""

    def select_features(self, names: tuple[str, ...]) -> "PartitionedRows":
        """The same rows with these features, in this order."""

    def aggregate(self, tally: Aggregator[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows.

        The same parts give an identical result, however many processes read them.
        """


Rows = RowSource | PartitionedRows


def parted_rows(rows: Rows) -> PartitionedRows | None:
    """Return rows that are read where they lie, and None in place of others."""
    # Faster than `isinstance`, which looks for every member of the protocol.
    return cast(PartitionedRows, rows) if hasattr(rows, "aggregate") else None


@dataclass(frozen=True)
class MappedAggregator(Aggregator[Result]):
    """A pass over what is made of rows, wherever they are.

    Attributes
    ----------
    tally : Tally
    change : callable
        Makes other rows of some rows.
    """

    aggregator: Aggregator[Result]
    transform: Callable[[RowSource], RowSource]

    def aggregate(self, rows: RowSource) -> Result | None:
        """The result over what is made of some rows."""
        return self.aggregator.aggregate(self.transform(rows))

    def merge(self, left: Result, right: Result) -> Result:
        """The result over both parts."""
        return self.aggregator.merge(left, right)


def aggregate(rows: Rows, aggregator: Aggregator[Result]) -> Result | None:
    """Pass over all rows, wherever they are; None if there are none.

    Where weights turn out to be so large or small that they have to be scaled, the rows are read
    two times more: to find the largest weight, and for the tally.
    """
    try:
        return _tallied(rows, aggregator)
    except InvalidInput as error:
        if error.cause is not Cause.EXTREME_WEIGHTS or not isinstance(rows, BaseRows):
            raise
    rows.find_weight_scale()
    return _tallied(rows, aggregator)


def _tallied(rows: Rows, tally: Aggregator[Result]) -> Result | None:
    parted = parted_rows(rows)
    if parted is not None:
        return parted.aggregate(tally)
    with rows_named(rows.row_name if isinstance(rows, BaseRows) else BaseRows().row_name):
        return tally.aggregate(cast(RowSource, rows))


class SourceAdapter(ABC):
    """A kind of data that rows are read from, such as data frames or files.

    What is computed where the rows are stored is None where that is here, in memory: rows are then
    computed as numpy arrays.
    """

    @abstractmethod
    def accepts(self, X: Any) -> bool:
        """Whether an object is of this kind; imports nothing that the object's package does not."""

    @abstractmethod
    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> Rows:
        """The rows of an object that it takes.

        Parameters
        ----------
        X : object
        sensitive_features : array-like, name(s) of columns, or Everyone
        sample_weight : array-like, name of a column, or None
        on_missing : {"error", "drop", "em", "em-drop-empty"}
        """

    def map_rows(self, X: Any, row_map: "RowMap") -> Any:
        """What a function makes of the rows, as the same kind of object."""
        return None


@dataclass(frozen=True)
class RowMap:
    """A function of each row, to be computed where the rows are stored.

    Attributes
    ----------
    function : callable
        Of rows in memory: (n, m) numbers, or (n,). It can be sent to another process.
    width : int
        How many numbers a row has.
    what : {"features", "coordinates"}
        What these are.
    feature_names : tuple of str or None
        Their names.
    columns : tuple of m str
        Names of what it gives.
    affine : tuple of three arrays, or None
        Subtracted before, the (width, m) matrix of the product, and added after it: the function
        where it is linear.
    """

    function: Callable[[Any], Any]
    n_inputs: int
    input_kind: Literal["features", "coordinates"]
    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...]
    affine: tuple[Any, FloatArray, Any] | None = None


def rows_per_block(n_features: int) -> int:
    """Return the number of rows in one block of p features."""
    most = max(_MAX_BLOCK_ENTRIES // n_features, _MIN_BLOCK_ROWS)
    return max(_BLOCK_ENTRIES // n_features, min(2 * n_features, most), _MIN_BLOCK_ROWS)


def make_row_block(
    first_row: int,
    values: AnyArray,
    labels: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
    extra_columns: Any = None,
) -> RowBlock:
    """Make a block of checked rows, or of those in which nothing is missing.

    With "drop without group" only rows without a group are left out. So they are with "em" and
    "em-drop-empty", which keep missing cells, as NaN; the latter also leaves out rows in which
    every feature is missing.

    Infinity is not missing: it is an error in any case. `extra_columns` is a Table of as many rows.

    Raises
    ------
    InvalidInput, InvalidType
        As :func:`to_finite_float64`; with "em" a row in which every feature is missing.
    """
    if on_missing == "error":
        values = to_finite_float64(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, extra_columns=extra_columns)
    values = to_numeric(values)
    left_out = np.zeros(len(values), dtype=bool) if labels is None else labels.missing_mask
    if on_missing == "drop":
        left_out |= np.isnan(values).any(axis=1)
    if on_missing == "em-drop-empty":
        left_out |= np.isnan(values).all(axis=1)
    n_dropped, dropped = int(left_out.sum()), None
    check = to_float64_with_missing if on_missing in KEEPING_MISSING else to_finite_float64
    if n_dropped:
        kept = ~left_out
        # Checked before rows are left out, so that an error names the row in the table.
        check(np.where(left_out[:, None], 0, values), first_row, feature_names)
        if labels is not None:
            labels, dropped = labels[kept], (labels[left_out], np.isnan(values[left_out]))
        values = values[kept]
        weights = None if weights is None else weights[kept]
        places = np.flatnonzero(kept)
        if extra_columns is not None:  # a pyarrow Table, or a narwhals DataFrame
            take = getattr(extra_columns, "take", extra_columns.__getitem__)
            extra_columns = take(places)
    values = check(values, first_row, feature_names)
    return RowBlock(first_row, values, labels, weights, n_dropped, extra_columns, dropped)


# More groups than that are refused unless somebody allows them, or a model knows them.
DEFAULT_MAX_GROUPS = 100


@dataclass(frozen=True)
class GroupLimit:
    """How many groups some rows may have.

    More look like an identifier or a continuous number, and matrices of all of them would take
    long.

    Attributes
    ----------
    max_groups : int or None
        So many are allowed, and no more; by default `MANY_GROUPS`.
    n_known : int
        Groups that a fitted model knows: by default so many are allowed.
    columns : tuple of names
        Columns that make the groups, for messages; none where they have no names.
    in_parts : bool
        Whether a pass sees only some of the rows at a time.
    has_classes : bool
        Whether the last attribute of each label is the class in y; of classes `MANY_GROUPS` are
        allowed.
    max_memory : int or None
        Bytes that matrices may take while they are made; None: what the machine has.

    Raises
    ------
    InvalidType, InvalidParameter
        max_groups or max_memory is no whole number, or below 1.

    Examples
    --------
    >>> GroupLimit().most, GroupLimit(7).most, GroupLimit(n_known=120).most
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
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))

    def for_rows(self, rows: Rows) -> "GroupLimit":
        """The same for these rows: it knows their columns, and whether they come in parts."""
        known = rows if isinstance(rows, BaseRows) else BaseRows()
        is_cut = known.n_partitions != 1 and parted_rows(rows) is not None
        return replace(
            self, group_columns=known.group_columns, is_partial=self.is_partial or is_cut
        )

    @property
    def allowed(self) -> int:
        """How many groups are allowed."""
        return self.max_groups or max(DEFAULT_MAX_GROUPS, self.n_fitted_groups)

    def check(self, labels: Collection[Label], n_rows: int, *, so_far: bool = False) -> None:
        """Make sure that there are no more groups than allowed.

        Parameters
        ----------
        labels : collection of labels, all different
        n_rows : int
            Rows that have them.
        so_far : bool
            Whether more rows may come.

        Raises
        ------
        InvalidInput
        """
        classes: set[Any] = set()
        so_far |= self.is_partial
        if self.has_y:
            classes = {label[-1] for label in labels if isinstance(label, tuple)}
            labels = set(map(without_last_attribute, labels))
        among = f"among {n_rows} rows{' so far' if so_far else ''}"
        if len(classes) > DEFAULT_MAX_GROUPS:
            raise InvalidInput(
                f"There are {len(classes)} classes of y {among}, so y looks like an identifier or "
                "a continuous number rather than classes",
                f"Allowed: up to {DEFAULT_MAX_GROUPS} classes",
                "Pass classes, or put numbers into bins",
            )
        if len(labels) <= self.allowed:
            return
        several = min(len(self.group_columns), 2)
        named = format_list(self.group_columns)
        subject = ("There are", f"The column {named} has", f"The columns {named} make")[several]
        found = f"{subject} {len(labels)} groups {among}"
        allow = "N" if so_far else len(labels)
        if self.max_groups is not None:
            raise InvalidInput(
                f"{found}, and max_groups is {self.max_groups}",
                f"Allowed: at most {counted(self.max_groups, 'group')}",
                "Pass another column as sensitive_features",
                cause=Cause.OVER_MAX_GROUPS,
                n_groups=allow,
            )
        looks = ("the labels look", "its values look", "their values look")[several]
        raise InvalidInput(
            f"{found}, so {looks} like an identifier or a continuous number rather than groups",
            f"Allowed: up to {counted(self.allowed, 'group')}",
            "Pass another column as sensitive_features, or put numbers into bins (pandas.cut)",
            cause=Cause.MANY_GROUPS,
            n_groups=allow,
        )

    def check_memory(self, n_groups: int, n_features: int) -> None:
        """Make sure that the matrices of so many groups fit into memory; raises InvalidInput."""
        check_memory(n_groups, n_features, self.max_memory)


DEFAULT_GROUP_LIMIT = GroupLimit()
"""Where nobody has chosen another."""


@contextmanager
def add_error_context(where: str) -> Iterator[None]:
    """Say in errors where the rows are that they are about."""
    try:
        yield
    except FairspanError as error:
        if where in error.args[0]:
            raise
        raise error.located(where) from error


@contextmanager
def rows_named(name_of: Callable[[int], str | None]) -> Iterator[None]:
    """Name rows in errors by what users see of them in place of their positions."""
    try:
        yield
    except FairspanError as error:
        received, *rest = error.args
        error.args = (with_row_names(received, name_of), *rest)
        raise


def merge_in_order(tally: Aggregator[Result], results: Iterable[Result | None]) -> Result | None:
    """Merge results from left to right, which is the same however they were computed."""
    present = (result for result in results if result is not None)
    first = next(present, None)
    return None if first is None else reduce(tally.merge, present, first)
