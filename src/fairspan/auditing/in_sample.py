"""Detect models whose training rows overlap with the audited rows.

New rows differ from the training rows as much as parts of them differ from each other; training
rows differ less. Two distances are compared. With V the leading eigenvectors of a mixture S of the
groups' second moments, V'S(I - VV') is zero on the training rows and nonzero on others. If the mean
or the moments of the training rows are known, they are compared as well. The variation between
parts is estimated from the folds, without distributional assumptions: with z the figures of all
rows, z_f those of fold f with weight share s_f, and D_f = s_f (z_f - z), the variance of z is K /
(K - 1) sum ||D_f||^2. The difference between the figures of n audited and n_fit other rows has
1 + n / n_fit times this variance. The squared distance over the variance is approximately F
distributed, with degrees of freedom from the Gram matrix of the D_f (Box 1954).

The ratio of the two is about 1 for new rows. It is (1 - s) / (1 + s) if a share s of the audited
rows fitted the model, or if they are a share s of the training rows.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.distributions import f_cdf
from fairspan.auditing.models import AuditedModel
from fairspan.linalg.rounding import CANCELLATION_RATIO, FIGURE_ROUNDING
from fairspan.moments.fold_moments import DenseFoldMoments, FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.typing import FloatArray

UNKNOWN_IN_SAMPLE_FIT = (
    "it fits these rows more closely than it could fit new ones, and how it was fitted is unknown"
)
# Maximum p-value at which rows count as training rows. There are up to five comparisons, so that at
# most one of a hundred audits of new rows is mistaken.
MAX_P_VALUE = 2e-3
# Maximum F ratio (squared distance relative to that expected for new rows), which is about one half
# if a third of the audited rows fitted the model. With many figures a ratio just below 1 would be
# significant, and heavy tails give such ratios.
_MAX_F_RATIO = 0.75
# Above this number of features, only means are compared, which are then numerous enough.
_MAX_FEATURES_SECOND_MOMENTS = 100
# Minimum number of folds for estimating the variation.
_MIN_FOLDS = 4
# Rounding error of distances, relative to the variance: differences that lose four digits.
_ROUNDING_TOL = FIGURE_ROUNDING / CANCELLATION_RATIO
# Relative excess error at which a basis still counts as PCA of some of the rows.
_MAX_EXCESS_LOSS = 0.05


@dataclass(frozen=True)
class InSampleStatus:
    """Whether a model was fitted to the audited rows.

    Attributes
    ----------
    in_sample : bool
        Whether the training rows are, or overlap with, the audited rows.
    inferred : bool
        Whether this was inferred by the test, since number and mean of the rows do not match.
    no_refit_reason : str
        Why the model cannot be refitted; empty if it can.
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
    """Determine for each model whether its training rows are, or overlap with, the audited rows.

    Parameters
    ----------
    models : sequence of AuditedModel
    is_exact_match : sequence of bool
        Models for which number and mean of the rows match; they need no test.
    fold_models : sequence of AuditedModel
        The models in the coordinates of the folds: the features, or those of the span of the rows
        if there are fewer rows than features.
    folds : FoldMoments
        Moments by fold; with sparse rows, or fewer than four folds, only exact matches count.
    """
    if not isinstance(folds, DenseFoldMoments) or len(folds.by_fold) < _MIN_FOLDS:
        return [
            InSampleStatus(is_exact, inferred=False, no_refit_reason=model.no_refit_reason)
            for model, is_exact in zip(models, is_exact_match, strict=True)
        ]
    passed_test = [
        not is_exact and _is_in_sample(model, fold_model, folds)
        for model, fold_model, is_exact in zip(models, fold_models, is_exact_match, strict=True)
    ]
    # Models that carry the same moments were fitted on the same rows.
    matching_moments = {
        id(model.training_moments)
        for model, is_close in zip(models, passed_test, strict=True)
        if is_close and model.training_moments is not None
    }
    statuses = []
    for model, fold_model, is_exact, has_passed in zip(
        models, fold_models, is_exact_match, passed_test, strict=True
    ):
        is_close = has_passed or id(model.training_moments) in matching_moments
        is_inferred = is_close and not is_exact
        reason = model.no_refit_reason
        if is_inferred and not reason and not _can_be_refitted(model, fold_model, folds.total):
            reason = UNKNOWN_IN_SAMPLE_FIT
        statuses.append(
            InSampleStatus(is_exact or is_inferred, inferred=is_inferred, no_refit_reason=reason)
        )
    return statuses


def _can_be_refitted(model: AuditedModel, fold_model: AuditedModel, total: GroupMoments) -> bool:
    """Whether it is known how an in-sample model was fitted, or it can be refitted as PCA.

    The model was fitted by fairspan, or is PCA, or is close to it. `fold_model` is the model in the
    coordinates of `total`.
    """
    is_known = model.subspace.certificate is not None or model.is_pca
    return is_known or _is_nearly_pca(fold_model, total)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Figures of the training rows compared with those of the audited rows.

    Attributes
    ----------
    fold_scores : (K, m) array
        Deviations D_f of the m figures of each of K folds, times the fold's weight share.
    distance : (m,) array
        Deviations of the figures of the training rows from those of all audited rows, in units in
        which they have the variance of the latter if these are new rows.
    """

    fold_scores: FloatArray
    distance: FloatArray

    @functools.cached_property
    def df(self) -> int:
        """Degrees of freedom of the variation between folds: their number with scores minus 1."""
        return int(self.fold_scores.any(axis=1).sum()) - 1

    @functools.cached_property
    def variance(self) -> float:
        """Sum of the variances of the figures, K / (K - 1) sum_f |D_f|^2."""
        return float((self.fold_scores**2).sum()) * (self.df + 1) / self.df

    @functools.cached_property
    def n_independent(self) -> float:
        """Effective number of independent figures, (tr C)^2 / tr C^2 for their covariance C.

        For the Gram matrix G of independent scores with covariance C and n = df degrees of freedom,
        E tr(G)^2 = n^2 (tr C)^2 + 2 n tr C^2 and E |G|^2 = n (tr C)^2 + n (n + 1) tr C^2. Solve for
        tr C^2 and (tr C)^2.
        """
        gram = self.fold_scores @ self.fold_scores.T
        df = self.df
        trace_squared = float(np.trace(gram)) ** 2
        frobenius_squared = float((gram**2).sum())
        trace_of_square = max((frobenius_squared - trace_squared / df) / ((df - 1) * (df + 2)), 0.0)
        square_of_trace = (trace_squared - 2 * df * trace_of_square) / df**2
        n_figures = float(len(self.distance))
        if trace_of_square == 0:
            return n_figures
        return min(square_of_trace / trace_of_square, n_figures)

    def divided_by(self, divisor: float) -> "_Comparison":
        """Return the comparison in other units."""
        return _Comparison(self.fold_scores / divisor, self.distance / divisor)

    def in_common_units(self) -> "_Comparison | None":
        """Return the comparison in units in which an independent figure has variance one.

        None, if there is no evidence: scores of fewer than four folds.
        """
        # Avoid overflow: fourth powers follow.
        magnitude = float(np.abs(self.fold_scores).max(initial=0.0)) or 1.0
        normalized = self.divided_by(magnitude)
        if normalized.df + 1 < _MIN_FOLDS:
            return None
        return normalized.divided_by(np.sqrt(normalized.variance / normalized.n_independent))

    def is_closer_than_chance(self) -> bool:
        """Whether the distance is too small for new rows.

        The squared distance is divided by the variance of the figures, and this ratio compared with
        an F distribution (Box 1954).
        """
        ratio = float(self.distance @ self.distance) / self.variance
        # If half of the rows are shared, the ratio is about one third. One near 1 does not count,
        # however significant.
        if ratio >= _MAX_F_RATIO:
            return False
        p_value = f_cdf(ratio, self.n_independent, self.df * self.n_independent)
        return p_value < MAX_P_VALUE


def _is_in_sample(model: AuditedModel, fold_model: AuditedModel, folds: DenseFoldMoments) -> bool:
    """Whether the model, or its moments or mean, is closer to these rows than chance allows.

    The model's basis consists of eigenvectors of second moments of its training rows. It is
    compared alone, and together with what else is known of these rows: moments, if the model has
    them for at least one of the groups, otherwise their mean. If rows have weights, n / n_fit is
    unknown and taken as 0, which makes a match less likely.

    Parameters
    ----------
    model : AuditedModel
    fold_model : AuditedModel
        The model in the coordinates of the folds.
    folds : DenseFoldMoments
    """
    counts = folds.total.counts
    weights = folds.total.weights
    # The effective sample size of weighted rows is unknown.
    is_weighted = not np.allclose(weights * counts.sum(), counts * weights.sum())
    size_ratio = 0.0
    if model.n_training_rows and not is_weighted:
        size_ratio = float(counts.sum()) / model.n_training_rows
    residual = _eigenvector_residual(fold_model, folds, size_ratio).in_common_units()
    candidates = [residual]
    for comparison in _compare_training_figures(
        model, fold_model, folds, size_ratio, is_weighted=is_weighted
    ):
        training_figures = comparison.in_common_units()
        candidates.append(training_figures)
        if residual is not None and training_figures is not None:
            candidates.append(_combine(residual, training_figures))
    return any(
        candidate is not None and candidate.is_closer_than_chance() for candidate in candidates
    )


def _combine(first: _Comparison, second: _Comparison) -> _Comparison:
    """Return the comparison of the figures of both."""
    return _Comparison(
        np.hstack([first.fold_scores, second.fold_scores]),
        np.concatenate([first.distance, second.distance]),
    )


def _eigenvector_residual(
    model: AuditedModel, folds: DenseFoldMoments, size_ratio: float
) -> _Comparison:
    """Compare R = (I - VV')SV, which is zero on the training rows, with its value on all rows.

    V is the model's basis, (p, d). S is the mixture sum_g w_g S_g of the groups' second moments: w
    are the weights of the certificate, which prove that the leading eigenvectors of S are optimal,
    or for PCA the shares of the groups, so that S is the second moment of all rows. If V was fitted
    to these rows, it consists of eigenvectors of S, and R is zero.

    All scores are zero, which is no evidence, if V need not be eigenvectors of a mixture, the
    groups are others, or all are rounding errors.

    Parameters
    ----------
    model : AuditedModel
        In the coordinates of the folds.
    folds : DenseFoldMoments
    size_ratio : float
        n / n_fit.
    """
    total = folds.total
    no_evidence = _Comparison(np.zeros((len(folds.by_fold), 1)), np.ones(1))
    mixture = _Mixture.of_model(model, total)
    if mixture is None:
        return no_evidence
    residuals = mixture.residuals(total)
    scores = np.zeros((len(folds.by_fold), mixture.basis.size))
    for score, fold in zip(scores, folds.by_fold, strict=True):
        if fold is not None:
            present = [total.labels.index(label) for label in fold.labels]
            shares = mixture.weights[present] * fold.weights / total.weights[present]
            deviations = mixture.residuals(fold) - residuals[present]
            score += np.einsum("g,gpd->pd", shares, deviations).ravel()
    if np.abs(scores).max() <= _ROUNDING_TOL * mixture.total_variance(total):
        return no_evidence
    residual = np.einsum("g,gpd->pd", mixture.weights, residuals).ravel()
    return _Comparison(scores, residual / np.sqrt(1 + size_ratio))


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Mixture of second moments whose leading eigenvectors a model should be.

    Attributes
    ----------
    basis : (p, d) array
        V, the basis of the model.
    weights : (k,) array
        Weight w_g of each group in the mixture.
    center : (p,) or (k, p) array
        Point about which the second moments are measured, or one for each group.
    scale : (p,) array
        Divisor of each feature.
    """

    basis: FloatArray
    weights: FloatArray
    center: FloatArray
    scale: FloatArray

    @classmethod
    def of_model(cls, model: AuditedModel, total: GroupMoments) -> "_Mixture | None":
        """Return the mixture of a model, in the moments of all rows; None if there is none.

        There is none for an oblique or soft projection, which need not consist of eigenvectors, and
        for a certificate of other groups.
        """
        subspace = model.subspace
        if subspace.oblique_decoder is not None or subspace.is_soft:
            return None
        certificate = subspace.certificate
        weights = total.weights / total.weights.sum()
        center = total.mean
        if certificate is not None and not model.is_pca:
            if certificate.groups != tuple(total.labels):
                return None
            weights = certificate.weights
            if subspace.center != "global":
                center = subspace.reference_frame(total).center
        elif subspace.center == "none":
            center = np.zeros_like(total.mean)
        return cls(subspace.components.T, weights, center, subspace.row_frame.scale)

    def residuals(self, moments: GroupMoments) -> FloatArray:
        """Return (I - VV')S_gV for the second moments S_g of each group in `moments`, (k, p, d).

        If each group has its own center, that is its mean in these moments, not in those of all
        rows.
        """
        center = moments.means if self.center.ndim > 1 else self.center
        divisors = self.scale[:, None]
        images = moments.second_moments_about(center).apply(self.basis / divisors) / divisors
        return np.asarray(images - self.basis @ (self.basis.T @ images))

    def total_variance(self, total: GroupMoments) -> float:
        """Sum over groups and features of the (scaled) second moments about the center."""
        squared_offsets = (total.means - self.center) ** 2
        return float(((total.variances + squared_offsets) / self.scale**2).sum())


def _compare_training_figures(
    model: AuditedModel,
    fold_model: AuditedModel,
    folds: DenseFoldMoments,
    size_ratio: float,
    *,
    is_weighted: bool,
) -> Iterator[_Comparison]:
    """Compare the moments of the training rows, or else their mean, with those of all rows.

    Nothing is compared if neither is known. Second moments are more informative than means, but can
    be dominated by a single row if tails are heavy; both are compared. Parameters as for
    :func:`_is_in_sample`; `size_ratio` is n / n_fit.
    """
    training_moments = model.training_moments
    # Counts are zero if they are unknown, and then so is n_fit.
    if (
        isinstance(training_moments, GroupMoments)
        and training_moments.n_features == folds.total.n_features
        and training_moments.counts.all()
        and not set(folds.total.labels).isdisjoint(training_moments.labels)
    ):
        compare = functools.partial(
            _moment_difference, training_moments, folds, is_weighted=is_weighted
        )
        yield compare(with_second=False)
        if training_moments.n_features <= _MAX_FEATURES_SECOND_MOMENTS:
            yield compare(with_second=True)
        return
    mean = fold_model.subspace.mean
    if mean is None or not model.n_training_rows or fold_model.subspace.center == "none":
        return
    # In the span of few rows, the orthogonal part of another mean is lost.
    if fold_model.subspace.n_features == model.subspace.n_features:
        yield _mean_difference(mean, folds, size_ratio)


def _mean_difference(mean: FloatArray, folds: DenseFoldMoments, size_ratio: float) -> _Comparison:
    """Compare the mean of the training rows with that of all audited rows."""
    total = folds.total
    scale = _pooled_scale(total)
    scores = np.zeros((len(folds.by_fold), len(mean)))
    for score, fold in zip(scores, folds.by_fold, strict=True):
        if fold is not None:
            share = fold.weights.sum() / total.weights.sum()
            score += share * (fold.mean - total.mean) / scale
    return _Comparison(scores, (mean - total.mean) / scale / np.sqrt(1 + size_ratio))


def _moment_difference(
    training_moments: GroupMoments, folds: DenseFoldMoments, *, is_weighted: bool, with_second: bool
) -> _Comparison:
    """Compare group means and moments of the training rows with those of all audited rows.

    The figures are those of all groups that both have, in units of the pooled standard deviations.

    Parameters
    ----------
    training_moments : GroupMoments
    folds : DenseFoldMoments
    is_weighted : bool
        Whether rows have weights, so that their effective number is unknown.
    with_second : bool
        Whether to compare second moments as well as means.
    """
    total = folds.total
    scale = _pooled_scale(folds.total)
    common = [label for label in total.labels if label in training_moments.labels]
    row_groups = [total.labels.index(label) for label in common]
    training_groups = [training_moments.labels.index(label) for label in common]
    # n / n_fit: the difference of two samples has 1 + n / n_fit times the variance of the first.
    size_ratios = np.zeros(len(common))
    if not is_weighted:
        size_ratios = total.counts[row_groups] / training_moments.counts[training_groups]

    def statistics(moments: GroupMoments, group: int, mean: FloatArray) -> FloatArray:
        # Mean of the group minus `mean`, and its second moment about `mean`.
        offset: FloatArray = (moments.means[group] - mean) / scale
        if not with_second:
            return offset
        second_moment = moments.scatters[group] / moments.weights[group] / np.outer(scale, scale)
        return np.concatenate([offset, (second_moment + np.outer(offset, offset)).ravel()])

    scores = []
    distance = []
    for row_group, training_group, size_ratio in zip(
        row_groups, training_groups, size_ratios, strict=True
    ):
        mean = total.means[row_group]
        label = total.labels[row_group]
        expected = statistics(total, row_group, mean)
        scores.append(np.zeros((len(folds.by_fold), len(expected))))
        difference = statistics(training_moments, training_group, mean) - expected
        distance.append(difference / np.sqrt(1 + size_ratio))
        for score, fold in zip(scores[-1], folds.by_fold, strict=True):
            if fold is not None and label in fold.labels:
                position = fold.labels.index(label)
                share = fold.weights[position] / total.weights[row_group]
                score += share * (statistics(fold, position, mean) - expected)
    return _Comparison(np.hstack(scores), np.concatenate(distance))


def _pooled_scale(total: GroupMoments) -> FloatArray:
    """Return the standard deviation of each feature over all rows, (p,); 1 if it is constant."""
    deviations = total.standard_deviations
    return np.where(deviations > 0, deviations, 1.0)


def _is_nearly_pca(model: AuditedModel, total: GroupMoments) -> bool:
    """Whether the error of a model is at most 5 % above that of ordinary PCA of these rows.

    Both are mean errors over all rows in the model's units, about the overall mean, or about the
    origin if the model does not center.
    """
    subspace = model.subspace
    moments = total.in_units(subspace.scale)
    center_point = np.zeros_like(moments.mean) if subspace.center == "none" else moments.mean
    second_moments = moments.second_moments_about(center_point)
    shares = total.weights / total.weights.sum()
    best = second_moments.leading(shares, subspace.dimension).vectors
    pca_error = shares @ second_moments.residual_variances(best)
    model_error = shares @ second_moments.residual_variances(subspace.components.T)
    rounding_bound = _ROUNDING_TOL * (shares @ second_moments.traces)
    return bool(model_error <= (1 + _MAX_EXCESS_LOSS) * pca_error + rounding_bound)
