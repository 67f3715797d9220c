"""A solver: try evenly spaced weights of two groups."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan import Certificate
from fairspan.errors import InvalidParameter
from fairspan.extending import Problem, TracePoint, certify


@dataclass(frozen=True)
class WeightGrid:
    """One eigenproblem for each of `n_weights` mixtures of the two pieces of a criterion."""

    n_weights: int = 201
    name: ClassVar[str] = "weight_grid"

    def __post_init__(self) -> None:
        if not isinstance(self.n_weights, int) or self.n_weights < 2:
            raise InvalidParameter(
                f"n_weights is {self.n_weights!r}",
                "Allowed: a whole number of at least 2",
                "Use the default, 201",
            )

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Return why the solver does not support this problem; None if it does."""
        if problem.pieces is None or len(problem.pieces.offsets) != 2:
            return "it takes criteria of two linear pieces only"
        return None

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Keep the best subspace and the best weights; `certify` computes objective and bound."""
        trace: list[TracePoint] = []

        def certificate_of(basis: np.ndarray, weights: np.ndarray) -> Certificate:
            return certify(
                problem,
                basis,
                weights,
                tol=tol,
                n_eigenproblems=len(trace),
                trace=trace,
                solver=self.name,
            )

        upper = np.inf
        lower = -np.inf
        for share in np.linspace(0, 1, self.n_weights):
            weights = np.array([share, 1 - share]) @ problem.pieces.coefficients
            basis = problem.second_moments.leading(weights, problem.n_components).vectors
            candidate = certificate_of(basis, weights)
            if candidate.objective < upper:
                upper = candidate.objective
                best_basis = basis
            if candidate.lower_bound > lower:
                lower = candidate.lower_bound
                best_weights = weights
            trace.append(TracePoint(len(trace) + 1, lower, upper))
        return certificate_of(best_basis, best_weights)
