"""Fit moments: the common core of the estimator, the audit and the command line.

A fit has eight steps, each in its own package::

    FairPCA.fit           estimator/fair_pca  check parameters
    open_rows             rows/               turn a table, file or collection into blocks of rows
    accumulate            moments/            turn blocks into GroupMoments
    build_problem_family  problem/            turn criterion, restriction and center into a Problem,
                                              and a Reduction where a smaller problem suffices
    solve                 solvers/            find the subspace and dual weights
    certify               certificates/       objective, bound and status: the Certificate
    fit_subspace          estimator/fit       components in the features: the FairSubspace
    FairPCA attributes    estimator/fair_pca  those of scikit-learn's PCA
"""

import numbers
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.evaluation import unresolved_reason
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.linalg import normalize_signs
from fairspan.linalg.memory import explain_memory_errors
from fairspan.linalg.threads import single_thread_if_small
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector, is_soft
from fairspan.moments.row_spread import with_row_spread
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.moments.wide import RowSpace
from fairspan.problem.criteria import Criterion, get_criterion
from fairspan.problem.family import build_problem_family, check_means_agree, check_nesting_supported
from fairspan.problem.feature_scale import compute_feature_scale
from fairspan.problem.parameters import check_n_components
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.problem.restrictions import Restriction, get_restriction
from fairspan.problem.warm_start import WarmStart
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.rows.aggregation import Rows
from fairspan.rows.labels import format_list
from fairspan.solvers.nested import solve_nested
from fairspan.solvers.solve import solve_for_dimension
from fairspan.solvers.solver import get_solver
from fairspan.solvers.variance_kept import solve_for_variance_kept
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
    """Minimize a criterion of the group errors.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        SparseMoments require an integer number of components and no restriction but exact mean
        parity, and their solutions are at best estimated. WideMoments, of fewer rows than features,
        are solved in coordinates of the space that the rows span.
    n_components : int or float
        d, from 1 to p; or a fraction of every group's variance: the smallest d at which this
        criterion keeps that fraction for every group.
    criterion : str or criterion object
    restriction : MeanParity, CovarianceParity or None
        Limits the allowed subspaces; excess losses still refer to the best of all subspaces.
    center : {"global", "group", "none"}
    scale : bool
        Divide each feature by its pooled standard deviation first.
    solver : str or solver object
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    allow_extra : bool
        Whether a soft projection of more than d components may be returned.
    nested : bool
        Whether the first components solve the problem with fewer dimensions.
    random_state : int, Generator, RandomState or None
        Used by solvers with random starts.
    warm_start : Certificate, optional
        Solution of the same dimension for nearly the same rows, in the same units, as a warm start.
    second_moments : DenseSecondMoments, optional
        Second moments of the same data, scaled and about the same center. Passing them to several
        fits solves each eigenproblem only once.

    Returns
    -------
    subspace : FairSubspace
        With its certificate.
    problem : Problem
        Without the restriction, if there is one.
    coordinates : RowSpace or None
        Row coordinates (in the space that the rows span), if the problem was posed in them; None if
        it was posed in the features.

    Raises
    ------
    InvalidParameter, InvalidType
        A parameter is out of range.
    IncompatibleParameters
        A criterion or restriction that does not support these groups, this dimension or this
        solver; or no dimension keeps the requested variance.
    InvalidInput
        A group of one row with center "group", about whose own mean it has no variance.
    """
    # All parameters are checked before the first eigenproblem.
    criterion = get_criterion(criterion)
    solver = get_solver(solver)
    restriction = get_restriction(restriction)
    check_n_components(n_components, moments.n_features, allow_fraction=True)
    _check_group_sizes(moments, center)
    if moments.matrix_free:
        _check_matrix_free(n_components, restriction)
    moments.check_range()  # fourth powers of the features must not overflow or underflow
    feature_scale = compute_feature_scale(moments) if scale else None
    if nested:
        check_nesting_supported(criterion, restriction, allow_extra=bool(allow_extra))
    stage = Stage("fitting " + criterion.name.replace("_", " "), unit=EIGENPROBLEMS)
    with single_thread_if_small(moments.n_features), stage:
        # The problems of all dimensions: a fraction of the variance or nesting needs several.
        family = build_problem_family(
            moments,
            n_components,
            criterion,
            restriction=restriction,
            center=center,
            feature_scale=feature_scale,
            allow_extra=bool(allow_extra),
            second_moments=second_moments,
        )
        # The basis of a warm start is in the features. Under a restriction and in row coordinates,
        # problems have other coordinates.
        if warm_start is not None and restriction is None and family.coordinates is None:
            # The problem of each dimension is a copy of the template.
            template = replace(family.template, warm_start=warm_start_from(warm_start))
            family = replace(family, template=template)
        # The reduction is the problem that was solved: restricted to the allowed directions, for
        # the number of components that reaches the target (a dimension, or a fraction).
        solve_family, target = _search_for(n_components, nested=nested)
        reduction, certificate = solve_family(family, solver, target, tol, random_state)
        # Rounding may leave mean differences that the restriction forbids.
        check_means_agree(family, reduction.projector(certificate.components))
        projector = lift_projector(reduction, certificate, family.coordinates)
        certificate = complete_certificate(
            replace(
                certificate,
                statement=replace(certificate.statement, restriction=restriction, center=center),
            ),
            np.ascontiguousarray(projector.decoder.T),
            reduction.problem.unrestricted,
            moments,
            is_scaled=scale,
            is_thin=family.coordinates is not None,
        )
    subspace = build_subspace(certificate, projector, moments, feature_scale)
    return subspace, reduction.problem.unrestricted, family.coordinates


def fit_rows(
    rows: Rows | None, moments: Moments, n_components: int | float, **settings: Any
) -> tuple[Moments, FairSubspace, Problem, RowSpace | None]:
    """Fit moments, and read their rows again if these decide whether the errors are zero.

    Moments are rounded, so they cannot tell an objective near zero from zero. The rows can, by
    their rank and the size of a typical one (:func:`fairspan.moments.row_spread.with_row_spread`);
    if these are found, the fit is repeated with them.

    Parameters
    ----------
    rows : RowSource or PartitionedRows, or None
        The rows of the moments, if they are at hand.
    moments : GroupMoments, SparseMoments or WideMoments
    n_components : int or float
    **settings
        Those of :func:`fit_moments`.

    Returns
    -------
    moments : GroupMoments, SparseMoments or WideMoments
        With rank and size of the rows (`row_spread`), if they were needed and found.
    subspace, problem, coordinates
        Those of :func:`fit_moments`.
    """
    subspace, problem, coordinates = fit_moments(moments, n_components, **settings)
    certificate = subspace.require_certificate()
    # With as many components as features, errors are zero whatever the rows.
    is_projection = certificate.n_components < moments.n_features
    if rows is None or not is_projection or not certificate.may_be_zero:
        return moments, subspace, problem, coordinates
    moments = with_row_spread(moments, rows)
    # None for rows that cannot be read again or have missing cells, and for too many features.
    if moments.row_spread is not None:
        subspace, problem, coordinates = fit_moments(moments, n_components, **settings)
    return moments, subspace, problem, coordinates


def _search_for(n_components: int | float, *, nested: bool) -> tuple[Any, int | float]:
    """Return a solver of a family of problems, and the dimension or fraction that it takes.

    The solver returns the reduced problem that it solved, and a certificate of the solution.
    """
    is_integer = isinstance(n_components, numbers.Integral)
    target = int(n_components) if is_integer else float(n_components)
    if nested:
        return solve_nested, target
    return solve_for_dimension if is_integer else solve_for_variance_kept, target


def warm_start_from(warm_start: Certificate) -> WarmStart:
    """Return the warm start from a certificate of nearly the same rows."""
    # A start needs orthonormal columns, and those of a soft projection are not.
    basis = None if is_soft(warm_start.components) else warm_start.components.T
    return WarmStart(warm_start.weights, basis)


def build_subspace(
    certificate: Certificate,
    projector: Projector,
    moments: Moments,
    feature_scale: FloatArray | None,
) -> FairSubspace:
    """Subspace of a certificate, with the mean of the rows.

    `projector` is its projection in the features, and `feature_scale` the divisor of each feature,
    None without scaling.
    """
    # A certificate has the rows of the decoder's transpose as components. Rows are projected by the
    # encoder, which differs if the projection is oblique.
    is_oblique = projector.oblique_decoder is not None
    is_centered = certificate.center != "none"
    components = projector.encoder if is_oblique else certificate.components
    mean = moments.mean if is_centered else np.zeros(moments.n_features)
    return FairSubspace(
        components=components,
        mean=mean,
        scale=feature_scale,
        center=certificate.center,
        feature_names=moments.feature_names,
        certificate=certificate,
        oblique_decoder=projector.oblique_decoder,
        imputation_model=moments.imputation_model,
    )


def lift_projector(
    reduction: Reduction, certificate: Certificate, coordinates: RowSpace | None
) -> Projector:
    """Lift the projector of a solution to the features, with deterministic signs.

    The largest loading of each component is positive; for an oblique projection, whose decoder is
    not the transpose of its encoder, of each row of the encoder. `reduction` is the problem that
    was solved. If its coordinates are in the space that the rows span, `coordinates` map them to
    the features; None if they are the features.
    """
    projector = reduction.projector(certificate.components)
    if coordinates is not None:
        # Lift the columns of encoder (transposed) and decoder together.
        projector = projector.with_stacked_columns(coordinates.lift(projector.stacked_columns))
    columns = projector.encoder.T
    decoder = projector.oblique_decoder
    signed = normalize_signs(columns)
    if decoder is not None:
        # Columns of the decoder change sign with the rows of the encoder.
        decoder = decoder * np.sign(np.einsum("ij,ij->j", signed, columns))
    return Projector(np.ascontiguousarray(signed.T), decoder)


def complete_certificate(
    certificate: Certificate,
    components: FloatArray,
    problem: Problem,
    moments: Moments,
    *,
    is_scaled: bool,
    is_thin: bool,
) -> Certificate:
    """Add what is known of the rows to a certificate and to its steps and prefixes.

    That is the components in the features, the number of rows of each group, the parameters of the
    criterion that depend on them, and the reason why a gap is unresolved.

    Parameters
    ----------
    certificate : Certificate
        With its restriction and center. Steps (of one component each) and prefixes (the first
        components) are those of nested components.
    components : (d, p) array
        In the features.
    problem : Problem
        Without the restriction.
    moments : GroupMoments, SparseMoments or WideMoments
    is_scaled : bool
        Whether features were scaled.
    is_thin : bool
        Whether the problem was solved in coordinates of the space that the rows span; this is
        recorded as the eigensolver "thin".
    """
    if certificate.n_components != problem.n_components:  # of a step or prefix
        problem = replace(problem, n_components=certificate.n_components)

    def complete_part(part: Certificate, rows: FloatArray) -> Certificate:
        statement = replace(
            part.statement, restriction=certificate.restriction, center=certificate.center
        )
        return complete_certificate(
            replace(part, statement=statement),
            rows,
            problem,
            moments,
            is_scaled=is_scaled,
            is_thin=is_thin,
        )

    steps = [complete_part(step, components[[i]]) for i, step in enumerate(certificate.steps)]
    prefixes = [
        complete_part(prefix, components[: i + 1]) for i, prefix in enumerate(certificate.prefixes)
    ]
    reason = unresolved_reason(
        certificate, problem, moments, certificate.center, is_scaled=is_scaled
    )
    eigensolver = Eigensolver.THIN if is_thin else certificate.eigensolver
    return replace(
        certificate,
        components=components,
        statement=replace(
            certificate.statement,
            criterion=problem.criterion.with_defaults(problem),
            counts=tuple(moments.counts.tolist()),
        ),
        assessment=replace(certificate.assessment, unresolved_reason=reason),
        run=replace(certificate.run, eigensolver=eigensolver),
        steps=tuple(steps),
        prefixes=tuple(prefixes),
    )


def fit_subspace(moments: Moments, n_components: int | float, **settings: Any) -> FairSubspace:
    """Fit moments and return the subspace; see :func:`fit_moments`."""
    return fit_moments(moments, n_components, **settings)[0]


def resolve_n_components(
    moments: Moments,
    n_components: int | float,
    criterion: str | Criterion = "total_error",
    *,
    center: Center = "global",
    scale: bool = False,
) -> int:
    """Return n_components, or the smallest number that keeps a fraction of every group's variance.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    n_components : int or float
        d, or the fraction.
    criterion : str or criterion object
        Ordinary PCA by default.
    center : {"global", "group", "none"}
        Point about which variances are measured: the mean of all rows, that of each group, or zero.
    scale : bool
        Divide each feature by its pooled standard deviation first.

    Returns
    -------
    int

    Raises
    ------
    InvalidParameter
        A number is out of range.
    IncompatibleParameters
        No dimension keeps that fraction for every group.
    """
    check_n_components(n_components, moments.n_features, allow_fraction=True)
    if isinstance(n_components, numbers.Integral):
        return int(n_components)
    return fit_subspace(
        moments, n_components, criterion=criterion, center=center, scale=scale
    ).dimension


def _check_group_sizes(moments: Moments, center: Center) -> None:
    """Raise InvalidInput if a group of one row is to be centered at its own mean."""
    single = [label for label, n in zip(moments.labels, moments.counts, strict=True) if n == 1]
    if center == "group" and single:
        raise InvalidInput(
            f"These groups have a single row: {format_list(single)}",
            'Allowed with center="group": groups of two or more rows; a single row has no variance '
            "about its own mean",
            'Use center="global", or merge these groups with others',
        )


def _check_matrix_free(n_components: object, restriction: Restriction | None) -> None:
    """Check that the request can be solved without matrices, by products with sparse rows.

    That excludes a fraction of the variance in place of a number of components, and restrictions
    that do more than forbid the differences of means.

    Raises
    ------
    IncompatibleParameters
    """
    is_integer = isinstance(n_components, numbers.Integral)
    if is_integer and (restriction is None or restriction.forbids_mean_differences_only):
        return
    request = (
        f"n_components={n_components!r}, a fraction," if not is_integer else f"{restriction!r}"
    )
    raise IncompatibleParameters(
        f"{request} was requested for sparse rows of many features, which are fitted without "
        "matrices",
        "Allowed: an integer number of components, and no restriction or exact orthogonal "
        "MeanParity()",
        "If k p^2 numbers fit into memory, use fit_moments(GroupMoments.from_rows(...))",
    )
