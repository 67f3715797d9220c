"""Search for the subspace of the largest Nash welfare.

Nash welfare is the product of the variances kept, c_g = tr(V'S_gV) for group g with second moment
S_g; the objective is minus the mean of their logarithms over the k groups. With t_d the sum of the
d largest eigenvalues, its bound: for weights w > 0, the inequality of
arithmetic and geometric means gives mean log c_g <= log(sum_g w_g c_g) - mean log w_g - log k, and
sum_g w_g c_g <= t_d(sum_g w_g S_g). With w_g = 1 / c_g it is tight if the subspace is spanned by
the leading eigenvectors of its own mixture. Otherwise the relaxed problem is solved by the
Frank-Wolfe method, whose duality gap this bound gives.
"""

import numpy as np

from fairspan.linalg.rounding import FIGURE_ROUNDING
from fairspan.problem.piecewise import AffinePieces
from fairspan.solvers.convex_programs import minimize_on_simplex
from fairspan.solvers.local_descent import Iterate
from fairspan.solvers.many_groups.searches import PrimalDualSearch
from fairspan.solvers.many_groups.starts import spread_starts, starts_from_relaxation
from fairspan.solvers.rank_reduction import reduce_rank, soft_basis
from fairspan.typing import FloatArray

# Maximum numbers of steps of the Frank-Wolfe method (up to 28 were seen), and of Newton's method
# within each of them.
_MAX_FRANK_WOLFE_STEPS = 200
_MAX_NEWTON_STEPS = 50
# Below this fraction of a group's variance the logarithm is too steep for a descent.
_MIN_CAPTURED_RATIO = 1e-6


class NashSearch(PrimalDualSearch):
    """Search for Nash welfare: minus the mean logarithm of the variances kept."""

    def run(self) -> FloatArray:
        """Descend; if a gap remains, solve the relaxation and descend again; return a basis.

        The basis is the best one of d columns or, if allowed and better, a relaxed solution.
        """
        second_moments = self.problem.second_moments
        d = self.problem.n_components
        self.descend_from(self._initial_basis())
        if self.is_closed:
            return self.best.basis
        soft = self._solve_relaxation()
        self.descend_from_all(starts_from_relaxation(soft, d))
        if not self.is_closed:
            # Where a group keeps almost nothing, the logarithm is no guide: clip it.
            traces = second_moments.traces
            min_captured = _MIN_CAPTURED_RATIO * traces
            starts = spread_starts(
                self.problem,
                lambda errors: -np.log(np.maximum(traces - errors, min_captured)).mean(axis=1),
            )
            self.descend_from_all(starts, exhaustive=True)
        # Reduce to the smallest rank, exactly d for two groups, without increasing any group's
        # error: piece g, which must not increase, is the error of group g minus its error at the
        # relaxed solution.
        identity = np.eye(second_moments.n_groups)
        pieces = AffinePieces(identity, second_moments.residual_variances(soft))
        return self.select_basis(reduce_rank(second_moments, pieces, soft))

    def _initial_basis(self) -> FloatArray:
        """Basis of the warm start or of a mixture; perturbed if a group keeps almost nothing."""
        second_moments = self.problem.second_moments
        d = self.problem.n_components
        warm_start = self.problem.warm_start
        start = None if warm_start is None else warm_start.basis_of(d)
        if start is None:
            # All groups have equal weight relative to their variance, so that none starts with no
            # variance kept.
            start = second_moments.leading(1 / second_moments.traces, d).vectors
            self.n_eigenproblems += 1
        min_captured = _MIN_CAPTURED_RATIO * second_moments.traces
        if not (second_moments.captured_variances(start) <= min_captured).any():
            return start
        # The logarithm is infinite where a group keeps nothing, and if groups vary along separate
        # axes no gradient leads away from there: perturb the start.
        noise = np.random.default_rng(0).standard_normal(start.shape)
        perturbation = noise / np.sqrt(len(start))
        return np.linalg.qr(start + perturbation)[0]

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Use the lower bound of the weights that balance the local minimum."""
        captured = self.problem.second_moments.captured_variances(local_minimum.basis)
        self._linearized_optimum(captured)

    def _linearized_optimum(self, captured: FloatArray) -> FloatArray:
        """Leading eigenvectors of the mixture with w_g = 1 / (k c_g); record its lower bound.

        They maximize the linearization of the mean logarithm at the (k,) captured variances c.
        """
        weights = 1 / (len(captured) * captured)
        d = self.problem.n_components
        leading = self.problem.second_moments.leading(weights, d)
        self.n_eigenproblems += 1
        bound = float(np.log(weights * len(weights)).mean() - np.log(leading.eigenvalue_sum))
        self.update_lower_bound(bound, weights)
        return leading.vectors

    def _solve_relaxation(self) -> FloatArray:
        """Solve the relaxed problem by the Frank-Wolfe method; return a soft (p, r) basis.

        Each step adds the projector that maximizes the linearization, and reweights all of them.
        The solution is the best convex combination of the projectors found on the way, as columns
        sqrt(lb_j) u_j from its eigenvalues and eigenvectors.
        """
        second_moments = self.problem.second_moments
        bases = [self.best.basis]
        mixture_weights = np.ones(1)
        captured = second_moments.captured_variances(bases[0])[None]
        for _ in range(_MAX_FRANK_WOLFE_STEPS):
            leading = self._linearized_optimum(mixture_weights @ captured)
            value = -float(np.log(mixture_weights @ captured).mean())
            # The objective is a logarithm, for which a relative change of variances is an absolute
            # one: the tolerance is a gap. Half of it is left for the descents that follow.
            if value - self.lower_bound <= self.tol / 2:
                break
            bases.append(leading)
            captured = np.vstack([captured, second_moments.captured_variances(leading)])
            mixture_weights = maximize_mean_log(captured, np.append(mixture_weights, 0.0))
        weighted_columns = np.hstack(
            [np.sqrt(weight) * basis for weight, basis in zip(mixture_weights, bases, strict=True)]
        )
        values, vectors = np.linalg.eigh(weighted_columns @ weighted_columns.T)
        return soft_basis(values, vectors, self.problem.n_components)


def maximize_mean_log(values: FloatArray, start: FloatArray) -> FloatArray:
    """Weights of the convex combination of atoms with the largest mean log of captured variances.

    Computed by Newton's method; each step is a quadratic program on the simplex.

    Parameters
    ----------
    values : (J, k) array
        Captured variances of each atom, here a projector; for every group, some atom has a positive
        one.
    start : (J,) array
        On the simplex, such that all combined variances are positive.

    Returns
    -------
    (J,) array
        On the simplex.
    """
    mixture_weights = start
    for _ in range(_MAX_NEWTON_STEPS):
        captured = mixture_weights @ values
        # Second-order model of -sum_g log(captured_g): its Hessian is FF', its gradient -F 1.
        factor = values / captured
        linear = -factor.sum(axis=1) - factor @ (mixture_weights @ factor)
        step = minimize_on_simplex(factor, linear, start=mixture_weights) - mixture_weights
        change = step @ factor
        # Minus the sum of logarithms is self-concordant, so a damped step stays in its domain and
        # decreases it (Nesterov and Nemirovskii 1994).
        mixture_weights = mixture_weights + step / (1 + np.linalg.norm(change))
        # If the maximizer is not unique, steps between maximizers would never stop: test the change
        # of the variances.
        if np.abs(change).max() < FIGURE_ROUNDING:
            break
    return mixture_weights
