"""Local descents within the leading eigenvectors of a mixture, for problems of many features.

A step of a descent takes an eigenproblem of all features, and each trial of it a product with the
second moments of every group. Good subspaces hardly leave the span W of a few leading eigenvectors
of the mixture that proves the lower bound, in whose coordinates both are small. So a descent finds
a minimum there first; only one that is better than those before is worth a descent in all features,
which then takes few steps.
"""

from dataclasses import dataclass, replace

import numpy as np

from fairspan.problem.problem import Problem
from fairspan.solvers.local_descent import Iterate, descend
from fairspan.solvers.search_subspace import SearchSubspace
from fairspan.typing import FloatArray

# Eigenvectors of which W consists: this many for each component, and a few more. Simulated rows of
# 768 features, 16 groups, d = 20: descents end 8e-6 above the minimum in all features with 40
# eigenvectors, 1e-6 with 60 and 2e-9 with 120.
_VECTORS_PER_COMPONENT = 2
_FURTHER_VECTORS = 20
# W pays off if there are this many features for each of its eigenvectors.
_MIN_FEATURES_PER_VECTOR = 4


@dataclass(frozen=True, eq=False)
class LeadingSpan:
    """Span W of the leading eigenvectors of a mixture, and the problem within it.

    Attributes
    ----------
    axes : (p, m) array
        W, orthonormal columns.
    problem : Problem
        The problem in coordinates of W. Errors include the variance outside of W, and the criterion
        is that of all features.
    """

    axes: FloatArray
    problem: Problem

    @staticmethod
    def pays_off(problem: Problem) -> bool:
        """Whether a problem has so many features that descents within W are much faster."""
        return problem.n_features >= _MIN_FEATURES_PER_VECTOR * _n_vectors(problem)

    @classmethod
    def from_eigenvectors(cls, problem: Problem, eigenvectors: FloatArray) -> "LeadingSpan":
        """Span of the first of (p, p) eigenvectors, those of the largest eigenvalues first."""
        n_vectors = _n_vectors(problem)
        axes = np.ascontiguousarray(eigenvectors[:, :n_vectors])
        space = SearchSubspace.from_basis(problem.dense_moments, n_vectors, axes)
        # What losses refer to stays that of all features.
        embedding = replace(problem.embedding, parent=problem.unrestricted)
        inside = problem.along(axes, second_moments=space.projected_moments, embedding=embedding)
        return cls(axes, inside)

    def descend(self, start: FloatArray, min_decrease: float, goal: float) -> tuple[Iterate, int]:
        """Descend from a (p, d) basis, projected onto W, as :func:`descend` does."""
        coordinates = np.linalg.qr(self.axes.T @ start)[0]
        return descend(self.problem, coordinates, min_decrease, goal)

    def lift(self, local_minimum: Iterate, problem: Problem) -> Iterate:
        """Point of the problem in all features at a local minimum within W."""
        return Iterate.from_basis(
            problem, self.axes @ local_minimum.basis, local_minimum.multipliers
        )


def _n_vectors(problem: Problem) -> int:
    """Return the number of eigenvectors that span W."""
    return _VECTORS_PER_COMPONENT * problem.n_components + _FURTHER_VECTORS
