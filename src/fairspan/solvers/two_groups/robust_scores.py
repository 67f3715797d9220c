"""Two groups: the robust error gap's scores at single points, in plain floats.

Branch and bound evaluates some ten points for each small eigenproblem, where calls of numpy would
take longer than the eigenproblem itself.
"""

from math import inf, sqrt

from fairspan.problem.problem import Problem

Point = tuple[float, float]


class RobustScores:
    """J_1 and J_2 at errors of two groups.

    Parameters
    ----------
    problem : Problem
        Of two groups, its criterion a :class:`RobustErrorGap`.
    """

    def __init__(self, problem: Problem) -> None:
        criterion = problem.robust
        self._weights = criterion.pair_weights(problem).tolist()
        self._spreads = [sqrt(radius) for radius in criterion.radii(problem).tolist()]

    def at(self, errors: Point) -> Point:
        """Both scores; as :meth:`RobustErrorGap.scores`."""
        first = sqrt(errors[0]), self._spreads[0]
        second = sqrt(errors[1]), self._spreads[1]
        (a, b), (c, d) = self._weights
        return _worst(a, *first) + _worst(b, *second), _worst(c, *first) + _worst(d, *second)

    def gradient(self, errors: Point, which: int) -> Point:
        """Derivatives of one score in both errors; as :meth:`RobustErrorGap.gradients`."""
        a, b = self._weights[which]
        first, second = errors
        return (
            _slope(a, sqrt(first), self._spreads[0]),
            _slope(b, sqrt(second), self._spreads[1]),
        )


def _worst(weight: float, root: float, spread: float) -> float:
    """h(v, e, eps) from the roots of e and eps."""
    if weight >= 0:
        return weight * (root + spread) ** 2
    return weight * max(root - spread, 0.0) ** 2


def _slope(weight: float, root: float, spread: float) -> float:
    """Derivative of h in e."""
    if weight == 0:
        return 0.0
    if root == 0:
        return (inf if spread > 0 else weight) if weight > 0 else 0.0 if spread > 0 else weight
    ratio = spread / root
    return weight * (1 + ratio) if weight > 0 else weight * max(1 - ratio, 0.0)
