"""A finite Lipschitz constant, and the distance from stationarity: Vu et al. (2022)."""

from typing import cast

import numpy as np

from fairspan.linalg.rounding import FIGURE_ROUNDING
from fairspan.problem.criteria.error_gap import ErrorGap
from fairspan.problem.problem import Problem
from fairspan.solvers.convex_programs import minimize_on_simplex
from fairspan.solvers.published.riemannian import horizontal_projection
from fairspan.typing import FloatArray


def lipschitz_constant(problem: Problem) -> float:
    """L such that |F(U) - F(U')| <= L |U - U'| and |grad F(U)| <= L, Frobenius norms.

    Takes the place of equation (9) of Vu et al. (2022), which divides by the smallest eigenvalue of
    each S_g and so is infinite for a group of less than full rank.

    Parameters
    ----------
    problem : Problem
        With the criterion 'error_gap' or 'robust_error_gap'.

    Returns
    -------
    float
        L, in squared units of the features; for F of equation (6) as for the criterion.

    Notes
    -----
    A score is <C, UU'> + sum_g theta_g sqrt(e_g), C = sum_g v_g S_g, theta_g = 2 |v_g| sqrt(eps_g).
    sqrt(e_g) = |S_g^(1/2) U| changes by at most sqrt(max eig S_g) |U - U'|. UU' - U'U'' has trace
    zero and eigenvalues +- sin of the at most r = min(d, p - d) principal angles, so that C changes
    by at most (max eig C - min eig C) sqrt(r) |U - U'|. Together::

        L = max over pairs of  sum_g theta_g sqrt(max eig S_g) + sqrt(r) (max eig C - min eig C)

    Where a group with v_g < 0 has an error near its radius, the criterion weighs it by a share of
    v_g; the spread of C is convex in that share, hence largest at 0 or 1. Both are looked at.
    """
    second = problem.second_moments
    criterion = cast(ErrorGap, problem.criterion)

    def largest(weights: FloatArray) -> float:
        return float(second.leading(weights, 1).eigenvalues[0])

    def spread(weights: FloatArray) -> float:
        return largest(weights) + largest(-weights)

    # Singular second moments may have a largest eigenvalue of minus rounding.
    roots = np.sqrt([max(largest(alone), 0.0) for alone in np.eye(problem.n_groups)])
    radii = np.sqrt(criterion.radii(problem))
    rank = min(problem.n_components, problem.n_features - problem.n_components)
    return max(
        float(2 * np.abs(v) @ (radii * roots))
        + float(np.sqrt(rank)) * max(spread(v), spread(np.maximum(v, 0.0)))
        for v in np.unique(criterion.pair_weights(problem), axis=0)
    )


def stationarity(problem: Problem, basis: FloatArray) -> float:
    """Return the distance of a subspace from stationarity; zero where no direction leads downhill.

    Vu et al. (2022) measure gap_mu(U) = |prox_mu F(U) - U| / mu with mu = 1 / (4 L), a minimization
    over all subspaces. This is the same with the scores made linear at V,
    X* = argmin over tangent X of max_i (F_i + <grad F_i, X>) + |X|^2 / (2 mu), and |X*| / mu. It is
    the gradient's length where one score is largest by far, and the length of the shortest
    subgradient where several are equal; unlike these it does not jump in between.

    Parameters
    ----------
    problem : Problem
        With the criterion 'error_gap' or 'robust_error_gap'.
    basis : (p, d) array
        Orthonormal columns.

    Returns
    -------
    float
        At most L of :func:`lipschitz_constant`, in squared units of the features.
    """
    steepest = lipschitz_constant(problem)
    if steepest == 0:
        return 0.0
    criterion = problem.criterion
    errors = problem.errors(basis)
    slopes = criterion.score_gradients(
        np.maximum(errors, FIGURE_ROUNDING * problem.second_moments.traces), problem
    )
    images = problem.second_moments.apply(basis)
    gradients = horizontal_projection(basis, -2 * np.tensordot(slopes, images, axes=1))
    factor = gradients.reshape(len(gradients), -1) / np.sqrt(4 * steepest)
    # The dual of the problem above: weights of the scores.
    shares = minimize_on_simplex(factor, -criterion.scores(errors, problem))
    return float(np.linalg.norm(np.tensordot(shares, gradients, axes=1)))
