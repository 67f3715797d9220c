"""All eigenvalues of a mixture of second moments, remembered where several ask for them.

The whole decomposition of a small matrix takes little longer than its leading part. It serves every
dimension at once, and shows how the leading subspace turns as the weights change.
"""

from dataclasses import dataclass, field

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg import TIE_TOLERANCE, LeadingSubspace, graded_eigh, with_positive_signs
from fairspan.moments.operators import DenseSecondMoments, SecondMoments
from fairspan.typing import FloatArray

# Beyond these LAPACK's partial decomposition takes so much less that more steps, without slopes,
# are faster. Measured for minimax loss: 0.8 to 1 times the time of partial ones at (p, d) =
# (120, 5), (200, 20), (240, 20) and (400, 40); 1.1 to 1.3 times at (200, 10), (300, 20), (400, 20).
_WHOLE_UP_TO_FEATURES = 120
_WHOLE_FROM_SHARE = 1 / 12
# Beyond so many, the whole decompositions that are remembered would take too much memory.
_NEVER_WHOLE_FROM_FEATURES = 1000
# Up to so many features the whole decomposition takes no longer than its leading part.
SMALL = 60


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The decomposition of a symmetric matrix.

    Attributes
    ----------
    values : (p,) array
        Smallest first, as LAPACK gives them.
    vectors : (p, p) array
        Orthonormal columns in the same order; their signs are not settled.
    sizes : (p,) array
        What each eigenvalue is known to a share of.
    """

    values: FloatArray
    vectors: FloatArray
    sizes: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> "Spectrum":
        """The decomposition of a symmetric (p, p) matrix."""
        return cls(*graded_eigh(matrix, len(matrix) - 1))

    def rounding(self, n_components: int) -> float:
        """Eigenvalues closer than this to eigenvalue d cannot be told apart from it."""
        return TIE_TOLERANCE * float(self.sizes[len(self.values) - n_components])

    def gap(self, n_components: int) -> float:
        """Eigenvalue d minus eigenvalue d + 1; infinite if d = p."""
        cut = len(self.values) - n_components
        return float(self.values[cut] - self.values[cut - 1]) if cut else np.inf

    def top_sum(self, n_components: int) -> float:
        """t_d: the sum of the d largest."""
        return float(self.values[len(self.values) - n_components :].sum())

    def leading(
        self, n_components: int, tie_tolerance: float = 0.0, *, signed: bool = True
    ) -> LeadingSubspace:
        """As :func:`fairspan.linalg.leading_subspace`.

        Where only the subspace counts, settling the signs would take a third of a small
        decomposition's time.
        """
        d, p = n_components, len(self.values)
        values, gap = self.values[::-1], self.gap(n_components)
        tolerance = max(tie_tolerance, self.rounding(d))
        if gap > tolerance:
            vectors = self.vectors[:, p - d :][:, ::-1]
            vectors = with_positive_signs(vectors) if signed else vectors
            return LeadingSubspace(values[:d], vectors, d, np.empty((p, 0)), gap)
        vectors = with_positive_signs(self.vectors[:, ::-1])
        tied = np.abs(values - values[d - 1]) <= tolerance
        return LeadingSubspace(
            values[:d], vectors[:, :d], int(np.argmax(tied)), vectors[:, tied], gap
        )


@dataclass(frozen=True, eq=False)
class Spectra:
    """Decompositions of mixtures of second moments, for all dimensions and criteria.

    Parameters
    ----------
    second_moments : SecondMoments
    """

    second_moments: SecondMoments
    _known: dict[bytes, Spectrum] = field(default_factory=dict, repr=False)

    def are_whole(self, n_components: int) -> bool:
        """Whether all eigenvectors are worth their time where d are asked for."""
        p = self.second_moments.n_features
        few = p > _WHOLE_UP_TO_FEATURES and n_components < _WHOLE_FROM_SHARE * p
        few |= p >= _NEVER_WHOLE_FROM_FEATURES
        return isinstance(self.second_moments, DenseSecondMoments) and not few

    def known(self, weights: FloatArray) -> Spectrum:
        """That of sum_g weights_g S_g, solved once.

        Raises
        ------
        InvalidInput
            The mixture is not finite.
        """
        key = weights.tobytes()
        if key not in self._known:
            mixture = mixture_of(self.second_moments, weights)
            if not np.isfinite(mixture).all():
                raise InvalidInput(
                    "The second moments hold NaN or infinity",
                    "Allowed are finite numbers",
                    "Rescale the columns if their squares overflow (values beyond 1e150)",
                )
            self._known[key] = Spectrum.of(mixture)
        return self._known[key]

    def leading(self, weights: FloatArray, n_components: int) -> LeadingSubspace:
        """The leading eigenvectors of sum_g weights_g S_g, from what is known or small."""
        known = weights.tobytes() in self._known or self.second_moments.n_features <= SMALL
        if known and self.are_shared(n_components):
            return self.known(weights).leading(n_components)
        return self.second_moments.leading(weights, n_components)

    def are_shared(self, n_components: int) -> bool:
        """Whether the search for two groups is going to need the whole decomposition as well."""
        return self.second_moments.n_groups == 2 and self.are_whole(n_components)


def mixture_of(second_moments: SecondMoments, weights: FloatArray) -> FloatArray:
    """sum_g weights_g S_g of matrices, shape (p, p); not to be written to."""
    assert isinstance(second_moments, DenseSecondMoments)
    return second_moments.mixture(weights)
