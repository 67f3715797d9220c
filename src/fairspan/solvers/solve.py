"""Solving a problem with a solver that takes it, at a dimension or the smallest that will do.

Nested components are solved one after the other: a step is the problem of one component in the
complement of those before it (:func:`fairspan.problem.reduction.deflate_reduction`), solved and proven as
any other.
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

# A share that is met up to rounding is met.
_FRACTION_ROUNDING = 1e-12
# A group with less than this share of another's variance has none: its rows differ by rounding.
_VARIANCE_ROUNDING = 1e-20
# The solvers that others ask; and that are given a small subspace, where that pays.
_EXACT_SOLVERS = ("boundary", "dual_newton")
# A subspace of few dimensions, with one thread, over LAPACK's time: 0.45 to 0.95 at p = 500, d = 5
# to 20; at p = 500 and 1000 0.4 to 1 at d = p / 14, 0.65 to 1.3 at p / 10 and 0.8 to 1.7 at p / 8;
# of faces, p = 1764, 0.45 at d = 100 and 0.85 at d = 200.
SMALL_SUBSPACES_FROM = 500
_MAX_COMPONENT_RATIO = 1 / 8
# (tr M)^2 / |M|_F^2 counts the eigenvalues that matter. Rows of noise have p / 3 and more, and take
# 1.2 to 3.9 times as long; eigenvalues that fall like 1 / i or exp(-40 i / p) have p / 18 and less.
_MAX_EFFECTIVE_RANK_RATIO = 1 / 8
# As a share of the objective, what a subspace is not grown to prove.
_MIN_SUBSPACE_TOL = 1e-12
# What an oblique encoder may add to the objective, as a multiple of tolerance and resolution: it is
# computed in another way, with other roundings.
_MOST_ADDED = 4.0


@dataclass(frozen=True)
class AutoSolver(Solver):
    """The first solver that is exact for the problem.

    For one and two groups the boundary search, and so for linear criteria of any number; otherwise
    Newton's method on the dual.
    """

    name: ClassVar[str] = "auto"

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Why neither can take this problem; None if one can."""
        boundary, dual_newton = _exact_solvers()
        return boundary.unsupported_reason(problem) and dual_newton.unsupported_reason(problem)

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Solve by the boundary search if it can, else by Newton's method on the dual."""
        boundary, dual_newton = _exact_solvers()
        able = boundary if boundary.unsupported_reason(problem) is None else dual_newton
        return solve_problem(problem, able, tol, random_state)


def solve_problem(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Solve with a solver that takes it, within a subspace that grows where this pays.

    Where there are no matrices it is the only way.
    """
    if problem.has_matrices and not (
        problem.limit is None
        and solver.name in _EXACT_SOLVERS
        and _subspace_is_faster(problem, tol)
    ):
        return solver.solve(problem, tol, random_state)
    # Imported where it is needed: most problems are of few features.
    from fairspan.solvers.growing_subspace import solve_growing

    return solve_growing(problem, solver, tol, random_state)


def _subspace_is_faster(problem: Problem, tol: float) -> bool:
    """Whether a small subspace is faster, and proves as much as is requested."""
    p, q, criterion = problem.n_features, problem.proportions, problem.criterion
    if (
        p < SMALL_SUBSPACES_FROM
        or problem.n_components > _MAX_COMPONENT_RATIO * p
        or tol < _MIN_SUBSPACE_TOL
    ):
        return False
    # With more groups the answer to the robust error gap is not made of leading eigenvectors.
    if criterion.has_concave_scores and problem.n_groups > 2:
        return False
    variance = float(q @ (problem.dense_moments.traces - problem.dense_moments.excluded_variances))
    frobenius_norm = float(np.linalg.norm(problem.dense_moments.mixture(q)))
    return variance**2 <= _MAX_EFFECTIVE_RANK_RATIO * p * frobenius_norm**2


@cache
def _exact_solvers() -> tuple[Solver, ...]:
    """The boundary search, and Newton's method on the dual."""
    return tuple(map(get_solver, _EXACT_SOLVERS))


def get_solver(solver: object, **parameters: Any) -> Solver:
    """A solver from its name and parameters, or the object itself.

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
    """Raise Incompatible, naming the solvers that work, if this one cannot take the problem.

    Raises
    ------
    Incompatible
    """
    problem.criterion.check_problem(problem)
    objection = solver.unsupported_reason(problem)
    if objection is None:
        return
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    # The exact ones come first.
    others = [get_solver(name) for name in builtin_names("solver") if name != "auto"]
    able = [each.name for each in others if each.unsupported_reason(problem) is None]
    raise IncompatibleParameters(
        f"The solver {solver.name!r} received the criterion {problem.criterion.name!r} of "
        f"{groups}, but {objection}",
        f"Solvers that support it: {', '.join(map(repr, able)) or 'none'}",
        "Use solver='auto'" if able else "Choose another criterion, or join groups",
    )


def select_solver(family: ProblemFamily, reduction: Reduction, solver: Solver) -> Any:
    """The solver that takes a problem: the requested one, or that of a limit.

    Raises
    ------
    Incompatible
        The requested one cannot take it.
    """
    if reduction.problem.limit is not None:
        # Imported where it is needed: it brings half of the solvers with it.
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
    """Solve a reduced problem, and bring the answer back to the features of the larger one.

    Parameters
    ----------
    reduction : Reduction
    solver : Solver
        One that takes its problem.
    tol : float
        Largest gap to call optimal, as a share of the objective.
    random_state : int, Generator, RandomState or None
    way : callable
        As :func:`solve_problem`.

    Raises
    ------
    Incompatible
        The solver finds that no subspace is allowed.
    """
    # Only the largest steps should use threads; they say so themselves.
    # What overflows on the way, beside a column of large numbers, is looked at in the end.
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
    columns, proof = certificate.components.T, certificate.proof
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
    p, d = problem.n_features, problem.n_components
    if not problem.has_matrices or d == p or problem.limit is not None:
        return problem, None
    second = problem.dense_moments
    if not is_zero(second.matrices[0]) or second.traces.any():
        return problem, None
    axes = np.eye(p, d)
    small = problem.along(
        axes,
        second_moments=DenseSecondMoments(np.zeros((problem.n_groups, d, d))),
        axes=None if problem.axes is None else problem.axes @ axes,
    )
    return small, axes


def with_unrestricted_errors(reduction: Reduction, certificate: Certificate) -> Certificate:
    """With errors and losses in all directions, and what all lose beside those of a restriction."""
    unrestricted = reduction.problem.unrestricted
    # Nested components are beside others, in fewer coordinates; what they lose is told of all.
    if unrestricted.n_features == certificate.components.shape[1]:
        if unrestricted is not reduction.problem:
            projector = reduction.projector(certificate.components)
            certificate = replace(
                certificate, errors=reconstruction_errors(projector, unrestricted.second_moments)
            )
            if reduction.oblique_shift is not None and certificate.status is Status.OPTIMAL:
                _check_encoder(reduction, certificate)
        certificate = replace(
            certificate, losses=np.maximum(certificate.errors - unrestricted.best_errors, 0.0)
        )
    return certificate.with_offset(reduction.problem.objective_offset)


def _check_encoder(reduction: Reduction, found: Certificate) -> None:
    """Make sure that the encoder, whose entries may be large, loses no more than its components.

    Raises
    ------
    Incompatible
    """
    objective = found.objective + reduction.problem.objective_offset
    more = float(reduction.problem.proportions @ found.errors) - objective
    if more > _MOST_ADDED * (found.absolute_tol + found.resolution):
        share = more / objective if objective > 0 else np.inf
        raise encoder_not_resolved(f"rounding of the encoder adds {share:.0e} of the error")


def solve_for_dimension(
    family: ProblemFamily, solver: Solver, n_components: int, tol: float, random_state: Any = None
) -> tuple[Reduction, Certificate]:
    """Solve for a dimension.

    Raises
    ------
    Incompatible
        The solver cannot take the problem, or finds that no subspace is allowed.
    """
    reduction = family.reduction_at(n_components)
    able = select_solver(family, reduction, solver)
    return reduction, solve_reduction(reduction, able, tol, random_state)


def solve_for_variance_kept(
    family: ProblemFamily,
    solver: Solver,
    min_variance_kept: float,
    tol: float,
    random_state: Any = None,
) -> tuple[Reduction, Certificate]:
    """Solve for the smallest dimension that keeps this share of every group's variance.

    The share that a criterion leaves to a group need not grow with the dimension, so every
    dimension is tried, from the first at which each group's own best subspace would do.

    Raises
    ------
    Incompatible
        No dimension keeps it, or the solver cannot take the problem.
    """
    max_components = family.max_components
    rejected: list[Certificate] = []
    infeasibility: IncompatibleParameters | None = None
    for d in range(
        min(_min_components(family.template, min_variance_kept), max_components), max_components + 1
    ):
        try:
            reduction, certificate = solve_for_dimension(family, solver, d, tol, random_state)
        except (
            IncompatibleParameters
        ) as error:  # such as equal errors that are out of reach for this d
            infeasibility = error
            continue
        if keeps_variance(family, certificate, min_variance_kept):
            return reduction, certificate
        rejected.append(certificate)
    if not rejected and infeasibility is not None:
        raise infeasibility
    raise variance_not_kept(family, min_variance_kept, rejected)


def keeps_variance(family: ProblemFamily, found: Certificate, min_variance_kept: float) -> bool:
    """Whether every group keeps this share of its variance."""
    return _smallest_variance_kept(family, found) >= min_variance_kept - _FRACTION_ROUNDING


def variance_not_kept(
    family: ProblemFamily, min_variance_kept: float, tried: Sequence[Certificate]
) -> IncompatibleParameters:
    """What to raise where none of the dimensions that were tried keeps a share."""
    best = max(_smallest_variance_kept(family, each) for each in tried)
    return IncompatibleParameters(
        f"n_components is {min_variance_kept!r}, a share of every group's variance, with the criterion "
        f"{family.template.criterion.name!r} and restriction {family.restriction!r}",
        f"Allowed: at most {np.floor(best * 1e6) / 1e6:g}, which the group with the least share "
        f"keeps with up to {family.max_components} components",
        "Choose a smaller share, another criterion, or a looser restriction",
    )


def _min_components(problem: Problem, min_variance_kept: float) -> int:
    """The first d with t_d(S_g) >= share tr S_g for every group."""
    p, traces = problem.n_features, problem.second_moments.traces
    n_components = 1
    for group in np.flatnonzero(_has_variance(traces)):
        # Solving for each dimension asks for the same decompositions.
        captured = np.cumsum(
            problem.dense_moments.eigen_cache.decomposition(np.eye(len(traces))[group]).values
        )
        sufficient = np.flatnonzero(
            captured >= (min_variance_kept - _FRACTION_ROUNDING) * traces[group]
        )
        n_components = max(n_components, int(sufficient[0]) + 1 if len(sufficient) else p)
    return n_components


def _smallest_variance_kept(family: ProblemFamily, found: Certificate) -> float:
    """1 - e_g / tr S_g of the group for which it is least; a group without variance keeps all."""
    traces = family.template.second_moments.traces
    varies = _has_variance(traces)
    return 1.0 - float((found.errors[varies] / traces[varies]).max(initial=0.0))


def _has_variance(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Which groups have variance."""
    return np.asarray(traces > _VARIANCE_ROUNDING * traces.max())


# Two groups have no other component that is as good but with the same variances.
_UNIQUE_UP_TO_GROUPS = 2


def solve_nested(
    family: ProblemFamily,
    solver: Solver,
    n_components: int | float,
    tol: float,
    random_state: Any = None,
) -> tuple[Reduction, Certificate]:
    """The first d components, one after the other, with a certificate of each step and prefix.

    Parameters
    ----------
    family : ProblemFamily
    solver : Solver
    n_components : int or float
        d; or the share of every group's variance that they are to keep, as few as do.
    tol : float
    state : int, Generator, RandomState or None

    Raises
    ------
    Incompatible
        The solver, or the restriction, cannot take the problem; no number of components keeps that
        share.
    """
    prefixes = _nested_prefixes(family, solver, tol, random_state)
    if isinstance(n_components, float):
        share, certificate = n_components, list[Certificate]()
        for each in islice(prefixes, family.max_components):
            certificate.append(each)
            if keeps_variance(family, each, share):
                break
        else:
            raise variance_not_kept(family, share, certificate)
    else:
        select_solver(family, family.reduction_at(n_components), solver)
        certificate = list(islice(prefixes, n_components))
    *before, max_components = certificate
    return family.reduction_at(len(certificate)), replace(
        max_components, prefixes=tuple(replace(each, steps=()) for each in before)
    )


def _nested_prefixes(
    family: ProblemFamily, solver: Solver, tol: float, random_state: Any
) -> Iterator[Certificate]:
    """The first d components for d = 1, 2, .., of which each takes one more step."""
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
        # What groups lose is told of all components so far.
        prefix_figures = {
            name: getattr(prefix, name) for name in ("errors", "losses", "total_variance")
        }
        steps.append(replace(step, **prefix_figures))
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
    """Components as an answer of as many dimensions, with the bound that a step's weights prove.

    Weights of the groups prove a bound for any number of dimensions; those of the last step are
    seldom the best ones.
    """
    basis = components.T if reduction.axes is None else reduction.axes.T @ components.T
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
    """One component: of several as good, the one of most pooled variance.

    They are among the tied eigenvectors of the mixture that proves the bound.
    """
    certificate = solve_problem(problem, solver, tol, random_state)
    if (
        problem.n_groups <= _UNIQUE_UP_TO_GROUPS
        or certificate.eigensolver != "dense"
        or not certificate.proof
    ):
        return certificate
    tied = problem.second_moments.leading(certificate.weights, 1).tied_vectors
    if not tied.shape[1]:
        return certificate
    compressed = problem.second_moments.compress(tied)
    max_variance_component = (
        tied @ np.linalg.eigh(np.tensordot(problem.proportions, compressed, axes=1))[1][:, -1:]
    )
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
