"""The distance of a point from a line of several segments."""

from itertools import pairwise

import numpy as np
import pytest

from fairspan.pareto import distance_to_polyline


def test_a_distance_is_that_of_the_nearest_point_of_a_polygon():
    rng = np.random.default_rng(0)
    polygon = np.array([[0.0, 4.0], [1.0, 2.0], [3.0, 1.0]])
    shares = np.linspace(0, 1, 2001)[:, None]
    points_on_polygon = np.vstack([a + shares * (b - a) for a, b in pairwise(polygon)])
    for point in [*rng.uniform(-2, 6, (20, 2)), [5.0, 0.5], [-1.0, 5.0]]:
        nearest = np.linalg.norm(points_on_polygon - point, axis=1).min()
        assert distance_to_polyline(np.array(point), polygon) == pytest.approx(nearest, abs=2e-3)
    assert distance_to_polyline(np.array([3.0, 4.0]), np.zeros((1, 2))) == 5
