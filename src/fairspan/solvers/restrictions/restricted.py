"""Solving a posed problem: the solver is checked, and restrictions are mapped back.

Directions that a restriction leaves are coordinates: the problem is solved in them, and the answer
mapped back. Errors stay those of the whole rows, and excess losses are still measured against the
best subspace of all.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.certificates.solution import Solution
from fairspan.linalg import with_positive_signs
from fairspan.linalg.threads import threads_of
from fairspan.problem.posing import Posed, Restricted
from fairspan.problem.problem import Problem
from fairspan.soft_projection import is_soft, retained
from fairspan.solvers.choose import check_accepted
from fairspan.solvers.protocol import Solver
from fairspan.solvers.restrictions.parity import tolerant_solver
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Solved:
    """A problem without its restriction, and the solution within it.

    Attributes
    ----------
    problem : Problem
    solution : Solution
        Its components have the p features of the problem.
    """

    problem: Problem
    solution: Solution

    @property
    def basis(self) -> FloatArray:
        """B with captured variances tr(B'S_gB), shape (p, r)."""
        components = self.solution.components
        return retained(components) if is_soft(components) else components.T


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
        directions = restricted.directions
        if directions is not None:
            columns = with_positive_signs(directions @ solution.components.T)
            solution = replace(
                solution,
                components=np.ascontiguousarray(columns.T),
                proof=None if solution.proof is None else solution.proof.lifted(directions),
                objective=solution.objective + restricted.shift,
                lower_bound=solution.lower_bound + restricted.shift,
                trace=tuple(step.rescaled(1.0, restricted.shift) for step in solution.trace),
            )
        return Solved(restricted.full, solution)
