"""The relaxed problem 0 <= P <= I, tr P = d by conic solvers, which share no code with fairspan."""

import warnings
from functools import cache
from typing import Any

import cvxpy
import numpy as np

from torture.cases import FloatArray

# How near each comes to the optimum, as a share of the groups' total variance.
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
    """Of a criterion, built once for each number of groups and features."""

    def __init__(self, name: str, k: int, p: int) -> None:
        self.P = cvxpy.Variable((p, p), symmetric=True)
        self.matrices = [cvxpy.Parameter((p, p), symmetric=True) for _ in range(k)]
        self.best, self.q = cvxpy.Parameter(k), cvxpy.Parameter(k, nonneg=True)
        self.weighed = cvxpy.Parameter((p, p), symmetric=True)
        self.penalty, self.d = cvxpy.Parameter(nonneg=True), cvxpy.Parameter()
        left = np.eye(p) - self.P
        errors = [cvxpy.sum(cvxpy.multiply(matrix, left)) for matrix in self.matrices]
        total = cvxpy.sum(cvxpy.multiply(self.weighed, left))
        constraints = [self.P >> 0, left >> 0, cvxpy.trace(self.P) == self.d]
        if name == "minimax_loss":
            value = cvxpy.maximum(*[e - self.best[g] for g, e in enumerate(errors)])
        elif name == "minimax_error":
            value = cvxpy.maximum(*errors)
        elif name == "error_gap":
            most, least = cvxpy.Variable(), cvxpy.Variable()
            constraints += [side for e in errors for side in (e <= most, e >= least)]
            value = total + self.penalty * (most - least)
        else:
            value = total
        if name == "equal_error":
            # The tolerance takes the place of the penalty, which this criterion has not.
            constraints += [cvxpy.abs(each - errors[0]) <= self.penalty for each in errors[1:]]
        self.problem = cvxpy.Problem(cvxpy.Minimize(value), constraints)

    def optimum(
        self, solver: str, matrices: FloatArray, q: FloatArray, d: int, penalty: float
    ) -> float | None:
        """The least value; infinite where there is none; None where the solver is not sure."""
        best = [np.linalg.eigvalsh(matrix)[: matrix.shape[0] - d].sum() for matrix in matrices]
        for parameter, matrix in zip(self.matrices, matrices, strict=True):
            parameter.value = matrix
        self.weighed.value = np.tensordot(q, matrices, axes=1)
        self.best.value, self.penalty.value, self.d.value = np.array(best), penalty, d
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
