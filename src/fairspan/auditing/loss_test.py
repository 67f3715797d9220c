"""Whether a group loses more than chance explains, where cross-fitting is too cautious to tell.

A cross-fitted loss shows harm only where it exceeds what the group's own best subspace loses by
being learnt from few rows. This test asks how large the loss on the rows would be if there were
none: if the model were the group's best subspace, rows would be uncorrelated between it and its
complement, and no direction of the complement would vary more than one of the model. Normal rows
are drawn with such a second moment. The group must lose more than nearly all of these draws, and
more than rows drawn with the second moment of all groups together.

Rows with long tails, weights or clusters tell less than as many independent normal ones: so many
are drawn as would differ between the folds by as much as these rows do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.cross_fitting import reference_points
from fairspan.linalg import normalize_signs
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import MIN_FOLDS, DenseFoldMoments, FoldMoments
from fairspan.typing import FloatArray

# With more features the draws take seconds.
_MAX_FEATURES = 60
# Draws for each that may exceed the loss, and how many at a time.
_EXCEEDANCE_RANK, _BATCH_SIZE = 4, 64


@dataclass(frozen=True, eq=False)
class LossTest:
    """The test for the models and groups of an audit.

    Attributes
    ----------
    subspaces : sequence of FairSubspace
        Of the models, in the coordinates of the folds.
    folds : FoldMoments
    level : float
        1 - alpha, over all groups and both sides.
    seed : int
        Of the draws.
    """

    subspaces: Sequence[FairSubspace]
    folds: FoldMoments
    level: float
    seed: int

    def is_significant(self, model: int, group: int) -> bool:
        """Whether a group loses by a model, by positions; False where the test does not apply."""
        subspace, folds = self.subspaces[model], self.folds
        if (
            not isinstance(folds, DenseFoldMoments)
            or len(folds.by_fold) < MIN_FOLDS
            or subspace.n_features > _MAX_FEATURES
            or subspace.oblique_decoder is not None
            or subspace.is_soft
        ):
            return False
        d, whole = subspace.dimension, folds.total
        second_moments = _in_model_basis(subspace, whole, whole)
        by_fold = np.zeros((len(folds.by_fold), *second_moments.shape))
        shares = np.zeros((len(folds.by_fold), whole.n_groups))
        for seen, share, part in zip(by_fold, shares, folds.by_fold, strict=True):
            if part is not None:
                met = [whole.labels.index(label) for label in part.labels]
                seen[met] = _in_model_basis(subspace, part, whole)
                share[met] = part.weights / whole.weights[met]
        weights = whole.weights / whole.weights.sum()
        own, pooled = second_moments[group], np.einsum("g,gij->ij", weights, second_moments)
        n, n_all = float(whole.counts[group]), float(whole.counts.sum())
        effective_n = _effective_sample_size(own, by_fold[:, group], shares[:, group], d)
        # In the sum over groups each weighs as in all rows, whatever its share of the fold.
        deviations = np.einsum("g,fg,fgij->fij", weights, shares, by_fold - second_moments)
        pooled_effective_n = _effective_sample_size(
            pooled, pooled + deviations, np.ones(len(deviations)), d
        )
        group_n, n_pooled = min(n, effective_n), n * min(1.0, pooled_effective_n / n_all)
        rng = np.random.default_rng(self.seed)
        tail_probability = (1 - self.level) / (2 * whole.n_groups)
        null_second_moment = np.diag(_null_eigenvalues(own, d, group_n))
        loss = float(_excess_loss(own, d))
        return all(
            _exceeds_null(loss, second, d, rows, tail_probability, rng)
            for second, rows in ((null_second_moment, group_n), (pooled, n_pooled))
        )


def _in_model_basis(
    subspace: FairSubspace, moments: GroupMoments, whole: GroupMoments
) -> FloatArray:
    """Second moments (k, p, p) about the centre, in a basis that begins with the model's."""
    points = reference_points(subspace, whole)
    if len(points) > 1:
        points = points[[whole.labels.index(label) for label in moments.labels]]
    if subspace.scale is not None:
        moments, points = moments.divided_by(subspace.scale), points / subspace.scale
    second = moments.second_moments_about(points[0] if len(points) == 1 else points)
    rotation = np.linalg.qr(subspace.components.T, mode="complete")[0]
    return np.asarray(rotation.T @ second.matrices @ rotation)


def _excess_loss(second: FloatArray, d: int) -> FloatArray:
    """The largest d eigenvalues less the variance of the first d axes, of (..., p, p) arrays."""
    kept = np.einsum("...ii->...i", second)[..., :d].sum(axis=-1)
    return np.asarray(np.linalg.eigvalsh(second)[..., -d:].sum(axis=-1) - kept)


def _effective_sample_size(
    second: FloatArray, by_fold: FloatArray, shares: FloatArray, d: int
) -> float:
    """How many normal rows would differ by as much between folds, in the block V'S(I - VV').

    With D_f = s_f (S_f - S) of K folds, the variance of the block is K / (K - 1) sum ||D_f||^2. Of
    n normal rows it is (tr C tr D + ||B||^2) / n with the blocks C, B and D of S.
    """
    cross_blocks = shares[:, None, None] * (by_fold - second)[:, :d, d:]
    n_folds = int((shares > 0).sum())
    variance = float((cross_blocks**2).sum()) * n_folds / max(n_folds - 1, 1)
    kept_variance, residual_variance = np.diag(second)[:d].sum(), np.diag(second)[d:].sum()
    variance_per_row = float(kept_variance * residual_variance + (second[:d, d:] ** 2).sum())
    return variance_per_row / variance if variance > 0 else np.inf


def _null_eigenvalues(second: FloatArray, d: int, n: float) -> FloatArray:
    """Eigenvalues within and beside the first d axes, in the order that no loss demands."""
    blocks = [
        np.asarray(np.linalg.eigvalsh(block)[::-1], dtype=np.float64)
        for block in (second[:d, :d], second[d:, d:])
    ]
    return _isotonic_decreasing(
        np.concatenate([_shrink_eigenvalues(values, n) for values in blocks])
    )


def _shrink_eigenvalues(values: FloatArray, n: float) -> FloatArray:
    """Eigenvalues drawn to their mean, as those of n rows spread more than the true ones.

    Chen, Wiesel, Eldar and Hero (2010). Shrinkage Algorithms for MMSE Covariance Estimation. IEEE
    Transactions on Signal Processing 58, equation 23, without its terms in 2 / p, as in
    scikit-learn.
    """
    p, total, squares = len(values), float(values.sum()), float((values**2).sum())
    spread = (n + 1) * (squares - total**2 / p)
    share = min(1.0, (squares + total**2) / spread) if spread > 0 else 1.0
    return (1 - share) * values + share * total / p


def _isotonic_decreasing(values: FloatArray) -> FloatArray:
    """The nearest numbers that do not increase: min over a <= i of max over b >= i of mean(a..b).

    Examples
    --------
    >>> _decreasing(np.array([4.0, 1.0, 3.0])).tolist()
    [4.0, 2.0, 2.0]
    """
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    lengths = np.arange(1, n + 1) - np.arange(n)[:, None]
    means = np.where(lengths > 0, (sums[1:] - sums[:-1, None]) / np.maximum(lengths, 1), -np.inf)
    largest = np.maximum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.where(lengths > 0, largest, np.inf).min(axis=0))


def _exceeds_null(
    loss: float,
    second_moment: FloatArray,
    d: int,
    n: float,
    tail_probability: float,
    rng: np.random.Generator,
) -> bool:
    """Whether a loss exceeds those of n normal rows in all draws but this share."""
    values, vectors = np.linalg.eigh(second_moment)
    # The signs that a processor gives the eigenvectors decide no draw.
    root = normalize_signs(vectors) * np.sqrt(np.maximum(values, 0.0))
    draws = int(np.ceil(_EXCEEDANCE_RANK / tail_probability)) - 1
    max_exceeding, n_exceeding = _EXCEEDANCE_RANK - 1, 0
    for start in range(0, draws, _BATCH_SIZE):
        drawn = root @ _wishart_factor(rng, min(_BATCH_SIZE, draws - start), n, len(root))
        n_exceeding += int((_excess_loss(drawn @ drawn.swapaxes(1, 2), d) >= loss).sum())
        if n_exceeding > max_exceeding:
            return False
    return True


def _wishart_factor(rng: np.random.Generator, draws: int, n: float, p: int) -> FloatArray:
    """L with L L' the second moment of n standard normal rows; Bartlett's where n > p."""
    if n <= p:
        rows = max(round(n), 1)
        return np.asarray(rng.normal(size=(draws, p, rows)) / np.sqrt(rows))
    lower = np.tril(rng.normal(size=(draws, p, p)), -1)
    diagonal = np.sqrt(rng.chisquare(n - np.arange(p), size=(draws, p)))
    return np.asarray((lower + diagonal[:, :, None] * np.eye(p)) / np.sqrt(n))
