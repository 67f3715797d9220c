"""What every source of rows offers, and the checks that all of them share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.moments.groups import CodedLabels

if TYPE_CHECKING:
    from fairspan.moments.group_moments import GroupMoments
    from fairspan.moments.sparse_moments import SparseMoments

FloatArray = npt.NDArray[np.float64]

_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)

# Numbers in one block: large enough that a matrix product runs at full speed, small enough to stay
# in cache and to keep memory flat however many rows there are.
_BLOCK_NUMBERS = 2**18
_FEWEST_BLOCK_ROWS = 512

Result = TypeVar("Result")
OnMissing = Literal["error", "drop"]

_ALLOWED = "Allowed are numbers and truth values"
_ENCODE = "Leave out or encode these columns, for example with sklearn's OneHotEncoder"


@dataclass(frozen=True)
class RowBlock:
    """Some consecutive rows.

    Attributes
    ----------
    first_row : int
        Number of the first row in the whole table, counted from 0.
    values : (r, p) array
        Finite float64; may be a view of the user's data, so it must not be written to.
    labels : CodedLabels of r rows, or None
        Group of each row; None where the source has no groups.
    weights : (r,) array or None
    n_dropped : int
        Rows between them that were left out since something is missing.
    """

    first_row: int
    values: FloatArray
    labels: CodedLabels | None
    weights: FloatArray | None
    n_dropped: int = 0


@runtime_checkable
class RowSource(Protocol):
    """Rows that can be read in blocks, as often as needed."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""

    @property
    def n_features(self) -> int:
        """p, the number of features."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""

    def selected(self, names: tuple[str, ...]) -> "RowSource":
        """The same rows with these features, in this order."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""


@runtime_checkable
class OwnMoments(Protocol):
    """Rows whose source knows a better way to its moments than blocks of numbers."""

    def moments(self) -> "GroupMoments | None":
        """Moments of each group; None if there are no rows."""


@runtime_checkable
class StayingRows(Protocol):
    """Rows that can stand for their moments where matrices of p x p numbers would be too large."""

    @property
    def n_features(self) -> int:
        """p, the number of features."""

    def staying(self) -> "SparseMoments | None":
        """Moments that refer to the rows instead of matrices; None if there are no rows."""


class Fold(Protocol[Result]):
    """One pass over rows.

    A fold is a plain value that can be sent to another process. It keeps nothing between parts, so
    that a part may be read again, anywhere, without being counted twice.
    """

    def over(self, rows: RowSource) -> Result | None:
        """The result over some rows; None if there are none."""

    def merged(self, left: Result, right: Result) -> Result:
        """The result over both parts; associative up to rounding."""

    def to_bytes(self, result: Result) -> bytes:
        """A result as bytes, for engines that move bytes."""

    def from_bytes(self, contents: bytes) -> Result:
        """The result again."""


@runtime_checkable
class PartedRows(Protocol):
    """Rows that are read where they lie: in several files, processes or machines."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""

    @property
    def n_features(self) -> int:
        """p, the number of features."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""

    def selected(self, names: tuple[str, ...]) -> "PartedRows":
        """The same rows with these features, in this order."""

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all parts; None if there are no rows.

        The same parts give the same bits, however many processes read them.
        """


Rows = RowSource | PartedRows


class Projection(Protocol):
    """What an adapter needs to know of a subspace to reduce rows where they lie."""

    @property
    def components(self) -> FloatArray:
        """Rows that span the subspace, (d, p)."""

    @property
    def mean(self) -> FloatArray | None:
        """What is subtracted from each row, (p,)."""

    @property
    def scale(self) -> FloatArray | None:
        """What each row is divided by then, (p,)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the p features."""

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the d columns of reduced rows."""

    def transform(self, X: Any) -> Any:
        """Reduce an array or a data frame that is in memory."""

    def inverse_transform(self, Z: Any) -> Any:
        """Bring back an array of coordinates that is in memory."""


def check_on_missing(on_missing: object) -> None:
    """Make sure that it is one of the two.

    Raises
    ------
    InvalidParameter
    """
    if str(on_missing) not in ("error", "drop"):
        raise InvalidParameter(
            f"on_missing is {on_missing!r}",
            "Allowed are 'error' and 'drop'",
            "Use 'drop' to leave out rows in which a feature or the group is missing",
        )


def row_block(
    first_row: int,
    values: npt.NDArray[Any],
    labels: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
) -> RowBlock:
    """A block of rows that were checked, or without the rows in which something is missing.

    Infinity is not missing: it is an error in any case.

    Raises
    ------
    InvalidInput, InvalidType
        As :func:`checked_values`.
    """
    if on_missing == "error":
        return RowBlock(
            first_row, checked_values(values, first_row, feature_names), labels, weights
        )
    values = converted(values)
    missing = np.isnan(values).any(axis=1)
    if labels is not None:
        missing |= labels.missing
    n_dropped = int(missing.sum())
    if n_dropped:
        kept = ~missing
        values = values[kept]
        labels = None if labels is None else labels[kept]
        weights = None if weights is None else weights[kept]
    values = checked_values(values, first_row, feature_names)
    return RowBlock(first_row, values, labels, weights, n_dropped)


def block_rows(n_features: int) -> int:
    """Rows of one block of p features."""
    return max(_BLOCK_NUMBERS // n_features, _FEWEST_BLOCK_ROWS)


def checked_values(
    values: npt.NDArray[Any],
    first_row: int,
    feature_names: tuple[str, ...] | None,
    *,
    keep_float32: bool = False,
) -> FloatArray:
    """Convert a block to float64 and make sure that it is finite.

    Parameters
    ----------
    values : (r, p) array
    first_row : int
        Number of its first row in the table, for error messages.
    feature_names : tuple of str or None
    keep_float32 : bool
        Leave single precision as it is.

    Returns
    -------
    (r, p) array of float64, or float32 where kept
        `values` themselves where nothing had to be converted.

    Raises
    ------
    InvalidInput
        NaN or infinity, named with row and column, or text among objects.
    InvalidType
        Other objects that are no numbers.
    """
    values = converted(values)
    kept = keep_float32 and values.dtype == np.float32
    # Numbers beyond float64 become infinity, and the sum of large ones may; both are found below.
    with np.errstate(over="ignore", invalid="ignore"):
        block = values if kept else values.astype(np.float64, copy=False)
        total = block.sum()
    # One sum over a block is cheaper than testing each number, and misses nothing.
    if not np.isfinite(total) and not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0].tolist()
        name = repr(feature_names[column]) if feature_names else str(column)
        what = "NaN" if np.isnan(block[row, column]) else "infinity"
        raise InvalidInput(
            f"X contains {what}, first in row {first_row + row}, column {name}",
            "Allowed are finite numbers",
            "Fill in these cells first, for example with sklearn.impute.SimpleImputer, or leave "
            'rows with NaN out of the moments (on_missing="drop", --on-missing drop)',
        )
    return block


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Make sure that an array may hold numbers; whether objects are numbers, converting them tells.

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
            "Allowed are real numbers",
            "Pass real and imaginary parts as separate features",
        )
    if dtype.kind in "mM":
        raise InvalidType(f"X holds dates or durations ({dtype})", _ALLOWED, _ENCODE)
    if dtype.kind in "SU":  # digits as text are refused too, as they are in data frames
        raise InvalidInput(f"X holds text ({dtype})", _ALLOWED, _ENCODE)


def converted(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects as float64; numbers stay as they are.

    Raises
    ------
    InvalidInput, InvalidType
        Objects that are no numbers.
    """
    if values.dtype.kind in "fiub":
        return values
    # numpy would read digits in text, dates and the real part of complex numbers as numbers.
    for kind in set(map(type, values.ravel().tolist())):
        if issubclass(kind, _NO_NUMBERS):
            raise InvalidInput(
                f"X holds no numbers but values of type {kind.__name__}", _ALLOWED, _ENCODE
            )
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"X holds no numbers ({error})", _ALLOWED, _ENCODE) from error
    except TypeError as error:
        raise InvalidType(f"X holds no numbers ({error})", _ALLOWED, _ENCODE) from error


def check_shape(shape: tuple[int, ...]) -> None:
    """Make sure that a table has two dimensions, rows and features.

    Raises
    ------
    InvalidInput
    """
    if len(shape) != 2:
        raise InvalidInput(
            f"X has {len(shape)} dimension(s), shape {shape}",
            "Allowed is a table of shape (n rows, p features)",
            "Reshape your data, for example with X.reshape(-1, 1) for a single feature",
        )
    for size, what in zip(shape, ("row(s)", "feature(s)"), strict=True):
        if size > 0:
            continue
        raise InvalidInput(
            # scikit-learn's wording, which its estimator checks look for
            f"X is empty: {size} {what} (shape={shape}) while a minimum of 1 is required",
            "Allowed is at least one row and one feature",
            "Check the file or the filter that made this table",
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
            f"Allowed are rows of {allowed} {what}",
            "Pass the columns that it was fitted on",
        )
