"""Algorithm 1 of Vu et al. (2022) step by step as it is printed: what its users wait for.

On U, an orthonormal basis of what is left out, p x (p - d), one start after another. The library's
own `RiemannianSubgradient` visits subspaces of the same kind in far less time, by stepping on V
(p x d) and moving all starts at once; both are measured.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.rows import FloatArray


@dataclass(frozen=True)
class RobustProblem:
    """Second moments M_g, shares q_g and radii eps_g of two groups, and the penalty lambda."""

    moments: FloatArray
    shares: FloatArray
    radii: FloatArray
    penalty: float

    @property
    def weights(self) -> FloatArray:
        """v of both ordered pairs (a, a'): q_a + lambda for a, q_a' - lambda for a'; (2, 2)."""
        sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
        return np.asarray(self.shares + self.penalty * sign)


def descend(problem: RobustProblem, d: int, n_starts: int, n_steps: int) -> FloatArray:
    """Errors of the groups, (2,), at the subspace of the least value of equation (6)."""
    rng = np.random.default_rng(0)
    p = problem.moments.shape[1]
    best, errors = np.inf, np.full(2, np.nan)
    for _ in range(n_starts):
        U = np.linalg.qr(rng.standard_normal((p, p - d)))[0]
        value, found = _one_start(problem, U, n_steps)
        if value < best:
            best, errors = value, found
    return errors


def _one_start(problem: RobustProblem, U: FloatArray, n_steps: int) -> tuple[float, FloatArray]:
    weights, gamma = problem.weights, 1 / np.sqrt(n_steps + 1)
    theta = 2 * np.abs(weights) * np.sqrt(problem.radii)
    constant = weights @ problem.radii
    least, best = np.inf, np.full(2, np.nan)
    for _ in range(n_steps):
        images = problem.moments @ U
        errors = np.einsum("pm,gpm->g", U, images)
        values = weights @ errors + theta @ np.sqrt(errors) + constant
        active = int(values.argmax())
        if values[active] < least:
            least, best = float(values[active]), errors
        slopes = theta[active] / np.sqrt(errors) + 2 * weights[active]
        gradient = np.tensordot(slopes, images, axes=1)
        gradient -= U @ (U.T @ gradient)
        U = np.linalg.qr(U - gamma * gradient)[0]
    return least, best
