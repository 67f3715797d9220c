"""Which way eigenproblems are solved: of p x p matrices, or inside a small subspace."""

from collections.abc import Callable

from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.parameters import check_choice
from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap
from fairspan.solvers.growing_subspace import GrowingSubspace
from fairspan.solvers.protocol import Solver

EIGEN = ("auto", "dense", "projected")

# Below this many features, and above this share of them as components, LAPACK is as fast.
_PROJECTED_FROM_FEATURES = 400
_PROJECTED_UP_TO_SHARE = 1 / 8
# As a share of the total variance, what a subspace is not grown to prove.
_LEAST_TOLERANCE = 1e-12


def check_eigen(eigen: object) -> None:
    """Make sure that it is one of the words.

    Raises
    ------
    InvalidParameter, InvalidType
    """
    check_choice("eigen", eigen, EIGEN)


def projected_solver(
    eigen: str, problem: Problem, tolerance: float, dense: Callable[[], Solver]
) -> GrowingSubspace | None:
    """The solver to hand the problem to, inside a small subspace; None if matrices are as good.

    Parameters
    ----------
    eigen : {"auto", "dense", "projected"}
    problem : Problem
    tolerance : float
        Absolute.
    dense : callable
        Makes the solver that is used inside.
    """
    # Operators that are no matrices come with a subspace around them.
    if eigen == "dense" or not isinstance(problem.second_moments, DenseSecondMoments):
        return None
    if eigen == "projected" or pays(problem, tolerance):
        return GrowingSubspace(dense())
    return None


def pays(problem: Problem, tolerance: float) -> bool:
    """Whether a small subspace is faster, and proves as much as is asked for."""
    p, d = problem.n_features, problem.n_components
    precise = tolerance < _LEAST_TOLERANCE * problem.unit
    many = p >= _PROJECTED_FROM_FEATURES and d <= _PROJECTED_UP_TO_SHARE * p
    return many and not precise and proves(problem)


def proves(problem: Problem) -> bool:
    """Whether the bound rests on few enough mixtures to be proven beside a small subspace."""
    return not (isinstance(problem.criterion, RobustErrorGap) and problem.n_groups > 2)
