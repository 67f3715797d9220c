"""Symmetric matrices of which only one triangle was computed."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_TILE = 256


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
