"""Projections of rows.

A row x is encoded as E x and reconstructed as D E x. For an orthogonal projection D = E'; for an
oblique one D has orthonormal columns U and E differs from U'. By Pythagoras, the squared
reconstruction error is ||x - UU'x||^2 + ||(U' - E) x||^2: the residual of the subspace plus the
displacement of the coordinates.

A soft projection (Samadi et al. 2018, Algorithm 1, step 5) has components of length below one. The
relaxation is solved by P = sum_j lb_j u_j u_j' with 0 <= lb_j <= 1 and sum_j lb_j = d. P is not a
projection, but P* = sum_j lambda_j u_j u_j', lambda_j = 1 - sqrt(1 - lb_j), attains exactly the
errors of P: tr((I - P*) S (I - P*)) = tr S - <S, P>.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import CANCELLATION_RATIO, SINGLE_PRECISION_TOL, SUM_ROUNDING
from fairspan.typing import FloatArray

# Tolerance of the dimension of a soft projection, which must be an integer.
_DIMENSION_TOL = 1e-5
# Squared coordinates computed at a time, to bound temporary memory (8 MB).
_CHUNK_ENTRIES = 2**20


def encoder_columns(basis: FloatArray) -> FloatArray:
    """Return encoder columns sqrt(lambda_j) u_j for basis columns sqrt(share_j) u_j.

    Of the variance along the unit vector u_j, a soft projection captures share_j; it multiplies
    coordinates by lambda_j = 1 - sqrt(1 - share_j). Both are one for other projections.

    Parameters
    ----------
    basis : (p, r) array
        Orthogonal columns of positive length, at most one; unit columns are unchanged.

    Returns
    -------
    (p, r) array

    Examples
    --------
    >>> encoder_columns(np.array([[1.0, 0.0], [0.0, np.sqrt(0.75)]])) ** 2
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    retained = np.minimum(np.einsum("ij,ij->j", basis, basis), 1.0)
    is_soft_column = retained < 1 - SUM_ROUNDING
    soft = retained[is_soft_column]
    factors = np.ones_like(retained)
    factors[is_soft_column] = np.sqrt((1 - np.sqrt(1 - soft)) / soft)
    return np.asarray(basis * factors)


def captured_basis(encoder: FloatArray) -> FloatArray:
    """Return basis columns sqrt(lb_j) u_j from encoder rows sqrt(lambda_j) u_j.

    This is the inverse of :func:`encoder_columns`. Of the variance along the unit vector u_j, a
    soft projection captures the share lb_j; it multiplies coordinates by
    lambda_j = 1 - sqrt(1 - lb_j). Both are one for other projections.

    Parameters
    ----------
    encoder : (r, p) array
        Orthogonal rows of length at most one.

    Returns
    -------
    (p, r) array
        B; of rows with second moments S, the projection captures the variance tr(B'SB).

    Examples
    --------
    >>> captured_basis(np.array([[1.0, 0.0], [0.0, np.sqrt(0.5)]])) ** 2
    array([[1.  , 0.  ],
           [0.  , 0.75]])
    """
    weights = np.minimum(np.einsum("ij,ij->i", encoder, encoder), 1.0)
    # lb = 1 - (1 - lambda)^2 = lambda (2 - lambda)
    return np.asarray((encoder * np.sqrt(2 - weights)[:, None]).T)


def is_soft(components: FloatArray) -> bool:
    """Return whether some of (r, p) orthogonal rows are shorter than one."""
    return bool((np.einsum("ij,ij->i", components, components) < 1 - SINGLE_PRECISION_TOL).any())


def soft_dimension(components: FloatArray) -> float:
    """Dimension sum_j lb_j of (r, p) rows sqrt(lambda_j) u_j, lb_j = lambda_j (2 - lambda_j)."""
    weights = np.einsum("ij,ij->i", components, components)
    return float((weights * (2 - weights)).sum())


def check_components(components: FloatArray, *, may_be_soft: bool = True) -> None:
    """Check that (r, p) components are orthonormal, or form a soft projection.

    The components of a soft projection are orthogonal rows of length at most one. The sum of the
    shares of variance that they capture, each along its own direction, is an integer
    (:func:`soft_dimension`).

    Raises
    ------
    InvalidInput
    """
    if components.ndim != 2 or not 1 <= len(components) <= components.shape[1]:
        raise InvalidInput(
            f"The components have shape {components.shape}",
            "Allowed: (d, p) with 1 <= d <= p",
            "Pass one row per component",
        )
    gram = components @ components.T
    squared_lengths = np.diag(gram)
    is_soft_projection = False
    if may_be_soft and (squared_lengths <= 1 + SINGLE_PRECISION_TOL).all():
        dimension = soft_dimension(components)
        # It must be an integer of at least one.
        is_soft_projection = abs(dimension - max(round(dimension), 1)) <= _DIMENSION_TOL
    expected = np.diag(squared_lengths) if is_soft_projection else np.eye(len(gram))
    if not np.allclose(gram, expected, atol=SINGLE_PRECISION_TOL):
        raise InvalidInput(
            "The components are not orthonormal",
            "Allowed: orthonormal rows",
            "Orthonormalize them, for example with numpy.linalg.qr(components.T)[0].T",
        )


@dataclass(frozen=True, eq=False)
class Projector:
    """Encoder and decoder of a projection.

    Attributes
    ----------
    encoder : (r, p) array
        E: orthonormal rows, or those of a soft projection; arbitrary with an oblique decoder.
    oblique_decoder : (p, r) array or None
        D of an oblique projection: orthonormal columns with E D = I.

    Examples
    --------
    >>> oblique = Projector(np.array([[1.0, -1.0]]), np.array([[1.0], [0.0]]))
    >>> oblique.residuals(np.array([[3.0, 1.0]]))
    array([[1., 1.]])
    >>> oblique.squared_residuals(np.array([[3.0, 1.0]]))
    array([2.])
    """

    encoder: FloatArray
    oblique_decoder: FloatArray | None = None

    @property
    def decoder(self) -> FloatArray:
        """Decoder D, shape (p, r)."""
        return self.encoder.T if self.oblique_decoder is None else self.oblique_decoder

    @property
    def basis(self) -> FloatArray:
        """Basis B, shape (p, r); the captured variance of S is tr(B'SB)."""
        if self.oblique_decoder is not None:
            return self.oblique_decoder
        return captured_basis(self.encoder) if is_soft(self.encoder) else self.encoder.T

    @property
    def oblique_part(self) -> FloatArray:
        """E' - U, shape (p, r); empty, (p, 0), for an orthogonal projection."""
        encoder = self.encoder.T
        return encoder[:, :0] if self.oblique_decoder is None else encoder - self.oblique_decoder

    @property
    def stacked_columns(self) -> FloatArray:
        """Columns that transform with the coordinates: E', followed by D if it is oblique."""
        if self.oblique_decoder is None:
            return self.encoder.T
        return np.hstack([self.encoder.T, self.oblique_decoder])

    def with_stacked_columns(self, columns: FloatArray) -> "Projector":
        """Return the projector with these columns, in other coordinates."""
        if self.oblique_decoder is None:
            return Projector(columns.T)
        encoder, decoder = np.hsplit(columns, 2)
        return Projector(encoder.T, decoder)

    def check(self) -> None:
        """Check that this is an orthogonal, soft or oblique projection.

        The encoder of an oblique projection is not the transpose of its decoder; the decoder has
        orthonormal columns, and the encoder is its left inverse.

        Raises
        ------
        InvalidInput
            Components are not orthonormal, or encoder and decoder are inconsistent.
        """
        check_components(self.encoder if self.oblique_decoder is None else self.oblique_decoder.T)
        if self.encoder.shape != self.decoder.T.shape or not np.isfinite(self.encoder).all():
            raise InvalidInput(
                f"The encoder has shape {self.encoder.shape}, the decoder {self.decoder.shape}",
                "Allowed: (d, p) and (p, d) finite numbers",
                "Use the encoder and decoder of one fit",
            )
        if self.oblique_decoder is None:
            # The decoder is the transpose of the encoder, whose rows were checked above.
            return
        product = self.encoder @ self.oblique_decoder
        if not np.allclose(product, np.eye(len(product)), atol=SINGLE_PRECISION_TOL):
            raise InvalidInput(
                "The encoder is not a left inverse of the decoder",
                "Allowed: an encoder and a decoder whose product is the identity",
                "Use the encoder and decoder of one fit",
            )

    @cached_property
    def is_orthonormal(self) -> bool:
        """Whether E has orthonormal rows up to rounding.

        Then |x - E'E x|^2 = |x|^2 - |E x|^2.
        """
        if self.oblique_decoder is not None:
            return False
        gram = self.encoder @ self.encoder.T
        return bool((np.abs(gram - np.eye(len(gram))) <= SUM_ROUNDING).all())

    def residuals(self, rows: FloatArray) -> FloatArray:
        """Residuals x - D E x of centered rows, shape (n, p).

        Exactly zero with as many components as features.
        """
        n_components, n_features = self.encoder.shape
        # A soft projection leaves a residual even with p components.
        if n_components == n_features and not is_soft(self.encoder):
            return np.zeros_like(rows)
        return np.asarray(rows - (rows @ self.encoder.T) @ self.decoder.T)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each centered row to its reconstruction, shape (n,)."""
        residuals = self.residuals(rows)
        return np.asarray(np.einsum("ij,ij->i", residuals, residuals))


class Reconstructor(Protocol):
    """Anything that reconstructs rows: a projector or another model."""

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each centered row to its reconstruction, shape (n,)."""


def squared_residuals(rows: FloatArray, models: Sequence[Reconstructor]) -> FloatArray:
    """Squared distance of each centered row to its reconstruction by each of m models, (m, n).

    Orthonormal models share one matrix product, unless cancellation would lose most digits.

    Examples
    --------
    >>> first, both = Projector(np.eye(2)[:1]), Projector(np.eye(2))
    >>> squared_residuals(np.array([[3.0, 1.0]]), [first, both])
    array([[1.],
           [0.]])
    """
    distances = np.empty((len(models), len(rows)))
    is_separate = np.ones(len(models), dtype=bool)
    orthonormal = [i for i, model in enumerate(models) if getattr(model, "is_orthonormal", False)]
    if orthonormal:
        encoders = [cast(Projector, models[i]).encoder for i in orthonormal]
        total = np.einsum("ij,ij->i", rows, rows)
        distances[orthonormal] = _orthonormal_distances(rows, total, encoders)
        cancels = distances[orthonormal] < CANCELLATION_RATIO * total
        is_separate[orthonormal] = cancels.any(axis=1)
    for i in np.flatnonzero(is_separate).tolist():
        distances[i] = models[i].squared_residuals(rows)
    return distances


def _orthonormal_distances(
    rows: FloatArray, total: FloatArray, encoders: Sequence[FloatArray]
) -> FloatArray:
    """Return |x|^2 - |E x|^2 of each row x, with |x|^2 in `total`, by each encoder, (m, n)."""
    columns = np.vstack(encoders).T
    starts = np.cumsum([0, *map(len, encoders[:-1])])
    n_rows = max(_CHUNK_ENTRIES // columns.shape[1], 1)
    distances = np.empty((len(encoders), len(rows)))
    for start in range(0, len(rows), n_rows):
        chunk = slice(start, start + n_rows)
        captured = np.add.reduceat((rows[chunk] @ columns) ** 2, starts, axis=1)
        distances[:, chunk] = total[chunk] - captured.T
    return distances
