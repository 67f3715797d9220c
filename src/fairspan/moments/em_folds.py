"""Moments by fold of incomplete rows: EM fits without each fold, and what each fold adds to them.

Rows of a fold must not take part in completing the others. So the moments without fold f, S_(-f),
are an EM fit to the observed cells of the other rows. The moments of the fold itself are those that
would give, together with S_(-f), the fit S to all rows: with weights W and W_f,

    W_f S_f = W S - (W - W_f) S_(-f)

These are the pseudo-values of the jackknife. For complete rows they are the moments of the fold.
For incomplete rows their expectation is the second moment of all rows up to terms of second order,
as long as the EM fit is consistent. They need no model of which cells are missing, unlike means of
observed products x_j x_k, which are biased where missingness depends on observed cells.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from fairspan.errors import FairspanWarning
from fairspan.linalg.symmetric import outer_products
from fairspan.moments.fold_moments import DenseFoldMoments
from fairspan.moments.group_moments import GroupMoments, fit_em_moments
from fairspan.rows.aggregation import Rows
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.folds import Folds, RowsOutsideFold
from fairspan.rows.group_limit import GroupLimit
from fairspan.typing import FloatArray, IntegerArray

# Distance to the limit, in standard deviations, at which a fit without a fold ends: far below the
# statistical error. Fits start from the observed means and variances of their own rows, not from
# the fit to all rows, which the rows of the fold take part in.
_CONVERGENCE_TOL = 1e-7
# Share of a group's weight below which a fold has none of it, up to rounding of the difference.
_MIN_FOLD_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class EMFoldMoments(DenseFoldMoments):
    """Moments of incomplete rows by fold.

    The scatters of :attr:`by_fold` are differences of fits, and may have negative eigenvalues.

    Attributes
    ----------
    fit : GroupMoments
        EM fit to all rows.
    fits_without_fold : tuple of K GroupMoments
        EM fits to the rows outside each fold, without groups that only it has.
    distance : float
        Largest estimated distance of a fit without a fold to its limit, in standard deviations.
    """

    fit: GroupMoments
    fits_without_fold: tuple[GroupMoments, ...]
    distance: float

    @classmethod
    def from_fits(cls, fit: GroupMoments, fits_without_fold: Sequence[GroupMoments]) -> Self:
        """Derive the moments of each fold from the fits.

        The fits without a fold count as moments of complete rows, so that models that are refitted
        to them do not allow for the distance.
        """
        by_fold = tuple(_fold_difference(fit, other_folds) for other_folds in fits_without_fold)
        return cls(
            by_fold=by_fold,
            n_dropped=fit.n_dropped,
            fit=fit,
            fits_without_fold=tuple(map(_without_em_summary, fits_without_fold)),
            distance=max(other_folds.em_distance for other_folds in fits_without_fold),
        )

    @cached_property
    def total(self) -> GroupMoments:
        """Moments of all rows."""
        return self.fit

    def excluding(self, fold: int) -> GroupMoments:
        """Return the fit to all folds except one, without groups that only it has."""
        return self.fits_without_fold[fold]

    def without_empty_folds(self) -> Self:
        """Return the folds that have rows."""
        nonempty = [fold for fold, moments in enumerate(self.by_fold) if moments is not None]
        return replace(
            self,
            by_fold=tuple(self.by_fold[fold] for fold in nonempty),
            fits_without_fold=tuple(self.fits_without_fold[fold] for fold in nonempty),
        )


def compute_em_fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit, fit: GroupMoments
) -> EMFoldMoments:
    """Fit moments to incomplete rows without each fold.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with missing cells.
    folds : Folds
    limit : GroupLimit
        Maximum number of groups, and memory.
    fit : GroupMoments
        EM fit to all of the rows.

    Raises
    ------
    InvalidInput
        All values of a feature in a group are in one fold.
    """
    with warnings.catch_warnings():
        # Warnings on the rows came with the fit to all of them.
        warnings.simplefilter("ignore", FairspanWarning)
        fits = [_fit_without_fold(rows, folds, fold, limit) for fold in range(folds.n_folds)]
    return EMFoldMoments.from_fits(fit, fits)


def _fit_without_fold(rows: Rows, folds: Folds, fold: int, limit: GroupLimit) -> GroupMoments:
    """Fit moments to the rows outside one fold."""
    if isinstance(rows, RowsWithAttributes):  # attributes are completed along with the features
        all_columns = _fit_without_fold(rows.source, folds, fold, limit)
        return all_columns.with_attributes(rows.attributes)
    others = RowsOutsideFold(rows, folds, fold)
    return fit_em_moments(others, limit, convergence_tol=_CONVERGENCE_TOL)


def _without_em_summary(moments: GroupMoments) -> GroupMoments:
    """Return the moments as if of complete rows."""
    by_class = moments.by_class
    all_columns = moments.all_columns
    return replace(
        moments,
        by_class=None if by_class is None else _without_em_summary(by_class),
        all_columns=None if all_columns is None else _without_em_summary(all_columns),
        em_summary=None,
        skip_validation=True,
    )


@dataclass(frozen=True, eq=False)
class _OtherFolds:
    """Moments of the rows outside one fold, for all k groups; zero for groups that only it has.

    Attributes
    ----------
    counts : (k,) array of int
    weights : (k,) array
    shifts : (k, p) array
        Means of the groups outside the fold minus those of all their rows.
    scatters : (k, p, p) array
        Scatters about the means of all rows of the groups.
    """

    counts: IntegerArray
    weights: FloatArray
    shifts: FloatArray
    scatters: FloatArray

    @classmethod
    def from_fit(cls, other_folds: GroupMoments, fit: GroupMoments) -> "_OtherFolds":
        """Arrange the moments of a fit without the fold in the groups of the fit to all rows."""
        p = fit.n_features
        counts = np.zeros_like(fit.counts)
        weights = np.zeros_like(fit.weights)
        shifts = np.zeros((fit.n_groups, p))
        scatters = np.zeros((fit.n_groups, p, p))
        present = [fit.labels.index(label) for label in other_folds.labels]
        counts[present] = other_folds.counts
        weights[present] = other_folds.weights
        shifts[present] = other_folds.means - fit.means[present]
        between = other_folds.weights[:, None, None] * outer_products(shifts[present])
        scatters[present] = other_folds.scatters + between
        return cls(counts, weights, shifts, scatters)


def _fold_difference(fit: GroupMoments, other_folds: GroupMoments) -> GroupMoments | None:
    """Return the moments that a fold adds to the fit without it; None if it has no rows.

    Groups that have no rows in the fold are left out. A group that only the fold has gets all of
    its moments from it.
    """
    others = _OtherFolds.from_fit(other_folds, fit)
    fold_counts = fit.counts - others.counts
    fold_weights = fit.weights - others.weights
    has_rows = (fold_counts > 0) & (fold_weights > _MIN_FOLD_SHARE * fit.weights)
    if not has_rows.any():
        return None
    selected = np.flatnonzero(has_rows)
    weights = fold_weights[selected]
    # Means of the fold minus those of all rows.
    offsets = -(others.weights[selected] / weights)[:, None] * others.shifts[selected]
    between = weights[:, None, None] * outer_products(offsets)
    scatters = fit.scatters[selected] - others.scatters[selected] - between
    return GroupMoments(
        fit.groups[selected],
        fold_counts[selected],
        weights,
        fit.means[selected] + offsets,
        scatters,
        feature_names=fit.feature_names,
        weight_exponent=fit.weight_exponent,
        skip_validation=True,
    )
