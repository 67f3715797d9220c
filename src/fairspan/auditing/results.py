"""The figures and findings of an audit, how groups are named, and the verdict.

The verdict says whether ordinary PCA harms anybody, and whether a fair model helps. It is based on
estimates for new rows, with intervals that hold for all groups at once; if too little is known, it
says so.
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
from fairspan.formatting.text import (
    counted,
    format_count,
    format_level,
    format_share,
    join_truncated,
    to_ascii,
)
from fairspan.formatting.text import format_change as relative_change
from fairspan.moments.base import describe_dropped_rows
from fairspan.rows.groups import Label, format_label, printable, table_name
from fairspan.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class GroupResult(GroupEstimates):
    """What one model does to one group, in squared (scaled) units of the features.

    A name that ends with `_here` is of these rows; the others, of :class:`GroupEstimates`, are
    estimates for new rows.

    Attributes
    ----------
    group : label
    n : int
        Rows.
    proportion : float
        Share of the total weight.
    observed_total_variance : float
        tr S_g about the model's centre.
    observed_error : Estimate
        e_g with its interval.
    observed_best_error : float
        e*_g, the least error any subspace of the same dimension has on this group.
    observed_loss : float
        e_g - e*_g.
    observed_variance_kept : float
        1 - e_g / tr S_g, the share of variance kept; NaN for a group without variance.
    observed_kurtosis : float
        Fourth moment of the rows' errors over their squared variance; 0 if it is not known.
    drift : Estimate
        By how much the error is larger than it was on the rows of the fit, of a model that was
        fitted on other rows; its interval holds for all groups at once. NaN where that is unknown.
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
        """How many rows would show the loss, where these do not tell; None where that is unknown.

        The loss is the estimated one, or the least that matters, if that is larger.
        """
        rows = self.n_rows * self.sample_size_factor
        return round_up_two_digits(rows) if rows > 0 else None

    @property
    def record(self) -> dict[str, Any]:
        """The figures as one flat dictionary; None where there is none."""
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
    """What one model does to every group.

    Attributes
    ----------
    name : str
    n_components : int
    center : {"global", "group", "none"}
    scaled : bool
        Whether figures are in scaled units.
    status : str or None
        Status of the model's certificate; None for models that carry none.
    tol : float or None
        The gap that the certificate calls optimal, as a share of the objective.
    gap : float or None
        Gap of the certificate, in the units of its objective.
    is_pca : bool
    in_sample : bool
        Whether the model was fitted on the audited rows, or on rows among which these are.
    in_sample_inferred : bool
        Whether a test says so, as number and mean of the rows are not those of the fit.
    baseline : str or None
        Name of the ordinary PCA of the same rows, dimension, centre and scale beside it.
    training_groups : tuple of labels
        Groups it was fitted on; empty if it knows of none.
    groups : tuple of GroupResult
    observed_disparity : Estimate
        Two groups: error of the second minus error of the first; more: the largest pairwise gap.
    pair : tuple of two labels
        The disparity is the error of the second of these minus that of the first.
    expected_disparity : Estimate
        The same of the expected errors, of two groups or the widest pair.
    expected_disparity_pair : tuple of two labels
    reason : str or None
        Where the status is "unresolved", what in the data leaves it so.
    no_estimates_reason : str or None
        Why nothing is said of new rows, where that is so.
    worst_case_errors : tuple of k floats, or None
        Of a model by the robust error gap: the largest error of each group under any distribution
        within the criterion's radius of these rows, in the order of the groups.
    refit_bound : RefitBound or None
        Of a model that was fitted on other rows and carries a certificate: what its proof says of
        these rows.
    is_nested : bool
        Whether its first components are an answer of fewer dimensions.
    by_feature : FeatureErrors or None
        The error of each feature in each group; None of a model that is no projection.
    instability, min_cosine : float or None
        How much the model depends on its rows, as
        :class:`~fairspan.auditing.expected_losses.ModelEstimates` has it.
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
        """The status, with a tolerance that is larger than usual, as "optimal within 1 %"."""
        if self.status is None or self.tol is None:
            return self.status
        return self.status + tolerance_suffix(self.status, self.tol)

    @property
    def records(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group; None where there is no figure."""
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
        """Everything as plain values, ready for JSON; groups as in :attr:`records`."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        del own["observed_disparity"], own["expected_disparity"], own["feature_errors"]
        here = self.refit_bound
        return {
            **own,
            "refit_bound": None if here is None else here.to_dict(),
            **self.observed_disparity.to_record("observed_disparity"),
            **self.expected_disparity.to_record("expected_disparity"),
            "observed_total_error": self.observed_total_error,
            "groups": [group.record for group in self.groups],
        }

    @property
    def states(self) -> tuple[State | None, ...]:
        """What may be said of each group's loss on new rows; None where nothing was estimated."""
        return tuple(None if self.no_estimates_reason else group.state for group in self.groups)

    @property
    def has_estimates(self) -> bool:
        """Whether anything is said of new rows."""
        return any(group.is_estimated for group in self.groups)

    @property
    def observed_total_error(self) -> float:
        """Average error over all rows."""
        return sum(group.proportion * group.observed_error.value for group in self.groups)

    @property
    def rounding_bound(self) -> float:
        """The size up to which differences of figures between groups are rounding."""
        return max(group.observed_rounding for group in self.groups)

    @property
    def is_lossless(self) -> bool:
        """Whether every group is reconstructed up to rounding."""
        return all(group.observed_error.value <= group.observed_rounding for group in self.groups)

    @property
    def observed_largest_loss(self) -> float:
        """Largest excess loss of a group."""
        return max(group.observed_loss for group in self.groups)

    def losses(self) -> dict[Label, float]:
        """Of each group its loss on new rows; on these rows, where nothing is said of new ones."""
        if not self.has_estimates:
            return {group.group: group.observed_loss for group in self.groups}
        # The corrected loss of a group that loses nothing may be below zero by chance.
        return {
            group.group: max(group.expected_loss.value, 0.0)
            for group in self.groups
            if group.is_estimated
        }

    @property
    def expected_total_error(self) -> float:
        """Average error over new rows of all groups; NaN where a group has no estimate."""
        return sum(group.proportion * group.expected_error.value for group in self.groups)


@dataclass(frozen=True)
class MissingFeature:
    """A feature of which values are missing, or were filled in.

    Attributes
    ----------
    name : str
    is_mean_imputed : bool
        Whether the values are there, but are the mean of the column, as filled in ones are.
    shares : tuple of k floats
        Of each group, the share of its rows.
    n_sole_cause : int
        Rows that are left out because of this feature alone.
    """

    name: str
    is_mean_imputed: bool
    shares: tuple[float, ...]
    n_sole_cause: int = 0


@dataclass(frozen=True)
class MissingValues:
    """What is missing in a table, by group and feature.

    Attributes
    ----------
    groups : tuple of k labels
        Of all rows, also those that were left out.
    rows, dropped : tuples of k ints
        Rows of each group, and those of them that were left out.
    n_without_group : int
        Rows without a group, which were left out.
    columns : tuple of MissingFeature
        Those with the largest share in a group come first.
    """

    groups: tuple[Label, ...]
    n_rows: tuple[int, ...]
    n_dropped: tuple[int, ...]
    n_without_group: int
    features: tuple[MissingFeature, ...]

    @property
    def dropped_shares(self) -> tuple[float, ...]:
        """Of each group, the share of its rows that were left out."""
        return tuple(lost / n for lost, n in zip(self.n_dropped, self.n_rows, strict=True))

    @property
    def costliest_text(self) -> str:
        """The features because of which alone most rows are left out, in words."""
        by_cost = sorted(self.features, key=lambda each: -each.n_sole_cause)[:3]
        told = [
            f"{quote_group(each.name)} ({to_ascii(format_count(each.n_sole_cause, 'row'))})"
            for each in by_cost
            if each.n_sole_cause
        ]
        return f"Left out because of one feature alone: {join_truncated(told)}." if told else ""


@dataclass(frozen=True)
class AuditedRows:
    """What the models were judged on.

    Attributes
    ----------
    n : int
        Rows.
    n_features : int
    has_intervals : bool
    n_dropped : int
        Rows left out since a feature or the group is missing in them.
    missing : MissingValues or None
        What is missing, by group and feature; None where nothing is.
    has_clusters : bool
        Whether it was said which rows belong together.
    """

    n_rows: int
    n_features: int
    has_intervals: bool
    n_dropped: int = 0
    missing: MissingValues | None = None
    has_clusters: bool = False

    @property
    def dropped_text(self) -> str:
        """Which rows are not in; nothing if all are."""
        return describe_dropped_rows(self.n_dropped, f"{counted(self.n_rows, 'row')}: {{}}")


def values_by_model(models: Sequence[ModelResult | None], name: str, n_groups: int) -> FloatArray:
    """One figure of every group under every model, by its name in the records, (m, k).

    NaN where there is none, as of a model that is missing.
    """
    none = [None] * n_groups
    rows = [none if each is None else [record[name] for record in each.records] for each in models]
    return np.array(rows, dtype=np.float64)


def argmax_with_ties(figures: Mapping[Label, float], rounding: float) -> tuple[list[Label], float]:
    """The groups with the largest figure, those included that differ by rounding alone.

    Examples
    --------
    >>> argmax_with_ties({"a": 1.0, "b": 1.0 + 1e-15, "c": 0.5}, 1e-12)
    (['a', 'b'], 1.000000000000001)
    """
    most = max(figures.values())
    return [label for label, figure in figures.items() if figure >= most - rounding], most


def labels_of(groups: Sequence[GroupResult]) -> tuple[Label, ...]:
    """Of each group its label."""
    return tuple(group.group for group in groups)


def quote_groups(groups: Sequence[GroupResult]) -> str:
    """The groups' names in a row."""
    return join_truncated([quote_group(group.group) for group in groups])


def format_group(label: Label) -> str:
    """A group's name as tables, pages and figures print it."""
    return table_name(label)


def quote_group(label: Label) -> str:
    """A group's name in quotes."""
    return f"'{printable(format_label(label))}'"


@dataclass(frozen=True)
class Finding:
    """One thing the reader should know.

    Attributes
    ----------
    code : str
        Stable: a code never changes its meaning.
    severity : {"info", "warning"}
    message : str
        What was seen and, for a warning, what to do.
    model : str or None
        The model that it is about; None where it is about the rows.
    groups : tuple of labels
    columns : tuple of str
        Features that it is about; x0, x1, ... where these have no names.
    remedy : str
        What to do about it, in more words.
    caveat : str
        Of a finding that vetoes a verdict, why the figures do not support it; otherwise empty.
    may_be_harmless : bool
        Whether what was seen may be harmless, so that "no material harm" stands with the caution.
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
        """Whether no verdict that this concerns may stand without a caveat."""
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
"""All that a verdict can be; the first that applies."""


@dataclass(frozen=True)
class Verdict:
    """What one model's figures say, against ordinary PCA.

    Attributes
    ----------
    kind : str
        One of the eight kinds.
    summary : str
        What was found, about whom.
    recommendation : str
        What to do.
    model : str
        Name of the fair model; of the model itself where nothing is compared with it.
    groups : tuple of labels
        The groups that it is about.
    n_agreeing, n_repeats : int
        In how many of several assignments of rows to folds the verdict was of this kind.
    """

    kind: VerdictKind
    summary: str
    recommendation: str
    model: str
    groups: tuple[Label, ...] = ()
    n_agreeing: int = 1
    n_repeats: int = 1

    def __str__(self) -> str:
        often = f"in {self.n_agreeing} of {self.n_repeats} assignments of rows to folds"
        how = f" (so {often})" if self.n_repeats > 1 else ""
        return f"{self.kind[0].upper()}{self.kind[1:]}{how}. {self.summary} {self.recommendation}"


_STABILIZING_CHANGES = "fewer or more dimensions, another scale, or a look at outliers"


def make_verdicts(
    models: Sequence[ModelResult], findings: Sequence[Finding], level: float, material: float
) -> tuple[Verdict, ...]:
    """One verdict for each model that is compared with ordinary PCA; of PCA alone if none is."""
    by_name = {model.name: model for model in models}
    compared = [model for model in models if model.baseline in by_name]
    made = [
        _comparison_verdict(each, by_name[str(each.baseline)], level, material) for each in compared
    ]
    verdicts = [
        _with_recommended_model(verdict, by_name[str(model.baseline)], compared, made)
        for model, verdict in zip(compared, made, strict=True)
    ] or [_verdict_without_comparison(model, level) for model in models]
    return tuple(
        _with_caveats(verdict, by_name[verdict.model].baseline, findings) for verdict in verdicts
    )


def _with_recommended_model(
    verdict: Verdict,
    pca: ModelResult,
    fair_models: Sequence[ModelResult],
    verdicts: Sequence[Verdict],
) -> Verdict:
    """The verdict with the model to prefer, where several fair ones were estimated.

    Of those whose largest loss on new rows is not above that of ordinary PCA, it is one that helps
    if there is one, then that under which the fewest rows (or clusters, such as persons) are in
    groups shown to be harmed, then that whose largest loss is the least.
    """
    helpful = {each.model for each in verdicts if each.kind == "harm, repair helps"}
    competitors = [each for each in fair_models if each.baseline == pca.name]
    estimated = [each for each in (pca, *competitors) if each.has_estimates]
    if len(estimated) < 3 or verdict.kind in ("inconclusive", "no material harm"):
        return verdict
    largest = {each.name: max(each.losses().values()) for each in estimated}
    ranking = sorted(
        (
            each
            for each in estimated
            if largest[each.name] <= largest[pca.name] + pca.rounding_bound
        ),
        key=lambda each: (each.name not in helpful, _n_rows_harmed(each), largest[each.name]),
    )
    unit = "row" if pca.groups[0].n_clusters is None else "cluster"
    told = [
        f"{each.name} ({to_ascii(format_count(_n_rows_harmed(each), unit))} in groups that are shown to be "
        "harmed)"
        for each in ranking[:2]
    ]
    why = (
        "the group that PCA harms most gains, and no other group is shown to become harmed"
        if ranking[0].name in helpful
        else "of those whose largest loss is not above that of PCA, it is shown to harm the groups "
        f"of the fewest {unit}s"
    )
    here = "here" if len(estimated) == 1 + len(competitors) else "with estimates"
    harm_text = f"Of the {len(estimated)} models {here}, prefer {told[0]}: {why}."
    harm_text += f" The alternative is {told[1]}." if told[1:] else ""
    action = (
        f"{verdict.recommendation} {harm_text}" if ranking[0].name == verdict.model else harm_text
    )
    return replace(verdict, recommendation=action)


def _n_rows_harmed(model: ModelResult) -> int:
    return sum(group.n_clusters or group.n_rows for group in harmed_groups(model))


def _with_caveats(verdict: Verdict, baseline: str | None, findings: Sequence[Finding]) -> Verdict:
    """The verdict as far as the findings that veto it let it stand."""
    groups = set(verdict.groups)
    worst_under_fair = [
        each
        for each in findings
        if each.qualifies_verdict
        and each.model in (None, verdict.model, baseline)
        and (not each.groups or not groups or groups & set(each.groups))
    ]
    if not worst_under_fair or verdict.kind == "inconclusive":
        return verdict
    why = " and ".join(f"{each.caveat} ({each.code})" for each in worst_under_fair)
    # States allow for long tails and for models that vary; nothing allows for columns that mislead.
    about_data = [
        each
        for each in worst_under_fair
        if each.model is None and not each.groups and not each.may_be_harmless
    ]
    if verdict.kind == "no material harm" and about_data:
        return replace(
            verdict,
            kind="inconclusive",
            summary=f"No group has a loss large enough to matter in these figures, but {why}.",
            recommendation=f"{about_data[0].remedy} Then audit again.",
        )
    sentence, action = (
        text[0].lower() + text[1:] for text in (verdict.summary, verdict.recommendation)
    )
    return replace(
        verdict,
        summary=f"With the reservation that {why}, {sentence}",
        recommendation=f"{worst_under_fair[0].remedy} If the verdict is the same after that, {action}",
    )


def change_records(models: Sequence[ModelResult]) -> list[dict[str, Any]]:
    """By how much each group's expected error changes from ordinary PCA to each fair model."""
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
    """Groups that a model harms beyond chance, the one that loses most first."""
    return sorted(
        [group for group in model.groups if group.state == "harmed"],
        key=relative_loss,
        reverse=True,
    )


def _verdict_without_comparison(model: ModelResult, level: float) -> Verdict:
    worst_under_fair = harmed_groups(model)
    if not worst_under_fair:
        return _no_harm_verdict(model, model.name, level)
    return Verdict(
        "harm, no repair tried",
        _describe_harm(model, worst_under_fair),
        "Fit FairPCA to the same rows and audit both.",
        model.name,
        tuple(group.group for group in worst_under_fair),
    )


def _comparison_verdict(
    fair: ModelResult, pca: ModelResult, level: float, material: float
) -> Verdict:
    harmed_by_pca, harmed_by_fair = harmed_groups(pca), harmed_groups(fair)
    newly_harmed = [
        group
        for group in harmed_by_fair
        if group.group not in {each.group for each in harmed_by_pca}
    ]
    verb = "is" if len(newly_harmed) == 1 else "are"
    if not harmed_by_pca:
        if newly_harmed and not any(group.is_unstable for group in pca.groups):
            return Verdict(
                "no material harm, repair harms",
                f"The repair itself does harm: under {fair.name}, {_names_with_counts(newly_harmed)} "
                f"{verb} harmed, while {pca.name} is not shown to harm any group.",
                f"Do not use {fair.name} in place of {pca.name}.",
                fair.name,
                tuple(group.group for group in newly_harmed),
            )
        return _no_harm_verdict(pca, fair.name, level)
    worst_under_pca = harmed_by_pca[0]
    worst_under_fair = next(group for group in fair.groups if group.group == worst_under_pca.group)
    groups = tuple(group.group for group in harmed_by_pca)
    change = worst_under_fair.expected_change
    harm_text = _describe_harm(pca, harmed_by_pca)
    if newly_harmed:
        return Verdict(
            "harm, repair shifts it",
            f"{harm_text} Under {fair.name}, {_names_with_counts(newly_harmed)} {verb} harmed, whom "
            f"{pca.name} does not harm beyond chance.",
            "Choose another criterion or more dimensions, or state which groups pay and why.",
            fair.name,
            tuple(group.group for group in newly_harmed),
        )
    if worst_under_fair.is_unstable and change.contains_zero:
        return Verdict(
            "inconclusive",
            f"{fair.name} itself is unstable: fitted to other rows it may raise as well as lower "
            f"the error of {quote_groups([worst_under_pca])}, so {_STABILIZING_CHANGES} may help. {harm_text}",
            f"Try {_STABILIZING_CHANGES}, and audit again; until then do not claim that {fair.name} "
            "helps.",
            fair.name,
            groups,
        )
    if change.high is not None and change.high < 0:
        regained = _variance_share_range(-change.high, -(change.low or 0.0), worst_under_pca)
        gain_text = f"{harm_text} Under {fair.name}, {quote_groups([worst_under_pca])} regains {regained} of its variance on new"
        paying = [
            each
            for each in fair.groups
            if each.group in groups
            and (each.expected_change.low or 0.0) > each.observed_rounding
            and _relative_change(each) > material
        ]
        if paying:
            rise = fair.expected_total_error / pca.expected_total_error - 1
            whole = f" The error over all new rows changes by {to_ascii(relative_change(rise))}."
            verb = "is" if len(paying) == 1 else "are"
            return Verdict(
                "harm, repair at a cost",
                f"{gain_text} rows, but {_names_with_counts(paying)}, harmed by {pca.name} already, {verb} "
                f"served worse still, by {to_ascii(format_share(max(map(_relative_change, paying))))} of the "
                f"variance{' at most' if len(paying) > 1 else ''}."
                f"{'' if math.isnan(rise) else whole}",
                "Decide whom to serve, or choose another criterion or more dimensions.",
                fair.name,
                groups,
            )
        payers = _describe_payers(fair)
        return Verdict(
            "harm, repair helps",
            f"{gain_text} rows, and {_describe_other_groups(fair, groups, material)}.{payers}",
            f"Use {fair.name}, and state which groups pay." if payers else f"Use {fair.name}.",
            fair.name,
            groups,
        )
    return Verdict(
        "harm, repair does not help",
        f"{harm_text} Under {fair.name}, the error of {quote_groups([worst_under_pca])} is not shown to fall on new "
        f"rows.",
        "Choose another criterion or more dimensions.",
        fair.name,
        groups,
    )


def _no_harm_verdict(plain: ModelResult, name: str, level: float) -> Verdict:
    unknown = [group for group in plain.groups if group.state == "inconclusive"]
    if unknown:
        why = "" if plain.no_estimates_reason is None else f" ({plain.no_estimates_reason})"
        unstable = [group for group in unknown if group.is_unstable]
        if unstable:
            return Verdict(
                "inconclusive",
                f"{plain.name} itself is unstable: whether it harms {_names_with_counts(unstable)} depends "
                f"on the rows that it is fitted to, so {_STABILIZING_CHANGES} may help.",
                f"Try {_STABILIZING_CHANGES}, and audit again; until then claim neither harm nor "
                "fairness.",
                name,
                tuple(group.group for group in unknown),
            )
        return Verdict(
            "inconclusive",
            f"These rows are not enough to tell whether {plain.name} harms "
            f"{_names_with_counts(unknown)}{why}.{_describe_rows_needed(unknown)}",
            "Collect more rows of them, or use fewer dimensions; until then claim neither harm nor "
            "fairness.",
            name,
            tuple(group.group for group in unknown),
        )
    minor = [group for group in plain.groups if group.state == "minor"]
    loss, verb = ("The loss", "is") if len(minor) == 1 else ("The losses", "are")
    but = (
        f" {loss} of {quote_groups(minor)} {verb} above zero but too small to matter."
        if minor
        else ""
    )
    return Verdict(
        "no material harm",
        f"At {format_level(level)} confidence, no group has a loss large enough to matter under "
        f"{plain.name} on new rows.{but}",
        f"Use {plain.name}.",
        name,
    )


def _describe_rows_needed(groups: Sequence[GroupResult]) -> str:
    """How many rows would tell, and what these can show; nothing where that is not known."""
    told = [group for group in groups if group.n_rows_needed is not None]
    if not told:
        return ""
    needed = join_truncated(
        [f"{group.n_rows_needed:,} rows of {quote_group(group.group)}" for group in told]
    )
    least = join_truncated(
        [
            to_ascii(
                format_share(min(group.min_detectable_loss / group.observed_total_variance, 1.0))
            )
            for group in told
        ]
    )
    return (
        f" To show a loss of the size that is estimated, or the least that matters, takes about "
        f"{needed}; the least loss that these rows can show is {least} of the variance."
    )


def _describe_harm(model: ModelResult, found: Sequence[GroupResult]) -> str:
    """Who is harmed, and by how much at least."""
    worst_under_pca = found[0]
    loss = worst_under_pca.expected_loss
    further_harm = "" if len(found) == 1 else f" So are {_names_with_counts(found[1:])}."
    further_harm = further_harm if len(found) != 2 else f" So is {_names_with_counts(found[1:])}."
    share_lost = _variance_share_range(max(loss.low or 0.0, 0.0), loss.high or 0.0, worst_under_pca)
    unknown = [group for group in model.groups if group.state == "inconclusive"]
    further_harm += (
        f" Whether it harms {_names_with_counts(unknown)} remains open." if unknown else ""
    )
    return (
        f"{quote_groups([worst_under_pca])} ({to_ascii(format_count(worst_under_pca.n_rows, 'row'))}) is harmed by {model.name}: on new "
        f"rows it loses {share_lost} more of its variance than with its own best "
        f"{to_ascii(format_count(model.n_components, 'dimension'))}.{further_harm}"
    )


def _describe_other_groups(fair: ModelResult, before: Sequence[Label], material: float) -> str:
    """That no other group becomes harmed; only as far as the intervals exclude it."""
    unknown = []
    for group in fair.groups:
        matters = material * group.observed_total_variance
        ends = (group.expected_loss.high, group.expected_change.high)
        told = group.state == "no material harm" or any(
            end is not None and end < matters for end in ends
        )
        if group.group not in before and not told:
            unknown.append(group)
    if not unknown:
        return "no other group becomes harmed"
    return f"no other group is shown to become harmed; it remains open for {_names_with_counts(unknown)}"


def _describe_payers(fair: ModelResult) -> str:
    """Whose error rises on new rows beyond chance, in words."""
    paying = [
        group
        for group in fair.groups
        if (group.expected_change.low or 0.0) > group.observed_rounding
    ]
    if not paying:
        return ""
    most = max(paying, key=_relative_change)
    verb, each = ("pays", "") if len(paying) == 1 else ("pay", " at most")
    return (
        f" {_names_with_counts(paying)} {verb} for it, with {to_ascii(format_share(_relative_change(most)))} of the "
        f"variance{each}."
    )


def _relative_change(group: GroupResult) -> float:
    return group.expected_change.value / group.observed_total_variance


def _variance_share_range(low: float, high: float, group: GroupResult) -> str:
    """Both ends of an interval as shares of the group's variance."""
    # No group loses more than it has.
    whole = group.observed_total_variance
    return " to ".join([to_ascii(format_share(min(each, whole) / whole)) for each in (low, high)])


def relative_loss(group: GroupResult) -> float:
    """Expected loss as a share of the group's variance."""
    return group.expected_loss.value / (group.observed_total_variance or 1.0)


def _names_with_counts(groups: Sequence[GroupResult]) -> str:
    if len(groups) == 1:
        return f"{quote_groups(groups)} ({to_ascii(format_count(groups[0].n_rows, 'row'))})"
    total = to_ascii(format_count(sum(group.n_rows for group in groups), "row"))
    return f"{quote_groups(groups)} ({total} together)"
