"""Searches for many groups: alternate between the relaxation and local descents.

A descent yields a subspace, and multipliers that balance the pieces there and prove a bound. The
remaining gap is narrowed from below by the relaxation and from above by further descents.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.error_rounding import target_gap
from fairspan.linalg.rounding import VALUE_ROUNDING
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.problem import Problem
from fairspan.solvers.local_descent import Iterate, descend
from fairspan.solvers.many_groups.leading_span import LeadingSpan
from fairspan.solvers.many_groups.relaxation import Relaxation
from fairspan.solvers.many_groups.starts import spread_starts, starts_from_relaxation
from fairspan.solvers.rank_reduction import reduce_rank
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class _DescentLimits:
    """Limits of the number of descents and relaxations of a search.

    Attributes
    ----------
    max_unsuccessful : int
        Consecutive unsuccessful descents after which the gap stays open; those that return to the
        best optimum count twice.
    many_groups : int
        Number of groups above which descents are slow and rarely disagree.
    max_unsuccessful_many_groups : int
        Unsuccessful descents allowed for so many groups.
    relaxation_target_fraction : float
        Fraction of the target gap to which the relaxation is solved; it converges so fast that this
        costs one step.
    negligible_fraction : float
        Fraction of the target gap that is not worth another step of a descent. The last step, whose
        predicted decrease is smaller, is still taken and leaves about the square of that.
    max_relaxation_runs : int
        Times the relaxation is solved again after the target gap has shrunk.
    n_robust_random_starts : int
        Random starts for the robust error gap, in addition to the groups' optima and the relaxed
        solution.
    """

    max_unsuccessful: int = 8
    many_groups: int = 20
    max_unsuccessful_many_groups: int = 2
    relaxation_target_fraction: float = 1e-3
    negligible_fraction: float = 1e-3
    max_relaxation_runs: int = 3
    n_robust_random_starts: int = 2


_LIMITS = _DescentLimits()


class PrimalDualSearch:
    """Search for a subspace of exactly d dimensions that narrows an upper and a lower bound.

    Subclasses implement `run`, which returns the best basis.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap to reach.

    Attributes
    ----------
    best : Iterate
        Best subspace so far, found by descents.
    upper_bound, lower_bound : float
        Its value, and the best lower bound on the value of every subspace.
    target_gap : float
        Absolute gap to reach.
    weights : (k,) array
        Weights that prove the lower bound.
    n_eigenproblems : int
        Number of eigenproblems solved so far.
    """

    best: Iterate
    weights: FloatArray

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem = problem
        self.tol = tol
        self.upper_bound = np.inf
        self.lower_bound = -np.inf
        self.target_gap = np.inf
        self.n_eigenproblems = 0
        self.trace: list[TracePoint] = []

    @property
    def is_closed(self) -> bool:
        """Whether the gap between the bounds is closed."""
        return self.upper_bound - self.lower_bound <= self.target_gap

    def update_lower_bound(self, lower_bound: float, weights: FloatArray) -> None:
        """Keep a lower bound, with the (k,) weights that prove it, if it is the best so far."""
        if lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
            self.weights = weights

    def update_best(self, point: Iterate) -> None:
        """Keep a point, and its target gap, if it is the best so far; record the bounds."""
        if point.value < self.upper_bound:
            self.best = point
            self.upper_bound = point.value
            self.target_gap = self.target_gap_at(point)
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower_bound, self.upper_bound))

    def target_gap_at(self, point: Iterate) -> float:
        """Absolute gap to reach at a point."""
        return target_gap(self.problem, point.errors, self.tol)

    @property
    def negligible_decrease(self) -> float:
        """Decrease that is not worth another step of a descent; zero without a subspace so far."""
        if not np.isfinite(self.target_gap):
            return 0.0
        return _LIMITS.negligible_fraction * self.target_gap

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Update the lower bound by what a new best subspace proves; a hook for subclasses."""

    def descend_from(self, start: FloatArray) -> float:
        """Descend from a subspace, keep its local minimum if it is the best; return the value."""
        negligible = self.negligible_decrease
        goal = self.lower_bound + negligible
        local_minimum, n_steps = descend(self.problem, start, negligible, goal)
        self.n_eigenproblems += n_steps
        if local_minimum.value < self.upper_bound:
            self.on_improvement(local_minimum)
        self.update_best(local_minimum)
        return local_minimum.value

    def select_basis(self, soft: FloatArray) -> FloatArray:
        """Return the best basis so far, or a soft (p, r) basis if it is better and allowed.

        A soft basis (columns of a relaxed solution) is allowed if it has d columns, and hence is
        orthonormal, or if the problem allows extra dimensions.
        """
        problem = self.problem
        is_allowed = problem.allow_extra or soft.shape[1] == problem.n_components
        if self.is_closed or not is_allowed:
            return self.best.basis
        is_better = problem.objective(soft) < self.upper_bound
        return soft if is_better else self.best.basis

    def descend_from_all(self, starts: Iterable[FloatArray], *, exhaustive: bool = False) -> None:
        """Descend from several starts until the gap is closed or too many are unsuccessful.

        A descent is successful if it improves the best value by more than the target gap.

        Parameters
        ----------
        starts : iterable of (p, d) arrays
        exhaustive : bool
            Whether to use all starts however many are unsuccessful, unless the gap is closed.
        """
        has_many_groups = self.problem.n_groups > _LIMITS.many_groups
        patience = (
            _LIMITS.max_unsuccessful_many_groups if has_many_groups else _LIMITS.max_unsuccessful
        )
        n_unsuccessful = 0
        for start in starts:
            if self.is_closed or (n_unsuccessful >= patience and not exhaustive):
                return
            previous_best = self.upper_bound
            value = self.descend_from(start)
            # Returning to the best optimum suggests more than ending elsewhere that no better one
            # will be found, so it counts twice.
            n_unsuccessful += 2 if value <= previous_best + self.target_gap else 1
            if value < previous_best - self.target_gap:
                n_unsuccessful = 0


class RobustSearch(PrimalDualSearch):
    """Search for the largest of concave scores of more than two groups, bounded by their minorant.

    The minorant is a sum of maxima of affine functions that is nowhere above the criterion, so no
    subspace has a value below what the dual of the minorant proves. Where the two differ, the gap
    usually stays open.

    The minorant of the robust error gap is the error gap with the same penalty. With v_g the
    coefficient of the error e_g of group g for a pair of groups and eps_g its radius, let
    h(v, e, eps) be v (sqrt(e) + sqrt(eps))^2 for v >= 0, and v max(sqrt(e) - sqrt(eps), 0)^2
    otherwise. The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g),
    and the error gap the largest of sum_g v_g e_g. In each term h(v, e, eps) >= v e: for v >= 0,
    v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps, 0 <= sqrt(e) - sqrt(eps) <= sqrt(e),
    so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps, h = 0 >= v e.
    """

    def run(self) -> FloatArray:
        """Descend from ordinary PCA, the relaxed solution and further starts; return a basis.

        The minorant is a piecewise linear function of the errors that is nowhere above the
        criterion. Its relaxation, which is convex, gives a lower bound, and good starts.
        """
        problem = self.problem
        pooled_basis = problem.pooled_optimum.vectors
        criterion = cast(ConcaveScoresCriterion, problem.criterion)
        relaxation = Relaxation(problem, criterion.affine_minorant(problem))
        self.descend_from(pooled_basis)
        # The descent has set the target gap; the relaxation may use half of it.
        relaxation.solve(self.target_gap / 2)
        self.update_lower_bound(relaxation.lower_bound, relaxation.weights)
        # Ordinary PCA and the optimum of each group take one eigenproblem each.
        self.n_eigenproblems += 1 + problem.n_groups + relaxation.n_eigenproblems
        starts = [next(starts_from_relaxation(relaxation.best_relaxed.basis, problem.n_components))]
        starts.append(relaxation.best_subspace.basis)
        starts += [optimum.vectors for optimum in problem.group_optima]
        rng = np.random.default_rng(0)
        for _ in range(_LIMITS.n_robust_random_starts):
            starts.append(np.linalg.qr(rng.standard_normal(pooled_basis.shape))[0])
        # All of these few starts: the gap usually stays open, and the best value is sought.
        self.descend_from_all(starts, exhaustive=True)
        return self.best.basis


class PiecewiseSearch(PrimalDualSearch):
    """Search for a sum of maxima of affine pieces."""

    # Least value that a descent within the leading span ended at.
    _best_value_in_span: float = np.inf

    def run(self) -> FloatArray:
        """Solve the relaxation; if a gap remains, descend from its solution and further starts.

        The relaxation admits every P = sum_j lb_j u_j u_j' with orthonormal u_j, lb_j in [0, 1] and
        trace d (a soft projection), given by its soft basis, the columns sqrt(lb_j) u_j. Returns
        the best basis of d columns or, if allowed and better, such a soft basis.
        """
        problem = self.problem
        pieces = cast(AffinePieces, self.problem.pieces)
        relaxation = Relaxation(problem, pieces)
        self.relaxation = relaxation
        # Half of the gap is left for the descent. The value decreases on the way, and the target
        # gap with it, so the gap reached may be too large for the new target: solve again.
        relaxation_target = self._solve_relaxation(relaxation)
        self.n_eigenproblems = relaxation.n_eigenproblems
        self.update_lower_bound(relaxation.lower_bound, relaxation.weights)
        basis = relaxation.best_subspace.basis
        self.update_best(Iterate.from_basis(problem, basis, relaxation.multipliers))
        if self.is_closed:
            # The relaxation stops once any solution is close to its bound. If that was a soft
            # projection, its best subspace may be less so: a descent makes it more accurate.
            accurate_gap = _LIMITS.relaxation_target_fraction * self.target_gap
            if self.upper_bound - self.lower_bound > max(accurate_gap, relaxation_target):
                self.descend_from(self.best.basis)
            return self.best.basis
        # The relaxed solution with as few columns as its value allows: exactly d with two groups.
        soft = reduce_rank(problem.second_moments, pieces, relaxation.best_relaxed.basis)
        if soft.shape[1] == problem.n_components:
            self.descend_from(soft)
        self.descend_from_all(self._starts(relaxation.best_relaxed.basis))
        if not self.is_closed:
            # The last resort, so all of these starts are used until the gap is closed.
            spread = spread_starts(problem, self._values_at)
            self.descend_from_all(spread, exhaustive=True)
        # The soft basis if it is better than all descents and the problem allows its columns.
        return self.select_basis(soft)

    def _solve_relaxation(self, relaxation: Relaxation) -> float:
        """Solve the relaxation up to half of the target gap; return the gap that it aimed for.

        The result is zero if its first bound is close enough.
        """
        relaxation_target = 0.0
        for _ in range(_LIMITS.max_relaxation_runs):
            point = Iterate.from_basis(self.problem, relaxation.best_subspace.basis)
            target = self.target_gap_at(point)
            gap = relaxation.gap
            if gap <= target / 2:
                break
            relaxation_target = _LIMITS.relaxation_target_fraction * target
            relaxation.solve(relaxation_target)
            if relaxation.gap == gap:
                break
        return relaxation_target

    @cached_property
    def _leading_span(self) -> LeadingSpan | None:
        """Leading eigenvectors of the mixture that proves the bound; None for few features."""
        if not LeadingSpan.pays_off(self.problem):
            return None
        eigen_cache = self.problem.dense_moments.eigen_cache
        eigenvectors = eigen_cache.decomposition(self.relaxation.weights).vectors
        return LeadingSpan.from_eigenvectors(self.problem, eigenvectors)

    def descend_from(self, start: FloatArray) -> float:
        """Descend from a subspace, with many features first within a few leading eigenvectors.

        Keeps the local minimum if it is the best, and returns its value. No descent in all features
        follows if the one within the span does not improve on earlier ones; the value returned is
        then as far from the best one as within the span.
        """
        span = self._leading_span
        if span is None:
            return super().descend_from(start)
        negligible = self.negligible_decrease
        goal = self.lower_bound + negligible
        minimum_in_span, n_steps = span.descend(start, negligible, goal)
        self.n_eigenproblems += n_steps
        excess = minimum_in_span.value - self._best_value_in_span
        if excess > -self.target_gap:
            return self.upper_bound + excess
        self._best_value_in_span = minimum_in_span.value
        point = span.lift(minimum_in_span, self.problem)
        self.update_best(point)
        if self.is_closed:
            return point.value
        return super().descend_from(point.basis)

    def _starts(self, soft: FloatArray) -> Iterator[FloatArray]:
        """Yield starts from a relaxed (p, r) solution, and then ordinary PCA.

        Each is computed when it is needed: usually the first descent closes the gap.
        """
        yield from starts_from_relaxation(soft, self.problem.n_components)
        yield self.problem.pooled_optimum.vectors

    def _values_at(self, errors: FloatArray) -> FloatArray:
        """Values of the criterion (n,) at errors (n, k)."""
        pieces = cast(AffinePieces, self.problem.pieces)
        return np.asarray(pieces.blocks.maxima(pieces.piece_values(errors)).sum(axis=1))

    def target_gap_at(self, point: Iterate) -> float:
        """Absolute gap to reach: relative to the value, but no less than the rounding error."""
        magnitude = cast(AffinePieces, self.problem.pieces).magnitude(point.errors)
        value = max(min(point.value, self.relaxation.upper_bound), self.relaxation.lower_bound)
        return max(self.tol / 2 * abs(value), VALUE_ROUNDING * magnitude)

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Update the lower bound by what the multipliers of the local minimum prove."""
        self.relaxation.evaluate_dual(local_minimum.multipliers)
        self.n_eigenproblems += 1
        self.update_lower_bound(self.relaxation.lower_bound, self.relaxation.weights)
