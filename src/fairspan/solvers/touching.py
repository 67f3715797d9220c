"""Two groups: where the supporting line of one mixture touches the boundary of the trade-off.

One eigenproblem gives the point, and where the whole decomposition is at hand, how the point moves:
as the mixture M turns into M + h G, the leading eigenvectors V turn to first order into V + h U X,
U the other eigenvectors and x_ij = (u_i'G v_j) / (a_j - b_i). So tr(V'GV) rises by
2 h sum_ij (u_i'G v_j)^2 / (a_j - b_i), and the subspace of the nearby mixture is known with an
eigenvalue sum that is short by a term of order h^4 only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import SecondMoments
from fairspan.problem.spectrum import Spectra, Spectrum, mixture_of

FloatArray = npt.NDArray[np.float64]

# Bases turned by less than this are orthonormal to rounding after two terms of the inverse root.
SMALL_TURN = 2e-3


@dataclass(frozen=True, eq=False)
class Turning:
    """How the leading subspace moves with the weights.

    Attributes
    ----------
    drift : (p, d) array
        UX.
    squares : (d, d) array
        X'X.
    size : float
        Frobenius norm of X.
    """

    drift: FloatArray
    squares: FloatArray
    size: float

    def angle(self, step: float) -> float:
        """How far a step turns the basis; up to SMALL_TURN the turned basis is orthonormal."""
        return abs(step) * self.size

    def basis_at(self, basis: FloatArray, step: float) -> FloatArray:
        """(V + h UX) (I + h^2 X'X)^(-1/2)."""
        square = step * step * self.squares
        shrink = 0.375 * (square @ square) - 0.5 * square
        turned = basis + step * self.drift
        return np.asarray(turned + turned @ shrink)


@dataclass(frozen=True, eq=False)
class Touch:
    """The leading subspace of the mixture at a weight.

    Attributes
    ----------
    weight : float
        t.
    top_sum : float
        t_d of the mixture.
    captured : tuple of 2 floats
        Of the mixtures at the start and at the end of the segment, by the basis.
    basis : (p, d) array
    curvature : float or None
        Second derivative of t_d in t; None at a tie, or where it is not known.
    tied : LeadingSubspace or None
        All that is known of the leading subspaces, if there is a tie.
    """

    weight: float
    top_sum: float
    captured: tuple[float, float]
    basis: FloatArray
    curvature: float | None = None
    tied: LeadingSubspace | None = None
    others: FloatArray | None = None
    quotients: FloatArray | None = None

    def turning(self) -> Turning | None:
        """How the basis moves; None where that is not known."""
        if self.others is None or self.quotients is None:
            return None
        squares = self.quotients.T @ self.quotients
        size = float(np.sqrt(np.trace(squares)))
        return Turning(self.others @ self.quotients, squares, size)


class Segment:
    """Mixtures with the weights (1 - t) w(0) + t w(1).

    Parameters
    ----------
    spectra : Spectra
        Of two groups.
    n_components : int
    ends : two (2,) arrays
        w(0) and w(1).
    """

    def __init__(
        self, spectra: Spectra, n_components: int, ends: tuple[FloatArray, FloatArray]
    ) -> None:
        self._spectra, self._d, self.ends = spectra, n_components, ends
        self._is_whole = spectra.are_whole(n_components)
        if self._is_whole:
            second = spectra.second_moments
            self._start, self._end = (mixture_of(second, weights) for weights in ends)
            self._change = self._end - self._start

    @property
    def second_moments(self) -> SecondMoments:
        """Of the groups."""
        return self._spectra.second_moments

    def weights(self, t: float) -> FloatArray:
        """Of the groups, at a weight t."""
        start, end = self.ends
        return np.asarray((1 - t) * start + t * end)

    def touch(self, t: float, tie_tolerance: float) -> Touch:
        """Solve the eigenproblem of the mixture at t."""
        if not self._is_whole:
            return self._touch_in_part(t, tie_tolerance)
        if t in (0.0, 1.0):
            spectrum = self._spectra.known(self.ends[int(t)])
        else:
            spectrum = Spectrum(*np.linalg.eigh((1 - t) * self._start + t * self._end))
        d, cut = self._d, len(self._start) - self._d
        values, vectors = spectrum.values, spectrum.vectors
        basis, others = vectors[:, cut:], vectors[:, :cut]
        top_sum = float(values[cut:].sum())
        image = self._change @ basis
        gained = float(np.vdot(basis, image))
        captured = top_sum - t * gained, top_sum + (1 - t) * gained
        if spectrum.gap(d) <= max(tie_tolerance, spectrum.rounding()):
            tied = spectrum.leading(d, tie_tolerance)
            return Touch(t, top_sum, captured, basis, tied=tied)
        coupling = others.T @ image
        quotients = coupling / (values[cut:] - values[:cut, None])
        curvature = 2 * float(np.vdot(coupling, quotients))
        return Touch(t, top_sum, captured, basis, curvature, None, others, quotients)

    def top_sum(self, t: float) -> float:
        """t_d of the mixture at t; only where all are decomposed as a whole."""
        values = np.linalg.eigvalsh((1 - t) * self._start + t * self._end)
        return float(values[len(values) - self._d :].sum())

    def captured(self, basis: FloatArray) -> tuple[float, float]:
        """Of the mixtures at the start and at the end, by a basis."""
        if self._is_whole:
            first = float(np.vdot(basis, self._start @ basis))
            return first, float(np.vdot(basis, self._end @ basis))
        captured = self.second_moments.captured_variances(basis)
        return float(self.ends[0] @ captured), float(self.ends[1] @ captured)

    def _touch_in_part(self, t: float, tie_tolerance: float) -> Touch:
        leading = self.second_moments.leading(self.weights(t), self._d, tie_tolerance)
        tied = leading if leading.is_tied else None
        captured = self.captured(leading.vectors)
        return Touch(t, leading.top_eigenvalue_sum, captured, leading.vectors, tied=tied)
