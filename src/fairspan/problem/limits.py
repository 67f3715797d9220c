"""Limits on what tells two groups apart in a subspace: a restriction's tolerance, in numbers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairspan.linalg import eigvalsh
from fairspan.typing import FloatArray

# A limit is met up to this share of it, and of what it limits.
_MET, _ROUNDING = 1e-8, 1e-14


class Limit(Protocol):
    """What a subspace must not exceed."""

    @property
    def slack(self) -> float:
        """What is rounding of it."""

    def exceeded(self, basis: FloatArray) -> float:
        """By how much a (p, d) basis exceeds it; zero or less if it does not."""


def is_within(limit: Limit, basis: FloatArray) -> bool:
    """Whether a (p, d) basis exceeds a limit by no more than rounding."""
    return limit.exceeded(basis) <= limit.slack


@dataclass(frozen=True, eq=False)
class MeansWithin:
    """||V'f|| <= delta for the difference f of two groups' means.

    Attributes
    ----------
    difference : (p,) array
        f.
    tolerance : float
        delta.
    """

    difference: FloatArray
    tolerance: float

    @property
    def slack(self) -> float:
        """A share of delta, and of ||f||."""
        return _MET * self.tolerance + _ROUNDING * float(np.linalg.norm(self.difference))

    def exceeded(self, basis: FloatArray) -> float:
        """||V'f|| - delta."""
        return float(np.linalg.norm(self.difference @ basis)) - self.tolerance


@dataclass(frozen=True, eq=False)
class CovariancesWithin:
    """||V'DV|| <= tau for the difference D of two groups' covariances, in the spectral norm.

    Attributes
    ----------
    difference : (p, p) array
        D.
    tolerance : float
        tau.
    """

    difference: FloatArray
    tolerance: float

    @property
    def slack(self) -> float:
        """A share of ||D||."""
        return _MET * float(np.linalg.norm(self.difference, 2))

    def exceeded(self, basis: FloatArray) -> float:
        """||V'DV|| - tau."""
        within = basis.T @ self.difference @ basis
        return float(np.abs(eigvalsh(within)).max()) - self.tolerance
