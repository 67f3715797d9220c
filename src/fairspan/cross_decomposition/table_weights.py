"""Weights that map the rows of one table to scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows, feature_values, float_dtype, open_features
from fairspan.rows.opening import map_rows
from fairspan.rows.row_adapters import AffineMap, RowMap
from fairspan.rows.row_validation import check_n_columns
from fairspan.typing import FloatArray, TableLike


def score_prefix(method: str, table: str) -> str:
    """Return the start of the names of scores; X has that of `get_feature_names_out`.

    Parameters
    ----------
    method : {"pls", "cca"}
    table : {"x", "y"}

    Examples
    --------
    >>> score_prefix("pls", "x"), score_prefix("cca", "y")
    ('fairpls', 'faircca_y')
    """
    return f"fair{method}" if table == "x" else f"fair{method}_{table}"


@dataclass(frozen=True, eq=False)
class TableWeights:
    """Weights that map the rows of one table to scores.

    Attributes
    ----------
    rotations : (p, d) array
        Scores are ((x - mean) / scale) @ rotations.
    mean : (p,) array
        Subtracted from every row.
    scale : (p,) array or None
        Divisor of every row after the mean is subtracted.
    feature_names : tuple of str or None
    prefix : str
        Start of the names of the scores, see :func:`score_prefix`.

    Examples
    --------
    >>> import numpy as np
    >>> weights = TableWeights(np.array([[0.6], [0.8]]), np.zeros(2))
    >>> weights.transform(np.array([[3.0, 4.0]]))
    array([[5.]])
    """

    rotations: FloatArray
    mean: FloatArray
    scale: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    prefix: str = "score"

    @property
    def n_features(self) -> int:
        """Number of columns of the table, p."""
        return len(self.rotations)

    @property
    def score_names(self) -> tuple[str, ...]:
        """Names of the scores: the prefix and the number of the component."""
        return tuple(f"{self.prefix}{index}" for index in range(self.rotations.shape[1]))

    @property
    def frame(self) -> ReferenceFrame:
        """Mean that is subtracted from rows, and divisor of the columns."""
        return ReferenceFrame.from_optional(self.mean, self.scale)

    @property
    def row_map(self) -> RowMap:
        """Map of rows to scores, applied where the rows are."""
        frame = self.frame
        matrix = self.rotations / np.reshape(frame.scale, (-1, 1))
        return RowMap(
            self.transform,
            self.n_features,
            "features",
            self.feature_names,
            self.score_names,
            AffineMap(shift=frame.center, matrix=matrix, offset=np.zeros(matrix.shape[1])),
        )

    def transform(self, table: TableLike) -> Any:
        """Return the scores of rows, shape (n, d).

        Columns of a frame are matched by name; others are ignored. For a distributed or device
        collection, the result is an object of the same kind.

        Raises
        ------
        InvalidInput
            A missing column, a different number of columns, text, NaN or infinity.
        """
        remote_result = map_rows(table, self.row_map)
        if remote_result is not None:
            return remote_result
        rows = open_features(table)
        return self.transform_rows(rows, float_dtype(table, self.feature_names))

    def transform_rows(self, rows: ArrayRows | FrameRows, dtype: np.dtype[Any]) -> FloatArray:
        """Return the scores of opened rows with this dtype, shape (n, d)."""
        values = feature_values(rows, self.feature_names)
        check_n_columns(values.shape[1], self.n_features, "features")
        return (self.frame.standardize(values) @ self.rotations).astype(dtype, copy=False)
