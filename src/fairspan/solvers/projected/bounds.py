"""What eigenvalue sums may exceed those within a subspace by, and what bound that leaves.

Let W be the subspace and beta a bound on the eigenvalues of a mixture beside it; then
:func:`fairspan.linalg.top_sum_bound` bounds its eigenvalue sum. Where there are matrices, beta is
proven by the Frobenius norm that W leaves over; or by a Cholesky factorisation, of each group,
which serves all mixtures, or of the mixture itself. If all fail, W misses an eigenvector, and
LAPACK finds it. Of sparse rows an iteration from a start of its own estimates what W may lack.
"""

import numpy as np

from fairspan.certificates.solution import Solution
from fairspan.certificates.supporting_polygon import least_beyond_lines
from fairspan.linalg import cholesky_ceiling, frobenius_ceiling, leading_subspace
from fairspan.problem.problem import Problem
from fairspan.soft_projection import is_soft, retained
from fairspan.solvers.projected.grown_space import ROUNDING, GrownSpace, MixtureWithin
from fairspan.typing import FloatArray

# An excess of this many goals is still good enough.
GOOD_ENOUGH = 3.0
# Bounds are looked for this share below eigenvalue d at least, so that rounding has room.
_ROOM, _MOST_OF_DISTANCE = 1e-6, 0.9
# Where between the last of the eigenvalues that are held and eigenvalue d a group is bounded.
_LOW = 0.1
# How exactly the least value beyond supporting lines is found, as a share of the gap to reach.
_PRECISION = 0.05


class SubspaceBounds:
    """Bounds on what a growing subspace lacks; they stay valid while it grows.

    Parameters
    ----------
    problem : Problem
        In all p features.

    Attributes
    ----------
    slack : dict of bytes to float
        By how much t_d of a mixture may exceed what is within, by the bytes of its weights.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_eigenproblems = 0
        self.slack: dict[bytes, float] = {}
        # The same of the groups' own optima in all directions, which a restriction does not limit.
        self.of_whole = 0.0
        self._of_groups = np.full(problem.n_groups, np.inf)
        # The groups' own optima, where the bound rests on them and can be proven.
        losses = problem.criterion.measures_losses and problem.unrestricted is None
        alone = np.diag(1 / problem.divisors)
        self.groups = list(alone) if losses and problem.has_matrices else []

    def groups_by_lapack(self, columns: list[FloatArray]) -> None:
        """Take the least of each group's leading eigenvalues, by LAPACK, as a bound beside them."""
        second = self.problem.dense
        for group, vectors in enumerate(columns):
            alone, last = np.eye(self.problem.n_groups)[group], vectors[:, -1:]
            value = float(second.captured_variances(last)[group])
            self._of_groups[group] = value + ROUNDING * second.size(alone)

    def missing(self, space: GrownSpace, mixtures: list[FloatArray], goal: float) -> FloatArray:
        """Bound every mixture; leading eigenvectors of those that cannot be, shape (p, r)."""
        self.slack.clear()
        several = len(mixtures) > self.problem.n_groups + 1
        if self.problem.has_matrices and (self.groups or several):
            for group, weights in enumerate(np.eye(self.problem.n_groups)):
                if np.isinf(self._of_groups[group]):
                    within = space.mixture(weights)
                    # Well below what the group needs, so that mixtures are bounded too.
                    values = within.leading.eigenvalues
                    low = float(
                        _LOW * values[self.problem.n_components - 1] + (1 - _LOW) * values[-1]
                    )
                    own_goal = goal * float(self.problem.divisors[group])
                    level = min(low, self._needed(within, own_goal))
                    ceiling = self._by_norm(within, weights)
                    if ceiling > level:
                        image = space.image(weights)
                        proven = self._by_cholesky(weights, space.basis, image, level)
                        ceiling = min(ceiling, proven)
                    self._of_groups[group] = ceiling
        columns = [self._missing_of(space, weights, goal) for weights in mixtures]
        return np.hstack([space.basis[:, :0], *columns])

    def _missing_of(self, space: GrownSpace, weights: FloatArray, goal: float) -> FloatArray:
        none, d, within = space.basis[:, :0], self.problem.n_components, space.mixture(weights)
        if self.problem.has_matrices:
            allowed = GOOD_ENOUGH * goal
            excess = self._proven(space, weights, goal)
            if excess > allowed:
                self.n_eigenproblems += 1
                found = leading_subspace(self.problem.dense.mixture(weights), d)
                vectors, top_sum = found.vectors, found.top_eigenvalue_sum
                excess = max(top_sum - within.top_sum(d), 0.0)
        else:
            self.n_eigenproblems += 1
            allowed, sought = goal, space.full.sought(weights, d)
            vectors, top_sum = sought.vectors, sought.leading.top_eigenvalue_sum
            excess = max(top_sum + sought.uncertainty - within.top_sum(d), 0.0)
        self.slack[weights.tobytes()] = excess
        return vectors if excess > allowed else none

    def _proven(self, space: GrownSpace, weights: FloatArray, goal: float) -> float:
        within, d, used = space.mixture(weights), self.problem.n_components, weights > 0
        # Second moments have no negative eigenvalues, so negative weights add nothing.
        by_groups = float(weights[used] @ self._of_groups[used])
        excess = within.excess(d, min(by_groups, self._by_norm(within, weights)))
        if excess > goal:
            # Leading vectors alone: the others in W may be far from what they approximate.
            vectors, level = space.ritz_vectors(weights), self._needed(within, goal)
            image = space.image(weights) @ within.leading.vectors
            ceiling = self._by_cholesky(weights, vectors, image, level)
            if np.isfinite(ceiling):
                excess = min(excess, within.excess_beside_leading(d, ceiling))
        return excess

    def _by_norm(self, within: MixtureWithin, weights: FloatArray) -> float:
        second = self.problem.dense
        squared_norm, size = second.squared_norm(weights), second.size(weights)
        return frobenius_ceiling(squared_norm, within.compressed, within.residual_gram, size)

    def _by_cholesky(
        self, weights: FloatArray, basis: FloatArray, image: FloatArray, level: float
    ) -> float:
        """Bound on the eigenvalues of a mixture beside a basis, near a level; else infinite."""
        second = self.problem.dense
        proven = cholesky_ceiling(
            second.mixture(weights), basis, image, level, second.size(weights)
        )
        return np.inf if proven is None else proven

    def _needed(self, within: MixtureWithin, goal: float) -> float:
        """A ceiling with which the excess stays within the goal."""
        d, values = self.problem.n_components, within.leading.eigenvalues
        cut = float(values[d - 1])
        # Between eigenvalue d and the last of those that are held with it.
        distance = cut - float(values[-1])
        room = 2 * within.residual(d) / max(goal, np.finfo(np.float64).tiny)
        if distance > 0:
            room = min(max(room, distance / 2), _MOST_OF_DISTANCE * distance)
        room = max(room, _ROOM * abs(cut))
        # Below a share of the goal for each component, eigenvalues beside do not matter.
        return max(cut - room, goal / (4 * d))

    def lower_bound(self, space: GrownSpace, solution: Solution, tol: float) -> float:
        """The bound of a solution within, lowered by what the subspace may lack."""
        problem, lines, d = self.problem, solution.supporting_weights, self.problem.n_components
        # What was not bounded, as rounds ran out, may lack anything.
        missed = (self.slack.get(each.tobytes(), np.inf) for each in mixtures_of(solution))
        slack = np.array(list(missed))
        if lines is None or problem.n_groups != 2 or not slack.any():
            fall = fall_of_bound(problem, space, solution) if slack.any() else 0.0
            losses = [self.slack.get(each.tobytes(), np.inf) for each in self.groups]
            of_best = max(losses, default=self.of_whole)
            return solution.lower_bound - fall * float(slack.max()) - of_best
        traces = problem.second_moments.traces
        within = np.array([space.mixture(weights).top_sum(d) for weights in lines])
        return least_beyond_lines(
            lambda errors: problem.robust.scores(errors, problem),
            lines,
            lines @ traces - within - slack[1:],
            traces,
            _PRECISION * tol * solution.scale,
        )


def fall_of_bound(problem: Problem, space: GrownSpace, solution: Solution) -> float:
    """By how much the bound falls, at most, per unit that W lacks of an eigenvalue sum."""
    criterion, weight = problem.criterion, float(solution.weights.sum())
    tiny = float(np.finfo(np.float64).tiny)
    if criterion.is_logarithmic:
        # Its bound falls with the logarithm of the sum.
        return 1 / max(space.mixture(solution.weights).top_sum(problem.n_components), tiny)
    if criterion.wants_equal_errors and weight > 0:
        # Its bound is that of the mixture divided by the weight of the total error.
        return 1 / weight
    if criterion.has_concave_scores and problem.n_groups == 2:
        errors = space.second_moments.residual_variances(coordinates_of(solution))
        least = max(ROUNDING * float(problem.second_moments.traces.max()), tiny)
        slopes = problem.robust.gradients(np.maximum(errors, least), problem)
        return max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
    return 1.0


def mixtures_of(solution: Solution) -> list[FloatArray]:
    """Weights of all mixtures that the bound rests on, the last one first."""
    lines = solution.supporting_weights
    return [solution.weights, *([] if lines is None else lines)]


def coordinates_of(solution: Solution) -> FloatArray:
    """The basis in coordinates of the subspace, shape (m, r)."""
    components = solution.components
    return retained(components) if is_soft(components) else components.T
