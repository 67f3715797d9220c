"""From moments to a certified subspace: the road that estimator, audit and command line share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, warn
from fairspan.linalg import leading_subspace
from fairspan.moments.center import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.groups import listed
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.named_criteria import criterion_of
from fairspan.problem.problem import Problem, check_n_components
from fairspan.solvers.choose import check_accepted, solver_of
from fairspan.solvers.solution import Solution
from fairspan.subspace import FairSubspace, Provenance
from fairspan.version import __version__

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """A solved problem: the subspace, its certificate, and each group's figures.

    Attributes
    ----------
    problem : Problem
    solution : Solution
    subspace : FairSubspace
    errors, losses : (k,) arrays
        e_g and l_g of each group, in squared (scaled) units of the features.
    component_variances : (k, d) array
        Variance of each group along each component.
    """

    problem: Problem
    solution: Solution
    subspace: FairSubspace
    errors: FloatArray
    losses: FloatArray
    component_variances: FloatArray


def fit_subspace(
    moments: GroupMoments,
    n_components: int,
    *,
    criterion: str | Criterion = "minimax_loss",
    center: Center = "global",
    scale: bool = False,
    solver: Any = "auto",
    tol: float = 1e-9,
) -> Fit:
    """Solve for a criterion of the groups' errors.

    Parameters
    ----------
    moments : GroupMoments
    n_components : int
        d, from 1 to p.
    criterion : str or criterion object
    center : {"global", "group", "none"}
    scale : bool
        Divide each feature by its pooled standard deviation first.
    solver : str or solver object
    tol : float
        Largest gap to call optimal, as a share of the total variance.

    Returns
    -------
    Fit

    Raises
    ------
    InvalidParameter, InvalidType
        A setting out of range.
    Incompatible
        A criterion that the solver cannot take for this number of groups.
    InvalidInput
        A group of one row with center "group": about its own mean it has no variance.
    """
    # All settings are checked before the first eigenproblem.
    chosen, solve_with = criterion_of(criterion), solver_of(solver)
    check_n_components(n_components, moments.n_features)
    if center == "group":
        _check_spread(moments)
    divisor = _scale(moments) if scale else None
    scaled = moments if divisor is None else moments.divided_by(divisor)
    second_moments = DenseSecondMoments(scaled.second_moments(center))
    problem = Problem(second_moments, moments.labels, moments.weights, int(n_components), chosen)
    check_accepted(solve_with, problem)
    solution = solve_with.solve(problem, tol * problem.total_variance)
    basis = solution.components.T
    errors = problem.errors(basis)
    losses = np.maximum(errors - problem.best_errors, 0.0)
    mean = np.zeros(moments.n_features) if center == "none" else moments.mean
    provenance = Provenance(
        criterion=chosen.name,
        solver=solution.solver,
        status=str(solution.status),
        groups=tuple(moments.labels),
        counts=tuple(moments.counts.tolist()),
        errors=tuple(errors.tolist()),
        losses=tuple(losses.tolist()),
        objective=solution.objective,
        lower_bound=solution.lower_bound,
        total_variance=problem.total_variance,
        version=__version__,
    )
    subspace = FairSubspace(
        solution.components, mean, divisor, center, moments.feature_names, provenance
    )
    variances = np.einsum("gii->gi", second_moments.compressed(basis))
    return Fit(problem, solution, subspace, errors, losses, np.array(variances))


def smallest_dimension(
    moments: GroupMoments, share: float, *, center: Center = "global", scale: bool = False
) -> int:
    """The least d whose leading pooled components keep this share of the pooled variance.

    Parameters
    ----------
    moments : GroupMoments
    share : float
        Above 0, up to 1.

    Returns
    -------
    int
        At least 1.
    """
    scaled = moments.divided_by(_scale(moments)) if scale else moments
    pooled = np.tensordot(moments.proportions, scaled.second_moments(center), axes=1)
    kept = np.cumsum(leading_subspace(pooled, moments.n_features).eigenvalues)
    return min(int(np.searchsorted(kept, share * kept[-1])) + 1, moments.n_features)


def _check_spread(moments: GroupMoments) -> None:
    single = [label for label, n in zip(moments.labels, moments.counts, strict=True) if n < 2]
    if single:
        raise InvalidInput(
            f"These groups have a single row: {listed(single)}",
            'Allowed with center="group" are groups of two rows or more: about its own mean one '
            "row has no variance",
            'Use center="global", or join these groups with others',
        )


def _scale(moments: GroupMoments) -> FloatArray:
    deviations = moments.standard_deviations
    constant = deviations == 0
    if constant.any():
        names = moments.feature_names or tuple(map(str, range(moments.n_features)))
        columns = [name for name, is_constant in zip(names, constant, strict=True) if is_constant]
        warn(
            f"These columns are constant and stay unscaled: {listed(columns)}. Scaling needs "
            "columns that vary. They carry no variance, so you can leave them out."
        )
    return np.where(constant, 1.0, deviations)
