"""From moments to a certified subspace: what estimator, audit and command line share.

The way of a fit has eight steps, each in a room of its own::

    FairPCA.fit         estimator/fair_pca   parameters are checked
    open_rows           rows/                a table, file or collection becomes blocks of rows
    accumulate          moments/             the blocks become GroupMoments
    build_problem       problem/             criterion, restriction and centre make a Problem,
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

from fairspan.certificates.certificate import Certificate, reason_of
from fairspan.errors import Incompatible, InvalidInput
from fairspan.linalg import with_positive_signs
from fairspan.linalg.resources import memory_error_hint, threads_for
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import DenseSecondMoments, Projector, is_soft
from fairspan.moments.thin import Coordinates
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem, WarmStart, check_n_components
from fairspan.problem.reduction import (
    Reduction,
    build_problem,
    check_means_agree,
    check_nested,
    criterion_of,
    deviations_of,
    restriction_of,
)
from fairspan.problem.restrictions import Restriction
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.rows.groups import listed
from fairspan.solvers.solve import solve_at, solve_for_share, solve_nested, solver_of
from fairspan.typing import FloatArray


@memory_error_hint()
def fit_with_problem(
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
    near: Certificate | None = None,
    second: DenseSecondMoments | None = None,
) -> tuple[FairSubspace, Problem, Coordinates | None]:
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
    chosen, solve_with = criterion_of(criterion), solver_of(solver)
    allowed = restriction_of(restriction)
    check_n_components(n_components, moments.n_features, or_share=True)
    _check_group_centers(moments, center)
    if moments.matrix_free:
        _check_without_matrices(n_components, allowed)
    moments.in_range()
    divisor = deviations_of(moments) if scale else None
    if nested:
        check_nested(chosen, allowed, allow_extra=bool(allow_extra))
    counting = Stage("fitting " + chosen.name.replace("_", " "), unit=EIGENPROBLEMS)
    with threads_for(moments.n_features), counting:
        family = build_problem(
            moments,
            n_components,
            chosen,
            restriction=allowed,
            center=center,
            divisor=divisor,
            allow_extra=bool(allow_extra),
            second=second,
        )
        if near is not None and allowed is None and family.coordinates is None:
            any_dimension = replace(family.any_dimension, start=warm_start_from(near))
            family = replace(family, any_dimension=any_dimension)
        is_share = not isinstance(n_components, numbers.Integral)
        asked = float(n_components) if is_share else int(n_components)
        search: Any = solve_nested if nested else solve_for_share if is_share else solve_at
        reduction, found = search(family, solve_with, asked, tol, random_state)
        check_means_agree(family, reduction.projector(found.components))
        projector = projector_in_features(reduction, found, family.coordinates)
        found = told_of_rows(
            replace(found, restriction=allowed, center=center),
            np.ascontiguousarray(projector.decoder.T),
            reduction.problem.whole,
            moments,
            is_scaled=scale,
            is_thin=family.coordinates is not None,
        )
    subspace = subspace_of(found, projector, moments, divisor)
    return subspace, reduction.problem.whole, family.coordinates


def warm_start_from(near: Certificate) -> WarmStart:
    """Return the start that a certificate of nearly the same rows provides."""
    # The columns of a soft projection are not orthonormal, as those of a start are.
    basis = None if is_soft(near.components) else near.components.T
    return WarmStart(near.weights, basis)


def subspace_of(
    found: Certificate, projector: Projector, moments: Moments, divisor: FloatArray | None
) -> FairSubspace:
    """The subspace of a certificate, with the mean of the rows."""
    return FairSubspace(
        found.components if projector.oblique_decoder is None else projector.encoder,
        np.zeros(moments.n_features) if found.center == "none" else moments.mean,
        divisor,
        found.center,
        moments.feature_names,
        found,
        projector.oblique_decoder,
        normal=moments.normal,
    )


def projector_in_features(
    reduction: Reduction, found: Certificate, coordinates: Coordinates | None
) -> Projector:
    """What the components of an answer stand for, with the signs that are shown.

    The largest loading of each component is positive; of an oblique one that of the encoder.
    """
    projector = reduction.projector(found.components)
    if coordinates is not None:
        projector = projector.with_columns(coordinates.lift(projector.columns))
    columns, decoder = projector.encoder.T, projector.oblique_decoder
    signed = with_positive_signs(columns)
    if decoder is not None:
        decoder = decoder * np.sign(np.einsum("ij,ij->j", signed, columns))
    return Projector(np.ascontiguousarray(signed.T), decoder)


def told_of_rows(
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
    moments : GroupMoments, SparseMoments or ThinMoments
    is_scaled : bool
        Whether the features were scaled.
    is_thin : bool
        Whether it was solved in the coordinates of the rows.
    """
    if found.n_components != problem.n_components:
        problem = replace(problem, n_components=found.n_components)

    def part(each: Certificate, rows: FloatArray) -> Certificate:
        each = replace(each, restriction=found.restriction, center=found.center)
        return told_of_rows(each, rows, problem, moments, is_scaled=is_scaled, is_thin=is_thin)

    return replace(
        found,
        components=components,
        criterion=problem.criterion.settled(problem),
        counts=tuple(moments.counts.tolist()),
        reason=reason_of(found, problem, moments, found.center, is_scaled=is_scaled),
        eigen="thin" if is_thin else found.eigen,
        steps=tuple(part(each, components[[i]]) for i, each in enumerate(found.steps)),
        prefixes=tuple(part(each, components[: i + 1]) for i, each in enumerate(found.prefixes)),
    )


def fit_subspace(moments: Moments, n_components: int | float, **settings: Any) -> FairSubspace:
    """The subspace alone; parameters and errors are those of :func:`fit_with_problem`."""
    return fit_with_problem(moments, n_components, **settings)[0]


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
    check_n_components(n_components, moments.n_features, or_share=True)
    if isinstance(n_components, numbers.Integral):
        return int(n_components)
    return fit_subspace(
        moments, n_components, criterion=criterion, center=center, scale=scale
    ).dimension


def _check_group_centers(moments: Moments, center: Center) -> None:
    """Raise InvalidInput for a group of one row that is to be centred at its own mean."""
    single = [label for label, n in zip(moments.labels, moments.counts, strict=True) if n == 1]
    if center == "group" and single:
        raise InvalidInput(
            f"These groups have a single row: {listed(single)}",
            'Allowed with center="group": groups of two rows or more: about its own mean one '
            "row has no variance",
            'Use center="global", or join these groups with others',
        )


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
