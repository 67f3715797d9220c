"""Cross-fitting: best subspaces and models refitted without each fold, and held-out quantities."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

import numpy as np

from fairspan.auditing.best_subspaces import BestSubspaces, OptimaKey, best_subspaces_by_key
from fairspan.auditing.feature_errors import ModelByFold
from fairspan.auditing.fold_centers import FoldCenters, GroupMeans
from fairspan.auditing.identification import EigenvalueGap, gap_from_left_out_folds
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.observed_pairs import has_enough_pairs
from fairspan.auditing.refitting import ModelRefits, NoRefit, TrainingMoments, try_refit
from fairspan.linalg.threads import map_in_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import FoldMoments
from fairspan.moments.projector import Projector, Reconstructor, squared_residuals
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.moments.second_moments import reconstruction_errors
from fairspan.progress import Stage
from fairspan.typing import BoolArray, FloatArray

# Above this number of features, best subspaces are computed iteratively.
_MAX_DENSE_FEATURES = 500


class Quantity(IntEnum):
    """Quantities measured for each row; without folds, only the first.

    Let r(V) be the squared residual of a row x about its center. V is the model and V_f its refit
    without the row's fold (V itself if it was fitted to other rows); U is the best subspace of the
    row's group and U_f the one found without the row's fold; w = (K - 1) / (2K - 1). The quantities
    are r(V); r(V_f); r(V_f) - r(U_f); r(V_f) - (1 - w) r(U) - w r(U_f); and r(V_f) minus that of
    the baseline model.
    """

    ERROR = 0
    HELD_OUT_ERROR = 1
    CROSS_FITTED_LOSS = 2
    CORRECTED_LOSS = 3
    CHANGE = 4


@dataclass(frozen=True, eq=False)
class GroupOptima:
    """Best subspaces of all groups for one dimension, center and scale.

    Attributes
    ----------
    frame : ReferenceFrame
        Center of all groups or of each group, and divisor of the features.
    best : tuple of k Projectors
        Best subspace of each group on all rows; empty without folds.
    best_by_fold : tuple of K tuples of k Projectors
        Best subspace of each group on the rows outside each fold.
    center_excess_weight : float
        Weight of the correction for a center that was learnt from the rows
        (:mod:`fairspan.auditing.fold_centers`): 1 for the mean of all rows, about which new rows
        will be judged too; 1 / 2 for the mean of each group, since new rows will have another one;
        0 for a center that does not depend on the rows.
    """

    frame: ReferenceFrame
    best: tuple[Projector, ...] = ()
    best_by_fold: tuple[tuple[Projector, ...], ...] = ()
    center_excess_weight: float = 0.0


@dataclass(frozen=True, eq=False)
class EvaluatedModel:
    """A model and its refits, as evaluated on the rows.

    Attributes
    ----------
    optima_index : int
        Index of its group optima.
    model : Projector, or another object with `squared_residuals`
    errors : (k,) array
        Mean error of each group (reference values for the sums over rows).
    refits : tuple of K Projectors
        Refits without each fold; empty for a model fitted to other rows.
    baseline_index : int or None
        Index of its baseline model.
    refit_errors : (K, k) array
        Mean error of each group over all of its rows under each refit; if there are none, the
        model's own errors, (1, k).
    min_cosine : float
        Cosine of the largest principal angle between the model and any refit.
    """

    optima_index: int
    model: Reconstructor
    errors: FloatArray
    refits: tuple[Projector, ...] = ()
    baseline_index: int | None = None
    refit_errors: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))
    min_cosine: float = 1.0


def measure_quantities(
    squared_residuals: Callable[[Sequence[tuple[GroupOptima, Reconstructor]]], FloatArray],
    optima: Sequence[GroupOptima],
    models: Sequence[EvaluatedModel],
    group: int,
    fold: int,
    n_folds: int,
) -> FloatArray:
    """Measure every :class:`Quantity` for rows of one group in one fold.

    Parameters
    ----------
    squared_residuals : callable
        Function that maps l pairs (optima, map) to the squared residuals (l, r) of the r rows under
        each map; the optima provide center and scale. Where a mean over rows is enough, r = 1.
    optima : sequence of GroupOptima
    models : sequence of m EvaluatedModel
    group, fold : int
        Group of the rows, and the fold that contains them.
    n_folds : int
        Number K of folds.

    Returns
    -------
    (m, q, r) array
        For m models, the q quantities and r rows. Changes of models without baseline are zero.
    """
    held_out_weight = _held_out_weight(n_folds)
    refitted_models = [item for item in models if item.refits]
    pairs: list[tuple[GroupOptima, Reconstructor]] = [
        *((item, item.best[group]) for item in optima),
        *((item, item.best_by_fold[fold][group]) for item in optima),
        *((optima[item.optima_index], item.model) for item in models),
        *((optima[item.optima_index], item.refits[fold]) for item in refitted_models),
    ]
    n_optima = len(optima)
    n_models = len(models)
    best_in_sample, best_held_out, model_errors, refit_errors = np.split(
        squared_residuals(pairs), [n_optima, 2 * n_optima, 2 * n_optima + n_models]
    )
    result = np.zeros((n_models, len(Quantity), model_errors.shape[1]))
    # For a model without refits, which was fitted to other rows, all rows are held out.
    held_out_errors = model_errors.copy()
    held_out_errors[[bool(item.refits) for item in models]] = refit_errors
    optima_index = [item.optima_index for item in models]
    result[:, Quantity.ERROR] = model_errors
    result[:, Quantity.HELD_OUT_ERROR] = held_out_errors
    result[:, Quantity.CROSS_FITTED_LOSS] = held_out_errors - best_held_out[optima_index]
    result[:, Quantity.CORRECTED_LOSS] = (
        held_out_errors
        - (1 - held_out_weight) * best_in_sample[optima_index]
        - held_out_weight * best_held_out[optima_index]
    )
    for i, item in enumerate(models):
        if item.baseline_index is not None:
            change = held_out_errors[i] - held_out_errors[item.baseline_index]
            result[i, Quantity.CHANGE] = change
    return result


def _held_out_weight(n_folds: int) -> float:
    """Weight of a held-out figure in an average with the same figure in sample, (K - 1) / (2K - 1).

    With n rows and some constant B, the error of the best subspace has a bias of -B / n in sample,
    and of B K / (n (K - 1)) if it is found from the other folds: the biases cancel.
    """
    return (n_folds - 1) / (2 * n_folds - 1)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models and group optima on all rows and without each fold.

    Attributes
    ----------
    optima : tuple of GroupOptima
        One for each dimension, center and scale among the models.
    eigenvalue_gaps : tuple of tuples of k EigenvalueGap
        For each of `optima`: gap between eigenvalues d and d + 1 of each group, with its standard
        error from the variation between folds.
    training_errors : tuple of (K, k) arrays
        For each of `optima`: error of each group's best subspace without each fold, on the rows
        outside that fold, from which it was found.
    models : tuple of EvaluatedModel
        One per model.
    centers : FoldCenters
        Means of the rows outside each fold, and the share of each group's weight in each fold.
    center_corrections : (m, q, k) array
        What is added to the mean of each :class:`Quantity` over the rows of each group, since the
        center was learnt from the rows that are judged. Zero for observed errors.
    has_enough_rows : (m, k) array of bool
        For each model, the groups with more rows than the model has dimensions, whichever fold is
        left out.
    has_enough_pairs : (k,) array of bool
        Groups of which every pair of features is observed together in enough rows for estimates.
    without_refits : dict of str to NoRefit
        Why a model that was fitted to these rows has no refits, by model name.
    """

    optima: tuple[GroupOptima, ...]
    eigenvalue_gaps: tuple[tuple[EigenvalueGap, ...], ...]
    training_errors: tuple[FloatArray, ...]
    models: tuple[EvaluatedModel, ...]
    centers: FoldCenters
    center_corrections: FloatArray
    has_enough_rows: BoolArray
    has_enough_pairs: BoolArray
    without_refits: dict[str, NoRefit]

    @property
    def fold_shares(self) -> FloatArray:
        """Share of each group's weight in each fold, (K, k)."""
        return self.centers.shares

    def model_by_fold(self, index: int, folds: FoldMoments | None) -> ModelByFold:
        """Return what was found of a model, by index, without each fold.

        `folds` are the moments of the rows by fold, if errors by feature of refits are needed.
        """
        model = self.models[index]
        return ModelByFold(
            model.refits,
            folds,
            self.centers,
            self.optima[model.optima_index].center_excess_weight,
        )


def cross_fit(
    models: Sequence[AuditedModel],
    errors: Sequence[FloatArray],
    in_sample: Sequence[bool],
    folds: FoldMoments,
    n_folds: int,
) -> CrossFit:
    """Find every group's best subspace without each fold, and refit the in-sample models.

    A model that cannot be refitted is evaluated as it is, and named in `without_refits`.

    Parameters
    ----------
    models : sequence of AuditedModel
    errors : sequence of (k,) arrays
        Errors of each model on all rows.
    in_sample : sequence of bool
        Models that were fitted to these rows.
    folds : FoldMoments
    n_folds : int
        K, counting empty folds.
    """
    total = folds.total
    # Models that agree in dimension, center and scale, their key, share the best subspaces.
    keys = [OptimaKey.of(model.subspace, total) for model in models]
    # Reversed, so that the first model of each key stands for it.
    model_by_key = dict(reversed(list(zip(keys, models, strict=True))))
    optima_indices = [list(model_by_key).index(key) for key in keys]
    best_on_all_rows = best_subspaces_by_key(model_by_key, moments=total, total=total)
    with Stage("refitting without each fold", n_folds, "folds") as stage:
        fitter = _FoldFitter(
            models,
            in_sample,
            optima_indices,
            model_by_key,
            folds,
            best_on_all_rows,
            TrainingMoments.of_all_rows(total, models, in_sample),
            stage,
        )
        fold_fits = map_in_threads(fitter.fit_without, range(n_folds))

    refits_by_model = [
        ModelRefits.combine(refits)
        for refits in zip(*(fit.refits for fit in fold_fits), strict=True)
    ]
    # For each key, the best subspaces without each fold.
    best_by_fold = list(zip(*(fit.best for fit in fold_fits), strict=True))
    centers = FoldCenters.from_training(total, [fit.training for fit in fold_fits])
    learnt_keys = _keys_with_learnt_center(keys, models, in_sample)
    optima = _group_optima(model_by_key, learnt_keys, total, best_on_all_rows, best_by_fold)
    evaluated = _evaluated_models(models, errors, refits_by_model, optima_indices, total)
    eigenvalue_gaps = [
        _eigenvalue_gaps(on_all_rows, best, centers.shares)
        for on_all_rows, best in zip(best_on_all_rows, best_by_fold, strict=True)
    ]
    training_errors = [np.array([subspaces.errors for subspaces in best]) for best in best_by_fold]
    # Counts of the rows outside each fold are the same for all keys.
    min_training_counts = np.min([best.counts for best in best_by_fold[0]], axis=0)
    without_refits = {
        model.name: refits.no_refit
        for model, refits in zip(models, refits_by_model, strict=True)
        if refits.no_refit is not None
    }
    return CrossFit(
        optima=optima,
        eigenvalue_gaps=tuple(eigenvalue_gaps),
        training_errors=tuple(training_errors),
        models=evaluated,
        centers=centers,
        center_corrections=_center_corrections(optima, evaluated, centers, n_folds),
        # With no more rows than dimensions, the best subspace contains all of them.
        has_enough_rows=np.array(
            [min_training_counts > model.subspace.dimension for model in models]
        ),
        has_enough_pairs=has_enough_pairs(total),
        without_refits=without_refits,
    )


def _keys_with_learnt_center(
    keys: Sequence[OptimaKey], models: Sequence[AuditedModel], in_sample: Sequence[bool]
) -> set[OptimaKey]:
    """Return the keys with a model that was fitted to the rows, or has no mean of its own."""
    return {
        key
        for key, model, is_in_sample in zip(keys, models, in_sample, strict=True)
        if is_in_sample or model.subspace.mean is None
    }


def _eigenvalue_gaps(
    on_all_rows: BestSubspaces, by_fold: Sequence[BestSubspaces], fold_shares: FloatArray
) -> tuple[EigenvalueGap, ...]:
    """Return the gap of each group, with its standard error from the rows without each fold.

    `fold_shares` are those of the groups' weights, (K, k).
    """
    gaps_without_fold = np.array([best.gaps for best in by_fold])
    return tuple(
        gap_from_left_out_folds(value, group_gaps, shares)
        for value, group_gaps, shares in zip(
            on_all_rows.gaps.tolist(), gaps_without_fold.T, fold_shares.T, strict=True
        )
    )


def _evaluated_models(
    models: Sequence[AuditedModel],
    errors: Sequence[FloatArray],
    refits_by_model: Sequence[ModelRefits],
    optima_indices: Sequence[int],
    total: Moments,
) -> tuple[EvaluatedModel, ...]:
    """Combine models with their refits, the indices of their group optima and baselines.

    The group optima are the best subspaces with the dimension, center and scale of the model.

    Parameters
    ----------
    models, errors, refits_by_model, optima_indices
        One entry per model.
    total : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    """
    names = [model.name for model in models]
    evaluated = []
    for model, model_errors, refits, optima_index in zip(
        models, errors, refits_by_model, optima_indices, strict=True
    ):
        # Errors of each group under each fit, by which the model varies with its rows. Without
        # refits, the only fit is the model itself.
        refit_errors = model_errors[None]
        min_cosine = 1.0
        if refits.projectors:
            refit_errors = _refit_errors(model.subspace, refits.projectors, total)
            min_cosine = _min_cosine(model.subspace.projector, refits.projectors)
        evaluated.append(
            EvaluatedModel(
                optima_index=optima_index,
                model=model.subspace.projector,
                errors=model_errors,
                refits=refits.projectors,
                baseline_index=names.index(model.baseline) if model.baseline in names else None,
                refit_errors=refit_errors,
                min_cosine=min_cosine,
            )
        )
    return tuple(evaluated)


@dataclass(frozen=True, eq=False)
class _FoldFit:
    """Fits to the rows outside one fold.

    Attributes
    ----------
    best : list of BestSubspaces
        Best subspaces of the groups for each key, in the order of `model_by_key`.
    refits : list of ModelRefits
        Refit of each model without this fold.
    training : GroupMeans
        Means of the groups outside this fold.
    """

    best: list[BestSubspaces]
    refits: list[ModelRefits]
    training: GroupMeans


@dataclass(frozen=True, eq=False)
class _FoldFitter:
    """Models and group optima that are fitted to the rows outside each fold.

    Attributes
    ----------
    models : sequence of AuditedModel
    in_sample : sequence of bool
        Models to refit.
    optima_indices : sequence of int
        Index of the group optima of each model.
    model_by_key : mapping
        One model for each set of group optima.
    folds : FoldMoments
    best_on_all_rows : sequence of BestSubspaces
        For each set of group optima.
    on_all_rows : TrainingMoments
        Moments of all rows, with the ordinary PCA from which others start.
    stage : Stage
        Progress, which advances by one per fold.
    """

    models: Sequence[AuditedModel]
    in_sample: Sequence[bool]
    optima_indices: Sequence[int]
    model_by_key: Mapping[OptimaKey, AuditedModel]
    folds: FoldMoments
    best_on_all_rows: Sequence[BestSubspaces]
    on_all_rows: TrainingMoments
    stage: Stage

    def fit_without(self, fold: int) -> _FoldFit:
        """Fit the groups' best subspaces, and refit the in-sample models, without one fold.

        All refits share a cache of eigenproblems: one PCA with the largest dimension serves all
        that are ordinary PCA. Calls for several folds may run in threads.
        """
        training = self.folds.excluding(fold)
        best = best_subspaces_by_key(
            self.model_by_key, training, self.folds.total, self.best_on_all_rows
        )
        training_moments = TrainingMoments(training, self.models, self.on_all_rows)
        refits = [
            try_refit(model, training_moments, best[index]) if is_in_sample else ModelRefits()
            for model, index, is_in_sample in zip(
                self.models, self.optima_indices, self.in_sample, strict=True
            )
        ]
        self.stage.advance()
        return _FoldFit(best, refits, GroupMeans.from_moments(training, self.folds.total))


def _group_optima(
    model_by_key: Mapping[OptimaKey, AuditedModel],
    learnt_keys: Container[OptimaKey],
    total: Moments,
    best_on_all_rows: Sequence[BestSubspaces],
    best_by_fold: Sequence[Sequence[BestSubspaces]],
) -> tuple[GroupOptima, ...]:
    """Combine the best subspaces on all rows and without each fold, for each key.

    `best_on_all_rows` and `best_by_fold` have one entry per key; an entry of the latter has one per
    fold. `learnt_keys` are those with a model that was fitted to the rows, or has no mean of its
    own.
    """
    return tuple(
        GroupOptima(
            model.subspace.reference_frame(total),
            tuple(map(Projector, on_all_rows.bases)),
            tuple(tuple(map(Projector, subspaces.bases)) for subspaces in best),
            _center_excess_weight(model.subspace.center, is_learnt=key in learnt_keys),
        )
        for (key, model), on_all_rows, best in zip(
            model_by_key.items(), best_on_all_rows, best_by_fold, strict=True
        )
    )


def _center_excess_weight(center: Center, *, is_learnt: bool) -> float:
    """Weight of the correction for a learnt center, see :class:`GroupOptima`.

    `is_learnt` tells whether a common center was learnt from the judged rows; means of groups
    always are.
    """
    if center == "group":
        return 0.5
    return float(center == "global" and is_learnt)


def _center_corrections(
    optima: Sequence[GroupOptima],
    models: Sequence[EvaluatedModel],
    centers: FoldCenters,
    n_folds: int,
) -> FloatArray:
    """Corrections for centers learnt from the judged rows, see :class:`CrossFit`; (m, q, k)."""
    corrections = np.zeros((len(models), len(Quantity), centers.shares.shape[1]))
    if not any(item.center_excess_weight for item in optima):
        return corrections
    for fold, group in np.argwhere(centers.shares > 0).tolist():
        excess = measure_quantities(
            partial(_center_excess, centers, fold, group), optima, models, group, fold, n_folds
        )
        # The last axis has a single mean in place of the rows.
        corrections[:, :, group] += centers.shares[fold, group] * excess[:, :, 0]
    corrections[:, Quantity.ERROR] = 0.0
    return corrections


def _center_excess(
    centers: FoldCenters,
    fold: int,
    group: int,
    pairs: Sequence[tuple[GroupOptima, Reconstructor]],
) -> FloatArray:
    """Excess of mean squared residuals about a center that does not depend on the rows, (l, 1).

    The rows are those of a group in a fold, and the residuals those under each of l pairs (optima,
    map), as :func:`measure_quantities` requires; the optima provide center and scale.
    """
    excess = np.zeros((len(pairs), 1))
    # Positions of the pairs with the same optima, whose center was learnt from the rows.
    positions_by_optima: dict[int, list[int]] = {}
    for position, (optima, _) in enumerate(pairs):
        if optima.center_excess_weight:
            positions_by_optima.setdefault(id(optima), []).append(position)
    for positions in positions_by_optima.values():
        optima = pairs[positions[0]][0]
        maps = [pairs[position][1] for position in positions]
        means = centers.fold_means_about_shifted_centers(optima.frame, fold, group)
        away, towards = squared_residuals(means, maps).T
        excess[positions, 0] = optima.center_excess_weight * (away - towards) / 2
    return excess


def _refit_errors(
    subspace: FairSubspace, refits: Sequence[Projector], total: Moments
) -> FloatArray:
    """Mean error of each group over all of its rows under each of K refits, (K, k).

    The second moments are those of all rows (`total`), so the errors differ only because of the
    fits.
    """
    second_moments = subspace.reference_frame(total).second_moments(total)
    return np.array([reconstruction_errors(refit, second_moments) for refit in refits])


def _min_cosine(projector: Projector, refits: Sequence[Projector]) -> float:
    """Cosine of the largest principal angle between a model and any of its refits."""
    basis = np.linalg.qr(projector.basis)[0]
    # The singular values of Q1'Q2 for orthonormal bases are the cosines of the principal angles.
    cosines = [
        np.linalg.svd(basis.T @ np.linalg.qr(refit.basis)[0], compute_uv=False)[-1]
        for refit in refits
    ]
    return float(min(cosines))
