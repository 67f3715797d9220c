"""The polygon on which branch and bound looks for the least score."""

from fairspan.solvers.two_groups.branch_and_bound import clipped_to_positive


def test_a_polygon_loses_what_is_negative():
    triangle = [(2.0, -1.0), (-1.0, 2.0), (2.0, 2.0)]
    corners = clipped_to_positive(triangle)
    assert sorted(corners) == [(0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (2.0, 0.0), (2.0, 2.0)]
    inside = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    assert clipped_to_positive(inside) == inside
