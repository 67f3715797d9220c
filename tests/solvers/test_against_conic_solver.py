"""Against Clarabel on 0 <= P <= I, tr P = d, which two groups attain with a projector."""

import cvxpy
import numpy as np
import pytest

from problems import MINIMAX, divisors_of, problem_of, random_moments, references_of, solve
from sweeps import part_of


class Relaxation:
    """Built once for each p, since building takes longer than solving."""

    def __init__(self, p):
        self.P = cvxpy.Variable((p, p), symmetric=True)
        self.matrices = [cvxpy.Parameter((p, p), symmetric=True) for _ in range(2)]
        self.references = cvxpy.Parameter(2)
        self.d = cvxpy.Parameter()
        values = [
            self.references[g] - cvxpy.sum(cvxpy.multiply(self.matrices[g], self.P))
            for g in range(2)
        ]
        constraints = [self.P >> 0, np.eye(p) - self.P >> 0, cvxpy.trace(self.P) == self.d]
        self.problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.maximum(*values)), constraints)

    def optimum(self, matrices, d, criterion):
        divisors = divisors_of(matrices, criterion)
        for parameter, matrix, divisor in zip(self.matrices, matrices, divisors, strict=True):
            parameter.value = matrix / divisor
        self.references.value = references_of(matrices, d, criterion) / divisors
        self.d.value = d
        self.problem.solve(cvxpy.CLARABEL)
        return self.problem.value


@pytest.mark.sweep
@pytest.mark.parametrize("seed", part_of(range(20), 4))
def test_objective_equals_the_relaxation_at_every_dimension(seed):
    rng = np.random.default_rng(seed)
    p = 2 + seed % 11
    matrices = random_moments(rng, 2, p)
    matrices /= np.trace(matrices.sum(axis=0))
    relaxation = Relaxation(p)
    for d in range(1, p):  # at d = p only P = I is feasible, so that nothing is left to solve
        for criterion in MINIMAX:
            solution = solve(problem_of(matrices, d, criterion))
            expected = relaxation.optimum(matrices, d, criterion)
            assert solution.objective == pytest.approx(expected, abs=1e-6)
            assert solution.status == "optimal"
