"""Linear decoder with any encoder, as a model that can be audited."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class LinearDecoder:
    """Model that encodes rows by any function, and decodes them linearly.

    Such as an autoencoder with a linear decoder, or a dictionary with sparse codes.

    Attributes
    ----------
    encode : callable
        Maps (n, p) rows to (n, d) codes.
    matrix : (d, p) array
        Rows that the codes weigh: the transposed decoder, or the `components_` of a model of
        scikit-learn.
    offset : (p,) array or None
        Added to every decoded row; None for zero.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.extending import LinearDecoder
    >>> positive = LinearDecoder(lambda rows: np.maximum(rows[:, :1], 0), np.array([[1.0, 0.0]]))
    >>> positive.inverse_transform(positive.transform(np.array([[2.0, 1.0], [-2.0, 1.0]])))
    array([[2., 0.],
           [0., 0.]])
    """

    encode: Callable[[FloatArray], FloatArray]
    matrix: FloatArray
    offset: FloatArray | None = None

    @property
    def n_features_in_(self) -> int:
        """Number of features, p."""
        return int(np.shape(self.matrix)[1])

    def transform(self, X: FloatArray) -> FloatArray:
        """Return the codes of (n, p) rows, shape (n, d)."""
        return np.asarray(self.encode(X), dtype=np.float64)

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Return the rows of (n, d) codes, shape (n, p)."""
        decoded = np.asarray(Z) @ np.asarray(self.matrix, dtype=np.float64)
        return decoded if self.offset is None else decoded + self.offset
