"""Exact solver for two groups, on the boundary of the trade-off between their errors.

Let c_g(V) = tr(V'S_gV) and e_g(V) = tr S_g - c_g(V) be the captured variance and the error of group
g with second moment S_g, and q_g its proportion. Every boundary point of the convex hull of W =
{(c_1(V), c_2(V))}, over V with d orthonormal columns, is attained by a basis of rank exactly d
(see :mod:`fairspan.solvers.two_groups.geodesic`), and every criterion here has its optimum there.
So no relaxation and no extra dimension is needed: one symmetric eigenproblem gives a boundary point
with its supporting line, and the search is over a single weight
(:mod:`fairspan.solvers.two_groups.root_search`).

Equal errors: let D = S_1 - S_2. The gap e_1 - e_2 = tr U'DU, U the complement of V, takes every
value between the sums of the p - d smallest and the p - d largest eigenvalues of D. If zero lies
strictly inside, the optimum is the root of the gap along the mixtures (q_1 + nu) S_1 + (q_2 - nu)
S_2. With a tolerance, the root is where the gap equals the tolerance, on the side of ordinary PCA.
If zero is at the border, the feasible subspaces contain the eigenvectors of D beyond the cut and
any choice among those tied at it; the best choice is a smaller problem.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.error_rounding import target_gap
from fairspan.certificates.evaluate_solution import certify
from fairspan.certificates.proofs import MeanDistanceProof, Proof
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import EPS, VALUE_ROUNDING
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion
from fairspan.problem.criteria.equal_error import EqualError
from fairspan.problem.criteria.minimax import MinimaxCriterion
from fairspan.problem.limits import MeanDistanceLimit
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.problem import Problem
from fairspan.solvers.solver import Solver
from fairspan.solvers.two_groups.branch_and_bound import BranchAndBound, SearchResult
from fairspan.solvers.two_groups.root_search import DualPoint, RootSearch
from fairspan.typing import FloatArray, RandomSource

# At the border of feasible gaps, the bound for equal errors approaches the optimum as 1 / nu, while
# its rounding error grows as nu. Rounding error counts less than an open gap of the same size: of
# 500 problems at the border this weight leaves none open, and a weight of 1 leaves 38.
_ROUNDING_WEIGHT = 0.25
# Values of nu at which the bound is evaluated at the border: two per decade, from 10 to 3e8.
_TRIAL_MULTIPLIERS = tuple(10.0 ** (half / 2) for half in range(2, 18))
# Tolerance for a limit on the distance of projected means, relative to its square.
_DISTANCE_TOL = 1e-10


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
        if problem.n_groups == 1:
            return None
        # The pieces of excess losses cost an eigenproblem per group, so avoid computing them here.
        # A minimax criterion of two groups has one piece for each, which is supported; the excess
        # losses of more groups are not linear, so their pieces are not needed either.
        if problem.n_groups == 2 and isinstance(criterion, MinimaxCriterion):
            return None
        is_excess_of_many = problem.n_groups > 2 and criterion.uses_excess_loss
        pieces = None if is_excess_of_many else problem.pieces
        is_linear = pieces is not None and pieces.is_linear
        if problem.n_groups > 2 and not is_linear:
            return (
                "it supports one or two groups, and more only for linear criteria such as "
                "'total_error'"
            )
        if pieces is None and not isinstance(criterion, ConcaveScoresCriterion):
            return "it supports only piecewise linear criteria and maxima of concave scores"
        if pieces is not None and not (is_linear or pieces.is_max_of_two):
            return "it supports the maximum of at most two affine functions of the errors"
        return None

    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
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
            # Mean parity with a tolerance limits the distance of the projected means.
            result = _solve_mean_limit(problem, problem.limit, tol)
        elif problem.n_groups == 1:
            # Ordinary PCA: every criterion increases with the error of the only group.
            result = _solve_linear(problem, problem.proportions)
        elif isinstance(problem.criterion, EqualError):
            result = _solve_equal_errors(problem, tol)
        elif problem.pieces is None:
            # The largest of concave scores, such as those of the robust error gap: not convex.
            result = BranchAndBound(problem, tol).run()
        elif problem.pieces.is_linear:
            # A sum of affine functions, one in each row of the (m, k) coefficients.
            result = _solve_linear(problem, problem.pieces.coefficients.sum(axis=0))
        else:
            # `unsupported_reason` leaves only the maximum of two.
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
    """Minimize w.e over subspaces, with errors e: the leading eigenvectors of the mixture of w.

    Bound and value agree, up to rounding.
    """
    basis = problem.second_moments.leading(weights, problem.n_components).vectors
    value = problem.objective(basis)
    return SearchResult(basis, weights, 1, [TracePoint(1, value, value)])


def _solve_max_of_two(problem: Problem, pieces: AffinePieces, tol: float) -> SearchResult:
    """Minimize the maximum of two affine functions f_0, f_1 of the errors: the two pieces."""
    search = RootSearch(
        problem, tol, pieces.coefficients, lambda _, errors: pieces.piece_values(errors).tolist()
    )
    left = search.solve_at(0.0)
    # The residual is f_1 - f_0. Where the function minimized at an end is also the larger one, the
    # end is optimal; otherwise the residual changes sign, and the root is searched.
    if left.residual > 0:
        right = search.solve_at(1.0)
        if right.residual < 0:
            if problem.warm_start is not None:
                left, right = search.narrow_bracket(left, right, problem.warm_start.weights)
            search.refine_bracket(left, right)
    return search.result


def _solve_equal_errors(problem: Problem, tol: float) -> SearchResult:
    """Smallest total error with equal errors, or errors that differ by at most the tolerance.

    In terms of :class:`RootSearch`, which minimizes f_0 subject to f_1 = 0, f_0 is the total error
    and f_1 the gap between the two errors minus the tolerance, positive for ordinary PCA.

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
        constraint_tol=VALUE_ROUNDING * float(max(first_error, second_error)),
    )
    left = search.solve_at(0.0)
    # Ordinary PCA is optimal if it respects the tolerance already.
    if left.f1 <= target_gap(problem, left.errors, tol):
        search.update_best(left.basis, left.errors, left.f0)
        return search.result
    # At t = 1 the gap is smallest. At a tie, the subspace of the smallest total error is taken.
    right = search.solve_at(1.0)
    # If it is below the tolerance, the gap equals the tolerance in between.
    if right.f1 < 0:
        search.refine_bracket(left, right)
        return search.result
    # The smallest gap either equals the tolerance, or is too large for the problem to be feasible.
    excess = _smallest_gap_beyond_rounding(problem, gap_weights) - tolerance
    if excess > target_gap(problem, right.errors, tol):
        raise _equal_errors_infeasible(problem, tolerance, float(np.ptp(right.errors)))
    weights = _best_border_weights(problem, gap_weights, right)
    return SearchResult(right.basis, weights, search.n_eigenproblems, search.trace)


def _smallest_gap_beyond_rounding(problem: Problem, gap_weights: FloatArray) -> float:
    """Smallest gap between the errors of any subspace, less its rounding error.

    The gap is w.e with the (2,) weights w. Variances outside of the features of the problem, which
    a restriction excludes, are part of every error.
    """
    second_moments = problem.dense_moments
    excluded = second_moments.excluded_variances
    min_gap_sum = second_moments.smallest_eigenvalue_sum(gap_weights, problem.n_components)
    rounding = min_gap_sum.rounding_error + EPS * float(excluded.sum())
    min_gap = min_gap_sum.value + float(gap_weights @ excluded)
    return min_gap - rounding


def _best_border_weights(
    problem: Problem, gap_weights: FloatArray, contact: DualPoint
) -> FloatArray:
    """Group weights that prove the best bound if the smallest gap equals the tolerance, (2,).

    Every multiplier of the gap then proves a lower bound on the total error, none the exact
    optimum: the best of some is chosen. Large ones come closer to the optimum, at a larger rounding
    error.

    Parameters
    ----------
    problem : Problem
    gap_weights : (2,) array
        Weights of the errors in the gap.
    contact : DualPoint
        Subspace of the smallest gap.
    """

    def weights_of(multiplier: float) -> FloatArray:
        return np.asarray(problem.proportions + multiplier * gap_weights)

    def discounted_gap(multiplier: float) -> float:
        """Certified gap, in which the rounding allowance counts with `_ROUNDING_WEIGHT`."""
        proof = Proof(weights_of(multiplier))
        gap, rounding_allowance = proof.gap(problem, contact.basis, contact.errors)
        return gap - (1 - _ROUNDING_WEIGHT) * rounding_allowance

    return weights_of(min(_TRIAL_MULTIPLIERS, key=discounted_gap))


def _equal_errors_infeasible(
    problem: Problem, tolerance: float, min_gap: float
) -> IncompatibleParameters:
    """Error for the case that no subspace has errors as equal as requested."""
    requirement = "the same error for both groups"
    if tolerance:
        requirement = f"errors that differ by at most {tolerance:g}"
    condition = "the restriction allows such a subspace"
    advice = "Use 'error_gap' with a large penalty, another n_components, or another center"
    if problem.embedding.parent is None:
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


def _solve_mean_limit(problem: Problem, limit: MeanDistanceLimit, tol: float) -> SearchResult:
    """Maximize tr(V'SV) subject to f'VV'f <= delta^2: projected means within a distance of delta.

    S is the second moment of all rows, and f = m_1 - m_2 the difference of the groups' means. In
    terms of :class:`RootSearch`, which minimizes f_0 subject to f_1 = 0, f_0 is the total error and
    f_1 = scale * (f'VV'f - delta^2).

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
        # The error falls with S, and the distance rises with ff'.
        coefficients=np.array([[1.0, 0.0], [0.0, -1.0]]),
        evaluate_pair=evaluate_pair,
        second_moments=DenseSecondMoments(np.array([pooled, difference_moment])),
        constrained=True,
        constraint_tol=_DISTANCE_TOL * scale * squared_limit,
    )
    # At t = 0 the total error alone is minimized: ordinary PCA, optimal if it respects the limit.
    left = search.solve_at(0.0)
    if left.f1 <= 0:
        search.update_best(left.basis, left.errors, left.f0)
    else:
        # At t = 1 the distance alone is minimized: if it is too large here, it is everywhere.
        right = search.solve_at(1.0)
        if right.f1 > VALUE_ROUNDING * scale * squared_distance:
            raise _mean_limit_infeasible(problem, limit, right.basis)
        search.refine_bracket(left, right)
    multiplier = _mean_limit_multiplier(search.best_t, scale)
    proof = MeanDistanceProof(problem.proportions, multiplier)
    return search.result._replace(proof=proof)


def _mean_limit_multiplier(t: float, scale: float) -> float:
    """Multiplier mu for which S - mu ff' is the mixture (1 - t) S - t scale ff' over 1 - t."""
    multiplier = t / (1 - t) * scale if t < 1 else 0.0
    # If the means hardly differ, mu overflows. The proof then rests on its second bound, for small
    # limits, which needs no multiplier.
    return multiplier if np.isfinite(multiplier) else 0.0


def _mean_limit_infeasible(
    problem: Problem, limit: MeanDistanceLimit, closest_basis: FloatArray
) -> IncompatibleParameters:
    """Error for the case that every subspace exceeds a limit on the distance of the means.

    `closest_basis`, (p, d), is that of a subspace in which they are closest together.
    """
    min_distance = np.linalg.norm(limit.difference @ closest_basis)
    return IncompatibleParameters(
        f"MeanParity received tolerance={limit.tolerance!r} with n_components="
        f"{problem.n_components} of {counted(problem.n_features, 'feature')}",
        f"Allowed: at least {min_distance:.6g}: no subspace of this dimension brings the means "
        "closer together",
        "Choose a larger tolerance, or fewer components",
    )
