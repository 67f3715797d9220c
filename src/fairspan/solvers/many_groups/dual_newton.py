"""Solver for any number of groups: a relaxation for the bound, local descents for the subspace.

With more than two groups, there may be no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; deciding this is NP-hard if the number of groups is part of the
input). So both sides are computed: the bound by Newton's method on the dual, and the best subspace
by local descent. Their gap is reported, and the solution is called optimal only if it is closed.

A descent also yields multipliers that balance the pieces at its subspace and prove a bound. The
remaining gap is narrowed from below by the relaxation and from above by further descents.

Nash welfare is the product of the variances kept. Its bound: for weights w > 0, the inequality of
arithmetic and geometric means gives mean log c_g <= log(sum_g w_g c_g) - mean log w_g - log k, and
sum_g w_g c_g <= t_d(sum_g w_g S_g). With w_g = 1 / c_g it is tight if the subspace is spanned by
the leading eigenvectors of its own mixture. Otherwise the relaxed problem is solved by the
Frank-Wolfe method, whose duality gap this bound gives.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver, TracePoint, certify, target_gap
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.problem import AffinePieces, Problem
from fairspan.solvers.convex_programs import minimize_on_simplex
from fairspan.solvers.exact_rank import Iterate, descend, reduce_rank, soft_basis
from fairspan.solvers.many_groups.relaxation import Relaxation
from fairspan.typing import FloatArray

# Number of consecutive unsuccessful descents after which the gap stays open; those that return to
# the best optimum count twice.
_MAX_UNSUCCESSFUL = 8
# Above this many groups descents are slow and rarely disagree: stop after fewer.
_MANY_GROUPS = 20
_MAX_UNSUCCESSFUL_MANY_GROUPS = 2
# Number of random subspaces in the span of the relaxed solution.
_N_RELAXATION_STARTS = 12
# Spread starts: their maximum number, and their minimum distance from each other, as the squared
# Frobenius distance of the projectors divided by two.
_MAX_SPREAD_STARTS = 8
_MIN_START_DISTANCE = 0.1
# With many features or groups spread starts rarely help, and a descent is slow: their number is
# this budget divided by the number of features, reduced in proportion beyond this many groups.
_SPREAD_START_BUDGET = 100.0
_FULL_BUDGET_GROUPS = 10.0
# Number of random subspaces to choose the spread starts from: minimum, maximum, and the total
# number of their entries.
_MIN_SAMPLES = 32
_MAX_SAMPLES = 2000
_SAMPLE_BUDGET = 20_000


class PrimalDualSearch:
    """Search for a subspace of exactly d dimensions that narrows an upper and a lower bound.

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
        """Keep a lower bound if it is the best so far."""
        if lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
            self.weights = weights

    def update_best(self, point: Iterate) -> None:
        """Keep a point if it is the best so far, and record the bounds in the trace."""
        if point.value < self.upper_bound:
            self.best = point
            self.upper_bound = point.value
            self.target_gap = self.target_gap_at(point)
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower_bound, self.upper_bound))

    def target_gap_at(self, point: Iterate) -> float:
        """Absolute gap to reach at a point."""
        return target_gap(self.problem, point.errors, self.tol)

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Use the lower bound that a new best subspace proves, if any (hook)."""

    def descend_from(self, start: FloatArray) -> float:
        """Descend from a subspace, keep its local minimum if it is the best; return the value."""
        local_minimum, n_steps = descend(self.problem, start)
        self.n_eigenproblems += n_steps
        if local_minimum.value < self.upper_bound:
            self.on_improvement(local_minimum)
        self.update_best(local_minimum)
        return local_minimum.value

    def select_basis(self, soft: FloatArray) -> FloatArray:
        """Return the best basis so far, or a soft basis if it is better and allowed."""
        problem = self.problem
        is_allowed = problem.allow_extra or soft.shape[1] == problem.n_components
        if self.is_closed or not is_allowed:
            return self.best.basis
        is_better = problem.objective(soft) < self.upper_bound
        return soft if is_better else self.best.basis

    def descend_from_all(self, starts: Iterable[FloatArray], *, exhaustive: bool = False) -> None:
        """Descend from several starts until the gap is closed or too many are unsuccessful.

        Parameters
        ----------
        starts : iterable of (p, d) arrays
        exhaustive : bool
            Whether to use all starts.
        """
        has_many_groups = self.problem.n_groups > _MANY_GROUPS
        patience = _MAX_UNSUCCESSFUL_MANY_GROUPS if has_many_groups else _MAX_UNSUCCESSFUL
        n_unsuccessful = 0
        for start in starts:
            if self.is_closed or (n_unsuccessful >= patience and not exhaustive):
                return
            previous_best = self.upper_bound
            value = self.descend_from(start)
            # Returning to the best optimum is stronger evidence than ending elsewhere.
            n_unsuccessful += 2 if value <= previous_best + self.target_gap else 1
            if value < previous_best - self.target_gap:
                n_unsuccessful = 0


def starts_from_relaxation(soft: FloatArray, n_components: int) -> Iterator[FloatArray]:
    """Yield leading eigenvectors of a relaxed solution P, and random subspaces of its span.

    The eigenvectors may be a saddle point, where a descent stops immediately: if groups vary along
    separate axes, every choice of axes is one.

    Parameters
    ----------
    soft : (p, r) array
        Columns sqrt(lb_j) u_j, of P = sum_j lb_j u_j u_j'.
    n_components : int
    """
    eigenvalues, vectors = np.linalg.eigh(soft @ soft.T)
    eigenvalues = np.clip(eigenvalues[::-1], 0, 1)
    vectors = vectors[:, ::-1]
    yield vectors[:, :n_components]
    # Fixed seed, for reproducible results.
    rng = np.random.default_rng(0)
    for _ in range(_N_RELAXATION_STARTS):
        sample = rng.standard_normal((len(eigenvalues), n_components))
        yield np.linalg.qr((vectors * np.sqrt(eigenvalues)) @ sample)[0]


def spread_starts(
    problem: Problem, values_at: Callable[[FloatArray], FloatArray]
) -> list[FloatArray]:
    """Subspaces spread over the Grassmannian, the best of a random sample, to descend from.

    With few features the sample is dense. The seed is fixed, for reproducible results.

    Parameters
    ----------
    problem : Problem
    values_at : callable
        Maps errors (n, k) to values of the criterion (n,).
    """
    p = problem.n_features
    d = problem.n_components
    budget_fraction = min(1.0, _FULL_BUDGET_GROUPS / problem.n_groups)
    n_starts = min(int(budget_fraction * _SPREAD_START_BUDGET / p), _MAX_SPREAD_STARTS)
    selected: list[FloatArray] = []
    if n_starts == 0:
        return selected
    n_samples = int(np.clip(_SAMPLE_BUDGET // (p * d), _MIN_SAMPLES, _MAX_SAMPLES))
    samples = np.linalg.qr(np.random.default_rng(0).standard_normal((n_samples, p, d)))[0]
    # Captured variances; cancellation does not matter here.
    columns = samples.transpose(1, 0, 2).reshape(p, -1)
    captured = np.einsum("pn,gpn->gn", columns, problem.second_moments.apply(columns))
    errors = problem.second_moments.traces - captured.reshape(-1, n_samples, d).sum(axis=2).T
    values = values_at(errors)
    for basis in samples[np.argsort(values, kind="stable")]:
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        distances = [d - float(np.sum((basis.T @ other) ** 2)) for other in selected]
        if all(distance > _MIN_START_DISTANCE for distance in distances):
            selected.append(basis)
        if len(selected) == n_starts:
            break
    return selected


# Fraction of the target gap to which the relaxation is solved; it converges so fast that this costs
# one step.
_RELAXATION_TARGET_FRACTION = 1e-3
# Times the relaxation is solved again after the target gap has shrunk.
_MAX_RELAXATION_RUNS = 3
# Relative rounding error of a piece.
_PIECE_ROUNDING = 1e-15
# Random starts for the robust error gap, in addition to the groups' optima and the relaxed
# solution.
_N_ROBUST_RANDOM_STARTS = 2


@dataclass(frozen=True)
class DualNewton(Solver):
    """Solver for any number of groups and every criterion but equal error, with a proven bound.

    Piecewise linear criteria: the dual is solved first, by Newton steps whose model treats the
    eigenvalues around the cut as a cluster (:mod:`fairspan.solvers.many_groups.relaxation`); if a
    gap remains, local descents follow from its solution. With `allow_extra` the relaxed solution
    itself is returned if no subspace of exactly d components attains its value, with at most d +
    floor(sqrt(2 k + 1/4) - 3/2) dimensions. The robust error gap uses the bound of the error gap;
    Nash welfare has its own relaxation (:mod:`fairspan.solvers.many_groups.dual_newton`).

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import DualNewton, FairPCA
    >>> X = np.array([[2.0, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "c", "c"]
    >>> fair = FairPCA(1, solver=DualNewton()).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(3), fair.solution_.status.value
    (array([2.667, 2.667, 2.667]), 'optimal')
    """

    name: ClassVar[str] = "dual_newton"

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        if problem.criterion.requires_equal_errors:
            return "equal errors are supported by 'boundary' only, for one or two groups"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Find a subspace with a small objective, and a bound.

        Parameters
        ----------
        problem : Problem
        tol : float
            Relative gap to reach.
        random_state : object
            Ignored: random starts use a fixed seed.

        Returns
        -------
        Certificate
        """
        search: PiecewiseSearch | RobustSearch | NashSearch
        if problem.pieces is not None:
            search = PiecewiseSearch(problem, tol)
        elif problem.criterion.has_concave_scores:
            search = RobustSearch(problem, tol)
        else:
            search = NashSearch(problem, tol)
        return certify(
            problem,
            search.run(),
            search.weights,
            tol=tol,
            n_eigenproblems=search.n_eigenproblems,
            trace=search.trace,
            solver=self.name,
        )


class RobustSearch(PrimalDualSearch):
    """Search for the robust error gap of more than two groups, bounded by that of the error gap.

    The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g), and the
    error gap with the same penalty is the largest of sum_g v_g e_g. Since h(v, e, eps) >= v e, no
    subspace has a robust error gap below its error gap, which is at least what the dual of the
    error gap proves. For v >= 0, v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps,
    0 <= sqrt(e) - sqrt(eps) <= sqrt(e), so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps,
    h = 0 >= v e. The bound ignores the radii, so the gap usually stays open.
    """

    def run(self) -> FloatArray:
        """Descend from ordinary PCA, the relaxed solution and further starts; return a basis."""
        problem = self.problem
        pooled_basis = problem.pooled_optimum.vectors
        error_gap_pieces = ErrorGap(cast(ErrorGap, problem.criterion).penalty).pieces(problem)
        relaxation = Relaxation(problem, cast(AffinePieces, error_gap_pieces))
        self.descend_from(pooled_basis)
        relaxation.solve(self.target_gap / 2)
        self.update_lower_bound(relaxation.lower_bound, relaxation.weights)
        self.n_eigenproblems += 1 + problem.n_groups + relaxation.n_eigenproblems
        starts = [next(starts_from_relaxation(relaxation.best_relaxed.basis, problem.n_components))]
        starts.append(relaxation.best_subspace.basis)
        starts += [optimum.vectors for optimum in problem.group_optima]
        rng = np.random.default_rng(0)
        for _ in range(_N_ROBUST_RANDOM_STARTS):
            starts.append(np.linalg.qr(rng.standard_normal(pooled_basis.shape))[0])
        self.descend_from_all(starts, exhaustive=True)
        return self.best.basis


class PiecewiseSearch(PrimalDualSearch):
    """Search for a sum of maxima of affine pieces."""

    def run(self) -> FloatArray:
        """Solve the relaxation; if a gap remains, descend from its solution and further starts."""
        problem = self.problem
        pieces = cast(AffinePieces, self.problem.pieces)
        self.relaxation = relaxation = Relaxation(problem, pieces)
        # Half of the gap is left for the descent. The value decreases on the way, and the target
        # gap with it.
        for _ in range(_MAX_RELAXATION_RUNS):
            point = Iterate.from_basis(problem, relaxation.best_subspace.basis)
            target = self.target_gap_at(point)
            if relaxation.gap > target / 2:
                relaxation.solve(_RELAXATION_TARGET_FRACTION * target)
        self.n_eigenproblems = relaxation.n_eigenproblems
        self.update_lower_bound(relaxation.lower_bound, relaxation.weights)
        basis = relaxation.best_subspace.basis
        self.update_best(Iterate.from_basis(problem, basis, relaxation.multipliers))
        if self.is_closed:
            # If a soft projection closed the gap first, a descent makes the subspace more accurate.
            if self.upper_bound - self.lower_bound > _RELAXATION_TARGET_FRACTION * self.target_gap:
                self.descend_from(self.best.basis)
            return self.best.basis
        # With two groups the reduced relaxed solution has exactly d dimensions.
        soft = reduce_rank(problem.second_moments, pieces, relaxation.best_relaxed.basis)
        if soft.shape[1] == problem.n_components:
            self.descend_from(soft)
        starts = starts_from_relaxation(relaxation.best_relaxed.basis, problem.n_components)
        self.descend_from_all([*starts, problem.pooled_optimum.vectors])
        if not self.is_closed:
            spread = spread_starts(problem, self._values_at)
            self.descend_from_all(spread, exhaustive=True)
        return self.select_basis(soft)

    def _values_at(self, errors: FloatArray) -> FloatArray:
        """Values of the criterion (n,) at errors (n, k)."""
        pieces = cast(AffinePieces, self.problem.pieces)
        return np.asarray(pieces.blocks.maxima(pieces.piece_values(errors)).sum(axis=1))

    def target_gap_at(self, point: Iterate) -> float:
        """Absolute gap to reach: relative to the value, but no less than the rounding error."""
        magnitude = cast(AffinePieces, self.problem.pieces).magnitude(point.errors)
        value = max(min(point.value, self.relaxation.upper_bound), self.relaxation.lower_bound)
        return max(self.tol / 2 * abs(value), _PIECE_ROUNDING * magnitude)

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Use the lower bound of the local minimum's multipliers."""
        self.relaxation.evaluate_dual(local_minimum.multipliers)
        self.n_eigenproblems += 1
        self.update_lower_bound(self.relaxation.lower_bound, self.relaxation.weights)


# Maximum numbers of steps of the Frank-Wolfe method (up to 28 were seen), and of Newton's method
# within each of them.
_MAX_FRANK_WOLFE_STEPS = 200
_MAX_NEWTON_STEPS = 50
# Changes of a mean logarithm below this are negligible.
_LOG_ROUNDING = 1e-14
# Below this fraction of a group's variance the logarithm is too steep for a descent.
_MIN_CAPTURED_RATIO = 1e-6


class NashSearch(PrimalDualSearch):
    """Search for Nash welfare: minus the mean logarithm of the variances kept."""

    def run(self) -> FloatArray:
        """Descend; if a gap remains, solve the relaxation and descend again; return a basis."""
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
        # error.
        identity = np.eye(second_moments.n_groups)
        pieces = AffinePieces(identity, second_moments.residual_variances(soft))
        return self.select_basis(reduce_rank(second_moments, pieces, soft))

    def _initial_basis(self) -> FloatArray:
        """Basis of the warm start, or one that keeps some variance of every group."""
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
        # If groups vary along separate axes the logarithm may have no gradient: perturb the start.
        noise = np.random.default_rng(0).standard_normal(start.shape)
        perturbation = noise / np.sqrt(len(start))
        return np.linalg.qr(start + perturbation)[0]

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Use the lower bound of the weights that balance the local minimum."""
        captured = self.problem.second_moments.captured_variances(local_minimum.basis)
        self._linearized_optimum(captured)

    def _linearized_optimum(self, captured: FloatArray) -> FloatArray:
        """Leading eigenvectors of the mixture with w_g = 1 / (k c_g); record its lower bound."""
        weights = 1 / (len(captured) * captured)
        d = self.problem.n_components
        leading = self.problem.second_moments.leading(weights, d)
        self.n_eigenproblems += 1
        bound = float(np.log(weights * len(weights)).mean() - np.log(leading.eigenvalue_sum))
        self.update_lower_bound(bound, weights)
        return leading.vectors

    def _solve_relaxation(self) -> FloatArray:
        """Solve the relaxed problem by the Frank-Wolfe method, shape (p, r).

        The solution is a convex combination of the projectors found on the way.
        """
        second_moments = self.problem.second_moments
        bases = [self.best.basis]
        mixture_weights = np.ones(1)
        captured = second_moments.captured_variances(bases[0])[None]
        for _ in range(_MAX_FRANK_WOLFE_STEPS):
            leading = self._linearized_optimum(mixture_weights @ captured)
            value = -float(np.log(mixture_weights @ captured).mean())
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
    """Convex combination of atoms with the largest mean log of captured variances.

    Computed by Newton's method.

    Parameters
    ----------
    values : (J, k) array
        Captured variances of each atom; for every group, some atom has a positive one.
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
        factor = values / captured
        linear = -factor.sum(axis=1) - factor @ (mixture_weights @ factor)
        step = minimize_on_simplex(factor, linear, start=mixture_weights) - mixture_weights
        change = step @ factor
        # Minus the sum of logarithms is self-concordant, so a damped step stays in its domain and
        # decreases it (Nesterov and Nemirovskii 1994).
        mixture_weights = mixture_weights + step / (1 + np.linalg.norm(change))
        # If the maximizer is not unique, steps between maximizers would never stop: test the change
        # of the variances.
        if np.abs(change).max() < _LOG_ROUNDING:
            break
    return mixture_weights
