"""Monte Carlo test of a group's loss, for cases where cross-fitting is too conservative.

A cross-fitted loss shows harm only if it exceeds the optimism of the group's best subspace. This
test asks how large the in-sample loss would be under the null hypothesis that the model is the
group's best subspace: rows are then uncorrelated between the model and its complement, and no
direction of the complement has more variance than one of the model. If the rows of the group are at
hand, they are changed to satisfy this and drawn with replacement
(:mod:`fairspan.auditing.null_bootstrap`). Otherwise normal rows are simulated from the moments
(:mod:`fairspan.auditing.null_simulation`). The group's loss must exceed nearly all of these losses,
and nearly all under the pooled second moment of all groups.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, cast

import numpy as np

from fairspan.auditing.kept_rows import MAX_FEATURES, GroupRows
from fairspan.auditing.loss_statistics import excess_loss, null_spectra
from fairspan.auditing.null_bootstrap import NullRows, weighted_second_moment
from fairspan.auditing.null_simulation import NormalRows, effective_sample_size
from fairspan.model.subspace import FairSubspace
from fairspan.moments.fold_moments import MIN_FOLDS, DenseFoldMoments, FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.typing import FloatArray

# The test rejects if fewer than this many draws exceed the loss. With more, a decision depends less
# on the seed, and takes more draws.
_EXCEEDANCE_RANK = 4
# Number of draws per batch, which limits memory and lets clear cases stop early.
_BATCH_SIZE = 64


class NullDistribution(Protocol):
    """A distribution of the in-sample loss without a true loss."""

    def draw_losses(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw losses, (n_draws,)."""


@dataclass(frozen=True, eq=False)
class LossTest:
    """Loss test for the models and groups of an audit.

    Attributes
    ----------
    subspaces : sequence of FairSubspace
        Subspaces of the models, in the coordinates of the folds.
    folds : FoldMoments
    level : float
        Confidence level 1 - alpha, shared by simultaneous tests and both tails.
    seed : int
        Seed of the draws.
    kept_rows : mapping of int to GroupRows
        Rows of the groups, by index, for which they are at hand.
    """

    subspaces: Sequence[FairSubspace]
    folds: FoldMoments
    level: float
    seed: int
    kept_rows: Mapping[int, GroupRows] = field(default_factory=dict)

    def is_significant(self, model: int, group: int, n_tests: int) -> bool:
        """Whether the loss of a group under a model is significant.

        The test is one-sided, Bonferroni-adjusted. False if it does not apply:
        without moments by fold or with too few folds, with missing cells or too many features, or
        if the model is not an orthogonal projection of exactly its dimension.

        Parameters
        ----------
        model, group : int
            Indices of the model and of the group.
        n_tests : int
            Number of simultaneous tests, at least that of the groups.
        """
        subspace = self.subspaces[model]
        folds = self.folds
        if (
            not isinstance(folds, DenseFoldMoments)
            or len(folds.by_fold) < MIN_FOLDS
            or folds.total.is_em_estimated
            or subspace.n_features > MAX_FEATURES
            or subspace.oblique_decoder is not None
            or subspace.is_soft
        ):
            return False
        moments = _MomentsInModelBasis.from_folds(subspace, folds)
        loss = float(excess_loss(moments.total[group], subspace.dimension))
        # As for one limit of a two-sided interval.
        tail_probability = (1 - self.level) / (2 * n_tests)
        rng = np.random.default_rng(self.seed)
        # Under the first null hypothesis the rows of the group are distributed like all rows, under
        # the others the model is the best subspace of the group. All must be rejected.
        group_nulls: Iterator[NullDistribution]
        if group in self.kept_rows:
            group_nulls = _bootstrap_nulls(subspace, folds.total, group, self.kept_rows[group])
        else:
            group_nulls = moments.group_nulls(group)
        nulls: Iterator[NullDistribution] = chain([moments.pooled_null(group)], group_nulls)
        return all(_exceeds_null(loss, null, tail_probability, rng) for null in nulls)


@dataclass(frozen=True, eq=False)
class _MomentsInModelBasis:
    """Second moments of groups and folds, in a basis that begins with that of the model.

    They are about the points from which the model measures errors: its mean, or the means of the
    groups in all rows.

    Attributes
    ----------
    d : int
        Dimension of the model.
    total : (k, p, p) array
        Second moments of all rows of each group.
    by_fold : (K, k, p, p) array
        Those in each fold; zero for groups without rows there.
    shares : (K, k) array
        Share of each group's weight in each fold.
    weights : (k,) array
        Share of each group in the weight of all rows.
    counts : (k,) array
        Number of rows of each group.
    """

    d: int
    total: FloatArray
    by_fold: FloatArray
    shares: FloatArray
    weights: FloatArray
    counts: FloatArray

    @classmethod
    def from_folds(cls, subspace: FairSubspace, folds: DenseFoldMoments) -> "_MomentsInModelBasis":
        """Rotate the moments of all rows and of each fold."""
        total = folds.total
        second_moments = _rotate_to_model(subspace, total, total)
        by_fold = np.zeros((len(folds.by_fold), *second_moments.shape))
        shares = np.zeros((len(folds.by_fold), total.n_groups))
        for fold_moments, fold_share, fold in zip(by_fold, shares, folds.by_fold, strict=True):
            if fold is not None:
                present = [total.labels.index(label) for label in fold.labels]
                fold_moments[present] = _rotate_to_model(subspace, fold, total)
                fold_share[present] = fold.weights / total.weights[present]
        return cls(
            d=subspace.dimension,
            total=second_moments,
            by_fold=by_fold,
            shares=shares,
            weights=total.weights / total.weights.sum(),
            counts=total.counts.astype(np.float64),
        )

    def group_nulls(self, group: int) -> Iterator[NormalRows]:
        """Null hypotheses that the model is the best subspace of the group, for normal rows."""
        second_moment = self.total[group]
        n = effective_sample_size(
            second_moment,
            self.by_fold[:, group],
            self.shares[:, group],
            self.d,
            float(self.counts[group]),
        )
        for spectrum in null_spectra(second_moment, self.d, n):
            yield NormalRows(np.diag(spectrum), n, self.d)

    def pooled_null(self, group: int) -> NormalRows:
        """Null hypothesis that the rows of the group are distributed like all rows."""
        pooled = np.einsum("g,gij->ij", self.weights, self.total)
        # Weight each group by its share of all rows, not by its share of the fold: the fold's
        # matrix is then that of all rows plus `deviations`, and needs no further weight.
        deviations = np.einsum(
            "g,fg,fgij->fij", self.weights, self.shares, self.by_fold - self.total
        )
        n_rows = float(self.counts.sum())
        effective_n = effective_sample_size(
            pooled, pooled + deviations, np.ones(len(deviations)), self.d, n_rows
        )
        return NormalRows(pooled, float(self.counts[group]) * effective_n / n_rows, self.d)


def _model_basis(subspace: FairSubspace) -> FloatArray:
    """Orthonormal basis of all features that begins with that of the model, in columns, (p, p)."""
    return np.asarray(np.linalg.qr(subspace.components.T, mode="complete")[0])


def _rotate_to_model(
    subspace: FairSubspace, moments: GroupMoments, total: GroupMoments
) -> FloatArray:
    """Second moments of the groups in the basis of the model, (k, p, p).

    `moments` are those of all rows, `total`, or of a fold, which may lack some of the groups.
    """
    # Keep the centers of the groups that occur in `moments`, in their order.
    frame = subspace.reference_frame(total).select_groups(
        [*map(total.labels.index, moments.labels)]
    )
    second_moments = cast(DenseSecondMoments, frame.second_moments(moments))
    rotation = _model_basis(subspace)
    return np.asarray(rotation.T @ second_moments.matrices @ rotation)


def _bootstrap_nulls(
    subspace: FairSubspace, total: GroupMoments, group: int, rows: GroupRows
) -> Iterator[NullRows]:
    """Null hypotheses that the model is the best subspace of the group, for rows like its own."""
    # Sources yield the same rows in blocks of different sizes, and so in different orders.
    order = np.lexsort(rows.values.T)
    frame = subspace.reference_frame(total).of_group(group)
    coordinates = frame.standardize(rows.values[order]) @ _model_basis(subspace)
    weights = rows.weights[order]
    units = np.arange(len(order))
    if len(rows.clusters):
        labels = np.array(rows.clusters)[order]
        units = np.unique(labels, return_inverse=True)[1]
    d = subspace.dimension
    second_moment = weighted_second_moment(coordinates, weights)
    for spectrum in null_spectra(second_moment, d, len(order)):
        yield NullRows.impose(coordinates, weights, units, spectrum, d)


def _exceeds_null(
    loss: float, null: NullDistribution, tail_probability: float, rng: np.random.Generator
) -> bool:
    """Whether the loss exceeds all but a fraction of the losses drawn under a null hypothesis.

    The fraction is `tail_probability`.
    """
    # Under the null hypothesis the rank of the loss among the draws is uniform. So it is among the
    # largest r of draws + 1 values with probability r / (draws + 1), at most the tail probability.
    n_draws = math.ceil(_EXCEEDANCE_RANK / tail_probability) - 1
    max_exceeding = _EXCEEDANCE_RANK - 1
    n_exceeding = 0
    for start in range(0, n_draws, _BATCH_SIZE):
        losses = null.draw_losses(min(_BATCH_SIZE, n_draws - start), rng)
        n_exceeding += int((losses >= loss).sum())
        if n_exceeding > max_exceeding:
            return False  # whatever the remaining draws are
    return True
