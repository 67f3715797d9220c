"""Simulation of a group's loss from moments: normal rows with a given second moment.

Rows with heavy tails, weights or clusters carry less information than as many independent normal
rows, so the number of simulated rows is chosen to reproduce the observed variation between folds.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.auditing.loss_statistics import excess_loss
from fairspan.linalg import normalize_signs
from fairspan.linalg.wishart import draw_wishart_factors
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class NormalRows:
    """Normal rows of a null hypothesis.

    Attributes
    ----------
    second_moment : (p, p) array
        In a basis that begins with that of the model.
    n : float
        Number of rows; need not be an integer.
    d : int
        Dimension of the model.
    """

    second_moment: FloatArray
    n: float
    d: int

    def draw_losses(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw second moments of n rows, and return the losses of the first d axes, (n_draws,)."""
        values, vectors = np.linalg.eigh(self.second_moment)
        # Signs of eigenvectors differ between processors, and draws must not.
        root = normalize_signs(vectors) * np.sqrt(np.maximum(values, 0.0))
        # Factors L of the drawn second moments L L'.
        factors = root @ wishart_factors(rng, n_draws, self.n, len(root))
        return excess_loss(factors @ factors.swapaxes(1, 2), self.d)


def wishart_factors(rng: np.random.Generator, draws: int, n: float, p: int) -> FloatArray:
    """Draw matrices L such that L L' is the second moment of n standard normal rows in p features.

    The Bartlett decomposition is used if n > p; otherwise L is the rows themselves, transposed,
    with n rounded.
    """
    if n <= p:
        rows = max(round(n), 1)
        return np.asarray(rng.normal(size=(draws, p, rows)) / np.sqrt(rows))
    return np.asarray(draw_wishart_factors(rng, draws, n, p) / np.sqrt(n))


def effective_sample_size(
    second_moment: FloatArray, moments_by_fold: FloatArray, shares: FloatArray, d: int, n: float
) -> float:
    """Return the number of normal rows that vary between folds as much as n rows do.

    S is the second moment in a basis that begins with the d axes of the model, S_f that of fold f
    of K, s_f the share of its weight. In the axes in which both diagonal blocks of S are diagonal,
    with variances a_i in the model and b_j in the complement, v_ij = K / (K - 1) sum_f s_f^2
    (S_f - S)_ij^2 estimates the variance of S_ij, which for n normal rows is a_i b_j / n, and
    2 b_j^2 / n on the diagonal. The result is the smallest of n and of three numbers of rows:

    - (sum a_i b_j + S_ij^2) / sum v_ij, over all pairs of an axis of the model and one of the
      complement. Its largest terms are those of large variances.
    - (sum a_i b_j / g_ij) / (sum v_ij / g_ij), with the gap g_ij = a_i - b_j. The same with the
      weights that pairs have in the loss, which for nearly tied ones are large. Gaps are at least
      the standard deviation of S_ij, below which they cannot be told from ties.
    - 2 sum b_j^2 / sum v_jj over the complement: tails of its coordinates alone.

    Parameters
    ----------
    second_moment : (p, p) array
    moments_by_fold : (K, p, p) array
        S_f.
    shares : (K,) array
        s_f; zero for folds without rows.
    d : int
        Dimension of the model.
    n : float
        Number of rows.
    """
    kept_variances, kept_axes = np.linalg.eigh(second_moment[:d, :d])
    residual_variances, residual_axes = np.linalg.eigh(second_moment[d:, d:])
    kept_variances = np.maximum(kept_variances, 0.0)
    residual_variances = np.maximum(residual_variances, 0.0)
    deviations = shares[:, None, None] * (moments_by_fold - second_moment)
    n_folds = int((shares > 0).sum())
    correction = n_folds / max(n_folds - 1, 1)
    cross_deviations = kept_axes.T @ deviations[:, :d, d:] @ residual_axes
    cross_variances = correction * (cross_deviations**2).sum(axis=0)
    products = np.outer(kept_variances, residual_variances)
    cross_block_squared = float((second_moment[:d, d:] ** 2).sum())
    n_unweighted = _ratio(float(products.sum()) + cross_block_squared, float(cross_variances.sum()))
    min_gaps = np.sqrt(products / min(n, n_unweighted))
    gaps = np.maximum(kept_variances[:, None] - residual_variances, min_gaps)
    # Gaps are zero only for directions without variance, which have no part in the loss.
    inverse_gaps = np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps > 0)
    n_weighted = _ratio(
        float((products * inverse_gaps).sum()), float((cross_variances * inverse_gaps).sum())
    )
    diagonal_deviations = np.einsum(
        "ij,fik,kj->fj", residual_axes, deviations[:, d:, d:], residual_axes, optimize=True
    )
    n_residual = _ratio(
        2 * float((residual_variances**2).sum()),
        correction * float((diagonal_deviations**2).sum()),
    )
    return min(n, n_unweighted, n_weighted, n_residual)


def _ratio(expected: float, observed: float) -> float:
    """Quotient of two variances; infinite if nothing varies."""
    return expected / observed if observed > 0 else np.inf
