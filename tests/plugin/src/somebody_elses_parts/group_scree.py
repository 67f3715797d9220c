"""A display: the share of each group's variance that each component keeps."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairspan import FairPCA


@dataclass
class GroupScree:
    """One line for each group, over the components."""

    name: ClassVar[str] = "group_scree"
    groups: tuple[str, ...]
    shares: np.ndarray

    @classmethod
    def from_estimator(cls, fair: FairPCA) -> "GroupScree":
        """Compute the shares of a fitted FairPCA."""
        return cls(tuple(map(str, fair.groups_)), fair.group_explained_variance_ratio_)

    def frame(self) -> pd.DataFrame:
        """Return one row for each component and one column for each group."""
        components = range(1, self.shares.shape[1] + 1)
        columns = dict(zip(self.groups, self.shares, strict=True))
        return pd.DataFrame({"component": components, **columns})

    def plot(self, ax: Any = None) -> "GroupScree":
        """Draw on these axes, or on new ones."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        self.frame().plot(x="component", ax=ax, marker="o", xticks=self.frame()["component"])
        ax.set_title("What each component holds of each group's variance")
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
