"""What is found without each fold of the rows, so that the fold can judge it as new rows would."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fairspan.auditing.models import Audited
from fairspan.auditing.row_statistics import Benchmark, Projection
from fairspan.certificates.claims import settings_from
from fairspan.errors import FairspanError
from fairspan.estimator.fitting import fit_subspace
from fairspan.linalg.threads import in_threads
from fairspan.metrics.reconstruction import reference_point
from fairspan.moments.center import Center
from fairspan.moments.folds import FoldMoments
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import SecondMoments
from fairspan.subspace import FairSubspace
from fairspan.typing import BoolArray, FloatArray, IntegerArray

# With more features, best subspaces are found by iteration, to a share of the variance.
_FEW, _UNCERTAIN = 500, 1e-9
# A gap, as a share of the objective, that is far below what rows can tell.
_CLOSE_ENOUGH = 1e-6


@dataclass(frozen=True, eq=False)
class CrossFitted:
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
    known : (k,) array of bool
        Which groups have rows enough, whichever fold is left out.
    failures : dict of str to str
        Why models could not be fitted again without a fold, by their name.
    """

    benchmarks: tuple[Benchmark, ...]
    training_errors: tuple[FloatArray, ...]
    projections: tuple[Projection, ...]
    shares: FloatArray
    known: BoolArray
    failures: dict[str, str]


def cross_fitted(
    audited: Sequence[Audited],
    errors: Sequence[FloatArray],
    fitted_here: Sequence[bool],
    folds: FoldMoments,
    n_folds: int,
) -> CrossFitted:
    """Find every group's best subspace without each fold, and fit the models anew.

    Parameters
    ----------
    audited : sequence of Audited
    errors : sequence of (k,) arrays
        Of each model, on all rows.
    fitted_here : sequence of bool
        Which of them were fitted on these rows.
    folds : FoldMoments
    n_folds : int
        K, with folds that have no rows.
    """
    whole, places = folds.whole, _places(audited, folds.whole)
    first = {place: index for index, place in reversed(list(enumerate(places)))}
    own = [_best(whole, *_frame(audited[i].subspace, whole), whole) for i in first.values()]
    failures: dict[str, str] = {}

    def without(fold: int) -> tuple[list[_Best], list[FloatArray | None]]:
        training = folds.without(fold)
        found = [
            _best(training, *_frame(audited[i].subspace, whole), whole) for i in first.values()
        ]
        again: list[FloatArray | None] = []
        for each, here in zip(audited, fitted_here, strict=True):
            again.append(None)
            if here and each.name not in failures:
                try:
                    again[-1] = _refitted(each, training)
                except FairspanError as error:
                    failures[each.name] = str(error.args[0])
        return found, again

    parts = in_threads(without, range(n_folds))
    others = list(zip(*(found for found, _ in parts), strict=True))
    refits = [
        [components for components in again if components is not None]
        for again in zip(*(again for _, again in parts), strict=True)
    ]
    names = [each.name for each in audited]
    order = list(first)
    largest = max(each.subspace.dimension for each in audited)
    benchmarks = [
        Benchmark(
            points_of(audited[i].subspace, whole),
            audited[i].subspace.scale,
            mine.bases,
            tuple(each.bases for each in found),
        )
        for i, mine, found in zip(first.values(), own, others, strict=True)
    ]
    return CrossFitted(
        tuple(benchmarks),
        tuple(np.array([each.errors for each in found]) for found in others),
        tuple(
            Projection(
                order.index(place),
                each.subspace.components,
                mine,
                tuple(again) if len(again) == n_folds else (),
                names.index(each.baseline) if each.baseline in names else None,
            )
            for each, place, mine, again in zip(audited, places, errors, refits, strict=True)
        ),
        1 - np.array([found.weights for found in others[0]]) / whole.weights,
        np.min([found.counts for found in others[0]], axis=0) > largest,
        failures,
    )


@dataclass(frozen=True, eq=False)
class _Best:
    """Each group's best subspace: its basis, its error on the same rows, and what these weigh."""

    bases: tuple[FloatArray, ...]
    errors: FloatArray
    counts: IntegerArray
    weights: FloatArray


def _best(
    moments: Moments,
    points: FloatArray,
    scale: FloatArray | None,
    d: int,
    whole: Moments,
    near: Sequence[FloatArray] = (),
) -> _Best:
    """The best subspaces of the groups of `whole`, found on the rows of some moments.

    With many features they are found by iteration, from (d, p) bases that are near, if there are.
    """
    met = [i for i, label in enumerate(whole.labels) if label in set(moments.labels)]
    about = points if len(points) == 1 else points[met]
    if scale is not None:
        moments, about = moments.divided_by(scale), about / scale
    second = moments.operator_about(about[0] if len(about) == 1 else about)
    bases = [np.eye(d, moments.n_features)] * whole.n_groups
    errors, weights = np.zeros(whole.n_groups), np.zeros(whole.n_groups)
    counts = np.zeros(whole.n_groups, dtype=np.int64)
    for alone, group in zip(np.eye(len(met)), met, strict=True):
        vectors = _leading(second, alone, d, near[group].T if near else None)
        bases[group] = np.ascontiguousarray(vectors.T)
        errors[group] = float(second.residual_variances(vectors) @ alone)
    counts[met], weights[met] = moments.counts, moments.weights
    return _Best(tuple(bases), errors, counts, weights)


def _leading(
    second: SecondMoments, weights: FloatArray, d: int, start: FloatArray | None = None
) -> FloatArray:
    """The leading d eigenvectors of a mixture, (p, d)."""
    if second.n_features > _FEW and hasattr(second, "sought"):
        goal = _UNCERTAIN * float(second.traces @ weights)
        found = second.sought(weights, d, start=start, sum_goal=goal).vectors[:, :d]
    else:
        found = second.leading(weights, d).vectors
    return np.asarray(found)


def _refitted(each: Audited, training: Moments) -> FloatArray:
    """A model fitted anew with its own settings, in the units of the one that there is."""
    subspace, made = each.subspace, each.subspace.provenance
    if subspace.scale is not None:
        training = training.divided_by(subspace.scale)
    if made is None or each.is_plain_pca:
        point = np.zeros_like(training.mean) if subspace.center == "none" else training.mean
        shares = training.weights / training.weights.sum()
        return _leading(training.operator_about(point), shares, subspace.dimension).T
    criterion, restriction = settings_from(made.criterion, made.settings)
    return fit_subspace(
        training,
        subspace.dimension,
        criterion=criterion,
        restriction=restriction,
        center=cast(Center, subspace.center),
        tol=max(made.tol, _CLOSE_ENOUGH),
        allow_extra=subspace.is_soft,
    ).subspace.components


_Place = tuple[int, bytes, bytes]


def _places(audited: Sequence[Audited], whole: Moments) -> list[_Place]:
    """Models of one place have the same benchmark: dimension, centre and scale agree."""
    places = []
    for each in audited:
        points, scale = points_of(each.subspace, whole), each.subspace.scale
        divisor = b"" if scale is None else scale.tobytes()
        places.append((each.subspace.dimension, points.tobytes(), divisor))
    return places


def points_of(subspace: FairSubspace, whole: Moments) -> FloatArray:
    """About which errors are measured, (1, p), or (k, p) where each group has its own mean."""
    point = reference_point(subspace, whole)
    return whole.means if point is None else np.asarray(point)[None]


def _frame(subspace: FairSubspace, whole: Moments) -> tuple[FloatArray, FloatArray | None, int]:
    return points_of(subspace, whole), subspace.scale, subspace.dimension
