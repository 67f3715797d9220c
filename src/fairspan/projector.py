"""What a model makes of centred rows: coordinates, and rows that are brought back from these.

A row x has the coordinates E x and is brought back as D E x. Of an orthogonal projection D is E'.
Of an oblique one D has orthonormal columns U and E is another matrix. By Pythagoras a row is then
||x - UU'x||^2 + ||(U' - E) x||^2 away from what it is brought back as: what the subspace loses
of it, and what its coordinates are moved by.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.soft_projection import check_orthonormal_or_soft, is_soft, retained
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.moments.operators import SecondMoments

# Products of an oblique encoder and its decoder are one or zero up to this.
_INVERSE = 1e-6


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
        if self.oblique_decoder is None:
            return np.empty((self.encoder.shape[1], 0))
        return self.encoder.T - self.oblique_decoder

    @property
    def columns(self) -> FloatArray:
        """E' and, of an oblique projection, D beside it: what changes with the coordinates."""
        parts = [self.encoder.T]
        if self.oblique_decoder is not None:
            parts.append(self.oblique_decoder)
        return np.hstack(parts)

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
        if self.oblique_decoder is None:
            check_orthonormal_or_soft(self.encoder)
            return
        fits = self.encoder.shape == self.oblique_decoder.T.shape
        if not fits or not np.isfinite(self.encoder).all():
            raise InvalidInput(
                f"The encoder has shape {self.encoder.shape}, the decoder "
                f"{self.oblique_decoder.shape}",
                "Allowed: (d, p) and (p, d) finite numbers",
                "Use those of one fit",
            )
        check_orthonormal_or_soft(self.oblique_decoder.T)
        if not np.allclose(
            self.encoder @ self.oblique_decoder, np.eye(len(self.encoder)), atol=_INVERSE
        ):
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

    def errors(self, second: "SecondMoments") -> FloatArray:
        """tr((I - DE) S_g (I - DE)') of each group, shape (k,)."""
        errors, tilt = second.residual_variances(self.basis), self.tilt
        return errors + second.captured_variances(tilt) if tilt.size else errors

    def kept_by_component(self, second: "SecondMoments") -> FloatArray:
        """What each component takes off each group's error, shape (k, r).

        Nothing is below zero but for oblique components, which may add to the error of a group.
        """
        kept = np.einsum("gii->gi", second.compressed(self.basis))
        kept = np.maximum(kept, 0.0)  # along directions without any, rounding
        tilt = self.tilt
        if tilt.size:
            kept = kept - np.einsum("gii->gi", second.compressed(tilt))
        return np.asarray(kept)
