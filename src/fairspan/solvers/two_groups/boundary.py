"""Exact solver for two groups, on the boundary of the trade-off between their errors.

Every boundary point of conv W, W = {(c_1(V), c_2(V))}, is attained by a basis of rank exactly d
(see :mod:`fairspan.solvers.two_groups.faces`), and every criterion here has its optimum there.
So no relaxation and no extra dimension is needed: one symmetric eigenproblem gives a boundary point
with its supporting line, and the search is over a single weight.

Let f_0 and f_1 be affine functions of the group errors. For t from 0 to 1, (1 - t) f_0 + t f_1 is
minimized by the leading eigenvectors V(t) of one matrix; as t increases, f_0 rises and f_1 falls.
This solves two problems:

- max(f_0, f_1) is smallest where both are equal, or at an end at which the function minimized there
  is also the larger one: D(t) = (1 - t) f_0 + t f_1 at V(t) is a lower bound for every t;
- f_0 subject to f_1 <= 0 (or = 0) is smallest where f_1 vanishes; D(t) / (1 - t) is a lower bound.

If eigenvalue d is tied at the root, the residual jumps across zero. The subspaces on both sides are
then optimal for the same mixture, and so is every subspace on the geodesic between them
(:mod:`fairspan.solvers.two_groups.faces`), along which the residual is continuous.

Equal errors: let D = S_1 - S_2. The gap e_1 - e_2 = tr U'DU, U the complement of V, takes every
value between the sums of the p - d smallest and the p - d largest eigenvalues of D. If zero lies
strictly inside, the optimum is the root of the gap along the mixtures (q_1 + nu) S_1 + (q_2 - nu)
S_2. With a tolerance, the root is where the gap equals the tolerance, on the side of ordinary PCA.
If zero is at the border, the feasible subspaces contain the eigenvectors of D beyond the cut and
any choice among those tied at it; the best choice is a smaller problem.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, NamedTuple, cast

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver, TracePoint, certify, target_gap
from fairspan.certificates.proofs import MeanDistanceProof
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.text import counted
from fairspan.moments.operators import DenseSecondMoments, SecondMoments
from fairspan.problem.criteria import EqualError
from fairspan.problem.problem import AffinePieces, MeanDistanceLimit, Problem
from fairspan.solvers.two_groups.faces import (
    BranchAndBound,
    GrassmannGeodesic,
    SearchResult,
    face_endpoints,
)
from fairspan.typing import FloatArray

# Eigenproblems of a search; bisection alone would reach the resolution of float64 in 53.
_MAX_STEPS = 120
# The geodesic is tried once the supporting lines leave at most this many target gaps.
_GEODESIC_GAP_RATIO = 100.0
# A residual below this fraction of the target gap counts as zero.
_RESIDUAL_TOL_FRACTION = 0.1
# A step that leaves more than this fraction of the bracket is slow.
_SLOW_REDUCTION = 0.8
# A root within this fraction of an end is overshot by this factor of its distance.
_END_FRACTION = 0.1
_OVERSHOOT = 1.5
# Newton steps from the root of the quadratic to that of the cubic model.
_CUBIC_NEWTON_STEPS = 3
# Largest factor by which the target gap may grow during the search.
_MAX_TARGET_GROWTH = 16.0
# Smallest normal number, to avoid division by zero.
_TINY = float(np.finfo(np.float64).tiny)


class DualPoint(NamedTuple):
    """Contact of the supporting line of a mixture with the boundary of the trade-off.

    Attributes
    ----------
    t : float
        Weight of f_1 in the mixture.
    basis : (p, d) array
        V(t).
    errors : (k,) array
        Errors of each group at V(t).
    f0, f1 : float
        f_0 and f_1 at V(t). Their combination with weights (1 - s, s) is D(s) at s = t and at least
        D(s) elsewhere.
    dual_value : float
        D(t).
    residual : float
        Residual that decreases in t and vanishes at the root: f_1 if constrained, otherwise f_1 -
        f_0.
    """

    t: float
    basis: FloatArray
    errors: FloatArray
    f0: float
    f1: float
    dual_value: float
    residual: float


class RootSearch:
    """Search for the root of the residual, keeping the best subspace and bound.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap to reach.
    coefficients : (2, k) array
        Coefficients of the group errors in f_0 and f_1.
    evaluate_pair : function of a (p, d) basis and its (k,) errors
        Returns f_0 and f_1.
    second_moments : SecondMoments, optional
        Second moments that the coefficients combine, if not those of the problem.
    constrained : bool
        Whether to minimize f_0 subject to f_1 = 0, instead of max(f_0, f_1).
    constraint_tol : float
        If constrained, values of f_1 up to this count as zero.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        coefficients: FloatArray,
        evaluate_pair: Callable[[FloatArray, FloatArray], tuple[float, float]],
        *,
        second_moments: SecondMoments | None = None,
        constrained: bool = False,
        constraint_tol: float = 0.0,
    ) -> None:
        self.problem = problem
        self.tol = tol
        self.coefficients = coefficients
        self.evaluate_pair = evaluate_pair
        self.constrained = constrained
        self.constraint_tol = constraint_tol
        self.second_moments = problem.second_moments if second_moments is None else second_moments
        self.n_eigenproblems = 0
        self.lower = -np.inf
        self.upper = np.inf
        self.best_t = 0.0
        self.basis: FloatArray | None = None
        self.errors = np.empty(0)
        self.trace: list[TracePoint] = []

    def weights_at(self, t: float) -> FloatArray:
        """Group weights of the mixture at t."""
        return np.asarray((1 - t) * self.coefficients[0] + t * self.coefficients[1])

    def target_gap_at(self, errors: FloatArray) -> float:
        """Absolute gap for which a subspace with these errors counts as optimal."""
        return target_gap(self.problem, errors, self.tol)

    def solve_at(self, t: float) -> DualPoint:
        """Solve the eigenproblem at t, and record its bound and subspace."""
        weights = self.weights_at(t)
        leading = self.second_moments.leading(weights, self.problem.n_components)
        basis = leading.vectors
        minimizes_one_function = t == 1 or (t == 0 and not self.constrained)
        if leading.is_tied and minimizes_one_function:
            # Among the minimizers of one function, take the one that is best for the other.
            basis = face_endpoints(self.second_moments, self.weights_at(1 - t), leading)[1]
        errors = self.problem.errors(basis)
        f0, f1 = self.evaluate_pair(basis, errors)
        dual_value = (1 - t) * f0 + t * f1
        self.n_eigenproblems += 1
        if not self.constrained:
            bound = dual_value
        elif t < 1:
            bound = dual_value / (1 - t)
        else:
            bound = -np.inf
        if bound > self.lower:
            self.lower = bound
            self.best_t = t
        self.update_best(basis, errors, np.inf if self.constrained else max(f0, f1))
        return DualPoint(t, basis, errors, f0, f1, dual_value, self._residual(f0, f1))

    def _residual(self, f0: float, f1: float) -> float:
        """Residual, which decreases in t and vanishes at the root."""
        return f1 if self.constrained else f1 - f0

    def update_best(self, basis: FloatArray, errors: FloatArray, value: float) -> None:
        """Keep a subspace if it is the best so far, and record the bounds."""
        if value < self.upper:
            self.upper = value
            self.basis = basis
            self.errors = errors
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    @property
    def result(self) -> SearchResult:
        """Best subspace, and the weights that prove the best bound."""
        assert self.basis is not None
        weights = self.weights_at(self.best_t)
        return SearchResult(self.basis, weights, self.n_eigenproblems, self.trace)

    def refine_bracket(self, left: DualPoint, right: DualPoint) -> None:
        """Refine a bracket of the root until the gap is closed.

        The residual is positive at its left end, and not at its right end. Each step goes to the
        root of a cubic model of the dual. Where the residual jumps no smooth model holds, but the
        supporting lines of both ends cross there: this weight is tried after a slow step. Near the
        root the geodesic between the ends is tried.
        """
        # The target gap is relative to the value, which changes by a bounded factor, so most gaps
        # can be rejected without evaluating the target.
        initial_errors = right.errors if self.basis is None else self.errors
        max_target_gap = _MAX_TARGET_GROWTH * self.target_gap_at(initial_errors)

        def is_within(gap: float, n_target_gaps: float) -> bool:
            if not gap <= n_target_gaps * max_target_gap:
                return False
            best_errors = left.errors if self.basis is None else self.errors
            return gap <= n_target_gaps * self.target_gap_at(best_errors)

        was_slow = False
        for _ in range(_MAX_STEPS):
            low = left.t
            high = right.t
            if is_within(self.upper - self.lower, 1.0):
                return
            crossing, height = _line_crossing(left, right)
            crossing_bound = height / max(1 - crossing, _TINY) if self.constrained else height
            if is_within(crossing_bound - self.lower, _GEODESIC_GAP_RATIO):
                self._solve_on_geodesic(left, right)
                if is_within(self.upper - self.lower, 1.0):
                    return
            may_jump = was_slow and low < crossing < high
            t = crossing if may_jump else self._cubic_root(left, right)
            if not low < t < high:
                t = (low + high) / 2
            if not low < t < high:
                # There is no floating-point number in between.
                break
            point = self.solve_at(t)
            if point.residual > 0:
                left = point
            else:
                right = point
            was_slow = not was_slow and right.t - left.t > _SLOW_REDUCTION * (high - low)
        self._solve_on_geodesic(left, right)

    def _solve_on_geodesic(self, left: DualPoint, right: DualPoint) -> None:
        """Record the subspace on the geodesic between both ends at which the residual vanishes."""
        basis = right.basis
        if right.residual < 0:
            residual_tol = self.constraint_tol
            if not self.constrained:
                residual_tol = _RESIDUAL_TOL_FRACTION * self.target_gap_at(left.errors)

            def residual(basis: FloatArray) -> float:
                return self._residual(*self.evaluate_pair(basis, self.problem.errors(basis)))

            geodesic = GrassmannGeodesic(left.basis, right.basis)
            end_residuals = (left.residual, right.residual)
            basis = geodesic.find_root(residual, end_residuals, residual_tol)
        errors = self.problem.errors(basis)
        f0, f1 = self.evaluate_pair(basis, errors)
        self.update_best(basis, errors, f0 if self.constrained else max(f0, f1))

    def _cubic_root(self, left: DualPoint, right: DualPoint) -> float:
        """Root of the residual if the dual is the cubic determined by both ends.

        Each end gives a value and a slope of the dual D: f_1 - f_0 = D' and f_1 = D + (1 - t) D'.
        """
        low = left.t
        width = right.t - left.t
        left_slope = left.f1 - left.f0
        right_slope = right.f1 - right.f0
        mean_slope = (right.dual_value - left.dual_value) / width
        # Coefficients of the dual in the bracket fraction (Hermite interpolation).
        quadratic_term = 3 * mean_slope - 2 * left_slope - right_slope
        cubic_term = left_slope + right_slope - 2 * mean_slope
        # Coefficients of the residual in the bracket fraction; the square follows from the value at
        # the right end.
        linear = 2 * quadratic_term
        cubic = 0.0
        if self.constrained:
            linear = linear * (1 - low)
            cubic = -2 * width * cubic_term
        quadratic = right.residual - left.residual - linear
        root = sqrt(max(linear * linear - 4 * quadratic * left.residual, 0.0))
        fraction = 2 * left.residual / max(root - linear, _TINY)
        if cubic != 0:
            for _ in range(_CUBIC_NEWTON_STEPS):
                square = quadratic - cubic + fraction * cubic
                value = left.residual + fraction * (linear + fraction * square)
                slope = linear + fraction * (2 * square + fraction * cubic)
                fraction -= value / (slope if slope != 0 else _TINY)
        # Overshoot a root near one end slightly, so that it is soon enclosed from both sides.
        if fraction < _END_FRACTION:
            fraction *= _OVERSHOOT
        elif 1 - fraction < _END_FRACTION:
            fraction = 1 - _OVERSHOOT * (1 - fraction)
        return low + width * fraction


def _line_crossing(left: DualPoint, right: DualPoint) -> tuple[float, float]:
    """Weight and height at which the lines that bound the dual from both ends cross."""
    slope = left.f1 - left.f0
    slope_decrease = slope - (right.f1 - right.f0)
    t = (right.f0 - left.f0) / slope_decrease if slope_decrease > 0 else np.nan
    return t, left.f0 + t * slope


@dataclass(frozen=True)
class BoundarySearch(Solver):
    """Exact solver for one or two groups and every criterion except Nash welfare.

    A linear criterion takes one eigenproblem. The maximum of two linear functions (minimax loss,
    minimax error, error gap) and equal error require a root along a segment of weights, about seven
    eigenproblems. The robust error gap is not convex; branch and bound over the angle of the
    weights takes 10 to 30.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import BoundarySearch, FairPCA
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> fair = FairPCA(1, solver=BoundarySearch()).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(3), fair.solution_.status.value
    (array([2.421, 2.421]), 'optimal')
    """

    name: ClassVar[str] = "boundary"

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        criterion = problem.criterion
        # The pieces of excess losses cost an eigenproblem per group, so avoid computing them here.
        if problem.n_groups == 1 or (problem.n_groups == 2 and criterion.uses_excess_loss):
            return None
        pieces = None if criterion.uses_excess_loss else problem.pieces
        is_linear = pieces is not None and pieces.is_linear
        if problem.n_groups > 2 and not is_linear:
            return (
                "it supports one or two groups, and more only for linear criteria such as "
                "'total_error'"
            )
        if pieces is None and not criterion.has_concave_scores:
            return "it supports only piecewise linear criteria and maxima of concave scores"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Find the optimum.

        Parameters
        ----------
        problem : Problem
        tol : float
            Relative gap to reach.
        random_state : object
            Ignored: the solver is deterministic.

        Returns
        -------
        Certificate

        Raises
        ------
        IncompatibleParameters
            EqualError, if no subspace has equal errors.
        """
        if isinstance(problem.limit, MeanDistanceLimit):
            result = _solve_mean_limit(problem, problem.limit, tol)
        elif problem.n_groups == 1:
            # Ordinary PCA: every criterion increases with the error of the only group.
            result = _solve_linear(problem, problem.proportions)
        elif problem.criterion.requires_equal_errors:
            result = _solve_equal_errors(problem, tol)
        elif problem.pieces is None:
            # The robust error gap, which is not convex.
            result = BranchAndBound(problem, tol).run()
        elif problem.pieces.is_linear:
            result = _solve_linear(problem, problem.pieces.coefficients.sum(axis=0))
        else:
            result = _solve_max_of_two(problem, problem.pieces, tol)
        return certify(
            problem,
            result.basis,
            result.proof,
            tol=tol,
            n_eigenproblems=result.n_eigenproblems,
            trace=result.trace,
            solver=self.name,
        )


def _solve_linear(problem: Problem, weights: FloatArray) -> SearchResult:
    """Leading eigenvectors of one mixture."""
    basis = problem.second_moments.leading(weights, problem.n_components).vectors
    value = problem.objective(basis)
    return SearchResult(basis, weights, 1, [TracePoint(1, value, value)])


def _solve_max_of_two(problem: Problem, pieces: AffinePieces, tol: float) -> SearchResult:
    """Minimize the maximum of two affine functions."""
    search = RootSearch(
        problem, tol, pieces.coefficients, lambda _, errors: pieces.piece_values(errors).tolist()
    )
    left = search.solve_at(0.0)
    # At an end where the minimized function is also the larger one, the end is optimal.
    if left.residual > 0:
        right = search.solve_at(1.0)
        if right.residual < 0:
            search.refine_bracket(left, right)
    return search.result


_EPSILON = float(np.finfo(np.float64).eps)

# Errors with a relative difference up to this, a few epsilon, are equal.
_EQUAL_ERROR_TOL = 1e-15
# At the border the bound approaches the optimum as 1 / nu, while its rounding error grows as nu.
# Rounding error counts less than an open gap of the same size: of 500 problems at the border this
# weight leaves none open, and a weight of 1 leaves 38.
_ROUNDING_WEIGHT = 0.25
# Values of nu at which the bound is evaluated at the border: two per decade, from 10 to 3e8.
_TRIAL_MULTIPLIERS = tuple(10.0 ** (half / 2) for half in range(2, 18))


def _solve_equal_errors(problem: Problem, tol: float) -> SearchResult:
    """Smallest total error with equal errors, or errors that differ by at most the tolerance.

    Raises
    ------
    IncompatibleParameters
        No subspace has such errors.
    """
    tolerance = cast(EqualError, problem.criterion).tolerance
    first_error, second_error = problem.errors(problem.pooled_optimum.vectors)
    # Sign chosen such that ordinary PCA has a positive gap.
    gap_weights = np.array([1.0, -1.0]) * (1.0 if first_error >= second_error else -1.0)
    coefficients = np.array([problem.proportions, gap_weights])
    search = RootSearch(
        problem,
        tol,
        coefficients,
        lambda _, errors: (errors @ coefficients.T - (0.0, tolerance)).tolist(),
        constrained=True,
        # For nearly identical groups the trade-off is steep: nearly equal errors are not enough.
        constraint_tol=_EQUAL_ERROR_TOL * float(max(first_error, second_error)),
    )
    left = search.solve_at(0.0)
    if left.f1 <= search.target_gap_at(left.errors):
        search.update_best(left.basis, left.errors, left.f0)
        return search.result
    # At a tie, take the subspace with the smallest total error among those with the smallest gap.
    right = search.solve_at(1.0)
    if right.f1 < 0:
        search.refine_bracket(left, right)
        return search.result
    # The smallest gap either equals the tolerance, or is too large for the problem to be feasible.
    second_moments = problem.dense_moments
    excluded = second_moments.excluded_variances
    min_gap_sum = second_moments.smallest_eigenvalue_sum(gap_weights, problem.n_components)
    rounding = min_gap_sum.rounding_error + _EPSILON * float(excluded.sum())
    min_gap = min_gap_sum.value + float(gap_weights @ excluded)
    if min_gap - rounding - tolerance > search.target_gap_at(right.errors):
        raise _equal_errors_infeasible(problem, tolerance, float(np.ptp(right.errors)))

    def safe_bound(multiplier: float) -> float:
        weights = problem.proportions + multiplier * gap_weights
        smallest = second_moments.smallest_eigenvalue_sum(weights, problem.n_components)
        return smallest.value - multiplier * tolerance - _ROUNDING_WEIGHT * smallest.rounding_error

    multiplier = max(_TRIAL_MULTIPLIERS, key=safe_bound)
    weights = problem.proportions + multiplier * gap_weights
    return SearchResult(right.basis, weights, search.n_eigenproblems, search.trace)


def _equal_errors_infeasible(
    problem: Problem, tolerance: float, min_gap: float
) -> IncompatibleParameters:
    """Error for the case that no subspace has errors as equal as requested."""
    requirement = "the same error for both groups"
    if tolerance:
        requirement = f"errors that differ by at most {tolerance:g}"
    condition = "the restriction allows such a subspace"
    advice = "Use 'error_gap' with a large penalty, another n_components, or another center"
    if problem.parent is None:
        condition = (
            "zero lies between the sums of the p - d smallest and the p - d largest eigenvalues "
            "of S_1 - S_2"
        )
    else:
        advice += ", or drop the restriction"
    return IncompatibleParameters(
        "The criterion 'equal_error' was requested, but no subspace of "
        f"{counted(problem.n_components, 'dimension')} has {requirement}: the smallest achievable "
        f"gap is {min_gap:.6g}",
        f"Allowed: data where {condition}, or a tolerance of at least that gap",
        advice,
    )


# Relative tolerances (to the squared distance of the means) for a limit of zero and for other
# limits.
_ZERO_DISTANCE_TOL = 1e-15
_DISTANCE_TOL = 1e-10


def _solve_mean_limit(problem: Problem, limit: MeanDistanceLimit, tol: float) -> SearchResult:
    """Maximize tr(V'SV) subject to f'VV'f <= delta^2, f = m_1 - m_2.

    The pair (S, ff') is a problem of two matrices like that of two groups: its optimum lies on the
    boundary of {(tr V'SV, f'VV'f)}, which bases of rank exactly d attain. It is found as the root
    in the multiplier mu of the leading eigenvectors of S - mu ff', without relaxation; Olfat and
    Aswani (2019) solve a semidefinite program instead.

    Raises
    ------
    IncompatibleParameters
        The projected means differ by more in every subspace.
    """
    difference = limit.difference
    squared_limit = limit.tolerance**2
    squared_distance = float(difference @ difference)
    total_variance = problem.total_variance
    # Scaled by the total variance, both functions are of similar size.
    has_scale = squared_distance > 0 and total_variance > 0
    scale = total_variance / squared_distance if has_scale else 1.0

    def evaluate_pair(basis: FloatArray, errors: FloatArray) -> tuple[float, float]:
        error = float(problem.proportions @ errors)
        distance = float(np.sum((difference @ basis) ** 2))
        return error, scale * (distance - squared_limit)

    pooled = problem.dense_moments.mixture(problem.proportions)
    difference_moment = scale * np.outer(difference, difference)
    search = RootSearch(
        problem,
        tol,
        np.array([[1.0, 0.0], [0.0, -1.0]]),
        evaluate_pair,
        second_moments=DenseSecondMoments(np.array([pooled, difference_moment])),
        constrained=True,
        constraint_tol=_DISTANCE_TOL * scale * squared_limit,
    )
    left = search.solve_at(0.0)
    if left.f1 <= 0:
        search.update_best(left.basis, left.errors, left.f0)
    else:
        right = search.solve_at(1.0)
        if right.f1 > _ZERO_DISTANCE_TOL * scale * squared_distance:
            raise IncompatibleParameters(
                f"MeanParity received tolerance={limit.tolerance!r} with n_components="
                f"{problem.n_components} of {counted(problem.n_features, 'feature')}",
                f"Allowed: at least {np.linalg.norm(difference @ right.basis):.6g}: no subspace "
                "of this dimension brings the means closer together",
                "Choose a larger tolerance, or fewer components",
            )
        search.refine_bracket(left, right)
    t = search.best_t
    multiplier = t / (1 - t) * scale if t < 1 else 0.0
    # If the means hardly differ, the multiplier overflows; the limit alone proves the bound.
    if not np.isfinite(multiplier):
        multiplier = 0.0
    proof = MeanDistanceProof(problem.proportions, multiplier)
    return search.result._replace(proof=proof)
