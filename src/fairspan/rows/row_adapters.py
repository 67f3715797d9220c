"""Adapters for kinds of data, and functions of rows that are evaluated where the data are."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fairspan.rows.aggregation import Rows
from fairspan.rows.blocks import OnMissing
from fairspan.rows.metadata import RowMetadata
from fairspan.typing import FloatArray, TableLike


class SourceAdapter(ABC):
    """Adapter for one kind of data source, such as data frames or files."""

    @abstractmethod
    def accepts(self, X: TableLike) -> bool:
        """Return whether this adapter accepts `X`, without importing optional packages."""

    @abstractmethod
    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> Rows:
        """Open the rows of an accepted object.

        Parameters
        ----------
        X : object
        metadata : RowMetadata
            Groups, classes, clusters and weights of the rows: values, or columns of `X`.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            How to treat rows in which a feature or the group is missing: raise, drop them, or
            keep missing features as NaN, for a fit by the EM algorithm ("em", "em-drop-empty").

        Returns
        -------
        RowSource or PartitionedRows
            Rows to read in blocks, or to aggregate by partition.
        """

    def map_rows(self, X: TableLike, row_map: "RowMap") -> TableLike:
        """Apply a row function where the data are stored, and return the same kind of object.

        None if `X` is in memory: the caller then applies the function to numpy arrays.
        """
        return None


class AffineMap(NamedTuple):
    """Affine function of rows: (x - shift) @ matrix + offset."""

    shift: FloatArray
    matrix: FloatArray
    offset: FloatArray


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

    function: Callable[[TableLike], FloatArray]
    n_inputs: int
    input_kind: Literal["features", "coordinates"]
    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...]
    affine: AffineMap | None = None
