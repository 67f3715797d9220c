"""A model that is no projection onto a subspace, judged by what it makes of each row."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.models.parts import Part
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class RowModel:
    """A nonlinear model, with what a subspace is asked in an audit.

    Attributes
    ----------
    part : Part
    n_components : int
        Coordinates that it makes of a row.
    mean : (p,) array or None
        About which variances are measured; None for the mean of whatever rows are looked at.
    """

    part: Part
    n_components: int
    mean: FloatArray | None = None

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

    @property
    def center(self) -> str:
        """Variances are measured about one point."""
        return "global"

    @property
    def provenance(self) -> Any:
        """It has none."""
        return None

    @property
    def is_nested(self) -> bool:
        """Nothing is known of its first components."""
        return False

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row to what it is brought back as, shape (n,).

        Parameters
        ----------
        rows : (n, p) array
            About `mean` and divided by `scale`.
        """
        unit = 1.0 if self.scale is None else self.scale
        offset = 0.0 if self.part.mean is None else self.part.mean
        middle = 0.0 if self.mean is None else self.mean
        standardized = rows + (middle - offset) / unit
        left = standardized - self.part.chain.inverse_transform(
            self.part.chain.transform(standardized)
        )
        return np.asarray(np.einsum("ij,ij->i", left, left))
