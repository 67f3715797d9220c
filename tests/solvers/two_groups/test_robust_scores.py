"""Scores in plain floats, against the criterion's own."""

import numpy as np
import pytest

from fairspan.problem.criteria import RobustErrorGap
from fairspan.solvers.two_groups.branch_and_bound import clipped_to_positive
from fairspan.solvers.two_groups.robust_scores import RobustScores
from problems import problem_of

POINTS = [(2.0, 3.0), (0.001, 4.0), (4.0, 0.001), (0.0, 1.0), (1.0, 0.0), (0.3, 0.3)]


@pytest.mark.parametrize("errors", POINTS)
@pytest.mark.parametrize("penalty", [0.0, 0.3, 0.6, 25.0])
@pytest.mark.parametrize("radii", [(0.0, 0.0), (0.01, 0.5), (0.5, 0.0)])
def test_they_are_those_of_the_criterion(errors, penalty, radii):
    criterion = RobustErrorGap(penalty, {"group 0": radii[0], "group 1": radii[1]})
    problem = problem_of([np.eye(3), 2 * np.eye(3)], 1, criterion, [0.3, 0.7])
    scores = RobustScores(problem)
    here = np.array(errors)
    np.testing.assert_allclose(scores.at(errors), criterion.scores(here, problem), rtol=1e-14)
    slopes = [scores.gradient(errors, which) for which in (0, 1)]
    np.testing.assert_allclose(slopes, criterion.gradients(here, problem), rtol=1e-14)


def test_a_polygon_loses_what_is_negative():
    triangle = [(2.0, -1.0), (-1.0, 2.0), (2.0, 2.0)]
    corners = clipped_to_positive(triangle)
    assert sorted(corners) == [(0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (2.0, 0.0), (2.0, 2.0)]
    inside = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    assert clipped_to_positive(inside) == inside
