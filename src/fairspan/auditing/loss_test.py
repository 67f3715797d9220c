"""Monte Carlo test of a group's loss, for cases where cross-fitting is too conservative.

A cross-fitted loss shows harm only if it exceeds the optimism of the group's best subspace. This
test asks how large the in-sample loss would be under the null hypothesis that the model is the
group's best subspace: rows are then uncorrelated between the model and its complement, and no
direction of the complement has more variance than one of the model. Normal rows are simulated with
such a second moment. The group's loss must exceed nearly all simulated losses, both under this null
and under the pooled second moment of all groups. Rows with heavy tails, weights or clusters carry
less information than as many independent normal rows, so the number of simulated rows is chosen to
reproduce the observed variation between folds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fairspan.linalg import normalize_signs
from fairspan.linalg.wishart import draw_wishart_factors
from fairspan.model.subspace import FairSubspace
from fairspan.moments.fold_moments import MIN_FOLDS, DenseFoldMoments, FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.typing import FloatArray

# Above this number of features, the simulation takes seconds.
_MAX_FEATURES = 60
# The test rejects if fewer than this many draws exceed the loss. With more, a decision depends less
# on the seed, and takes more draws.
_EXCEEDANCE_RANK = 4
# Number of draws per batch, which limits memory and lets clear cases stop early.
_BATCH_SIZE = 64


@dataclass(frozen=True, eq=False)
class LossTest:
    """Loss test for the models and groups of an audit.

    Attributes
    ----------
    subspaces : sequence of FairSubspace
        Subspaces of the models, in the coordinates of the folds.
    folds : FoldMoments
    level : float
        Confidence level 1 - alpha, shared by all groups and both tails.
    seed : int
        Seed of the simulation.
    """

    subspaces: Sequence[FairSubspace]
    folds: FoldMoments
    level: float
    seed: int

    def is_significant(self, model: int, group: int) -> bool:
        """Whether the loss of a group under a model is significant.

        The test is one-sided, Bonferroni-adjusted for all groups. False if it does not apply:
        without moments by fold or with too few folds, with missing cells or too many features, or
        if the model is not an orthogonal projection of exactly its dimension.

        Parameters
        ----------
        model, group : int
            Indices of the model and of the group.
        """
        subspace = self.subspaces[model]
        folds = self.folds
        if (
            not isinstance(folds, DenseFoldMoments)
            or len(folds.by_fold) < MIN_FOLDS
            or folds.total.is_em_estimated
            or subspace.n_features > _MAX_FEATURES
            or subspace.oblique_decoder is not None
            or subspace.is_soft
        ):
            return False
        d = subspace.dimension
        total = folds.total
        second_moments = _in_model_basis(subspace, total, total)
        moments_by_fold = np.zeros((len(folds.by_fold), *second_moments.shape))
        shares = np.zeros((len(folds.by_fold), total.n_groups))
        for fold_moments, fold_share, fold in zip(
            moments_by_fold, shares, folds.by_fold, strict=True
        ):
            if fold is not None:
                present = [total.labels.index(label) for label in fold.labels]
                fold_moments[present] = _in_model_basis(subspace, fold, total)
                fold_share[present] = fold.weights / total.weights[present]
        weights = total.weights / total.weights.sum()
        group_moment = second_moments[group]
        pooled_moment = np.einsum("g,gij->ij", weights, second_moments)
        n_group_rows = float(total.counts[group])
        n_rows = float(total.counts.sum())
        effective_n = _effective_sample_size(
            group_moment, moments_by_fold[:, group], shares[:, group], d
        )
        # Weight each group by its share of all rows, not by its share of the fold: the fold's
        # matrix is then that of all rows plus `deviations`, and needs no further weight.
        deviations = np.einsum("g,fg,fgij->fij", weights, shares, moments_by_fold - second_moments)
        pooled_effective_n = _effective_sample_size(
            pooled_moment, pooled_moment + deviations, np.ones(len(deviations)), d
        )
        # Numbers of normal rows to simulate, at most that of the group.
        group_n = min(n_group_rows, effective_n)
        pooled_n = n_group_rows * min(1.0, pooled_effective_n / n_rows)
        rng = np.random.default_rng(self.seed)
        # As for one limit of a two-sided interval.
        tail_probability = (1 - self.level) / (2 * total.n_groups)
        null_second_moment = np.diag(_null_eigenvalues(group_moment, d, group_n))
        loss = float(_excess_loss(group_moment, d))
        # Under the first null hypothesis the model is the best subspace of the group, under the
        # second the rows of the group are distributed like all rows. Both must be rejected.
        null_hypotheses = ((null_second_moment, group_n), (pooled_moment, pooled_n))
        return all(
            _exceeds_null(loss, second_moment, d, n_simulated, tail_probability, rng)
            for second_moment, n_simulated in null_hypotheses
        )


def _in_model_basis(
    subspace: FairSubspace, moments: GroupMoments, total: GroupMoments
) -> FloatArray:
    """Second moments of the groups, (k, p, p), in a basis that begins with that of the model.

    They are about the points from which the model measures errors: its mean, or the means of the
    groups in `total`, the moments of all rows. `moments` are these or those of a fold, which may
    lack some of the groups.
    """
    # Keep the centers of the groups that occur in `moments`, in their order.
    frame = subspace.reference_frame(total).select_groups(
        [*map(total.labels.index, moments.labels)]
    )
    second_moments = cast(DenseSecondMoments, frame.second_moments(moments))
    rotation = np.linalg.qr(subspace.components.T, mode="complete")[0]
    return np.asarray(rotation.T @ second_moments.matrices @ rotation)


def _excess_loss(second_moments: FloatArray, d: int) -> FloatArray:
    """In-sample loss of the first d axes: the d largest eigenvalues minus the variance along them.

    Parameters
    ----------
    second_moments : (..., p, p) array
    d : int

    Returns
    -------
    (...) array
    """
    kept = np.einsum("...ii->...i", second_moments)[..., :d].sum(axis=-1)
    return np.asarray(np.linalg.eigvalsh(second_moments)[..., -d:].sum(axis=-1) - kept)


def _effective_sample_size(
    second_moment: FloatArray, moments_by_fold: FloatArray, shares: FloatArray, d: int
) -> float:
    """Return how many normal rows would vary as much between folds in the block V'S(I - VV').

    V is the model, which in this basis is the first d axes, and S = [[C, B], [B', D]] the second
    moment with C (d, d). With S_f that of fold f of K, s_f its share of the weight, and D_f the
    upper right block of s_f (S_f - S), the variance of B is K / (K - 1) sum_f ||D_f||^2; for n
    normal rows it is (tr C tr D + ||B||^2) / n. Infinite if B does not vary.

    Parameters
    ----------
    second_moment : (p, p) array
        S, in the basis that begins with V.
    moments_by_fold : (K, p, p) array
        S_f.
    shares : (K,) array
        s_f; zero for folds without rows.
    d : int
        Dimension of the model.
    """
    cross_blocks = shares[:, None, None] * (moments_by_fold - second_moment)[:, :d, d:]
    n_folds = int((shares > 0).sum())
    variance = float((cross_blocks**2).sum()) * n_folds / max(n_folds - 1, 1)
    kept_variance = np.diag(second_moment)[:d].sum()
    residual_variance = np.diag(second_moment)[d:].sum()
    variance_per_row = float(kept_variance * residual_variance + (second_moment[:d, d:] ** 2).sum())
    if not variance > 0:
        return np.inf
    return variance_per_row / variance


def _null_eigenvalues(second_moment: FloatArray, d: int, n: float) -> FloatArray:
    """Eigenvalues of the null hypothesis, in which the first d axes are the best subspace.

    They are the eigenvalues of the two diagonal blocks of `second_moment`, shrunk as from n rows
    and made nonincreasing, (p,), so that no direction of the complement has more variance than one
    of the model.
    """
    blocks = [
        np.asarray(np.linalg.eigvalsh(block)[::-1], dtype=np.float64)
        for block in (second_moment[:d, :d], second_moment[d:, d:])
    ]
    return _isotonic_decreasing(
        np.concatenate([_shrink_eigenvalues(values, n) for values in blocks])
    )


def _shrink_eigenvalues(values: FloatArray, n: float) -> FloatArray:
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


def _isotonic_decreasing(values: FloatArray) -> FloatArray:
    """Least-squares nonincreasing fit (isotonic regression).

    Min over a <= i of max over b >= i of mean(a..b).

    Examples
    --------
    >>> _isotonic_decreasing(np.array([4.0, 1.0, 3.0])).tolist()
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
    """Whether the loss exceeds all but a fraction of the losses simulated from n normal rows.

    The null hypothesis is that the rows are normal with this (p, p) second moment, so that those of
    n rows have a scaled Wishart distribution. The loss is that of the leading d coordinates, in
    excess of the best d-dimensional subspace. The fraction is `tail_probability`.
    """
    values, vectors = np.linalg.eigh(second_moment)
    # Signs of eigenvectors differ between processors, and draws must not.
    root = normalize_signs(vectors) * np.sqrt(np.maximum(values, 0.0))
    # Under the null hypothesis the rank of the loss among the draws is uniform. So it is among the
    # largest r of draws + 1 values with probability r / (draws + 1), at most the tail probability.
    draws = int(np.ceil(_EXCEEDANCE_RANK / tail_probability)) - 1
    max_exceeding = _EXCEEDANCE_RANK - 1
    n_exceeding = 0
    for start in range(0, draws, _BATCH_SIZE):
        # Factors L of simulated second moments L L'.
        drawn = root @ _wishart_factor(rng, min(_BATCH_SIZE, draws - start), n, len(root))
        n_exceeding += int((_excess_loss(drawn @ drawn.swapaxes(1, 2), d) >= loss).sum())
        if n_exceeding > max_exceeding:
            return False  # whatever the remaining draws are
    return True


def _wishart_factor(rng: np.random.Generator, draws: int, n: float, p: int) -> FloatArray:
    """Draw matrices L such that L L' is the second moment of n standard normal rows in p features.

    The Bartlett decomposition is used if n > p; otherwise L is the rows themselves, transposed,
    with n rounded.
    """
    if n <= p:
        rows = max(round(n), 1)
        return np.asarray(rng.normal(size=(draws, p, rows)) / np.sqrt(rows))
    return np.asarray(draw_wishart_factors(rng, draws, n, p) / np.sqrt(n))
