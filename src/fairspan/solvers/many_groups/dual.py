"""The dual of a piecewise linear criterion: one eigenproblem gives a bound and an atom.

The relaxed problem minimises max_i (A_i.e(P) - b_i) over 0 <= P <= I, tr P = d, where
e_g(P) = tr S_g - <S_g, P>; or a sum of such maxima over blocks of pieces. Its dual maximises
D(m) = L(sum_g w_g S_g) - m.b, w = A'm, L the sum of the p - d smallest eigenvalues, over
multipliers m on the simplex, one simplex for each block. D is concave; the pieces at the leading
eigenvectors V of the mixture are a supergradient, and D(m) is the sum of the pieces at V weighted
by m. So it is computed from errors, which do not cancel, and never from t_d.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray


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
        weights = self.weights(multipliers)
        leading = self.second_moments.leading(weights, self.n_components)
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
