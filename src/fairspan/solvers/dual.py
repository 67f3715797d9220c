"""The dual of a piecewise linear criterion: one eigenproblem gives a bound and an atom.

The relaxed problem minimises max_i (A_i.e(P) - b_i) over 0 <= P <= I, tr P = d, where
e_g(P) = tr S_g - <S_g, P>. With R = A.(tr S) - b its dual maximises
D(m) = m.R - t_d(sum_g w_g S_g), w = A'm, over the simplex. D is concave; the pieces at the leading
eigenvectors of the mixture are a supergradient.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.certificate import mixture_bound
from fairspan.solvers.simplex_program import least_on_simplex

FloatArray = npt.NDArray[np.float64]

# A gap at eigenvalue d below this share of the largest eigenvalue counts as none.
_NO_GAP = 1e-12


@dataclass(frozen=True, eq=False)
class Atom:
    """A subspace, and the variance of each group that it captures.

    Attributes
    ----------
    basis : (p, d) array
    captured : (k,) array
    """

    basis: FloatArray
    captured: FloatArray


@dataclass(frozen=True, eq=False)
class DualPoint:
    """The dual at one point.

    Attributes
    ----------
    multipliers : (m,) array
        On the simplex.
    bound : float
        D(m): no subspace, and no relaxed one, has a smaller value.
    atom : Atom
        Leading eigenvectors of the mixture.
    """

    multipliers: FloatArray
    bound: float
    atom: Atom


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
        self.second_moments = problem.second_moments
        self.n_components = problem.n_components
        self.coefficients = pieces.coefficients
        self.references = pieces.references(self.second_moments.traces)
        self.n_eigenproblems = 0

    def weights(self, multipliers: FloatArray) -> FloatArray:
        """w = A'm, shape (k,)."""
        return np.asarray(multipliers @ self.coefficients)

    def pieces_at(self, captured: FloatArray) -> FloatArray:
        """Values of the pieces at (..., k) captured variances, shape (..., m)."""
        return np.asarray(self.references - captured @ self.coefficients.T)

    def atom(self, basis: FloatArray) -> Atom:
        """A subspace as an atom."""
        return Atom(basis, self.second_moments.captured_variances(basis))

    def at(self, multipliers: FloatArray) -> DualPoint:
        """Evaluate: one eigenproblem."""
        multipliers = on_simplex(multipliers)
        weights = self.weights(multipliers)
        leading = self.second_moments.leading(weights, self.n_components)
        self.n_eigenproblems += 1
        bound = mixture_bound(self.references, multipliers, leading.top_eigenvalue_sum)
        return DualPoint(multipliers, bound, self.atom(leading.vectors))

    def newton(self, multipliers: FloatArray) -> tuple[DualPoint, FloatArray | None]:
        """Evaluate, and maximise the second-order model of the dual over the simplex.

        One eigenproblem, for all eigenvectors: with eigenvalues a_j of the d leading ones v_j and
        b_i of the others u_i, the Hessian of t_d in w is
        2 sum_(j, i) (v_j'S_g u_i)(v_j'S_h u_i) / (a_j - b_i). Without a gap at eigenvalue d there
        is no Hessian, and the second value is None.
        """
        second, d = self.second_moments, self.n_components
        multipliers = on_simplex(multipliers)
        spectrum = second.leading(self.weights(multipliers), second.n_features)
        self.n_eigenproblems += 1
        values, vectors = spectrum.eigenvalues, spectrum.vectors
        bound = mixture_bound(self.references, multipliers, float(values[:d].sum()))
        point = DualPoint(multipliers, bound, self.atom(vectors[:, :d]))
        gaps = values[:d, None] - values[None, d:]
        if gaps.size == 0 or gaps.min() <= _NO_GAP * np.abs(values).max():
            return point, None
        mixed = np.einsum("gpd,pi->gdi", second.applied(vectors[:, :d]), vectors[:, d:])
        curvature = 2 * np.einsum("gdi,hdi->gh", mixed, mixed / gaps)
        quadratic = self.coefficients @ curvature @ self.coefficients.T
        slope = self.pieces_at(point.atom.captured)
        return point, least_on_simplex(quadratic, -slope - quadratic @ multipliers)


def on_simplex(multipliers: FloatArray) -> FloatArray:
    """Not negative and summing to one, without which they prove nothing."""
    positive = np.maximum(multipliers, 0.0)
    return np.asarray(positive / positive.sum())
