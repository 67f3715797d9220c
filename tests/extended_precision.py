"""Matrices that are hard for float64, and their eigenvalues to 60 digits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

KINDS = ("plain", "large column", "tie", "signed", "low rank", "large column of low rank")


@dataclass(frozen=True)
class SumProblem:
    """Sum of the p - d smallest eigenvalues of sum_g weights_g S_g, d = n_leading."""

    kind: str
    matrices: FloatArray
    weights: FloatArray
    n_leading: int

    def sums(self) -> tuple[Any, float]:
        """Return the sum and the sum of absolute values, to 60 digits."""
        import mpmath

        values = exact_eigenvalues(self.matrices, self.weights)
        smallest = values[: len(values) - self.n_leading]
        with mpmath.workdps(60):
            return mpmath.fsum(smallest), float(mpmath.fsum(map(abs, smallest)))


def exact_eigenvalues(matrices: FloatArray, weights: FloatArray) -> list[Any]:
    """Return the eigenvalues of the mixture of these exact float64 numbers, smallest first."""
    import mpmath

    with mpmath.workdps(60):
        mixture = mpmath.zeros(matrices.shape[1])
        for weight, matrix in zip(weights, matrices, strict=True):
            mixture += mpmath.mpf(float(weight)) * mpmath.matrix(matrix.tolist())
        return sorted(mpmath.eigsy(mixture, eigvals_only=True))


def draw_problem(seed: int) -> SumProblem:
    """Draw a problem: kinds take turns, with one to three groups and d from 1 to p."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    k, p = int(rng.integers(1, 4)), int(rng.integers(2, 8))
    n_leading = int(rng.integers(1, p + 1))
    weights = rng.dirichlet(np.ones(k))
    if kind == "tie":
        return SumProblem(kind, *_draw_tied_matrices(rng, k, p, n_leading), n_leading)
    rank = max(1, p - 2) if "low rank" in kind else p
    factors = rng.standard_normal((k, p, rank))
    if "low rank" in kind:
        factors = rng.integers(-3, 4, (k, p, rank)).astype(np.float64)
    if "large column" in kind:
        factors[:, int(rng.integers(p))] *= 1e8
    if kind == "signed":
        weights = weights * rng.choice([-1.0, 1.0], k)
    matrices = factors @ factors.transpose(0, 2, 1)
    return SumProblem(kind, (matrices + matrices.transpose(0, 2, 1)) / 2, weights, n_leading)


def _draw_tied_matrices(
    rng: np.random.Generator, k: int, p: int, n_leading: int
) -> tuple[FloatArray, FloatArray]:
    """Draw integer matrices whose mixture has its d-th eigenvalue repeated exactly."""
    values = np.sort(rng.integers(1, 4, p))[::-1].astype(np.float64)
    values[max(n_leading - 2, 0) : n_leading + 1] = 2.0
    values = np.sort(values)[::-1]
    # p times the reflection at a plane.
    turn = p * np.eye(p) - 2
    mixture = (turn * values) @ turn
    parts = rng.integers(-3, 4, (k, p, p)).astype(np.float64)
    parts = parts + parts.transpose(0, 2, 1)
    parts[-1] = k * mixture - parts[:-1].sum(axis=0)
    return parts, np.full(k, 1 / k) if k != 3 else np.array([0.25, 0.25, 0.25])
