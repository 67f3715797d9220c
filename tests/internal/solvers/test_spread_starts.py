"""Starts of descents that lie apart from each other."""

import numpy as np

from fairspan import MinimaxError
from fairspan.solvers.many_groups.starts import spread_starts
from problems import basis_errors, build_problem, random_moments


def test_spread_starts_lie_apart_and_the_best_one_comes_first():
    matrices = random_moments(np.random.default_rng(0), 3, 6)
    problem = build_problem(matrices, 2, MinimaxError())
    starts = spread_starts(problem, lambda errors: errors.max(axis=1))
    assert len(starts) == 8
    for i, basis in enumerate(starts):
        np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
        for other in starts[:i]:
            assert 2 - np.sum((basis.T @ other) ** 2) > 0.1
    values = [basis_errors(matrices, basis).max() for basis in starts]
    assert values == sorted(values)
