"""Bootstrap of a group's loss under the null hypothesis that the model is its best subspace.

Under this hypothesis the coordinates of a row in the model are uncorrelated with those in the
complement, and no direction of the complement has more variance than one of the model. The rows are
changed so that they satisfy it: their coordinates are scaled to eigenvalues in this order, and the
signs of those in the complement are drawn at random. Tails, weights and dependence within clusters
stay those of the rows.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.auditing.loss_statistics import excess_loss
from fairspan.typing import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class NullRows:
    """Rows that satisfy the null hypothesis, summed over each independent unit.

    Attributes
    ----------
    products : (m, p, p) array
        Weighted sum of zz' over the rows z of each of m clusters, or of each row if rows are
        independent. The first d coordinates are those in the model.
    weights : (m,) array
        Sum of the weights of each unit.
    d : int
        Dimension of the model.
    """

    products: FloatArray
    weights: FloatArray
    d: int

    @classmethod
    def impose(
        cls,
        rows: FloatArray,
        weights: FloatArray,
        units: IndexArray,
        spectrum: FloatArray,
        d: int,
    ) -> "NullRows":
        """Change the rows of a group so that their second moment satisfies the null hypothesis.

        Parameters
        ----------
        rows : (n, p) array
            Coordinates in a basis that begins with that of the model.
        weights : (n,) array
        units : (n,) array of int
            Number of each row's cluster, from 0; all different if rows are independent.
        spectrum : (p,) array
            Eigenvalues of the second moment of the changed rows, first those of the model.
        d : int
            Dimension of the model.
        """
        n, p = rows.shape
        second_moment = weighted_second_moment(rows, weights)
        scaled = np.empty_like(rows)
        for block in (slice(0, d), slice(d, p)):
            values, vectors = np.linalg.eigh(second_moment[block, block])
            # Eigenvalues are in ascending order, those of the spectrum in descending order.
            axes = vectors[:, ::-1]
            factors = _scale_factors(values[::-1], spectrum[block])
            scaled[:, block] = rows[:, block] @ (axes * factors)
        order = np.argsort(units, kind="stable")
        first_rows = np.flatnonzero(np.diff(units[order], prepend=-1))
        weighted = (scaled * weights[:, None])[order]
        products = weighted[:, :, None] * scaled[order][:, None, :]
        if len(first_rows) < n:
            products = np.add.reduceat(products, first_rows, axis=0)
        return cls(products, np.bincount(units, weights).astype(np.float64), d)

    def draw_losses(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw units with replacement, each with a random sign, and return the losses, (n_draws,).

        The sign is that of the coordinates in the complement, so it changes only the products of
        these with coordinates in the model.
        """
        m, p, _ = self.products.shape
        d = self.d
        # How often each unit is drawn, and the sum of its signs.
        counts = rng.multinomial(m, np.full(m, 1 / m), size=n_draws)
        signs = 2.0 * rng.binomial(counts, 0.5) - counts
        second_moments = (counts @ self.products.reshape(m, -1)).reshape(n_draws, p, p)
        cross_products = self.products[:, :d, d:].reshape(m, -1)
        cross_blocks = (signs @ cross_products).reshape(n_draws, d, p - d)
        second_moments[:, :d, d:] = cross_blocks
        second_moments[:, d:, :d] = cross_blocks.swapaxes(1, 2)
        return excess_loss(second_moments / (counts @ self.weights)[:, None, None], d)


def weighted_second_moment(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted mean of zz' over the rows z, (p, p)."""
    return np.asarray((rows * weights[:, None]).T @ rows / weights.sum())


def _scale_factors(values: FloatArray, target: FloatArray) -> FloatArray:
    """Factors that bring the variances of uncorrelated coordinates to their targets.

    Coordinates without variance cannot be scaled. The variance that they should have is divided
    among the others in proportion, which makes the loss under the null hypothesis larger.
    """
    varies = values > np.finfo(np.float64).eps * len(values) * values[0]
    reachable = float(target[varies].sum())
    if not reachable > 0:
        return np.zeros_like(values)
    target = target * (target.sum() / reachable)
    return np.sqrt(np.divide(target, values, out=np.zeros_like(values), where=varies))
