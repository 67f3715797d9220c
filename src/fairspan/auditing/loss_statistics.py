"""Statistics of second moments for the loss test: excess loss, and eigenvalues without one."""

import numpy as np

from fairspan.typing import FloatArray


def excess_loss(second_moments: FloatArray, d: int) -> FloatArray:
    """In-sample loss of the first d axes: the d largest eigenvalues minus the variance along them.

    Parameters
    ----------
    second_moments : (..., p, p) array
    d : int

    Returns
    -------
    (...) array
    """
    model_variance = np.einsum("...ii->...i", second_moments)[..., :d].sum(axis=-1)
    return np.asarray(np.linalg.eigvalsh(second_moments)[..., -d:].sum(axis=-1) - model_variance)


def null_spectra(second_moment: FloatArray, d: int, n: float) -> list[FloatArray]:
    """Eigenvalues under the null hypothesis that the first d axes are the best subspace.

    They are the eigenvalues of the two diagonal blocks of `second_moment`, corrected for n rows and
    made nonincreasing, so that no direction of the complement has more variance than one of the
    model. Those of the complement are shrunk toward their mean. Those of the model are so in the
    first spectrum, and corrected by pairs in the second: the first raises a small eigenvalue next
    to a large one, and so opens a gap to the complement that the rows do not have, while the second
    leaves gaps between eigenvalues that may be equal.

    Parameters
    ----------
    second_moment : (p, p) array
    d : int
    n : float
        Number of rows.

    Returns
    -------
    list of two (p,) arrays
    """
    model_values, complement_values = (
        np.asarray(np.linalg.eigvalsh(block)[::-1], dtype=np.float64)
        for block in (second_moment[:d, :d], second_moment[d:, d:])
    )
    shrunk_complement = shrink_eigenvalues(complement_values, n)
    return [
        isotonic_decreasing(np.concatenate([corrected, shrunk_complement]))
        for corrected in (shrink_eigenvalues(model_values, n), correct_eigenvalues(model_values, n))
    ]


def correct_eigenvalues(values: FloatArray, n: float) -> FloatArray:
    """Subtract the bias by which eigenvalues of n rows repel each other, pair by pair.

    To first order, eigenvalue i is too large by sum_j l_i l_j / (n (l_i - l_j)) (Lawley 1956, Tests
    of Significance for the Latent Roots of Covariance and Correlation Matrices, Biometrika 43).
    Differences are at least sqrt(l_i l_j / n) here, below which the series does not converge. The
    corrections of a pair add up to zero, so the sum stays the same.

    Examples
    --------
    >>> correct_eigenvalues(np.array([4.0, 2.0]), 40.0).tolist()
    [3.9, 2.1]
    """
    values = np.maximum(values, 0.0)
    products = np.outer(values, values)
    differences = values[:, None] - values
    min_differences = np.sqrt(products / n)
    signs = np.sign(differences)
    differences = signs * np.maximum(np.abs(differences), min_differences)
    biases = np.divide(products, n * differences, out=np.zeros_like(products), where=signs != 0)
    return isotonic_decreasing(np.maximum(values - biases.sum(axis=1), 0.0))


def shrink_eigenvalues(values: FloatArray, n: float) -> FloatArray:
    """Shrink eigenvalues toward their mean: sample eigenvalues of n rows are overdispersed.

    Oracle approximating shrinkage (Chen, Wiesel, Eldar and Hero 2010, Shrinkage Algorithms for MMSE
    Covariance Estimation, IEEE Transactions on Signal Processing 58, equation 23), without its
    terms in 2 / p, as in scikit-learn.
    """
    p = len(values)
    total = float(values.sum())
    squares = float((values**2).sum())
    spread = (n + 1) * (squares - total**2 / p)
    share = min(1.0, (squares + total**2) / spread) if spread > 0 else 1.0
    return (1 - share) * values + share * total / p


def isotonic_decreasing(values: FloatArray) -> FloatArray:
    """Least-squares nonincreasing fit (isotonic regression).

    Min over a <= i of max over b >= i of mean(a..b).

    Examples
    --------
    >>> isotonic_decreasing(np.array([4.0, 1.0, 3.0])).tolist()
    [4.0, 2.0, 2.0]
    """
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    lengths = np.arange(1, n + 1) - np.arange(n)[:, None]
    means = np.where(lengths > 0, (sums[1:] - sums[:-1, None]) / np.maximum(lengths, 1), -np.inf)
    largest = np.maximum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.where(lengths > 0, largest, np.inf).min(axis=0))
