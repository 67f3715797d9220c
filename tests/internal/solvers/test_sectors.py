"""Crossings of supporting lines next to large errors."""

import numpy as np
import pytest

from fairspan.solvers.two_groups.frontier import BoundaryPoint, Sector


def point(angle: float, foot: list[float]) -> BoundaryPoint:
    weights = np.array([np.cos(angle), np.sin(angle)])
    errors = np.array(foot)
    return BoundaryPoint(angle, weights, np.eye(2)[:, :1], errors, errors)


@pytest.mark.parametrize("size", [10.0, 1e13])
def test_lines_cross_where_the_nearer_foot_says(size: float) -> None:
    # e_1 >= 1.26, and a line at -45 degrees through a point far out.
    far = point(-np.pi / 4, [size, size])
    near = point(0.0, [1.26, 0.8])
    sector = Sector.from_points(far, near)
    assert sector.corner is not None
    assert sector.corner[0] == pytest.approx(1.26, abs=1e-15)
    assert sector.corner[1] == pytest.approx(1.26, abs=1e-3 * size**0.25)
