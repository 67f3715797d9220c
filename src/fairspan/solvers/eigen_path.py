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


def check_eigen(eigen: object) -> None:
    """Make sure that it is one of the words.

    Raises
    ------
    InvalidParameter, InvalidType
    """
    check_choice("eigen", eigen, EIGEN)


def projected_solver(
    eigen: str, problem: Problem, dense: Callable[[], Solver]
) -> GrowingSubspace | None:
    """The solver to hand the problem to, inside a small subspace; None if matrices are as good.

    Parameters
    ----------
    eigen : {"auto", "dense", "projected"}
    problem : Problem
    dense : callable
        Makes the solver that is used inside.
    """
    # Operators that are no matrices come with a subspace around them.
    if eigen == "dense" or not isinstance(problem.second_moments, DenseSecondMoments):
        return None
    if eigen == "projected" or _pays(problem):
        return GrowingSubspace(dense())
    return None


def _pays(problem: Problem) -> bool:
    p, d = problem.n_features, problem.n_components
    if isinstance(problem.criterion, RobustErrorGap) and problem.n_groups > 2:
        return False  # its bound rests on more mixtures than could be proven
    return p >= _PROJECTED_FROM_FEATURES and d <= _PROJECTED_UP_TO_SHARE * p
