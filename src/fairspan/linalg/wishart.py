"""Random factors of Wishart matrices."""

import numpy as np

from fairspan.typing import FloatArray


def draw_wishart_factors(
    generator: np.random.Generator, n_draws: int, df: float, p: int
) -> FloatArray:
    """Draw lower triangular L, (n_draws, p, p), with LL' from the Wishart distribution W(I, df).

    Uses the Bartlett decomposition: entries below the diagonal are normal, and squares of diagonal
    entries are chi-squared with df, df - 1, ... degrees of freedom, at least one.

    Examples
    --------
    >>> draw_wishart_factors(np.random.default_rng(0), 5, 10.0, 3).shape
    (5, 3, 3)
    """
    lower = np.tril(generator.standard_normal((n_draws, p, p)), -1)
    chi_square_df = np.maximum(df - np.arange(p), 1.0)
    diagonal = np.sqrt(generator.chisquare(chi_square_df, size=(n_draws, p)))
    return np.asarray(lower + diagonal[:, :, None] * np.eye(p))
