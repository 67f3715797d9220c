"""Any number of groups: the relaxation for the bound, descents for the subspace.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by Newton's method on the dual, and the best
subspace, by descent. Their gap is reported; it is called optimal only if it is closed.

The descent finds multipliers too, which balance the pieces at its subspace and prove a bound. The
gap they leave is narrowed by the relaxation from below and by further descents from above.

Nash welfare is the product of the captured variances. Its bound: for weights w > 0 the inequality
of arithmetic and geometric means gives mean log c_g <= log(sum_g w_g c_g) - mean log w_g - log k,
and sum_g w_g c_g <= t_d(sum_g w_g S_g). With w_g = 1 / c_g it is tight wherever the subspace leads
its own mixture. If it does not, the relaxed problem is solved by the method of Frank and Wolfe,
whose gap this bound is.
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

# Descents in a row that bring nothing, after which a gap is left open; those that lead to the best
# optimum again count twice.
_MAX_UNSUCCESSFUL = 8
# Of so many groups a descent takes long, and its end tells nearly all.
_MANY_GROUPS, _MAX_UNSUCCESSFUL_MANY_GROUPS = 20, 2
# How many random subspaces in the span of the relaxed solution are tried.
_N_RELAXATION_STARTS = 12
# Further starts: so many, this far apart, of so many that are drawn, with so many numbers in all.
_MAX_SPREAD_STARTS, _MIN_START_DISTANCE = 8, 0.1
# In many features, or of many groups, they find next to nothing, and a descent takes long: so many
# over the number of features, and less in proportion beyond so many groups.
_SPREAD_START_BUDGET, _FULL_BUDGET_GROUPS = 100.0, 10.0
_MIN_SAMPLES, _MAX_SAMPLES, _SAMPLE_BUDGET = 32, 2000, 20_000


class PrimalDualSearch:
    """Bounds from both sides, narrowed from above by descents at exactly d components.

    Parameters
    ----------
    problem : Problem
    share : float
        The gap to reach, as a share of the value.

    Attributes
    ----------
    best : Point
        The best subspace so far.
    upper, lower : float
        Its value, and the best bound: no subspace has a smaller value.
    tolerance : float
        The gap to reach, absolute.
    weights : (k,) array
        Those that prove the bound.
    n_eigenproblems : int
        How many were solved so far.
    """

    best: Iterate
    weights: FloatArray

    def __init__(self, problem: Problem, share: float) -> None:
        self.problem, self.tol = problem, share
        self.upper_bound, self.lower_bound, self.target_gap, self.n_eigenproblems = (
            np.inf,
            -np.inf,
            np.inf,
            0,
        )
        self.trace: list[TracePoint] = []

    @property
    def is_closed(self) -> bool:
        """Whether exactly d components reach the bound."""
        return self.upper_bound - self.lower_bound <= self.target_gap

    def update_lower_bound(self, lower: float, weights: FloatArray) -> None:
        """Take a bound if it is the best so far."""
        if lower > self.lower_bound:
            self.lower_bound, self.weights = lower, weights

    def update_best(self, point: Iterate) -> None:
        """Take a point if it is the best so far, and add the bounds to the trace."""
        if point.value < self.upper_bound:
            self.best, self.upper_bound = point, point.value
            self.target_gap = self.target_gap_at(point)
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower_bound, self.upper_bound))

    def target_gap_at(self, point: Iterate) -> float:
        """The gap to reach at a point, absolute."""
        return target_gap(self.problem, point.errors, self.tol)

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Take what a new best subspace proves, if anything."""

    def descend_from(self, start: FloatArray) -> float:
        """Take the local optimum below a subspace if it is the best, and return its value."""
        local_minimum, n_steps = descend(self.problem, start)
        self.n_eigenproblems += n_steps
        if local_minimum.value < self.upper_bound:
            self.on_improvement(local_minimum)
        self.update_best(local_minimum)
        return local_minimum.value

    def select_basis(self, soft: FloatArray) -> FloatArray:
        """The best basis, or a soft one if it is better and may have so many dimensions."""
        problem = self.problem
        is_allowed = problem.allow_extra or soft.shape[1] == problem.n_components
        is_better = is_allowed and not self.is_closed and problem.objective(soft) < self.upper_bound
        return soft if is_better else self.best.basis

    def descend_from_all(self, starts: Iterable[FloatArray], *, exhaustive: bool = False) -> None:
        """Descend from one after another until the gap is closed, or several brought nothing.

        Parameters
        ----------
        starts : iterable of (p, d) arrays
        patiently : bool
            Whether to go on all the same.
        """
        patience = (
            _MAX_UNSUCCESSFUL
            if self.problem.n_groups <= _MANY_GROUPS
            else _MAX_UNSUCCESSFUL_MANY_GROUPS
        )
        n_unsuccessful = 0
        for start in starts:
            if self.is_closed or (n_unsuccessful >= patience and not exhaustive):
                return
            best = self.upper_bound
            value = self.descend_from(start)
            # That many lead to the same optimum tells more than that they lead elsewhere.
            n_unsuccessful += 2 if value <= best + self.target_gap else 1
            if value < best - self.target_gap:
                n_unsuccessful = 0


def starts_from_relaxation(soft: FloatArray, n_components: int) -> Iterator[FloatArray]:
    """Leading eigenvectors of a relaxed solution P, and random subspaces in its span.

    The eigenvectors may be a saddle point, at which a descent stops at once: where groups vary
    along axes of their own, every choice of axes is one.

    Parameters
    ----------
    soft : (p, r) array
        Columns sqrt(lb_j) u_j, of P = sum_j lb_j u_j u_j'.
    n_components : int
    """
    captured, vectors = np.linalg.eigh(soft @ soft.T)
    captured, vectors = np.clip(captured[::-1], 0, 1), vectors[:, ::-1]
    yield vectors[:, :n_components]
    # Seeded, so that the same input gives the same answer.
    rng = np.random.default_rng(0)
    for _ in range(_N_RELAXATION_STARTS):
        samples = rng.standard_normal((len(captured), n_components))
        yield np.linalg.qr((vectors * np.sqrt(captured)) @ samples)[0]


def spread_starts(
    problem: Problem, values_at: Callable[[FloatArray], FloatArray]
) -> list[FloatArray]:
    """Subspaces for a gap that is still open: the best of many that are spread over all of them.

    In few features the many leave little between them. The sequence is fixed, so that the same
    input gives the same answer.

    Parameters
    ----------
    problem : Problem
    values_at : callable
        Values of the criterion (n,) at errors (n, k).
    """
    p, d = problem.n_features, problem.n_components
    few_groups = min(1.0, _FULL_BUDGET_GROUPS / problem.n_groups)
    n_starts = min(int(few_groups * _SPREAD_START_BUDGET / p), _MAX_SPREAD_STARTS)
    selected = list[FloatArray]()
    if n_starts == 0:
        return selected
    n_samples = int(np.clip(_SAMPLE_BUDGET // (p * d), _MIN_SAMPLES, _MAX_SAMPLES))
    samples = np.linalg.qr(np.random.default_rng(0).standard_normal((n_samples, p, d)))[0]
    # What each captures of a group; digits that cancel do not matter here.
    columns = samples.transpose(1, 0, 2).reshape(p, -1)
    captured = np.einsum("pn,gpn->gn", columns, problem.second_moments.apply(columns))
    errors = problem.second_moments.traces - captured.reshape(-1, n_samples, d).sum(axis=2).T
    values = values_at(errors)
    for basis in samples[np.argsort(values, kind="stable")]:
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        if all(
            d - float(np.sum((basis.T @ other) ** 2)) > _MIN_START_DISTANCE for other in selected
        ):
            selected.append(basis)
        if len(selected) == n_starts:
            break
    return selected


# The relaxation converges so fast that this share of the tolerance takes one step more.
_RELAXATION_TARGET_SHARE = 1e-3
# How often the relaxation is solved anew for a gap that is smaller than was thought at first.
_MAX_RELAXATION_RUNS = 3
# A few roundings of the errors in a piece.
_PIECE_ROUNDING = 1e-15
# Of the robust error gap, beside the groups' own optima and the relaxed one.
_N_ROBUST_RANDOM_STARTS = 2


@dataclass(frozen=True)
class DualNewton(Solver):
    """Solver for every criterion but equal error and any number of groups, with a proven gap.

    Notes
    -----
    Piecewise linear criteria: the dual first, by Newton steps whose model holds the eigenvalues
    around the cut as a block (:mod:`fairspan.solvers.many_groups.relaxation`); then, if a gap
    remains, descents from its result. With `allow_extra` the relaxed solution itself is returned if
    exactly d components do not reach it, at d + floor(sqrt(2 k + 1/4) - 3/2) dimensions at most.
    The robust error gap takes the bound of the error gap; Nash welfare has a relaxation of its own
    (:mod:`fairspan.solvers.many_groups.dual_newton`).

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
        """Why it cannot take this problem; None if it can."""
        if problem.criterion.requires_equal_errors:
            return "equal errors are made for one or two groups alone, by 'boundary'"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Find a subspace with a small objective, and a bound.

        Parameters
        ----------
        problem : Problem
        tol : float
            The gap to reach, as a share of the objective.
        random_state : object
            Not used: starts are taken from a fixed sequence.

        Returns
        -------
        Certificate
        """
        kind: type[PiecewiseSearch | RobustSearch | NashSearch] = PiecewiseSearch
        if problem.pieces is None:
            kind = RobustSearch if problem.criterion.has_concave_scores else NashSearch
        search = kind(problem, tol)
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
    """The robust error gap of more than two groups: descents, and the error gap's dual as bound.

    The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g), and the
    error gap with the same penalty is the largest of sum_g v_g e_g. Since h(v, e, eps) >= v e, no
    subspace has a robust error gap below its error gap, which is at least what the dual of the
    error gap proves. For v >= 0, v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps,
    0 <= sqrt(e) - sqrt(eps) <= sqrt(e), so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps,
    h = 0 >= v e. The bound lacks what the radii add, so the gap is usually open.
    """

    def run(self) -> FloatArray:
        """Descend from principal components, relax, and descend from what there is: a basis."""
        problem, first = self.problem, self.problem.pooled_optimum.vectors
        error_gap_pieces = ErrorGap(cast(ErrorGap, problem.criterion).penalty).pieces(problem)
        relaxation = Relaxation(problem, cast(AffinePieces, error_gap_pieces))
        self.descend_from(first)
        relaxation.solve(self.target_gap / 2)
        self.update_lower_bound(relaxation.lower_bound, relaxation.weights)
        self.n_eigenproblems += 1 + problem.n_groups + relaxation.n_eigenproblems
        rng = np.random.default_rng(0)
        starts = [next(starts_from_relaxation(relaxation.best_relaxed.basis, problem.n_components))]
        starts += [relaxation.best_subspace.basis, *(best.vectors for best in problem.group_optima)]
        starts += [
            np.linalg.qr(rng.standard_normal(first.shape))[0]
            for _ in range(_N_ROBUST_RANDOM_STARTS)
        ]
        self.descend_from_all(starts, exhaustive=True)
        return self.best.basis


class PiecewiseSearch(PrimalDualSearch):
    """Upper and lower bounds of a sum of maxima of pieces."""

    def run(self) -> FloatArray:
        """Relax; if no atom is the answer, descend from what that found, and from other starts."""
        problem, pieces = self.problem, cast(AffinePieces, self.problem.pieces)
        self.relaxation = relaxation = Relaxation(problem, pieces)
        # Half of the gap is left for the descent. The value falls on the way, and so the goal.
        for _ in range(_MAX_RELAXATION_RUNS):
            tolerance = self.target_gap_at(
                Iterate.from_basis(problem, relaxation.best_subspace.basis)
            )
            if relaxation.gap > tolerance / 2:
                relaxation.solve(_RELAXATION_TARGET_SHARE * tolerance)
        self.n_eigenproblems = relaxation.n_eigenproblems
        self.update_lower_bound(relaxation.lower_bound, relaxation.weights)
        self.update_best(
            Iterate.from_basis(problem, relaxation.best_subspace.basis, relaxation.multipliers)
        )
        if self.is_closed:
            # Where a soft projection met the bound first, the subspace can still be made precise.
            if self.upper_bound - self.lower_bound > _RELAXATION_TARGET_SHARE * self.target_gap:
                self.descend_from(self.best.basis)
            return self.best.basis
        # With two groups the relaxed solution itself, reduced, has d dimensions.
        soft = reduce_rank(problem.second_moments, pieces, relaxation.best_relaxed.basis)
        if soft.shape[1] == problem.n_components:
            self.descend_from(soft)
        starts = starts_from_relaxation(relaxation.best_relaxed.basis, problem.n_components)
        self.descend_from_all([*starts, problem.pooled_optimum.vectors])
        if not self.is_closed:
            spread = spread_starts(
                problem,
                lambda errors: pieces.blocks.maxima(pieces.piece_values(errors)).sum(axis=1),
            )
            self.descend_from_all(spread, exhaustive=True)
        return self.select_basis(soft)

    def target_gap_at(self, point: Iterate) -> float:
        """The gap to reach: a share of the value that is soon the least, or a few roundings."""
        size = cast(AffinePieces, self.problem.pieces).magnitude(point.errors)
        value = max(min(point.value, self.relaxation.upper_bound), self.relaxation.lower_bound)
        return max(self.tol / 2 * abs(value), _PIECE_ROUNDING * size)

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Take the bound of its multipliers."""
        self.relaxation.evaluate_dual(local_minimum.multipliers)
        self.n_eigenproblems += 1
        self.update_lower_bound(self.relaxation.lower_bound, self.relaxation.weights)


_MAX_FRANK_WOLFE_STEPS = 200
_MAX_NEWTON_STEPS = 50
# Changes of a mean logarithm below this are rounding.
_LOG_ROUNDING = 1e-14
# Below this share of a group's variance the logarithm is too steep to walk along.
_MIN_CAPTURED_RATIO = 1e-6


class NashSearch(PrimalDualSearch):
    """Upper and lower bounds of minus the mean log of the captured variances."""

    def run(self) -> FloatArray:
        """Descend; if the gap stays open, relax, and descend from there: the best basis found."""
        second, d = self.problem.second_moments, self.problem.n_components
        # All groups on equal terms, so that none starts with nothing.
        warm = self.problem.warm_start
        start = None if warm is None else warm.basis_of(d)
        if start is None:
            start = second.leading(1 / second.traces, d).vectors
            self.n_eigenproblems += 1
        if (second.captured_variances(start) <= _MIN_CAPTURED_RATIO * second.traces).any():
            # Where groups vary along axes of their own the logarithm has no slope: nearby it has.
            perturbation = np.random.default_rng(0).standard_normal(start.shape) / np.sqrt(
                len(start)
            )
            start = np.linalg.qr(start + perturbation)[0]
        self.descend_from(start)
        if self.is_closed:
            return self.best.basis
        soft = self._solve_relaxation()
        self.descend_from_all(starts_from_relaxation(soft, d))
        if not self.is_closed:
            # Where a group keeps next to nothing a logarithm is no guide.
            least = _MIN_CAPTURED_RATIO * second.traces
            starts = spread_starts(
                self.problem,
                lambda errors: -np.log(np.maximum(second.traces - errors, least)).mean(axis=1),
            )
            self.descend_from_all(starts, exhaustive=True)
        # At the least rank: exactly d for two groups. No group may lose anything.
        pieces = AffinePieces(np.eye(second.n_groups), second.residual_variances(soft))
        return self.select_basis(reduce_rank(second, pieces, soft))

    def on_improvement(self, local_minimum: Iterate) -> None:
        """Take the bound of the weights that balance it."""
        self._linearized_optimum(
            self.problem.second_moments.captured_variances(local_minimum.basis)
        )

    def _linearized_optimum(self, captured: FloatArray) -> FloatArray:
        """What leads the mixture with w_g = 1 / (k c_g), whose bound is taken."""
        weights, d = 1 / (len(captured) * captured), self.problem.n_components
        leading = self.problem.second_moments.leading(weights, d)
        self.n_eigenproblems += 1
        bound = float(np.log(weights * len(weights)).mean() - np.log(leading.eigenvalue_sum))
        self.update_lower_bound(bound, weights)
        return leading.vectors

    def _solve_relaxation(self) -> FloatArray:
        """The relaxed problem's solution, (p, r) columns, by Frank and Wolfe's method.

        It is the best mixture of projectors of the subspaces found on the way.
        """
        second, bases, mixture_weights = self.problem.second_moments, [self.best.basis], np.ones(1)
        captured = second.captured_variances(bases[0])[None]
        for _ in range(_MAX_FRANK_WOLFE_STEPS):
            leading = self._linearized_optimum(mixture_weights @ captured)
            if -float(np.log(mixture_weights @ captured).mean()) - self.lower_bound <= self.tol / 2:
                break
            bases.append(leading)
            captured = np.vstack([captured, second.captured_variances(leading)])
            mixture_weights = maximize_mean_log(captured, np.append(mixture_weights, 0.0))
        weighted_columns = np.hstack(
            [np.sqrt(s) * each for s, each in zip(mixture_weights, bases, strict=True)]
        )
        return soft_basis(
            *np.linalg.eigh(weighted_columns @ weighted_columns.T), self.problem.n_components
        )


def maximize_mean_log(values: FloatArray, start: FloatArray) -> FloatArray:
    """The mixture of atoms with the largest mean log of captured variances, by Newton's method.

    Parameters
    ----------
    values : (J, k) array
        Captured variances of each atom; positive somewhere for every group.
    start : (J,) array
        On the simplex, with every mixed variance positive.

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
        # As minus the sum of the logarithms is self-concordant, such a step keeps all of them, and
        # lets the sum fall (Nesterov and Nemirovskii 1994).
        mixture_weights = mixture_weights + step / (1 + np.linalg.norm(change))
        # Where several mixtures are the best, steps between them go on.
        if np.abs(change).max() < _LOG_ROUNDING:
            break
    return mixture_weights
