"""Cross-fitting: best subspaces and models refitted without each fold, and held-out quantities."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from fairspan.auditing.feature_errors import ModelByFold
from fairspan.auditing.fold_centers import FoldCenters, GroupMeans
from fairspan.auditing.identification import EigenvalueGap, gap_from_left_out_folds
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.observed_pairs import has_enough_pairs
from fairspan.errors import FairspanError
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.linalg.rounding import AGREEMENT_TOL
from fairspan.linalg.threads import map_in_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import FoldMoments
from fairspan.moments.projector import Projector, Reconstructor, squared_residuals
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.moments.second_moments import SecondMoments, reconstruction_errors
from fairspan.progress import Stage
from fairspan.typing import BoolArray, FloatArray, IntegerArray

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
    refit_failures : dict of str to str
        Why a model could not be refitted, by model name.
    """

    optima: tuple[GroupOptima, ...]
    eigenvalue_gaps: tuple[tuple[EigenvalueGap, ...], ...]
    training_errors: tuple[FloatArray, ...]
    models: tuple[EvaluatedModel, ...]
    centers: FoldCenters
    center_corrections: FloatArray
    has_enough_rows: BoolArray
    has_enough_pairs: BoolArray
    refit_failures: dict[str, str]

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


@dataclass(frozen=True, eq=False)
class _BestSubspaces:
    """Best subspace of each group on some rows, the training rows.

    Attributes
    ----------
    bases : tuple of k (d, p) arrays
    errors : (k,) array
        Error of each group on the training rows.
    counts : (k,) array of int
    weights : (k,) array
    boundaries : tuple of k (p, 2) arrays
        Eigenvectors d and d + 1 of each group; (p, 1) if there are only d.
    gaps : (k,) array
        Variance of the training rows along the first minus that along the second of two directions,
        which are the boundaries of these rows, or of all rows if these are a part of them. Infinite
        if there is only one, NaN for a group without training rows.
    """

    bases: tuple[FloatArray, ...]
    errors: FloatArray
    counts: IntegerArray
    weights: FloatArray
    boundaries: tuple[FloatArray, ...]
    gaps: FloatArray


class _OptimaKey(NamedTuple):
    """Dimension and frame of a model; models with the same key share their group optima."""

    dimension: int
    frame_key: tuple[bytes, bytes]


def cross_fit(
    models: Sequence[AuditedModel],
    errors: Sequence[FloatArray],
    in_sample: Sequence[bool],
    folds: FoldMoments,
    n_folds: int,
) -> CrossFit:
    """Find every group's best subspace without each fold, and refit the in-sample models.

    A model that cannot be refitted is evaluated as it is, and named in `refit_failures`.

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
    keys = [_optima_key(model.subspace, total) for model in models]
    # Reversed, so that the first model of each key stands for it.
    model_by_key = dict(reversed(list(zip(keys, models, strict=True))))
    best_on_all_rows = _best_subspaces_by_key(model_by_key, moments=total, total=total)
    with Stage("refitting without each fold", n_folds, "folds") as stage:
        boundaries = [best.boundaries for best in best_on_all_rows]
        fitter = _FoldFitter(models, in_sample, model_by_key, folds, boundaries, stage)
        fold_fits = map_in_threads(fitter.fit_without, range(n_folds))
    refits_by_model = [
        _combine_refits(refits) for refits in zip(*(fit.refits for fit in fold_fits), strict=True)
    ]
    # For each key, the best subspaces without each fold.
    best_by_fold = list(zip(*(fit.best for fit in fold_fits), strict=True))
    # Counts and weights of the rows outside each fold are the same for all keys.
    min_training_counts = np.min([best.counts for best in best_by_fold[0]], axis=0)
    centers = FoldCenters.from_training(total, [fit.training for fit in fold_fits])
    learnt_keys = {
        key
        for key, model, is_in_sample in zip(keys, models, in_sample, strict=True)
        if is_in_sample or model.subspace.mean is None
    }
    optima = _group_optima(model_by_key, learnt_keys, total, best_on_all_rows, best_by_fold)
    optima_indices = [list(model_by_key).index(key) for key in keys]
    evaluated = _evaluated_models(models, errors, refits_by_model, optima_indices, total)
    return CrossFit(
        optima=optima,
        eigenvalue_gaps=tuple(
            _eigenvalue_gaps(on_all_rows, best, centers.shares)
            for on_all_rows, best in zip(best_on_all_rows, best_by_fold, strict=True)
        ),
        training_errors=tuple(
            np.array([subspaces.errors for subspaces in best]) for best in best_by_fold
        ),
        models=evaluated,
        centers=centers,
        center_corrections=_center_corrections(optima, evaluated, centers, n_folds),
        # With no more rows than dimensions, the best subspace contains all of them.
        has_enough_rows=np.array(
            [min_training_counts > model.subspace.dimension for model in models]
        ),
        has_enough_pairs=has_enough_pairs(total),
        refit_failures={
            model.name: refits.failure
            for model, refits in zip(models, refits_by_model, strict=True)
            if refits.failure
        },
    )


def _eigenvalue_gaps(
    on_all_rows: _BestSubspaces, by_fold: Sequence[_BestSubspaces], fold_shares: FloatArray
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


@dataclass(frozen=True, eq=False)
class _ModelRefits:
    """Refits of one model without each fold.

    Attributes
    ----------
    projectors : tuple of K Projectors
        Empty for a model that was not refitted, or could not be without every fold.
    failure : str
        Why the model could not be refitted; empty if it could, or was not to be.
    """

    projectors: tuple[Projector, ...] = ()
    failure: str = ""


def _combine_refits(refits: Sequence[_ModelRefits]) -> _ModelRefits:
    """Combine the refits of a model, of one fold each; the first failure is that of the model."""
    for refit in refits:
        if refit.failure:
            return refit
    return _ModelRefits(tuple(projector for refit in refits for projector in refit.projectors))


def _evaluated_models(
    models: Sequence[AuditedModel],
    errors: Sequence[FloatArray],
    refits_by_model: Sequence[_ModelRefits],
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
    best : list of _BestSubspaces
        Best subspaces of the groups for each key, in the order of `model_by_key`.
    refits : list of _ModelRefits
        Refit of each model without this fold.
    training : GroupMeans
        Means of the groups outside this fold.
    """

    best: list[_BestSubspaces]
    refits: list[_ModelRefits]
    training: GroupMeans


@dataclass(frozen=True, eq=False)
class _FoldFitter:
    """Fits to the rows outside each fold.

    Attributes
    ----------
    models : sequence of AuditedModel
    in_sample : sequence of bool
        Models to refit.
    model_by_key : mapping
        One model for each set of group optima.
    folds : FoldMoments
    boundaries : sequence of tuples of k arrays
        For each set of group optima: eigenvectors d and d + 1 of each group on all rows.
    stage : Stage
        Progress, which advances by one per fold.
    """

    models: Sequence[AuditedModel]
    in_sample: Sequence[bool]
    model_by_key: Mapping[_OptimaKey, AuditedModel]
    folds: FoldMoments
    boundaries: Sequence[tuple[FloatArray, ...]]
    stage: Stage

    def fit_without(self, fold: int) -> _FoldFit:
        """Fit the groups' best subspaces, and refit the in-sample models, without one fold.

        All refits share a cache of eigenproblems: one PCA with the largest dimension serves all
        that are ordinary PCA. Calls for several folds may run in threads.
        """
        training = self.folds.excluding(fold)
        pca_dimensions = [model.subspace.dimension for model in self.models if _is_pca(model)]
        has_several_dimensions = len({model.subspace.dimension for model in self.models}) > 1
        training_moments = _TrainingMoments(
            training,
            max_pca_dimension=max(pca_dimensions, default=0),
            precompute_spectra=has_several_dimensions,
        )
        refits = [
            _try_refit(model, training_moments) if is_in_sample else _ModelRefits()
            for model, is_in_sample in zip(self.models, self.in_sample, strict=True)
        ]
        best = _best_subspaces_by_key(
            self.model_by_key, training, self.folds.total, self.boundaries
        )
        self.stage.advance()
        return _FoldFit(best, refits, GroupMeans.from_moments(training, self.folds.total))


def _try_refit(model: AuditedModel, training_moments: "_TrainingMoments") -> _ModelRefits:
    """Refit a model to the rows outside one fold, or say why it cannot be refitted."""
    if model.no_refit_reason:
        return _ModelRefits(failure=model.no_refit_reason)
    try:
        return _ModelRefits((_refit(model, training_moments),))
    except FairspanError as error:
        return _ModelRefits(failure=str(error.args[0]))


def _group_optima(
    model_by_key: Mapping[_OptimaKey, AuditedModel],
    learnt_keys: Container[_OptimaKey],
    total: Moments,
    best_on_all_rows: Sequence[_BestSubspaces],
    best_by_fold: Sequence[Sequence[_BestSubspaces]],
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

    def excess(
        fold: int, group: int, pairs: Sequence[tuple[GroupOptima, Reconstructor]]
    ) -> FloatArray:
        """Excess of mean squared residuals about a center that does not depend on them, (l, 1)."""
        result = np.zeros((len(pairs), 1))
        pairs_by_optima: dict[int, list[int]] = {}
        for i, (item, _) in enumerate(pairs):
            if item.center_excess_weight:
                pairs_by_optima.setdefault(id(item), []).append(i)
        for indices in pairs_by_optima.values():
            item = pairs[indices[0]][0]
            means = centers.fold_means_about_shifted_centers(item.frame, fold, group)
            away, towards = squared_residuals(means, [pairs[i][1] for i in indices]).T
            result[indices, 0] = item.center_excess_weight * (away - towards) / 2
        return result

    for fold, group in np.argwhere(centers.shares > 0).tolist():
        excess_of_cell = partial(excess, fold, group)
        corrections[:, :, group] += (
            centers.shares[fold, group]
            * measure_quantities(excess_of_cell, optima, models, group, fold, n_folds)[:, :, 0]
        )
    corrections[:, Quantity.ERROR] = 0.0
    return corrections


def _optima_key(subspace: FairSubspace, total: Moments) -> _OptimaKey:
    return _OptimaKey(subspace.dimension, subspace.reference_frame(total).key)


def _best_subspaces_by_key(
    model_by_key: Mapping[_OptimaKey, AuditedModel],
    moments: Moments,
    total: Moments,
    boundaries: Sequence[tuple[FloatArray, ...]] | None = None,
) -> list[_BestSubspaces]:
    """Best subspaces from the training rows, in the order of the keys.

    Keys that differ only in the dimension share one computation.

    Parameters
    ----------
    model_by_key : mapping of key to AuditedModel
        A model for each key, of which center and scale are used.
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the training rows.
    total : GroupMoments, SparseMoments or WideMoments
        Moments of all rows, which determine groups and centers.
    boundaries : sequence of tuples of k arrays, optional
        For each key, the directions of the gaps; by default the boundaries of the training rows.
    """
    boundaries_by_key: dict[_OptimaKey, tuple[FloatArray, ...]] = {}
    if boundaries is not None:
        boundaries_by_key = dict(zip(model_by_key, boundaries, strict=True))
    keys_by_frame: dict[tuple[bytes, bytes], list[_OptimaKey]] = {}
    for key in model_by_key:
        keys_by_frame.setdefault(key.frame_key, []).append(key)
    best_by_key: dict[_OptimaKey, _BestSubspaces] = {}
    for keys in keys_by_frame.values():
        subspace = model_by_key[keys[0]].subspace
        best = _best_subspaces(
            moments,
            subspace.reference_frame(total),
            [key.dimension for key in keys],
            total,
            [boundaries_by_key.get(key) for key in keys],
        )
        best_by_key |= dict(zip(keys, best, strict=True))
    return [best_by_key[key] for key in model_by_key]


def _best_subspaces(
    moments: Moments,
    frame: ReferenceFrame,
    dimensions: Sequence[int],
    total: Moments,
    boundaries: Sequence[tuple[FloatArray, ...] | None],
) -> list[_BestSubspaces]:
    """Best subspaces of each group from the training rows, one result per dimension.

    A group without training rows gets count and weight zero and the first axes as a placeholder, so
    that the arrays have an entry for every group.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the training rows.
    frame : ReferenceFrame
        With the center of all groups or of each group of `total`.
    dimensions : sequence of int
    total : GroupMoments, SparseMoments or WideMoments
        Moments of all rows, with k groups.
    boundaries : sequence of tuples of k arrays, or None
        For each dimension, the directions of the gaps, or None for those of the training rows.
    """
    present = [i for i, label in enumerate(total.labels) if label in set(moments.labels)]
    second_moments = frame.select_groups(present).second_moments(moments)
    n_groups = total.n_groups
    n_features = moments.n_features
    bases = [[np.eye(d, n_features)] * n_groups for d in dimensions]
    own_boundaries = [[np.eye(n_features, 1)] * n_groups for _ in dimensions]
    errors = np.zeros((len(dimensions), n_groups))
    gaps = np.full((len(dimensions), n_groups), np.nan)
    weights = np.zeros(n_groups)
    counts = np.zeros(n_groups, dtype=np.int64)
    # A mixture with weight one on a single group is the second moment matrix of that group.
    for position, group in enumerate(present):
        unit_weights = np.eye(len(present))[position]
        group_moments = second_moments.select_group(position)
        # One more vector than dimensions, if there is one, for the gap after eigenvalue d.
        for i, vectors in enumerate(
            _leading_eigenvectors(
                second_moments, unit_weights, [min(d + 1, n_features) for d in dimensions]
            )
        ):
            d = dimensions[i]
            basis = vectors[:, :d]
            bases[i][group] = np.ascontiguousarray(basis.T)
            errors[i, group] = float(group_moments.residual_variances(basis)[0])
            own_boundaries[i][group] = vectors[:, d - 1 : d + 1]
            directions = boundaries[i] or own_boundaries[i]
            gaps[i, group] = _gap_along(group_moments, directions[group])
    counts[present] = moments.counts
    weights[present] = moments.weights
    return [
        _BestSubspaces(
            tuple(bases[i]), errors[i], counts, weights, tuple(own_boundaries[i]), gaps[i]
        )
        for i in range(len(dimensions))
    ]


def _gap_along(group_moments: SecondMoments, directions: FloatArray) -> float:
    """Variance of a group along the first minus that along the second of two directions.

    `directions` are (p, 2); infinite if there is only one, (p, 1).
    """
    if directions.shape[1] < 2:
        return np.inf
    variance, next_variance = [
        float(group_moments.captured_variances(np.ascontiguousarray(direction[:, None]))[0])
        for direction in directions.T
    ]
    return variance - next_variance


def _leading_eigenvectors(
    second_moments: SecondMoments, weights: FloatArray, dimensions: Sequence[int]
) -> list[FloatArray]:
    """Leading eigenvectors of a mixture of groups, a (p, d) array for each dimension d.

    The mixture is sum_g w_g S_g, with `weights` w and second moment matrices S_g. With few
    features, or second moments without an iterative method, one decomposition serves all
    dimensions. With many, the vectors of each dimension are iterated until the sum of their
    eigenvalues is accurate to 1e-9 of the variance.
    """
    max_dimension = max(dimensions)
    if second_moments.n_features <= _MAX_DENSE_FEATURES or not hasattr(
        second_moments, "approximate_leading"
    ):
        vectors = second_moments.leading(weights, max_dimension).vectors
        return [vectors[:, :d] for d in dimensions]
    sum_tolerance = AGREEMENT_TOL * float(second_moments.traces @ weights)
    # The iteration returns further vectors after the first d, which need not have converged.
    return [
        second_moments.approximate_leading(weights, d, sum_goal=sum_tolerance).vectors[:, :d]
        for d in dimensions
    ]


def _is_pca(model: AuditedModel) -> bool:
    """Whether a model is refitted as ordinary PCA: it is one, or has no certificate.

    The first d components of one PCA serve all such models with d dimensions.
    """
    return model.is_pca or model.subspace.certificate is None


class _TrainingMoments:
    """Training moments for refits, with a cache of the eigenproblems that models share.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    max_pca_dimension : int
        Largest dimension of an ordinary PCA among the models.
    precompute_spectra : bool
        Whether models differ in dimension, so that the full spectrum of each group is computed up
        front.
    """

    def __init__(self, moments: Moments, max_pca_dimension: int, precompute_spectra: bool) -> None:
        self._moments = moments
        self._max_pca_dimension = max_pca_dimension
        self._precompute_spectra = precompute_spectra
        self._second_moments: dict[tuple[str, bytes], tuple[Moments, SecondMoments]] = {}
        self._pca: dict[tuple[str, bytes], FloatArray] = {}

    def second_moments_about(
        self, center: Center, scale: FloatArray | None
    ) -> tuple[Moments, SecondMoments]:
        """Return the scaled moments and their second moments about a center, computed once.

        If models differ in dimension, the spectrum of each group is computed up front, since the
        fits of all dimensions need it.
        """
        key = (center, b"" if scale is None else scale.tobytes())
        if key not in self._second_moments:
            scaled = self._moments.in_units(scale)
            second_moments = scaled.second_moments_about(scaled.center_point(center))
            is_small = second_moments.n_features <= _MAX_DENSE_FEATURES
            if self._precompute_spectra and is_small:
                second_moments.decompose_groups()
            self._second_moments[key] = scaled, second_moments
        return self._second_moments[key]

    def pca_components(self, center: Center, scale: FloatArray | None) -> FloatArray:
        """Components of ordinary PCA, (max_pca_dimension, p)."""
        key = (center, b"" if scale is None else scale.tobytes())
        if key not in self._pca:
            scaled, second_moments = self.second_moments_about(center, scale)
            shares = scaled.weights / scaled.weights.sum()
            self._pca[key] = _leading_eigenvectors(
                second_moments, shares, [self._max_pca_dimension]
            )[0].T
        return self._pca[key]


def _refit(model: AuditedModel, training: _TrainingMoments) -> Projector:
    """Refit a model with its own settings, keeping its scale.

    A model without certificate is refitted as ordinary PCA, like PCA itself. The tolerance is at
    least `model.refit_tol`, which curves over the dimension set to save time. Returns the projector
    of the refit, in the same units as the model.
    """
    subspace = model.subspace
    certificate = model.subspace.certificate
    if certificate is None or _is_pca(model):
        pca_center: Center = "none" if subspace.center == "none" else "global"
        return Projector(training.pca_components(pca_center, subspace.scale)[: subspace.dimension])
    center = subspace.center
    moments, second_moments = training.second_moments_about(center, subspace.scale)
    # Start from the model, if its weights are for the same groups. A nested fit, which solves one
    # problem per component, is not started from the model.
    warm_start = None
    if certificate.groups == tuple(moments.labels) and not subspace.is_nested:
        # The rows and the subspace may be in other coordinates than those of the fit.
        warm_start = replace(certificate, components=subspace.components)
    settings = FitSettings(
        subspace.dimension,
        certificate.criterion,
        certificate.restriction,
        center,
        tol=max(certificate.tol, model.refit_tol),
        # A soft projection, with components shorter than one, has more of them than its dimension.
        allow_extra=subspace.is_soft,
        nested=subspace.is_nested,
    )
    fit = fit_moments(
        moments,
        settings,
        warm_start=warm_start,
        second_moments=second_moments,
    )
    return fit.subspace.projector


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
