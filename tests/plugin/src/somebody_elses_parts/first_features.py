"""A restriction: components that use only the first features of a table."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan.errors import Incompatible
from fairspan.extending import Criterion, Restriction


@dataclass(frozen=True)
class FirstFeatures(Restriction):
    """The loadings of all but the first `count` features are zero."""

    count: int = 3
    name: ClassVar[str] = "first_features"

    def check(self, labels: list[Any], criterion: Criterion, *, allow_extra: bool) -> None:
        """Accept any groups, and any criterion."""

    def directions(
        self, means: np.ndarray, covariances: np.ndarray, n_components: int
    ) -> np.ndarray:
        """The axes of these features."""
        if n_components > self.count:
            raise Incompatible(
                f"{n_components} components were requested with the first {self.count} features",
                f"Allowed: at most {self.count} components",
                "Choose fewer components, or a larger count",
            )
        return np.eye(means.shape[1])[:, : self.count]

    def most_components(self, means: np.ndarray, covariances: np.ndarray) -> int:
        """As many as features are used."""
        return min(self.count, means.shape[1])

    def limit(self, means: np.ndarray, covariances: np.ndarray) -> None:
        """Within these directions every subspace is allowed."""
