"""A model that is no projection onto a subspace, judged by what it makes of each row."""

from dataclasses import dataclass

import numpy as np

from fairspan.models.parts import Part
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class RowModel:
    """A nonlinear model.

    Attributes
    ----------
    part : Part
    n_components : int
        Coordinates that it makes of a row.
    """

    part: Part
    n_components: int

    @classmethod
    def of(cls, part: Part) -> "RowModel":
        """The model, tried on one row in the middle."""
        middle = np.zeros((1, part.n_features))
        return cls(part, part.chain.transform(middle).shape[1])

    @property
    def n_features(self) -> int:
        """p."""
        return self.part.n_features

    @property
    def dimension(self) -> int:
        """That of the subspaces which it is compared with: at most p."""
        return min(self.n_components, self.n_features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if it knows them."""
        return self.part.feature_names

    @property
    def scale(self) -> FloatArray | None:
        """What a pipeline divides features by first."""
        return self.part.scale

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row to what it is brought back as, shape (n,).

        Parameters
        ----------
        rows : (n, p) array
            As they came, which a model may depend on to the last digit. Distances are in units of
            `scale`.
        """
        chain = self.part.whole
        left = rows - chain.inverse_transform(chain.transform(rows))
        if self.scale is not None:
            left = left / self.scale
        return np.asarray(np.einsum("ij,ij->i", left, left))
