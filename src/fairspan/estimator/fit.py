"""From moments to a certified subspace: the road that estimator, audit and command line share."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairspan.certificates.proof import evidence_of, stored_settings
from fairspan.certificates.solution import Solution, Status
from fairspan.errors import Incompatible, InvalidInput, InvalidParameter, running_out_told
from fairspan.formatting.names import spoken
from fairspan.linalg import with_positive_signs
from fairspan.linalg.machine import threads_for
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center
from fairspan.moments.held_rows import Coordinates
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import errors_under, kept_by_component
from fairspan.problem.criteria import Criterion
from fairspan.problem.nesting import check_nested
from fairspan.problem.posing import (
    criterion_of,
    deviations_of,
    largest_column,
    pose,
    restriction_of,
)
from fairspan.problem.problem import Problem, check_n_components
from fairspan.problem.restrictions import Restriction
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.provenance import Claim, NestedStep, Provenance
from fairspan.registry import names_of
from fairspan.rows.groups import listed
from fairspan.solvers.choose import Solved, Task, smallest_keeping, solver_of
from fairspan.solvers.nested import nested_keeping, solve_nested
from fairspan.solvers.projected.growing_subspace import GrowingSubspace
from fairspan.typing import FloatArray
from fairspan.version import __version__


@dataclass(frozen=True, eq=False)
class Fit:
    """A solved problem: the subspace, its certificate, and each group's figures.

    Attributes
    ----------
    problem : Problem
        Without the restriction, if there is one; in coordinates, if it was solved in such.
    solution : Solution
    subspace : FairSubspace
    errors, losses : (k,) arrays
        e_g and l_g of each group, in squared (scaled) units of the features.
    component_variances : (k, r) array
        Variance of each group that each component keeps.
    coordinates : Coordinates or None
        Those of the problem, where it was not solved in the features.
    """

    problem: Problem
    solution: Solution
    subspace: FairSubspace
    errors: FloatArray
    losses: FloatArray
    component_variances: FloatArray
    coordinates: Coordinates | None = None

    def in_features(self, basis: FloatArray) -> FloatArray:
        """A basis of the problem as columns of the features, (p, r)."""
        if self.coordinates is None:
            return basis
        return with_positive_signs(self.coordinates.lift(basis))


@dataclass(frozen=True, eq=False)
class _Settings:
    """What a fit is made with, once it is checked."""

    criterion: Criterion
    restriction: Restriction | None
    center: Center
    divisor: FloatArray | None
    tol: float
    nested: bool


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
    settings = _Settings(chosen, hide, center, divisor, tol, bool(nested))
    counting = Stage(f"fitting {spoken(chosen.name)}", unit=EIGENPROBLEMS)
    with threads_for(moments.n_features), counting:
        posed = pose(
            moments,
            n_components,
            chosen,
            restriction=hide,
            center=center,
            divisor=divisor,
            allow_extra=bool(allow_extra),
        )
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
    return fit_subspace(
        moments, n_components, criterion=criterion, center=center, scale=scale
    ).problem.n_components


def _check_without_matrices(n_components: object, restriction: Restriction | None) -> None:
    """Make sure that no matrices are needed.

    Raises
    ------
    Incompatible
    """
    whole = isinstance(n_components, numbers.Integral)
    if whole and (restriction is None or restriction.forbids_few):
        return
    wanted = f"n_components={n_components!r}, a share," if not whole else f"{restriction!r}"
    raise Incompatible(
        f"{wanted} was requested with sparse rows of many features, which are fitted without "
        "matrices",
        "Allowed: a whole number of components, and no restriction or an orthogonal "
        "MeanParity() without a tolerance",
        "If k p^2 numbers fit into memory, use fit_moments(GroupMoments.from_rows(...))",
    )


def fit_of(
    solved: Solved,
    moments: Moments,
    settings: _Settings,
    coordinates: Coordinates | None,
    before: Sequence[Solved] = (),
) -> Fit:
    """The fit of an answer; of nested components, after those of fewer dimensions."""
    problem, solution = solved.problem, solved.solution
    errors, losses = _errors_and_losses(solved)
    variances = kept_by_component(solved.projector, problem.second_moments)
    reasons = partial(_with_reason, problem, moments=moments, settings=settings)
    solution = reasons(replace(solution, steps=tuple(map(reasons, solution.steps))))
    steps = [_step_of(replace(each, solution=reasons(each.solution))) for each in before]
    if settings.nested:
        steps.append(_step_of(replace(solved, solution=solution)))
    if coordinates is not None:
        components = np.ascontiguousarray(
            with_positive_signs(coordinates.lift(solution.components.T)).T
        )
        inside = tuple(
            replace(step, components=row, eigen="thin")
            for step, row in zip(solution.steps, components[:, None], strict=False)
        )
        solution = replace(solution, components=components, eigen="thin", steps=inside)
    encoder, decoder = solution.components, None
    if solved.encoder is not None:
        encoder, decoder = _oblique(solved.encoder, solved.solution, solution, coordinates)
        solution = replace(solution, components=np.ascontiguousarray(decoder.T))
    center, hide = settings.center, settings.restriction
    mean = np.zeros(moments.n_features) if center == "none" else moments.mean
    provenance = Provenance(
        criterion=problem.criterion.name,
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
        restriction=None if hide is None else repr(hide),
        tol=settings.tol,
        resolution=solution.resolution,
        settings=stored_settings(settings.criterion, hide),
        reason=solution.reason,
        steps=tuple(steps),
        parts=tuple(
            each
            for kind, each in (("criterion", settings.criterion), ("restriction", hide))
            if each is not None and each.name not in names_of(kind)
        ),
    )
    subspace = FairSubspace(
        encoder,
        mean,
        settings.divisor,
        center,
        moments.feature_names,
        provenance,
        evidence_of(solution.proof),
        decoder,
    )
    return Fit(problem, solution, subspace, errors, losses, np.array(variances), coordinates)


def _errors_and_losses(solved: Solved) -> tuple[FloatArray, FloatArray]:
    errors = errors_under(solved.projector, solved.problem.second_moments)
    return errors, np.maximum(errors - solved.problem.best_errors, 0.0)


def _step_of(solved: Solved) -> NestedStep:
    """The last of nested components, and all of them."""
    errors, losses = _errors_and_losses(solved)
    together = solved.solution
    return NestedStep(
        _claim_of(together.steps[-1]),
        _claim_of(together),
        tuple(errors.tolist()),
        tuple(losses.tolist()),
    )


def _claim_of(solution: Solution) -> Claim:
    return Claim(
        solution.objective,
        solution.lower_bound,
        solution.resolution,
        str(solution.status),
        tuple(solution.weights.tolist()),
        solution.reason,
    )


def _oblique(
    encoder: FloatArray, solved: Solution, solution: Solution, coordinates: Coordinates | None
) -> tuple[FloatArray, FloatArray]:
    """Encoder and decoder in the features, the largest loading of each component positive.

    Parameters
    ----------
    encoder : (d, m) array
    solved, solution : Solution
        As it was solved, with the decoder's columns in the same coordinates as the encoder; and
        with those in the features.
    coordinates : Coordinates or None
    """
    columns, decoder = encoder.T, solution.components.T
    if coordinates is not None:
        turned, columns = np.hsplit(coordinates.lift(np.hstack([solved.components.T, columns])), 2)
        columns = columns * np.sign(np.einsum("ij,ij->j", turned, decoder))
    signed = with_positive_signs(columns)
    return np.ascontiguousarray(signed.T), decoder * np.sign(np.einsum("ij,ij->j", signed, columns))


def _with_reason(
    problem: Problem, solution: Solution, moments: Moments, settings: _Settings
) -> Solution:
    """With the reason of an unresolved gap: a column of large numbers, or a tiny objective."""
    if solution.status is not Status.UNRESOLVED:
        return solution
    column = None if settings.divisor is not None else largest_column(moments, settings.center)
    if column is not None:
        return replace(solution, reason=column)
    if problem.criterion.is_logarithmic:
        return replace(
            solution,
            reason="a group keeps so little of its variance that the logarithm is uncertain",
        )
    share = max(solution.scale, solution.resolution) / float(
        (problem.second_moments.traces / problem.divisors).max()
    )
    return replace(solution, reason=f"the objective is no more than {share:.0e} of the variance")
