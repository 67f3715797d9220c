"""Leading eigenvectors of second moments, of all rows and of those outside a fold.

Outside a fold, a group has W - w of its weight W, and (W - w) S' <= W S for its second moments S'
there and S in all rows, about the same center. A direction that has the variance v outside the fold
thus has at least (W - w) / W v in all rows. If eigenvalue d is larger than the variances beyond the
leading directions of all rows by more than that factor, a search outside the fold that starts from
them misses none.
"""

from dataclasses import dataclass
from typing import TypeGuard

from fairspan.moments.second_moments import DenseSecondMoments, SecondMoments
from fairspan.moments.sparse_scatter import SparseSecondMoments
from fairspan.typing import FloatArray

# Up to this number of features, LAPACK is faster than an iteration.
MAX_DENSE_FEATURES = 500
# Tolerance of eigenvalue sums, relative to the variance. Errors on other rows change with the root
# of it: they are accurate to about 1e-6 of the variance.
_SUM_TOL = 1e-12
# Factor by which eigenvalue d has to exceed the variances outside of a start, beyond what the
# weight of a fold requires: they are known from the last direction, which need not have converged.
_START_MARGIN = 1.1


@dataclass(frozen=True, eq=False)
class LeadingDirections:
    """Leading eigenvectors of a mixture of second moments.

    Attributes
    ----------
    vectors : (p, m) array
        Orthonormal. After an iteration, the last ones need not have converged.
    variances : (m,) array
        Variance along each, in decreasing order.
    """

    vectors: FloatArray
    variances: FloatArray

    def start_for(self, n_components: int, growth: float) -> FloatArray | None:
        """Start of the search for d eigenvectors of a part of the rows; None if it may miss one.

        Parameters
        ----------
        n_components : int
            d.
        growth : float
            Weight of all rows in proportion to that of the part.
        """
        if len(self.variances) <= n_components:
            return None
        outside = growth * float(self.variances[-1])
        if _START_MARGIN * outside > float(self.variances[n_components - 1]):
            return None
        return self.vectors


def find_leading_directions(
    second_moments: SecondMoments,
    weights: FloatArray,
    n_components: int,
    start: FloatArray | None = None,
) -> LeadingDirections:
    """Find the leading eigenvectors of a mixture sum_g w_g S_g of second moments.

    With many features they are iterated until the sum of their eigenvalues is accurate to 1e-12 of
    the variance, as the residuals show, and so are the sums of fewer of them.

    Parameters
    ----------
    second_moments : SecondMoments
    weights : (k,) array
    n_components : int
        d; there may be more directions.
    start : (p, m) array, optional
        Directions near the eigenvectors, see :meth:`LeadingDirections.start_for`.
    """
    if is_iterated(second_moments):
        sum_tol = _SUM_TOL * float(second_moments.traces @ weights)
        approximation = second_moments.approximate_leading(
            weights, n_components, start=start, sum_tol=sum_tol
        )
        return LeadingDirections(approximation.vectors, approximation.eigenvalues)
    leading = second_moments.leading(weights, n_components)
    return LeadingDirections(leading.vectors, leading.eigenvalues)


def is_iterated(
    second_moments: SecondMoments,
) -> TypeGuard[DenseSecondMoments | SparseSecondMoments]:
    """Whether eigenvectors are iterated: with many features, and moments that support it."""
    if second_moments.n_features <= MAX_DENSE_FEATURES:
        return False
    return isinstance(second_moments, DenseSecondMoments | SparseSecondMoments)
