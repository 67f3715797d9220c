"""A small saddle problem over simplices and a matrix between 0 and I, by interior points.

Maximise s.m - (m - c)'W(m - c) / 2 - t_j(sum_i m_i C_i) over the simplex, or one simplex for each
block of m, t_j the sum of the j largest eigenvalues. As t_j(C) = max <C, Y> over 0 <= Y <= I,
tr Y = j, it is a game between m and Y; both are found by Mehrotra's predictor-corrector method
along the direction of Helmberg, Rendl, Vanderbei and Wolkowicz (1996).
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.linalg

from fairspan.linalg import eigh, eigvalsh
from fairspan.problem.pieces import ONE_BLOCK, Blocks
from fairspan.typing import FloatArray

_STEPS = 40
# Complementarity that float64 can still reach, in the scaled program.
_ROUNDING = 1e-15
# How far from the boundary of the cones it starts, as a share of the program's size.
_INSIDE, _LEAST_INSIDE = 0.1, 0.01
# Of a step to the boundary, at least and at most this share is gone.
_SHORT, _LONG = 0.9, 0.99


@dataclass(frozen=True, eq=False)
class SpectralProgram:
    """What is maximised.

    Attributes
    ----------
    slopes : (n,) array
        s.
    curvature : (n, n) array
        W, positive semidefinite.
    center : (n,) array
        c, on a simplex for each block.
    matrices : (n, r, r) array
        C, symmetric.
    rank : int
        j, from 1 to r - 1.
    blocks : Blocks
        Of m.
    """

    slopes: FloatArray
    curvature: FloatArray
    center: FloatArray
    matrices: FloatArray
    rank: int
    blocks: Blocks = ONE_BLOCK

    def solve(self, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """Both players' best, as far as rounding lets them.

        Parameters
        ----------
        tolerance : float
            How much either player may still gain, in the units of the slopes.

        Returns
        -------
        multipliers : (n,) array
            m, on a simplex for each block.
        shares : (r, r) array
            Y.

        Examples
        --------
        >>> matrices = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
        >>> even = np.array([0.5, 0.5])
        >>> program = SpectralProgram(np.zeros(2), np.zeros((2, 2)), even, matrices, 1)
        >>> multipliers, shares = program.solve(1e-9)
        >>> multipliers.round(6), np.diag(shares).round(6)
        (array([0.5, 0.5]), array([0.5, 0.5]))
        """
        scaled, size = self._scaled()
        state = _State.start(scaled)
        target = max(tolerance / size / state.n_cones, _ROUNDING)
        for _ in range(_STEPS):
            if state.complementarity <= target:
                break
            try:
                moved = state.moved(scaled)
            except np.linalg.LinAlgError:  # rounding has left a cone: this is as far as it gets
                break
            if not np.isfinite(moved.complementarity):
                break
            state = moved
        return self.blocks.normalised(state.multipliers), state.shares

    def _scaled(self) -> tuple["SpectralProgram", float]:
        """The same with numbers of size one; what a block has in common is the same for every m."""
        n, r = self.matrices.shape[:2]
        which = self.blocks.of(n)
        middles = self.blocks.sums(self.center * np.einsum("irr->i", self.matrices) / r)
        matrices = self.matrices - middles[which, None, None] * np.eye(r)
        slopes = self.slopes - self.blocks.sums(self.center * self.slopes)[which]
        size = max(float(np.abs(matrices).max()), float(np.abs(slopes).max()))
        if size == 0:
            size = 1.0
        scaled = replace(
            self, slopes=slopes / size, curvature=self.curvature / size, matrices=matrices / size
        )
        return scaled, size


@dataclass(frozen=True, eq=False)
class _State:
    """A point inside of all cones, which meets the equations.

    Attributes
    ----------
    multipliers, slacks : (n,) arrays
        m > 0 and v > 0: s - W(m - c) - <C, Y> + v = level of the block.
    levels : (b,) array
        One for each block.
    cones : (4, r, r) array
        Y, I - Y, X, Z, positive definite: X = threshold I + Z - sum_i m_i C_i.
    threshold : float
    """

    multipliers: FloatArray
    slacks: FloatArray
    levels: FloatArray
    cones: FloatArray
    threshold: float

    @classmethod
    def start(cls, program: SpectralProgram) -> "_State":
        n, r = program.matrices.shape[:2]
        multipliers = (program.center + program.blocks.even(n)) / 2
        mixed = np.tensordot(multipliers, program.matrices, axes=1)
        values, vectors = eigh(mixed)
        threshold = float(values[r - program.rank] + values[r - program.rank - 1]) / 2
        inside = max(_INSIDE * float(values[-1] - values[0]), _LEAST_INSIDE)
        above = (vectors * (np.maximum(values - threshold, 0) + inside)) @ vectors.T
        below = (vectors * (np.maximum(threshold - values, 0) + inside)) @ vectors.T
        shares = program.rank / r * np.eye(r)
        gains = _gains(program, multipliers, shares)
        levels = program.blocks.largest(gains) + inside
        slacks = levels[program.blocks.of(n)] - gains
        cones = np.array([shares, np.eye(r) - shares, below, above])
        return cls(multipliers, slacks, levels, cones, threshold)

    @property
    def shares(self) -> FloatArray:
        """Y."""
        return np.asarray(self.cones[0])

    @property
    def n_cones(self) -> int:
        """Products that tend to zero: n + 2 r."""
        return len(self.multipliers) + 2 * int(self.cones.shape[1])

    @property
    def complementarity(self) -> float:
        """Their mean."""
        products = float(self.multipliers @ self.slacks)
        products += float(np.vdot(self.cones[:2], self.cones[2:]))
        return products / self.n_cones

    def moved(self, program: SpectralProgram) -> "_State":
        """One step: a predictor, and a corrector towards the center it calls for."""
        newton = _NewtonSystem.at(program, self)
        straight = newton.direction(self, 0.0, None)
        length = self._length(straight)
        now, then = self.complementarity, self._along(straight, length).complementarity
        center = now * min(max(then / now, 0.0) ** 3, 1.0)
        direction = newton.direction(self, center, straight)
        length = self._length(direction)
        return self._along(direction, min((_SHORT + (_LONG - _SHORT) * length) * length, 1.0))

    def _along(self, direction: "_State", length: float) -> "_State":
        return _State(
            self.multipliers + length * direction.multipliers,
            self.slacks + length * direction.slacks,
            self.levels + length * direction.levels,
            self.cones + length * direction.cones,
            self.threshold + length * direction.threshold,
        )

    def _length(self, direction: "_State") -> float:
        """How far until a cone is left, at most 1."""
        inverse = np.linalg.inv(np.linalg.cholesky(self.cones))
        relative = inverse @ direction.cones @ inverse.transpose(0, 2, 1)
        fastest = -float(eigvalsh(relative)[:, 0].min())
        if not (self.multipliers.all() and self.slacks.all()):
            raise np.linalg.LinAlgError("rounding has left a cone")
        fastest = max(fastest, -float((direction.multipliers / self.multipliers).min()))
        fastest = max(fastest, -float((direction.slacks / self.slacks).min()))
        return 1 / max(fastest, 1.0)


@dataclass(frozen=True, eq=False)
class _NewtonSystem:
    """The linear equations of a step, with the slacks eliminated, as LU factors."""

    program: SpectralProgram
    inverses: FloatArray
    factors: tuple[FloatArray, npt.NDArray[np.int32]]

    @classmethod
    def at(cls, program: SpectralProgram, state: _State) -> "_NewtonSystem":
        n, r = program.matrices.shape[:2]
        inverses = np.asarray(np.linalg.inv(state.cones[:2]), dtype=np.float64)
        q, sums = r * r, program.blocks.membership(n)
        system = np.zeros((q + n + 1 + len(sums), q + n + 1 + len(sums)))
        for inverse, dual in zip(inverses, state.cones[2:], strict=True):
            system[:q, :q] += _symmetric_kron(inverse, dual)
        flat = program.matrices.reshape(n, q)
        system[:q, q : q + n], system[q : q + n, :q] = -flat.T, -flat
        system[q : q + n, q : q + n] = -program.curvature
        diagonal = np.arange(q, q + n)
        system[diagonal, diagonal] -= state.slacks / state.multipliers
        identity = np.eye(r).ravel()
        system[:q, q + n] = system[q + n, :q] = identity
        system[q : q + n, q + n + 1 :], system[q + n + 1 :, q : q + n] = -sums.T, -sums
        factors, pivots, failed = scipy.linalg.lapack.dgetrf(system)
        if failed:
            raise np.linalg.LinAlgError("the linear equations of a step are singular")
        return cls(program, inverses, (factors, pivots))

    def direction(self, state: _State, center: float, straight: _State | None) -> _State:
        """Towards products of `center`; `straight` says what the equations leave out."""
        n, r = self.program.matrices.shape[:2]
        q, inverses, blocks = r * r, self.inverses, self.program.blocks
        wanted, slacks = center * inverses, center / state.multipliers
        if straight is not None:
            wanted = wanted - _symmetric(inverses @ straight.cones[:2] @ straight.cones[2:])
            slacks = slacks - straight.multipliers * straight.slacks / state.multipliers
        mixed = np.tensordot(state.multipliers, self.program.matrices, axes=1)
        first = wanted[0] - wanted[1] - state.threshold * np.eye(r) + mixed
        gains = _gains(self.program, state.multipliers, state.shares)
        second = state.levels[blocks.of(n)] - gains - slacks
        traces = [self.program.rank - float(np.trace(state.shares))]
        sums = blocks.sums(state.multipliers) - 1
        right = np.concatenate([first.ravel(), second, traces, sums])
        solved = scipy.linalg.lu_solve(self.factors, right, check_finite=False)
        shares = solved[:q].reshape(r, r)
        shares, multipliers = (shares + shares.T) / 2, solved[q : q + n]
        primal = np.array([shares, -shares])
        dual = wanted - state.cones[2:] - _symmetric(inverses @ primal @ state.cones[2:])
        slacks = slacks - state.slacks - state.slacks / state.multipliers * multipliers
        cones = np.concatenate([primal, dual])
        return _State(multipliers, slacks, solved[q + n + 1 :], cones, solved[q + n])


def _gains(program: SpectralProgram, multipliers: FloatArray, shares: FloatArray) -> FloatArray:
    """What each multiplier would gain: s - W(m - c) - <C, Y>."""
    held = program.matrices.reshape(len(multipliers), -1) @ shares.ravel()
    return np.asarray(program.slopes - program.curvature @ (multipliers - program.center) - held)


def _symmetric(matrices: FloatArray) -> FloatArray:
    return np.asarray((matrices + matrices.transpose(0, 2, 1)) / 2)


def _symmetric_kron(left: FloatArray, right: FloatArray) -> FloatArray:
    """The map from D to (LDR + RDL) / 2, of matrices written row by row."""
    product = np.einsum("ik,jl->ijkl", left, right)
    both = (product + product.transpose(1, 0, 3, 2)) / 2
    return np.asarray(both.reshape(left.size, right.size))
