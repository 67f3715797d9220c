"""The dual of a piecewise linear criterion: one eigenproblem gives a bound and an atom.

The relaxed problem minimises max_i (A_i.e(P) - b_i) over 0 <= P <= I, tr P = d, where
e_g(P) = tr S_g - <S_g, P>; or a sum of such maxima over blocks of pieces. Its dual maximises
D(m) = L(sum_g w_g S_g) - m.b, w = A'm, L the sum of the p - d smallest eigenvalues, over
multipliers m on the simplex, one simplex for each block. D is concave; the pieces at the leading
eigenvectors V of the mixture are a supergradient, and D(m) is the sum of the pieces at V weighted
by m. So it is computed from errors, which do not cancel, and never from t_d.

Around one point the dual has a second-order model, exact where eigenvalue d is tied. Eigenvalues
near the cut may cross as the multipliers move, and there t_d has kinks. So r eigenvectors Q around
the cut are kept as a block: with those above it, V, and the rest U, t_d(M + E) = tr of V'(M + E)V +
t_j(Q'(M + E)Q) + second-order terms, j = d minus those in V. The second-order terms are sums of
squares of E's entries between V, Q and U over gaps of eigenvalues, weighted by the shares Y that
Q'(M + E)Q's leading eigenvectors have (Overton and Womersley 1995).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairspan.linalg import eigh, symmetric
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.programs import ModelProgram
from fairspan.typing import FloatArray

# Gaps of eigenvalues below this share of both are not divided by.
_NO_GAP = 1e-14
# Eigenvalues below this share of the largest may be rounding.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class Atom:
    """A subspace, or a soft one, and the variance of each group that it captures.

    Attributes
    ----------
    basis : (p, r) array
        P = BB': d orthonormal columns; of a soft one r > d orthogonal columns of length at most 1.
    errors : (k,) array
        e_g(P).
    """

    basis: FloatArray
    errors: FloatArray

    def leading(self, n_components: int) -> FloatArray:
        """The d longest columns, at unit length: leading eigenvectors of P, shape (p, d)."""
        if self.basis.shape[1] == n_components:
            return self.basis
        lengths = np.linalg.norm(self.basis, axis=0)
        longest = np.argsort(-lengths, kind="stable")[:n_components]
        return np.asarray(self.basis[:, longest] / lengths[longest])


@dataclass(frozen=True, eq=False)
class DualPoint:
    """The dual at one point.

    Attributes
    ----------
    multipliers : (m,) array
        On a simplex for each block.
    bound : float
        D(m): no subspace, and no relaxed one, has a smaller value.
    atom : Atom
        Leading eigenvectors of the mixture.
    """

    multipliers: FloatArray
    bound: float
    atom: Atom


@dataclass(frozen=True, eq=False)
class DualSpectrum:
    """The dual at one point, with all eigenvectors of the mixture.

    Attributes
    ----------
    multipliers : (m,) array
        On a simplex for each block.
    bound : float
        D(m).
    values : (p,) array
        Eigenvalues, largest first.
    vectors : (p, p) array
    """

    multipliers: FloatArray
    bound: float
    values: FloatArray
    vectors: FloatArray


class Dual:
    """The dual function of some pieces over the subspaces of a problem.

    Parameters
    ----------
    problem : Problem
        Its criterion is not looked at.
    pieces : Pieces

    Attributes
    ----------
    n_eigenproblems : int
        How many were solved so far.
    """

    def __init__(self, problem: Problem, pieces: Pieces) -> None:
        self.problem, self.second_moments = problem, problem.second_moments
        self.n_components = problem.n_components
        self.pieces, self.blocks = pieces, pieces.blocks
        self.coefficients, self.offsets = pieces.coefficients, pieces.offsets
        self.n_eigenproblems = 0

    def weights(self, multipliers: FloatArray) -> FloatArray:
        """w = A'm, shape (k,)."""
        return np.asarray(multipliers @ self.coefficients)

    def at(self, multipliers: FloatArray) -> DualPoint:
        """Evaluate: one eigenproblem."""
        multipliers = self.blocks.normalised(multipliers)
        leading = self.second_moments.leading(self.weights(multipliers), self.n_components)
        self.n_eigenproblems += 1
        atom = Atom(leading.vectors, self.second_moments.residual_variances(leading.vectors))
        return DualPoint(multipliers, float(multipliers @ self.pieces.at(atom.errors)), atom)

    def spectrum(self, multipliers: FloatArray) -> DualSpectrum:
        """Evaluate: one eigenproblem, for all eigenvectors."""
        multipliers = self.blocks.normalised(multipliers)
        weights, d = self.weights(multipliers), self.n_components
        whole = self.problem.dense.solved.spectrum(weights)
        self.n_eigenproblems += 1
        errors = self.second_moments.residual_variances(whole.vectors[:, :d])
        bound = float(multipliers @ self.pieces.at(errors))
        return DualSpectrum(multipliers, bound, whole.values, whole.vectors)


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
        """Errors of V alone, tr S_g - tr(V'S_gV), shape (k,)."""
        return self.dual.second_moments.residual_variances(self.center.vectors[:, : self.block[0]])

    @cached_property
    def _beyond(self) -> FloatArray:
        """Errors of V and Q together, shape (k,)."""
        return self.dual.second_moments.residual_variances(self.center.vectors[:, : self.block[1]])

    @cached_property
    def blocks(self) -> FloatArray:
        """Q'S_gQ, shape (k, r, r)."""
        low, high = self.block
        return symmetric(self.center.vectors[:, low:high].T @ self._images[:, :, low:high])

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
        # What Y leaves of the block, and not what it takes: a huge variance would not cancel.
        errors = self._beyond + np.tensordot(self.blocks, np.eye(high - low) - shares, axes=2)
        above, around = self.center.vectors[:, :low], self.center.vectors[:, low:high]
        if shares is self.hard:
            return Atom(self.center.vectors[:, : self.dual.n_components], errors)
        values, turn = eigh(shares)
        lengths = np.sqrt(np.clip(values[::-1], 0.0, 1.0))
        return Atom(np.hstack([above, (around @ turn[:, ::-1]) * lengths]), errors)

    def carried(self, other: "SpectralModel", shares: FloatArray) -> FloatArray:
        """Shares of another model's block, as this one's: the nearest in its own eigenvectors."""
        if not self.has_block:
            return self.hard
        (low, high), whole = self.block, other.block[0]
        overlap = self.center.vectors[:, low:high].T @ other.center.vectors[:, : other.block[1]]
        above, around = overlap[:, :whole], overlap[:, whole:]
        return self._feasible(above @ above.T + around @ shares @ around.T)

    def _feasible(self, shares: FloatArray) -> FloatArray:
        """The nearest matrix between 0 and I whose trace is the block's rank."""
        values, turn = eigh(shares)
        return np.asarray((turn * shares_summing_to(values, self.rank)) @ turn.T)

    def curvature_factor(self, shares: FloatArray) -> FloatArray:
        """F with FF' minus the dual's second derivative at these shares, shape (m, s)."""
        low, high = self.block
        values, vectors = self.center.values, self.center.vectors
        k, r = len(self._images), high - low
        sizes = np.abs(values[:high, None]) + np.abs(values[None, low:])
        least = _NO_GAP * np.maximum(sizes, _NOTHING * float(np.abs(values).max()))
        least = np.maximum(least, np.finfo(np.float64).tiny)
        across = self._images.transpose(0, 2, 1) @ vectors[:, low:]
        across /= np.sqrt(np.maximum(values[:high, None] - values[None, low:], least))
        parts = [across[:, :low, r:]]
        if self.has_block:
            share, turn = eigh(shares)
            share = np.clip(share, 0.0, 1.0)
            parts.append(across[:, :low, :r] @ (turn * np.sqrt(1 - share)))
            parts.append((turn * np.sqrt(share)).T @ across[:, low:, r:])
        flat = np.hstack([part.reshape(k, -1) for part in parts])
        # The second derivative of t_d in the groups' weights has sqrt(2) times this, (k, s).
        return np.asarray(self.dual.coefficients @ (np.sqrt(2) * flat))

    def best(self, factor: FloatArray, damping: float) -> tuple[FloatArray, FloatArray, float]:
        """Where the model is largest, the shares there, and by how much it exceeds the center.

        Parameters
        ----------
        factor : (m, s) array
            As of :meth:`curvature_factor`.
        damping : float
            Of the proximal term, damping |step|^2 / 2.
        """
        program = self.program(factor, damping)
        multipliers, shares = program.solve()
        promise = program.value(multipliers) - self.center.bound
        return multipliers, self._feasible(shares) if self.has_block else self.hard, promise

    def program(self, factor: FloatArray, damping: float = 0.0) -> ModelProgram:
        """The model, to be made as large as can be."""
        return ModelProgram(
            self.dual.pieces.at(self.fixed),
            factor,
            damping,
            self.center.multipliers,
            np.tensordot(self.dual.coefficients, self.blocks, axes=1),
            self.rank,
            self.dual.blocks,
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
    lows = range(max(0, d - most + 1), d)
    blocks = ((low, high) for low in lows for high in range(d + 1, min(p, low + most) + 1))
    return max(blocks, key=lambda block: min(gaps[block[0]], gaps[block[1]]))


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
    return np.asarray(np.clip(values + np.interp(total, sums, points), 0.0, 1.0))
