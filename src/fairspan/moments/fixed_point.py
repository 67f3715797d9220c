"""Fixed points of steps such as those of the EM algorithm, by Anderson's acceleration.

Steps of EM shrink the distance to their limit by a nearly constant factor, which is close to 1
where much is missing. Anderson (1965) combines the last few steps so that what they predict of the
next one is least (Walker and Ni 2011). The combination also says how far the limit still is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairspan.typing import FloatArray

# Steps end when the limit is about this far, in units; or after so many, where it is hardly nearer
# from one step to the next.
_NEAR, _MOST_STEPS = 1e-12, 200
# Rounding may keep them from that: where columns determine each other, covariances are inverted
# with a ridge of 1e-10, which leaves six digits. Steps then end when they are this short, and the
# shortest of them lies so many steps back.
_ROUNDING, _PATIENCE = 1e-5, 20
# Steps that are combined, and the numbers (128 MB) that their differences may take in each of two
# arrays.
_MOST_COMBINED, _MOST_NUMBERS = 20, 2**24
# A step so many times as long as the shortest one shows that the last combination led astray.
_TOO_LONG = 10.0
# Differences of steps that are this nearly combinations of others say nothing new.
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The end of a sequence of steps.

    Attributes
    ----------
    point : array
    n_steps : int
    change : float
        The largest entry of the last step, in units.
    left : float
        About how far the limit still is: the root of the sum of squares, in units.
    has_arrived : bool
        Whether the steps ended by themselves.
    """

    point: FloatArray
    n_steps: int
    change: float
    left: float
    has_arrived: bool


def fixed_point(
    step: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    units: FloatArray,
    is_allowed: Callable[[FloatArray], bool],
) -> FixedPoint:
    """Find a point that a step leaves where it is.

    Parameters
    ----------
    step : callable
        Makes a point of a point.
    start, units : arrays of the same shape
        What counts as 1 in each entry; above 0.
    is_allowed : callable
        Whether there is such a point; those that steps make always are.
    """
    memory = _Memory(min(_MOST_COMBINED, max(_MOST_NUMBERS // start.size, 1)))
    point, best, best_at = start, FixedPoint(start, 0, np.inf, np.inf, False), 0
    shortest, was_near = np.inf, False
    for n_steps in range(1, _MOST_STEPS + 1):
        following = step(point)
        residual = (following - point) / units
        size = float(np.abs(residual).max(initial=0.0))
        if size > _TOO_LONG * shortest:
            memory.forget()
            shortest = np.inf
        shortest = min(shortest, size)
        jump = memory.jump(point / units, residual)
        # Beside where the steps seem to lead: any part of them may be rounding, which stands for a
        # longer way along directions in which steps hardly become shorter.
        length = float(np.linalg.norm(residual))
        left = max(float(np.linalg.norm(jump)), length * memory.slowness)
        if size < best.change:
            best, best_at = FixedPoint(following, n_steps, size, left, True), n_steps
        if left < _NEAR and (was_near or size == 0.0):
            return FixedPoint(following, n_steps, size, left, True)
        was_near = left < _NEAR
        if best.change < _ROUNDING and n_steps - best_at >= _PATIENCE:
            return FixedPoint(best.point, n_steps, best.change, max(best.left, left), True)
        point = point + units * jump
        if not is_allowed(point):
            memory.forget()
            point = following
    # Where steps hardly become shorter, what is left of them is about as much as all of them.
    left = max(best.left, best.change * _MOST_STEPS)
    return FixedPoint(best.point, _MOST_STEPS, best.change, left, False)


class _Memory:
    """The last few points and the steps from them, in units.

    Parameters
    ----------
    most : int
        How many differences are kept.

    Attributes
    ----------
    slowness : float
        How many times as far as a step the limit is, along the worst of the known directions.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.slowness = 1.0
        self._points: list[FloatArray] = []
        self._steps: list[FloatArray] = []
        self._last: tuple[FloatArray, FloatArray] | None = None

    def jump(self, point: FloatArray, residual: FloatArray) -> FloatArray:
        """Remember a step, and return the way to where the steps seem to lead."""
        if self._last is not None:
            self._points.append((point - self._last[0]).ravel())
            self._steps.append((residual - self._last[1]).ravel())
            del self._points[: -self._most], self._steps[: -self._most]
        self._last = point, residual
        if not self._steps:
            return residual
        steps = np.column_stack(self._steps)
        sizes = np.linalg.norm(steps, axis=0)
        sizes = np.where(sizes > 0, sizes, 1.0)
        left, values, right = np.linalg.svd(steps / sizes, full_matrices=False)
        known = values > _DEPENDENT * values[0]
        inverse = (right[known].T / values[known]) / sizes[:, None]
        points = np.column_stack(self._points)
        self.slowness = max(float(np.linalg.norm(points @ inverse, 2)), 1.0)
        led = (points + steps) @ (inverse @ (left[:, known].T @ residual.ravel()))
        return np.asarray(residual - led.reshape(residual.shape))
