"""From moments to a certified subspace: the road that estimator, audit and command line share."""

import numbers
from typing import Any

from fairspan.errors import Incompatible, InvalidInput, InvalidParameter, running_out_told
from fairspan.estimator.fit import Fit, Settings, fit_of
from fairspan.formatting.names import spoken
from fairspan.linalg.threads import threads_for
from fairspan.moments.center import Center
from fairspan.moments.of_rows import Moments
from fairspan.problem.criteria import Criterion, declares
from fairspan.problem.nesting import check_nested
from fairspan.problem.posing import criterion_of, deviations_of, restriction_of
from fairspan.problem.problem import check_n_components
from fairspan.problem.restrictions import Restriction
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.rows.groups import listed
from fairspan.solvers.choose import Solved, Task, smallest_keeping, solver_of
from fairspan.solvers.nested import nested_keeping, solve_nested
from fairspan.solvers.projected.growing_subspace import GrowingSubspace


@running_out_told()
def fit_subspace(
    moments: Moments,
    n_components: int | float,
    *,
    criterion: str | Criterion = "minimax_loss",
    restriction: Restriction | None = None,
    center: Center = "global",
    scale: bool = False,
    solver: Any = "auto",
    tol: float = 1e-9,
    allow_extra: bool = False,
    nested: bool = False,
    random_state: Any = None,
) -> Fit:
    """Solve for a criterion of the groups' errors.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
        Sparse ones take a whole number of components and no restriction but exact mean parity, and
        their solutions are called estimated. Thin ones are solved in the coordinates of the rows.
    n_components : int or float
        d, from 1 to p; or a share, above 0 and below 1, of every group's variance: then the
        smallest d at which this criterion leaves every group that share.
    criterion : str or criterion object
    restriction : MeanParity, CovarianceParity or None
        Which subspaces are allowed; excess losses are still measured against the best of all.
    center : {"global", "group", "none"}
    scale : bool
        Divide each feature by its pooled standard deviation first.
    solver : str or solver object
    tol : float
        Largest gap to call optimal, as a share of the objective.
    allow_extra : bool
        Whether a soft projection of more than d components may be the answer.
    nested : bool
        Whether the first components are to be an answer of fewer dimensions.
    random_state : int, Generator, RandomState or None
        For solvers that use randomness.

    Returns
    -------
    Fit

    Raises
    ------
    InvalidParameter, InvalidType
        A setting out of range.
    Incompatible
        A criterion or restriction that is not available for these groups, this dimension or this
        solver; a share that no dimension keeps for every group.
    InvalidInput
        A group of one row with center "group": about its own mean it has no variance.
    """
    # All settings are checked before the first eigenproblem.
    chosen, solve_with = criterion_of(criterion), solver_of(solver)
    hide = restriction_of(restriction)
    check_dimension(n_components, moments.n_features)
    single = [label for label, n in zip(moments.labels, moments.counts, strict=True) if n < 2]
    if center == "group" and single:
        raise InvalidInput(
            f"These groups have a single row: {listed(single)}",
            'Allowed with center="group": groups of two rows or more: about its own mean one '
            "row has no variance",
            'Use center="global", or join these groups with others',
        )
    if moments.matrix_free:
        _check_without_matrices(n_components, hide)
        solve_with = GrowingSubspace(solve_with)
    moments.in_range()
    divisor = deviations_of(moments) if scale else None
    if nested:
        check_nested(chosen, hide, allow_extra=bool(allow_extra))
    settings = Settings(chosen, hide, center, divisor, bool(allow_extra), tol, bool(nested))
    counting = Stage(f"fitting {spoken(chosen.name)}", unit=EIGENPROBLEMS)
    with threads_for(moments.n_features), counting:
        posed = settings.posed(moments, n_components)
        found = _solved(Task(posed, solve_with, tol, random_state), nested=bool(nested))
        return fit_of(found[-1], moments, settings, posed.coordinates, found[:-1])


def _solved(task: Task, *, nested: bool) -> list[Solved]:
    """The answer; of nested components, after those of fewer dimensions."""
    wanted = task.posed.n_components
    if isinstance(wanted, numbers.Integral):
        return solve_nested(task, int(wanted)) if nested else [task.at(int(wanted))]
    share = float(wanted)
    return nested_keeping(task, share) if nested else [smallest_keeping(task, share)]


def check_dimension(n_components: object, n_features: int) -> None:
    """Make sure that d is a whole number from 1 to p, or a share above 0 and below 1.

    Raises
    ------
    InvalidParameter
    """
    if isinstance(n_components, numbers.Real) and 0 < float(n_components) < 1:
        return
    try:
        check_n_components(n_components, n_features)
    except InvalidParameter as error:
        received, allowed, _ = error.args
        raise InvalidParameter(
            received,
            f"{allowed}, or a share above 0 and below 1 of every group's variance",
            "Choose such a number, for example 2 or 0.9",
        ) from None


def dimension_keeping(
    moments: Moments,
    n_components: int | float,
    criterion: str | Criterion = "total_error",
    *,
    center: Center = "global",
    scale: bool = False,
) -> int:
    """d itself; or the smallest d at which a criterion leaves every group a share of its variance.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
    n_components : int or float
        d, or the share.
    criterion : str or criterion object
        Ordinary PCA by default.
    center : {"global", "group", "none"}
    scale : bool

    Returns
    -------
    int

    Raises
    ------
    InvalidParameter
        A number out of range.
    Incompatible
        No dimension keeps that share of every group.
    """
    check_dimension(n_components, moments.n_features)
    if isinstance(n_components, numbers.Integral):
        return int(n_components)
    kept = fit_subspace(moments, n_components, criterion=criterion, center=center, scale=scale)
    return kept.problem.n_components


def _check_without_matrices(n_components: object, restriction: Restriction | None) -> None:
    """Make sure that no matrices are needed.

    Raises
    ------
    Incompatible
    """
    whole = isinstance(n_components, numbers.Integral)
    if whole and (restriction is None or declares(restriction, "forbids_few")):
        return
    wanted = f"n_components={n_components!r}, a share," if not whole else f"{restriction!r}"
    raise Incompatible(
        f"{wanted} was requested with sparse rows of many features, which are fitted without "
        "matrices",
        "Allowed: a whole number of components, and no restriction or an orthogonal "
        "MeanParity() without a tolerance",
        "If k p^2 numbers fit into memory, use fit_moments(GroupMoments.from_rows(...))",
    )
