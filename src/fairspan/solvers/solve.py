"""Solve reduced problems, and evaluate their solutions for all features."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.evaluate_solution import certify, rotate_to_principal_axes
from fairspan.certificates.status import Status
from fairspan.linalg import is_zero, normalize_signs
from fairspan.linalg.threads import limit_blas_threads
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import DenseSecondMoments, reconstruction_errors
from fairspan.problem.family import ProblemFamily
from fairspan.problem.oblique import encoder_not_resolved
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.solvers.auto import Auto, choose_solver, solve_problem
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource

# Error that an oblique encoder may add to the objective, as a multiple of tolerance plus
# resolution: it is computed by different formulas, hence with different rounding errors.
_MAX_ADDED_ERROR = 4.0


def select_solver(family: ProblemFamily, reduction: Reduction, solver: Solver | Auto) -> Solver:
    """Solver for a reduced problem: the requested one, or the one that its limit needs.

    A limit is the constraint of a restriction with a tolerance, such as means that differ by at
    most the tolerance. Few solvers support one.

    Raises
    ------
    IncompatibleParameters
        The requested solver does not support the problem or its limit.
    """
    if reduction.problem.limit is not None:
        # Imported lazily: this loads half of the solvers.
        from fairspan.solvers.covariance_limit import solver_for_limit

        return solver_for_limit(reduction.problem, family.restriction, solver)
    return choose_solver(solver, reduction.problem)


def solve_reduction(
    reduction: Reduction,
    solver: Solver,
    tol: float,
    random_state: RandomSource = None,
    solve_with: Callable[[Problem, Solver, float, RandomSource], Certificate] = solve_problem,
) -> Certificate:
    """Solve a reduced problem, and return the certificate of the solution in the original features.

    Parameters
    ----------
    reduction : Reduction
        The problem within the directions that a restriction allows, and the way back.
    solver : Solver
        A solver that supports the reduced problem.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    random_state : int, Generator, RandomState or None
    solve_with : callable
        Solves the reduced problem; called like :func:`solve_problem`.

    Raises
    ------
    IncompatibleParameters
        No feasible subspace exists.
    """
    # Single-threaded, since no BLAS library is named: only the largest steps profit from threads,
    # and enable them themselves.
    # Floating point errors on the way are ignored, since the result is checked in the end.
    with limit_blas_threads(package=None), np.errstate(all="ignore"):
        # Features are idle if nothing varies; `axes` then has the few that remain.
        problem, axes = _without_idle_features(reduction.problem)
        certificate = solve_with(problem, solver, tol, random_state)
        if axes is not None:
            certificate = _restore_idle_features(certificate, reduction.problem, axes)
    certificate = _lift_certificate(certificate, reduction)
    # So far, errors and losses are those in the allowed directions.
    return with_unrestricted_errors(reduction, certificate)


def _restore_idle_features(
    certificate: Certificate, problem: Problem, axes: FloatArray
) -> Certificate:
    """Return the certificate of a problem, from that of the problem without its idle features.

    `axes`, (p, d), are those of the features that are not idle.
    """
    if certificate.proof is None:
        # Without a proof there is nothing to evaluate again: only the coordinates change.
        return replace(certificate, components=certificate.components @ axes.T)
    return certify(
        problem,
        axes @ Projector(certificate.components).basis,
        certificate.proof.change_coordinates(axes),
        tol=certificate.tol,
        n_eigenproblems=certificate.n_eigenproblems,
        trace=certificate.trace,
        solver=certificate.solver,
    )


def _lift_certificate(certificate: Certificate, reduction: Reduction) -> Certificate:
    """Lift components and proof of a reduced problem to the features of the larger one.

    An oblique restriction shifts rows before they are projected. Rounding may move components off
    the span of the shifted rows, and the shift may magnify that, so they are projected back.
    """
    columns = certificate.components.T
    proof = certificate.proof
    if reduction.axes is not None:
        columns = normalize_signs(reduction.lift(columns))
        if proof is not None:
            proof = proof.change_coordinates(reduction.axes)
    if reduction.oblique_shift is not None:
        columns = reduction.oblique_shift.project_basis(columns)
    if reduction.required is not None:
        unrestricted = reduction.problem.unrestricted
        columns = rotate_to_principal_axes(unrestricted, np.hstack([reduction.required, columns]))
        statement = replace(certificate.statement, n_components=unrestricted.n_components)
        certificate = replace(certificate, statement=statement)
    return replace(certificate, components=np.ascontiguousarray(columns.T), proof=proof)


def _without_idle_features(problem: Problem) -> tuple[Problem, FloatArray | None]:
    """Replace a problem without any variance by one of as many features as components.

    All subspaces are equally good there, and in many features the eigenproblems of zeros would take
    as long as any others. Other problems are returned as they are, and so are those with a limit
    (the constraint of a restriction with a tolerance), which is stated in all features.

    Returns
    -------
    problem : Problem
    axes : (p, d) array or None
        Orthonormal axes of the remaining features; None if the problem is unchanged.
    """
    p = problem.n_features
    d = problem.n_components
    if not problem.second_moments.has_matrices or d == p or problem.limit is not None:
        return problem, None
    second_moments = problem.dense_moments
    # The first matrix nearly always differs from zero; if not, the traces cover all groups.
    if not is_zero(second_moments.matrices[0]) or second_moments.traces.any():
        return problem, None
    axes = np.eye(p, d)
    embedding = problem.embedding
    # The axes of a restricted problem refer to the features of the problem without restriction.
    if embedding.axes is not None:
        embedding = replace(embedding, axes=embedding.axes @ axes)
    small_problem = problem.along(
        axes,
        second_moments=DenseSecondMoments(np.zeros((problem.n_groups, d, d))),
        embedding=embedding,
    )
    return small_problem, axes


def with_unrestricted_errors(reduction: Reduction, certificate: Certificate) -> Certificate:
    """Return the certificate with errors and losses over all directions.

    Objective and bounds are raised by the offset: what the error that all groups share in the
    directions that a restriction forbids adds to the objective.
    """
    unrestricted = reduction.problem.unrestricted
    # The problem of a step of nested components has other coordinates than its components: the
    # caller replaces its errors and losses by those of the prefix.
    if unrestricted.n_features == certificate.components.shape[1]:
        if unrestricted is not reduction.problem:
            projector = reduction.projector(certificate.components)
            errors = reconstruction_errors(projector, unrestricted.second_moments)
            certificate = replace(certificate, figures=replace(certificate.figures, errors=errors))
            # Only a claim of optimality could be wrong by what rounding of the encoder adds.
            if reduction.oblique_shift is not None and certificate.status is Status.OPTIMAL:
                _check_encoder(reduction, certificate)
        losses = np.maximum(certificate.errors - unrestricted.best_errors, 0.0)
        certificate = replace(certificate, figures=replace(certificate.figures, losses=losses))
    return certificate.with_offset(reduction.problem.objective_offset)


def _check_encoder(reduction: Reduction, certificate: Certificate) -> None:
    """Check that the encoder, whose entries may be large, loses no more than its components.

    The objective was computed from the components, the errors of the certificate from encoder and
    decoder. Where the total error from the latter is larger, rounding of the encoder added it.

    Raises
    ------
    IncompatibleParameters
        It adds more than the tolerance and the resolution of the certificate allow.
    """
    # The certificate does not contain the constant error in the forbidden directions yet.
    objective = certificate.objective + reduction.problem.objective_offset
    added_error = float(reduction.problem.proportions @ certificate.errors) - objective
    if added_error > _MAX_ADDED_ERROR * (certificate.absolute_tol + certificate.resolution):
        fraction = added_error / objective if objective > 0 else np.inf
        raise encoder_not_resolved(f"rounding of the encoder adds {fraction:.0e} of the error")


def solve_for_dimension(
    family: ProblemFamily,
    solver: Solver | Auto,
    n_components: int,
    tol: float,
    random_state: RandomSource = None,
) -> tuple[Reduction, Certificate]:
    """Solve the problem of a family at a given dimension.

    Parameters
    ----------
    family : ProblemFamily
        Problems that differ in the dimension only.
    solver : Solver or Auto
    n_components : int
        The dimension.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    reduction : Reduction
        The smaller problem that was solved, within the directions that a restriction allows, with
        the map of its components to the features.
    certificate : Certificate
        That of the solution, in the features or, if the family uses row coordinates, in these.

    Raises
    ------
    IncompatibleParameters
        The solver does not support the problem, or no feasible subspace exists.
    """
    reduction = family.reduction_at(n_components)
    supported_solver = select_solver(family, reduction, solver)
    return reduction, solve_reduction(reduction, supported_solver, tol, random_state)
