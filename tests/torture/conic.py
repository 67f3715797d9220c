"""The relaxed problem 0 <= P <= I, tr P = d by conic solvers, which share no code with fairspan."""

import warnings
from functools import cache
from typing import Any

import cvxpy
import numpy as np

from torture.cases import FloatArray

# Distance of each solver's result from the optimum, as a share of the groups' total variance.
ACCURACY = {"Clarabel": 1e-7, "SCS": 1e-6}
_SETTINGS: dict[str, dict[str, Any]] = {
    "Clarabel": {
        "solver": cvxpy.CLARABEL,
        "tol_gap_abs": 1e-9,
        "tol_gap_rel": 1e-9,
        "tol_feas": 1e-9,
    },
    "SCS": {"solver": cvxpy.SCS, "eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 50_000},
}


class Relaxation:
    """The relaxed problem of a criterion, built once for each number of groups and features."""

    def __init__(self, name: str, k: int, p: int) -> None:
        self.P = cvxpy.Variable((p, p), symmetric=True)
        self.matrices = [cvxpy.Parameter((p, p), symmetric=True) for _ in range(k)]
        self.best = cvxpy.Parameter(k)
        self.q = cvxpy.Parameter(k, nonneg=True)
        self.pooled = cvxpy.Parameter((p, p), symmetric=True)
        self.penalty = cvxpy.Parameter(nonneg=True)
        self.d = cvxpy.Parameter()
        residual = np.eye(p) - self.P
        errors = [cvxpy.sum(cvxpy.multiply(matrix, residual)) for matrix in self.matrices]
        total = cvxpy.sum(cvxpy.multiply(self.pooled, residual))
        constraints = [self.P >> 0, residual >> 0, cvxpy.trace(self.P) == self.d]
        if name == "minimax_loss":
            value = cvxpy.maximum(*[e - self.best[g] for g, e in enumerate(errors)])
        elif name == "minimax_error":
            value = cvxpy.maximum(*errors)
        elif name == "error_gap":
            upper, lower = cvxpy.Variable(), cvxpy.Variable()
            for error in errors:
                constraints += [error <= upper, error >= lower]
            value = total + self.penalty * (upper - lower)
        else:
            value = total
        if name == "equal_error":
            # The penalty is the tolerance here, as this criterion has no penalty.
            constraints += [cvxpy.abs(error - errors[0]) <= self.penalty for error in errors[1:]]
        self.problem = cvxpy.Problem(cvxpy.Minimize(value), constraints)

    def optimum(
        self, solver: str, matrices: FloatArray, q: FloatArray, d: int, penalty: float
    ) -> float | None:
        """Return the least value, infinity if infeasible, or None if the solver is inaccurate."""
        best = [np.linalg.eigvalsh(matrix)[: matrix.shape[0] - d].sum() for matrix in matrices]
        for parameter, matrix in zip(self.matrices, matrices, strict=True):
            parameter.value = matrix
        self.pooled.value = np.tensordot(q, matrices, axes=1)
        self.best.value = np.array(best)
        self.penalty.value = penalty
        self.d.value = d
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            try:
                self.problem.solve(**_SETTINGS[solver])
            except cvxpy.SolverError:
                return None
        if self.problem.status == cvxpy.INFEASIBLE:
            return float(np.inf)
        return float(self.problem.value) if self.problem.status == cvxpy.OPTIMAL else None


@cache
def solve_relaxation(name: str, k: int, p: int) -> Relaxation:
    return Relaxation(name, k, p)
