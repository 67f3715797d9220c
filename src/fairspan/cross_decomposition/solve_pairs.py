"""Search for the best pair of subspaces.

A criterion that is the largest of affine functions is minimized over the subspaces of the stacked
table: with s_g the spectral norm of C_g, the matrix S_g = s_g I + [[0, C_g], [C_g', 0]] is positive
semidefinite, and the subspace spanned by [U; V] / sqrt(2) captures d s_g + tr U'C_gV of it. So the
search is one that the solvers of FairPCA already do. Its solutions are spanned by leading
eigenvectors of a mixture, whose halves are orthonormal where the singular values are positive.

A smooth criterion is minimized over the convex hull of the products UV' by the Frank-Wolfe method,
each step of which is one singular value decomposition.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairspan.cross_decomposition.cross_covariances import SingularPairs, leading_pairs
from fairspan.cross_decomposition.paired_criteria import PairedProblem
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import LOOSE_TOL, TINY
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.problem import Problem
from fairspan.solvers.auto import AUTO, Auto, choose_solver, solve_problem
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource

# Departure of the halves of a stacked basis from orthonormality below which they are a pair: a few
# roundings of an eigenvector beside the tolerance of the search.
_PAIR_TOL = 1e-7
# Largest number of proximal steps, of a few milliseconds each, that make a pair of other halves; up
# to 40 improved the objective.
_MAX_PROXIMAL_STEPS = 60
# Relative improvement below which proximal steps end.
_MIN_IMPROVEMENT = 1e-10
# Largest number of Frank-Wolfe steps; up to 30 were seen.
_MAX_FRANK_WOLFE_STEPS = 300
# Largest number of local steps, and of doublings of the proximal term in each.
_MAX_LOCAL_STEPS = 500
_MAX_DOUBLINGS = 20
# First strength of that term, relative to the largest singular value that it competes with.
_FIRST_STRENGTH = 0.1


@dataclass(frozen=True, eq=False)
class PairedSolution:
    """Pair of bases, with the weights of the groups that prove how good it is.

    Attributes
    ----------
    U : (p, d) array
    V : (q, d) array
    weights : (k,) array
    n_decompositions : int
        Number of eigenproblems and singular value decompositions solved.
    """

    U: FloatArray
    V: FloatArray
    weights: FloatArray
    n_decompositions: int


@dataclass(frozen=True, eq=False)
class _StackedCriterion(Criterion):
    """Criterion of a pair, as a function of the errors of the stacked problem.

    Attributes
    ----------
    pieces_of_pairs : AffinePieces
        Functions of minus the covariances kept.
    max_errors : (k,) array
        Error of each group in the stacked problem where no covariance is kept.
    """

    pieces_of_pairs: AffinePieces
    max_errors: FloatArray
    name: ClassVar[str] = "covariance_loss"

    def pieces(self, problem: ProblemView) -> AffinePieces:
        """Pieces of the errors: covariances kept are `max_errors` minus the errors."""
        pieces = self.pieces_of_pairs
        offsets = pieces.offsets + pieces.coefficients @ self.max_errors
        return AffinePieces(pieces.coefficients, offsets, pieces.blocks)


def solve_pairs(
    problem: PairedProblem, solver: Solver | Auto, tol: float, random_state: RandomSource = None
) -> PairedSolution:
    """Find the best pair.

    Parameters
    ----------
    problem : PairedProblem
    solver : Solver or Auto
        For criteria that are the largest of affine functions; others have one method.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    random_state : int, Generator, RandomState or None
    """
    pieces = problem.criterion.affine_pieces(problem)
    if pieces is not None:
        return _minimize_largest(problem, pieces, solver, tol, random_state)
    return _minimize_smooth(problem, _finite_start(problem), tol)


def _finite_start(problem: PairedProblem) -> PairedSolution:
    """Pair at which the criterion is finite.

    The leading pair of the groups in equal weights, relative to their best, unless a group keeps
    too little for the criterion; then the pair of which the group that keeps least keeps most.

    Raises
    ------
    IncompatibleParameters
        The criterion is infinite even there.
    """
    covariances = problem.covariances
    weights = 1 / np.maximum(problem.best_covariances, TINY)
    feasible = problem.criterion.feasible_weights(weights, problem)
    pair = leading_pairs(covariances.mixture(feasible), problem.n_components)
    start = PairedSolution(pair.U, pair.V, feasible, n_decompositions=1)
    if np.isfinite(_value(problem, start)):
        return start
    least_kept = AffinePieces(np.diag(weights), np.zeros(problem.n_groups))
    balanced = _minimize_largest(problem, least_kept, AUTO, LOOSE_TOL, None)
    if np.isfinite(_value(problem, balanced)):
        return replace(balanced, weights=feasible)
    raise IncompatibleParameters(
        f"No pair of {counted(problem.n_components, 'component')} was found that keeps some "
        f"covariance of every group, which the criterion {problem.criterion.name!r} needs",
        "Allowed: groups of which a common pair keeps some covariance",
        "Choose more components, or the criterion 'minimax_loss'",
    )


def _minimize_largest(
    problem: PairedProblem,
    pieces: AffinePieces,
    solver: Solver | Auto,
    tol: float,
    random_state: RandomSource,
) -> PairedSolution:
    """Minimize the largest of affine functions by the solvers of stacked problems."""
    matrices = problem.covariances.matrices
    p = problem.covariances.shape[0]
    d = problem.n_components
    stacked = _stacked_problem(problem, matrices, pieces)
    resolved_solver = choose_solver(solver, stacked)
    certificate = solve_problem(stacked, resolved_solver, tol, random_state)
    solution = PairedSolution(
        U=_nearest_orthonormal(certificate.components[:, :p].T),
        V=_nearest_orthonormal(certificate.components[:, p:].T),
        weights=certificate.weights,
        n_decompositions=certificate.n_eigenproblems,
    )
    halves = certificate.components[:, :p]
    departure = np.abs(2 * halves @ halves.T - np.eye(d)).max()
    if departure <= _PAIR_TOL:
        return solution
    return _improve_by_proximal_steps(problem, pieces, solution, resolved_solver, tol)


def _improve_by_proximal_steps(
    problem: PairedProblem,
    pieces: AffinePieces,
    solution: PairedSolution,
    solver: Solver,
    tol: float,
) -> PairedSolution:
    """Improve a pair whose halves had to be made orthonormal.

    Where singular values of a mixture are zero, or d is close to the size of a table, a stacked
    basis may be no pair. A step adds m (d - tr M'M_0) to the covariance that every group loses,
    M = UV' and M_0 the present product: the same problem with the matrices C_g + m M_0. Its
    solution is close to M_0, so that it is a pair, and no worse than M_0.
    """
    covariances = problem.covariances
    p = covariances.shape[0]
    d = problem.n_components
    best = solution
    best_value = _value(problem, best)
    # The added term is of the size of the largest covariances that it competes with.
    strength = float(covariances.largest_singular_values.max())
    lost = np.full(problem.n_groups, strength * d)
    shifted_offsets = pieces.offsets - pieces.coefficients @ lost
    shifted = AffinePieces(pieces.coefficients, shifted_offsets, pieces.blocks)
    for _ in range(_MAX_PROXIMAL_STEPS):
        matrices = covariances.matrices + strength * best.U @ best.V.T
        stacked = _stacked_problem(problem, matrices, shifted)
        certificate = solve_problem(stacked, solver, tol)
        candidate = replace(
            best,
            U=_nearest_orthonormal(certificate.components[:, :p].T),
            V=_nearest_orthonormal(certificate.components[:, p:].T),
            n_decompositions=best.n_decompositions + certificate.n_eigenproblems,
        )
        value = _value(problem, candidate)
        if not value < best_value - _MIN_IMPROVEMENT * abs(best_value):
            return replace(best, n_decompositions=candidate.n_decompositions)
        best = candidate
        best_value = value
    return best


def _stacked_problem(problem: PairedProblem, matrices: FloatArray, pieces: AffinePieces) -> Problem:
    """Problem of one subspace of the stacked table, of the same objective on pairs.

    Parameters
    ----------
    problem : PairedProblem
    matrices : (k, p, q) array
        C_g.
    pieces : AffinePieces
        The criterion, as functions of minus the covariances kept.
    """
    k, p, q = matrices.shape
    norms = np.linalg.norm(matrices, ord=2, axis=(1, 2))
    stacked = np.zeros((k, p + q, p + q))
    stacked[:, :p, p:] = matrices
    stacked[:, p:, :p] = matrices.transpose(0, 2, 1)
    stacked += norms[:, None, None] * np.eye(p + q)
    criterion = _StackedCriterion(pieces, (p + q - problem.n_components) * norms)
    return Problem(
        DenseSecondMoments(stacked),
        list(range(k)),
        problem.proportions,
        problem.n_components,
        criterion,
    )


def _minimize_smooth(problem: PairedProblem, start: PairedSolution, tol: float) -> PairedSolution:
    """Minimize a smooth criterion over the convex hull of the products UV', then over pairs.

    The Frank-Wolfe method adds the pair that is best for the linearized criterion, and mixes all
    pairs found so far. The best pair is often the last one; else the one nearest to the mixture is
    improved by local steps.
    """
    covariances = problem.covariances
    criterion = problem.criterion
    d = problem.n_components
    # Pairs so far, what each keeps of the groups, and the weight of each in the mixture.
    atoms = [SingularPairs(start.U, start.V, np.nan)]
    kept = covariances.kept_covariances(start.U, start.V)[None]
    mixture = np.ones(1)
    bound = -np.inf
    best_weights = start.weights
    n_decompositions = start.n_decompositions
    for _ in range(_MAX_FRANK_WOLFE_STEPS):
        mixed = mixture @ kept
        weights = criterion.feasible_weights(criterion.gradient_weights(mixed, problem), problem)
        atom = leading_pairs(covariances.mixture(weights), d)
        n_decompositions += 1
        new_bound = criterion.lower_bound(weights, atom.sum, problem)
        if new_bound > bound:
            bound = new_bound
            best_weights = weights
        allowed_gap = tol * criterion.scale(mixed, problem) / 2
        if criterion.value(mixed, problem) - bound <= allowed_gap:
            break
        atoms.append(atom)
        kept = np.vstack([kept, covariances.kept_covariances(atom.U, atom.V)])
        mixture = criterion.best_mixture(kept, np.append(mixture, 0.0), problem)
    products = [
        weight * atom.U @ atom.V.T
        for weight, atom in zip(mixture, atoms, strict=True)
        if weight > 0
    ]
    nearest = leading_pairs(np.sum(products, axis=0), d)
    proving_pair = leading_pairs(covariances.mixture(best_weights), d)
    solutions = [
        PairedSolution(pair.U, pair.V, best_weights, n_decompositions)
        for pair in (*atoms, nearest, proving_pair)
    ]
    best = min(solutions, key=lambda solution: _value(problem, solution))
    if _value(problem, best) - bound <= tol * criterion.scale(_kept(problem, best), problem):
        return best
    return _improve_by_local_steps(problem, best)


def _improve_by_local_steps(problem: PairedProblem, solution: PairedSolution) -> PairedSolution:
    """Improve a pair by steps that stay near to it, until none does.

    A step maximizes the linearized covariances plus m tr M'M_0, M = UV' and M_0 the present
    product; m doubles until the criterion improves.
    """
    covariances = problem.covariances
    criterion = problem.criterion
    best = solution
    best_value = _value(problem, best)
    for _ in range(_MAX_LOCAL_STEPS):
        gradient = criterion.gradient_weights(_kept(problem, best), problem)
        mixture = covariances.mixture(gradient)
        strength = _FIRST_STRENGTH * float(np.linalg.norm(mixture, ord=2))
        improved = None
        for _ in range(_MAX_DOUBLINGS):
            pair = leading_pairs(mixture + strength * best.U @ best.V.T, problem.n_components)
            candidate = replace(
                best, U=pair.U, V=pair.V, n_decompositions=best.n_decompositions + 1
            )
            value = _value(problem, candidate)
            if value < best_value - _MIN_IMPROVEMENT * abs(best_value):
                improved = candidate
                break
            strength *= 2
        if improved is None:
            break
        best = improved
        best_value = value
    return best


def _kept(problem: PairedProblem, solution: PairedSolution) -> FloatArray:
    """Covariance kept of each group, shape (k,)."""
    return problem.covariances.kept_covariances(solution.U, solution.V)


def _value(problem: PairedProblem, solution: PairedSolution) -> float:
    """Objective of a pair."""
    return problem.criterion.value(_kept(problem, solution), problem)


def _nearest_orthonormal(columns: FloatArray) -> FloatArray:
    """Orthonormal columns nearest to the given ones: the polar factor, shape (p, d)."""
    left, _, right = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left @ right)
