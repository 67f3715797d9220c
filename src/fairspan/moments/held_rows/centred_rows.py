"""Rows that stay where they are, centred and scaled some columns at a time, and never copied whole.

All products with the rows go through such blocks: a block is centred before it is multiplied, so
that a large offset common to a column costs no digits, whatever the precision of the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from fairspan.typing import FloatArray

# Numbers of one block of columns, and its fewest columns: it stays in cache, and a symmetric
# product of it runs at full speed.
_BLOCK_NUMBERS = 2**18
_FEWEST_COLUMNS = 256


@dataclass(frozen=True, eq=False)
class CentredRows:
    """The rows b = (x - center) / scale.

    Attributes
    ----------
    values : (n, p) array of real numbers
        The rows x as they were given; not to be changed.
    center : (p,) array
    scale : (p,) array or None
    present : (m,) array of int or None
        Rows that count; None for all.
    """

    values: npt.NDArray[Any]
    center: FloatArray
    scale: FloatArray | None = None
    present: npt.NDArray[np.intp] | None = None

    @property
    def n_rows(self) -> int:
        """How many rows count."""
        return int(self.values.shape[0]) if self.present is None else len(self.present)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.values.shape[1])

    @property
    def distance(self) -> float:
        """Length of center / scale: what the rows lost in digits before they were centred."""
        return float(
            np.linalg.norm(self.center if self.scale is None else self.center / self.scale)
        )

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """All columns in consecutive blocks (m, c), with where they stand; may be written to."""
        width = max(_BLOCK_NUMBERS // max(self.n_rows, 1), _FEWEST_COLUMNS)
        for start in range(0, self.n_features, width):
            own = slice(start, min(start + width, self.n_features))
            columns = self.values[:, own]
            columns = columns if self.present is None else columns[self.present]
            block = np.subtract(columns, self.center[own], dtype=np.float64, order="C")
            if self.scale is not None:
                block /= self.scale[own]
            yield own, block

    def gram(self) -> FloatArray:
        """BB', of which only the lower triangle is filled, (m, m) in Fortran order."""
        gram = np.zeros((self.n_rows, self.n_rows), order="F")
        for _, block in self.blocks():
            gram = blas.dsyrk(1.0, block.T, trans=1, lower=1, beta=1.0, c=gram, overwrite_c=1)
        return gram

    def times(self, columns: FloatArray) -> FloatArray:
        """BU of (p, m) columns U."""
        product = np.zeros((self.n_rows, columns.shape[1]))
        for own, block in self.blocks():
            product += block @ columns[own]
        return product

    def transposed_times(self, columns: FloatArray) -> FloatArray:
        """B'Y of (n, m) columns Y, shape (p, m)."""
        product = np.empty((self.n_features, columns.shape[1]))
        for own, block in self.blocks():
            product[own] = block.T @ columns
        return product
