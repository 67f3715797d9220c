"""Algorithm 1 of Vu et al. (2022) exactly as printed, as a user of the paper would run it.

It minimizes the robust error gap by Riemannian subgradient steps, one start after another, on
U (p, p - d), an orthonormal basis of the complement of the subspace. The library's own
`RiemannianSubgradient` visits subspaces of the same kind in far less time, by stepping on the
subspace itself, V (p, d), and moving all starts at once; both are measured.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.rows import FloatArray


@dataclass(frozen=True)
class RobustProblem:
    """Two groups and a penalty.

    Attributes
    ----------
    moments : array of shape (2, p, p)
        M_g, second moments.
    shares : array of shape (2,)
        q_g, shares of the rows.
    radii : array of shape (2,)
        eps_g, radii of the Wasserstein balls.
    penalty : float
        lambda.
    """

    moments: FloatArray
    shares: FloatArray
    radii: FloatArray
    penalty: float

    @property
    def weights(self) -> FloatArray:
        """Weights v of the errors, (2, 2), for both ordered pairs (a, a') of groups.

        A row has q_a + lambda for a, whose error is the larger one, and q_a' - lambda for a'.
        """
        sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
        return np.asarray(self.shares + self.penalty * sign)


def descend(problem: RobustProblem, d: int, n_starts: int, n_steps: int) -> FloatArray:
    """Return the errors of the groups, (2,), at the smallest value of equation (6) of any start."""
    rng = np.random.default_rng(0)
    p = problem.moments.shape[1]
    smallest_value = np.inf
    errors_there = np.full(2, np.nan)
    for _ in range(n_starts):
        U = np.linalg.qr(rng.standard_normal((p, p - d)))[0]
        value, errors = _descend_from(problem, U, n_steps)
        if value < smallest_value:
            smallest_value, errors_there = value, errors
    return errors_there


def _descend_from(problem: RobustProblem, U: FloatArray, n_steps: int) -> tuple[float, FloatArray]:
    """Take `n_steps` subgradient steps; return the smallest value and the errors there."""
    weights = problem.weights
    step_size = 1 / np.sqrt(n_steps + 1)
    root_weights = 2 * np.abs(weights) * np.sqrt(problem.radii)
    constants = weights @ problem.radii
    smallest_value = np.inf
    errors_there = np.full(2, np.nan)
    for _ in range(n_steps):
        images = problem.moments @ U
        errors = np.einsum("pm,gpm->g", U, images)
        values = weights @ errors + root_weights @ np.sqrt(errors) + constants
        active = int(values.argmax())
        if values[active] < smallest_value:
            smallest_value = float(values[active])
            errors_there = errors
        slopes = root_weights[active] / np.sqrt(errors) + 2 * weights[active]
        gradient = np.tensordot(slopes, images, axes=1)
        gradient -= U @ (U.T @ gradient)
        U = np.linalg.qr(U - step_size * gradient)[0]
    return smallest_value, errors_there
