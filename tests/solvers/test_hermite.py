"""Interpolation, against polynomials that are known."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from fairspan.solvers.hermite import Node, root_of_slope, value_at


def node_of(polynomial, at, n_derivatives):
    return Node(at, tuple(float(polynomial.deriv(n)(at)) for n in range(n_derivatives)))


@pytest.mark.parametrize("known", [(1, 1), (2, 2), (3, 3), (2, 3, 3), (3, 2, 3), (3, 3, 3)])
def test_a_polynomial_with_as_many_coefficients_is_found_again(known):
    rng = np.random.default_rng(sum(known))
    polynomial = Polynomial(rng.standard_normal(sum(known)))
    nodes = [node_of(polynomial, at, n) for at, n in zip((0.0, 0.7, 1.0), known, strict=False)]
    for x in np.linspace(-0.3, 1.4, 12):
        assert value_at(nodes, x) == pytest.approx(polynomial(x), abs=1e-9)


@pytest.mark.parametrize("root", [0.03, 0.4, 0.99])
@pytest.mark.parametrize("pole", [None, 1.0])
def test_the_root_of_a_convex_polynomial(root, pole):
    convex = Polynomial([0.3, -0.2, 1.0, 0.1, 0.2])
    if pole is None:
        convex -= Polynomial([0.0, convex.deriv()(root)])
        judged = convex.deriv()
    else:
        convex -= convex(root) + (pole - root) * convex.deriv()(root)
        judged = convex + Polynomial([pole, -1.0]) * convex.deriv()
    nodes = [node_of(convex, 0.0, 3), node_of(convex, 1.0, 3)]
    assert judged(0.0) < 0 < judged(0.999999)
    found = root_of_slope(nodes, 0.0, 1.0, 0.5, pole)
    assert found == pytest.approx(root, abs=1e-10)


def test_a_function_that_turns_down_still_gives_a_point_of_the_bracket():
    nodes = [Node(0.0, (0.0, -1.0, 90.0)), Node(1.0, (0.0, 1e-9, 0.0))]
    assert 0 <= root_of_slope(nodes, 0.0, 1.0, 0.999, None) <= 1
