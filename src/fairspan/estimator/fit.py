"""From moments to a certified subspace: what estimator, audit and command line share.

The way of a fit has eight steps, each in a room of its own::

    FairPCA.fit         estimator/fair_pca   parameters are checked
    open_rows           rows/                a table, file or collection becomes blocks of rows
    accumulate          moments/             the blocks become GroupMoments
    build_problem_family       problem/             criterion, restriction and centre make a Problem,
                                             and a Reduction where a smaller one has its answer
    solve               solvers/             a solver finds the subspace and weights that prove it
    certify             certificates/        objective, bound and status: the Certificate
    fit_subspace        estimator/fit        components in the features: the FairSubspace
    FairPCA attributes  estimator/fair_pca   what scikit-learn's users expect
"""

import numbers
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate, unresolved_reason
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.linalg import normalize_signs
from fairspan.linalg.resources import explain_memory_errors, single_thread_if_small
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import DenseSecondMoments, Projector, is_soft
from fairspan.moments.wide import RowSpace
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem, WarmStart, check_n_components
from fairspan.problem.reduction import (
    Reduction,
    build_problem_family,
    check_means_agree,
    check_nesting_supported,
    compute_feature_scale,
    get_criterion,
    get_restriction,
)
from fairspan.problem.restrictions import Restriction
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.rows.groups import format_list
from fairspan.solvers.solve import (
    get_solver,
    solve_for_dimension,
    solve_for_variance_kept,
    solve_nested,
)
from fairspan.typing import FloatArray


@explain_memory_errors()
def fit_moments(
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
    warm_start: Certificate | None = None,
    second_moments: DenseSecondMoments | None = None,
) -> tuple[FairSubspace, Problem, RowSpace | None]:
    """Solve for a criterion of the groups' errors.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
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
    near : Certificate, optional
        An answer of the same dimension to nearly the same rows, in the same units, where a search
        begins.
    second : DenseSecondMoments, optional
        Those of the same moments, scaled and about the same centre, where several models are fitted
        to them: each eigenproblem is solved once.

    Returns
    -------
    subspace : FairSubspace
        With its certificate.
    problem : Problem
        Without the restriction, if there is one.
    coordinates : Coordinates or None
        Those of the problem, where it was not posed in the features.

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
    chosen, solve_with = get_criterion(criterion), get_solver(solver)
    allowed = get_restriction(restriction)
    check_n_components(n_components, moments.n_features, allow_fraction=True)
    _check_group_sizes(moments, center)
    if moments.matrix_free:
        _check_matrix_free(n_components, allowed)
    moments.check_range()
    divisor = compute_feature_scale(moments) if scale else None
    if nested:
        check_nesting_supported(chosen, allowed, allow_extra=bool(allow_extra))
    stage = Stage("fitting " + chosen.name.replace("_", " "), unit=EIGENPROBLEMS)
    with single_thread_if_small(moments.n_features), stage:
        family = build_problem_family(
            moments,
            n_components,
            chosen,
            restriction=allowed,
            center=center,
            feature_scale=divisor,
            allow_extra=bool(allow_extra),
            second_moments=second_moments,
        )
        if warm_start is not None and allowed is None and family.coordinates is None:
            any_dimension = replace(family.template, warm_start=warm_start_from(warm_start))
            family = replace(family, template=any_dimension)
        is_share = not isinstance(n_components, numbers.Integral)
        target = float(n_components) if is_share else int(n_components)
        solve_family: Any = (
            solve_nested if nested else solve_for_variance_kept if is_share else solve_for_dimension
        )
        reduction, certificate = solve_family(family, solve_with, target, tol, random_state)
        check_means_agree(family, reduction.projector(certificate.components))
        projector = lift_projector(reduction, certificate, family.coordinates)
        certificate = complete_certificate(
            replace(certificate, restriction=allowed, center=center),
            np.ascontiguousarray(projector.decoder.T),
            reduction.problem.unrestricted,
            moments,
            is_scaled=scale,
            is_thin=family.coordinates is not None,
        )
    subspace = build_subspace(certificate, projector, moments, divisor)
    return subspace, reduction.problem.unrestricted, family.coordinates


def warm_start_from(warm_start: Certificate) -> WarmStart:
    """Return the start that a certificate of nearly the same rows provides."""
    # The columns of a soft projection are not orthonormal, as those of a start are.
    basis = None if is_soft(warm_start.components) else warm_start.components.T
    return WarmStart(warm_start.weights, basis)


def build_subspace(
    found: Certificate, projector: Projector, moments: Moments, feature_scale: FloatArray | None
) -> FairSubspace:
    """The subspace of a certificate, with the mean of the rows."""
    return FairSubspace(
        found.components if projector.oblique_decoder is None else projector.encoder,
        np.zeros(moments.n_features) if found.center == "none" else moments.mean,
        feature_scale,
        found.center,
        moments.feature_names,
        found,
        projector.oblique_decoder,
        imputation_model=moments.imputation_model,
    )


def lift_projector(
    reduction: Reduction, found: Certificate, coordinates: RowSpace | None
) -> Projector:
    """What the components of an answer stand for, with the signs that are shown.

    The largest loading of each component is positive; of an oblique one that of the encoder.
    """
    projector = reduction.projector(found.components)
    if coordinates is not None:
        projector = projector.with_stacked_columns(coordinates.lift(projector.stacked_columns))
    columns, decoder = projector.encoder.T, projector.oblique_decoder
    signed = normalize_signs(columns)
    if decoder is not None:
        decoder = decoder * np.sign(np.einsum("ij,ij->j", signed, columns))
    return Projector(np.ascontiguousarray(signed.T), decoder)


def complete_certificate(
    found: Certificate,
    components: FloatArray,
    problem: Problem,
    moments: Moments,
    *,
    is_scaled: bool,
    is_thin: bool,
) -> Certificate:
    """A certificate of a problem with what is known of the rows, and that of each of its parts.

    Parameters
    ----------
    found : Certificate
    components : (d, p) array
        In the features.
    problem : Problem
        Without the restriction.
    moments : GroupMoments, SparseMoments or WideMoments
    is_scaled : bool
        Whether the features were scaled.
    is_thin : bool
        Whether it was solved in the coordinates of the rows.
    """
    if found.n_components != problem.n_components:
        problem = replace(problem, n_components=found.n_components)

    def part(each: Certificate, rows: FloatArray) -> Certificate:
        each = replace(each, restriction=found.restriction, center=found.center)
        return complete_certificate(
            each, rows, problem, moments, is_scaled=is_scaled, is_thin=is_thin
        )

    return replace(
        found,
        components=components,
        criterion=problem.criterion.with_defaults(problem),
        counts=tuple(moments.counts.tolist()),
        unresolved_reason=unresolved_reason(
            found, problem, moments, found.center, is_scaled=is_scaled
        ),
        eigensolver="thin" if is_thin else found.eigensolver,
        steps=tuple(part(each, components[[i]]) for i, each in enumerate(found.steps)),
        prefixes=tuple(part(each, components[: i + 1]) for i, each in enumerate(found.prefixes)),
    )


def fit_subspace(moments: Moments, n_components: int | float, **settings: Any) -> FairSubspace:
    """The subspace alone; parameters and errors are those of :func:`fit_moments`."""
    return fit_moments(moments, n_components, **settings)[0]


def resolve_n_components(
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
    moments : GroupMoments, SparseMoments or WideMoments
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
    check_n_components(n_components, moments.n_features, allow_fraction=True)
    if isinstance(n_components, numbers.Integral):
        return int(n_components)
    return fit_subspace(
        moments, n_components, criterion=criterion, center=center, scale=scale
    ).dimension


def _check_group_sizes(moments: Moments, center: Center) -> None:
    """Raise InvalidInput for a group of one row that is to be centred at its own mean."""
    single = [label for label, n in zip(moments.labels, moments.counts, strict=True) if n == 1]
    if center == "group" and single:
        raise InvalidInput(
            f"These groups have a single row: {format_list(single)}",
            'Allowed with center="group": groups of two rows or more: about its own mean one '
            "row has no variance",
            'Use center="global", or join these groups with others',
        )


def _check_matrix_free(n_components: object, restriction: Restriction | None) -> None:
    """Make sure that no matrices are needed.

    Raises
    ------
    Incompatible
    """
    is_integer = isinstance(n_components, numbers.Integral)
    if is_integer and (restriction is None or restriction.forbids_mean_differences_only):
        return
    request = f"n_components={n_components!r}, a share," if not is_integer else f"{restriction!r}"
    raise IncompatibleParameters(
        f"{request} was requested with sparse rows of many features, which are fitted without "
        "matrices",
        "Allowed: a whole number of components, and no restriction or an orthogonal "
        "MeanParity() without a tolerance",
        "If k p^2 numbers fit into memory, use fit_moments(GroupMoments.from_rows(...))",
    )
