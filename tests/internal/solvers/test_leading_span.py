"""Descents within the leading eigenvectors of a mixture, for many features."""

import numpy as np
import pytest

from fairspan import DualNewton, LeastVariance, MinimaxError, MinimaxLoss
from fairspan.solvers.local_descent import descend
from fairspan.solvers.many_groups.leading_span import LeadingSpan
from problems import basis_errors, build_problem, random_basis, random_moments


def rotated_moments(n_groups, n_features):
    """Moments of groups whose variances decay along axes that differ from group to group."""
    rng = np.random.default_rng(16)
    variances = np.arange(1, n_features + 1) ** -1.2
    matrices = []
    for _ in range(n_groups):
        axes = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
        matrices.append((axes * variances) @ axes.T)
    return np.array(matrices)


@pytest.mark.parametrize("criterion", [MinimaxLoss(), MinimaxError(), LeastVariance()])
def test_errors_and_value_within_the_span_are_those_of_all_features(criterion):
    matrices = random_moments(np.random.default_rng(0), 3, 90)
    problem = build_problem(matrices, 1, criterion)
    eigenvectors = np.linalg.eigh(matrices.mean(axis=0))[1][:, ::-1]
    span = LeadingSpan.from_eigenvectors(problem, eigenvectors)
    coordinates = random_basis(np.random.default_rng(1), span.problem.n_features, 1)
    lifted = span.axes @ coordinates
    np.testing.assert_allclose(
        span.problem.errors(coordinates), basis_errors(matrices, lifted), rtol=1e-12
    )
    assert span.problem.objective(coordinates) == pytest.approx(problem.objective(lifted))
    np.testing.assert_allclose(lifted, eigenvectors[:, : span.axes.shape[1]] @ coordinates)


def test_a_span_needs_many_features_for_each_component():
    matrices = random_moments(np.random.default_rng(0), 3, 100)
    assert LeadingSpan.pays_off(build_problem(matrices, 2, MinimaxError()))
    assert not LeadingSpan.pays_off(build_problem(matrices, 3, MinimaxError()))


def test_an_open_gap_is_left_at_a_local_minimum_in_all_features():
    problem = build_problem(rotated_moments(6, 90), 1, MinimaxLoss())
    solution = DualNewton().solve(problem, tol=1e-9)
    assert solution.status == "open gap"
    local_minimum, _ = descend(problem, solution.components.T)
    assert solution.objective == pytest.approx(local_minimum.value, rel=1e-9)


@pytest.mark.slow
def test_no_descent_in_all_features_improves_on_an_open_gap():
    problem = build_problem(rotated_moments(6, 90), 1, MinimaxLoss())
    solution = DualNewton().solve(problem, tol=1e-9)
    assert solution.status == "open gap"
    rng = np.random.default_rng(2)
    for _ in range(4):
        local_minimum, _ = descend(problem, random_basis(rng, 90, 1))
        assert solution.objective <= local_minimum.value * (1 + 1e-9)
