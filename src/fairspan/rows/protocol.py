"""What every source of rows offers, whatever holds them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from fairspan.rows.groups import CodedLabels
from fairspan.typing import FloatArray

# Numbers in one block: large enough that a matrix product runs at full speed, small enough to stay
# in cache and to keep memory flat however many rows there are.
_BLOCK_NUMBERS = 2**18
_FEWEST_BLOCK_ROWS = 512
# Updating p x p numbers takes as long as reading them, so there are about twice as many rows to an
# update where memory allows.
_MOST_BLOCK_NUMBERS = 2**22

Result = TypeVar("Result")
OnMissing = Literal["error", "drop"]


@dataclass(frozen=True)
class RowBlock:
    """A block of consecutive rows.

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
    beside : pyarrow.Table of r rows, or None
        Other columns of a file that were requested.
    """

    first_row: int
    values: FloatArray
    labels: CodedLabels | None
    weights: FloatArray | None
    n_dropped: int = 0
    beside: Any = None


class KnownRows:
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
    def n_parts(self) -> int | None:
        """In how many parts they are read, if that is known."""
        return None

    @property
    def first_position(self) -> int:
        """How many rows of the whole table come before these; 0 where that is not known."""
        return 0


class Features(Protocol):
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
class RowSource(Features, Protocol):
    """Rows that can be read in blocks, as often as needed."""

    def selected(self, names: tuple[str, ...]) -> "RowSource":
        """The same rows with these features, in this order."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""


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
        """A result as bytes, as Spark moves it."""

    def from_bytes(self, contents: bytes) -> Result:
        """The result again."""


@runtime_checkable
class PartedRows(Features, Protocol):
    """Rows that are read where they lie: in several files, processes or machines."""

    def selected(self, names: tuple[str, ...]) -> "PartedRows":
        """The same rows with these features, in this order."""

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all parts; None if there are no rows.

        The same parts give an identical result, however many processes read them.
        """


Rows = RowSource | PartedRows


def folded(rows: Rows, fold: Fold[Result]) -> Result | None:
    """Pass over all rows, wherever they are; None if there are none."""
    return rows.folded(fold) if isinstance(rows, PartedRows) else fold.over(rows)


class RowOpener(ABC):
    """A kind of data that rows are read from, such as data frames or files.

    The methods that compute where the rows are stored return None where that is here, in memory:
    rows are then computed as numpy arrays.
    """

    @abstractmethod
    def takes(self, X: Any) -> bool:
        """Whether an object is of this kind; imports nothing that the object's package does not."""

    @abstractmethod
    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> Rows:
        """The rows of an object that it takes.

        Parameters
        ----------
        X : object
        sensitive_features : array-like, name(s) of columns, or Everyone
        sample_weight : array-like, name of a column, or None
        on_missing : {"error", "drop"}
        """

    def transformed(self, X: Any, projection: "Projection") -> Any:
        """Reduced rows, as the same kind of object."""
        return None

    def restored(self, Z: Any, projection: "Projection") -> Any:
        """Rows from their coordinates."""
        return None

    def scored(self, X: Any, score: Callable[[Any], FloatArray]) -> Any:
        """A number for each row."""
        return None


class Projection(Protocol):
    """What a kind of data needs to know of a subspace to reduce rows where they lie."""

    @property
    def encoder(self) -> FloatArray:
        """Rows that make the coordinates of centred and scaled rows, (d, p)."""

    @property
    def decoder(self) -> FloatArray:
        """Columns that bring rows back from their coordinates, (p, d)."""

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


def block_rows(n_features: int) -> int:
    """Return the number of rows in one block of p features."""
    most = max(_MOST_BLOCK_NUMBERS // n_features, _FEWEST_BLOCK_ROWS)
    return max(_BLOCK_NUMBERS // n_features, min(2 * n_features, most), _FEWEST_BLOCK_ROWS)
