"""A solver: try evenly spaced weights of two groups."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.problem.parameters import check_count
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.dual import Dual


@dataclass(frozen=True)
class WeightGrid:
    """One eigenproblem for each of `n_weights` mixtures of the two pieces of a criterion."""

    n_weights: int = 201
    name: ClassVar[str] = "weight_grid"

    def __post_init__(self) -> None:
        check_count("n_weights", self.n_weights)

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        pieces = problem.pieces
        if pieces is None or len(pieces.offsets) != 2:
            return "it takes criteria of two linear pieces only"
        return None

    def solve(self, problem: Problem, tolerance: float, random_state: Any = None) -> Solution:
        """Keep the best subspace and the best weights; what they prove is not for it to say."""
        assert problem.pieces is not None
        dual = Dual(problem, problem.pieces)
        upper, lower, trace = np.inf, -np.inf, []
        for share in np.linspace(0, 1, self.n_weights):
            point = dual.at(np.array([share, 1 - share]))
            value = problem.value(point.atom.basis)
            if value < upper:
                upper, basis = value, point.atom.basis
            if point.bound > lower:
                lower, weights = point.bound, point.multipliers @ problem.pieces.coefficients
            trace.append(TracePoint(dual.n_eigenproblems, lower, upper))
        return certified(
            problem,
            basis,
            weights,
            tolerance=tolerance,
            n_eigenproblems=dual.n_eigenproblems,
            trace=trace,
            solver=self.name,
        )
