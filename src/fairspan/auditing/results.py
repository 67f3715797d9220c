"""Results of an audit by model and group, findings, and verdicts.

A verdict states whether ordinary PCA harms a group and whether a fair model helps. It is based on
estimates for new rows with intervals simultaneous over groups, and is inconclusive if these do not
suffice.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from fairspan.auditing.expected_losses import (
    UNKNOWN,
    Estimate,
    GroupEstimates,
    State,
    none_if_nan,
    round_up_two_digits,
)
from fairspan.auditing.feature_errors import FeatureErrors
from fairspan.auditing.refit_bound import RefitBound
from fairspan.certificates.certificate import tolerance_suffix
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_change,
    format_count,
    format_level,
    format_share,
    to_ascii,
)
from fairspan.moments.base import describe_dropped_rows
from fairspan.rows.labels import Label, format_label, printable, table_name
from fairspan.typing import FloatArray


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

    @property
    def n_rows_needed(self) -> int | None:
        """Number of rows that would detect the loss, or the materiality threshold if larger.

        None unless the state is inconclusive and the number is known.
        """
        rows = self.n_rows * self.sample_size_factor
        return round_up_two_digits(rows) if rows > 0 else None

    @property
    def record(self) -> dict[str, Any]:
        """Return a flat dictionary; values that are not available are None."""
        return {
            "group": self.group,
            "n_rows": self.n_rows,
            "n_clusters": self.n_clusters,
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
            "min_detectable_loss": none_if_nan(self.min_detectable_loss),
        }


@dataclass(frozen=True)
class ModelResult:
    """Results of one model.

    Attributes
    ----------
    name : str
    n_components : int
    center : {"global", "group", "none"}
    is_scaled : bool
        Whether figures are in scaled units.
    status : str or None
        Status of the model's certificate, if it has one.
    tol : float or None
        Relative tolerance of the certificate.
    gap : float or None
        Gap of the certificate, in the units of its objective.
    is_pca : bool
    in_sample : bool
        Whether the training rows are, or largely overlap with, the audited rows.
    in_sample_inferred : bool
        Whether this was inferred by a test, since number and mean of the rows do not match those of
        the fit.
    baseline : str or None
        Name of the baseline PCA with the same rows, dimension, center and scale.
    training_groups : tuple of labels
        Training groups; empty if it was fitted without groups.
    groups : tuple of GroupResult
    observed_disparity : Estimate
        With two groups, error of the second minus that of the first; with more, the largest
        pairwise difference.
    disparity_pair : tuple of two labels
        Labels (a, b) of the groups in the disparity error_b - error_a.
    expected_disparity : Estimate
        Disparity of the expected errors.
    expected_disparity_pair : tuple of two labels
    unresolved_reason : str or None
        Cause of an "unresolved" status.
    no_estimates_reason : str or None
        Why there are no estimates for new rows, if there are none.
    worst_case_errors : tuple of k floats, or None
        For the robust error gap criterion: largest error of each group under any distribution
        within the criterion's radius of the observed one.
    refit_bound : RefitBound or None
        For a model with a certificate that was fitted to other rows: bound on a refit to the
        audited rows.
    is_nested : bool
        Whether the first components solve the problem for fewer dimensions.
    feature_errors : FeatureErrors or None
        Errors by feature; None for models that are not projections.
    instability, min_cosine : float or None
        Sensitivity to the training rows; see :class:`ModelEstimates`.
    """

    name: str
    n_components: int
    center: str
    is_scaled: bool
    status: str | None
    gap: float | None
    is_pca: bool
    in_sample: bool
    baseline: str | None
    training_groups: tuple[Label, ...]
    groups: tuple[GroupResult, ...]
    observed_disparity: Estimate
    disparity_pair: tuple[Label, Label]
    unresolved_reason: str | None = None
    no_estimates_reason: str | None = None
    worst_case_errors: tuple[float, ...] | None = None
    refit_bound: RefitBound | None = None
    is_nested: bool = False
    tol: float | None = None
    in_sample_inferred: bool = False
    expected_disparity: Estimate = UNKNOWN
    expected_disparity_pair: tuple[Label, Label] | None = None
    feature_errors: FeatureErrors | None = field(default=None, repr=False, compare=False)
    instability: float | None = None
    min_cosine: float | None = None

    @property
    def status_text(self) -> str | None:
        """Status including a nondefault tolerance, such as "optimal within 1 %"."""
        if self.status is None or self.tol is None:
            return self.status
        return self.status + tolerance_suffix(self.status, self.tol)

    @property
    def records(self) -> list[dict[str, Any]]:
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

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        del values["observed_disparity"], values["expected_disparity"], values["feature_errors"]
        return {
            **values,
            "refit_bound": None if self.refit_bound is None else self.refit_bound.to_dict(),
            **self.observed_disparity.to_record("observed_disparity"),
            **self.expected_disparity.to_record("expected_disparity"),
            "observed_total_error": self.observed_total_error,
            "groups": [group.record for group in self.groups],
        }

    @property
    def states(self) -> tuple[State | None, ...]:
        """State of each group; None for a model without estimates."""
        return tuple(None if self.no_estimates_reason else group.state for group in self.groups)

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

    @property
    def expected_total_error(self) -> float:
        """Expected mean error over all rows; NaN if a group has no estimate."""
        return sum(group.proportion * group.expected_error.value for group in self.groups)


@dataclass(frozen=True)
class MissingFeature:
    """A feature with missing or mean-imputed values.

    Attributes
    ----------
    name : str
    is_mean_imputed : bool
        Whether the values equal the column mean, as after mean imputation, rather than being
        missing.
    shares : tuple of k floats
        Share of each group's rows that is affected.
    n_sole_cause : int
        Number of rows dropped because of this feature only.
    """

    name: str
    is_mean_imputed: bool
    shares: tuple[float, ...]
    n_sole_cause: int = 0


@dataclass(frozen=True)
class MissingValues:
    """Missing values by group and feature.

    Attributes
    ----------
    groups : tuple of k labels
        Groups among all rows, including dropped ones.
    n_rows, n_dropped : tuples of k ints
        Number of rows of each group, and of dropped rows.
    n_without_group : int
        Number of rows dropped because the group is missing.
    features : tuple of MissingFeature
        Affected features, by decreasing largest share in a group.
    """

    groups: tuple[Label, ...]
    n_rows: tuple[int, ...]
    n_dropped: tuple[int, ...]
    n_without_group: int
    features: tuple[MissingFeature, ...]

    @property
    def dropped_shares(self) -> tuple[float, ...]:
        """Share of dropped rows in each group."""
        return tuple(lost / n for lost, n in zip(self.n_dropped, self.n_rows, strict=True))

    @property
    def costliest_text(self) -> str:
        """Describe the features that are the only cause of most dropped rows."""
        by_cost = sorted(self.features, key=lambda feature: -feature.n_sole_cause)[:3]
        costs = [
            f"{quote_group(feature.name)} ({to_ascii(format_count(feature.n_sole_cause, 'row'))})"
            for feature in by_cost
            if feature.n_sole_cause
        ]
        return f"Dropped because of a single feature: {join_truncated(costs)}." if costs else ""


@dataclass(frozen=True)
class AuditedRows:
    """The audited rows.

    Attributes
    ----------
    n_rows : int
        Rows.
    n_features : int
    has_intervals : bool
    n_dropped : int
        Number of rows dropped because a feature or the group is missing.
    missing : MissingValues or None
        Missing values by group and feature; None if there are none.
    has_clusters : bool
        Whether clusters were given.
    """

    n_rows: int
    n_features: int
    has_intervals: bool
    n_dropped: int = 0
    missing: MissingValues | None = None
    has_clusters: bool = False

    @property
    def dropped_text(self) -> str:
        """Sentence about dropped rows; empty if there are none."""
        return describe_dropped_rows(self.n_dropped, f"{counted(self.n_rows, 'row')}: {{}}")


def values_by_model(models: Sequence[ModelResult | None], name: str, n_groups: int) -> FloatArray:
    """Return one quantity by model and group, (m, k); NaN where it is not available."""
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


def quote_groups(groups: Sequence[GroupResult]) -> str:
    """Quoted names of the groups, comma-separated."""
    return join_truncated([quote_group(group.group) for group in groups])


def format_group(label: Label) -> str:
    """Display name of a group."""
    return table_name(label)


def quote_group(label: Label) -> str:
    """Quoted display name of a group."""
    return f"'{printable(format_label(label))}'"


@dataclass(frozen=True)
class Finding:
    """A note or warning about the data or a model.

    Attributes
    ----------
    code : str
        Stable code; its meaning never changes.
    severity : {"info", "warning"}
    message : str
        Observation and, for warnings, what to do.
    model : str or None
        Model concerned; None if the finding is about the rows.
    groups : tuple of labels
    columns : tuple of str
        Features concerned; x0, x1, ... if they have no names.
    remedy : str
        Recommended action in more detail.
    caveat : str
        Reason to qualify a verdict; empty if there is none.
    may_be_harmless : bool
        Whether the observation may be harmless, so that "no material harm" stands with the caveat.
    """

    code: str
    severity: Literal["info", "warning"]
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()
    remedy: str = ""
    caveat: str = ""
    may_be_harmless: bool = False

    @property
    def qualifies_verdict(self) -> bool:
        """Whether verdicts about the same model and groups must carry the caveat."""
        return bool(self.caveat)

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


VerdictKind = Literal[
    "harm, repair shifts it",
    "harm, repair at a cost",
    "harm, repair helps",
    "harm, repair does not help",
    "harm, no repair tried",
    "no material harm, repair harms",
    "inconclusive",
    "no material harm",
]
"""Possible verdicts; the first that applies is given."""


@dataclass(frozen=True)
class Verdict:
    """Verdict on one model compared with ordinary PCA.

    Attributes
    ----------
    kind : str
        One of the eight kinds.
    summary : str
        Summary of the evidence.
    recommendation : str
        Recommended action.
    model : str
        Name of the fair model, or of the only model.
    groups : tuple of labels
        Groups concerned.
    n_agreeing, n_repeats : int
        Number of fold assignments with this kind of verdict, and number of assignments.
    """

    kind: VerdictKind
    summary: str
    recommendation: str
    model: str
    groups: tuple[Label, ...] = ()
    n_agreeing: int = 1
    n_repeats: int = 1

    def __str__(self) -> str:
        text = self.kind[0].upper() + self.kind[1:]
        if self.n_repeats > 1:
            text += f" (in {self.n_agreeing} of {self.n_repeats} fold assignments)"
        return f"{text}. {self.summary} {self.recommendation}"


_STABILIZING_CHANGES = "a different number of dimensions or scaling, or a check for outliers"


def make_verdicts(
    models: Sequence[ModelResult],
    findings: Sequence[Finding],
    level: float,
    materiality: float,
) -> tuple[Verdict, ...]:
    """Return one verdict per model compared with ordinary PCA; without any, one per model."""
    by_name = {model.name: model for model in models}
    compared = [model for model in models if model.baseline in by_name]
    baselines = [by_name[str(model.baseline)] for model in compared]
    comparisons = [
        _comparison_verdict(model, baseline, level, materiality)
        for model, baseline in zip(compared, baselines, strict=True)
    ]
    verdicts = [
        _with_recommended_model(verdict, baseline, compared, comparisons)
        for verdict, baseline in zip(comparisons, baselines, strict=True)
    ]
    if not verdicts:
        verdicts = [_verdict_without_comparison(model, level) for model in models]
    return tuple(
        _with_caveats(verdict, by_name[verdict.model].baseline, findings) for verdict in verdicts
    )


def _with_recommended_model(
    verdict: Verdict,
    pca: ModelResult,
    fair_models: Sequence[ModelResult],
    verdicts: Sequence[Verdict],
) -> Verdict:
    """Add the model to prefer, if several fair models were estimated.

    Among the models whose largest expected loss does not exceed that of ordinary PCA: first those
    that help, then those with the fewest rows (or clusters) in groups shown to be harmed, then
    those with the smallest largest loss.
    """
    helpful = {each.model for each in verdicts if each.kind == "harm, repair helps"}
    competitors = [model for model in fair_models if model.baseline == pca.name]
    estimated = [model for model in (pca, *competitors) if model.has_estimates]
    if len(estimated) < 3 or verdict.kind in ("inconclusive", "no material harm"):
        return verdict
    largest_loss = {model.name: max(model.losses().values()) for model in estimated}
    max_loss = largest_loss[pca.name] + pca.rounding_bound
    candidates = [model for model in estimated if largest_loss[model.name] <= max_loss]
    candidates.sort(
        key=lambda model: (
            model.name not in helpful,
            _n_rows_harmed(model),
            largest_loss[model.name],
        )
    )
    unit = "row" if pca.groups[0].n_clusters is None else "cluster"
    descriptions = [
        f"{model.name} ({to_ascii(format_count(_n_rows_harmed(model), unit))} in groups shown to "
        "be harmed)"
        for model in candidates[:2]
    ]
    if candidates[0].name in helpful:
        reason = "the group that PCA harms most gains, and no other group is shown to become harmed"
    else:
        reason = (
            "among the models whose largest loss does not exceed that of PCA, it is shown to harm "
            f"groups with the fewest {unit}s"
        )
    scope = "compared" if len(estimated) == 1 + len(competitors) else "with estimates"
    advice = f"Among the {len(estimated)} models {scope}, prefer {descriptions[0]}: {reason}."
    if len(descriptions) > 1:
        advice += f" The alternative is {descriptions[1]}."
    if candidates[0].name == verdict.model:
        advice = f"{verdict.recommendation} {advice}"
    return replace(verdict, recommendation=advice)


def _n_rows_harmed(model: ModelResult) -> int:
    return sum(group.n_clusters or group.n_rows for group in harmed_groups(model))


def _with_caveats(verdict: Verdict, baseline: str | None, findings: Sequence[Finding]) -> Verdict:
    """Qualify the verdict by the findings with a caveat."""
    relevant = [finding for finding in findings if _qualifies(finding, verdict, baseline)]
    if not relevant or verdict.kind == "inconclusive":
        return verdict
    caveats = " and ".join(f"{finding.caveat} ({finding.code})" for finding in relevant)
    # States account for heavy tails and unstable models, but not for misleading columns.
    misleading_data = [
        finding
        for finding in relevant
        if finding.model is None and not finding.groups and not finding.may_be_harmless
    ]
    if verdict.kind == "no material harm" and misleading_data:
        return replace(
            verdict,
            kind="inconclusive",
            summary=f"No group has a material loss in these figures, but {caveats}.",
            recommendation=f"{misleading_data[0].remedy} Then audit again.",
        )
    summary = verdict.summary[0].lower() + verdict.summary[1:]
    recommendation = verdict.recommendation[0].lower() + verdict.recommendation[1:]
    return replace(
        verdict,
        summary=f"With the caveat that {caveats}, {summary}",
        recommendation=f"{relevant[0].remedy} If the verdict does not change, {recommendation}",
    )


def _qualifies(finding: Finding, verdict: Verdict, baseline: str | None) -> bool:
    """Whether a finding has a caveat and concerns the models and groups of the verdict."""
    if not finding.qualifies_verdict or finding.model not in (None, verdict.model, baseline):
        return False
    if not finding.groups or not verdict.groups:
        return True
    return not set(verdict.groups).isdisjoint(finding.groups)


def change_records(models: Sequence[ModelResult]) -> list[dict[str, Any]]:
    """Return a record per model and group with the change in expected error from ordinary PCA."""
    return [
        {
            "model": model.name,
            "group": group.group,
            "n_rows": group.n_rows,
            "proportion": group.proportion,
            **group.expected_change.to_record("expected_change"),
        }
        for model in models
        for group in model.groups
        if not math.isnan(group.expected_change.value)
    ]


def harmed_groups(model: ModelResult) -> list[GroupResult]:
    """Return the groups with state "harmed", the one with the largest relative loss first."""
    harmed = [group for group in model.groups if group.state == "harmed"]
    return sorted(harmed, key=relative_loss, reverse=True)


def _verdict_without_comparison(model: ModelResult, level: float) -> Verdict:
    harmed = harmed_groups(model)
    if not harmed:
        return _no_harm_verdict(model, model.name, level)
    return Verdict(
        "harm, no repair tried",
        _describe_harm(model, harmed),
        "Fit a FairPCA to the same rows and audit both models.",
        model.name,
        labels_of(harmed),
    )


def _comparison_verdict(
    fair: ModelResult, pca: ModelResult, level: float, materiality: float
) -> Verdict:
    harmed_by_pca = harmed_groups(pca)
    labels_harmed_by_pca = labels_of(harmed_by_pca)
    newly_harmed = [
        group for group in harmed_groups(fair) if group.group not in labels_harmed_by_pca
    ]
    verb = "is" if len(newly_harmed) == 1 else "are"
    if not harmed_by_pca:
        if newly_harmed and not any(group.is_unstable for group in pca.groups):
            return Verdict(
                "no material harm, repair harms",
                f"The repair itself does harm: under {fair.name}, "
                f"{_names_with_counts(newly_harmed)} {verb} harmed, while {pca.name} is not shown "
                "to harm any group.",
                f"Do not use {fair.name} in place of {pca.name}.",
                fair.name,
                labels_of(newly_harmed),
            )
        return _no_harm_verdict(pca, fair.name, level)
    harm_text = _describe_harm(pca, harmed_by_pca)
    if newly_harmed:
        return Verdict(
            "harm, repair shifts it",
            f"{harm_text} Under {fair.name}, {_names_with_counts(newly_harmed)} {verb} harmed, "
            f"which {pca.name} is not shown to harm.",
            "Choose another criterion or more dimensions, or document which groups bear the cost "
            "and why.",
            fair.name,
            labels_of(newly_harmed),
        )
    worst_under_pca = harmed_by_pca[0]
    worst_name = quote_group(worst_under_pca.group)
    worst_under_fair = next(group for group in fair.groups if group.group == worst_under_pca.group)
    change = worst_under_fair.expected_change
    if worst_under_fair.is_unstable and change.contains_zero:
        return Verdict(
            "inconclusive",
            f"{fair.name} itself is unstable: refitted to other rows, it could raise the error of "
            f"{worst_name} as well as lower it. Consider {_STABILIZING_CHANGES}. {harm_text}",
            f"Try {_STABILIZING_CHANGES}, and audit again; until then do not claim that "
            f"{fair.name} helps.",
            fair.name,
            labels_harmed_by_pca,
        )
    if change.high is None or change.high >= 0:
        return Verdict(
            "harm, repair does not help",
            f"{harm_text} Under {fair.name}, the error of {worst_name} is not shown to decrease on "
            "new rows.",
            "Choose another criterion or more dimensions.",
            fair.name,
            labels_harmed_by_pca,
        )
    regained = _variance_share_range(-change.high, -(change.low or 0.0), worst_under_pca)
    gain_text = f"{harm_text} Under {fair.name}, {worst_name} regains {regained} of its variance"
    gain_text += " on new rows"
    paying = [
        group
        for group in fair.groups
        if group.group in labels_harmed_by_pca and _pays(group, materiality)
    ]
    if paying:
        cost = _describe_further_cost(paying, fair, pca)
        return Verdict(
            "harm, repair at a cost",
            f"{gain_text}, {cost}",
            "Decide which groups to favor, or choose another criterion or more dimensions.",
            fair.name,
            labels_harmed_by_pca,
        )
    payers = _describe_payers(fair)
    others = _describe_other_groups(fair, labels_harmed_by_pca, materiality)
    recommendation = f"Use {fair.name}."
    if payers:
        recommendation = f"Use {fair.name}, and document which groups bear the cost."
    return Verdict(
        "harm, repair helps",
        f"{gain_text}, and {others}.{payers}",
        recommendation,
        fair.name,
        labels_harmed_by_pca,
    )


def _pays(group: GroupResult, materiality: float) -> bool:
    """Whether the error of a group rises significantly and materially."""
    is_significant = (group.expected_change.low or 0.0) > group.observed_rounding
    return is_significant and _relative_change(group) > materiality


def _describe_further_cost(
    paying: Sequence[GroupResult], fair: ModelResult, pca: ModelResult
) -> str:
    """Describe the cost of a repair for groups that PCA harms already."""
    share = to_ascii(format_share(max(map(_relative_change, paying))))
    # Point estimates: that the error rises is shown, but not by how much.
    cost = f"loses a further estimated {share} of its variance"
    if len(paying) > 1:
        cost = f"lose more, the largest estimate being a further {share} of the variance"
    text = f"but {_names_with_counts(paying)}, already harmed by {pca.name}, {cost}."
    relative_rise = fair.expected_total_error / pca.expected_total_error - 1
    if not math.isnan(relative_rise):
        text += f" The expected total error changes by {to_ascii(format_change(relative_rise))}."
    return text


def _no_harm_verdict(pca: ModelResult, name: str, level: float) -> Verdict:
    inconclusive = [group for group in pca.groups if group.state == "inconclusive"]
    unstable = [group for group in inconclusive if group.is_unstable]
    if unstable:
        return Verdict(
            "inconclusive",
            f"{pca.name} itself is unstable: whether it harms {_names_with_counts(unstable)} "
            f"depends on the rows it is fitted to. Consider {_STABILIZING_CHANGES}.",
            f"Try {_STABILIZING_CHANGES}, and audit again; until then claim neither harm nor "
            "fairness.",
            name,
            labels_of(inconclusive),
        )
    if inconclusive:
        reason = "" if pca.no_estimates_reason is None else f" ({pca.no_estimates_reason})"
        return Verdict(
            "inconclusive",
            f"These rows do not suffice to decide whether {pca.name} harms "
            f"{_names_with_counts(inconclusive)}{reason}.{_describe_rows_needed(inconclusive)}",
            "Collect more rows of them, or use fewer dimensions; until then claim neither harm nor "
            "fairness.",
            name,
            labels_of(inconclusive),
        )
    summary = (
        f"At {format_level(level)} confidence, no group has a material loss under {pca.name} on "
        "new rows."
    )
    minor = [group for group in pca.groups if group.state == "minor"]
    if len(minor) == 1:
        summary += f" The loss of {quote_groups(minor)} is above zero but immaterial."
    elif minor:
        summary += f" The losses of {quote_groups(minor)} are above zero but immaterial."
    return Verdict("no material harm", summary, f"Use {pca.name}.", name)


def _describe_rows_needed(groups: Sequence[GroupResult]) -> str:
    """Describe the rows needed and the detectable losses; empty if they are unknown."""
    known = [group for group in groups if group.n_rows_needed is not None]
    if not known:
        return ""
    needed = join_truncated(
        [f"{group.n_rows_needed:,} rows of {quote_group(group.group)}" for group in known]
    )
    detectable_shares = [
        min(group.min_detectable_loss / group.observed_total_variance, 1.0) for group in known
    ]
    detectable = join_truncated([to_ascii(format_share(share)) for share in detectable_shares])
    return (
        " Detecting a loss of the estimated size, or of the materiality threshold if that is "
        f"larger, takes about {needed}; these rows can detect losses above {detectable} of the "
        "variance."
    )


def _describe_harm(model: ModelResult, harmed: Sequence[GroupResult]) -> str:
    """Describe which groups are harmed, with an interval of the largest relative loss."""
    worst, *others = harmed
    loss = worst.expected_loss
    share_lost = _variance_share_range(max(loss.low or 0.0, 0.0), loss.high or 0.0, worst)
    n_rows = to_ascii(format_count(worst.n_rows, "row"))
    dimensions = to_ascii(format_count(model.n_components, "dimension"))
    text = (
        f"{quote_group(worst.group)} ({n_rows}) is harmed by {model.name}: on new rows it loses "
        f"{share_lost} more of its variance than with its own best {dimensions}."
    )
    if len(others) == 1:
        text += f" So is {_names_with_counts(others)}."
    elif others:
        text += f" So are {_names_with_counts(others)}."
    inconclusive = [group for group in model.groups if group.state == "inconclusive"]
    if inconclusive:
        text += f" Whether it harms {_names_with_counts(inconclusive)} is unresolved."
    return text


def _describe_other_groups(
    fair: ModelResult, harmed_before: Sequence[Label], materiality: float
) -> str:
    """Describe whether other groups become harmed, as far as the intervals exclude it."""
    others = [group for group in fair.groups if group.group not in harmed_before]
    unresolved = [group for group in others if not _excludes_material_harm(group, materiality)]
    if not unresolved:
        return "no other group becomes harmed"
    return (
        "no other group is shown to become harmed; this is unresolved for "
        f"{_names_with_counts(unresolved)}"
    )


def _excludes_material_harm(group: GroupResult, materiality: float) -> bool:
    """Whether the loss, or its rise, is below the materiality threshold."""
    if group.state == "no material harm":
        return True
    min_material_loss = materiality * group.observed_total_variance
    limits = (group.expected_loss.high, group.expected_change.high)
    return any(limit is not None and limit < min_material_loss for limit in limits)


def _describe_payers(fair: ModelResult) -> str:
    """Describe the groups whose expected error rises significantly."""
    paying = [
        group
        for group in fair.groups
        if (group.expected_change.low or 0.0) > group.observed_rounding
    ]
    if not paying:
        return ""
    largest_share = to_ascii(format_share(max(map(_relative_change, paying))))
    # Point estimates: that the error rises is shown, but not by how much.
    estimate = "an estimated" if len(paying) == 1 else "the largest estimate is"
    names = _names_with_counts(paying)
    return f" The cost falls on {names}: {estimate} {largest_share} of the variance."


def _relative_change(group: GroupResult) -> float:
    return group.expected_change.value / group.observed_total_variance


def _variance_share_range(low: float, high: float, group: GroupResult) -> str:
    """Format both limits of an interval as shares of the group's variance."""
    # No group loses more than it has.
    variance = group.observed_total_variance
    shares = [min(limit, variance) / variance for limit in (low, high)]
    return " to ".join([to_ascii(format_share(share)) for share in shares])


def relative_loss(group: GroupResult) -> float:
    """Return the expected loss as a share of the group's variance."""
    return group.expected_loss.value / (group.observed_total_variance or 1.0)


def _names_with_counts(groups: Sequence[GroupResult]) -> str:
    count = to_ascii(format_count(sum(group.n_rows for group in groups), "row"))
    return f"{quote_groups(groups)} ({count}{'' if len(groups) == 1 else ' together'})"
