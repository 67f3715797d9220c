"""Cache of eigendecompositions of mixtures of second moments.

Each mixture is decomposed once per fit. For small matrices the full decomposition costs little more
than its leading part and serves every number of components and every criterion; for large ones only
the leading part is kept. The cache evicts its oldest entries when it gets too large.
"""

from typing import cast

import numpy as np

from fairspan.linalg.eigen import (
    MAX_PARTIAL_RATIO,
    Eigendecomposition,
    LeadingSubspace,
    leading_subspace,
)
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING
from fairspan.typing import FloatArray

# Number of features up to which the full decomposition is as fast as its leading part.
_MAX_SMALL_FEATURES = 60
# Entries of cached eigenvectors, at most (32 MB).
_MAX_CACHED_ENTRIES = 2**22


class EigenCache:
    """Cache of eigendecompositions of mixtures sum_g weights_g S_g.

    Keys are the bytes of the weights and the number of leading eigenvectors, or None for all.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    keeps_all : bool
        Whether to keep all eigenvectors where the leading ones take a full decomposition, so that
        other numbers of them, and sums of the other eigenvalues, take none. They need more memory.
    """

    def __init__(self, matrices: FloatArray, *, keeps_all: bool = False) -> None:
        self._matrices = matrices
        self._keeps_all = keeps_all
        self._is_small = matrices.shape[1] <= _MAX_SMALL_FEATURES
        self._cache: dict[tuple[bytes, int | None], LeadingSubspace | Eigendecomposition] = {}
        self._n_entries = 0  # of all cached eigenvectors

    def mixture(self, weights: FloatArray) -> FloatArray:
        """Return sum_g weights_g S_g, shape (p, p); must not be modified."""
        matrices = self._matrices
        used = np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            return np.asarray(matrices[used[0]])
        # Much faster than tensordot.
        if len(matrices) == 2 and self._is_small:
            return np.asarray(weights[0] * matrices[0] + weights[1] * matrices[1])
        return np.tensordot(weights, matrices, axes=1)

    def decomposition(self, weights: FloatArray) -> Eigendecomposition:
        """Return the full eigendecomposition of the mixture sum_g weights_g S_g, cached.

        Raises
        ------
        InvalidInput
            The mixture is not finite.
        """
        # The second entry is the number of leading eigenvectors; None for all.
        key = (weights.tobytes(), None)
        if key not in self._cache:
            self._store(key, Eigendecomposition.from_matrix(self.mixture(weights)))
        return cast(Eigendecomposition, self._cache[key])

    def cheap_decomposition(self, weights: FloatArray) -> Eigendecomposition | None:
        """Return the full decomposition if it is cached or cheap to compute; otherwise None."""
        is_cached = (weights.tobytes(), None) in self._cache
        return self.decomposition(weights) if is_cached or self._is_small else None

    def leading(self, weights: FloatArray, n_components: int, tie_tol: float) -> LeadingSubspace:
        """Return the leading eigenvectors of a mixture, with ties within the tolerance."""
        if self._is_small:
            return self.decomposition(weights).leading(n_components, tie_tol)
        # A cached subspace has no tied vectors, which a gap within the tolerance would need.
        cached = self._cache.get((weights.tobytes(), n_components))
        if isinstance(cached, LeadingSubspace) and cached.gap > tie_tol:
            return cached
        if self._keeps_all and n_components >= MAX_PARTIAL_RATIO * self._matrices.shape[1]:
            return self.decomposition(weights).leading(n_components, tie_tol)
        if decomposition := self.cheap_decomposition(weights):
            return decomposition.leading(n_components, tie_tol)
        subspace = leading_subspace(self.mixture(weights), n_components, tie_tol)
        self.add(weights, subspace)
        return subspace

    def add(self, weights: FloatArray, subspace: LeadingSubspace) -> None:
        """Cache a subspace computed elsewhere, unless it is tied.

        Which eigenvalues count as tied depends on the tolerance of the caller.
        """
        rounding = EIGENVALUE_ROUNDING * abs(subspace.eigenvalues[0])
        if not subspace.is_tied and subspace.gap > rounding:
            self._store((weights.tobytes(), len(subspace.eigenvalues)), subspace)

    def _store(
        self, key: tuple[bytes, int | None], result: LeadingSubspace | Eigendecomposition
    ) -> None:
        replaced = self._cache.get(key)
        if replaced is not None:
            self._n_entries -= replaced.vectors.size
        self._cache[key] = result
        self._n_entries += result.vectors.size
        while len(self._cache) > 1 and self._n_entries > _MAX_CACHED_ENTRIES:
            oldest = next(iter(self._cache))
            self._n_entries -= self._cache.pop(oldest).vectors.size
