"""Exact solutions on the boundary of the two groups' trade-off.

Every boundary point of conv W, W = {(c_1(V), c_2(V))}, is reached by a basis of rank exactly d (see
:mod:`fairspan.solvers.two_groups.faces`), and all criteria here take their optimum there. So
nothing is relaxed and no extra dimension is needed: one symmetric eigenproblem gives one boundary
point together with its supporting line, and the search is over a single weight.

Let f_0 and f_1 be two affine functions of the groups' errors. For t from 0 to 1 the mixture
(1 - t) f_0 + t f_1 is least at the leading eigenvectors V(t) of one matrix; on the way f_0 rises
and f_1 falls. Two questions are answered so:

- the largest of both is least where they are equal, or at an end where the other one is smaller
  still: D(t) = (1 - t) f_0 + t f_1 at V(t) bounds it from below, for every t;
- f_0 subject to f_1 <= 0 (or = 0) is least where f_1 vanishes; D(t) / (1 - t) bounds it.

Where eigenvalue d is tied at the root, the function jumps over zero. The subspaces on both sides
are then optimal for the same mixture, and so is every subspace on the path between them
(:mod:`fairspan.solvers.two_groups.faces`), on which the function is continuous.

Equal errors: let D = S_1 - S_2. The gap e_1 - e_2 = tr U'DU, U the complement of V, takes every
value between the sums of the p - d smallest and the p - d largest eigenvalues of D. Where zero lies
inside, the optimum is the root of the gap along the mixtures (q_1 + nu) S_1 + (q_2 - nu) S_2. A
tolerance takes the place of zero, on the side where ordinary PCA lies. Where it is at the border,
the subspaces that reach it hold the eigenvectors of D beyond the cut and any choice among those
tied at it, and the best choice is a smaller problem of its own.
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

# Bisection alone would reach float64's resolution in 53 steps.
_MAX_STEPS = 120
# The path between the ends is tried once the supporting lines leave no more than so many goals.
_GEODESIC_GAP_RATIO = 100.0
# An excess of this share of the gap to reach is none.
_RESIDUAL_TOL_SHARE = 0.1
# A step that leaves more than this share of the bracket was slow.
_SLOW_REDUCTION = 0.8
# A root within this share of the bracket from an end is passed by half its distance.
_END_FRACTION, _OVERSHOOT = 0.1, 1.5
# To the root of the model from that of a parabola, where it has a cube.
_CUBIC_NEWTON_STEPS = 3
# How many times as large the gap to reach may become on the way.
_MAX_TARGET_GROWTH = 16.0
_TINY = float(np.finfo(np.float64).tiny)


class DualPoint(NamedTuple):
    """Where the supporting line of one mixture touches the boundary of the trade-off.

    Attributes
    ----------
    weight : float
        t.
    basis : (p, d) array
        V(t).
    errors : (k,) array
        Of each group there.
    first, last : float
        f_0 and f_1 there. (1 - t, t) times these is the dual at t, and at every other weight no
        less than the dual.
    dual : float
        D(t).
    excess : float
        What vanishes at the root and falls as t grows: f_1 with a constraint, otherwise f_1 - f_0.
    """

    t: float
    basis: FloatArray
    errors: FloatArray
    f0: float
    f1: float
    dual_value: float
    residual: float


class RootSearch:
    """The best subspace and the best bound so far.

    Parameters
    ----------
    problem : Problem
    tol : float
        The gap to reach, as a share of the objective.
    coefficients : (2, k) array
        Of the groups' errors in f_0 and f_1.
    values_at : function of a (p, d) basis and its (k,) errors
        Gives f_0 and f_1.
    second_moments : SecondMoments, optional
        What the coefficients mix, if not the second moments of the problem.
    constrained : bool
        Whether f_0 is to be least subject to f_1 = 0; otherwise the largest of both.
    met : float
        With a constraint: f_1 up to this is zero.
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
        self.problem, self.tol, self.coefficients = problem, tol, coefficients
        self.evaluate_pair, self.constrained, self.constraint_tol = (
            evaluate_pair,
            constrained,
            constraint_tol,
        )
        self.second_moments = second_moments or problem.second_moments
        self.n_eigenproblems, self.lower, self.upper, self.weight = 0, -np.inf, np.inf, 0.0
        self.basis: FloatArray | None = None
        self.errors = np.empty(0)
        self.trace: list[TracePoint] = []

    def weights_at(self, t: float) -> FloatArray:
        """Of the groups, in the mixture at t."""
        return np.asarray((1 - t) * self.coefficients[0] + t * self.coefficients[1])

    def target_gap_at(self, errors: FloatArray) -> float:
        """The gap that would prove a subspace of these errors optimal, absolute."""
        return target_gap(self.problem, errors, self.tol)

    def solve_at(self, t: float) -> DualPoint:
        """Solve the eigenproblem at t, and take its bound and its subspace."""
        weights = self.weights_at(t)
        leading = self.second_moments.leading(weights, self.problem.n_components)
        basis = leading.vectors
        if leading.is_tied and (t == 1 or (t == 0 and not self.constrained)):
            # Of the subspaces that are best for one function, the best for the other one.
            basis = face_endpoints(self.second_moments, self.weights_at(1 - t), leading)[1]
        errors = self.problem.errors(basis)
        first, last = self.evaluate_pair(basis, errors)
        dual = (1 - t) * first + t * last
        self.n_eigenproblems += 1
        bound = dual if not self.constrained else dual / (1 - t) if t < 1 else -np.inf
        if bound > self.lower:
            self.lower, self.weight = bound, t
        self.update_best(basis, errors, np.inf if self.constrained else max(first, last))
        excess = last if self.constrained else last - first
        return DualPoint(t, basis, errors, first, last, dual, excess)

    def update_best(self, basis: FloatArray, errors: FloatArray, value: float) -> None:
        """Keep a subspace if it is the best so far."""
        if value < self.upper:
            self.upper, self.basis, self.errors = value, basis, errors
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    @property
    def result(self) -> SearchResult:
        """The best subspace, and the weights that prove the best bound."""
        assert self.basis is not None
        return self.basis, self.weights_at(self.weight), self.n_eigenproblems, self.trace

    def refine_bracket(self, left: DualPoint, right: DualPoint) -> None:
        """Narrow a bracket, excess > 0 at its left end and <= 0 at its right end, to the root.

        Each step goes to where a cubic model of the dual has its root. At a jump of the excess no
        smooth model holds, but there the supporting lines of both ends cross: that weight comes
        after a slow step. Near the root the path between the ends is tried.
        """
        # The goal is a share of the value, which moves by fewer times on the way: most gaps
        # need no goal of their subspace to be seen as too large.
        most = _MAX_TARGET_GROWTH * self.target_gap_at(
            right.errors if self.basis is None else self.errors
        )

        def is_within(gap_weights: float, n_goals: float) -> bool:
            best = left.errors if self.basis is None else self.errors
            return gap_weights <= n_goals * most and gap_weights <= n_goals * self.target_gap_at(
                best
            )

        was_slow = False
        for _ in range(_MAX_STEPS):
            low, high = left.t, right.t
            if is_within(self.upper - self.lower, 1.0):
                return
            crossing, height = _line_crossing(left, right)
            crossing_bound = height / max(1 - crossing, _TINY) if self.constrained else height
            if is_within(crossing_bound - self.lower, _GEODESIC_GAP_RATIO):
                self._solve_on_geodesic(left, right)
                if is_within(self.upper - self.lower, 1.0):
                    return
            t = crossing if was_slow and low < crossing < high else self._cubic_root(left, right)
            if not low < t < high:
                t = (low + high) / 2
            if not low < t < high:  # float64 has no weight left in between
                break
            midpoint = self.solve_at(t)
            left, right = (midpoint, right) if midpoint.residual > 0 else (left, midpoint)
            was_slow = not was_slow and right.t - left.t > _SLOW_REDUCTION * (high - low)
        self._solve_on_geodesic(left, right)

    def _solve_on_geodesic(self, left: DualPoint, right: DualPoint) -> None:
        """Take the subspace on the path between both ends at which the excess vanishes."""
        basis = right.basis
        if right.residual < 0:
            enough = (
                self.constraint_tol
                if self.constrained
                else _RESIDUAL_TOL_SHARE * self.target_gap_at(left.errors)
            )

            def excess(basis: FloatArray) -> float:
                first, last = self.evaluate_pair(basis, self.problem.errors(basis))
                return last if self.constrained else last - first

            path = GrassmannGeodesic(left.basis, right.basis)
            basis = path.find_root(excess, (left.residual, right.residual), enough)
        errors = self.problem.errors(basis)
        first, last = self.evaluate_pair(basis, errors)
        self.update_best(basis, errors, first if self.constrained else max(first, last))

    def _cubic_root(self, left: DualPoint, right: DualPoint) -> float:
        """Where the excess vanishes if the dual is the cubic that both ends determine.

        Each end has a value and a slope of the dual D: f_1 - f_0 = D' and f_1 = D + (1 - t) D'.
        """
        low, width = left.t, right.t - left.t
        slope, last = left.f1 - left.f0, right.f1 - right.f0
        mean_slope = (right.dual_value - left.dual_value) / width
        quadratic_term, cubic_term = (
            3 * mean_slope - 2 * slope - last,
            slope + last - 2 * mean_slope,
        )
        # The excess by powers of the share of the bracket; the square is set by the right end.
        linear, cube = 2 * quadratic_term, 0.0
        if self.constrained:
            linear, cube = linear * (1 - low), -2 * width * cubic_term
        quadratic = right.residual - left.residual - linear
        root = sqrt(max(linear * linear - 4 * quadratic * left.residual, 0.0))
        share = 2 * left.residual / max(root - linear, _TINY)
        for _ in range(_CUBIC_NEWTON_STEPS if cube else 0):
            square = quadratic - cube + share * cube
            value = left.residual + share * (linear + share * square)
            share -= value / (linear + share * (2 * square + share * cube) or _TINY)
        # A little past a root that is near one end, so that it is soon enclosed from both sides.
        if share < _END_FRACTION:
            share *= _OVERSHOOT
        elif 1 - share < _END_FRACTION:
            share = 1 - _OVERSHOOT * (1 - share)
        return low + width * share


def _line_crossing(left: DualPoint, right: DualPoint) -> tuple[float, float]:
    """Where the lines that bound the dual from both ends cross: the weight, and the height."""
    slope = left.f1 - left.f0
    turn = slope - (right.f1 - right.f0)
    t = (right.f0 - left.f0) / turn if turn > 0 else np.nan
    return t, left.f0 + t * slope


@dataclass(frozen=True)
class BoundarySearch(Solver):
    """Exact solver for one or two groups, for every criterion except Nash welfare.

    Notes
    -----
    A linear criterion takes one eigenproblem. The largest of two linear ones (minimax loss,
    minimax error, error gap) and equal error require a root along a segment of weights, with about
    seven eigenproblems. The robust error gap is not convex; branch and bound on the angle of the
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
        """Why it cannot take this problem; None if it can."""
        criterion = problem.criterion
        # The pieces of losses take an eigenproblem for each group, so only others are looked at.
        if problem.n_groups == 1 or (problem.n_groups == 2 and criterion.uses_excess_loss):
            return None
        pieces = None if criterion.uses_excess_loss else problem.pieces
        if problem.n_groups > 2 and (pieces is None or not pieces.is_linear):
            return "it takes one or two groups, except for 'total_error'"
        is_unsupported = pieces is None and not criterion.has_concave_scores
        return "it needs a search beyond one segment of weights" if is_unsupported else None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Find the optimum.

        Parameters
        ----------
        problem : Problem
        tol : float
            The gap to reach, as a share of the objective.
        random_state : object
            Not used: nothing here is random.

        Returns
        -------
        Certificate

        Raises
        ------
        Incompatible
            EqualError where no subspace has equal errors.
        """
        if isinstance(problem.limit, MeanDistanceLimit):
            found = _solve_mean_limit(problem, problem.limit, tol)
        elif problem.n_groups == 1:
            # Ordinary PCA: every criterion grows with the error of the only group.
            found = _solve_linear(problem, problem.proportions)
        elif problem.criterion.requires_equal_errors:
            found = _solve_equal_errors(problem, tol)
        elif problem.pieces is None:
            # The robust error gap, which is not convex.
            found = BranchAndBound(problem, tol).run()
        elif problem.pieces.is_linear:
            found = _solve_linear(problem, problem.pieces.coefficients.sum(axis=0))
        else:
            found = _solve_max_of_two(problem, problem.pieces, tol)
        basis, proof, n_eigenproblems, trace = found
        return certify(
            problem,
            basis,
            proof,
            tol=tol,
            n_eigenproblems=n_eigenproblems,
            trace=trace,
            solver=self.name,
        )


def _solve_linear(problem: Problem, weights: FloatArray) -> SearchResult:
    """The leading eigenvectors of one mixture."""
    basis = problem.second_moments.leading(weights, problem.n_components).vectors
    value = problem.objective(basis)
    return basis, weights, 1, [TracePoint(1, value, value)]


def _solve_max_of_two(problem: Problem, pieces: AffinePieces, tol: float) -> SearchResult:
    """Where both pieces agree, or the end at which one stays larger."""
    search = RootSearch(
        problem, tol, pieces.coefficients, lambda _, errors: pieces.piece_values(errors).tolist()
    )
    left = search.solve_at(0.0)
    # At an end where the piece that is least there is the larger one as well, that is the optimum.
    if left.residual > 0:
        right = search.solve_at(1.0)
        if right.residual < 0:
            search.refine_bracket(left, right)
    return search.result


_EPSILON = float(np.finfo(np.float64).eps)

# Errors that differ by this share of them are equal.
_EQUAL_ERROR_TOL = 1e-15
# At the border the bound rises with nu to the optimum, as 1 / nu, and its rounding grows as nu.
# Rounding that hides a gap counts for less than a gap that stays open: of 500 problems at the
# border none is left open, and with 1 instead 38 are.
_ROUNDING_WEIGHT = 0.25
_TRIAL_MULTIPLIERS = tuple(10.0 ** (half / 2) for half in range(2, 18))


def _solve_equal_errors(problem: Problem, tol: float) -> SearchResult:
    """The least total error where both errors are equal, or differ by no more than a tolerance.

    Raises
    ------
    Incompatible
        No subspace has such errors.
    """
    tolerance = cast(EqualError, problem.criterion).tolerance
    first, last = problem.errors(problem.pooled_optimum.vectors)
    # Turned so that ordinary PCA has a positive gap.
    gap_weights = np.array([1.0, -1.0]) * (1.0 if first >= last else -1.0)
    coefficients = np.array([problem.proportions, gap_weights])
    search = RootSearch(
        problem,
        tol,
        coefficients,
        lambda _, errors: (errors @ coefficients.T - (0.0, tolerance)).tolist(),
        constrained=True,
        # Nearly identical groups have a steep trade-off: nearly equal errors are not equal.
        constraint_tol=_EQUAL_ERROR_TOL * float(max(first, last)),
    )
    left = search.solve_at(0.0)
    if left.f1 <= search.target_gap_at(left.errors):
        search.update_best(left.basis, left.errors, left.f0)
        return search.result
    # At a tie, of the subspaces with the least gap that of least total error.
    right, second = search.solve_at(1.0), problem.dense_moments
    if right.f1 < 0:
        search.refine_bracket(left, right)
        return search.result
    # Where the least gap is just the tolerance; otherwise it is too large to be reached.
    min_gap_sum, *bounds = (
        second.smallest_eigenvalue_sum(each, problem.n_components)
        for each in (
            gap_weights,
            *(problem.proportions + multiplier * gap_weights for multiplier in _TRIAL_MULTIPLIERS),
        )
    )
    rounding = min_gap_sum.rounding_error + _EPSILON * float(second.excluded_variances.sum())
    apart = min_gap_sum.value + float(gap_weights @ second.excluded_variances)
    if apart - rounding - tolerance > search.target_gap_at(right.errors):
        is_unrestricted = problem.parent is None
        raise IncompatibleParameters(
            "The criterion 'equal_error' was requested, but no subspace of "
            f"{counted(problem.n_components, 'dimension')} has "
            + (
                f"errors at most {tolerance:g} apart"
                if tolerance
                else "the same error for both groups"
            )
            + f": the least reachable gap is {np.ptp(right.errors):.6g}",
            "Allowed: tables where "
            + (
                "zero lies between the sums of the p - d smallest and the p - d largest "
                "eigenvalues of S_1 - S_2"
                if is_unrestricted
                else "the restriction leaves such a subspace"
            )
            + "; or a tolerance of at least that gap",
            "Use 'error_gap' with a large penalty, another n_components, or another center"
            + ("" if is_unrestricted else ", or leave the restriction out"),
        )
    multiplier = max(
        zip(_TRIAL_MULTIPLIERS, bounds, strict=True),
        key=lambda each: (
            each[1].value - each[0] * tolerance - _ROUNDING_WEIGHT * each[1].rounding_error
        ),
    )[0]
    weights = problem.proportions + multiplier * gap_weights
    return right.basis, weights, search.n_eigenproblems, search.trace


# A limit of zero is met up to this share of the means' squared distance; others up to this share.
_ZERO_DISTANCE_TOL, _DISTANCE_TOL = 1e-15, 1e-10


def _solve_mean_limit(problem: Problem, limit: MeanDistanceLimit, tol: float) -> SearchResult:
    """max tr(V'SV) subject to f'VV'f <= delta^2, f = m_1 - m_2.

    The pair (S, ff') is a two-matrix problem like that of two groups: its optimum lies on the
    boundary of {(tr V'SV, f'VV'f)}, which bases of rank exactly d reach. It is found as the root in
    the multiplier mu of the leading eigenvectors of S - mu ff', so nothing is relaxed; Olfat and
    Aswani (2019) solve a semidefinite program instead.

    Raises
    ------
    Incompatible
        The projected means differ by more in every subspace.
    """
    apart, most = limit.difference, limit.tolerance**2
    squared_distance, total = float(apart @ apart), problem.total_variance
    # In units of the total variance both functions are of one size, whatever the means.
    scale = total / squared_distance if squared_distance > 0 and total > 0 else 1.0

    def values_at(basis: FloatArray, errors: FloatArray) -> tuple[float, float]:
        error = float(problem.proportions @ errors)
        return error, scale * (float(np.sum((apart @ basis) ** 2)) - most)

    search = RootSearch(
        problem,
        tol,
        np.array([[1.0, 0.0], [0.0, -1.0]]),
        values_at,
        second_moments=DenseSecondMoments(
            np.array(
                [problem.dense_moments.mixture(problem.proportions), scale * np.outer(apart, apart)]
            )
        ),
        constrained=True,
        constraint_tol=_DISTANCE_TOL * scale * most,
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
                f"Allowed: at least {np.linalg.norm(apart @ right.basis):.6g}: no subspace of "
                "this dimension brings the means closer",
                "Choose a larger tolerance, or fewer components",
            )
        search.refine_bracket(left, right)
    basis, _, n_eigenproblems, trace = search.result
    multiplier = search.weight / (1 - search.weight) * scale if search.weight < 1 else 0.0
    # Of means that are hardly apart at all, the limit alone proves the bound.
    multiplier = multiplier if np.isfinite(multiplier) else 0.0
    return basis, MeanDistanceProof(problem.proportions, multiplier), n_eigenproblems, trace
