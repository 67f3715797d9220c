"""Fit moments: the common core of the estimator, the audit and the command line.

A fit has eight steps, each in its own package::

    FairPCA.fit           estimator/fair_pca  parse the parameters into FitSettings
    open_rows             rows/               turn a table, file or collection into blocks of rows
    accumulate            moments/            turn blocks into GroupMoments
    build_problem_family  problem/            turn criterion, restriction and center into a Problem,
                                              and a Reduction where a smaller problem suffices
    solve                 solvers/            find the subspace and dual weights
    certify               certificates/       objective, bound and status: the Certificate
    finish_fit            estimator/fit       certificate and FairSubspace in the features: the Fit
    FairPCA attributes    estimator/fair_pca  those of scikit-learn's PCA
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.evaluate_solution import unresolved_reason
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.estimator.fit_settings import FitSettings
from fairspan.linalg import normalize_signs
from fairspan.linalg.memory import explain_memory_errors
from fairspan.linalg.threads import single_thread_if_small
from fairspan.model.subspace import FairSubspace, Rotation, change_basis
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.row_space import RowSpace
from fairspan.moments.row_spread import with_row_spread
from fairspan.moments.second_moments import SecondMoments, error_reduction_by_component
from fairspan.problem.build_family import build_problem_family
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.family import ProblemFamily, check_means_agree
from fairspan.problem.feature_scale import compute_feature_scale
from fairspan.problem.nesting import check_nesting_supported
from fairspan.problem.part_parameters import check_n_components
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.problem.warm_start import WarmStart
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.rows.aggregation import Rows
from fairspan.rows.labels import format_list
from fairspan.solvers.nested import solve_nested
from fairspan.solvers.solve import solve_for_dimension
from fairspan.solvers.variance_dimension import solve_for_variance_kept
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of a fit.

    Attributes
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        With rank and size of the rows (`row_spread`), if they were needed and found.
    subspace : FairSubspace
        In the features, with its certificate.
    problem : Problem
        The problem of this dimension without the restriction, if there is one.
    coordinates : RowSpace or None
        Row coordinates (in the space that the rows span), if the problem was posed in them; None if
        it was posed in the features.
    """

    moments: Moments
    subspace: FairSubspace
    problem: Problem
    coordinates: RowSpace | None

    @property
    def certificate(self) -> Certificate:
        """Certificate of the subspace."""
        return self.subspace.require_certificate()

    @cached_property
    def _projector(self) -> Projector:
        """The projector in the coordinates of the problem."""
        projector = self.subspace.projector
        if self.coordinates is None:
            return projector
        # The second moments of the problem are in coordinates of the space that the rows span, so
        # express the columns of the projector (of encoder and decoder) in them too.
        return projector.with_stacked_columns(self.coordinates.project(projector.stacked_columns))

    def variance_kept(self) -> FloatArray:
        """Variance of each group that each component keeps, in the units of errors, (k, r)."""
        return error_reduction_by_component(self._projector, self.problem.second_moments)

    def score_covariances(self) -> FloatArray:
        """Second moments B'S_gB of each group along the basis of the projector, (k, r, r)."""
        return self.problem.second_moments.compress(self._projector.basis)


def fit_rows(rows: Rows | None, moments: Moments, settings: FitSettings) -> Fit:
    """Fit moments, and read their rows again if these decide whether the errors are zero.

    Moments are rounded, so they cannot tell an objective near zero from zero. The rows can, by
    their rank and the size of a typical one (:func:`fairspan.moments.row_spread.with_row_spread`);
    if these are found, the fit is repeated with them.

    Parameters
    ----------
    rows : RowSource or PartitionedRows, or None
        The rows of the moments, if they can still be read.
    moments : GroupMoments, SparseMoments or WideMoments
    settings : FitSettings

    Raises
    ------
    InvalidParameter, InvalidInput, IncompatibleParameters
        As for :func:`fit_moments`.
    """
    fit = fit_moments(moments, settings)
    # With as many components as features, errors are zero whatever the rows.
    certificate = fit.certificate
    is_projection = certificate.n_components < moments.n_features
    if rows is None or not is_projection or not certificate.may_be_zero:
        return fit
    # Without any variance, all errors are exactly zero.
    if not fit.problem.second_moments.traces.any():
        return fit
    moments = with_row_spread(moments, rows)
    # None for rows that cannot be read again or have missing cells, and for too many features.
    if moments.row_spread is None:
        return replace(fit, moments=moments)
    return fit_moments(moments, settings)


@explain_memory_errors()
def fit_moments(
    moments: Moments,
    settings: FitSettings,
    *,
    warm_start: WarmStart | None = None,
    second_moments: SecondMoments | None = None,
) -> Fit:
    """Minimize a criterion of the group errors.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        SparseMoments require an integer number of components and no restriction but exact mean
        parity, and their solutions are at best estimated. WideMoments, of fewer rows than features,
        are solved in coordinates of the space that the rows span.
    settings : FitSettings
    warm_start : WarmStart, optional
        Solution of the same dimension for nearly the same rows, in the same units.
    second_moments : SecondMoments, optional
        Second moments of the same data, scaled and about the same center. Passing them to several
        fits solves each eigenproblem only once.

    Returns
    -------
    Fit

    Raises
    ------
    InvalidParameter
        `n_components` is out of range.
    IncompatibleParameters
        A criterion or restriction that does not support these groups, this dimension or this
        solver; or no dimension keeps the requested variance.
    InvalidInput
        A group of one row with center "group", about whose own mean it has no variance.
    """
    _check_request(moments, settings)
    feature_scale = compute_feature_scale(moments) if settings.scale else None
    name = settings.criterion.name.replace("_", " ")
    stage = Stage(f"fitting {name}", unit=EIGENPROBLEMS)
    with single_thread_if_small(moments.n_features), stage:
        # The problems of all dimensions: a fraction of the variance or nesting needs several.
        family = build_problem_family(
            moments,
            settings.n_components,
            settings.criterion,
            restriction=settings.restriction,
            center=settings.center,
            feature_scale=feature_scale,
            allow_extra=settings.allow_extra,
            second_moments=second_moments,
        )
        if warm_start is not None:
            family = _with_warm_start(family, warm_start)
        reduction, certificate = _solve(family, settings)
        fit = finish_fit(moments, settings, feature_scale, family, reduction, certificate)
    return fit if settings.rotation is None else rotate_components(fit, settings.rotation)


def rotate_components(fit: Fit, method: Rotation) -> Fit:
    """Rotate the components inside the subspace, and order them by the variance that they keep."""
    rotated = replace(fit, subspace=fit.subspace.rotate(method))
    variances = fit.moments.proportions @ rotated.variance_kept()
    order = np.argsort(-variances, kind="stable")
    identity = np.eye(len(order))
    return replace(fit, subspace=change_basis(rotated.subspace, identity[:, order]))


def _check_request(moments: Moments, settings: FitSettings) -> None:
    """Check before the first eigenproblem that the settings suit these moments.

    Raises
    ------
    InvalidParameter, InvalidInput, IncompatibleParameters
    """
    check_n_components(settings.n_components, moments.n_features, allow_fraction=True)
    _check_group_sizes(moments, settings.center)
    if moments.matrix_free:  # sparse rows of many features, fitted without matrices
        _check_matrix_free(settings)
    moments.check_range()  # fourth powers of the features must not overflow or underflow
    if settings.nested:
        check_nesting_supported(
            settings.criterion, settings.restriction, allow_extra=settings.allow_extra
        )


def _with_warm_start(family: ProblemFamily, warm_start: WarmStart) -> ProblemFamily:
    """Start the search of every problem from the solution of nearly the same rows.

    A warm start is in the features. Under a restriction and in row coordinates, problems have other
    coordinates, and start without it.
    """
    if family.restriction is not None or family.coordinates is not None:
        return family
    return replace(family, template=replace(family.template, warm_start=warm_start))


def _solve(family: ProblemFamily, settings: FitSettings) -> tuple[Reduction, Certificate]:
    """Solve for the dimension, or the fraction of variance, that the settings request.

    The family holds the problems of all dimensions. With nested components, the first ones solve
    the problems of fewer dimensions.

    Returns
    -------
    Reduction
        The problem that was solved, of that dimension: restricted to the allowed directions.
    Certificate
        Of the solution, in the coordinates of the family.
    """
    solver = settings.solver
    tol = settings.tol
    random_state = settings.random_state
    if settings.is_fraction:
        fraction = float(settings.n_components)
        if settings.nested:
            return solve_nested(family, solver, fraction, tol, random_state)
        return solve_for_variance_kept(family, solver, fraction, tol, random_state)
    d = int(settings.n_components)
    if settings.nested:
        return solve_nested(family, solver, d, tol, random_state)
    return solve_for_dimension(family, solver, d, tol, random_state)


def finish_fit(
    moments: Moments,
    settings: FitSettings,
    feature_scale: FloatArray | None,
    family: ProblemFamily,
    reduction: Reduction,
    certificate: Certificate,
) -> Fit:
    """Turn a solution into the certificate and the subspace in the features.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    settings : FitSettings
    feature_scale : (p,) array or None
        Divisor of each feature; None without scaling.
    family : ProblemFamily
        The problems of all dimensions: in the features (`coordinates` is None), or in coordinates
        of the space that the rows span.
    reduction : Reduction
        The one of these that was solved, within the directions that the restriction allows.
    certificate : Certificate
        Its solution, in the coordinates of the family.

    Raises
    ------
    IncompatibleParameters
        Rounding leaves mean differences that the restriction forbids.
    """
    check_means_agree(family, reduction.projector(certificate.components))
    projector = _lift_projector(reduction, certificate, family.coordinates)
    # Figures of the model, such as excess losses, refer to the problem without the restriction.
    problem = reduction.problem.unrestricted
    certificate = _complete_certificate(
        certificate,
        np.ascontiguousarray(projector.decoder.T),
        problem,
        moments,
        settings,
        is_thin=family.coordinates is not None,
    )
    # A certificate has the rows of the decoder's transpose as components. Rows are projected by the
    # encoder, which differs if the projection is oblique.
    is_oblique = projector.oblique_decoder is not None
    subspace = FairSubspace(
        components=projector.encoder if is_oblique else certificate.components,
        mean=np.zeros(moments.n_features) if settings.center == "none" else moments.mean,
        scale=feature_scale,
        center=settings.center,
        feature_names=moments.feature_names,
        certificate=certificate,
        oblique_decoder=projector.oblique_decoder,
        imputation_model=moments.imputation_model,
    )
    return Fit(moments, subspace, problem, family.coordinates)


def _lift_projector(
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


def _complete_certificate(
    certificate: Certificate,
    components: FloatArray,
    problem: Problem,
    moments: Moments,
    settings: FitSettings,
    *,
    is_thin: bool,
) -> Certificate:
    """Add what is known of the rows to a certificate and to its steps and prefixes.

    That is the components in the features, the number of rows of each group, center and
    restriction, the parameters of the criterion that depend on the rows, and the reason why a gap
    is unresolved.

    Parameters
    ----------
    certificate : Certificate
        Its steps (of one component each) and prefixes (the first components) are those of nested
        components.
    components : (d, p) array
        In the features.
    problem : Problem
        Without the restriction.
    moments : GroupMoments, SparseMoments or WideMoments
    settings : FitSettings
    is_thin : bool
        Whether the problem was solved in coordinates of the space that the rows span; this is
        recorded as the eigensolver "thin".
    """
    if certificate.n_components != problem.n_components:  # of a step or prefix
        problem = replace(problem, n_components=certificate.n_components)
    statement = replace(
        certificate.statement,
        criterion=problem.criterion.with_defaults(problem),
        counts=tuple(moments.counts.tolist()),
        center=settings.center,
        restriction=settings.restriction,
    )
    certificate = replace(certificate, components=components, statement=statement)
    reason = unresolved_reason(
        certificate, problem, moments, settings.center, is_scaled=settings.scale
    )
    if reason is not None:
        assessment = replace(
            certificate.assessment,
            unresolved_reason=reason.text,
            scaling_helps=reason.scaling_helps,
        )
        certificate = replace(certificate, assessment=assessment)
    if is_thin:
        run = replace(certificate.run, eigensolver=Eigensolver.THIN)
        certificate = replace(certificate, run=run)
    if not certificate.steps:
        return certificate

    def complete_part(part: Certificate, part_components: FloatArray) -> Certificate:
        return _complete_certificate(
            part, part_components, problem, moments, settings, is_thin=is_thin
        )

    steps = [complete_part(step, components[[i]]) for i, step in enumerate(certificate.steps)]
    prefixes = [
        complete_part(prefix, components[: i + 1]) for i, prefix in enumerate(certificate.prefixes)
    ]
    return replace(certificate, steps=tuple(steps), prefixes=tuple(prefixes))


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
    settings = FitSettings.parse(n_components, criterion, center=center, scale=scale)
    if settings.is_fraction:
        return fit_moments(moments, settings).subspace.dimension
    check_n_components(n_components, moments.n_features, allow_fraction=True)
    return int(n_components)


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


def _check_matrix_free(settings: FitSettings) -> None:
    """Check that the request can be solved without matrices, by products with sparse rows.

    That excludes a fraction of the variance in place of a number of components, and restrictions
    that do more than forbid the differences of means. `Uncorrelated` also passes: it needs columns
    that such moments never have, and says so itself. (Rows with these columns get matrices.)

    Raises
    ------
    IncompatibleParameters
    """
    restriction = settings.restriction
    is_solvable = restriction is None or restriction.forbids_mean_differences_only
    if is_solvable and not settings.is_fraction:
        return
    request = f"{restriction!r}"
    if settings.is_fraction:
        request = f"n_components={settings.n_components!r}, a fraction,"
    raise IncompatibleParameters(
        f"{request} was requested for sparse rows of many features, which are fitted without "
        "matrices",
        "Allowed: an integer number of components, and no restriction or exact orthogonal "
        "MeanParity()",
        "If k p^2 numbers fit into memory, use fit_moments(GroupMoments.from_rows(...))",
    )
