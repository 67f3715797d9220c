"""What eigenvalue sums may exceed those within a subspace by: proven where there are matrices.

Let W be the subspace and beta a bound on the eigenvalues of a mixture beside it; then
:func:`fairspan.linalg.top_sum_bound` bounds its eigenvalue sum. Three ways to beta, the cheapest
first: the Frobenius norm that W leaves over; the bounds of the groups' own second moments, weighed
(those of negative weight add nothing, as second moments have no negative eigenvalues); a Cholesky
factorisation of the mixture. If all fail, W misses an eigenvector, and LAPACK finds it.
"""

import numpy as np
import numpy.typing as npt

from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import MinimaxLoss
from fairspan.problem.problem import Problem
from fairspan.solvers.grown_space import GrownSpace, MixtureWithin

FloatArray = npt.NDArray[np.float64]

# Bounds are looked for this share below eigenvalue d at least, so that rounding has room.
_ROOM = 1e-6
# An excess of this many goals is still good enough.
_GOOD_ENOUGH = 10.0


class SubspaceProof:
    """Bounds on what a growing subspace lacks; they stay valid while it grows.

    Parameters
    ----------
    problem : Problem
        In all p features.
    beyond : (k,) array
        About the largest eigenvalue of each group beside the subspace.
    """

    def __init__(self, problem: Problem, beyond: FloatArray) -> None:
        self.problem, self.beyond = problem, beyond
        self.n_eigenproblems = 0
        second = problem.second_moments
        self._matrices = second if isinstance(second, DenseSecondMoments) else None
        self._of_groups = np.full(problem.n_groups, np.inf)
        self._excess: dict[bytes, float] = {}
        self._exact: dict[bytes, float] = {}

    @property
    def is_proven(self) -> bool:
        """Whether excesses are proven, not estimated."""
        return self._matrices is not None

    def excess(self, weights: FloatArray) -> float:
        """By how much t_d of a mixture may exceed what is within; known once nothing is missing."""
        return self._excess.get(weights.tobytes(), np.inf)

    def uncertainty_of_losses(self, space: GrownSpace) -> float:
        """By how much excess losses may be underestimated, where the criterion is made of them."""
        if not (self.is_proven and self.losses_count):
            return 0.0
        d, best = self.problem.n_components, self.problem.best_errors
        assumed = self.problem.second_moments.traces - best
        off = [
            self.excess(alone) + float(space.mixture(alone).top_values(d).sum()) - assumed[g]
            for g, alone in enumerate(np.eye(len(assumed)))
        ]
        return max(*map(float, off), 0.0)

    def missing(self, space: GrownSpace, mixtures: list[FloatArray], goal: float) -> FloatArray:
        """Bound every mixture; leading eigenvectors of those that cannot be, shape (p, r)."""
        self._excess.clear()  # the subspace may have been cut back
        columns = [space.basis[:, :0]]
        alone = list(np.eye(self.problem.n_groups))
        if self._matrices is not None and (self.losses_count or len(mixtures) > len(alone)):
            self._bound_groups(space, alone, goal)
        for weights in mixtures:
            columns.append(self._missing_of(space, weights, goal))
        return np.hstack(columns)

    @property
    def losses_count(self) -> bool:
        """Whether the criterion holds the groups' own optima, of the same features."""
        problem = self.problem
        return isinstance(problem.criterion, MinimaxLoss) and problem.unrestricted is None

    def _missing_of(self, space: GrownSpace, weights: FloatArray, goal: float) -> FloatArray:
        none, d = space.basis[:, :0], self.problem.n_components
        if self._matrices is None:
            # From a start of its own, as the subspace may have lost sight of an eigenvector.
            fresh = space.full.sought(weights, d)
            self.n_eigenproblems += 1
            top_sum = fresh.leading.top_eigenvalue_sum + fresh.uncertainty
            return fresh.vectors if self._beyond(space, weights, top_sum) > goal else none
        if self._proven_excess(space, weights, goal) <= _GOOD_ENOUGH * goal:
            return none
        leading = self._matrices.leading(weights, d)
        self.n_eigenproblems += 1
        excess = self._beyond(space, weights, leading.top_eigenvalue_sum)
        return leading.vectors if excess > _GOOD_ENOUGH * goal else none

    def _proven_excess(self, space: GrownSpace, weights: FloatArray, goal: float) -> float:
        within, d = space.mixture(weights), self.problem.n_components
        ceiling = min(self._by_groups(weights), self._by_norm(within, weights))
        excess = within.excess(d, ceiling)
        if excess > goal:
            ceiling = self._by_cholesky(space, weights, _needed(within, d, goal))
            excess = min(excess, within.excess(d, ceiling))
        self._excess[weights.tobytes()] = excess
        return excess

    def _beyond(self, space: GrownSpace, weights: FloatArray, top_sum: float) -> float:
        within = float(space.mixture(weights).top_values(self.problem.n_components).sum())
        excess = max(top_sum - within, 0.0)
        self._excess[weights.tobytes()] = excess
        return excess

    def _bound_groups(self, space: GrownSpace, alone: list[FloatArray], goal: float) -> None:
        for group, weights in enumerate(alone):
            if np.isfinite(self._of_groups[group]):
                continue
            within = space.mixture(weights)
            needed = _needed(within, self.problem.n_components, goal)
            # Well below what is needed, so that mixtures are bounded too; above the estimate.
            between = float(np.sqrt(max(self.beyond[group], 0.0) * max(needed, 0.0)))
            ceiling = self._by_norm(within, weights)
            for level in (min(between, needed), needed):
                if ceiling > needed:
                    ceiling = min(ceiling, self._by_cholesky(space, weights, level))
            self._of_groups[group] = ceiling

    def _by_groups(self, weights: FloatArray) -> float:
        used = weights > 0
        return float(weights[used] @ self._of_groups[used])

    def _by_norm(self, within: MixtureWithin, weights: FloatArray) -> float:
        assert self._matrices is not None
        return within.frobenius_ceiling(self._matrices.squared_norm(weights))

    def _by_cholesky(self, space: GrownSpace, weights: FloatArray, level: float) -> float:
        assert self._matrices is not None
        proven = self._matrices.ceiling_beside(weights, space.basis, space.image(weights), level)
        return np.inf if proven is None else proven


def _needed(within: MixtureWithin, n_components: int, goal: float) -> float:
    """The largest ceiling with which the excess stays within the goal."""
    d = n_components
    cut, squares = float(within.top_values(d)[-1]), within.residual(d)
    if goal <= 0:
        return cut
    # Below a share of the goal for each component, eigenvalues beside do not matter.
    return max(cut - max(2 * squares / goal, _ROOM * abs(cut)), goal / (4 * d))
