"""Root of a polynomial through values and derivatives at some points.

Plain floats throughout: a root takes some ten microseconds, less than the smallest eigenproblem.
"""

from collections.abc import Sequence
from typing import NamedTuple

_MOST_STEPS = 60
# Of the bracket: after a Newton step as short as this the next would be rounding.
_CLOSE = 1e-7


class Node(NamedTuple):
    """A point with the value there, and the derivatives that are known.

    Attributes
    ----------
    at : float
    derivatives : tuple of float
        Value, first derivative, and so on, as many as are known.
    """

    at: float
    derivatives: tuple[float, ...]


def interpolated(nodes: Sequence[Node]) -> tuple[list[float], list[float]]:
    """Centres and coefficients of the polynomial in Newton's form.

    c_0 + (x - z_0) (c_1 + (x - z_1) (c_2 + ...)) takes all values and derivatives of the nodes, by
    divided differences in which equal centres stand for derivatives.

    Parameters
    ----------
    nodes : sequence of Node
        At different points, with up to three derivatives each, the value counted.

    Returns
    -------
    z, c : lists of float
        As many as values and derivatives in all.

    Examples
    --------
    >>> centres, coefficients = interpolated([Node(0.0, (0.0, 0.0)), Node(1.0, (1.0, 2.0))])
    >>> centres, coefficients  # x^2
    ([0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0])
    """
    repeated = [node for node in nodes for _ in node.derivatives]
    centres = [node.at for node in repeated]
    column = [node.derivatives[0] for node in repeated]
    coefficients, factorial = [column[0]], 1.0
    for order in range(1, len(centres)):
        factorial *= order
        column = [
            (column[i + 1] - column[i]) / (centres[i + order] - centres[i])
            if centres[i + order] != centres[i]
            else repeated[i].derivatives[order] / factorial
            for i in range(len(column) - 1)
        ]
        coefficients.append(column[0])
    return centres, coefficients


def root_of_slope(
    nodes: Sequence[Node], low: float, high: float, start: float, pole: float | None
) -> float:
    """Where the polynomial's tangent passes through zero at the pole; without one, is level.

    Newton steps, safeguarded by bisection, on P' without a pole and P + (pole - x) P' with one,
    which is taken to be negative at `low` and positive at `high`.
    """
    centres, coefficients = interpolated(nodes)
    terms, width, x = list(zip(centres, coefficients, strict=True))[::-1], high - low, start
    for _ in range(_MOST_STEPS):
        value = slope = bend = 0.0
        for centre, coefficient in terms:
            arm = x - centre
            bend = bend * arm + 2 * slope
            slope = slope * arm + value
            value = value * arm + coefficient
        if pole is not None:
            slope, bend = value + (pole - x) * slope, (pole - x) * bend
        low, high = (x, high) if slope < 0 else (low, x)
        following = x - slope / bend if bend > 0 else low
        if not low < following < high:
            following = (low + high) / 2
        step, x = following - x, following
        if abs(step) <= _CLOSE * width:
            break
    return x


def value_at(nodes: Sequence[Node], x: float) -> float:
    """The polynomial at a point."""
    centres, coefficients = interpolated(nodes)
    value = 0.0
    for centre, coefficient in zip(reversed(centres), reversed(coefficients), strict=True):
        value = value * (x - centre) + coefficient
    return value
