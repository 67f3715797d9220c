"""The checks that all sources share: numbers, shapes, what is missing, how many groups there are.

An identifier makes no groups, and would need a matrix for each row; so the number of groups and the
memory of their matrices are limited.
"""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, nearest, warn
from fairspan.formatting.text import position
from fairspan.linalg.resources import check_memory
from fairspan.rows.groups import LEAVING_OUT, CodedLabels, listed
from fairspan.rows.protocol import KnownRows, OnMissing, PartedRows, RowBlock, Rows
from fairspan.typing import AnyArray, FloatArray

_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)

_ALLOWED = "Allowed: numbers and truth values"
# Whole numbers up to here are float64 without rounding.
_LARGEST_WHOLE = 2**53
_ENCODE = "Leave out or encode these columns, for example with sklearn's OneHotEncoder"


def check_on_missing(on_missing: object) -> None:
    """Make sure that it is one of the two.

    Raises
    ------
    InvalidParameter
    """
    if str(on_missing) not in ("error", "drop"):
        raise InvalidParameter(
            f"on_missing is {on_missing!r}",
            "Allowed: 'error' and 'drop'",
            "Use 'drop' to leave out rows in which a feature or the group is missing",
        )


def row_block(
    first_row: int,
    values: AnyArray,
    labels: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
    beside: Any = None,
) -> RowBlock:
    """Make a block of checked rows, or of those in which nothing is missing.

    Infinity is not missing: it is an error in any case. `beside` is a Table of as many rows.

    Raises
    ------
    InvalidInput, InvalidType
        As :func:`checked_values`.
    """
    if on_missing == "error":
        values = checked_values(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, beside=beside)
    values = converted(values)
    missing = np.asarray(np.isnan(values).any(axis=1))
    if labels is not None:
        missing |= labels.missing
    n_dropped = int(missing.sum())
    if n_dropped:
        kept = ~missing
        # Checked before rows are left out, so that an error names the row in the table.
        checked_values(np.where(missing[:, None], 0, values), first_row, feature_names)
        values = values[kept]
        labels = None if labels is None else labels[kept]
        weights = None if weights is None else weights[kept]
        beside = None if beside is None else beside.take(np.flatnonzero(kept))
    values = checked_values(values, first_row, feature_names)
    return RowBlock(first_row, values, labels, weights, n_dropped, beside)


def checked_values(
    values: AnyArray,
    first_row: int,
    feature_names: tuple[str, ...] | None,
) -> FloatArray:
    """Convert a block to float64 and make sure that it is finite.

    Parameters
    ----------
    values : (r, p) array
    first_row : int
        Number of its first row in the table, for error messages.
    feature_names : tuple of str or None

    Returns
    -------
    (r, p) array of float64
        `values` themselves where nothing had to be converted.

    Raises
    ------
    InvalidInput
        NaN or infinity, named with row and column, or text among objects.
    InvalidType
        Other objects that are no numbers.
    """
    values = converted(values)
    # Numbers beyond float64 become infinity, and the sum of large ones may; both are found below.
    with np.errstate(over="ignore", invalid="ignore"):
        block = values.astype(np.float64, copy=False)
        total = block.sum()
    # One sum over a block is cheaper than testing each number, and misses nothing.
    if not np.isfinite(total) and not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0].tolist()
        name = f"column {feature_names[column]!r}" if feature_names else position("column", column)
        is_nan = bool(np.isnan(block[row, column]))
        raise InvalidInput(
            f"X contains {'NaN' if is_nan else 'infinity'}, first in "
            f"{position('row', first_row + row)}, {name}",
            "Allowed: finite numbers",
            "Fill in these cells first, for example with sklearn.impute.SimpleImputer, or leave "
            f"rows with NaN out ({LEAVING_OUT})"
            if is_nan
            else "Replace infinity by a number, or leave out these rows or the column",
        )
    return block


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Make sure that an array may hold numbers; objects are converted to check this.

    Raises
    ------
    InvalidInput
        Complex numbers or text.
    InvalidType
        Dates or durations.
    """
    if dtype.kind == "c":
        raise InvalidInput(
            "X holds complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    if dtype.kind in "mM":
        raise InvalidType(f"X holds dates or durations ({dtype})", _ALLOWED, _ENCODE)
    if dtype.kind in "SU":  # digits as text are refused too, as they are in data frames
        raise InvalidInput(f"X holds text ({dtype})", _ALLOWED, _ENCODE)


def converted(values: AnyArray) -> AnyArray:
    """Objects as float64; numbers stay as they are.

    Raises
    ------
    InvalidInput, InvalidType
        Objects that are no numbers.
    """
    if values.dtype.kind in "fiub":
        return values
    # numpy would read digits in text, dates and the real part of complex numbers as numbers.
    kinds = set(map(type, values.ravel().tolist()))
    for kind in kinds:
        if issubclass(kind, _NO_NUMBERS):
            raise InvalidInput(
                f"X holds no numbers but values of type {kind.__name__}", _ALLOWED, _ENCODE
            )
    if any(kind.__name__ == "NAType" for kind in kinds):
        # pandas' NA as NaN: numpy cannot convert it.
        entries = [np.nan if type(each).__name__ == "NAType" else each for each in values.ravel()]
        values = np.array(entries, dtype=object).reshape(values.shape)
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"X holds no numbers ({error})", _ALLOWED, _ENCODE) from error
    except TypeError as error:
        raise InvalidType(f"X holds no numbers ({error})", _ALLOWED, _ENCODE) from error


def warn_of_rounding(columns: Mapping[str, AnyArray]) -> None:
    """Warn of whole numbers that double precision rounds; they are identifiers more often than not.

    Parameters
    ----------
    columns : mapping of str to array
        Columns of whole numbers by their names, also after they were rounded.
    """
    large = [
        name
        for name, values in columns.items()
        if values.dtype.itemsize == 8
        # Which pass over what is missing.
        and (
            np.fmax.reduce(values, None, initial=0) > _LARGEST_WHOLE
            or np.fmin.reduce(values, None, initial=0) < -_LARGEST_WHOLE
        )
    ]
    if large:
        warn(
            f"Whole numbers beyond 2^53 are rounded to double precision in {listed(large)}, so "
            "some that differ become the same. Leave out columns that are identifiers."
        )


def check_shape(shape: tuple[int, ...]) -> None:
    """Make sure that a table has two dimensions, rows and features.

    Raises
    ------
    InvalidInput
    """
    if len(shape) != 2:
        raise InvalidInput(
            f"X has {len(shape)} dimension(s), shape {shape}",
            "Allowed: a table of shape (n rows, p features)",
            "Reshape your data, for example with X.reshape(-1, 1) for a single feature",
        )
    for size, what in zip(shape, ("row(s)", "feature(s)"), strict=True):
        if size <= 0:
            raise InvalidInput(
                # scikit-learn's wording, which its estimator checks look for
                f"X is empty: {size} {what} (shape={shape}) while a minimum of 1 is required",
                "Allowed: at least one row and one feature",
                "Check the file or the filter that made this table",
            )


def check_columns(names: Sequence[Any], columns: Sequence[Any]) -> None:
    """Make sure that a table has columns of these names.

    Raises
    ------
    InvalidInput
    """
    missing = [name for name in names if name not in columns]
    if missing:
        close = nearest(str(missing[0]), map(str, columns))
        raise InvalidInput(
            f"The table has no column {listed(missing)}",
            f"Its columns are {listed(columns)}",
            "Correct the name" + (f"; the closest is {close!r}" if close else ""),
        )


def check_same_length(n_rows: int, n_values: int, what: str) -> None:
    """Make sure that there are as many values beside the rows as rows.

    Raises
    ------
    InvalidInput
    """
    if n_rows != n_values:
        raise InvalidInput(
            f"The lengths differ: {n_rows or 'no'} rows in X, {n_values} {what}",
            "Allowed: one value for each row",
            "Take X and the values from the same rows",
        )


def check_width(received: int, allowed: int, what: str) -> None:
    """Make sure that rows are as wide as a projection needs them.

    Raises
    ------
    InvalidInput
    """
    if received != allowed:
        raise InvalidInput(
            f"X has {received} {what}, but FairSubspace is expecting {allowed} {what} as input",
            f"Allowed: rows of {allowed} {what}",
            "Pass the columns that it was fitted on",
        )


# So many groups are never refused, however few the rows are.
MANY_GROUPS = 100
# More groups than that need at least so many rows each, on average.
FEWEST_ROWS_EACH = 3
# Numbers (1 GB) that matrices of one part of the rows may take although its groups look too many:
# the other parts may hold rows enough, where rows are sorted by group or files are small.
_ROOM_OF_A_PART = 2**27
# What a group takes beside its matrix, in numbers.
_BESIDE_THE_MATRIX = 2**10
# Numbers (128 MB) of rows that may wait until enough rows have come for their groups.
_MOST_WAITING = 2**24


@dataclass(frozen=True)
class GroupLimit:
    """How many groups some rows may have.

    Without `max_groups`, more than `MANY_GROUPS` groups that are also more than a third of the rows
    are refused. Rows count, not weights.

    Attributes
    ----------
    max_groups : int or None
        So many are allowed whatever the number of rows, and no more.
    n_known : int
        Groups that a fitted model knows: so many are groups, however few the rows are.
    columns : tuple of names
        Columns that make the groups, for messages; none where they have no names.
    in_parts : bool
        Whether these are some of the rows, and more may come.
    max_memory : int or None
        Bytes that matrices may take while they are made; None: what the machine has.

    Raises
    ------
    InvalidType, InvalidParameter
        max_groups or max_memory is no whole number, or below 1.

    Examples
    --------
    >>> limit = GroupLimit()
    >>> limit.doubts(101, 302), limit.doubts(101, 303), limit.doubts(100, 100)
    (True, False, False)
    """

    max_groups: int | None = None
    n_known: int = 0
    columns: tuple[Any, ...] = ()
    in_parts: bool = False
    max_memory: int | None = None

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {"max_groups": self.max_groups, "max_memory": self.max_memory}
        allowed = "Allowed: a whole number of at least 1, or None"
        for name, value in settings.items():
            if value is None:
                continue
            if not isinstance(value, numbers.Integral) or isinstance(value, bool):
                raise InvalidType(f"{name} is {value!r}", allowed, "Pass a whole number")
            if value < 1:
                raise InvalidParameter(f"{name} is {value!r}", allowed, "Choose a larger number")

    def over(self, rows: Rows) -> "GroupLimit":
        """The same for these rows: it knows the names of their columns, and whether they are cut.

        A pass over several parts sees only some of the rows at a time.
        """
        known = rows if isinstance(rows, KnownRows) else KnownRows()
        return replace(
            self,
            columns=known.group_columns,
            in_parts=self.in_parts or (isinstance(rows, PartedRows) and known.n_parts != 1),
        )

    def doubts(self, n_groups: int, n_rows: int) -> bool:
        """Whether these would be refused, if no more rows came."""
        if self.max_groups is not None:
            return n_groups > self.max_groups
        return n_groups > max(MANY_GROUPS, self.n_known) and FEWEST_ROWS_EACH * n_groups > n_rows

    def waits(self, n_groups: int, n_rows: int) -> bool:
        """Whether to wait for more rows before a matrix is made of each group.

        Also with few groups, as the next rows may bring many.
        """
        many = self.max_groups is None and n_groups > self.n_known
        return many and FEWEST_ROWS_EACH * n_groups > n_rows

    def check(self, n_groups: int, n_rows: int, n_features: int) -> None:
        """Make sure that rows, or a part of them, have no more groups than allowed.

        A part is refused only where more rows cannot help, or its matrices would be large.

        Raises
        ------
        InvalidInput
        """
        is_large = n_groups * (n_features**2 + _BESIDE_THE_MATRIX) > _ROOM_OF_A_PART
        is_last = self.max_groups is not None or not self.in_parts or is_large
        if is_last and self.doubts(n_groups, n_rows):
            raise self._refusal(n_groups, n_rows, so_far=self.in_parts)

    def check_memory(self, n_groups: int, n_features: int) -> None:
        """Make sure that the matrices of so many groups fit into memory; raises InvalidInput."""
        check_memory(n_groups, n_features, self.max_memory)

    def check_waiting(self, n_groups: int, n_rows: int, n_waiting: int) -> None:
        """Make sure that rows may wait for more rows of their groups.

        Parameters
        ----------
        n_groups, n_rows : int
            So far.
        n_waiting : int
            Numbers in the rows that wait.

        Raises
        ------
        InvalidInput
        """
        is_last = self.max_groups is not None or n_waiting > _MOST_WAITING
        if is_last and self.doubts(n_groups, n_rows):
            raise self._refusal(n_groups, n_rows, so_far=True)

    def _refusal(self, n_groups: int, n_rows: int, *, so_far: bool) -> InvalidInput:
        several = min(len(self.columns), 2)
        named = listed(self.columns)
        subject = ("There are", f"The column {named} has", f"The columns {named} make")[several]
        counted = f"{subject} {n_groups} groups among {n_rows} rows{' so far' if so_far else ''}"
        if self.max_groups is not None:
            return InvalidInput(
                f"{counted}, and max_groups is {self.max_groups}",
                f"Allowed: at most {self.max_groups} groups",
                "Choose a larger max_groups (--max-groups), or pass another column as "
                "sensitive_features (--group)",
            )
        looks = ("the labels look", "its values look", "their values look")[several]
        allow = "N" if so_far else n_groups
        return InvalidInput(
            f"{counted}, so {looks} like an identifier or a continuous number rather than groups",
            f"Allowed: up to {MANY_GROUPS} groups, or at most a third as many groups as rows",
            "Pass another column as sensitive_features (--group), put numbers into bins, or allow "
            f"that many groups with max_groups={allow} (--max-groups {allow})",
        )


USUAL_LIMIT = GroupLimit()
"""Where nobody has chosen another."""
