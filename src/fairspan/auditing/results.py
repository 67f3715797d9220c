"""Results of an audit by model and group."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairspan.auditing.estimates import GroupEstimates, State
from fairspan.auditing.feature_errors import FeatureErrors
from fairspan.auditing.intervals import UNKNOWN, Estimate, none_if_nan, share_of
from fairspan.auditing.largest_rows import LargestRow
from fairspan.auditing.rank_bounds import RankBoundSummary
from fairspan.auditing.refit_bound import RefitBound
from fairspan.auditing.sample_size import round_up_two_digits
from fairspan.certificates.certificate_parts import PartAttribute
from fairspan.certificates.status import tolerance_suffix
from fairspan.errors import InvalidParameter
from fairspan.formatting.units import Unit
from fairspan.linalg.rounding import zero_negligible
from fairspan.moments.base_moments import Center
from fairspan.rows.labels import Label, format_list
from fairspan.typing import FloatArray

# Share of the number of rows below which the effective number is reported.
_MIN_EFFECTIVE_SHARE = 1 / 3


@dataclass(frozen=True, kw_only=True)
class GroupResult(GroupEstimates):
    """Results of one model for one group, in squared (scaled) units of the features.

    `observed_*` are values on the audited rows; `expected_*` and the other attributes of
    :class:`GroupEstimates` are estimates for new rows.

    Attributes
    ----------
    group : label
    n_rows : int
        Number of rows.
    proportion : float
        Group's share of the total weight.
    observed_total_variance : float
        Total variance tr S_g about the model's center.
    observed_error : Estimate
        Error e_g with its interval.
    observed_best_error : float
        Best error e*_g: the smallest error of any subspace of the same dimension on this group.
    observed_loss : float
        Excess loss e_g - e*_g.
    observed_variance_kept : float
        Share of variance kept, 1 - e_g / tr S_g; NaN for a group without variance.
    observed_kurtosis : float
        Kurtosis of the rows' squared residuals; 0 if unknown.
    drift : Estimate
        Change in error since the fit, for a model fitted to other rows, with an interval
        simultaneous over groups; NaN if unknown.
    observed_rounding : float
        The size up to which an error or a loss is rounding. Neither other groups nor features of
        larger numbers decide it.
    largest_row : LargestRow or None
        Row with the largest error, if a few rows dominate the error of the group and are known.
    """

    group: Label
    n_rows: int
    proportion: float
    observed_total_variance: float
    observed_error: Estimate
    observed_best_error: float
    observed_loss: float
    observed_variance_kept: float
    observed_kurtosis: float = 0.0
    drift: Estimate = UNKNOWN
    observed_rounding: float = 0.0
    largest_row: LargestRow | None = None

    @property
    def n_rows_needed(self) -> int | None:
        """Number of rows that would detect the loss, or the materiality threshold if larger.

        None unless the state is inconclusive and the number is known.
        """
        return self._n_rows_at(self.detection.size_factor)

    @property
    def n_rows_needed_range(self) -> tuple[int | None, int | None]:
        """Numbers of rows that would detect the loss if it is at its 90 % and at its 10 % quantile.

        The quantiles are those of the estimate. The second is None if the loss may be zero.
        """
        plan = self.detection
        return self._n_rows_at(plan.size_factor_low), self._n_rows_at(plan.size_factor_high)

    @property
    def n_clusters_needed(self) -> int | None:
        """Number of clusters that would detect the loss, or the materiality threshold if larger.

        None if clusters were not given, and where `n_rows_needed` is None.
        """
        if self.n_clusters is None:
            return None
        return _multiple_of(self.n_clusters, self.detection.size_factor)

    def _n_rows_at(self, size_factor: float) -> int | None:
        return _multiple_of(self.n_rows, size_factor)

    @property
    def observed_loss_share(self) -> float:
        """Observed loss as a share of the variance; zero if it is within rounding error."""
        loss = float(zero_negligible(self.observed_loss, self.observed_rounding))
        return share_of(loss, self.observed_total_variance)

    @property
    def expected_loss_share(self) -> Estimate:
        """Expected loss with its interval as a share of the variance; may be negative by chance."""
        return self._as_share(self.expected_loss)

    @property
    def expected_error_share(self) -> Estimate:
        """Expected error with its interval as a share of the variance."""
        return self._as_share(self.expected_error)

    @property
    def expected_change_share(self) -> Estimate:
        """Change in expected error as a share of the variance: below zero the group gains."""
        return self._as_share(self.expected_change)

    @property
    def min_detectable_loss_share(self) -> float:
        """Smallest loss that these rows can detect as a share of the variance, or NaN."""
        return min(share_of(self.min_detectable_loss, self.observed_total_variance), 1.0)

    def _as_share(self, estimate: Estimate) -> Estimate:
        """Return a share of the variance, with zeros in place of rounding errors.

        No error or loss is larger than the variance, though an interval may be.
        """
        rounded = estimate.without_rounding(self.observed_rounding)
        return rounded.relative_to(self.observed_total_variance).clipped(-1.0, 1.0)

    @property
    def has_few_effective_rows(self) -> bool:
        """Whether the effective number of rows is below a third of their number."""
        return self.n_effective < _MIN_EFFECTIVE_SHARE * self.n_rows

    @property
    def has_error_rise(self) -> bool:
        """Whether the error on new rows is shown to exceed that under the baseline PCA."""
        return (self.expected_change.low or 0.0) > self.observed_rounding

    def is_immaterial(self, materiality: float) -> bool:
        """Whether the upper limit of the loss is below the materiality threshold."""
        limit = self.expected_loss.high
        return limit is not None and limit < materiality * self.observed_total_variance

    @property
    def record(self) -> dict[str, object]:
        """Return a flat dictionary; values that are not available are None."""
        rows_needed_low, rows_needed_high = self.n_rows_needed_range
        return {
            "group": self.group,
            "n_rows": self.n_rows,
            "n_clusters": self.n_clusters,
            "n_effective": none_if_nan(self.n_effective),
            "proportion": self.proportion,
            "observed_total_variance": self.observed_total_variance,
            **self.observed_error.to_record("observed_error"),
            "observed_best_error": self.observed_best_error,
            "observed_loss": self.observed_loss,
            "observed_variance_kept": none_if_nan(self.observed_variance_kept),
            "observed_kurtosis": self.observed_kurtosis,
            **self.drift.to_record("drift"),
            **self.expected_error.to_record("expected_error"),
            **self.expected_loss.to_record("expected_loss"),
            "cross_fitted_loss": none_if_nan(self.cross_fitted_loss),
            "expected_best_error": none_if_nan(self.expected_best_error),
            "state": self.state,
            "relative_optimism": none_if_nan(self.relative_optimism),
            **self.expected_change.to_record("expected_change"),
            "n_rows_needed": self.n_rows_needed,
            "n_rows_needed_low": rows_needed_low,
            "n_rows_needed_high": rows_needed_high,
            "n_clusters_needed": self.n_clusters_needed,
            "min_detectable_loss": none_if_nan(self.min_detectable_loss),
            **self.eigenvalue_gap.to_record(),
            "is_identified": self.is_identified,
        }


@dataclass(frozen=True)
class ModelDescription:
    """Settings of an audited model, and its relation to the audited rows.

    Attributes
    ----------
    name : str
    n_components : int
    center : {"global", "group", "none"}
    is_scaled : bool
        Whether figures are in scaled units.
    is_pca : bool
    in_sample : bool
        Whether the training rows are, or overlap with, the audited rows.
    baseline : str or None
        Name of the baseline PCA with the same rows, dimension, center and scale.
    training_groups : tuple of labels
        Training groups; empty if it was fitted without groups.
    is_nested : bool
        Whether the first components solve the problem for fewer dimensions.
    in_sample_inferred : bool
        Whether `in_sample` was inferred by a test, since number and mean of the rows do not match
        those of the fit.
    favors_equal_errors : bool
        Whether its criterion aims at equal errors, which is a value judgment.
    problem : str or None
        Problem that a fair model solves, such as "minimax loss"; None for other models.
    """

    name: str
    n_components: int
    center: Center
    is_scaled: bool
    is_pca: bool
    in_sample: bool
    baseline: str | None = None
    training_groups: tuple[Label, ...] = ()
    is_nested: bool = False
    in_sample_inferred: bool = False
    favors_equal_errors: bool = False
    problem: str | None = None

    @property
    def full_name(self) -> str:
        """Name in sentences, which says of a model named by its problem that it is a fair PCA."""
        if self.is_pca or self.name != self.problem:
            return self.name
        return f"fair PCA ({self.name})"


@dataclass(frozen=True)
class CertificateSummary:
    """Figures of the certificate of an audited model; all None if it has no certificate.

    Attributes
    ----------
    status : str or None
    tol : float or None
        Relative tolerance.
    gap : float or None
        Gap, in the units of the objective.
    unresolved_reason : str or None
        Cause of an "unresolved" status.
    scaling_helps : bool
        Whether scaling the features removes that cause.
    """

    status: str | None = None
    tol: float | None = None
    gap: float | None = None
    unresolved_reason: str | None = None
    scaling_helps: bool = False


@dataclass(frozen=True)
class DisparityEstimates:
    """Differences in error between two groups, on the audited rows and on new rows.

    With two groups, a difference is the error of the second minus that of the first; with more, it
    is the largest of all pairs. The labels (a, b) of a pair belong to error_b - error_a.

    Attributes
    ----------
    observed : Estimate
        Difference of the observed errors.
    observed_pair : tuple of two labels
    expected : Estimate
        Difference of the expected errors.
    expected_pair : tuple of two labels, or None
        None if fewer than two groups have estimates.
    """

    observed: Estimate
    observed_pair: tuple[Label, Label]
    expected: Estimate = UNKNOWN
    expected_pair: tuple[Label, Label] | None = None


@dataclass(frozen=True)
class RefitSensitivity:
    """Sensitivity of a model to its training rows; see :class:`ModelEstimates`.

    Attributes
    ----------
    instability, min_cosine : float or None
        None without refits.
    """

    instability: float | None = None
    min_cosine: float | None = None


@dataclass(frozen=True)
class ModelResult:
    """Results of one model.

    The attributes of the first four parts are also attributes of the result: `name`, `status`,
    `observed_disparity`, `instability` and so on.

    Attributes
    ----------
    description : ModelDescription
    groups : tuple of GroupResult
    disparity : DisparityEstimates
    certificate : CertificateSummary
    sensitivity : RefitSensitivity
    no_estimates_reason : str or None
        Why there are no estimates for new rows, if there are none.
    has_failed_refit : bool
        Whether there are none because a refit without one part of the rows failed.
    worst_case_errors : tuple of k floats, or None
        For the robust error gap criterion: largest error of each group under any distribution
        within the criterion's radius of the observed one.
    refit_bound : RefitBound or None
        For a model with a certificate that was fitted to other rows: bound on a refit to the
        audited rows.
    rank_bound : RankBoundSummary or None
        For a model of others with a linear decoder: its largest error, beside what no such model of
        as many dimensions can fall below.
    feature_errors : FeatureErrors or None
        Errors by feature; None for models that are not projections.
    """

    description: ModelDescription
    groups: tuple[GroupResult, ...]
    disparity: DisparityEstimates
    certificate: CertificateSummary = CertificateSummary()
    sensitivity: RefitSensitivity = RefitSensitivity()
    no_estimates_reason: str | None = None
    has_failed_refit: bool = False
    worst_case_errors: tuple[float, ...] | None = None
    refit_bound: RefitBound | None = None
    rank_bound: RankBoundSummary | None = None
    feature_errors: FeatureErrors | None = field(default=None, repr=False, compare=False)

    name = PartAttribute[str]("description.name")
    n_components = PartAttribute[int]("description.n_components")
    center = PartAttribute[Center]("description.center")
    is_scaled = PartAttribute[bool]("description.is_scaled")
    is_pca = PartAttribute[bool]("description.is_pca")
    in_sample = PartAttribute[bool]("description.in_sample")
    baseline = PartAttribute["str | None"]("description.baseline")
    training_groups = PartAttribute[tuple[Label, ...]]("description.training_groups")
    is_nested = PartAttribute[bool]("description.is_nested")
    in_sample_inferred = PartAttribute[bool]("description.in_sample_inferred")
    favors_equal_errors = PartAttribute[bool]("description.favors_equal_errors")
    full_name = PartAttribute[str]("description.full_name")
    status = PartAttribute["str | None"]("certificate.status")
    tol = PartAttribute["float | None"]("certificate.tol")
    gap = PartAttribute["float | None"]("certificate.gap")
    unresolved_reason = PartAttribute["str | None"]("certificate.unresolved_reason")
    scaling_helps = PartAttribute[bool]("certificate.scaling_helps")
    observed_disparity = PartAttribute[Estimate]("disparity.observed")
    disparity_pair = PartAttribute[tuple[Label, Label]]("disparity.observed_pair")
    expected_disparity = PartAttribute[Estimate]("disparity.expected")
    expected_disparity_pair = PartAttribute["tuple[Label, Label] | None"]("disparity.expected_pair")
    instability = PartAttribute["float | None"]("sensitivity.instability")
    min_cosine = PartAttribute["float | None"]("sensitivity.min_cosine")

    @property
    def status_text(self) -> str | None:
        """Status including a nondefault tolerance, such as "optimal within 1 %"."""
        if self.status is None or self.tol is None:
            return self.status
        return self.status + tolerance_suffix(self.status, self.tol)

    @property
    def records(self) -> list[dict[str, object]]:
        """Return one flat dictionary per group; values that are not available are None."""
        model_record = {
            **self.observed_disparity.to_record("observed_disparity"),
            **self.expected_disparity.to_record("expected_disparity"),
            "instability": self.instability,
            "min_cosine": self.min_cosine,
            "n_components": self.n_components,
            "center": self.center,
        }
        return [{"model": self.name, **group.record, **model_record} for group in self.groups]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values, without errors by feature.

        An estimate becomes three entries, with suffixes _low and _high for its limits.
        """
        values = {name: getattr(self, name) for name in _JSON_ATTRIBUTES}
        if self.refit_bound is not None:
            values["refit_bound"] = self.refit_bound.to_dict()
        if self.rank_bound is not None:
            values["rank_bound"] = self.rank_bound.to_dict()
        return {
            **values,
            **self.observed_disparity.to_record("observed_disparity"),
            **self.expected_disparity.to_record("expected_disparity"),
            "observed_total_error": self.observed_total_error,
            "groups": [group.record for group in self.groups],
        }

    @property
    def states(self) -> tuple[State | None, ...]:
        """State of each group; None for a model without estimates."""
        if self.no_estimates_reason:
            return (None,) * len(self.groups)
        return tuple(group.state for group in self.groups)

    @property
    def has_estimates(self) -> bool:
        """Whether any group has estimates for new rows."""
        return any(group.is_estimated for group in self.groups)

    @property
    def observed_total_error(self) -> float:
        """Mean error over all rows."""
        return sum(group.proportion * group.observed_error.value for group in self.groups)

    @property
    def rounding_bound(self) -> float:
        """Rounding error bound: values up to this size are negligible."""
        return max(group.observed_rounding for group in self.groups)

    @property
    def is_lossless(self) -> bool:
        """Whether every group is reconstructed exactly, up to rounding error."""
        return all(group.observed_error.value <= group.observed_rounding for group in self.groups)

    @property
    def observed_largest_loss(self) -> float:
        """Largest observed loss of a group."""
        return max(group.observed_loss for group in self.groups)

    def losses(self) -> dict[Label, float]:
        """Return the expected losses by group, clipped at zero, without groups that have none.

        Observed losses if the model has no estimates.
        """
        if not self.has_estimates:
            return {group.group: group.observed_loss for group in self.groups}
        # The corrected loss may be negative by chance.
        return {
            group.group: max(group.expected_loss.value, 0.0)
            for group in self.groups
            if group.is_estimated
        }

    def loss_shares(self) -> dict[Label, float]:
        """Return the losses of :meth:`losses` as shares of each group's variance.

        Losses within their rounding error bound are zero.
        """
        if not self.has_estimates:
            return {group.group: group.observed_loss_share for group in self.groups}
        return {
            # The corrected loss may be negative by chance.
            group.group: max(group.expected_loss_share.value, 0.0)
            for group in self.groups
            if group.is_estimated
        }

    @property
    def total_variance(self) -> float:
        """Mean variance over all rows, of which the total error is a part."""
        return sum(group.proportion * group.observed_total_variance for group in self.groups)

    @property
    def expected_total_error(self) -> float:
        """Expected mean error over all rows; NaN if a group has no estimate."""
        return sum(group.proportion * group.expected_error.value for group in self.groups)

    @property
    def observed_total_error_share(self) -> float:
        """Observed mean error over all rows as a share of their variance."""
        return share_of(self.observed_total_error, self.total_variance)

    @property
    def expected_total_error_share(self) -> float:
        """Expected mean error over all rows as a share of their variance, or NaN."""
        return share_of(self.expected_total_error, self.total_variance)


# Attributes of a model result in JSON, in this order, before its disparities and groups.
_JSON_ATTRIBUTES = (
    "name",
    "n_components",
    "center",
    "is_scaled",
    "status",
    "gap",
    "is_pca",
    "in_sample",
    "baseline",
    "training_groups",
    "groups",
    "disparity_pair",
    "unresolved_reason",
    "no_estimates_reason",
    "worst_case_errors",
    "refit_bound",
    "rank_bound",
    "is_nested",
    "tol",
    "in_sample_inferred",
    "expected_disparity_pair",
    "instability",
    "min_cosine",
)


def select_models(
    models: Sequence[ModelResult], names: Sequence[str] | None, parameter: str
) -> tuple[ModelResult, ...]:
    """Return the models of these names, in their order.

    By default, these are the models that are compared with ordinary PCA; without any, all models.

    Parameters
    ----------
    models : sequence of ModelResult
    names : sequence of str or None
    parameter : str
        Parameter with the names, for messages.

    Raises
    ------
    InvalidParameter
        There is no model of a name.
    """
    if names is None:
        compared = tuple(model for model in models if model.baseline is not None)
        return compared or tuple(models)
    by_name = {model.name: model for model in models}
    for name in names:
        if name not in by_name:
            raise InvalidParameter(
                f"{parameter} names {name!r}, which is not audited",
                f"Allowed: {format_list([*by_name])}",
                "Name audited models",
            )
    return tuple(by_name[name] for name in names)


def values_by_model(models: Sequence[ModelResult | None], name: str, n_groups: int) -> FloatArray:
    """Return one quantity by model and group, (m, k); NaN where it is not available.

    `name` is a key of :attr:`ModelResult.records`. A model may be None, for a row of NaN.
    """
    values = np.full((len(models), n_groups), np.nan)
    for i, model in enumerate(models):
        if model is not None:
            values[i] = np.array([record[name] for record in model.records], dtype=np.float64)
    return values


def argmax_with_ties(figures: Mapping[Label, float], rounding: float) -> tuple[list[Label], float]:
    """Labels with the largest value, including ties up to rounding error, and that value.

    Examples
    --------
    >>> argmax_with_ties({"a": 1.0, "b": 1.0 + 1e-15, "c": 0.5}, 1e-12)
    (['a', 'b'], 1.000000000000001)
    """
    largest = max(figures.values())
    return [label for label, figure in figures.items() if figure >= largest - rounding], largest


def labels_of(groups: Sequence[GroupResult]) -> tuple[Label, ...]:
    """Labels of the groups."""
    return tuple(group.group for group in groups)


def harmed_groups(model: ModelResult) -> list[GroupResult]:
    """Return the groups with state "harmed", the one with the largest relative loss first."""
    harmed = [group for group in model.groups if group.state == "harmed"]
    return sorted(harmed, key=lambda group: group.expected_loss_share.value, reverse=True)


def unresolved_groups(model: ModelResult, materiality: float) -> list[GroupResult]:
    """Return the groups that are not shown to be harmed, and for which harm is not ruled out.

    A minor loss may still be material if the upper limit of its interval is.
    """
    return [
        group
        for group in model.groups
        if group.state == "inconclusive"
        or (group.state == "minor" and not group.is_immaterial(materiality))
    ]


def has_no_material_harm(model: ModelResult, materiality: float) -> bool:
    """Whether the intervals rule out a material loss of every group.

    A loss that is shown to be above zero may still be material, however small its estimate.
    """
    return all(
        group.state == "no material harm"
        or (group.state == "minor" and group.is_immaterial(materiality))
        for group in model.groups
    )


def change_records(
    models: Sequence[ModelResult], unit: Unit = "squared"
) -> list[dict[str, object]]:
    """Return a record per model and group with the change in expected error from ordinary PCA.

    Groups without an estimate of it are omitted.
    """
    return [
        {
            "model": model.name,
            "group": group.group,
            "n_rows": group.n_rows,
            "proportion": group.proportion,
            **_change_record(group, unit),
        }
        for model in models
        for group in model.groups
        if not math.isnan(group.expected_change.value)
    ]


def _change_record(group: GroupResult, unit: Unit) -> dict[str, float | None]:
    """Return the change of a group with its limits; the names of shares say so."""
    if unit == "share":
        return group.expected_change_share.to_record("change_share")
    return group.expected_change.to_record("expected_change")


def _multiple_of(count: int, size_factor: float) -> int | None:
    """Return this multiple of a count, rounded up; None if it is unknown or infinite."""
    size = count * size_factor
    if not 0 < size < math.inf:
        return None
    return round_up_two_digits(size)
