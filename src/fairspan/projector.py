"""What a model makes of centred rows: coordinates, and rows that are brought back from these.

A row x has the coordinates E x and is brought back as D E x. Of an orthogonal projection D is E'.
Of an oblique one D has orthonormal columns U and E is another matrix. By Pythagoras a row is then
||x - UU'x||^2 + ||(U' - E) x||^2 away from what it is brought back as: what the subspace loses
of it, and what its coordinates are moved by.

A soft projection (Samadi et al. 2018, step 5 of Algorithm 1) has rows that are not all of length
one. The relaxed problem is solved by P = sum_j lb_j u_j u_j' with 0 <= lb_j <= 1 and sum_j lb_j =
d. It is no projection, but P* = sum_j lambda_j u_j u_j', lambda_j = 1 - sqrt(1 - lb_j),
reconstructs rows with exactly the errors that P promises: tr((I - P*) S (I - P*)) = tr S - <S, P>.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.typing import FloatArray

# Of products of rows: lengths and angles that differ by less are equal.
_ORTHONORMAL = 1e-6
# The weights of a soft projection add up to a whole number within this.
_WHOLE = 1e-5
# Products of an oblique encoder and its decoder are one or zero up to this.
_INVERSE = 1e-6


def softened(basis: FloatArray) -> FloatArray:
    """Columns sqrt(lambda_j) u_j of the embedding from columns sqrt(lb_j) u_j.

    Parameters
    ----------
    basis : (p, r) array
        Orthogonal columns no longer than one. Those of length one stay as they are.

    Returns
    -------
    (p, r) array

    Examples
    --------
    >>> softened(np.array([[1.0, 0.0], [0.0, np.sqrt(0.75)]])) ** 2
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    kept = np.minimum(np.einsum("ij,ij->j", basis, basis), 1.0)
    soft = kept < 1 - 1e-12
    factors = np.ones_like(kept)
    factors[soft] = np.sqrt((1 - np.sqrt(1 - kept[soft])) / kept[soft])
    return np.asarray(basis * factors)


def retained(components: FloatArray) -> FloatArray:
    """Columns sqrt(lb_j) u_j from rows sqrt(lambda_j) u_j: the inverse of :func:`softened`.

    Parameters
    ----------
    components : (r, p) array
        Orthogonal rows no longer than one.

    Returns
    -------
    (p, r) array
        B, with captured variances tr(B'SB).

    Examples
    --------
    >>> retained(np.array([[1.0, 0.0], [0.0, np.sqrt(0.5)]])) ** 2
    array([[1.  , 0.  ],
           [0.  , 0.75]])
    """
    weights = np.minimum(np.einsum("ij,ij->i", components, components), 1.0)
    # lb = 1 - (1 - lambda)^2 = lambda (2 - lambda)
    return np.asarray((components * np.sqrt(2 - weights)[:, None]).T)


def is_soft(components: FloatArray) -> bool:
    """Whether (r, p) orthogonal rows are not all of length one."""
    return bool((np.einsum("ij,ij->i", components, components) < 1 - _ORTHONORMAL).any())


def soft_dimension(components: FloatArray) -> float:
    """d = sum_j lb_j of (r, p) rows sqrt(lambda_j) u_j, lb_j = lambda_j (2 - lambda_j)."""
    weights = np.einsum("ij,ij->i", components, components)
    return float((weights * (2 - weights)).sum())


def check_components(components: FloatArray, *, may_be_soft: bool = True) -> None:
    """Make sure that (r, p) components are orthonormal rows, or those of a soft projection.

    The rows of a soft one are orthogonal, no longer than one, and keep a whole number of
    dimensions.

    Raises
    ------
    InvalidInput
    """
    if components.ndim != 2 or not 1 <= len(components) <= components.shape[1]:
        raise InvalidInput(
            f"The components have shape {components.shape}",
            "Allowed: (d, p) with 1 <= d <= p",
            "Pass one row for each component",
        )
    gram = components @ components.T
    weights = np.diag(gram)
    is_soft_projection = (
        may_be_soft
        and (weights <= 1 + _ORTHONORMAL).all()
        and abs((kept := soft_dimension(components)) - max(round(kept), 1)) <= _WHOLE
    )
    expected = np.diag(weights) if is_soft_projection else np.eye(len(gram))
    if not np.allclose(gram, expected, atol=_ORTHONORMAL):
        raise InvalidInput(
            "The components are not orthonormal",
            "Allowed: rows of length one at right angles",
            "Orthonormalise them, for example with numpy.linalg.qr(components.T)[0].T",
        )


@dataclass(frozen=True, eq=False)
class Projector:
    """Rows to their coordinates and back.

    Attributes
    ----------
    encoder : (r, p) array
        E: orthonormal rows, or those of a soft projection; any rows beside a decoder.
    oblique_decoder : (p, r) array or None
        D of an oblique projection, orthonormal columns with E D = I.

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
        """D, shape (p, r)."""
        return self.encoder.T if self.oblique_decoder is None else self.oblique_decoder

    @property
    def basis(self) -> FloatArray:
        """B, shape (p, r), with tr(B'SB) what the subspace captures of S."""
        if self.oblique_decoder is not None:
            return self.oblique_decoder
        return retained(self.encoder) if is_soft(self.encoder) else self.encoder.T

    @property
    def tilt(self) -> FloatArray:
        """E' - U, shape (p, r); (p, 0) of an orthogonal projection."""
        encoder = self.encoder.T
        return encoder[:, :0] if self.oblique_decoder is None else encoder - self.oblique_decoder

    @property
    def columns(self) -> FloatArray:
        """E' and, of an oblique projection, D beside it: what changes with the coordinates."""
        encoder, oblique = self.encoder.T, self.oblique_decoder
        return encoder if oblique is None else np.hstack([encoder, oblique])

    def with_columns(self, columns: FloatArray) -> "Projector":
        """The same in other coordinates, in which these are its columns."""
        if self.oblique_decoder is None:
            return Projector(columns.T)
        encoder, decoder = np.hsplit(columns, 2)
        return Projector(encoder.T, decoder)

    def check(self) -> None:
        """Make sure that it projects.

        Raises
        ------
        InvalidInput
            Rows that are not orthonormal, or an encoder and a decoder that do not fit each other.
        """
        check_components(self.encoder if self.oblique_decoder is None else self.oblique_decoder.T)
        if self.encoder.shape != self.decoder.T.shape or not np.isfinite(self.encoder).all():
            raise InvalidInput(
                f"The encoder has shape {self.encoder.shape}, the decoder {self.decoder.shape}",
                "Allowed: (d, p) and (p, d) finite numbers",
                "Use those of one fit",
            )
        product = self.encoder @ self.decoder
        identity = product if self.oblique_decoder is None else np.eye(len(self.encoder))
        if not np.allclose(product, identity, atol=_INVERSE):
            raise InvalidInput(
                "The encoder does not undo the decoder",
                "Allowed: an encoder and a decoder whose product is the identity",
                "Use those of one fit",
            )

    def residuals(self, rows: FloatArray) -> FloatArray:
        """x - D E x of centred rows, shape (n, p).

        Zero, not rounding, where there are as many components as features.
        """
        n_components, n_features = self.encoder.shape
        if n_components == n_features and not is_soft(self.encoder):
            return np.zeros_like(rows)
        return np.asarray(rows - (rows @ self.encoder.T) @ self.decoder.T)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each centred row to its reconstruction, shape (n,)."""
        left = self.residuals(rows)
        return np.asarray(np.einsum("ij,ij->i", left, left))
