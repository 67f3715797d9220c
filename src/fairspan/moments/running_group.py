"""The running mean and scatter of one group, updated block by block about the mean so far."""

import numpy as np
from scipy.linalg import blas

from fairspan.moments.group_statistics import OneGroup
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

# Rows and columns of a tile that is mirrored at once.
_TILE = 256


class RunningGroup:
    """Moments of one group so far, with the mean kept relative to its first row.

    Subtracting that row takes a large common offset out of all sums, and makes those of a column
    that is constant in the group exactly zero.
    """

    def __init__(self, n_features: int) -> None:
        self.pilot = np.zeros(n_features)
        self.count = 0
        self.weight = 0.0
        self.mean = np.zeros(n_features)
        # Fortran order lets the BLAS update the lower triangle in place.
        self.scatter = np.zeros((n_features, n_features), order="F")

    def absorb(self, rows: FloatArray, weights: FloatArray | None) -> None:
        """Add a block of rows, which is overwritten; all weights are positive."""
        if self.count == 0:
            self.pilot = rows[0].copy()
        rows -= self.pilot
        weight = float(len(rows) if weights is None else weights.sum())
        mean = rows.mean(axis=0) if weights is None else (weights / weight) @ rows
        rows -= mean
        if weights is not None:
            rows *= np.sqrt(weights)[:, None]
        delta = mean - self.mean
        total = self.weight + weight
        # Chan's term between the two means is one more row of the same symmetric product.
        between = np.sqrt(self.weight * (weight / total)) * delta
        for part in (rows, between[None, :]):
            self.scatter = blas.dsyrk(1.0, part.T, beta=1.0, c=self.scatter, lower=1, overwrite_c=1)
        self.mean += (weight / total) * delta
        self.weight = total
        self.count += len(rows)

    def finished(self, label: Label) -> OneGroup:
        """The group's moments."""
        with np.errstate(over="ignore"):
            mean = self.pilot + self.mean
        return OneGroup(label, self.count, self.weight, mean, mirrored(self.scatter))


def mirrored(lower: FloatArray) -> FloatArray:
    """The whole matrix of a lower triangle, in place.

    Parameters
    ----------
    lower : (p, p) array
        In Fortran's order, as BLAS leaves it; what is above the diagonal is overwritten.

    Returns
    -------
    (p, p) array
        The same memory, in C's order.

    Examples
    --------
    >>> import numpy as np
    >>> mirrored(np.array([[1.0, 9.0], [2.0, 3.0]], order="F"))
    array([[1., 2.],
           [2., 3.]])
    """
    upper, p = lower.T, len(lower)
    # In tiles: a whole transposed copy jumps through memory.
    for start in range(0, p, _TILE):
        stop = min(start + _TILE, p)
        corner = np.triu(upper[start:stop, start:stop])
        upper[start:stop, start:stop] = corner + np.triu(corner, 1).T
        for below in range(stop, p, _TILE):
            tile = upper[start:stop, below : below + _TILE]
            upper[below : below + _TILE, start:stop] = tile.T
    return upper
