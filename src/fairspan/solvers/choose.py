"""Solving a posed problem with a solver that takes it, at a dimension or the smallest that will do.

Directions that a restriction leaves are coordinates: the problem is solved in them, and the answer
mapped back. Errors stay those of the whole rows, and excess losses are still measured against the
best subspace of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from fairspan.certificates.solution import Solution, Solver
from fairspan.errors import Incompatible
from fairspan.linalg import with_positive_signs
from fairspan.linalg.machine import threads_of
from fairspan.moments.operators import errors_under
from fairspan.problem.posing import Posed, Restricted
from fairspan.problem.problem import Problem
from fairspan.projector import Projector
from fairspan.registry import names_of, object_of
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class Auto(Solver):
    """The first solver that is exact for the problem.

    For one and two groups the boundary search, and so for linear criteria of any number; otherwise
    Newton's method on the dual.
    """

    name: ClassVar[str] = "auto"

    def objection(self, problem: Problem) -> str | None:
        """Why neither can take this problem; None if one can."""
        return solver_of("boundary").objection(problem) and solver_of("dual_newton").objection(
            problem
        )

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Solve by the boundary search if it can, else by Newton's method on the dual."""
        exact = solver_of("boundary")
        able = exact if exact.objection(problem) is None else solver_of("dual_newton")
        return able.solve(problem, tol, random_state)


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
    criterion = problem.criterion
    if not criterion.proves_itself and problem.pieces is None:
        raise Incompatible(
            f"The criterion {criterion.name!r} has neither pieces nor a formula of its own that "
            "proves a lower bound",
            "Allowed: criteria of which a bound can be proven, such as sums of maxima of "
            "affine functions of the errors",
            "Return Pieces from its method pieces",
        )
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


@dataclass(frozen=True, eq=False)
class Solved:
    """A problem without its restriction, and the solution within it.

    Attributes
    ----------
    problem : Problem
    solution : Solution
        Its components have the p features of the problem.
    encoder : (d, p) array or None
        Of an oblique projection, which brings rows back by the components of the solution.
    """

    problem: Problem
    solution: Solution
    encoder: FloatArray | None = None

    @property
    def projector(self) -> Projector:
        """What it makes of the rows."""
        columns = self.solution.components
        return Projector(columns) if self.encoder is None else Projector(self.encoder, columns.T)


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be solved, at a dimension yet to be given.

    Attributes
    ----------
    posed : Posed
    solver : Solver
    tol : float
        Largest gap to call optimal, as a share of the objective.
    random_state : int, Generator, RandomState or None
    """

    posed: Posed
    solver: Solver
    tol: float
    random_state: Any = None

    @property
    def problem(self) -> Problem:
        """Without the restriction, at any dimension."""
        return self.posed.problem

    def at(self, n_components: int) -> Solved:
        """Solve for a dimension.

        Raises
        ------
        Incompatible
            The solver, or the restriction, cannot take it.
        """
        return self.solved(*self.checked(n_components))

    def checked(self, n_components: int) -> tuple[Restricted, Any]:
        """The problem at a dimension and the solver that accepts it, before anything is solved.

        Raises
        ------
        Incompatible
            The solver, or the restriction, cannot take it.
        """
        restricted = self.posed.at(n_components)
        if restricted.problem.limit is not None:
            # Imported where it is needed: it brings half of the solvers with it.
            from fairspan.solvers.parity.within_limits import tolerant_solver

            return restricted, tolerant_solver(
                restricted.problem, self.posed.restriction, self.solver
            )
        check_accepted(self.solver, restricted.problem)
        return restricted, self.solver

    def solved(self, restricted: Restricted, solver: Any) -> Solved:
        """Solve what was checked, and map the answer back to all features."""
        # Only the largest steps should use threads; they say so themselves.
        # What overflows on the way, beside a column of large numbers, is looked at in the end.
        with threads_of(None), np.errstate(all="ignore"):
            solution = solver.solve(restricted.problem, self.tol, self.random_state)
        directions, encoding = restricted.directions, restricted.encoding
        if directions is not None:
            columns = with_positive_signs(directions @ solution.components.T)
            solution = replace(
                solution,
                components=np.ascontiguousarray(columns.T),
                proof=None if solution.proof is None else solution.proof.lifted(directions),
            )
        if restricted.shift:
            solution = replace(
                solution,
                objective=solution.objective + restricted.shift,
                lower_bound=solution.lower_bound + restricted.shift,
                trace=tuple(step.shifted(restricted.shift) for step in solution.trace),
            )
        if encoding is None:
            return Solved(restricted.full, solution)
        decoder = encoding.settled(solution.components.T)
        solution = replace(solution, components=np.ascontiguousarray(decoder.T))
        return Solved(restricted.full, solution, encoding.encoder(decoder))


# A share that is met up to rounding is met.
_ROUNDING = 1e-12
# A group with less than this share of another's variance has none: its rows differ by rounding.
_NO_VARIANCE = 1e-20


def smallest_keeping(task: Task, share: float) -> Solved:
    """Solve for the smallest dimension that keeps this share of every group's variance.

    The share that a criterion leaves to a group need not grow with the dimension, so every
    dimension is tried, from the first at which each group's own best subspace would do.

    Raises
    ------
    Incompatible
        No dimension keeps it, or the solver cannot take the problem.
    """
    last = task.posed.most_components
    tried: list[Solved] = []
    obstacle: Incompatible | None = None
    for d in range(min(_least_components(task, share), last), last + 1):
        ready = task.checked(d)
        try:
            solved = task.solved(*ready)
        except Incompatible as error:  # such as equal errors that are out of reach for this d
            obstacle = error
            continue
        if keeps(solved, share):
            return solved
        tried.append(solved)
    if not tried and obstacle is not None:
        raise obstacle
    raise not_kept(task, share, tried)


def keeps(solved: Solved, share: float) -> bool:
    """Whether every group keeps this share of its variance."""
    return _least_kept(solved) >= share - _ROUNDING


def not_kept(task: Task, share: float, tried: Sequence[Solved]) -> Incompatible:
    """What to raise where none of the dimensions that were tried keeps a share."""
    best, last = max(map(_least_kept, tried)), task.posed.most_components
    return Incompatible(
        f"n_components is {share!r}, a share of every group's variance, with the criterion "
        f"{task.problem.criterion.name!r} and restriction {task.posed.restriction!r}",
        f"Allowed: at most {np.floor(best * 1e6) / 1e6:g}, which the group with the least share "
        f"keeps with up to {last} components",
        "Choose a smaller share, another criterion, or a looser restriction",
    )


def _least_components(task: Task, share: float) -> int:
    """The first d with t_d(S_g) >= share tr S_g for every group."""
    p, traces = task.problem.n_features, task.problem.second_moments.traces
    needed = 1
    for group in np.flatnonzero(_varying(traces)):
        # Solving for each dimension asks for the same decompositions.
        kept = np.cumsum(task.problem.dense.solved.spectrum(np.eye(len(traces))[group]).values)
        reached = np.flatnonzero(kept >= (share - _ROUNDING) * traces[group])
        needed = max(needed, int(reached[0]) + 1 if len(reached) else p)
    return needed


def _least_kept(solved: Solved) -> float:
    """1 - e_g / tr S_g of the group for which it is least; a group without variance keeps all."""
    traces = solved.problem.second_moments.traces
    varies = _varying(traces)
    errors = errors_under(solved.projector, solved.problem.second_moments)
    return 1.0 - float((errors[varies] / traces[varies]).max(initial=0.0))


def _varying(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Which groups have variance."""
    return np.asarray(traces > _NO_VARIANCE * traces.max())
