"""What eigenvalue sums may exceed those within a subspace by: proven where there are matrices.

Let W be the subspace and beta a bound on the eigenvalues of a mixture beside it; then
:func:`fairspan.linalg.top_sum_bound` bounds its eigenvalue sum. Four ways to beta, the cheapest
first: the Frobenius norm that W leaves over; the bounds of the groups' own second moments, weighed;
that of a mixture of nearly the same weights; a Cholesky factorisation of the mixture. If all fail,
W misses an eigenvector, and LAPACK finds it.
"""

import numpy as np

from fairspan.linalg import IterativeSubspace, leading_subspace
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import declares
from fairspan.problem.problem import Problem
from fairspan.solvers.projected.grown_space import GrownSpace, MixtureWithin
from fairspan.typing import FloatArray

# Bounds are looked for this share below eigenvalue d at least, so that rounding has room.
_ROOM = 1e-6
_MOST_OF_DISTANCE = 0.9
# An excess of this many goals is still good enough.
GOOD_ENOUGH = 3.0


class SubspaceProof:
    """Bounds on what a growing subspace lacks; they stay valid while it grows.

    Parameters
    ----------
    problem : Problem
        In all p features.
    n_held : int
        How many leading eigenvectors of a mixture the subspace is to hold, d or more.
    """

    def __init__(self, problem: Problem, n_held: int) -> None:
        self.problem, self.n_held = problem, n_held
        # About the largest eigenvalue of each group beside the subspace.
        self.beyond = np.zeros(problem.n_groups)
        self.n_eigenproblems = 0
        second = problem.second_moments
        self._matrices = second if isinstance(second, DenseSecondMoments) else None
        self._of_groups = np.full(problem.n_groups, np.inf)
        self._ceilings: list[tuple[FloatArray, float]] = []
        self._excess: dict[bytes, float] = {}
        self._exact: dict[bytes, float] = {}

    @property
    def is_proven(self) -> bool:
        """Whether excesses are proven, not estimated."""
        return self._matrices is not None

    def take_exact(self, weights: FloatArray, found: IterativeSubspace) -> None:
        """Eigenvectors that LAPACK found, and that the subspace holds."""
        self._exact[weights.tobytes()] = found.leading.top_eigenvalue_sum
        self._ceilings.append((weights, found.beyond))

    def start_anew(self) -> None:
        """Forget what was bounded beside a subspace that is no longer held."""
        self._ceilings.clear()
        self._of_groups[:] = np.inf

    def exact_excess(self, space: GrownSpace, weights: FloatArray) -> float | None:
        """By how much t_d of a mixture exceeds what is within; None if LAPACK was not asked."""
        exact = self._exact.get(weights.tobytes())
        if exact is None:
            return None
        return max(exact - _sum_within(space, weights, self.problem.n_components), 0.0)

    def excess(self, weights: FloatArray) -> float:
        """By how much t_d of a mixture may exceed what is within; known once nothing is missing."""
        return self._excess.get(weights.tobytes(), np.inf)

    def uncertainty_of_losses(self, space: GrownSpace) -> float:
        """By how much excess losses may be underestimated, where the criterion is made of them."""
        if not (self.is_proven and self.losses_count):
            return 0.0
        assumed = self.problem.second_moments.traces - self.problem.best_errors
        off = [0.0]
        for group, alone in enumerate(np.eye(len(assumed))):
            most = self._exact.get(alone.tobytes())
            if most is None:
                within = _sum_within(space, alone, self.problem.n_components)
                most = within + self.excess(alone)
            off.append(float(most - assumed[group]))
        return max(off)

    def open_groups(self) -> list[FloatArray]:
        """Weights of the single groups whose own optima the bound rests on, and are not known."""
        if not (self.is_proven and self.losses_count):
            return []
        alone = np.eye(self.problem.n_groups)
        return [weights for weights in alone if weights.tobytes() not in self._exact]

    def missing(self, space: GrownSpace, mixtures: list[FloatArray], goal: float) -> FloatArray:
        """Bound every mixture; leading eigenvectors of those that cannot be, shape (p, r)."""
        self._excess.clear()
        several = len(mixtures) > self.problem.n_groups + 1
        if self._matrices is not None and (self.open_groups() or several):
            self._bound_groups(space, goal)
        columns = [self._missing_of(space, weights, goal) for weights in mixtures]
        return np.hstack([space.basis[:, :0], *columns])

    @property
    def losses_count(self) -> bool:
        """Whether the criterion holds the groups' own optima, of the same features."""
        problem = self.problem
        return declares(problem.criterion, "measures_losses") and problem.unrestricted is None

    def _missing_of(self, space: GrownSpace, weights: FloatArray, goal: float) -> FloatArray:
        none, d, key = space.basis[:, :0], self.problem.n_components, weights.tobytes()
        if self._matrices is None:
            # From a start of its own, as the subspace may have lost sight of an eigenvector.
            fresh = space.full.sought(weights, d)
            self.n_eigenproblems += 1
            top_sum = fresh.leading.top_eigenvalue_sum + fresh.uncertainty
            excess = max(top_sum - _sum_within(space, weights, d), 0.0)
            self._excess[key] = excess
            return fresh.vectors if excess > goal else none
        known = self.exact_excess(space, weights)
        self._excess[key] = self._proven(space, weights, goal) if known is None else known
        if self._excess[key] <= GOOD_ENOUGH * goal:
            return none
        # Not what is known: a group's own optimum is, from the iteration that may have missed some.
        leading = leading_subspace(self._matrices.mixture(weights), d)
        self.n_eigenproblems += 1
        excess = max(leading.top_eigenvalue_sum - _sum_within(space, weights, d), 0.0)
        self._excess[key] = excess
        return leading.vectors if excess > GOOD_ENOUGH * goal else none

    def _proven(self, space: GrownSpace, weights: FloatArray, goal: float) -> float:
        within, d = space.mixture(weights), self.problem.n_components
        ceiling = min(
            self._by_groups(weights), self._by_norm(within, weights), self._by_others(weights)
        )
        excess = within.excess(d, ceiling)
        if excess > goal:
            # Leading vectors alone: the others in W may be far from what they approximate.
            n = min(self.n_held, space.n_dimensions)
            turn = within.top_vectors(n)
            vectors, image = space.basis @ turn, space.image(weights) @ turn
            level = self._needed(within, goal)
            ceiling = self._by_cholesky(weights, vectors, image, level)
            excess = min(excess, within.leading_part(n).excess(d, ceiling))
        return excess

    def _bound_groups(self, space: GrownSpace, goal: float) -> None:
        for group, weights in enumerate(np.eye(self.problem.n_groups)):
            if np.isfinite(self._of_groups[group]):
                continue
            within = space.mixture(weights)
            needed = self._needed(within, goal)
            # Well below what is needed, so that mixtures are bounded too; above the estimate.
            between = float(np.sqrt(max(self.beyond[group], 0.0) * max(needed, 0.0)))
            ceiling = min(self._by_norm(within, weights), self._by_others(weights))
            for level in (min(between, needed), needed):
                if ceiling > needed:
                    image = space.image(weights)
                    proven = self._by_cholesky(weights, space.basis, image, level)
                    ceiling = min(ceiling, proven)
            self._of_groups[group] = ceiling

    def _needed(self, within: MixtureWithin, goal: float) -> float:
        """A ceiling with which the excess stays within the goal."""
        d = self.problem.n_components
        values = within.top_values(min(self.n_held, len(within.compressed)))
        squares = within.residual(d)
        cut = float(values[d - 1])
        if goal <= 0:
            return cut
        # Between eigenvalue d and the last of those that are held with it.
        distance = float(cut - values[-1])
        room = 2 * squares / goal
        if distance > 0:
            room = min(max(room, distance / 2), _MOST_OF_DISTANCE * distance)
        room = max(room, _ROOM * abs(cut))
        # Below a share of the goal for each component, eigenvalues beside do not matter.
        return max(cut - room, goal / (4 * d))

    def _by_groups(self, weights: FloatArray) -> float:
        """Second moments have no negative eigenvalues, so negative weights add nothing."""
        used = weights > 0
        return float(weights[used] @ self._of_groups[used])

    def _by_norm(self, within: MixtureWithin, weights: FloatArray) -> float:
        assert self._matrices is not None
        return within.frobenius_ceiling(
            self._matrices.squared_norm(weights), self._matrices.size(weights)
        )

    def _by_others(self, weights: FloatArray) -> float:
        """From mixtures of nearly the same weights (Weyl's inequality)."""
        assert self._matrices is not None
        alone = np.eye(len(weights))
        largest = np.array([self._matrices.size(each) for each in alone])
        beside = np.minimum(largest, self._of_groups)
        known = (
            ceiling + float(np.maximum(weights - others, 0.0) @ beside)
            for others, ceiling in self._ceilings
        )
        return min(known, default=np.inf)

    def _by_cholesky(
        self, weights: FloatArray, basis: FloatArray, image: FloatArray, level: float
    ) -> float:
        assert self._matrices is not None
        proven = self._matrices.ceiling_beside(weights, basis, image, level)
        if proven is None:
            return np.inf
        self._ceilings.append((weights, proven))
        return proven


def _sum_within(space: GrownSpace, weights: FloatArray, n_components: int) -> float:
    return float(space.mixture(weights).top_values(n_components).sum())
