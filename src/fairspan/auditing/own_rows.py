"""Whether the audited rows are those that a model was fitted on, or some of them.

New rows differ from those of a fit by as much as parts of them differ among themselves; rows of the
fit by less. Two distances tell. Let V be the leading eigenvectors of a mixture S of the groups'
second moments: V'S(I - VV') is zero on the rows of the fit, and on others it is not. Where the mean
or the moments of the rows of the fit are known, these are compared as well.

By how much parts of the rows differ, folds tell, whatever the distribution: with z the figures of
all rows, z_f those of fold f, which has the share s_f of the weight, and D_f = s_f (z_f - z), the
variance of z is K / (K - 1) sum ||D_f||^2. The squared distance over that variance is close to
Fisher's F; its degrees of freedom follow from the Gram matrix of the D_f, as in Box (1954).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.models import Audited
from fairspan.auditing.student import fisher_below
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments, SummedFolds
from fairspan.typing import FloatArray

MADE_HERE = (
    "it fits these rows more closely than it could fit new ones, and how it was made is not known"
)
# Of the probability that new rows are as close; and of the squared distance, relative to that of
# new rows. Half of the rows of a fit are half as far from it.
_PROBABLE, _FAR = 1e-3, 0.5
# With more features, means are compared alone; they are many then.
_SCATTERS_UP_TO = 100
# With fewer parts, their differences tell too little.
_FEWEST_PARTS = 4
# Up to such a share of the variance, distances are rounding.
_ROUNDING = 1e-10
# How much more than its own PCA loses of these rows a PCA of some of them may lose.
_BEYOND_BEST = 0.05


@dataclass(frozen=True)
class OwnRows:
    """What is known of the rows that one model was fitted on.

    Attributes
    ----------
    fitted_here : bool
        Whether these are some or all of the audited rows.
    by_test : bool
        Whether only a test says so; number and mean of the rows are not those of the fit.
    why_not_refitted : str
        Why it cannot be fitted again, where that is so.
    """

    fitted_here: bool
    by_test: bool = False
    why_not_refitted: str = ""


def own_rows(
    audited: Sequence[Audited],
    exact: Sequence[bool],
    in_folds: Sequence[Audited],
    folds: FoldMoments,
) -> list[OwnRows]:
    """Of each model, whether it was fitted on the audited rows or on rows among which these are.

    Parameters
    ----------
    audited : sequence of Audited
    exact : sequence of bool
        Of which models number and mean of the rows are those of the fit.
    in_folds : sequence of Audited
        The same models in the coordinates of the folds.
    folds : FoldMoments
    """
    if not isinstance(folds, SummedFolds) or len(folds.parts) < _FEWEST_PARTS:
        return [
            OwnRows(is_so, False, each.why_not_refitted)
            for each, is_so in zip(audited, exact, strict=True)
        ]
    tested = [
        not is_so and _is_near(each, there, folds)
        for each, there, is_so in zip(audited, in_folds, exact, strict=True)
    ]
    # Models that carry the same moments were fitted on the same rows.
    found = {
        id(each.moments)
        for each, is_near in zip(audited, tested, strict=True)
        if is_near and each.moments is not None
    }
    results = []
    for each, there, is_so, is_near in zip(audited, in_folds, exact, tested, strict=True):
        is_near = not is_so and (is_near or id(each.moments) in found)
        is_other = is_near and each.subspace.certificate is None and not each.is_plain_pca
        why = MADE_HERE if is_other and not _is_leading(there, folds.whole) else ""
        results.append(OwnRows(is_so or is_near, is_near, each.why_not_refitted or why))
    return results


def _is_near(each: Audited, in_folds: Audited, folds: SummedFolds) -> bool:
    """Whether a model or what it knows of its rows is nearer to these than new rows would be."""
    if _are_near(*_across(in_folds, folds)):
        return True
    counts, weights = folds.whole.counts, folds.whole.weights
    # Of weighted rows it is not known how many equally weighted ones they stand for.
    is_weighted = not np.allclose(weights * counts.sum(), counts * weights.sum())
    kept = each.moments
    if (
        isinstance(kept, GroupMoments)
        and kept.n_features == folds.whole.n_features
        and kept.counts.all()
        and not set(folds.whole.labels).isdisjoint(kept.labels)
    ):
        # Second moments tell more, but of heavy tails a single row may decide them.
        few = kept.n_features <= _SCATTERS_UP_TO
        return any(
            _are_near(*_of_moments(kept, folds, is_weighted=is_weighted, with_second=second))
            for second in (False, True)[: 1 + few]
        )
    mean = in_folds.subspace.mean
    if mean is None or not each.n_fitted or in_folds.subspace.center == "none":
        return False
    if in_folds.subspace.n_features != each.subspace.n_features:
        # In coordinates of few rows, the part of another mean that lies beside them looks small.
        return False
    unit = _unit(folds.whole)
    scores = [
        np.zeros_like(mean)
        if part is None
        else part.weights.sum() / weights.sum() * (part.mean - folds.whole.mean) / unit
        for part in folds.parts
    ]
    beside = 0.0 if is_weighted else float(counts.sum()) / each.n_fitted
    return _are_near(np.array(scores), (mean - folds.whole.mean) / unit / np.sqrt(1 + beside))


def _are_near(scores: FloatArray, distance: FloatArray) -> bool:
    """Whether a distance is too small for new rows, with the scores D_f as rows of (K, m)."""
    size = float(np.abs(scores).max(initial=0.0)) or 1.0  # fourth powers are taken below
    scores, distance = scores / size, distance / size
    gram = scores @ scores.T
    freedom = int((np.diag(gram) > 0).sum()) - 1
    if freedom + 1 < _FEWEST_PARTS:
        return False
    variance = float(np.trace(gram)) * (freedom + 1) / freedom
    ratio = float(distance @ distance) / variance
    # Of independent scores with covariance C, E tr(G)^2 = m^2 (tr C)^2 + 2 m tr C^2 and
    # E |G|^2 = m (tr C)^2 + m (m + 1) tr C^2, with m degrees of freedom.
    square, norm = float(np.trace(gram)) ** 2, float((gram**2).sum())
    squares = max((norm - square / freedom) / ((freedom - 1) * (freedom + 2)), 0.0)
    traces = (square - 2 * freedom * squares) / freedom**2
    largest = float(len(distance))
    dimensions = min(traces / squares, largest) if squares > 0 else largest
    return ratio < _FAR and (fisher_below(ratio, dimensions, freedom * dimensions) < _PROBABLE)


def _across(each: Audited, folds: SummedFolds) -> tuple[FloatArray, FloatArray]:
    """(I - VV')SV of the mixture S whose leading eigenvectors a model may be, and its scores."""
    subspace, whole = each.subspace, folds.whole
    none = np.zeros((len(folds.parts), 1)), np.ones(1)
    if subspace.oblique_decoder is not None or subspace.is_soft:
        return none
    made, basis = subspace.certificate, subspace.components.T
    weights = whole.weights / whole.weights.sum()
    point: FloatArray | None = whole.mean
    if made is not None and not each.is_plain_pca:
        if made.groups != tuple(whole.labels):
            return none
        weights = made.weights
        point = point if subspace.center == "global" else subspace.reference_point(whole)
    elif subspace.center == "none":
        point = np.zeros_like(whole.mean)
    unit = np.ones(len(basis)) if subspace.scale is None else subspace.scale

    def images(moments: GroupMoments) -> FloatArray:
        about = moments.means if point is None else point
        applied = moments.operator_about(about).applied(basis / unit[:, None])
        applied = applied / unit[:, None]
        return np.asarray(applied - basis @ (basis.T @ applied))

    ours = images(whole)
    labels, scores = whole.labels, np.zeros((len(folds.parts), basis.size))
    for score, part in zip(scores, folds.parts, strict=True):
        if part is not None:
            met = [labels.index(label) for label in part.labels]
            shares = weights[met] * part.weights / whole.weights[met]
            score += np.einsum("g,gpd->pd", shares, images(part) - ours[met]).ravel()
    total = float(
        ((whole.variances + (0.0 if point is None else (whole.means - point) ** 2)) / unit**2).sum()
    )
    if np.abs(scores).max() <= _ROUNDING * total:
        return none
    return scores, np.einsum("g,gpd->pd", weights, ours).ravel()


def _of_moments(
    kept: GroupMoments, folds: SummedFolds, *, is_weighted: bool, with_second: bool
) -> tuple[FloatArray, FloatArray]:
    """Means of each group beside those of the fit, or second moments too, and their scores."""
    whole, unit = folds.whole, _unit(folds.whole)
    common = [label for label in whole.labels if label in kept.labels]
    ours, theirs = ([moments.labels.index(label) for label in common] for moments in (whole, kept))
    ratios = np.zeros(len(common)) if is_weighted else whole.counts[ours] / kept.counts[theirs]

    def figures(moments: GroupMoments, group: int, mean: FloatArray) -> FloatArray:
        offset: FloatArray = (moments.means[group] - mean) / unit
        if not with_second:
            return offset
        second = moments.scatters[group] / moments.weights[group] / np.outer(unit, unit)
        return np.concatenate([offset, (second + np.outer(offset, offset)).ravel()])

    scores, distance = [], []
    for mine, other, ratio in zip(ours, theirs, ratios, strict=True):
        mean, label = whole.means[mine], whole.labels[mine]
        about = figures(whole, mine, mean)
        scores.append(np.zeros((len(folds.parts), len(about))))
        distance.append((figures(kept, other, mean) - about) / np.sqrt(1 + ratio))
        for score, part in zip(scores[-1], folds.parts, strict=True):
            if part is not None and label in part.labels:
                place = part.labels.index(label)
                share = part.weights[place] / whole.weights[mine]
                score += share * (figures(part, place, mean) - about)
    return np.hstack(scores), np.concatenate(distance)


def _unit(whole: GroupMoments) -> FloatArray:
    deviations = whole.standard_deviations
    return np.where(deviations > 0, deviations, 1.0)


def _is_leading(each: Audited, whole: GroupMoments) -> bool:
    """Whether a basis loses hardly more of these rows than their own ordinary PCA."""
    subspace, unit = each.subspace, each.subspace.scale
    moments = whole if unit is None else whole.divided_by(unit)
    point = np.zeros_like(moments.mean) if subspace.center == "none" else moments.mean
    second, shares = moments.operator_about(point), whole.weights / whole.weights.sum()
    best = second.leading(shares, subspace.dimension).vectors
    least, lost = (
        shares @ second.residual_variances(basis) for basis in (best, subspace.components.T)
    )
    return bool(lost <= (1 + _BEYOND_BEST) * least + _ROUNDING * (shares @ second.traces))
