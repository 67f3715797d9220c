"""A second-order model of the dual around one point, exact where eigenvalue d is tied.

Eigenvalues near the cut may cross as the multipliers move, and there t_d has kinks. So r
eigenvectors Q around the cut are kept as a block: with those above it, V, and the rest U,
t_d(M + E) = tr of V'(M + E)V + t_j(Q'(M + E)Q) + second-order terms, j = d minus those in V. The
second-order terms are sums of squares of E's entries between V, Q and U over gaps of eigenvalues,
weighted by the shares Y that Q'(M + E)Q's leading eigenvectors have (Overton and Womersley 1995).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fairspan.solvers.dual import Atom, Dual, DualSpectrum
from fairspan.solvers.simplex_program import least_on_simplex
from fairspan.solvers.spectral_program import SpectralProgram

FloatArray = npt.NDArray[np.float64]

# Gaps of eigenvalues below this share of the variances in the pieces are not divided by.
_NO_GAP = 1e-14


@dataclass(frozen=True, eq=False)
class SpectralModel:
    """The dual near a point.

    Parameters
    ----------
    dual : Dual
    center : DualSpectrum
        Where.
    block : (int, int)
        First eigenvector of Q, and the one after its last; both d for no block: then the model is
        Newton's.
    """

    dual: Dual
    center: DualSpectrum
    block: tuple[int, int]

    @property
    def rank(self) -> int:
        """j: how many of the d dimensions are shared out among the block."""
        return self.dual.n_components - self.block[0]

    @property
    def has_block(self) -> bool:
        """Whether the cut lies inside a block."""
        return self.block[0] < self.block[1]

    @cached_property
    def _images(self) -> FloatArray:
        """S_g[V Q], shape (k, p, hi)."""
        return self.dual.second_moments.applied(self.center.vectors[:, : self.block[1]])

    @cached_property
    def fixed(self) -> FloatArray:
        """tr(V'S_gV), shape (k,)."""
        above = self.center.vectors[:, : self.block[0]]
        return np.asarray(np.tensordot(self._images[:, :, : self.block[0]], above, axes=2))

    @cached_property
    def blocks(self) -> FloatArray:
        """Q'S_gQ, shape (k, r, r)."""
        low, high = self.block
        products = self.center.vectors[:, low:high].T @ self._images[:, :, low:high]
        return np.asarray((products + products.transpose(0, 2, 1)) / 2)

    @cached_property
    def hard(self) -> FloatArray:
        """Y of the d leading eigenvectors themselves, shape (r, r)."""
        low, high = self.block
        return np.diag((np.arange(high - low) < self.rank).astype(np.float64))

    def atom(self, shares: FloatArray) -> Atom:
        """VV' + QYQ'."""
        low, high = self.block
        if not self.has_block:
            return Atom(self.center.vectors[:, :low], self.fixed)
        captured = self.fixed + np.tensordot(self.blocks, shares, axes=2)
        above, around = self.center.vectors[:, :low], self.center.vectors[:, low:high]
        if shares is self.hard:
            return Atom(self.center.vectors[:, : self.dual.n_components], captured)
        values, turn = np.linalg.eigh(shares)
        lengths = np.sqrt(np.clip(values[::-1], 0.0, 1.0))
        return Atom(np.hstack([above, (around @ turn[:, ::-1]) * lengths]), captured)

    def carried(self, other: "SpectralModel", shares: FloatArray) -> FloatArray:
        """Shares of another model's block, as this one's: the nearest in its own eigenvectors."""
        if not self.has_block:
            return self.hard
        (low, high), whole = self.block, other.block[0]
        overlap = self.center.vectors[:, low:high].T @ other.center.vectors[:, : other.block[1]]
        above, around = overlap[:, :whole], overlap[:, whole:]
        values, turn = np.linalg.eigh(above @ above.T + around @ shares @ around.T)
        return np.asarray((turn * shares_summing_to(values, self.rank)) @ turn.T)

    def curvature(self, shares: FloatArray) -> FloatArray:
        """Minus the dual's second derivative at these shares, shape (m, m)."""
        coefficients = self.dual.coefficients
        return np.asarray(coefficients @ self.group_curvature(shares) @ coefficients.T)

    def group_curvature(self, shares: FloatArray) -> FloatArray:
        """The second derivative of t_d in the groups' weights, shape (k, k)."""
        low, high = self.block
        values, vectors = self.center.values, self.center.vectors
        k, r = len(self._images), high - low
        size = np.abs(self.dual.coefficients) @ self.dual.second_moments.traces
        least = max(_NO_GAP * float(size.max()), np.finfo(np.float64).tiny)
        across = self._images.transpose(0, 2, 1) @ vectors[:, low:]
        gaps = np.maximum(values[:high, None] - values[None, low:], least)
        across /= np.sqrt(gaps)
        parts = [across[:, :low, r:]]
        if self.has_block:
            share, turn = np.linalg.eigh(shares)
            share = np.clip(share, 0.0, 1.0)
            parts.append(across[:, :low, :r] @ (turn * np.sqrt(1 - share)))
            parts.append((turn * np.sqrt(share)).T @ across[:, low:, r:])
        flat = np.hstack([part.reshape(k, -1) for part in parts])
        return np.asarray(2 * flat @ flat.T)

    def best(self, curvature: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray, float]:
        """Where the model is largest, the shares there, and by how much it exceeds the center."""
        program, top = self._program(curvature), 0.0
        if self.has_block:
            multipliers, shares = program.solve(tolerance)
            block = np.tensordot(multipliers, program.matrices, axes=1)
            top = float(np.linalg.eigvalsh(block)[::-1][: self.rank].sum())
        else:
            slope, at = program.slopes, program.center
            multipliers, shares = least_on_simplex(curvature, -slope - curvature @ at), self.hard
        step = multipliers - program.center
        value = float(multipliers @ program.slopes) - float(step @ curvature @ step) / 2 - top
        return multipliers, shares, value - self.center.bound

    def _program(self, curvature: FloatArray) -> SpectralProgram:
        coefficients = self.dual.coefficients
        return SpectralProgram(
            self.dual.references - coefficients @ self.fixed,
            curvature,
            self.center.multipliers,
            np.tensordot(coefficients, self.blocks, axes=1),
            self.rank,
        )


def block_around(values: FloatArray, n_components: int, most: int) -> tuple[int, int]:
    """The block of at most so many eigenvalues around the cut that is set apart the most.

    Parameters
    ----------
    values : (p,) array
        Largest first.
    n_components : int
        d, below p.
    most : int
        At least 2.

    Examples
    --------
    >>> block_around(np.array([9.0, 5.1, 5.0, 4.9, 1.0]), 2, 3)
    (1, 4)
    """
    # The gap before each place, beyond the ends as large as can be.
    gaps = np.concatenate([[np.inf], values[:-1] - values[1:], [np.inf]])
    d, p = n_components, len(values)
    found, apart = (d - 1, d + 1), -np.inf
    for low in range(max(0, d - most + 1), d):
        for high in range(d + 1, min(p, low + most) + 1):
            if min(gaps[low], gaps[high]) > apart:
                found, apart = (low, high), min(gaps[low], gaps[high])
    return found


def shares_summing_to(values: FloatArray, total: int) -> FloatArray:
    """The nearest numbers between 0 and 1 with this sum.

    Examples
    --------
    >>> shares_summing_to(np.array([1.2, 0.6, -0.1]), 1).round(6)
    array([0.8, 0.2, 0. ])
    """
    # The sum rises with what is added to all, in straight lines between these.
    points = np.sort(np.concatenate([-values, 1 - values]))
    sums = np.clip(values + points[:, None], 0.0, 1.0).sum(axis=1)
    added = float(np.interp(total, sums, points))
    return np.clip(values + added, 0.0, 1.0)
