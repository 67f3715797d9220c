"""Where rounding leaves nothing of what a solver looks at: no exception, and a true certificate."""

import numpy as np
import pytest

from fairspan import DualNewton, ErrorGap, FairPCA, RobustErrorGap
from fairspan.solvers.two_groups.branch_and_bound import clipped_to_positive
from problems import problem_of


def test_a_polygon_that_rounding_has_made_negative_is_moved_to_the_origin():
    assert clipped_to_positive([(-1e-16, -2e-16), (-1e-17, 0.0)]) == [(0.0, 0.0), (0.0, 0.0)]
    assert clipped_to_positive([(-1.0, 1.0), (1.0, 1.0)])[0] == (0.0, 1.0)


def test_robust_error_gap_of_rows_far_from_zero():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((5, 4)) + 1e6 * rng.standard_normal(4)
    fair = FairPCA(2, criterion=RobustErrorGap(), center="none")
    solution = fair.fit(X, sensitive_features=[0, 1, 0, 1, 0]).solution_
    assert solution.lower_bound <= solution.objective


@pytest.mark.parametrize("seed", range(12))
def test_a_large_penalty_of_low_rank_or_common_axes_ends_without_a_warning(seed):
    """A step's equations may be singular where groups share their axes or have few."""
    rng = np.random.default_rng(seed)
    p, k = int(rng.integers(6, 20)), int(rng.integers(3, 5))
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    values = rng.uniform(0.1, 3, (k, p)) * (np.arange(p) < (p if seed % 2 else p // 3))
    matrices = np.array([(axes * each) @ axes.T for each in values])
    matrices = (matrices + matrices.transpose(0, 2, 1)) / 2
    solution = DualNewton().solve(problem_of(matrices, 2, ErrorGap(256.0)), 1e-9)
    assert solution.lower_bound <= solution.objective
