"""Nested components: one step after the other.

A step is the problem of one component in the complement of those before it
(:mod:`fairspan.problem.nesting`), solved and proven as any other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from fairspan.certificates.optimality import certified
from fairspan.certificates.proof import Proof
from fairspan.certificates.solution import Solution, Solver, TracePoint
from fairspan.linalg import eigh
from fairspan.problem.nesting import left_beside
from fairspan.problem.posing import Restricted
from fairspan.problem.problem import Problem
from fairspan.solvers.choose import Solved, Task, check_accepted, keeps, not_kept
from fairspan.typing import FloatArray

# Two groups have no other component that is as good but with the same variances.
_FEW_GROUPS = 2


def solve_nested(task: Task, n_components: int) -> list[Solved]:
    """The first 1, 2, .. n_components components, each with its certificates.

    Raises
    ------
    Incompatible
        The solver, or the restriction, cannot take the problem.
    """
    task.checked(n_components)
    return list(islice(_prefixes(task), n_components))


def nested_keeping(task: Task, share: float) -> list[Solved]:
    """The same, up to the first that keep this share of every group's variance.

    Raises
    ------
    Incompatible
        No number of components keeps it.
    """
    found: list[Solved] = []
    for solved in islice(_prefixes(task), task.posed.most_components):
        found.append(solved)
        if keeps(solved, share):
            return found
    raise not_kept(task, share, found)


def _prefixes(task: Task) -> Iterator[Solved]:
    """The first d components for d = 1, 2, .., of which each takes one more step."""
    single, one_more = task.posed.at(1), _StepSolver(task.solver)
    components = np.empty((0, task.problem.n_features))
    steps: list[Solution] = []
    n_eigenproblems = 0
    while True:
        left = left_beside(single, components.T)
        check_accepted(task.solver, left.problem)
        step = task.solved(left, one_more).solution
        steps.append(step)
        components = np.vstack([components, step.components])
        n_eigenproblems += step.n_eigenproblems
        restricted, together = single, step
        if len(steps) > 1:
            restricted = task.posed.at(len(steps))
            together = _together(restricted, components, step, task.tol)
            n_eigenproblems += 1
        solution = replace(
            together,
            n_eigenproblems=n_eigenproblems,
            trace=(TracePoint(n_eigenproblems, together.lower_bound, together.objective),),
            steps=tuple(steps),
        )
        yield Solved(restricted.full, solution)


def _together(
    restricted: Restricted, components: FloatArray, step: Solution, tol: float
) -> Solution:
    """Components as an answer of as many dimensions, with the bound that a step's weights prove.

    Weights of the groups prove a bound for any number of dimensions; those of the last step are
    seldom the best ones.
    """
    problem, basis, shift = restricted.problem, components.T, restricted.shift
    if restricted.directions is not None:
        basis = restricted.directions.T @ basis
    found = certified(
        problem,
        basis,
        Proof(step.weights),
        tol=tol,
        n_eigenproblems=0,
        trace=(),
        solver=step.solver,
        # Without matrices no eigenvalue sum is proven.
        lower_bound=None if problem.has_matrices else -np.inf,
    )
    return replace(
        found,
        components=components,
        objective=found.objective + shift,
        lower_bound=found.lower_bound + shift,
        eigen=step.eigen,
    )


@dataclass(frozen=True, eq=False)
class _StepSolver:
    """A solver of one component that, of several as good, takes the one of most pooled variance.

    Attributes
    ----------
    solver : Solver
    """

    solver: Solver

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """Solve, and look at the tied eigenvectors of the mixture that proves the bound."""
        solution = self.solver.solve(problem, tol, random_state)
        if problem.n_groups <= _FEW_GROUPS or solution.eigen != "dense" or not solution.proof:
            return solution
        tied = problem.second_moments.leading(solution.weights, 1).tied
        if not tied.shape[1]:
            return solution
        compressed = problem.second_moments.compressed(tied)
        most = tied @ eigh(np.tensordot(problem.proportions, compressed, axes=1))[1][:, -1:]
        if problem.value(most) > solution.objective + solution.tolerance:
            return solution
        return certified(
            problem,
            most,
            solution.proof,
            tol=tol,
            n_eigenproblems=solution.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
        )
