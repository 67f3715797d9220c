"""Solve a problem with a suitable solver, for a given dimension or the smallest sufficient one.

Nested components are computed one at a time: each step is a problem with one component in the
orthogonal complement of the previous ones (:func:`fairspan.problem.reduction.deflate_reduction`),
solved and proven like any other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, islice
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from fairspan.certificates.certificate import (
    Certificate,
    Solver,
    Status,
    TracePoint,
    certify,
    evaluate_solution,
)
from fairspan.certificates.proofs import Proof
from fairspan.errors import IncompatibleParameters
from fairspan.linalg import is_zero, normalize_signs
from fairspan.linalg.resources import limit_blas_threads
from fairspan.moments.operators import DenseSecondMoments, Projector, reconstruction_errors
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import ProblemFamily, Reduction, deflate_reduction
from fairspan.problem.restrictions import encoder_not_resolved
from fairspan.registry import builtin_names, resolve_object
from fairspan.typing import FloatArray

# Rounding allowance when a fraction of variance is compared: a few thousand eps, for sums of as
# many eigenvalues.
_FRACTION_ROUNDING = 1e-12
# A group whose variance is below this fraction of another's counts as constant: its rows differ by
# rounding only.
_VARIANCE_ROUNDING = 1e-20
# Exact solvers, which work within a search subspace where that is faster.
_EXACT_SOLVERS = ("boundary", "dual_newton")
# Run time within a search subspace relative to LAPACK, single-threaded: 0.45 to 0.95 at p = 500,
# d = 5 to 20; 0.4 to 1 at d = p / 14, 0.65 to 1.3 at p / 10 and 0.8 to 1.7 at p / 8 (p = 500 and
# 1000); for face images with p = 1764, 0.45 at d = 100 and 0.85 at d = 200.
SMALL_SUBSPACES_FROM = 500
_MAX_COMPONENT_RATIO = 1 / 8
# (tr M)^2 / |M|_F^2 is the effective rank. For noise it is p / 3 or more, and the search takes 1.2
# to 3.9 times as long as LAPACK; for spectra like 1 / i or exp(-40 i / p) it is at most p / 18.
_MAX_EFFECTIVE_RANK_RATIO = 1 / 8
# Below this relative tolerance no search subspace is used: its bounds would not be tight enough.
_MIN_SUBSPACE_TOL = 1e-12
# Error that an oblique encoder may add to the objective, as a multiple of tolerance plus
# resolution: it is computed by different formulas, hence with different rounding errors.
_MAX_ADDED_ERROR = 4.0


@dataclass(frozen=True)
class AutoSolver(Solver):
    """Solver that delegates to the first exact solver that supports the problem.

    The boundary search for one and two groups and for linear criteria; otherwise Newton's method on
    the dual.
    """

    name: ClassVar[str] = "auto"

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why no exact solver supports the problem; None if one does."""
        boundary, dual_newton = _exact_solvers()
        return boundary.unsupported_reason(problem) and dual_newton.unsupported_reason(problem)

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Solve by boundary search where it is supported, else by Newton's method on the dual."""
        boundary, dual_newton = _exact_solvers()
        is_supported = boundary.unsupported_reason(problem) is None
        solver = boundary if is_supported else dual_newton
        return solve_problem(problem, solver, tol, random_state)


def solve_problem(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Solve with a given solver, within a growing search subspace where that is faster.

    Without matrices, this is the only way.
    """
    may_use_subspace = problem.limit is None and solver.name in _EXACT_SOLVERS
    if problem.has_matrices and not (may_use_subspace and _subspace_is_faster(problem, tol)):
        return solver.solve(problem, tol, random_state)
    # Imported lazily: most problems have few features.
    from fairspan.solvers.growing_subspace import solve_growing

    return solve_growing(problem, solver, tol, random_state)


def _subspace_is_faster(problem: Problem, tol: float) -> bool:
    """Whether a search subspace is faster and can prove the requested tolerance."""
    p = problem.n_features
    q = problem.proportions
    if p < SMALL_SUBSPACES_FROM or problem.n_components > _MAX_COMPONENT_RATIO * p:
        return False
    if tol < _MIN_SUBSPACE_TOL:
        return False
    # With more groups, the solution for the robust error gap is not spanned by leading
    # eigenvectors.
    if problem.criterion.has_concave_scores and problem.n_groups > 2:
        return False
    second_moments = problem.dense_moments
    variance = float(q @ (second_moments.traces - second_moments.excluded_variances))
    frobenius_norm = float(np.linalg.norm(second_moments.mixture(q)))
    return variance**2 <= _MAX_EFFECTIVE_RANK_RATIO * p * frobenius_norm**2


@cache
def _exact_solvers() -> tuple[Solver, ...]:
    """Instances of the exact solvers: boundary search, Newton's method on the dual."""
    return tuple(map(get_solver, _EXACT_SOLVERS))


def get_solver(solver: object, **parameters: Any) -> Solver:
    """Get a solver by name, with parameters, or return the given object.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a solver.

    Examples
    --------
    >>> get_solver("boundary")
    BoundarySearch()
    """
    return cast(Solver, resolve_object("solver", solver, Solver, parameters))


def check_supported(solver: Solver, problem: Problem) -> None:
    """Raise IncompatibleParameters if a solver does not support a problem, naming those that do.

    Raises
    ------
    IncompatibleParameters
    """
    problem.criterion.check_problem(problem)
    reason = solver.unsupported_reason(problem)
    if reason is None:
        return
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    # The exact solvers come first.
    others = [get_solver(name) for name in builtin_names("solver") if name != "auto"]
    supported = [other.name for other in others if other.unsupported_reason(problem) is None]
    raise IncompatibleParameters(
        f"The solver {solver.name!r} does not support the criterion {problem.criterion.name!r} "
        f"with {groups}: {reason}",
        f"Solvers that support it: {', '.join(map(repr, supported)) or 'none'}",
        "Use solver='auto'" if supported else "Choose another criterion, or merge groups",
    )


def select_solver(family: ProblemFamily, reduction: Reduction, solver: Solver) -> Any:
    """Solver for a reduced problem: the requested one, or the one that its limit needs.

    Raises
    ------
    IncompatibleParameters
        The requested solver does not support the problem.
    """
    if reduction.problem.limit is not None:
        # Imported lazily: this loads half of the solvers.
        from fairspan.solvers.covariance_limit import solver_for_limit

        return solver_for_limit(reduction.problem, family.restriction, solver)
    check_supported(solver, reduction.problem)
    return solver


def solve_reduction(
    reduction: Reduction,
    solver: Any,
    tol: float,
    random_state: Any = None,
    solve_with: Callable[[Problem, Any, float, Any], Certificate] = solve_problem,
) -> Certificate:
    """Solve a reduced problem and lift the solution to the larger one.

    Parameters
    ----------
    reduction : Reduction
    solver : Solver
        A solver that supports the reduced problem.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    random_state : int, Generator, RandomState or None
    solve_with : callable
        Called like :func:`solve_problem`.

    Raises
    ------
    IncompatibleParameters
        No feasible subspace exists.
    """
    # Single-threaded: only the largest steps profit from threads, and enable them themselves.
    # Floating point errors on the way are ignored, since the result is checked in the end.
    with limit_blas_threads(None), np.errstate(all="ignore"):
        problem, axes = _without_idle_features(reduction.problem)
        certificate = solve_with(problem, solver, tol, random_state)
        if axes is not None and certificate.proof is not None:
            certificate = certify(
                reduction.problem,
                axes @ Projector(certificate.components).basis,
                certificate.proof.change_coordinates(axes),
                tol=certificate.tol,
                n_eigenproblems=certificate.n_eigenproblems,
                trace=certificate.trace,
                solver=certificate.solver,
            )
    columns = certificate.components.T
    proof = certificate.proof
    if reduction.axes is not None:
        columns = normalize_signs(reduction.lift(columns))
        proof = None if proof is None else proof.change_coordinates(reduction.axes)
    if reduction.oblique_shift is not None:
        columns = reduction.oblique_shift.project_basis(columns)
    certificate = replace(certificate, components=np.ascontiguousarray(columns.T), proof=proof)
    return with_unrestricted_errors(reduction, certificate)


def _without_idle_features(problem: Problem) -> tuple[Problem, FloatArray | None]:
    """Return a problem without any variance in as many features as components, and these axes.

    All subspaces are equally good there, and in many features the eigenproblems of zeros would take
    as long as any others. Other problems are returned as they are, without axes.
    """
    p = problem.n_features
    d = problem.n_components
    if not problem.has_matrices or d == p or problem.limit is not None:
        return problem, None
    second_moments = problem.dense_moments
    if not is_zero(second_moments.matrices[0]) or second_moments.traces.any():
        return problem, None
    axes = np.eye(p, d)
    small_problem = problem.along(
        axes,
        second_moments=DenseSecondMoments(np.zeros((problem.n_groups, d, d))),
        axes=None if problem.axes is None else problem.axes @ axes,
    )
    return small_problem, axes


def with_unrestricted_errors(reduction: Reduction, certificate: Certificate) -> Certificate:
    """Return the certificate with errors and losses over all directions, and the offset added."""
    unrestricted = reduction.problem.unrestricted
    # For a step of nested components the coordinates differ; its losses are those of the prefix.
    if unrestricted.n_features == certificate.components.shape[1]:
        if unrestricted is not reduction.problem:
            projector = reduction.projector(certificate.components)
            errors = reconstruction_errors(projector, unrestricted.second_moments)
            certificate = replace(certificate, errors=errors)
            if reduction.oblique_shift is not None and certificate.status is Status.OPTIMAL:
                _check_encoder(reduction, certificate)
        losses = np.maximum(certificate.errors - unrestricted.best_errors, 0.0)
        certificate = replace(certificate, losses=losses)
    return certificate.with_offset(reduction.problem.objective_offset)


def _check_encoder(reduction: Reduction, certificate: Certificate) -> None:
    """Check that the encoder, whose entries may be large, loses no more than its components.

    Raises
    ------
    IncompatibleParameters
    """
    objective = certificate.objective + reduction.problem.objective_offset
    added_error = float(reduction.problem.proportions @ certificate.errors) - objective
    if added_error > _MAX_ADDED_ERROR * (certificate.absolute_tol + certificate.resolution):
        fraction = added_error / objective if objective > 0 else np.inf
        raise encoder_not_resolved(f"rounding of the encoder adds {fraction:.0e} of the error")


def solve_for_dimension(
    family: ProblemFamily, solver: Solver, n_components: int, tol: float, random_state: Any = None
) -> tuple[Reduction, Certificate]:
    """Solve for a given dimension; return the reduction and the certificate.

    Raises
    ------
    IncompatibleParameters
        The solver does not support the problem, or no feasible subspace exists.
    """
    reduction = family.reduction_at(n_components)
    supported_solver = select_solver(family, reduction, solver)
    return reduction, solve_reduction(reduction, supported_solver, tol, random_state)


def solve_for_variance_kept(
    family: ProblemFamily,
    solver: Solver,
    min_variance_kept: float,
    tol: float,
    random_state: Any = None,
) -> tuple[Reduction, Certificate]:
    """Solve for the smallest dimension that keeps a fraction of every group's variance.

    The fraction that a criterion keeps for a group need not increase with the dimension, so every
    dimension is tried, starting with the first that could suffice for each group alone.

    Raises
    ------
    IncompatibleParameters
        No dimension suffices, or the solver does not support the problem.
    """
    max_components = family.max_components
    rejected: list[Certificate] = []
    infeasibility: IncompatibleParameters | None = None
    min_components = min(_min_components(family.template, min_variance_kept), max_components)
    for d in range(min_components, max_components + 1):
        try:
            reduction, certificate = solve_for_dimension(family, solver, d, tol, random_state)
        except IncompatibleParameters as error:
            # For example, equal errors may be infeasible for this dimension.
            infeasibility = error
            continue
        if keeps_variance(family, certificate, min_variance_kept):
            return reduction, certificate
        rejected.append(certificate)
    if not rejected and infeasibility is not None:
        raise infeasibility
    raise variance_not_kept(family, min_variance_kept, rejected)


def keeps_variance(
    family: ProblemFamily, certificate: Certificate, min_variance_kept: float
) -> bool:
    """Whether every group keeps at least this fraction of its variance."""
    return _smallest_variance_kept(family, certificate) >= min_variance_kept - _FRACTION_ROUNDING


def variance_not_kept(
    family: ProblemFamily, min_variance_kept: float, rejected: Sequence[Certificate]
) -> IncompatibleParameters:
    """Error for the case that no dimension keeps the requested variance."""
    best = max(_smallest_variance_kept(family, certificate) for certificate in rejected)
    # Rounded down, so that the value in the message is accepted.
    max_fraction = np.floor(best * 1e6) / 1e6
    return IncompatibleParameters(
        f"n_components is {min_variance_kept!r}, a fraction of every group's variance, with the "
        f"criterion {family.template.criterion.name!r} and restriction {family.restriction!r}",
        f"Allowed: at most {max_fraction:g}, the smallest fraction kept by a group with up to "
        f"{family.max_components} components",
        "Choose a smaller fraction, another criterion, or a looser restriction",
    )


def _min_components(problem: Problem, min_variance_kept: float) -> int:
    """Smallest d with t_d(S_g) >= fraction * tr S_g for every group."""
    p = problem.n_features
    traces = problem.second_moments.traces
    n_components = 1
    for group in np.flatnonzero(_has_variance(traces)):
        # Solving each dimension reuses these decompositions.
        indicator = np.eye(len(traces))[group]
        captured = np.cumsum(problem.dense_moments.eigen_cache.decomposition(indicator).values)
        threshold = (min_variance_kept - _FRACTION_ROUNDING) * traces[group]
        sufficient = np.flatnonzero(captured >= threshold)
        needed = int(sufficient[0]) + 1 if len(sufficient) else p
        n_components = max(n_components, needed)
    return n_components


def _smallest_variance_kept(family: ProblemFamily, certificate: Certificate) -> float:
    """Smallest 1 - e_g / tr S_g over groups; 1 if no group has variance."""
    traces = family.template.second_moments.traces
    has_variance = _has_variance(traces)
    error_fractions = certificate.errors[has_variance] / traces[has_variance]
    return 1.0 - float(error_fractions.max(initial=0.0))


def _has_variance(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the groups that have variance, shape (k,)."""
    return np.asarray(traces > _VARIANCE_ROUNDING * traces.max())


# Up to this many groups, tied components have the same group variances.
_UNIQUE_UP_TO_GROUPS = 2


def solve_nested(
    family: ProblemFamily,
    solver: Solver,
    n_components: int | float,
    tol: float,
    random_state: Any = None,
) -> tuple[Reduction, Certificate]:
    """Compute nested components one at a time, with a certificate for each step and each prefix.

    Parameters
    ----------
    family : ProblemFamily
    solver : Solver
    n_components : int or float
        d, or the fraction of every group's variance to keep with as few components as possible.
    tol : float
    random_state : int, Generator, RandomState or None

    Raises
    ------
    IncompatibleParameters
        The solver or restriction does not support the problem, or no number of components keeps the
        requested variance.
    """
    prefixes = _nested_prefixes(family, solver, tol, random_state)
    if isinstance(n_components, float):
        certificates = _prefixes_for_variance(family, prefixes, n_components)
    else:
        select_solver(family, family.reduction_at(n_components), solver)
        certificates = list(islice(prefixes, n_components))
    *shorter, last = certificates
    certificate = replace(last, prefixes=tuple(replace(prefix, steps=()) for prefix in shorter))
    return family.reduction_at(len(certificates)), certificate


def _prefixes_for_variance(
    family: ProblemFamily, prefixes: Iterator[Certificate], min_variance_kept: float
) -> list[Certificate]:
    """Return as few prefixes as keep a fraction of every group's variance."""
    certificates: list[Certificate] = []
    for prefix in islice(prefixes, family.max_components):
        certificates.append(prefix)
        if keeps_variance(family, prefix, min_variance_kept):
            return certificates
    raise variance_not_kept(family, min_variance_kept, certificates)


def _nested_prefixes(
    family: ProblemFamily, solver: Solver, tol: float, random_state: Any
) -> Iterator[Certificate]:
    """Yield the certificate of the first d components for d = 1, 2, ..."""
    first_problem = family.reduction_at(1)
    components = np.empty((0, family.template.n_features))
    steps: list[Certificate] = []
    n_eigenproblems = 0
    for d in count(1):
        deflated = deflate_reduction(first_problem, components.T)
        check_supported(solver, deflated.problem)
        step = solve_reduction(deflated, solver, tol, random_state, _solve_next_component)
        components = np.vstack([components, step.components])
        n_eigenproblems += step.n_eigenproblems
        prefix = step
        if d > 1:
            prefix = _evaluate_prefix(family.reduction_at(d), components, step)
            n_eigenproblems += 1
        # Losses are those of all components up to this one.
        step = replace(
            step,
            errors=prefix.errors,
            losses=prefix.losses,
            total_variance=prefix.total_variance,
        )
        steps.append(step)
        point = TracePoint(n_eigenproblems, prefix.lower_bound, prefix.objective)
        yield replace(
            prefix,
            n_eigenproblems=n_eigenproblems,
            trace=(point,),
            steps=tuple(steps),
        )


def _evaluate_prefix(
    reduction: Reduction, components: FloatArray, step: Certificate
) -> Certificate:
    """Certificate of components as a joint solution, with the bound that a step's weights prove.

    Group weights prove a bound for any dimension; those of the last step are rarely the best.
    """
    basis = components.T
    if reduction.axes is not None:
        basis = reduction.axes.T @ basis
    # Without matrices no eigenvalue sum is proven.
    lower_bound = None if reduction.problem.has_matrices else -np.inf
    certificate = evaluate_solution(
        reduction.problem, basis, Proof(step.weights), tol=step.tol, lower_bound=lower_bound
    )
    certificate = replace(
        certificate, components=components, solver=step.solver, eigensolver=step.eigensolver
    )
    return with_unrestricted_errors(reduction, certificate)


def _solve_next_component(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Compute one component; among tied solutions, choose the one with the largest pooled variance.

    They lie among the tied eigenvectors of the mixture that proves the bound.
    """
    certificate = solve_problem(problem, solver, tol, random_state)
    if problem.n_groups <= _UNIQUE_UP_TO_GROUPS:
        return certificate
    if certificate.eigensolver != "dense" or not certificate.proof:
        return certificate
    tied = problem.second_moments.leading(certificate.weights, 1).tied_vectors
    if not tied.shape[1]:
        return certificate
    compressed = problem.second_moments.compress(tied)
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    max_variance_component = tied @ np.linalg.eigh(pooled)[1][:, -1:]
    if problem.objective(max_variance_component) > certificate.objective + certificate.absolute_tol:
        return certificate
    return certify(
        problem,
        max_variance_component,
        certificate.proof,
        tol=tol,
        n_eigenproblems=certificate.n_eigenproblems,
        trace=certificate.trace,
        solver=certificate.solver,
    )
