"""Two groups: total error subject to equal errors.

Let D = S_1 - S_2. The gap e_1 - e_2 = tr U'DU, U the complement of V, takes every value between the
sums of the p - d smallest and the p - d largest eigenvalues of D. Where zero lies inside, the
optimum is the root of the gap along the mixtures (q_1 + nu) S_1 + (q_2 - nu) S_2. Where zero is at
the border, the subspaces that reach it hold the eigenvectors of D beyond the cut and any choice
among those tied at it, and the best choice is a smaller problem of its own.
"""

import numpy as np

from fairspan.certificates.optimality import certified, goal
from fairspan.certificates.solution import Solution, Status
from fairspan.errors import Incompatible
from fairspan.linalg import graded_eigh, leading_subspace, smallest_sum
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.root_search import Reached, RootSearch
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)

# Eigenvalues of D this near to the one at the cut, as a share of what rounding is one of, are tied.
_TIED = 1e-10
# Errors that differ by this share of them are equal.
_MET = 1e-15
# At the border the bound rises with nu to the optimum, as 1 / nu, and its rounding grows as nu.
_MULTIPLIERS = tuple(10.0 ** (half / 2) for half in range(2, 18))
# Where both are equal the gap is least, and cannot be told from zero; so are gaps little larger.
_LITTLE_LARGER = 4.0
_MERITS = (Status.OPEN_GAP, Status.UNRESOLVED, Status.OPTIMAL)


def solve_equal_errors(problem: Problem, tol: float, solver: str) -> Solution:
    """Find the optimum.

    Raises
    ------
    Incompatible
        No subspace has equal errors.
    """
    second = problem.dense
    pca = problem.pooled_optimum.vectors
    first, last = problem.errors(pca)
    # Turned so that ordinary PCA has a positive gap.
    gap = np.array([1.0, -1.0]) * (1.0 if first >= last else -1.0)

    def reached_at(basis: FloatArray) -> Reached:
        errors = problem.errors(basis)
        values = float(problem.proportions @ errors), float(gap @ errors)
        return Reached(values, goal(problem, errors, tol))

    search = RootSearch(
        second,
        problem.n_components,
        np.array([problem.proportions, gap]),
        reached_at,
        constrained=True,
    )
    # Nearly identical groups have a steep trade-off: errors that are nearly equal are not equal.
    search.met = _MET * float(problem.errors(pca).max())
    left = search.contact(0.0)
    if left.values[1] <= left.goal:
        search.basis = left.basis
    else:
        right = search.contact(1.0)
        if right.values[1] < -left.goal:
            search.close(left, right)
    if not len(search.basis):
        return _at_the_border(problem, search, gap, tol, solver)
    return _certified(problem, search, search.basis, search.weights, tol, solver)


def _at_the_border(
    problem: Problem, search: RootSearch, gap: FloatArray, tol: float, solver: str
) -> Solution:
    """Where the least gap is zero; otherwise it is too large, and equal errors out of reach."""
    basis = _least_gap(problem, gap)
    found = [
        _certified(problem, search, basis, problem.proportions + multiplier * gap, tol, solver)
        for multiplier in _MULTIPLIERS
    ]
    most = _LITTLE_LARGER * min(each.gap for each in found)
    best = max(
        (each for each in found if each.gap <= most),
        key=lambda each: (_MERITS.index(each.status), each.lower_bound),
    )
    if proven_gap(problem, gap) > tol * best.scale:
        raise out_of_reach(problem, best.violation)
    return best


def _least_gap(problem: Problem, gap: FloatArray) -> FloatArray:
    """Of the subspaces with the least gap, the one of least total error."""
    second, d = problem.dense, problem.n_components
    difference = second.mixture(gap)
    values, vectors, sizes = (each[..., ::-1] for each in graded_eigh(difference, d))
    tied = np.abs(values - values[d - 1]) <= _TIED * sizes[d - 1]
    n_fixed = int(np.argmax(tied))
    free = vectors[:, tied]
    inside = free.T @ second.mixture(problem.proportions) @ free
    chosen = leading_subspace((inside + inside.T) / 2, d - n_fixed).vectors
    return np.hstack([vectors[:, :n_fixed], free @ chosen])


def _certified(
    problem: Problem,
    search: RootSearch,
    basis: FloatArray,
    weights: FloatArray,
    tol: float,
    solver: str,
) -> Solution:
    return certified(
        problem,
        basis,
        weights,
        tol=tol,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=solver,
    )


def proven_gap(problem: Problem, weights: FloatArray) -> float:
    """What weights prove of the least gap between errors, less its rounding.

    They sum to zero, and the positive ones to one at most.
    """
    second = problem.dense
    least = smallest_sum(second.matrices, weights, problem.n_components)
    rounding = least.rounding + _EPSILON * float(np.abs(weights) @ second.outside)
    return least.value + float(weights @ second.outside) - rounding


def out_of_reach(problem: Problem, least: float) -> Incompatible:
    """That no subspace has equal errors."""
    remedy = "Use 'error_gap' with a large penalty, another n_components, or another center"
    if problem.unrestricted is None:
        condition = (
            "zero lies between the sums of the p - d smallest and the p - d largest "
            "eigenvalues of S_1 - S_2"
        )
    else:
        condition = "the restriction leaves such a subspace"
        remedy += ", or leave the restriction out"
    return Incompatible(
        "The criterion 'equal_error' was requested, but no subspace of "
        f"{problem.n_components} dimensions has the same error for both groups: "
        f"the least reachable gap is {least:.6g}",
        f"Allowed: tables where {condition}",
        remedy,
    )
