"""Which way eigenproblems are solved: of p x p matrices, or inside a small subspace."""

from collections.abc import Callable

from fairspan.problem.criteria import declares
from fairspan.problem.problem import Problem
from fairspan.solvers.projected.growing_subspace import GrowingSubspace
from fairspan.solvers.protocol import Solver

EIGEN = ("auto", "dense", "projected")

# Measured with one thread, over LAPACK's time: 0.45 to 0.95 at p = 500, d = 5 to 20, and 0.8 to 1.4
# at d = 40; at p = 1000 0.24 to 0.6 at d = 5 to 10, and up to 1.1 at d = 125.
_PROJECTED_FROM_FEATURES, _MANY_FEATURES = 500, 1000
_PROJECTED_UP_TO_SHARE, _UP_TO_SHARE_OF_MANY = 1 / 25, 1 / 8
# (tr M)^2 / |M|_F^2 counts the eigenvalues that matter. Rows of noise have p / 3 and more, and take
# 1.2 to 3.9 times as long; eigenvalues that fall like 1 / i or exp(-40 i / p) have p / 18 and less.
_PROJECTED_UP_TO_SHARE_THAT_MATTERS = 1 / 8
# As a share of the objective, what a subspace is not grown to prove.
_LEAST_TOLERANCE = 1e-12


def projected_solver(
    eigen: str, problem: Problem, tol: float, dense: Callable[[], Solver]
) -> GrowingSubspace | None:
    """The solver to hand the problem to, inside a small subspace; None if matrices are as good.

    Parameters
    ----------
    eigen : {"auto", "dense", "projected"}
    problem : Problem
    tol : float
        A share of the objective.
    dense : callable
        Makes the solver that is used inside.
    """
    # Operators that are no matrices come with a subspace around them.
    if eigen == "dense" or not problem.has_matrices:
        return None
    if eigen == "projected" or pays(problem, tol):
        return GrowingSubspace(dense())
    return None


def pays(problem: Problem, tol: float) -> bool:
    """Whether a small subspace is faster, and proves as much as is requested."""
    p, d = problem.n_features, problem.n_components
    precise = tol < _LEAST_TOLERANCE
    share = _UP_TO_SHARE_OF_MANY if p >= _MANY_FEATURES else _PROJECTED_UP_TO_SHARE
    many = p >= _PROJECTED_FROM_FEATURES and d <= share * p
    return many and not precise and proves(problem) and not _is_flat(problem)


def _is_flat(problem: Problem) -> bool:
    """Whether so many eigenvalues matter that iterations converge slowly."""
    second, q = problem.dense, problem.proportions
    variance = float(q @ (second.traces - second.outside))
    matter = _PROJECTED_UP_TO_SHARE_THAT_MATTERS * problem.n_features
    return variance**2 > matter * second.squared_norm(q)


def proves(problem: Problem) -> bool:
    """Whether the answer is made of leading eigenvectors, which a small subspace can hold."""
    return not (declares(problem.criterion, "has_concave_scores") and problem.n_groups > 2)
