"""What each fold of the rows says of models as new rows would, and what is measured of a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from fairspan.auditing.models import Audited
from fairspan.errors import FairspanError
from fairspan.estimator.fit import fit_subspace
from fairspan.linalg.resources import in_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center
from fairspan.moments.of_rows import FoldMoments, Moments
from fairspan.moments.operators import (
    DenseSecondMoments,
    Projector,
    Reconstructs,
    SecondMoments,
    errors_under,
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
_FEW, _UNCERTAIN = 500, 1e-9


@dataclass(frozen=True, eq=False)
class Benchmark:
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

    points: FloatArray
    scale: FloatArray | None
    own: tuple[Projector, ...] = ()
    others: tuple[tuple[Projector, ...], ...] = ()

    def frame(self, group: int) -> tuple[bytes, bytes]:
        """What `centred` depends on: benchmarks of several dimensions share it."""
        scale = b"" if self.scale is None else self.scale.tobytes()
        return self.point_of(group).tobytes(), scale

    def centred(self, values: FloatArray, group: int) -> FloatArray:
        """Rows of a group about its centre, in the unit."""
        rows = values - self.point_of(group)
        return np.asarray(rows if self.scale is None else rows / self.scale)

    def point_of(self, group: int) -> FloatArray:
        """About which the errors of a group are measured, (p,)."""
        return np.asarray(self.points[group if len(self.points) > 1 else 0])


@dataclass(frozen=True, eq=False)
class Projection:
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
    least_cosine : float
        Of the largest principal angle between the model and any fit of `by_fold`.
    """

    benchmark: int
    projector: Reconstructs
    errors: FloatArray
    by_fold: tuple[Projector, ...] = ()
    baseline: int | None = None
    errors_by_fold: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))
    least_cosine: float = 1.0


def measured_by(
    errors: Callable[[Sequence[tuple[Benchmark, Reconstructs]]], FloatArray],
    benchmarks: Sequence[Benchmark],
    projections: Sequence[Projection],
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
    share = (n_folds - 1) / (2 * n_folds - 1)
    again = [each for each in projections if each.by_fold]
    pairs: list[tuple[Benchmark, Reconstructs]] = [
        *((each, each.own[group]) for each in benchmarks),
        *((each, each.others[fold][group]) for each in benchmarks),
        *((benchmarks[each.benchmark], each.projector) for each in projections),
        *((benchmarks[each.benchmark], each.by_fold[fold]) for each in again),
    ]
    b, m = len(benchmarks), len(projections)
    inside, outside, own, refitted = np.split(errors(pairs), [b, 2 * b, 2 * b + m])
    result = np.zeros((m, len(QUANTITIES), own.shape[1]))
    result[:, 0] = result[:, 1] = own
    result[[bool(each.by_fold) for each in projections], 1] = refitted
    of = [each.benchmark for each in projections]
    result[:, 2] = result[:, 1] - outside[of]
    result[:, 3] = result[:, 1] - (1 - share) * inside[of] - share * outside[of]
    for each, quantities in zip(projections, result, strict=True):
        if each.baseline is not None:
            quantities[4] = quantities[1] - result[each.baseline, 1]
    return result


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
    known : (m, k) array of bool
        Of each model, which groups have rows enough, whichever fold is left out.
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
    """Find every group's best subspace without each fold, and fit the models again.

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
    whole = folds.whole
    places = [_place_of(each.subspace, whole) for each in audited]
    firsts = dict(reversed(list(zip(places, audited, strict=True))))
    order = list(firsts)
    own = _best_of(firsts, whole, whole)
    plain = [each.subspace.dimension for each in audited if _is_plain(each)]
    has_several = len({each.subspace.dimension for each in audited}) > 1
    failures = {
        each.name: each.why_not_refitted
        for each, here in zip(audited, fitted_here, strict=True)
        if here and each.why_not_refitted
    }

    def without(fold: int) -> tuple[list[_Best], list[Projector | None]]:
        training = folds.without(fold)
        known = _Training(training, max(plain, default=0), has_several)
        again: list[Projector | None] = []
        for each, here in zip(audited, fitted_here, strict=True):
            again.append(None)
            if here and each.name not in failures:
                try:
                    again[-1] = _refitted(each, known)
                except FairspanError as error:
                    failures[each.name] = str(error.args[0])
        found = _best_of(firsts, training, whole)
        stage.add()
        return found, again

    with Stage("fitting again without each part", n_folds, "parts") as stage:
        parts = in_threads(without, range(n_folds))
    others = list(zip(*(found for found, _ in parts), strict=True))
    refits = [
        () if None in again else tuple(filter(None, again))
        for again in zip(*(again for _, again in parts), strict=True)
    ]
    names = [each.name for each in audited]
    benchmarks = [
        Benchmark(
            points_of(each.subspace, whole),
            each.subspace.scale,
            tuple(map(Projector, mine.bases)),
            tuple(tuple(map(Projector, each.bases)) for each in found),
        )
        for each, mine, found in zip(firsts.values(), own, others, strict=True)
    ]
    counts = np.min([found.counts for found in others[0]], axis=0)
    return CrossFitted(
        tuple(benchmarks),
        tuple(np.array([each.errors for each in found]) for found in others),
        tuple(
            Projection(
                order.index(place),
                each.subspace.projector,
                mine,
                again,
                names.index(each.baseline) if each.baseline in names else None,
                *_refits_on_all_rows(each.subspace, again, whole, mine),
            )
            for each, place, mine, again in zip(audited, places, errors, refits, strict=True)
        ),
        1 - np.array([found.weights for found in others[0]]) / whole.weights,
        np.array([counts > each.subspace.dimension for each in audited]),
        failures,
    )


@dataclass(frozen=True, eq=False)
class _Best:
    """Each group's best subspace: its basis, its error on the same rows, and what these weigh."""

    bases: tuple[FloatArray, ...]
    errors: FloatArray
    counts: IntegerArray
    weights: FloatArray


# Models of one place have the same benchmark: dimension, centre and scale agree.
_Place = tuple[int, bytes, bytes]


def _place_of(subspace: FairSubspace, whole: Moments) -> _Place:
    scale = b"" if subspace.scale is None else subspace.scale.tobytes()
    return subspace.dimension, points_of(subspace, whole).tobytes(), scale


def _best_of(firsts: Mapping[_Place, Audited], moments: Moments, whole: Moments) -> list[_Best]:
    """The benchmarks of all places, found on the rows of some moments."""
    by_frame: dict[tuple[bytes, bytes], list[_Place]] = {}
    for place in firsts:
        by_frame.setdefault(place[1:], []).append(place)
    found: dict[_Place, _Best] = {}
    for alike in by_frame.values():
        subspace = firsts[alike[0]].subspace
        dimensions = [place[0] for place in alike]
        best = _best(moments, points_of(subspace, whole), subspace.scale, dimensions, whole)
        found |= dict(zip(alike, best, strict=True))
    return [found[place] for place in firsts]


def _best(
    moments: Moments,
    points: FloatArray,
    scale: FloatArray | None,
    dimensions: Sequence[int],
    whole: Moments,
) -> list[_Best]:
    """The best subspaces of the groups of `whole`, of each dimension, found on some moments."""
    met = [i for i, label in enumerate(whole.labels) if label in set(moments.labels)]
    second = _about(points if len(points) == 1 else points[met], scale, moments)
    m, k, p = len(dimensions), whole.n_groups, moments.n_features
    bases = [[np.eye(d, p)] * k for d in dimensions]
    errors, weights = np.zeros((m, k)), np.zeros(k)
    counts = np.zeros(k, dtype=np.int64)
    for alone, group in zip(np.eye(len(met)), met, strict=True):
        for i, vectors in enumerate(_leading(second, alone, dimensions)):
            bases[i][group] = np.ascontiguousarray(vectors.T)
            errors[i, group] = float(second.residual_variances(vectors) @ alone)
    counts[met], weights[met] = moments.counts, moments.weights
    return [
        _Best(tuple(mine), error, counts, weights)
        for mine, error in zip(bases, errors, strict=True)
    ]


def _about(points: FloatArray, scale: FloatArray | None, moments: Moments) -> SecondMoments:
    """Second moments about one point, or one for each group, in the unit."""
    if scale is not None:
        moments, points = moments.divided_by(scale), points / scale
    return moments.operator_about(points[0] if len(points) == 1 else points)


def _leading(
    second: SecondMoments, weights: FloatArray, dimensions: Sequence[int]
) -> list[FloatArray]:
    """The leading eigenvectors of a mixture of groups, (p, d) for each dimension.

    With a few features those of the most dimensions hold all others; with many, each is found by
    iteration, as exactly as it needs.
    """
    most = max(dimensions)
    if second.n_features <= _FEW or not hasattr(second, "sought"):
        vectors = second.leading(weights, most).vectors
        return [vectors[:, :d] for d in dimensions]
    goal = _UNCERTAIN * float(second.traces @ weights)
    return [second.sought(weights, d, sum_goal=goal).vectors[:, :d] for d in dimensions]


def _is_plain(each: Audited) -> bool:
    """Whether a model is ordinary PCA, whose components are the same for any d that has them."""
    return each.is_plain_pca or each.subspace.certificate is None


class _Training:
    """What models are fitted to again: eigenproblems that several of them share are solved once.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
    most : int
        The largest dimension of an ordinary PCA.
    has_several : bool
        Whether the models have several dimensions: then groups are decomposed for all of them.
    """

    def __init__(self, moments: Moments, most: int, has_several: bool) -> None:
        self._moments, self._most, self._has_several = moments, most, has_several
        self._known: dict[tuple[str, bytes], tuple[Moments, SecondMoments]] = {}
        self._plain: dict[tuple[str, bytes], FloatArray] = {}

    def about(self, center: Center, scale: FloatArray | None) -> tuple[Moments, SecondMoments]:
        """The moments in a unit, and their second moments about a centre."""
        key = (center, b"" if scale is None else scale.tobytes())
        if key not in self._known:
            scaled = self._moments if scale is None else self._moments.divided_by(scale)
            second = scaled.operator_about(scaled.center_point(center))
            if self._has_several and isinstance(second, DenseSecondMoments):
                for alone in np.eye(second.n_groups) if second.n_features <= _FEW else ():
                    second.solved.spectrum(alone)
            self._known[key] = scaled, second
        return self._known[key]

    def plain(self, about: Center, scale: FloatArray | None) -> FloatArray:
        """Components of ordinary PCA, (most, p)."""
        key = (about, b"" if scale is None else scale.tobytes())
        if key not in self._plain:
            scaled, second = self.about(about, scale)
            shares = scaled.weights / scaled.weights.sum()
            self._plain[key] = _leading(second, shares, [self._most])[0].T
        return self._plain[key]


def _refitted(each: Audited, training: _Training) -> Projector:
    """A model fitted again with its own settings, in the units of the existing one."""
    subspace, made = each.subspace, each.subspace.certificate
    if made is None or _is_plain(each):
        about: Center = "none" if subspace.center == "none" else "global"
        return Projector(training.plain(about, subspace.scale)[: subspace.dimension])
    center = cast(Center, subspace.center)
    moments, second = training.about(center, subspace.scale)
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
        near=near,
        second=second if isinstance(second, DenseSecondMoments) else None,
    ).projector


def _refits_on_all_rows(
    subspace: FairSubspace, refits: Sequence[Projector], whole: Moments, errors: FloatArray
) -> tuple[FloatArray, float]:
    """Errors of all rows under each refit, (K, k), and the least cosine; see :class:`Projection`.

    The second moments stay those of all rows, so the errors differ by the fits alone.
    """
    if not refits:
        return errors[None], 1.0
    second = _about(points_of(subspace, whole), subspace.scale, whole)
    basis = np.linalg.qr(subspace.projector.basis)[0]
    cosines = [
        np.linalg.svd(basis.T @ np.linalg.qr(each.basis)[0], compute_uv=False)[-1]
        for each in refits
    ]
    return np.array([errors_under(each, second) for each in refits]), float(min(cosines))


def points_of(subspace: FairSubspace, whole: Moments) -> FloatArray:
    """About which errors are measured, (1, p), or (k, p) where each group has its own mean."""
    point = subspace.reference_point(whole)
    return whole.means if point is None else np.asarray(point)[None]
