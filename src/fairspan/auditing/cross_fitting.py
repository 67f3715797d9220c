"""What each fold of the rows says of models as new rows would, and what is measured of a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from fairspan.auditing.models import AuditedModel
from fairspan.errors import FairspanError
from fairspan.estimator.fit import fit_subspace
from fairspan.linalg.resources import map_in_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.of_rows import FoldMoments, Moments
from fairspan.moments.operators import (
    DenseSecondMoments,
    Projector,
    Reconstructor,
    SecondMoments,
    reconstruction_errors,
)
from fairspan.progress import Stage
from fairspan.typing import BoolArray, FloatArray, IntegerArray

QUANTITIES = ("error", "new_error", "cross_fitted_loss", "corrected_loss", "change")
"""What is measured of each row; without folds the first alone.

Let r(V) be the squared residual of a row x about its centre. V is the model, and V_f the same
model without the row's fold, if it was fitted on these rows. U is the best subspace of the row's
group, U_f the same without the row's fold, and w = (K - 1) / (2K - 1). Then the quantities are:
r(V); r(V_f); r(V_f) - r(U_f); r(V_f) - (1 - w) r(U) - w r(U_f); and r(V_f) less that of the model
it is compared with.
"""
# With more features, best subspaces are found by iteration, to a share of the variance.
_MAX_DENSE_FEATURES, _ITERATIVE_TOL = 500, 1e-9


@dataclass(frozen=True, eq=False)
class GroupOptima:
    """The best subspaces of the groups, of one dimension, about one centre, in one unit.

    Attributes
    ----------
    points : (1, p) or (k, p) array
        About which errors are measured, in all groups or in each; in units of the features.
    scale : (p,) array or None
        What features are divided by.
    own : tuple of k Projectors
        Found on all rows; empty without folds.
    others : tuple of K tuples of k Projectors
        Found on all rows but those of a fold.
    """

    centers: FloatArray
    scale: FloatArray | None
    best: tuple[Projector, ...] = ()
    best_by_fold: tuple[tuple[Projector, ...], ...] = ()

    def coordinates_key(self, group: int) -> tuple[bytes, bytes]:
        """What `centred` depends on: benchmarks of several dimensions share it."""
        scale = b"" if self.scale is None else self.scale.tobytes()
        return self.center_of(group).tobytes(), scale

    def center_and_scale(self, values: FloatArray, group: int) -> FloatArray:
        """Rows of a group about its centre, in the unit."""
        rows = values - self.center_of(group)
        return np.asarray(rows if self.scale is None else rows / self.scale)

    def center_of(self, group: int) -> FloatArray:
        """About which the errors of a group are measured, (p,)."""
        return np.asarray(self.centers[group if len(self.centers) > 1 else 0])


@dataclass(frozen=True, eq=False)
class EvaluatedModel:
    """A model as the rows are judged by it.

    Attributes
    ----------
    benchmark : int
        Position of what it is compared with.
    projector : Projector, or a model that is none
    errors : (k,) array
        Mean error of each group.
    by_fold : tuple of K Projectors
        Fitted again without each fold; empty where it was fitted on other rows.
    baseline : int or None
        Position of the model that it is compared with.
    errors_by_fold : (K, k) array
        Mean error of each group, over all of its rows, under each fit of `by_fold`; (1, k), the
        model's own, where that is empty.
    min_cosine : float
        Of the largest principal angle between the model and any fit of `by_fold`.
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
    """All quantities of some rows of one group in one fold, (m, q, r).

    Parameters
    ----------
    errors : callable
        Squared residuals (l, r) for l pairs, about the centre of a benchmark and under a model.
    benchmarks : sequence of Benchmark
    projections : sequence of m Projections
    group, fold : int
    n_folds : int
        K.
    """
    held_out_weight = (n_folds - 1) / (2 * n_folds - 1)
    refitted_models = [each for each in models if each.refits]
    pairs: list[tuple[GroupOptima, Reconstructor]] = [
        *((each, each.best[group]) for each in optima),
        *((each, each.best_by_fold[fold][group]) for each in optima),
        *((optima[each.optima_index], each.model) for each in models),
        *((optima[each.optima_index], each.refits[fold]) for each in refitted_models),
    ]
    b, m = len(optima), len(models)
    inside, outside, own, refitted = np.split(squared_residuals(pairs), [b, 2 * b, 2 * b + m])
    result = np.zeros((m, len(QUANTITIES), own.shape[1]))
    result[:, 0] = result[:, 1] = own
    result[[bool(each.refits) for each in models], 1] = refitted
    optima_index = [each.optima_index for each in models]
    result[:, 2] = result[:, 1] - outside[optima_index]
    result[:, 3] = (
        result[:, 1]
        - (1 - held_out_weight) * inside[optima_index]
        - held_out_weight * outside[optima_index]
    )
    for each, quantities in zip(models, result, strict=True):
        if each.baseline_index is not None:
            quantities[4] = quantities[1] - result[each.baseline_index, 1]
    return result


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models and what they are compared with, found on all rows and without each fold.

    Attributes
    ----------
    benchmarks : tuple of Benchmark
    training_errors : tuple of (K, k) arrays
        Of each benchmark: the error of each group's best subspace on the rows that it was found on.
    projections : tuple of Projection
        One for each model.
    shares : (K, k) array
        Of each group's weight, by fold.
    known : (m, k) array of bool
        Of each model, which groups have rows enough, whichever fold is left out.
    failures : dict of str to str
        Why models could not be fitted again without a fold, by their name.
    """

    optima: tuple[GroupOptima, ...]
    training_errors: tuple[FloatArray, ...]
    models: tuple[EvaluatedModel, ...]
    fold_shares: FloatArray
    has_enough_rows: BoolArray
    refit_failures: dict[str, str]


def cross_fit(
    models: Sequence[AuditedModel],
    errors: Sequence[FloatArray],
    in_sample: Sequence[bool],
    folds: FoldMoments,
    n_folds: int,
) -> CrossFit:
    """Find every group's best subspace without each fold, and fit the models again.

    Parameters
    ----------
    audited : sequence of Audited
    errors : sequence of (k,) arrays
        Of each model, on all rows.
    in_sample : sequence of bool
        Which of them were fitted on these rows.
    folds : FoldMoments
    n_folds : int
        K, with folds that have no rows.
    """
    whole = folds.total
    keys = [_optima_key(each.subspace, whole) for each in models]
    model_by_key = dict(reversed(list(zip(keys, models, strict=True))))
    distinct_keys = list(model_by_key)
    own = _best_subspaces_by_key(model_by_key, whole, whole)
    plain = [each.subspace.dimension for each in models if _is_pca(each)]
    has_several = len({each.subspace.dimension for each in models}) > 1
    failures = {
        each.name: each.no_refit_reason
        for each, here in zip(models, in_sample, strict=True)
        if here and each.no_refit_reason
    }

    def without(fold: int) -> tuple[list[_BestSubspaces], list[Projector | None]]:
        training = folds.excluding(fold)
        known = _TrainingMoments(training, max(plain, default=0), has_several)
        again: list[Projector | None] = []
        for each, here in zip(models, in_sample, strict=True):
            again.append(None)
            if here and each.name not in failures:
                try:
                    again[-1] = _refit(each, known)
                except FairspanError as error:
                    failures[each.name] = str(error.args[0])
        found = _best_subspaces_by_key(model_by_key, training, whole)
        stage.advance()
        return found, again

    with Stage("fitting again without each part", n_folds, "parts") as stage:
        fold_results = map_in_threads(without, range(n_folds))
    best_by_fold = list(zip(*(found for found, _ in fold_results), strict=True))
    refits = [
        () if None in again else tuple(filter(None, again))
        for again in zip(*(again for _, again in fold_results), strict=True)
    ]
    names = [each.name for each in models]
    benchmarks = [
        GroupOptima(
            reference_points(each.subspace, whole),
            each.subspace.scale,
            tuple(map(Projector, model_errors.bases)),
            tuple(tuple(map(Projector, each.bases)) for each in found),
        )
        for each, model_errors, found in zip(model_by_key.values(), own, best_by_fold, strict=True)
    ]
    counts = np.min([found.counts for found in best_by_fold[0]], axis=0)
    return CrossFit(
        tuple(benchmarks),
        tuple(np.array([each.errors for each in found]) for found in best_by_fold),
        tuple(
            EvaluatedModel(
                distinct_keys.index(place),
                each.subspace.projector,
                model_errors,
                again,
                names.index(each.baseline) if each.baseline in names else None,
                *_refit_errors_and_cosine(each.subspace, again, whole, model_errors),
            )
            for each, place, model_errors, again in zip(models, keys, errors, refits, strict=True)
        ),
        1 - np.array([found.weights for found in best_by_fold[0]]) / whole.weights,
        np.array([counts > each.subspace.dimension for each in models]),
        failures,
    )


@dataclass(frozen=True, eq=False)
class _BestSubspaces:
    """Each group's best subspace: its basis, its error on the same rows, and what these weigh."""

    bases: tuple[FloatArray, ...]
    errors: FloatArray
    counts: IntegerArray
    weights: FloatArray


# Models of one place have the same benchmark: dimension, centre and scale agree.
_OptimaKey = tuple[int, bytes, bytes]


def _optima_key(subspace: FairSubspace, whole: Moments) -> _OptimaKey:
    scale = b"" if subspace.scale is None else subspace.scale.tobytes()
    return subspace.dimension, reference_points(subspace, whole).tobytes(), scale


def _best_subspaces_by_key(
    model_by_key: Mapping[_OptimaKey, AuditedModel], moments: Moments, total: Moments
) -> list[_BestSubspaces]:
    """The benchmarks of all places, found on the rows of some moments."""
    keys_by_coordinates: dict[tuple[bytes, bytes], list[_OptimaKey]] = {}
    for place in model_by_key:
        keys_by_coordinates.setdefault(place[1:], []).append(place)
    found: dict[_OptimaKey, _BestSubspaces] = {}
    for keys in keys_by_coordinates.values():
        subspace = model_by_key[keys[0]].subspace
        dimensions = [place[0] for place in keys]
        best = _best_subspaces(
            moments, reference_points(subspace, total), subspace.scale, dimensions, total
        )
        found |= dict(zip(keys, best, strict=True))
    return [found[place] for place in model_by_key]


def _best_subspaces(
    moments: Moments,
    points: FloatArray,
    scale: FloatArray | None,
    dimensions: Sequence[int],
    whole: Moments,
) -> list[_BestSubspaces]:
    """The best subspaces of the groups of `whole`, of each dimension, found on some moments."""
    met = [i for i, label in enumerate(whole.labels) if label in set(moments.labels)]
    second = _second_moments_about(points if len(points) == 1 else points[met], scale, moments)
    m, k, p = len(dimensions), whole.n_groups, moments.n_features
    bases = [[np.eye(d, p)] * k for d in dimensions]
    errors, weights = np.zeros((m, k)), np.zeros(k)
    counts = np.zeros(k, dtype=np.int64)
    for alone, group in zip(np.eye(len(met)), met, strict=True):
        for i, vectors in enumerate(_leading_eigenvectors(second, alone, dimensions)):
            bases[i][group] = np.ascontiguousarray(vectors.T)
            errors[i, group] = float(second.residual_variances(vectors) @ alone)
    counts[met], weights[met] = moments.counts, moments.weights
    return [
        _BestSubspaces(tuple(model_errors), error, counts, weights)
        for model_errors, error in zip(bases, errors, strict=True)
    ]


def _second_moments_about(
    points: FloatArray, scale: FloatArray | None, moments: Moments
) -> SecondMoments:
    """Second moments about one point, or one for each group, in the unit."""
    if scale is not None:
        moments, points = moments.divided_by(scale), points / scale
    return moments.second_moments_about(points[0] if len(points) == 1 else points)


def _leading_eigenvectors(
    second: SecondMoments, weights: FloatArray, dimensions: Sequence[int]
) -> list[FloatArray]:
    """The leading eigenvectors of a mixture of groups, (p, d) for each dimension.

    With a few features those of the most dimensions hold all others; with many, each is found by
    iteration, as exactly as it needs.
    """
    most = max(dimensions)
    if second.n_features <= _MAX_DENSE_FEATURES or not hasattr(second, "approximate_leading"):
        vectors = second.leading(weights, most).vectors
        return [vectors[:, :d] for d in dimensions]
    goal = _ITERATIVE_TOL * float(second.traces @ weights)
    return [
        second.approximate_leading(weights, d, sum_goal=goal).vectors[:, :d] for d in dimensions
    ]


def _is_pca(each: AuditedModel) -> bool:
    """Whether a model is ordinary PCA, whose components are the same for any d that has them."""
    return each.is_pca or each.subspace.certificate is None


class _TrainingMoments:
    """What models are fitted to again: eigenproblems that several of them share are solved once.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    most : int
        The largest dimension of an ordinary PCA.
    has_several : bool
        Whether the models have several dimensions: then groups are decomposed for all of them.
    """

    def __init__(self, moments: Moments, max_pca_dimension: int, precompute_spectra: bool) -> None:
        self._moments, self._most, self._has_several = (
            moments,
            max_pca_dimension,
            precompute_spectra,
        )
        self._second_moments: dict[tuple[str, bytes], tuple[Moments, SecondMoments]] = {}
        self._pca: dict[tuple[str, bytes], FloatArray] = {}

    def second_moments_about(
        self, center: Center, scale: FloatArray | None
    ) -> tuple[Moments, SecondMoments]:
        """The moments in a unit, and their second moments about a centre."""
        key = (center, b"" if scale is None else scale.tobytes())
        if key not in self._second_moments:
            scaled = self._moments if scale is None else self._moments.divided_by(scale)
            second = scaled.second_moments_about(scaled.center_point(center))
            if self._has_several and isinstance(second, DenseSecondMoments):
                for alone in (
                    np.eye(second.n_groups) if second.n_features <= _MAX_DENSE_FEATURES else ()
                ):
                    second.eigen_cache.decomposition(alone)
            self._second_moments[key] = scaled, second
        return self._second_moments[key]

    def pca_components(self, about: Center, scale: FloatArray | None) -> FloatArray:
        """Components of ordinary PCA, (most, p)."""
        key = (about, b"" if scale is None else scale.tobytes())
        if key not in self._pca:
            scaled, second = self.second_moments_about(about, scale)
            shares = scaled.weights / scaled.weights.sum()
            self._pca[key] = _leading_eigenvectors(second, shares, [self._most])[0].T
        return self._pca[key]


def _refit(each: AuditedModel, training: _TrainingMoments) -> Projector:
    """A model fitted again with its own settings, in the units of the existing one."""
    subspace, made = each.subspace, each.subspace.certificate
    if made is None or _is_pca(each):
        about: Center = "none" if subspace.center == "none" else "global"
        return Projector(training.pca_components(about, subspace.scale)[: subspace.dimension])
    center = cast(Center, subspace.center)
    moments, second = training.second_moments_about(center, subspace.scale)
    near = None
    if made.groups == tuple(moments.labels) and not subspace.is_nested:
        # The rows may be in other coordinates than those of the fit, and the subspace with them.
        near = replace(made, components=subspace.components)
    return fit_subspace(
        moments,
        subspace.dimension,
        criterion=made.criterion,
        restriction=made.restriction,
        center=center,
        tol=max(made.tol, each.refit_tol),
        allow_extra=subspace.is_soft,
        nested=subspace.is_nested,
        warm_start=near,
        second_moments=second if isinstance(second, DenseSecondMoments) else None,
    ).projector


def _refit_errors_and_cosine(
    subspace: FairSubspace, refits: Sequence[Projector], whole: Moments, errors: FloatArray
) -> tuple[FloatArray, float]:
    """Errors of all rows under each refit, (K, k), and the least cosine; see :class:`Projection`.

    The second moments stay those of all rows, so the errors differ by the fits alone.
    """
    if not refits:
        return errors[None], 1.0
    second = _second_moments_about(reference_points(subspace, whole), subspace.scale, whole)
    basis = np.linalg.qr(subspace.projector.basis)[0]
    cosines = [
        np.linalg.svd(basis.T @ np.linalg.qr(each.basis)[0], compute_uv=False)[-1]
        for each in refits
    ]
    return np.array([reconstruction_errors(each, second) for each in refits]), float(min(cosines))


def reference_points(subspace: FairSubspace, total: Moments) -> FloatArray:
    """About which errors are measured, (1, p), or (k, p) where each group has its own mean."""
    point = subspace.center_point(total)
    return total.means if point is None else np.asarray(point)[None]
