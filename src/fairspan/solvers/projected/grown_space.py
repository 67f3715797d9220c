"""A subspace of the features, to solve small problems in, and bounds on what it may lack.

Let W be the subspace and beta a bound on the eigenvalues of a mixture beside it; then
:func:`fairspan.linalg.top_sum_bound` bounds its eigenvalue sum. Where there are matrices, beta is
proven by the Frobenius norm that W leaves over; or by a Cholesky factorisation, of each group,
which serves all mixtures, or of the mixture itself. If all fail, W misses an eigenvector, and
LAPACK finds it. Of sparse rows an iteration from a start of its own estimates what W may lack.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.proofs import least_beyond_lines
from fairspan.linalg import (
    IterativeSubspace,
    LeadingSubspace,
    cholesky_ceiling,
    frobenius_ceiling,
    leading_subspace,
    orthonormal_beside,
    symmetric,
    top_sum_bound,
)
from fairspan.moments.operators import CANCELLING, DenseSecondMoments, SecondMoments
from fairspan.problem.problem import Problem
from fairspan.projector import is_soft, retained
from fairspan.typing import FloatArray

# Up to so many groups, products of all pairs' residuals serve any number of mixtures.
_FEW_GROUPS = 3
# What float64 can resolve, as a share of the trace.
ROUNDING = 1e-13
# Directions in which a solution is pulled out of W, as a share of the pull.
_DIRECTION = 1e-9
# An excess of this many goals is still good enough.
GOOD_ENOUGH = 3.0
# Bounds are looked for this share below eigenvalue d at least, so that rounding has room.
_ROOM, _MOST_OF_DISTANCE = 1e-6, 0.9
# Where between the last of the eigenvalues that are held and eigenvalue d a group is bounded.
_LOW = 0.1
# How exactly the least value beyond supporting lines is found, as a share of the gap to reach.
_PRECISION = 0.05


class SoughtMoments(SecondMoments, Protocol):
    """Second moments whose leading eigenvectors are found by iteration."""

    def sought(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        sum_goal: float | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """Leading eigenvectors of a mixture, and how far their eigenvalue sum may be off."""

    def n_held(self, n_components: int) -> int:
        """How many leading vectors are found with d of them."""


@dataclass(frozen=True, eq=False)
class MixtureWithin:
    """A mixture M of the second moments as a subspace W sees it.

    Attributes
    ----------
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G, G = MW - WH.
    n_beside : int
        p - m.
    leading : LeadingSubspace
        Some leading eigenvectors of H, d or more.
    """

    compressed: FloatArray
    residual_gram: FloatArray
    n_beside: int
    leading: LeadingSubspace

    def top_sum(self, n_components: int) -> float:
        """t_d(H)."""
        return float(self.leading.eigenvalues[:n_components].sum())

    def residual(self, n: int) -> float:
        """Sum of the squared residuals of the n leading Ritz vectors."""
        vectors = self.leading.vectors[:, :n]
        return max(float(np.vdot(vectors, self.residual_gram @ vectors)), 0.0)

    def excess(self, n_components: int, ceiling: float) -> float:
        """By how much t_d(M) may exceed t_d(H), if `ceiling` bounds M beside W."""
        if self.n_beside == 0:
            return 0.0
        bound = top_sum_bound(
            self.compressed, self.residual_gram, n_components, ceiling, self.n_beside
        )
        return max(bound - self.top_sum(n_components), 0.0)

    def excess_beside_leading(self, n_components: int, ceiling: float) -> float:
        """The same if `ceiling` bounds M beside the leading Ritz vectors alone."""
        values, turn = self.leading.eigenvalues, self.leading.vectors
        gram = turn.T @ self.residual_gram @ turn
        n_beside = self.n_beside + len(self.compressed) - len(values)
        bound = top_sum_bound(np.diag(values), gram, n_components, ceiling, n_beside)
        return max(bound - self.top_sum(n_components), 0.0)


@dataclass(frozen=True, eq=False)
class GrownSpace:
    """A subspace W with the images S_gW.

    Attributes
    ----------
    full : SoughtMoments
    n_held : int
        How many leading eigenvectors of a mixture W is to hold, d or more.
    basis : (p, m) array
    images : (k, p, m) array
    compressed : (k, m, m) array
        W'S_gW.
    """

    full: SoughtMoments
    n_held: int
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, MixtureWithin] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, full: SoughtMoments, n_held: int, basis: FloatArray) -> "GrownSpace":
        """The span of (p, m) orthonormal columns."""
        images = full.applied(basis)
        return cls(full, n_held, basis, images, symmetric(basis.T @ images))

    @cached_property
    def second_moments(self) -> DenseSecondMoments:
        """W'S_gW, and what lies outside of W."""
        outside = self.full.traces - np.einsum("gii->g", self.compressed)
        # The difference is good enough unless nearly everything lies within.
        if (outside <= CANCELLING * self.full.traces).any():
            outside = self.full.residual_variances(self.basis)
        return DenseSecondMoments(self.compressed, outside)

    def with_columns(self, columns: FloatArray) -> "GrownSpace":
        """The space with the span of (p, r) columns too; the same object if they add nothing."""
        room = self.basis.shape[0] - self.basis.shape[1]
        fresh = orthonormal_beside(self.basis, columns)[:, :room]
        if fresh.shape[1] == 0:
            return self
        images = self.full.applied(fresh)
        across = self.basis.T @ images
        own = symmetric(fresh.T @ images)
        rows = [[self.compressed, across], [across.transpose(0, 2, 1), own]]
        return GrownSpace(
            self.full,
            self.n_held,
            np.hstack([self.basis, fresh]),
            np.concatenate([self.images, images], axis=2),
            np.concatenate([np.concatenate(row, axis=2) for row in rows], axis=1),
        )

    def image(self, weights: FloatArray) -> FloatArray:
        """MW of the mixture sum_g weights_g S_g, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def mixture(self, weights: FloatArray) -> MixtureWithin:
        """The mixture sum_g weights_g S_g within; looked at once."""
        key = weights.tobytes()
        if key not in self._mixtures:
            compressed = np.tensordot(weights, self.compressed, axes=1)
            if len(self.compressed) <= _FEW_GROUPS:
                products = np.tensordot(weights, self._residual_products, axes=1)
                gram = np.tensordot(weights, products, axes=1)
            else:
                residual = self.image(weights) - self.basis @ compressed
                gram = residual.T @ residual
            p, m = self.basis.shape
            leading = leading_subspace(compressed, min(self.n_held, m))
            self._mixtures[key] = MixtureWithin(compressed, gram, p - m, leading)
        return self._mixtures[key]

    @cached_property
    def _residual_products(self) -> FloatArray:
        """G_g'G_h of the groups' residuals G_g = S_gW - WW'S_gW, shape (k, k, m, m)."""
        residuals = self.images - self.basis @ self.compressed
        return np.array([[left.T @ right for right in residuals] for left in residuals])

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """What the space knows of the leading eigenvectors of a mixture, shape (p, n_held)."""
        return np.asarray(self.basis @ self.mixture(weights).leading.vectors)

    def pull(self, weights: FloatArray, basis: FloatArray) -> FloatArray:
        """Directions outside of W in which a mixture pulls a basis within, in (m, d) coordinates.

        A solution with an open gap need not be made of leading eigenvectors.
        """
        image = self.image(weights) @ basis
        outside = image - self.basis @ (self.basis.T @ image)
        size = float(np.abs(weights) @ self.full.traces)
        least = max(_DIRECTION * float(np.linalg.norm(image, 2)), ROUNDING * size)
        return outside if float(np.linalg.norm(outside)) > least else outside[:, :0]


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
        self.groups = list(np.diag(1 / problem.divisors)) if losses and problem.has_matrices else []

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
                    level = min(low, self._needed(within, goal * self.problem.divisors[group]))
                    ceiling = self._by_norm(within, weights)
                    if ceiling > level:
                        ceiling = min(
                            ceiling,
                            self._by_cholesky(weights, space.basis, space.image(weights), level),
                        )
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

    def lower_bound(self, space: GrownSpace, solution: Certificate, tol: float) -> float:
        """The bound of a solution within, lowered by what the subspace may lack."""
        problem, lines, d = self.problem, solution.supporting_weights, self.problem.n_components
        # What was not bounded, as rounds ran out, may lack anything.
        slack = np.array([self.slack.get(each.tobytes(), np.inf) for each in mixtures_of(solution)])
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


def fall_of_bound(problem: Problem, space: GrownSpace, solution: Certificate) -> float:
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


def mixtures_of(solution: Certificate) -> list[FloatArray]:
    """Weights of all mixtures that the bound rests on, the last one first."""
    lines = solution.supporting_weights
    return [solution.weights, *([] if lines is None else lines)]


def coordinates_of(solution: Certificate) -> FloatArray:
    """The basis in coordinates of the subspace, shape (m, r)."""
    components = solution.components
    return retained(components) if is_soft(components) else components.T
