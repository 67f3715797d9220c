"""Rows with a group each, and where they come from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with a group each.

    Attributes
    ----------
    name : str
    source : str
        Where the data come from.
    X : (n, p) array
    sensitive_features : (n,) array, or (n, a) where a attributes are crossed
    feature_names : tuple of str
    labels : (n,) array or None
        What is to be predicted from the features, where the set has such a thing.
    """

    name: str
    source: str
    X: npt.NDArray[np.float64]
    sensitive_features: npt.NDArray[np.str_]
    feature_names: tuple[str, ...]
    labels: npt.NDArray[Any] | None = None

    def without(self, *features: str) -> "Dataset":
        """The same rows without some features.

        Raises
        ------
        ValueError
            There is no such feature.
        """
        left_out = [self.feature_names.index(name) for name in features]
        kept = tuple(name for name in self.feature_names if name not in features)
        return Dataset(
            self.name,
            self.source,
            np.delete(self.X, left_out, axis=1),
            self.sensitive_features,
            kept,
            self.labels,
        )
