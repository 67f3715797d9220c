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

from fairspan.auditing.distributions import f_cdf
from fairspan.auditing.models import AuditedModel
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import DenseFoldMoments, FoldMoments
from fairspan.typing import FloatArray

UNKNOWN_IN_SAMPLE_FIT = (
    "it fits these rows more closely than it could fit new ones, and how it was made is not known"
)
# Of the probability that new rows are as close; and of the squared distance, relative to that of
# new rows. Half of the rows of a fit are half as far from it.
_MAX_P_VALUE, _MAX_F_RATIO = 1e-3, 0.5
# With more features, means are compared alone; they are many then.
_MAX_FEATURES_SECOND_MOMENTS = 100
# With fewer parts, their differences tell too little.
_MIN_FOLDS = 4
# Up to such a share of the variance, distances are rounding.
_ROUNDING_TOL = 1e-10
# How much more than its own PCA loses of these rows a PCA of some of them may lose.
_MAX_EXCESS_LOSS = 0.05


@dataclass(frozen=True)
class InSampleStatus:
    """What is known of the rows that one model was fitted on.

    Attributes
    ----------
    in_sample : bool
        Whether these are some or all of the audited rows.
    inferred : bool
        Whether only a test says so; number and mean of the rows are not those of the fit.
    no_refit_reason : str
        Why it cannot be fitted again, where that is so.
    """

    in_sample: bool
    inferred: bool = False
    no_refit_reason: str = ""


def detect_in_sample(
    models: Sequence[AuditedModel],
    is_exact_match: Sequence[bool],
    fold_models: Sequence[AuditedModel],
    folds: FoldMoments,
) -> list[InSampleStatus]:
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
    if not isinstance(folds, DenseFoldMoments) or len(folds.by_fold) < _MIN_FOLDS:
        return [
            InSampleStatus(is_exact, False, each.no_refit_reason)
            for each, is_exact in zip(models, is_exact_match, strict=True)
        ]
    passed_test = [
        not is_exact and _is_in_sample(each, fold_model, folds)
        for each, fold_model, is_exact in zip(models, fold_models, is_exact_match, strict=True)
    ]
    # Models that carry the same moments were fitted on the same rows.
    found = {
        id(each.training_moments)
        for each, is_close in zip(models, passed_test, strict=True)
        if is_close and each.training_moments is not None
    }
    results = []
    for each, fold_model, is_exact, is_close in zip(
        models, fold_models, is_exact_match, passed_test, strict=True
    ):
        is_close = not is_exact and (is_close or id(each.training_moments) in found)
        is_unknown_model = is_close and each.subspace.certificate is None and not each.is_pca
        why = (
            UNKNOWN_IN_SAMPLE_FIT
            if is_unknown_model and not _is_nearly_pca(fold_model, folds.total)
            else ""
        )
        results.append(InSampleStatus(is_exact or is_close, is_close, each.no_refit_reason or why))
    return results


def _is_in_sample(each: AuditedModel, in_folds: AuditedModel, folds: DenseFoldMoments) -> bool:
    """Whether a model or what it knows of its rows is nearer to these than new rows would be."""
    if _is_closer_than_chance(*_eigenvector_residual(in_folds, folds)):
        return True
    counts, weights = folds.total.counts, folds.total.weights
    # Of weighted rows it is not known how many equally weighted ones they stand for.
    is_weighted = not np.allclose(weights * counts.sum(), counts * weights.sum())
    training_moments = each.training_moments
    if (
        isinstance(training_moments, GroupMoments)
        and training_moments.n_features == folds.total.n_features
        and training_moments.counts.all()
        and not set(folds.total.labels).isdisjoint(training_moments.labels)
    ):
        # Second moments tell more, but of heavy tails a single row may decide them.
        compare_second_moments = training_moments.n_features <= _MAX_FEATURES_SECOND_MOMENTS
        return any(
            _is_closer_than_chance(
                *_moment_difference(
                    training_moments, folds, is_weighted=is_weighted, with_second=second
                )
            )
            for second in (False, True)[: 1 + compare_second_moments]
        )
    mean = in_folds.subspace.mean
    if mean is None or not each.n_training_rows or in_folds.subspace.center == "none":
        return False
    if in_folds.subspace.n_features != each.subspace.n_features:
        # In coordinates of few rows, the part of another mean that lies beside them looks small.
        return False
    unit = _pooled_scale(folds.total)
    scores = [
        np.zeros_like(mean)
        if part is None
        else part.weights.sum() / weights.sum() * (part.mean - folds.total.mean) / unit
        for part in folds.by_fold
    ]
    size_ratio = 0.0 if is_weighted else float(counts.sum()) / each.n_training_rows
    return _is_closer_than_chance(
        np.array(scores), (mean - folds.total.mean) / unit / np.sqrt(1 + size_ratio)
    )


def _is_closer_than_chance(fold_scores: FloatArray, distance: FloatArray) -> bool:
    """Whether a distance is too small for new rows, with the scores D_f as rows of (K, m)."""
    magnitude = float(np.abs(fold_scores).max(initial=0.0)) or 1.0  # fourth powers are taken below
    fold_scores, distance = fold_scores / magnitude, distance / magnitude
    gram = fold_scores @ fold_scores.T
    freedom = int((np.diag(gram) > 0).sum()) - 1
    if freedom + 1 < _MIN_FOLDS:
        return False
    variance = float(np.trace(gram)) * (freedom + 1) / freedom
    ratio = float(distance @ distance) / variance
    # Of independent scores with covariance C, E tr(G)^2 = m^2 (tr C)^2 + 2 m tr C^2 and
    # E |G|^2 = m (tr C)^2 + m (m + 1) tr C^2, with m degrees of freedom.
    trace_squared, frobenius_squared = float(np.trace(gram)) ** 2, float((gram**2).sum())
    trace_of_square = max(
        (frobenius_squared - trace_squared / freedom) / ((freedom - 1) * (freedom + 2)), 0.0
    )
    square_of_trace = (trace_squared - 2 * freedom * trace_of_square) / freedom**2
    n_values = float(len(distance))
    dimensions = (
        min(square_of_trace / trace_of_square, n_values) if trace_of_square > 0 else n_values
    )
    return ratio < _MAX_F_RATIO and (f_cdf(ratio, dimensions, freedom * dimensions) < _MAX_P_VALUE)


def _eigenvector_residual(
    model: AuditedModel, folds: DenseFoldMoments
) -> tuple[FloatArray, FloatArray]:
    """(I - VV')SV of the mixture S whose leading eigenvectors a model may be, and its scores."""
    subspace, whole = model.subspace, folds.total
    no_evidence = np.zeros((len(folds.by_fold), 1)), np.ones(1)
    if subspace.oblique_decoder is not None or subspace.is_soft:
        return no_evidence
    made, basis = subspace.certificate, subspace.components.T
    weights = whole.weights / whole.weights.sum()
    point: FloatArray | None = whole.mean
    if made is not None and not model.is_pca:
        if made.groups != tuple(whole.labels):
            return no_evidence
        weights = made.weights
        point = point if subspace.center == "global" else subspace.center_point(whole)
    elif subspace.center == "none":
        point = np.zeros_like(whole.mean)
    unit = np.ones(len(basis)) if subspace.scale is None else subspace.scale

    def images(moments: GroupMoments) -> FloatArray:
        about = moments.means if point is None else point
        applied = moments.second_moments_about(about).apply(basis / unit[:, None])
        applied = applied / unit[:, None]
        return np.asarray(applied - basis @ (basis.T @ applied))

    row_groups = images(whole)
    labels, scores = whole.labels, np.zeros((len(folds.by_fold), basis.size))
    for score, part in zip(scores, folds.by_fold, strict=True):
        if part is not None:
            met = [labels.index(label) for label in part.labels]
            shares = weights[met] * part.weights / whole.weights[met]
            score += np.einsum("g,gpd->pd", shares, images(part) - row_groups[met]).ravel()
    total = float(
        ((whole.variances + (0.0 if point is None else (whole.means - point) ** 2)) / unit**2).sum()
    )
    if np.abs(scores).max() <= _ROUNDING_TOL * total:
        return no_evidence
    return scores, np.einsum("g,gpd->pd", weights, row_groups).ravel()


def _moment_difference(
    training_moments: GroupMoments, folds: DenseFoldMoments, *, is_weighted: bool, with_second: bool
) -> tuple[FloatArray, FloatArray]:
    """Means of each group beside those of the fit, or second moments too, and their scores."""
    whole, unit = folds.total, _pooled_scale(folds.total)
    common = [label for label in whole.labels if label in training_moments.labels]
    row_groups, training_groups = (
        [moments.labels.index(label) for label in common] for moments in (whole, training_moments)
    )
    ratios = (
        np.zeros(len(common))
        if is_weighted
        else whole.counts[row_groups] / training_moments.counts[training_groups]
    )

    def figures(moments: GroupMoments, group: int, mean: FloatArray) -> FloatArray:
        offset: FloatArray = (moments.means[group] - mean) / unit
        if not with_second:
            return offset
        second = moments.scatters[group] / moments.weights[group] / np.outer(unit, unit)
        return np.concatenate([offset, (second + np.outer(offset, offset)).ravel()])

    scores, distance = [], []
    for mine, other, ratio in zip(row_groups, training_groups, ratios, strict=True):
        mean, label = whole.means[mine], whole.labels[mine]
        about = figures(whole, mine, mean)
        scores.append(np.zeros((len(folds.by_fold), len(about))))
        distance.append((figures(training_moments, other, mean) - about) / np.sqrt(1 + ratio))
        for score, part in zip(scores[-1], folds.by_fold, strict=True):
            if part is not None and label in part.labels:
                place = part.labels.index(label)
                share = part.weights[place] / whole.weights[mine]
                score += share * (figures(part, place, mean) - about)
    return np.hstack(scores), np.concatenate(distance)


def _pooled_scale(whole: GroupMoments) -> FloatArray:
    deviations = whole.standard_deviations
    return np.where(deviations > 0, deviations, 1.0)


def _is_nearly_pca(each: AuditedModel, whole: GroupMoments) -> bool:
    """Whether a basis loses hardly more of these rows than their own ordinary PCA."""
    subspace, unit = each.subspace, each.subspace.scale
    moments = whole if unit is None else whole.divided_by(unit)
    point = np.zeros_like(moments.mean) if subspace.center == "none" else moments.mean
    second, shares = moments.second_moments_about(point), whole.weights / whole.weights.sum()
    best = second.leading(shares, subspace.dimension).vectors
    pca_error, model_error = (
        shares @ second.residual_variances(basis) for basis in (best, subspace.components.T)
    )
    return bool(
        model_error <= (1 + _MAX_EXCESS_LOSS) * pca_error + _ROUNDING_TOL * (shares @ second.traces)
    )
