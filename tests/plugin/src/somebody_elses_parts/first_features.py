"""A restriction: components that use only the first features of a table."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.extending import Restriction


@dataclass(frozen=True)
class FirstFeatures(Restriction):
    """The loadings of all but the first `count` features are zero."""

    count: int = 3
    name: ClassVar[str] = "first_features"

    def allowed_directions(
        self, means: np.ndarray, covariances: np.ndarray, n_components: int
    ) -> np.ndarray:
        """Return the coordinate axes of these features."""
        if n_components > self.count:
            raise IncompatibleParameters(
                f"{n_components} components were requested with the first {self.count} features",
                f"Allowed: at most {self.count} components",
                "Choose fewer components, or a larger count",
            )
        return np.eye(means.shape[1])[:, : self.count]
