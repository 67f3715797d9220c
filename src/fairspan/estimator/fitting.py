"""From moments to a certified subspace: the road that estimator, audit and command line share."""

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.certificates.claims import evidence_of, stored_settings
from fairspan.certificates.solution import Solution, Status
from fairspan.errors import Incompatible, InvalidInput, InvalidParameter, running_out_told
from fairspan.linalg import leading_subspace, with_positive_signs
from fairspan.moments.center import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.held_rows.frame import InCoordinates
from fairspan.moments.of_rows import Moments
from fairspan.problem.criteria import Criterion, declares
from fairspan.problem.posing import Posed, criterion_of, deviations_of, pose, restriction_of
from fairspan.problem.problem import Problem, check_n_components
from fairspan.problem.restrictions import Restriction
from fairspan.problem.units import (
    check_squares,
    in_units,
    largest_column,
    unit_for,
    value_in_features,
)
from fairspan.rows.groups import listed
from fairspan.solvers.choose import Solved, Task, smallest_keeping, solver_of
from fairspan.solvers.projected.growing_subspace import GrowingSubspace
from fairspan.subspace import FairSubspace, Provenance
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
    coordinates : InCoordinates or None
        Those of the problem, where it was not solved in the features.
    """

    problem: Problem
    solution: Solution
    subspace: FairSubspace
    errors: FloatArray
    losses: FloatArray
    component_variances: FloatArray
    coordinates: InCoordinates | None = None

    def in_features(self, basis: FloatArray) -> FloatArray:
        """A basis of the problem as columns of the features, (p, r)."""
        if self.coordinates is None:
            return basis
        return self.coordinates.in_features(basis, self.problem.n_components)


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
    random_state: Any = None,
) -> Fit:
    """Solve for a criterion of the groups' errors.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
        Sparse ones take a whole number of components and no restriction, and their solutions are
        called estimated. Thin ones are solved in the coordinates of the rows.
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
            'Allowed with center="group" are groups of two rows or more: about its own mean one '
            "row has no variance",
            'Use center="global", or join these groups with others',
        )
    if moments.matrix_free:
        _check_without_matrices(n_components, hide)
        solve_with = GrowingSubspace(solve_with)
    check_squares(moments, center)
    divisor = deviations_of(moments) if scale else None
    settings = _Settings(chosen, hide, center, divisor, bool(allow_extra), tol)
    unit = unit_for(moments, center, divisor)
    posed = settings.posed(moments, n_components, unit)
    whole = isinstance(n_components, numbers.Integral)
    task = Task(posed, solve_with, tol, random_state)
    solved = (
        task.at(int(posed.n_components)) if whole else smallest_keeping(task, float(n_components))
    )
    if unit != 1:
        d = solved.problem.n_components
        problem = settings.posed(moments, n_components, 1.0).at(d).full
        times, by = value_in_features(problem.criterion, unit)
        solution = solved.solution.rescaled(times, by)
        if declares(problem.criterion, "is_relative"):
            # The weights divide by variances, which are in squared units of the features.
            solution = replace(solution, weights=solution.weights / unit / unit)
        solved = Solved(problem, solution)
    return _fit_of(solved, moments, settings, posed.coordinates)


@dataclass(frozen=True, eq=False)
class _Settings:
    """What is asked of the moments."""

    criterion: Criterion
    restriction: Restriction | None
    center: Center
    divisor: FloatArray | None
    allow_extra: bool
    tol: float

    def posed(self, moments: Moments, n_components: int | float, unit: float) -> Posed:
        """The problem, with features measured in a unit."""
        divisor = self.divisor
        if unit != 1:
            divisor = np.full(moments.n_features, unit)
        return pose(
            moments,
            n_components,
            in_units(self.criterion, unit),
            restriction=in_units(self.restriction, unit),
            center=self.center,
            divisor=divisor,
            allow_extra=self.allow_extra,
        )


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
    scaled = moments.divided_by(deviations_of(moments)) if scale else moments
    pooled = np.tensordot(moments.proportions, scaled.second_moments(center), axes=1)
    kept = np.cumsum(leading_subspace(pooled, moments.n_features).eigenvalues)
    return min(int(np.searchsorted(kept, share * kept[-1])) + 1, moments.n_features)


def _fit_of(
    solved: Solved, moments: Moments, settings: _Settings, coordinates: InCoordinates | None
) -> Fit:
    problem, solution, projector = solved.problem, solved.solution, solved.projector
    errors = projector.errors(problem.second_moments)
    losses = np.maximum(errors - problem.best_errors, 0.0)
    variances = projector.kept_by_component(problem.second_moments)
    if solution.status is Status.UNRESOLVED:
        solution = replace(solution, reason=_reason(problem, solution, moments, settings))
    if coordinates is not None:
        columns = coordinates.in_features(solution.components.T, problem.n_components)
        components = np.ascontiguousarray(columns.T)
        solution = replace(solution, components=components, eigen="thin")
        variances = np.pad(variances, ((0, 0), (0, len(components) - variances.shape[1])))
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


def _oblique(
    encoder: FloatArray, solved: Solution, solution: Solution, coordinates: InCoordinates | None
) -> tuple[FloatArray, FloatArray]:
    """Encoder and decoder in the features, the largest loading of each component positive.

    Parameters
    ----------
    encoder : (d, m) array
    solved, solution : Solution
        As it was solved, with the decoder's columns in the same coordinates as the encoder; and
        with those in the features.
    coordinates : InCoordinates or None
    """
    columns, decoder = encoder.T, solution.components.T
    if coordinates is not None:
        both = coordinates.frame.spread_out(np.hstack([solved.components.T, columns]))
        turned, columns = np.hsplit(both, 2)
        columns = columns * np.sign(np.einsum("ij,ij->j", turned, decoder))
    signed = with_positive_signs(columns)
    return np.ascontiguousarray(signed.T), decoder * np.sign(np.einsum("ij,ij->j", signed, columns))


def _reason(problem: Problem, solution: Solution, moments: Moments, settings: _Settings) -> str:
    """What leaves the gap unresolved: a column of large numbers, or hardly any objective."""
    column = None if settings.divisor is not None else largest_column(moments, settings.center)
    if column is not None:
        return column
    if getattr(problem.criterion, "is_logarithmic", False):
        return "a group keeps so little of its variance that the logarithm is uncertain"
    variance = float((problem.second_moments.traces / problem.divisors).max())
    share = max(solution.scale, solution.resolution) / variance
    return f"the objective is no more than {share:.0e} of the variance"


def _check_without_matrices(n_components: object, restriction: Restriction | None) -> None:
    """Make sure that no matrices are needed.

    Raises
    ------
    Incompatible
    """
    whole = isinstance(n_components, numbers.Integral)
    if whole and restriction is None:
        return
    wanted = f"n_components={n_components!r}, a share," if not whole else f"{restriction!r}"
    raise Incompatible(
        f"{wanted} was asked for with sparse rows of many features, which are fitted without "
        "matrices",
        "Allowed are a whole number of components and no restriction",
        "If k p^2 numbers fit into memory, use fit_moments(GroupMoments.from_rows(...))",
    )
