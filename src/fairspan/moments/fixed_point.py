"""Fixed-point iteration with Anderson acceleration, as for the EM algorithm.

EM steps shrink the distance to the limit by a nearly constant factor, which is close to 1 if many
values are missing. Anderson (1965) combines the last few steps so that the predicted residual is
smallest (Walker and Ni 2011). The combination also yields an estimate of the distance to the limit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairspan.linalg.rounding import RANK_TOL
from fairspan.typing import FloatArray

CONVERGENCE_TOL = 1e-12
"""Estimated distance to the limit at which steps end, in units, unless another is given."""

# Stop after this many steps: if it is reached, steps hardly shorten the distance to the limit.
_MAX_STEPS = 200
# Rounding errors may prevent convergence: covariances of collinear columns are inverted with a
# ridge of 1e-10, which leaves six digits. Stop if the shortest step is below this size ...
_STAGNATION_TOL = 1e-5
# ... and no step was shorter for this many steps.
_PATIENCE = 20
# Largest number of steps that are combined; memory grows with it.
_MAX_COMBINED_STEPS = 20
# Largest number of entries (128 MB) of the differences in each of two arrays.
_MAX_DIFFERENCE_ENTRIES = 2**24
# Restart if a step is longer than the shortest one by this factor: the last combination diverged.
_RESTART_RATIO = 10.0


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Result of a fixed-point iteration.

    Attributes
    ----------
    point : array
    n_steps : int
    last_change : float
        Largest entry of the last step, in units.
    distance : float
        Estimated distance to the limit: root of the sum of squares, in units.
    has_converged : bool
        Whether the iteration ended before the maximum number of steps.
    """

    point: FloatArray
    n_steps: int
    last_change: float
    distance: float
    has_converged: bool


def find_fixed_point(
    step: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    units: FloatArray,
    is_valid: Callable[[FloatArray], bool],
    convergence_tol: float = CONVERGENCE_TOL,
) -> FixedPoint:
    """Find a point that a step maps to itself, by Anderson acceleration.

    Parameters
    ----------
    step : callable
        Maps a point to the next one.
    start : array
        First point.
    units : array of the same shape
        Positive scale of each entry, in which changes and distances are measured.
    is_valid : callable
        Returns whether a point may be passed to `step`; results of `step` always may.
    convergence_tol : float
        Stop when the estimated distance to the limit is below this, in units.

    Returns
    -------
    FixedPoint
        The result of the last step, or of the shortest one if steps stop becoming shorter or the
        maximum number of steps is reached. Its `distance` estimates how far the limit is.
    """
    n_combined = min(_MAX_COMBINED_STEPS, max(_MAX_DIFFERENCE_ENTRIES // start.size, 1))
    memory = _StepMemory(n_combined)
    point = start
    best = FixedPoint(start, n_steps=0, last_change=np.inf, distance=np.inf, has_converged=False)
    shortest = np.inf
    was_near = False
    # Each step is taken from the last extrapolated point, and `best` is the result of the shortest.
    for n_steps in range(1, _MAX_STEPS + 1):
        next_point = step(point)
        residual = (next_point - point) / units
        change = float(np.abs(residual).max(initial=0.0))
        if change > _RESTART_RATIO * shortest:
            memory.clear()
            shortest = np.inf
        shortest = min(shortest, change)
        increment = memory.extrapolate(point / units, residual)
        # Any part of a step may be rounding, which corresponds to a longer distance along
        # directions in which steps hardly become shorter: by the factor memory.slowness.
        length = float(np.linalg.norm(residual))
        distance = max(float(np.linalg.norm(increment)), length * memory.slowness)
        if change < best.last_change:
            best = FixedPoint(next_point, n_steps, change, distance, has_converged=True)
        # One short distance may be chance, so two in a row are required.
        is_near = distance < convergence_tol
        if is_near and (was_near or change == 0.0):
            return FixedPoint(next_point, n_steps, change, distance, has_converged=True)
        was_near = is_near
        if best.last_change < _STAGNATION_TOL and n_steps - best.n_steps >= _PATIENCE:
            distance = max(best.distance, distance)
            return FixedPoint(best.point, n_steps, best.last_change, distance, has_converged=True)
        point = point + units * increment
        if not is_valid(point):  # fall back to the plain step
            memory.clear()
            point = next_point
    # If steps hardly become shorter, the remaining distance is about as long as all steps so far.
    distance = max(best.distance, best.last_change * _MAX_STEPS)
    return FixedPoint(best.point, _MAX_STEPS, best.last_change, distance, has_converged=False)


class _StepMemory:
    """Recent differences of points and of steps, in units.

    Parameters
    ----------
    max_size : int
        Maximum number of differences.

    Attributes
    ----------
    slowness : float
        Largest ratio of the distance to the limit to the length of a step, along the directions of
        the differences.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self.clear()

    def clear(self) -> None:
        """Discard all differences."""
        self.slowness = 1.0
        self._n_recorded = 0
        self._points: FloatArray | None = None
        self._steps: FloatArray | None = None
        self._last: tuple[FloatArray, FloatArray] | None = None

    def extrapolate(self, point: FloatArray, residual: FloatArray) -> FloatArray:
        """Record a step, and return the increment from its point to the extrapolated limit.

        The step goes from `point` to `point + residual`. With the recorded differences of points
        and of steps in the rows of P and S, the coefficients c minimize ||residual - S'c||, and the
        increment is residual - (P + S)'c (Anderson). Without differences it is the step itself.
        """
        differences = self._record(point.ravel(), residual.ravel())
        if differences is None:
            return residual
        points, steps = differences
        n_steps = len(steps)
        # Differences are scaled to length one: later ones are shorter by orders of magnitude.
        sizes = np.linalg.norm(steps, axis=1)
        sizes = np.where(sizes > 0, sizes, 1.0)
        # The last column of R in QR = [steps, residual] is Q' residual, so that Q is not needed.
        columns = np.vstack([steps / sizes[:, None], residual.reshape(1, -1)])
        triangle = np.asarray(np.linalg.qr(columns.T, mode="r"))[:n_steps]
        left, values, right = np.linalg.svd(triangle[:, :n_steps], full_matrices=False)
        is_independent = values > RANK_TOL * values[0]
        pseudo_inverse = (right[is_independent].T / values[is_independent]) / sizes[:, None]
        # How far the point moves per unit change of the step, along each independent direction. The
        # largest is the ratio of the distance to the limit to the length of a step: at least one.
        responses = pseudo_inverse.T @ points
        self.slowness = max(math.sqrt(np.linalg.eigvalsh(responses @ responses.T)[-1]), 1.0)
        coefficients = pseudo_inverse @ (left[:, is_independent].T @ triangle[:, n_steps])
        correction = coefficients @ points + coefficients @ steps
        return np.asarray(residual - correction.reshape(residual.shape))

    def _record(
        self, point: FloatArray, residual: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Record a step; return the differences of points and of steps, one in each row."""
        last = self._last
        self._last = (point, residual)
        if last is None:
            return None
        if self._points is None or self._steps is None:
            self._points = np.empty((self._max_size, point.size))
            self._steps = np.empty((self._max_size, point.size))
        # The newest difference replaces the oldest one.
        index = self._n_recorded % self._max_size
        np.subtract(point, last[0], out=self._points[index])
        np.subtract(residual, last[1], out=self._steps[index])
        self._n_recorded += 1
        n_rows = min(self._n_recorded, self._max_size)
        return self._points[:n_rows], self._steps[:n_rows]
