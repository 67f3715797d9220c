"""Local ascent to subspaces that respect a limit on the difference of two covariances.

A local maximum of tr(V'SV), over V with d orthonormal columns, subject to ||V'DV|| <= tau is found
by an augmented Lagrangian method with a (d, d) multiplier, and made feasible by Newton steps. S and
D are symmetric (p, p) matrices, and the norm is the spectral norm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from fairspan.linalg import leading_subspace
from fairspan.linalg.rounding import TINY
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class _AscentLimits:
    """Tolerances and limits of the ascents.

    Attributes
    ----------
    feasibility_tol : float
        Violation of the limit that counts as none, relative to ||D||.
    newton_start_tol : float
        Violation from which Newton steps remove the rest, relative to ||D||: they square it.
    value_tol : float
        Relative change below which the objective counts as converged.
    initial_penalty : float
        Penalty at the start, for a second moment and a difference of norm one.
    max_penalty : float
        Largest penalty; beyond, it would swamp the digits of the objective.
    max_multiplier_updates : int
        Updates of the multiplier; about ten are common.
    max_newton_steps : int
        Newton steps towards the limit, which converge quadratically.
    max_ascent_steps : int
        L-BFGS steps per multiplier update; 100 give no better result in twice the time.
    min_ascent_change : float
        Relative change of the augmented Lagrangian, whose terms are of size one, below which L-BFGS
        stops.
    min_ascent_slope : float
        Largest entry of its gradient below which L-BFGS stops.
    max_multistart_features : int
        Number of features up to which several starts are used: an ascent takes a second for 200
        features, a minute for 2,000.
    max_random_start_features : int
        Number of features up to which random starts (with a fixed seed) are added, since ascents
        end in many local maxima.
    n_random_starts : int
        Number of random starts.
    """

    feasibility_tol: float = 1e-9
    newton_start_tol: float = 1e-6
    value_tol: float = 1e-5
    initial_penalty: float = 10.0
    max_penalty: float = 1e6
    max_multiplier_updates: int = 60
    max_newton_steps: int = 8
    max_ascent_steps: int = 40
    min_ascent_change: float = 1e-13
    min_ascent_slope: float = 1e-9
    max_multistart_features: int = 200
    max_random_start_features: int = 60
    n_random_starts: int = 12


_LIMITS = _AscentLimits()


def best_feasible_subspace(
    second_moment: FloatArray, difference: FloatArray, tau: float, starts: Sequence[FloatArray]
) -> FloatArray:
    """Best feasible subspace found, by local ascents and a direct construction.

    A subspace with orthonormal basis V is feasible if the spectral norm of V'DV is at most tau. The
    best one has the largest tr(V'SV).

    Parameters
    ----------
    second_moment, difference : (p, p) arrays
        S and D.
    tau : float
        Limit on the norm, for which a feasible subspace exists.
    starts : sequence of (p, d) arrays
        Bases from which the ascents start, best guess first. Only this one is used for many
        features, where ascents take long; for fewer features the others and the direct solution are
        used too, and random bases for even fewer.

    Returns
    -------
    (p, d) array
        Basis of the best subspace found. The direct construction is feasible, so there always is
        one.
    """
    p = len(second_moment)
    d = starts[0].shape[1]
    # Every subspace of its span is feasible, so the direct solution is the best one in it.
    feasible_basis = _feasible_directions(difference, tau)
    compressed = feasible_basis.T @ second_moment @ feasible_basis
    direct_solution = feasible_basis @ leading_subspace(compressed, d).vectors
    threshold = tau + _LIMITS.feasibility_tol * _spectral_norm(difference)
    ascent_starts = list(starts[:1])
    if p <= _LIMITS.max_multistart_features:
        ascent_starts = [*starts, direct_solution]
    if p <= _LIMITS.max_random_start_features:
        rng = np.random.default_rng(0)
        random_starts = rng.standard_normal((_LIMITS.n_random_starts, *direct_solution.shape))
        ascent_starts += list(np.linalg.qr(random_starts)[0])
    maxima = [local_ascent(second_moment, difference, tau, start) for start in ascent_starts]
    # An ascent may end slightly beyond the limit.
    feasible = [V for V in maxima if _spectral_norm(V.T @ difference @ V) <= threshold]
    return max(
        [direct_solution, *feasible], key=lambda basis: float(np.vdot(basis, second_moment @ basis))
    )


def _spectral_norm(symmetric: FloatArray) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())


def _feasible_directions(difference: FloatArray, tau: float) -> FloatArray:
    """Orthonormal (p, m) matrix W, such that every subspace of its span is feasible.

    W'DW is diagonal and within the limit. Eigenvectors of D within the limit are kept; those beyond
    it are combined in pairs of opposite sign, such that the value of each pair is zero.
    """
    values, vectors = np.linalg.eigh(difference)
    inside = np.abs(values) <= tau + _LIMITS.feasibility_tol * np.abs(values).max()
    # Positions of the eigenvalues beyond the limit, those of largest magnitude first.
    below = np.flatnonzero(~inside & (values < 0))
    above = np.flatnonzero(~inside & (values > 0))[::-1]
    n_pairs = min(len(below), len(above))
    low = below[:n_pairs]
    high = above[:n_pairs]
    # With fractions a and 1 - a of two eigenvectors the value is a low + (1 - a) high, here zero.
    low_fraction = values[high] / (values[high] - values[low])
    pairs = vectors[:, low] * np.sqrt(low_fraction) + vectors[:, high] * np.sqrt(1 - low_fraction)
    return np.hstack([vectors[:, inside], pairs])


def local_ascent(
    second_moment: FloatArray, difference: FloatArray, tau: float, start: FloatArray
) -> FloatArray:
    """Local maximum V of tr(V'SV) subject to ||V'DV|| <= tau, from a (p, d) start, same shape.

    S is the second moment, D the difference, both (p, p), and the norm is the spectral norm. V and
    the start have orthonormal columns. Each round minimizes the augmented Lagrangian for a fixed
    multiplier, then updates the multiplier, and raises the penalty if the violation of the limit
    has not fallen to a quarter. At the end Newton steps remove what violation is left; the result
    may still violate the limit, which the caller checks.
    """
    moment_norm = _spectral_norm(second_moment) or 1.0
    difference_norm = _spectral_norm(difference)
    second_moment = second_moment / moment_norm
    difference = difference / difference_norm
    tau = tau / difference_norm
    basis = start
    penalty = _LIMITS.initial_penalty
    previous_violation = np.inf
    variance = -np.inf
    multiplier = np.zeros((basis.shape[1],) * 2)
    for _ in range(_LIMITS.max_multiplier_updates):
        lagrangian = _AugmentedLagrangian(
            second_moment, difference, tau, basis, multiplier, penalty
        )
        minimum = scipy.optimize.minimize(
            lagrangian.value_and_gradient,
            basis.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": _LIMITS.max_ascent_steps,
                "ftol": _LIMITS.min_ascent_change,
                "gtol": _LIMITS.min_ascent_slope,
            },
        )
        basis = np.linalg.qr(minimum.x.reshape(basis.shape))[0]
        compressed = basis.T @ difference @ basis
        multiplier = lagrangian.next_multiplier(basis, compressed)
        violation = float(np.linalg.norm(_soft_threshold(compressed, tau), 2))
        previous_variance = variance
        variance = float(np.vdot(basis, second_moment @ basis))
        # A feasible subspace is not a maximum while its value still changes.
        is_converged = abs(variance - previous_variance) <= _LIMITS.value_tol * variance
        if violation < _LIMITS.newton_start_tol and is_converged:
            break
        if violation > previous_violation / 4:
            penalty = min(4 * penalty, _LIMITS.max_penalty)
        previous_violation = violation
    return _restore_feasibility(basis, difference, tau)


def _restore_feasibility(basis: FloatArray, difference: FloatArray, tau: float) -> FloatArray:
    """Take Newton steps V - N Z until ||V'DV|| <= tau, or a maximum number of steps is used up.

    V is the (p, d) orthonormal basis, D the (p, p) difference and the norm the spectral norm. The
    result has orthonormal columns; it may still exceed the limit, which the caller checks.

    Here N = (I - VV')DV is the direction in which V'DV changes fastest, and the (d, d) matrix Z
    solves N'N Z + Z N'N = E, where E is the excess of V'DV over the limit (its soft-thresholded
    eigenvalues): to first order the step subtracts E from V'DV.
    """
    for _ in range(_LIMITS.max_newton_steps):
        image = difference @ basis
        compressed = basis.T @ image
        excess = _soft_threshold(compressed, tau)
        if not excess.any():
            break
        normal = image - basis @ compressed
        values, axes = np.linalg.eigh(normal.T @ normal)
        # The solution divides by sums of eigenvalues of N'N, which may be zero.
        sums = np.maximum(values[:, None] + values, TINY)
        step = axes @ (axes.T @ excess @ axes / sums) @ axes.T
        basis = np.linalg.qr(basis - normal @ step)[0]
    return basis


def _soft_threshold(matrix: FloatArray, tau: float) -> FloatArray:
    """Move the eigenvalues of a symmetric matrix towards zero by tau, those within tau to zero."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    reduced_values = np.sign(values) * np.maximum(np.abs(values) - tau, 0.0)
    return np.asarray((axes * reduced_values) @ axes.T)


@dataclass(frozen=True, eq=False)
class _AugmentedLagrangian:
    """Augmented Lagrangian -tr(V'SV) + |E|_F^2 / (2 penalty) of the limit ||V'DV|| <= tau.

    E is multiplier + penalty * V'DV with its eigenvalues soft-thresholded by penalty * tau: it
    vanishes where the limit holds with slack.

    Attributes
    ----------
    second_moment, difference : (p, p) arrays
        S and D.
    tau : float
        Limit on the spectral norm.
    reference : (p, d) array
        Basis that the multiplier refers to. It is rotated to V, since V may be any basis of its
        subspace.
    multiplier : (d, d) array
    penalty : float
    """

    second_moment: FloatArray
    difference: FloatArray
    tau: float
    reference: FloatArray
    multiplier: FloatArray
    penalty: float

    def value_and_gradient(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the value, to be minimized, and its gradient with respect to the (p d,) vector x.

        V is the Q factor of x, reshaped to (p, d).
        """
        reference = self.reference
        penalty = self.penalty
        basis, triangle = np.linalg.qr(x.reshape(reference.shape))
        moment_image = self.second_moment @ basis
        difference_image = self.difference @ basis
        rotation = reference.T @ basis
        rotated_multiplier = rotation.T @ self.multiplier @ rotation
        excess = _soft_threshold(
            rotated_multiplier + penalty * (basis.T @ difference_image), penalty * self.tau
        )
        penalty_term = float(np.vdot(excess, excess)) / (2 * penalty)
        value = -float(np.vdot(basis, moment_image)) + penalty_term
        # Half the derivative of the thresholded matrix, in V: that of V'DV, and that of the
        # rotation.
        constraint_slope = reference @ (self.multiplier @ rotation) + penalty * difference_image
        gradient = -2 * moment_image + 2 / penalty * constraint_slope @ excess
        # The value depends on the subspace of V only. Its gradient with respect to x = VR is then
        # the part orthogonal to V, times the inverse of R'.
        gradient -= basis @ (basis.T @ gradient)
        return value, np.linalg.solve(triangle, gradient.T).T.ravel()

    def next_multiplier(self, basis: FloatArray, compressed: FloatArray) -> FloatArray:
        """Return the multiplier after a minimization, which refers to the (p, d) basis V found.

        `compressed` is V'DV.
        """
        rotation = basis.T @ self.reference
        rotated_multiplier = rotation @ self.multiplier @ rotation.T
        return _soft_threshold(
            rotated_multiplier + self.penalty * compressed, self.penalty * self.tau
        )
