"""Scores, projections and retractions of the Riemannian subgradient method."""

import numpy as np
import pytest

from fairspan import (
    RobustErrorGap,
)
from fairspan.solvers.published.riemannian import RETRACTIONS, _PaperScores, horizontal_projection
from problems import (
    build_problem,
    random_basis,
)


def test_iterates_are_evaluated_by_the_supremum_where_equation_6_falls_short():
    matrices = [np.diag([2.0, 1.0, 0.01]), np.diag([0.1, 0.1, 0.05])]
    criterion = RobustErrorGap(3.0, {"group 0": 0.1, "group 1": 0.5})
    problem = build_problem(matrices, 1, criterion, [0.5, 0.5])
    scores = _PaperScores(problem)
    errors = np.array([[2.0, 0.05], [0.3, 0.05], [0.01, 3.0], [1.0, 1.0]])
    values, active = scores.values_and_active_pairs(errors.T)
    assert values == pytest.approx(
        [criterion.value(group_errors, problem) for group_errors in errors], rel=1e-12
    )
    by_equation = (
        scores.linear @ errors.T + scores.root_coefficients @ np.sqrt(errors.T) + scores.constant
    )
    assert values[0] > by_equation.max(axis=0)[0] + 0.1
    np.testing.assert_array_equal(active, by_equation.argmax(axis=0))


each_retraction = pytest.mark.parametrize("name", list(RETRACTIONS))
each_shape = pytest.mark.parametrize(("p", "d"), [(2, 1), (7, 3), (5, 5), (30, 12)])


def tangent(rng, basis, horizontal_only=False):
    """X with V'X antisymmetric, V'X = 0 if it is to turn the subspace only."""
    step = horizontal_projection(basis, rng.standard_normal(basis.shape))
    if horizontal_only:
        return step
    turn = rng.standard_normal((basis.shape[1],) * 2)
    return step + basis @ (turn - turn.T)


@each_shape
@each_retraction
def test_columns_are_orthonormal_even_after_a_long_step(name, p, d):
    rng = np.random.default_rng(p)
    basis = random_basis(rng, p, d)
    for length in (1e-8, 1.0, 1e8):
        moved_basis = RETRACTIONS[name](basis, length * tangent(rng, basis, horizontal_only=True))
        np.testing.assert_allclose(moved_basis.T @ moved_basis, np.eye(d), atol=1e-12)
