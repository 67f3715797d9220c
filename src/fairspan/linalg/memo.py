"""The one memo of eigenproblems: mixtures of second moments, each solved once in a fit.

The whole decomposition of a small matrix takes little longer than its leading part, and can be
used for every number of components and every criterion. Of large matrices the leading part alone
is kept. What takes too much memory is forgotten, the oldest first.
"""

import numpy as np

from fairspan.linalg.dense import TIE_TOLERANCE, LeadingSubspace, Spectrum, leading_subspace
from fairspan.typing import FloatArray

# Up to so many features the whole decomposition takes no longer than its leading part.
_SMALL = 60
# Numbers that are remembered, at most: 32 megabytes.
_MOST_NUMBERS = 2**22


class SolvedMixtures:
    """Mixtures sum_g weights_g S_g and their eigenvectors.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    """

    def __init__(self, matrices: FloatArray) -> None:
        self._matrices = matrices
        self._known: dict[tuple[bytes, int | None], LeadingSubspace | Spectrum] = {}
        self._n_numbers = 0

    def mixture(self, weights: FloatArray) -> FloatArray:
        """sum_g weights_g S_g, shape (p, p); not to be written to."""
        matrices, used = self._matrices, np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            return np.asarray(matrices[used[0]])
        if len(matrices) == 2 and matrices.shape[1] <= _SMALL:  # a fraction of the time
            return np.asarray(weights[0] * matrices[0] + weights[1] * matrices[1])
        return np.tensordot(weights, matrices, axes=1)

    def spectrum(self, weights: FloatArray) -> Spectrum:
        """All eigenvectors of a mixture.

        Raises
        ------
        InvalidInput
            The mixture is not finite.
        """
        known = self._known.get((weights.tobytes(), None))
        if not isinstance(known, Spectrum):
            known = Spectrum.of(self.mixture(weights))
            self._keep((weights.tobytes(), None), known)
        return known

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float
    ) -> LeadingSubspace:
        """The leading eigenvectors of a mixture, with ties within the tolerance."""
        key = weights.tobytes()
        known = self._known.get((key, n_components))
        if isinstance(known, LeadingSubspace) and known.gap > tie_tolerance:
            return known
        is_small = self._matrices.shape[1] <= _SMALL
        if is_small or (key, None) in self._known:
            return self.spectrum(weights).leading(n_components, tie_tolerance)
        found = leading_subspace(self.mixture(weights), n_components, tie_tolerance)
        self.remember(weights, found)
        return found

    def remember(self, weights: FloatArray, found: LeadingSubspace) -> None:
        """Keep what was found elsewhere; not with a tie at the cut, which depends on who asks."""
        if not found.is_tied and found.gap > TIE_TOLERANCE * abs(found.eigenvalues[0]):
            self._keep((weights.tobytes(), len(found.eigenvalues)), found)

    def _keep(self, key: tuple[bytes, int | None], found: LeadingSubspace | Spectrum) -> None:
        before = self._known.pop(key, None)
        self._n_numbers += found.vectors.size - (0 if before is None else before.vectors.size)
        self._known[key] = found
        while self._n_numbers > _MOST_NUMBERS and len(self._known) > 1:
            oldest = next(iter(self._known))
            self._n_numbers -= self._known.pop(oldest).vectors.size
