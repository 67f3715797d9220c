"""Solving a problem with a solver that takes it, at a dimension or the smallest that will do.

Nested components are solved one after the other: a step is the problem of one component in the
complement of those before it (:func:`fairspan.problem.reduction.left_beside`), solved and proven as
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
    evaluate,
)
from fairspan.certificates.proofs import Proof
from fairspan.errors import Incompatible
from fairspan.linalg import is_zero, with_positive_signs
from fairspan.linalg.resources import threads_of
from fairspan.moments.operators import DenseSecondMoments, Projector, errors_under
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import ProblemFamily, Reduction, left_beside
from fairspan.problem.restrictions import encoder_not_resolved
from fairspan.registry import names_of, object_of
from fairspan.typing import FloatArray

# A share that is met up to rounding is met.
_ROUNDING = 1e-12
# A group with less than this share of another's variance has none: its rows differ by rounding.
_NO_VARIANCE = 1e-20
# The solvers that others ask; and that are given a small subspace, where that pays.
_EXACT = ("boundary", "dual_newton")
# A subspace of few dimensions, with one thread, over LAPACK's time: 0.45 to 0.95 at p = 500, d = 5
# to 20; at p = 500 and 1000 0.4 to 1 at d = p / 14, 0.65 to 1.3 at p / 10 and 0.8 to 1.7 at p / 8;
# of faces, p = 1764, 0.45 at d = 100 and 0.85 at d = 200.
SMALL_SUBSPACES_FROM = 500
_UP_TO_SHARE = 1 / 8
# (tr M)^2 / |M|_F^2 counts the eigenvalues that matter. Rows of noise have p / 3 and more, and take
# 1.2 to 3.9 times as long; eigenvalues that fall like 1 / i or exp(-40 i / p) have p / 18 and less.
_UP_TO_SHARE_THAT_MATTERS = 1 / 8
# As a share of the objective, what a subspace is not grown to prove.
_LEAST_TOLERANCE = 1e-12
# What an oblique encoder may add to the objective, as a multiple of tolerance and resolution: it is
# computed in another way, with other roundings.
_MOST_ADDED = 4.0


@dataclass(frozen=True)
class Auto(Solver):
    """The first solver that is exact for the problem.

    For one and two groups the boundary search, and so for linear criteria of any number; otherwise
    Newton's method on the dual.
    """

    name: ClassVar[str] = "auto"

    def objection(self, problem: Problem) -> str | None:
        """Why neither can take this problem; None if one can."""
        boundary, dual_newton = _exact_solvers()
        return boundary.objection(problem) and dual_newton.objection(problem)

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Solve by the boundary search if it can, else by Newton's method on the dual."""
        boundary, dual_newton = _exact_solvers()
        able = boundary if boundary.objection(problem) is None else dual_newton
        return solve_problem(problem, able, tol, random_state)


def solve_problem(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Solve with a solver that takes it, within a subspace that grows where this pays.

    Where there are no matrices it is the only way.
    """
    if problem.has_matrices and not (
        problem.limit is None and solver.name in _EXACT and _pays(problem, tol)
    ):
        return solver.solve(problem, tol, random_state)
    # Imported where it is needed: most problems are of few features.
    from fairspan.solvers.growing_subspace import solve_growing

    return solve_growing(problem, solver, tol, random_state)


def _pays(problem: Problem, tol: float) -> bool:
    """Whether a small subspace is faster, and proves as much as is requested."""
    p, q, criterion = problem.n_features, problem.proportions, problem.criterion
    if (
        p < SMALL_SUBSPACES_FROM
        or problem.n_components > _UP_TO_SHARE * p
        or tol < _LEAST_TOLERANCE
    ):
        return False
    # With more groups the answer to the robust error gap is not made of leading eigenvectors.
    if criterion.has_concave_scores and problem.n_groups > 2:
        return False
    variance = float(q @ (problem.dense.traces - problem.dense.outside))
    size = float(np.linalg.norm(problem.dense.mixture(q)))
    return variance**2 <= _UP_TO_SHARE_THAT_MATTERS * p * size**2


@cache
def _exact_solvers() -> tuple[Solver, ...]:
    """The boundary search, and Newton's method on the dual."""
    return tuple(map(solver_of, _EXACT))


def solver_of(solver: object, **parameters: Any) -> Solver:
    """A solver from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a solver.

    Examples
    --------
    >>> solver_of("boundary")
    BoundarySearch()
    """
    return cast(Solver, object_of("solver", solver, Solver, parameters))


def check_accepted(solver: Solver, problem: Problem) -> None:
    """Raise Incompatible, naming the solvers that work, if this one cannot take the problem.

    Raises
    ------
    Incompatible
    """
    problem.criterion.check_posed(problem)
    objection = solver.objection(problem)
    if objection is None:
        return
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    # The exact ones come first.
    others = [solver_of(name) for name in names_of("solver") if name != "auto"]
    able = [each.name for each in others if each.objection(problem) is None]
    raise Incompatible(
        f"The solver {solver.name!r} received the criterion {problem.criterion.name!r} of "
        f"{groups}, but {objection}",
        f"Solvers that support it: {', '.join(map(repr, able)) or 'none'}",
        "Use solver='auto'" if able else "Choose another criterion, or join groups",
    )


def able_solver(family: ProblemFamily, reduction: Reduction, solver: Solver) -> Any:
    """The solver that takes a problem: the requested one, or that of a limit.

    Raises
    ------
    Incompatible
        The requested one cannot take it.
    """
    if reduction.problem.limit is not None:
        # Imported where it is needed: it brings half of the solvers with it.
        from fairspan.solvers.near_parity import tolerant_solver

        return tolerant_solver(reduction.problem, family.restriction, solver)
    check_accepted(solver, reduction.problem)
    return solver


def solve(
    reduction: Reduction,
    solver: Any,
    tol: float,
    random_state: Any = None,
    way: Callable[[Problem, Any, float, Any], Certificate] = solve_problem,
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
    with threads_of(None), np.errstate(all="ignore"):
        problem, axes = _without_idle_features(reduction.problem)
        found = way(problem, solver, tol, random_state)
        if axes is not None and found.proof is not None:
            found = certify(
                reduction.problem,
                axes @ Projector(found.components).basis,
                found.proof.turned(axes),
                tol=found.tol,
                n_eigenproblems=found.n_eigenproblems,
                trace=found.trace,
                solver=found.solver,
            )
    columns, proof = found.components.T, found.proof
    if reduction.axes is not None:
        columns = with_positive_signs(reduction.lift(columns))
        proof = None if proof is None else proof.turned(reduction.axes)
    if reduction.encoding is not None:
        columns = reduction.encoding.settled(columns)
    found = replace(found, components=np.ascontiguousarray(columns.T), proof=proof)
    return in_all_directions(reduction, found)


def _without_idle_features(problem: Problem) -> tuple[Problem, FloatArray | None]:
    """Return a problem without any variance in as many features as components, and these axes.

    All subspaces are equally good there, and in many features the eigenproblems of zeros would take
    as long as any others. Other problems are returned as they are, without axes.
    """
    p, d = problem.n_features, problem.n_components
    if not problem.has_matrices or d == p or problem.limit is not None:
        return problem, None
    second = problem.dense
    if not is_zero(second.matrices[0]) or second.traces.any():
        return problem, None
    axes = np.eye(p, d)
    small = problem.along(
        axes,
        second_moments=DenseSecondMoments(np.zeros((problem.n_groups, d, d))),
        axes=None if problem.axes is None else problem.axes @ axes,
    )
    return small, axes


def in_all_directions(reduction: Reduction, found: Certificate) -> Certificate:
    """With errors and losses in all directions, and what all lose beside those of a restriction."""
    whole = reduction.problem.whole
    # Nested components are beside others, in fewer coordinates; what they lose is told of all.
    if whole.n_features == found.components.shape[1]:
        if whole is not reduction.problem:
            projector = reduction.projector(found.components)
            found = replace(found, errors=errors_under(projector, whole.second_moments))
            if reduction.encoding is not None and found.status is Status.OPTIMAL:
                _check_encoder(reduction, found)
        found = replace(found, losses=np.maximum(found.errors - whole.best_errors, 0.0))
    return found.plus(reduction.problem.offset)


def _check_encoder(reduction: Reduction, found: Certificate) -> None:
    """Make sure that the encoder, whose entries may be large, loses no more than its components.

    Raises
    ------
    Incompatible
    """
    objective = found.objective + reduction.problem.offset
    more = float(reduction.problem.proportions @ found.errors) - objective
    if more > _MOST_ADDED * (found.tolerance + found.resolution):
        share = more / objective if objective > 0 else np.inf
        raise encoder_not_resolved(f"rounding of the encoder adds {share:.0e} of the error")


def solve_at(
    family: ProblemFamily, solver: Solver, n_components: int, tol: float, random_state: Any = None
) -> tuple[Reduction, Certificate]:
    """Solve for a dimension.

    Raises
    ------
    Incompatible
        The solver cannot take the problem, or finds that no subspace is allowed.
    """
    reduction = family.at(n_components)
    able = able_solver(family, reduction, solver)
    return reduction, solve(reduction, able, tol, random_state)


def solve_for_share(
    family: ProblemFamily, solver: Solver, share: float, tol: float, random_state: Any = None
) -> tuple[Reduction, Certificate]:
    """Solve for the smallest dimension that keeps this share of every group's variance.

    The share that a criterion leaves to a group need not grow with the dimension, so every
    dimension is tried, from the first at which each group's own best subspace would do.

    Raises
    ------
    Incompatible
        No dimension keeps it, or the solver cannot take the problem.
    """
    last = family.most_components
    tried: list[Certificate] = []
    obstacle: Incompatible | None = None
    for d in range(min(_least_components(family.any_dimension, share), last), last + 1):
        try:
            reduction, found = solve_at(family, solver, d, tol, random_state)
        except Incompatible as error:  # such as equal errors that are out of reach for this d
            obstacle = error
            continue
        if keeps(family, found, share):
            return reduction, found
        tried.append(found)
    if not tried and obstacle is not None:
        raise obstacle
    raise not_kept(family, share, tried)


def keeps(family: ProblemFamily, found: Certificate, share: float) -> bool:
    """Whether every group keeps this share of its variance."""
    return _least_kept(family, found) >= share - _ROUNDING


def not_kept(family: ProblemFamily, share: float, tried: Sequence[Certificate]) -> Incompatible:
    """What to raise where none of the dimensions that were tried keeps a share."""
    best = max(_least_kept(family, each) for each in tried)
    return Incompatible(
        f"n_components is {share!r}, a share of every group's variance, with the criterion "
        f"{family.any_dimension.criterion.name!r} and restriction {family.restriction!r}",
        f"Allowed: at most {np.floor(best * 1e6) / 1e6:g}, which the group with the least share "
        f"keeps with up to {family.most_components} components",
        "Choose a smaller share, another criterion, or a looser restriction",
    )


def _least_components(problem: Problem, share: float) -> int:
    """The first d with t_d(S_g) >= share tr S_g for every group."""
    p, traces = problem.n_features, problem.second_moments.traces
    needed = 1
    for group in np.flatnonzero(_varying(traces)):
        # Solving for each dimension asks for the same decompositions.
        kept = np.cumsum(problem.dense.solved.spectrum(np.eye(len(traces))[group]).values)
        reached = np.flatnonzero(kept >= (share - _ROUNDING) * traces[group])
        needed = max(needed, int(reached[0]) + 1 if len(reached) else p)
    return needed


def _least_kept(family: ProblemFamily, found: Certificate) -> float:
    """1 - e_g / tr S_g of the group for which it is least; a group without variance keeps all."""
    traces = family.any_dimension.second_moments.traces
    varies = _varying(traces)
    return 1.0 - float((found.errors[varies] / traces[varies]).max(initial=0.0))


def _varying(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Which groups have variance."""
    return np.asarray(traces > _NO_VARIANCE * traces.max())


# Two groups have no other component that is as good but with the same variances.
_FEW_GROUPS = 2


def solve_nested(
    family: ProblemFamily, solver: Solver, n_components: int | float, tol: float, state: Any = None
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
    prefixes = _prefixes(family, solver, tol, state)
    if isinstance(n_components, float):
        share, found = n_components, list[Certificate]()
        for each in islice(prefixes, family.most_components):
            found.append(each)
            if keeps(family, each, share):
                break
        else:
            raise not_kept(family, share, found)
    else:
        able_solver(family, family.at(n_components), solver)
        found = list(islice(prefixes, n_components))
    *before, last = found
    return family.at(len(found)), replace(
        last, prefixes=tuple(replace(each, steps=()) for each in before)
    )


def _prefixes(
    family: ProblemFamily, solver: Solver, tol: float, state: Any
) -> Iterator[Certificate]:
    """The first d components for d = 1, 2, .., of which each takes one more step."""
    single = family.at(1)
    components = np.empty((0, family.any_dimension.n_features))
    steps: list[Certificate] = []
    n_eigenproblems = 0
    for d in count(1):
        left = left_beside(single, components.T)
        check_accepted(solver, left.problem)
        step = solve(left, solver, tol, state, _one_more)
        components = np.vstack([components, step.components])
        n_eigenproblems += step.n_eigenproblems
        together = step
        if d > 1:
            together = _together(family.at(d), components, step)
            n_eigenproblems += 1
        # What groups lose is told of all components so far.
        of_rows = {name: getattr(together, name) for name in ("errors", "losses", "total_variance")}
        steps.append(replace(step, **of_rows))
        point = TracePoint(n_eigenproblems, together.lower_bound, together.objective)
        yield replace(
            together,
            n_eigenproblems=n_eigenproblems,
            trace=(point,),
            steps=tuple(steps),
        )


def _together(reduction: Reduction, components: FloatArray, step: Certificate) -> Certificate:
    """Components as an answer of as many dimensions, with the bound that a step's weights prove.

    Weights of the groups prove a bound for any number of dimensions; those of the last step are
    seldom the best ones.
    """
    basis = components.T if reduction.axes is None else reduction.axes.T @ components.T
    # Without matrices no eigenvalue sum is proven.
    lower_bound = None if reduction.problem.has_matrices else -np.inf
    found = evaluate(
        reduction.problem, basis, Proof(step.weights), tol=step.tol, lower_bound=lower_bound
    )
    found = replace(found, components=components, solver=step.solver, eigen=step.eigen)
    return in_all_directions(reduction, found)


def _one_more(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """One component: of several as good, the one of most pooled variance.

    They are among the tied eigenvectors of the mixture that proves the bound.
    """
    found = solve_problem(problem, solver, tol, random_state)
    if problem.n_groups <= _FEW_GROUPS or found.eigen != "dense" or not found.proof:
        return found
    tied = problem.second_moments.leading(found.weights, 1).tied
    if not tied.shape[1]:
        return found
    compressed = problem.second_moments.compressed(tied)
    most = tied @ np.linalg.eigh(np.tensordot(problem.proportions, compressed, axes=1))[1][:, -1:]
    if problem.value(most) > found.objective + found.tolerance:
        return found
    return certify(
        problem,
        most,
        found.proof,
        tol=tol,
        n_eigenproblems=found.n_eigenproblems,
        trace=found.trace,
        solver=found.solver,
    )
