"""Limits on the difference between two groups that restrictions with a tolerance set."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairspan.linalg.rounding import FIGURE_ROUNDING
from fairspan.typing import FloatArray

# Relative slack of a limit: solvers approach the limit from both sides, and sqrt(eps) is as close
# as a search by function values gets.
_RELATIVE_SLACK = 1e-8


@dataclass(frozen=True, eq=False)
class ParityLimit(ABC):
    """Upper limit on a difference between groups that a subspace must respect.

    Attributes
    ----------
    difference : array
        Difference of two groups' means or covariances.
    tolerance : float
        Largest allowed norm of the projected difference.
    """

    difference: FloatArray
    tolerance: float

    @property
    @abstractmethod
    def slack(self) -> float:
        """Excess that is negligible: the rounding error of the norm."""

    @abstractmethod
    def excess(self, basis: FloatArray) -> float:
        """Amount by which a (p, d) basis exceeds the limit; positive only if it does."""


def is_feasible(limit: ParityLimit, basis: FloatArray) -> bool:
    """Whether a (p, d) basis respects the limit up to rounding."""
    return limit.excess(basis) <= limit.slack


@dataclass(frozen=True, eq=False)
class MeanDistanceLimit(ParityLimit):
    """Limit ||V'f|| <= delta on the (p,) difference f of two groups' means."""

    @property
    def slack(self) -> float:
        """Proportional to delta and to the rounding error of ||V'f||."""
        return _RELATIVE_SLACK * self.tolerance + FIGURE_ROUNDING * float(
            np.linalg.norm(self.difference)
        )

    def excess(self, basis: FloatArray) -> float:
        """||V'f|| - delta."""
        return float(np.linalg.norm(self.difference @ basis)) - self.tolerance


@dataclass(frozen=True, eq=False)
class CovarianceDifferenceLimit(ParityLimit):
    """Limit ||V'DV|| <= tau in the spectral norm, D the (p, p) difference of two covariances."""

    @cached_property
    def slack(self) -> float:
        """Proportional to ||D||."""
        return _RELATIVE_SLACK * float(np.linalg.norm(self.difference, 2))

    def excess(self, basis: FloatArray) -> float:
        """||V'DV|| - tau."""
        return float(np.linalg.norm(basis.T @ self.difference @ basis, 2)) - self.tolerance
