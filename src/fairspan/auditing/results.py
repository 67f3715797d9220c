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

from fairspan.auditing.by_feature import FeatureErrors
from fairspan.auditing.certificate_here import CertificateHere
from fairspan.auditing.expected_losses import (
    UNKNOWN,
    Estimate,
    ExpectedFigures,
    State,
    known,
    rounded_up,
)
from fairspan.certificates.certificate import within
from fairspan.formatting.text import change as relative_change
from fairspan.formatting.text import count, counted, first_of, in_ascii, percent, share
from fairspan.moments.group_means import left_out
from fairspan.rows.groups import Label, printable, spelled, table_name
from fairspan.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class GroupResult(ExpectedFigures):
    """What one model does to one group, in squared (scaled) units of the features.

    A name that ends with `_here` is of these rows; the others, of :class:`ExpectedFigures`, are
    estimates for new rows.

    Attributes
    ----------
    group : label
    n : int
        Rows.
    proportion : float
        Share of the total weight.
    total_variance_here : float
        tr S_g about the model's centre.
    error_here : Estimate
        e_g with its interval.
    best_error_here : float
        e*_g, the least error any subspace of the same dimension has on this group.
    loss_here : float
        e_g - e*_g.
    kept_here : float
        1 - e_g / tr S_g, the share of variance kept; NaN for a group without variance.
    kurtosis_here : float
        Fourth moment of the rows' errors over their squared variance; 0 if it is not known.
    drift_here : Estimate
        By how much the error is larger than it was on the rows of the fit, of a model that was
        fitted on other rows; its interval holds for all groups at once. NaN where that is unknown.
    rounding_here : float
        The size up to which an error or a loss is rounding. Neither other groups nor features of
        larger numbers decide it.
    """

    group: Label
    n: int
    proportion: float
    total_variance_here: float
    error_here: Estimate
    best_error_here: float
    loss_here: float
    kept_here: float
    kurtosis_here: float = 0.0
    drift_here: Estimate = UNKNOWN
    rounding_here: float = 0.0

    @property
    def rows_needed(self) -> int | None:
        """How many rows would show the loss, where these do not tell; None where that is unknown.

        The loss is the estimated one, or the least that matters, if that is larger.
        """
        rows = self.n * self.times_the_rows
        return rounded_up(rows) if rows > 0 else None

    @property
    def record(self) -> dict[str, Any]:
        """The figures as one flat dictionary; None where there is none."""
        return {
            "group": self.group,
            "n": self.n,
            "n_clusters": self.n_clusters,
            "proportion": self.proportion,
            "total_variance_here": self.total_variance_here,
            **self.error_here.columns("error_here"),
            "best_error_here": self.best_error_here,
            "loss_here": self.loss_here,
            "kept_here": known(self.kept_here),
            "kurtosis_here": self.kurtosis_here,
            **self.drift_here.columns("drift_here"),
            **self.expected_error.columns("expected_error"),
            **self.expected_loss.columns("expected_loss"),
            "cross_fitted_loss": known(self.cross_fitted_loss),
            "expected_best_error": known(self.expected_best_error),
            "state": self.state,
            "cross_fitted_instability": known(self.cross_fitted_instability),
            **self.expected_change.columns("expected_change"),
            "rows_needed": self.rows_needed,
            "detectable_loss": known(self.detectable_loss),
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
    is_plain_pca : bool
    fitted_here : bool
        Whether the model was fitted on the audited rows, or on rows among which these are.
    seems_fitted_here : bool
        Whether a test says so, as number and mean of the rows are not those of the fit.
    baseline : str or None
        Name of the ordinary PCA of the same rows, dimension, centre and scale beside it.
    known_groups : tuple of labels
        Groups it was fitted on; empty if it knows of none.
    groups : tuple of GroupResult
    disparity_here : Estimate
        Two groups: error of the second minus error of the first; more: the largest pairwise gap.
    pair : tuple of two labels
        The disparity is the error of the second of these minus that of the first.
    expected_disparity : Estimate
        The same of the expected errors, of two groups or the widest pair.
    expected_pair : tuple of two labels
    reason : str or None
        Where the status is "unresolved", what in the data leaves it so.
    why_no_estimates : str or None
        Why nothing is said of new rows, where that is so.
    worst_errors_here : tuple of k floats, or None
        Of a model by the robust error gap: the largest error of each group under any distribution
        within the criterion's radius of these rows, in the order of the groups.
    certificate_here : CertificateHere or None
        Of a model that was fitted on other rows and carries a certificate: what its proof says of
        these rows.
    is_nested : bool
        Whether its first components are an answer of fewer dimensions.
    by_feature : FeatureErrors or None
        The error of each feature in each group; None of a model that is no projection.
    instability, least_cosine : float or None
        How much the model depends on its rows, as
        :class:`~fairspan.auditing.expected_losses.ExpectedOfModel` has it.
    """

    name: str
    n_components: int
    center: str
    scaled: bool
    status: str | None
    gap: float | None
    is_plain_pca: bool
    fitted_here: bool
    baseline: str | None
    known_groups: tuple[Label, ...]
    groups: tuple[GroupResult, ...]
    disparity_here: Estimate
    pair: tuple[Label, Label]
    reason: str | None = None
    why_no_estimates: str | None = None
    worst_errors_here: tuple[float, ...] | None = None
    certificate_here: CertificateHere | None = None
    is_nested: bool = False
    tol: float | None = None
    seems_fitted_here: bool = False
    expected_disparity: Estimate = UNKNOWN
    expected_pair: tuple[Label, Label] | None = None
    by_feature: FeatureErrors | None = field(default=None, repr=False, compare=False)
    instability: float | None = None
    least_cosine: float | None = None

    @property
    def called(self) -> str | None:
        """The status, with a tolerance that is larger than usual, as "optimal within 1 %"."""
        if self.status is None or self.tol is None:
            return self.status
        return self.status + within(self.status, self.tol)

    @property
    def records(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group; None where there is no figure."""
        of_model = {
            **self.disparity_here.columns("disparity_here"),
            **self.expected_disparity.columns("expected_disparity"),
            "instability": self.instability,
            "least_cosine": self.least_cosine,
            "n_components": self.n_components,
            "center": self.center,
        }
        return [{"model": self.name, **group.record, **of_model} for group in self.groups]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; groups as in :attr:`records`."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        del own["disparity_here"], own["expected_disparity"], own["by_feature"]
        here = self.certificate_here
        return {
            **own,
            "certificate_here": None if here is None else here.to_dict(),
            **self.disparity_here.columns("disparity_here"),
            **self.expected_disparity.columns("expected_disparity"),
            "total_error_here": self.total_error_here,
            "groups": [group.record for group in self.groups],
        }

    @property
    def states(self) -> tuple[State | None, ...]:
        """What may be said of each group's loss on new rows; None where nothing was estimated."""
        return tuple(None if self.why_no_estimates else group.state for group in self.groups)

    @property
    def has_estimates(self) -> bool:
        """Whether anything is said of new rows."""
        return any(group.is_estimated for group in self.groups)

    @property
    def total_error_here(self) -> float:
        """Average error over all rows."""
        return sum(group.proportion * group.error_here.value for group in self.groups)

    @property
    def rounding(self) -> float:
        """The size up to which differences of figures between groups are rounding."""
        return max(group.rounding_here for group in self.groups)

    @property
    def loses_nothing(self) -> bool:
        """Whether every group is reconstructed up to rounding."""
        return all(group.error_here.value <= group.rounding_here for group in self.groups)

    @property
    def largest_loss_here(self) -> float:
        """Largest excess loss of a group."""
        return max(group.loss_here for group in self.groups)

    def losses(self) -> dict[Label, float]:
        """Of each group its loss on new rows; on these rows, where nothing is said of new ones."""
        if not self.has_estimates:
            return {group.group: group.loss_here for group in self.groups}
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
class MissingColumn:
    """A feature of which values are missing, or were filled in.

    Attributes
    ----------
    name : str
    is_filled : bool
        Whether the values are there, but are the mean of the column, as filled in ones are.
    shares : tuple of k floats
        Of each group, the share of its rows.
    n_alone : int
        Rows that are left out because of this feature alone.
    """

    name: str
    is_filled: bool
    shares: tuple[float, ...]
    n_alone: int = 0


@dataclass(frozen=True)
class MissingValues:
    """What is missing in a table, by group and feature.

    Attributes
    ----------
    groups : tuple of k labels
        Of all rows, also those that were left out.
    rows, dropped : tuples of k ints
        Rows of each group, and those of them that were left out.
    n_unlabelled : int
        Rows without a group, which were left out.
    columns : tuple of MissingColumn
        Those with the largest share in a group come first.
    """

    groups: tuple[Label, ...]
    rows: tuple[int, ...]
    dropped: tuple[int, ...]
    n_unlabelled: int
    columns: tuple[MissingColumn, ...]

    @property
    def dropped_shares(self) -> tuple[float, ...]:
        """Of each group, the share of its rows that were left out."""
        return tuple(lost / n for lost, n in zip(self.dropped, self.rows, strict=True))

    @property
    def most_costly(self) -> str:
        """The features because of which alone most rows are left out, in words."""
        by_cost = sorted(self.columns, key=lambda each: -each.n_alone)[:3]
        told = [
            f"{quoted(each.name)} ({in_ascii(count(each.n_alone, 'row'))})"
            for each in by_cost
            if each.n_alone
        ]
        return f"Left out because of one feature alone: {first_of(told)}." if told else ""


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

    n: int
    n_features: int
    has_intervals: bool
    n_dropped: int = 0
    missing: MissingValues | None = None
    has_clusters: bool = False

    @property
    def left_out(self) -> str:
        """Which rows are not in; nothing if all are."""
        return left_out(self.n_dropped, f"{counted(self.n, 'row')}: {{}}")


def column_of(models: Sequence[ModelResult | None], name: str, n_groups: int) -> FloatArray:
    """One figure of every group under every model, by its name in the records, (m, k).

    NaN where there is none, as of a model that is missing.
    """
    none = [None] * n_groups
    rows = [none if each is None else [record[name] for record in each.records] for each in models]
    return np.array(rows, dtype=np.float64)


def largest_of(figures: Mapping[Label, float], rounding: float) -> tuple[list[Label], float]:
    """The groups with the largest figure, those included that differ by rounding alone.

    Examples
    --------
    >>> largest_of({"a": 1.0, "b": 1.0 + 1e-15, "c": 0.5}, 1e-12)
    (['a', 'b'], 1.000000000000001)
    """
    most = max(figures.values())
    return [label for label, figure in figures.items() if figure >= most - rounding], most


def labels(groups: Sequence[GroupResult]) -> tuple[Label, ...]:
    """Of each group its label."""
    return tuple(group.group for group in groups)


def names(groups: Sequence[GroupResult]) -> str:
    """The groups' names in a row."""
    return first_of([quoted(group.group) for group in groups])


def group_name(label: Label) -> str:
    """A group's name as tables, pages and figures print it."""
    return table_name(label)


def quoted(label: Label) -> str:
    """A group's name in quotes."""
    return f"'{printable(spelled(label))}'"


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
    caution : str
        Of a finding that vetoes a verdict, why the figures do not support it; otherwise empty.
    may_be_harmless : bool
        Whether what was seen may be harmless, so that "no harm shown" stands with the caution.
    """

    code: str
    severity: Literal["info", "warning"]
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()
    remedy: str = ""
    caution: str = ""
    may_be_harmless: bool = False

    @property
    def vetoes(self) -> bool:
        """Whether no verdict that this concerns may stand without a caution."""
        return bool(self.caution)

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


Kind = Literal[
    "harm, and repair moves it",
    "harm, and repair trades",
    "harm, and repair helps",
    "harm, and repair does not help",
    "harm, no repair tried",
    "no harm shown, repair harms",
    "cannot tell",
    "no harm shown",
]
"""All that a verdict can be; the first that applies."""


@dataclass(frozen=True)
class Verdict:
    """What one model's figures say, against ordinary PCA.

    Attributes
    ----------
    kind : str
        One of the eight kinds.
    sentence : str
        What was found, about whom.
    action : str
        What to do.
    model : str
        Name of the fair model; of the model itself where nothing is compared with it.
    groups : tuple of labels
        The groups that it is about.
    found_in, tried : int
        In how many of several assignments of rows to folds the verdict was of this kind.
    """

    kind: Kind
    sentence: str
    action: str
    model: str
    groups: tuple[Label, ...] = ()
    found_in: int = 1
    tried: int = 1

    def __str__(self) -> str:
        often = f"in {self.found_in} of {self.tried} assignments of rows to folds"
        how = f" (so {often})" if self.tried > 1 else ""
        return f"{self.kind[0].upper()}{self.kind[1:]}{how}. {self.sentence} {self.action}"


_WHAT_STEADIES = "fewer or more dimensions, another scale, or a look at outliers"


def verdicts_of(
    models: Sequence[ModelResult], findings: Sequence[Finding], level: float, material: float
) -> tuple[Verdict, ...]:
    """One verdict for each model that is compared with ordinary PCA; of PCA alone if none is."""
    by_name = {model.name: model for model in models}
    compared = [model for model in models if model.baseline in by_name]
    made = [_compared(each, by_name[str(each.baseline)], level, material) for each in compared]
    verdicts = [
        _with_preference(verdict, by_name[str(model.baseline)], compared, made)
        for model, verdict in zip(compared, made, strict=True)
    ] or [_alone(model, level) for model in models]
    return tuple(
        _with_caution(verdict, by_name[verdict.model].baseline, findings) for verdict in verdicts
    )


def _with_preference(
    verdict: Verdict, plain: ModelResult, fair: Sequence[ModelResult], made: Sequence[Verdict]
) -> Verdict:
    """The verdict with the model to prefer, where several fair ones were estimated.

    Of those whose largest loss on new rows is not above that of ordinary PCA, it is one that helps
    if there is one, then that under which the fewest rows (or clusters, such as persons) are in
    groups shown to be harmed, then that whose largest loss is the least.
    """
    helps = {each.model for each in made if each.kind == "harm, and repair helps"}
    beside = [each for each in fair if each.baseline == plain.name]
    known = [each for each in (plain, *beside) if each.has_estimates]
    if len(known) < 3 or verdict.kind in ("cannot tell", "no harm shown"):
        return verdict
    largest = {each.name: max(each.losses().values()) for each in known}
    ranked = sorted(
        (each for each in known if largest[each.name] <= largest[plain.name] + plain.rounding),
        key=lambda each: (each.name not in helps, _n_harmed(each), largest[each.name]),
    )
    unit = "row" if plain.groups[0].n_clusters is None else "cluster"
    told = [
        f"{each.name} ({in_ascii(count(_n_harmed(each), unit))} in groups that are shown to be "
        "harmed)"
        for each in ranked[:2]
    ]
    why = (
        "the group that PCA harms most gains, and no other group is shown to become harmed"
        if ranked[0].name in helps
        else "of those whose largest loss is not above that of PCA, it is shown to harm the groups "
        f"of the fewest {unit}s"
    )
    here = "here" if len(known) == 1 + len(beside) else "with estimates"
    said = f"Of the {len(known)} models {here}, prefer {told[0]}: {why}."
    said += f" The alternative is {told[1]}." if told[1:] else ""
    action = f"{verdict.action} {said}" if ranked[0].name == verdict.model else said
    return replace(verdict, action=action)


def _n_harmed(model: ModelResult) -> int:
    return sum(group.n_clusters or group.n for group in harmed(model))


def _with_caution(verdict: Verdict, baseline: str | None, findings: Sequence[Finding]) -> Verdict:
    """The verdict as far as the findings that veto it let it stand."""
    groups = set(verdict.groups)
    found = [
        each
        for each in findings
        if each.vetoes
        and each.model in (None, verdict.model, baseline)
        and (not each.groups or not groups or groups & set(each.groups))
    ]
    if not found or verdict.kind == "cannot tell":
        return verdict
    why = " and ".join(f"{each.caution} ({each.code})" for each in found)
    # States allow for long tails and for models that vary; nothing allows for columns that mislead.
    about_data = [
        each
        for each in found
        if each.model is None and not each.groups and not each.may_be_harmless
    ]
    if verdict.kind == "no harm shown" and about_data:
        return replace(
            verdict,
            kind="cannot tell",
            sentence=f"No group has a loss large enough to matter in these figures, but {why}.",
            action=f"{about_data[0].remedy} Then audit again.",
        )
    sentence, action = (text[0].lower() + text[1:] for text in (verdict.sentence, verdict.action))
    return replace(
        verdict,
        sentence=f"With the reservation that {why}, {sentence}",
        action=f"{found[0].remedy} If the verdict is the same after that, {action}",
    )


def changes_of(models: Sequence[ModelResult]) -> list[dict[str, Any]]:
    """By how much each group's expected error changes from ordinary PCA to each fair model."""
    return [
        {
            "model": model.name,
            "group": group.group,
            "rows": group.n,
            "share": group.proportion,
            **group.expected_change.columns("change"),
        }
        for model in models
        for group in model.groups
        if not math.isnan(group.expected_change.value)
    ]


def harmed(model: ModelResult) -> list[GroupResult]:
    """Groups that a model harms beyond chance, the one that loses most first."""
    return sorted(
        [group for group in model.groups if group.state == "harmed"], key=share_lost, reverse=True
    )


def _alone(model: ModelResult, level: float) -> Verdict:
    found = harmed(model)
    if not found:
        return _no_harm(model, model.name, level)
    return Verdict(
        "harm, no repair tried",
        _harm(model, found),
        "Fit FairPCA to the same rows and audit both.",
        model.name,
        tuple(group.group for group in found),
    )


def _compared(fair: ModelResult, plain: ModelResult, level: float, material: float) -> Verdict:
    before, after = harmed(plain), harmed(fair)
    newly = [group for group in after if group.group not in {each.group for each in before}]
    verb = "is" if len(newly) == 1 else "are"
    if not before:
        if newly and not any(group.is_unstable for group in plain.groups):
            return Verdict(
                "no harm shown, repair harms",
                f"The repair itself does harm: under {fair.name}, {_with_rows(newly)} "
                f"{verb} harmed, while {plain.name} is not shown to harm any group.",
                f"Do not use {fair.name} in place of {plain.name}.",
                fair.name,
                tuple(group.group for group in newly),
            )
        return _no_harm(plain, fair.name, level)
    worst = before[0]
    found = next(group for group in fair.groups if group.group == worst.group)
    groups = tuple(group.group for group in before)
    change = found.expected_change
    said = _harm(plain, before)
    if newly:
        return Verdict(
            "harm, and repair moves it",
            f"{said} Under {fair.name}, {_with_rows(newly)} {verb} harmed, whom "
            f"{plain.name} does not harm beyond chance.",
            "Choose another criterion or more dimensions, or state which groups pay and why.",
            fair.name,
            tuple(group.group for group in newly),
        )
    if found.is_unstable and change.contains_zero:
        return Verdict(
            "cannot tell",
            f"{fair.name} itself is unstable: fitted to other rows it may raise as well as lower "
            f"the error of {names([worst])}, so {_WHAT_STEADIES} may help. {said}",
            f"Try {_WHAT_STEADIES}, and audit again; until then do not claim that {fair.name} "
            "helps.",
            fair.name,
            groups,
        )
    if change.high is not None and change.high < 0:
        back = _of_variance(-change.high, -(change.low or 0.0), worst)
        gained = f"{said} Under {fair.name}, {names([worst])} regains {back} of its variance on new"
        paying = [
            each
            for each in fair.groups
            if each.group in groups
            and (each.expected_change.low or 0.0) > each.rounding_here
            and _share_paid(each) > material
        ]
        if paying:
            rise = fair.expected_total_error / plain.expected_total_error - 1
            whole = f" The error over all new rows changes by {in_ascii(relative_change(rise))}."
            verb = "is" if len(paying) == 1 else "are"
            return Verdict(
                "harm, and repair trades",
                f"{gained} rows, but {_with_rows(paying)}, harmed by {plain.name} already, {verb} "
                f"served worse still, by {in_ascii(share(max(map(_share_paid, paying))))} of the "
                f"variance{' at most' if len(paying) > 1 else ''}."
                f"{'' if math.isnan(rise) else whole}",
                "Decide whom to serve, or choose another criterion or more dimensions.",
                fair.name,
                groups,
            )
        payers = _payers(fair)
        return Verdict(
            "harm, and repair helps",
            f"{gained} rows, and {_nobody_else(fair, groups, material)}.{payers}",
            f"Use {fair.name}, and state which groups pay." if payers else f"Use {fair.name}.",
            fair.name,
            groups,
        )
    return Verdict(
        "harm, and repair does not help",
        f"{said} Under {fair.name}, the error of {names([worst])} is not shown to fall on new "
        f"rows.",
        "Choose another criterion or more dimensions.",
        fair.name,
        groups,
    )


def _no_harm(plain: ModelResult, name: str, level: float) -> Verdict:
    unknown = [group for group in plain.groups if group.state == "cannot tell"]
    if unknown:
        why = "" if plain.why_no_estimates is None else f" ({plain.why_no_estimates})"
        unstable = [group for group in unknown if group.is_unstable]
        if unstable:
            return Verdict(
                "cannot tell",
                f"{plain.name} itself is unstable: whether it harms {_with_rows(unstable)} depends "
                f"on the rows that it is fitted to, so {_WHAT_STEADIES} may help.",
                f"Try {_WHAT_STEADIES}, and audit again; until then claim neither harm nor "
                "fairness.",
                name,
                tuple(group.group for group in unknown),
            )
        return Verdict(
            "cannot tell",
            f"These rows are not enough to tell whether {plain.name} harms "
            f"{_with_rows(unknown)}{why}.{_rows_needed(unknown)}",
            "Collect more rows of them, or use fewer dimensions; until then claim neither harm nor "
            "fairness.",
            name,
            tuple(group.group for group in unknown),
        )
    minor = [group for group in plain.groups if group.state == "minor"]
    loss, verb = ("The loss", "is") if len(minor) == 1 else ("The losses", "are")
    but = f" {loss} of {names(minor)} {verb} above zero but too small to matter." if minor else ""
    return Verdict(
        "no harm shown",
        f"At {percent(level)} confidence, no group has a loss large enough to matter under "
        f"{plain.name} on new rows.{but}",
        f"Use {plain.name}.",
        name,
    )


def _rows_needed(groups: Sequence[GroupResult]) -> str:
    """How many rows would tell, and what these can show; nothing where that is not known."""
    told = [group for group in groups if group.rows_needed is not None]
    if not told:
        return ""
    needed = first_of([f"{group.rows_needed:,} rows of {quoted(group.group)}" for group in told])
    least = first_of(
        [
            in_ascii(share(min(group.detectable_loss / group.total_variance_here, 1.0)))
            for group in told
        ]
    )
    return (
        f" To show a loss of the size that is estimated, or the least that matters, takes about "
        f"{needed}; the least loss that these rows can show is {least} of the variance."
    )


def _harm(model: ModelResult, found: Sequence[GroupResult]) -> str:
    """Who is harmed, and by how much at least."""
    worst = found[0]
    loss = worst.expected_loss
    also = "" if len(found) == 1 else f" So are {_with_rows(found[1:])}."
    also = also if len(found) != 2 else f" So is {_with_rows(found[1:])}."
    share_lost = _of_variance(max(loss.low or 0.0, 0.0), loss.high or 0.0, worst)
    unknown = [group for group in model.groups if group.state == "cannot tell"]
    also += f" Whether it harms {_with_rows(unknown)} remains open." if unknown else ""
    return (
        f"{names([worst])} ({in_ascii(count(worst.n, 'row'))}) is harmed by {model.name}: on new "
        f"rows it loses {share_lost} more of its variance than with its own best "
        f"{in_ascii(count(model.n_components, 'dimension'))}.{also}"
    )


def _nobody_else(fair: ModelResult, before: Sequence[Label], material: float) -> str:
    """That no other group becomes harmed; only as far as the intervals exclude it."""
    unknown = []
    for group in fair.groups:
        matters = material * group.total_variance_here
        ends = (group.expected_loss.high, group.expected_change.high)
        told = group.state == "not shown" or any(end is not None and end < matters for end in ends)
        if group.group not in before and not told:
            unknown.append(group)
    if not unknown:
        return "no other group becomes harmed"
    return f"no other group is shown to become harmed; it remains open for {_with_rows(unknown)}"


def _payers(fair: ModelResult) -> str:
    """Whose error rises on new rows beyond chance, in words."""
    paying = [
        group for group in fair.groups if (group.expected_change.low or 0.0) > group.rounding_here
    ]
    if not paying:
        return ""
    most = max(paying, key=_share_paid)
    verb, each = ("pays", "") if len(paying) == 1 else ("pay", " at most")
    return (
        f" {_with_rows(paying)} {verb} for it, with {in_ascii(share(_share_paid(most)))} of the "
        f"variance{each}."
    )


def _share_paid(group: GroupResult) -> float:
    return group.expected_change.value / group.total_variance_here


def _of_variance(low: float, high: float, group: GroupResult) -> str:
    """Both ends of an interval as shares of the group's variance."""
    # No group loses more than it has.
    whole = group.total_variance_here
    return " to ".join([in_ascii(share(min(each, whole) / whole)) for each in (low, high)])


def share_lost(group: GroupResult) -> float:
    """Expected loss as a share of the group's variance."""
    return group.expected_loss.value / (group.total_variance_here or 1.0)


def _with_rows(groups: Sequence[GroupResult]) -> str:
    if len(groups) == 1:
        return f"{names(groups)} ({in_ascii(count(groups[0].n, 'row'))})"
    total = in_ascii(count(sum(group.n for group in groups), "row"))
    return f"{names(groups)} ({total} together)"
