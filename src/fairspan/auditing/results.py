"""The figures and findings of an audit, how groups are named, and the verdict.

The verdict says whether ordinary PCA harms anybody, and whether a fair model helps. It is based on
estimates for new rows, with intervals that hold for all groups at once; if too little is known, it
says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairspan.auditing.expected_losses import ROUNDING, Estimate, ExpectedFigures, State
from fairspan.formatting.text import count, first_of, in_ascii, percent, share
from fairspan.moments.group_means import Intake
from fairspan.rows.groups import Label, printable, spelled
from fairspan.typing import FloatArray

# docs/findings.md says more of each code.
_REMEDIES = {
    "FS101": "Use fewer dimensions, collect more rows, join the group with another one, or choose "
    'a criterion of errors ("minimax_error", "error_gap") in place of losses.',
    "FS102": "Collect more rows, or leave the group out and say so.",
    "FS103": "Check that the group is sampled as intended. A fair criterion does not need a "
    "large group, but few rows mean wide intervals.",
    "FS104": "Look at these rows. Often a column with the group's data is missing or was filled "
    "in.",
    "FS105": "Check the group column: a filter, a join or a misspelled name may have "
    "removed the others.",
    "FS106": "Pass the rows, or moments of separate blocks of them.",
    "FS107": "Audit rows that hold all groups, or check how the labels are spelled.",
    "FS108": "Collect more rows of the group, join it with another one, or use fewer dimensions.",
    "FS109": "Look at the rows with the largest values. Logarithms or caps of columns with long "
    "tails make the intervals trustworthy.",
    "FS110": "Audit rows that were held out, or choose fewer features so that moments by fold fit "
    "into memory.",
    "FS201": "The ends of the interval show which differences remain possible. With more rows it "
    "is narrower.",
    "FS202": 'Decide whether you want equal errors; if so, use "error_gap" or "equal_error". If '
    "that only raises the smaller error, report the difference instead.",
    "FS203": "Nothing, if you report the estimates for new rows; otherwise audit rows that were "
    "held out.",
    "FS204": "Look at the gap: it may be far below what matters to you. If it is open, use the "
    "default solver and tolerance, or with more than two groups allow_extra=True. If it is "
    "unresolved, divide the column of very large numbers by its unit, or use scale=True or "
    'center="global".',
    "FS205": "Compare with what a fair criterion reaches.",
    "FS206": "Use fewer dimensions for a comparison.",
    "FS301": "Compare each model with its own best error, or fit them with the same settings.",
    "FS302": "Decide whether the smaller loss justifies the larger error over all rows.",
    "FS303": "Decide whether this cost is acceptable for these groups. A criterion that weighs "
    "all rows, or more "
    "dimensions, lowers their losses.",
    "FS401": "Leave the feature out: drop the column, or --exclude.",
    "FS402": "Leave the feature out (drop the column, or --exclude), unless it measures something.",
    "FS403": "Use scale=True (--standardize), or divide the feature by its unit.",
    "FS404": "Join rare categories into one, leave them out (--exclude), or do not scale.",
    "FS405": "Spell the labels alike in the group column.",
    "FS406": "Cross fewer attributes, or join groups; check that the group column is no "
    "identifier.",
}


@dataclass(frozen=True)
class GroupAudit:
    """What one model does to one group, in squared (scaled) units of the features.

    Attributes
    ----------
    group : label
    n : int
        Rows.
    proportion : float
        Share of the total weight.
    total_variance : float
        tr S_g about the model's centre.
    error : Estimate
        e_g with its interval.
    best_error : float
        e*_g, the least error any subspace of the same dimension has on this group.
    excess_loss : float
        e_g - e*_g.
    variance_kept : float or None
        1 - e_g / tr S_g; None for a group without variance.
    expected : ExpectedFigures or None
        What new rows would show; None where too little is known.
    kurtosis : float
        Fourth moment of the rows' errors over their squared variance; 0 if it is not known.
    """

    group: Label
    n: int
    proportion: float
    total_variance: float
    error: Estimate
    best_error: float
    excess_loss: float
    variance_kept: float | None
    expected: ExpectedFigures | None = None
    kurtosis: float = 0.0

    @property
    def state(self) -> State:
        """What may be said of the group's loss on new rows."""
        return "cannot tell" if self.expected is None else self.expected.state

    @property
    def expected_columns(self) -> dict[str, Any]:
        """What new rows would show, by the names of the columns of a table; None where unknown."""
        found = self.expected
        return {
            "expected_error": None if found is None else found.error.value,
            "expected_error_low": None if found is None else found.error.low,
            "expected_error_high": None if found is None else found.error.high,
            "expected_loss": None if found is None else found.loss.value,
            "expected_loss_low": None if found is None else found.loss.low,
            "expected_loss_high": None if found is None else found.loss.high,
            "cross_fitted_loss": None if found is None else found.cross_fitted_loss,
            "expected_best_error": None if found is None else found.best_error,
            "state": self.state,
        }


@dataclass(frozen=True)
class ModelAudit:
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
    gap : float or None
        Gap of the certificate, in the units of its objective.
    is_plain_pca : bool
    fitted_here : bool
        Whether the model was fitted on the audited rows.
    baseline : str or None
        Name of the ordinary PCA of the same rows, dimension, centre and scale beside it.
    known_groups : tuple of labels
        Groups it was fitted on; empty if it knows of none.
    groups : tuple of GroupAudit
    disparity : Estimate
        Two groups: error of the second minus error of the first; more: the largest pairwise gap.
    pair : tuple of two labels
        The disparity is the error of the second of these minus that of the first.
    reason : str or None
        Where the status is "unresolved", what in the data leaves it so.
    why_no_estimates : str or None
        Why nothing is said of new rows, where that is so.
    is_nested : bool
        Whether its first components are an answer of fewer dimensions.
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
    groups: tuple[GroupAudit, ...]
    disparity: Estimate
    pair: tuple[Label, Label]
    reason: str | None = None
    why_no_estimates: str | None = None
    is_nested: bool = False

    @property
    def records(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group; None where there is no figure."""
        return [
            {
                "model": self.name,
                "group": group.group,
                "n": group.n,
                "proportion": group.proportion,
                "total_variance": group.total_variance,
                "reconstruction_error": group.error.value,
                "error_low": group.error.low,
                "error_high": group.error.high,
                "best_error": group.best_error,
                "excess_loss": group.excess_loss,
                "captured_variance_ratio": group.variance_kept,
                **group.expected_columns,
                "disparity": self.disparity.value,
                "disparity_low": self.disparity.low,
                "disparity_high": self.disparity.high,
                "n_components": self.n_components,
                "center": self.center,
            }
            for group in self.groups
        ]

    @property
    def states(self) -> tuple[State | None, ...]:
        """What may be said of each group's loss on new rows; None where nothing was estimated."""
        return tuple(None if self.why_no_estimates else group.state for group in self.groups)

    @property
    def has_estimates(self) -> bool:
        """Whether anything is said of new rows."""
        return any(group.expected is not None for group in self.groups)

    @property
    def total_error(self) -> float:
        """Average error over all rows."""
        return sum(group.proportion * group.error.value for group in self.groups)

    @property
    def rounding(self) -> float:
        """Figures up to this size are rounding: a share of the variance over all rows."""
        return ROUNDING * sum(group.proportion * group.total_variance for group in self.groups)

    @property
    def loses_nothing(self) -> bool:
        """Whether every group is reconstructed up to rounding."""
        return max(group.error.value for group in self.groups) <= self.rounding

    @property
    def largest_loss(self) -> float:
        """Largest excess loss of a group."""
        return max(group.excess_loss for group in self.groups)


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
    """

    n: int
    n_features: int
    has_intervals: bool
    n_dropped: int = 0

    @property
    def left_out(self) -> str:
        """Which rows are not in; nothing if all are."""
        intake = str(Intake(self.n_dropped))
        return f"{self.n:,} rows: {intake}" if intake else ""


def column_of(models: Sequence[ModelAudit | None], name: str, n_groups: int) -> FloatArray:
    """One figure of every group under every model, by its name in the records, (m, k).

    NaN where there is none, as of a model that is missing.
    """
    none = [None] * n_groups
    rows = [none if each is None else [record[name] for record in each.records] for each in models]
    return np.array(rows, dtype=np.float64)


def labels(groups: Sequence[GroupAudit]) -> tuple[Label, ...]:
    """Of each group its label."""
    return tuple(group.group for group in groups)


def names(groups: Sequence[GroupAudit]) -> str:
    """The groups' names in a row."""
    return first_of([quoted(group.group) for group in groups])


def group_name(label: Label) -> str:
    """A group's name as tables, pages and figures print it."""
    return printable(spelled(label))


def quoted(label: Label) -> str:
    """A group's name in quotes."""
    return f"'{group_name(label)}'"


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
    """

    code: str
    severity: Literal["info", "warning"]
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _REMEDIES[self.code]

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


Kind = Literal[
    "harm, and repair helps",
    "harm, and repair moves it",
    "harm, and repair does not help",
    "harm, no repair tried",
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
        One of the six kinds.
    sentence : str
        What was found, about whom.
    action : str
        What to do.
    model : str
        Name of the fair model; of the model itself where nothing is compared with it.
    groups : tuple of labels
        The groups that it is about.
    """

    kind: Kind
    sentence: str
    action: str
    model: str
    groups: tuple[Label, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind[0].upper()}{self.kind[1:]}. {self.sentence} {self.action}"


def verdicts_of(models: Sequence[ModelAudit], level: float) -> tuple[Verdict, ...]:
    """One verdict for each model that is compared with ordinary PCA; of PCA alone if none is."""
    by_name = {model.name: model for model in models}
    compared = [model for model in models if model.baseline in by_name]
    if compared:
        return tuple(_compared(model, by_name[str(model.baseline)], level) for model in compared)
    return tuple(_alone(model, level) for model in models)


def changes_of(models: Sequence[ModelAudit]) -> list[dict[str, Any]]:
    """By how much each group's expected error changes from ordinary PCA to each fair model."""
    return [
        {
            "model": model.name,
            "group": group.group,
            "rows": group.n,
            "share": group.proportion,
            "change": group.expected.change.value,
            "change_low": group.expected.change.low,
            "change_high": group.expected.change.high,
        }
        for model in models
        for group in model.groups
        if group.expected is not None and group.expected.change is not None
    ]


def harmed(model: ModelAudit) -> list[GroupAudit]:
    """Groups that a model harms beyond chance, the one that loses most first."""
    return sorted(
        [group for group in model.groups if group.state == "harmed"], key=_share_lost, reverse=True
    )


def _alone(model: ModelAudit, level: float) -> Verdict:
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


def _compared(fair: ModelAudit, plain: ModelAudit, level: float) -> Verdict:
    before, after = harmed(plain), harmed(fair)
    newly = [group for group in after if group.group not in {each.group for each in before}]
    verb = "is" if len(newly) == 1 else "are"
    if not before:
        if newly:
            # Of all kinds this alone says that somebody becomes harmed, whom to warn of.
            return Verdict(
                "harm, and repair moves it",
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
    change = None if found.expected is None else found.expected.change
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
    if change is not None and change.high is not None and change.high < 0:
        back = _of_variance(-change.high, -(change.low or 0.0), worst)
        return Verdict(
            "harm, and repair helps",
            f"{said} Under {fair.name}, {names([worst])} regains {back} of its variance on new "
            f"rows, and no other group becomes harmed.{_payers(fair)}",
            f"Use {fair.name}, and state which groups pay."
            if _payers(fair)
            else f"Use {fair.name}.",
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


def _no_harm(plain: ModelAudit, name: str, level: float) -> Verdict:
    unknown = [group for group in plain.groups if group.state == "cannot tell"]
    if unknown:
        why = "" if plain.why_no_estimates is None else f" ({plain.why_no_estimates})"
        return Verdict(
            "cannot tell",
            f"These rows are not enough to tell whether {plain.name} harms "
            f"{_with_rows(unknown)}{why}.",
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


def _harm(model: ModelAudit, found: Sequence[GroupAudit]) -> str:
    """Who is harmed, and by how much at least."""
    worst = found[0]
    assert worst.expected is not None
    loss = worst.expected.loss
    also = "" if len(found) == 1 else f" So are {_with_rows(found[1:])}."
    also = also if len(found) != 2 else f" So is {_with_rows(found[1:])}."
    share_lost = _of_variance(max(loss.low or 0.0, 0.0), loss.high or 0.0, worst)
    return (
        f"{names([worst])} ({in_ascii(count(worst.n, 'row'))}) is harmed by {model.name}: on new "
        f"rows it loses {share_lost} more of its variance than with its own best "
        f"{in_ascii(count(model.n_components, 'dimension'))}.{also}"
    )


def _payers(fair: ModelAudit) -> str:
    """Whose error rises on new rows beyond chance, in words."""
    paying = [
        group
        for group in fair.groups
        if group.expected is not None
        and group.expected.change is not None
        and (group.expected.change.low or 0.0) > fair.rounding
    ]
    if not paying:
        return ""
    most = max(paying, key=_share_paid)
    verb, each = ("pays", "") if len(paying) == 1 else ("pay", " at most")
    return (
        f" {_with_rows(paying)} {verb} for it, with {in_ascii(share(_share_paid(most)))} of the "
        f"variance{each}."
    )


def _share_paid(group: GroupAudit) -> float:
    assert group.expected is not None
    assert group.expected.change is not None
    return group.expected.change.value / group.total_variance


def _of_variance(low: float, high: float, group: GroupAudit) -> str:
    """Both ends of an interval as shares of the group's variance."""
    # No group loses more than it has.
    whole = group.total_variance
    return " to ".join([in_ascii(share(min(each, whole) / whole)) for each in (low, high)])


def _share_lost(group: GroupAudit) -> float:
    if group.expected is None or group.total_variance <= 0:
        return 0.0
    return group.expected.loss.value / group.total_variance


def _with_rows(groups: Sequence[GroupAudit]) -> str:
    if len(groups) == 1:
        return f"{names(groups)} ({in_ascii(count(groups[0].n, 'row'))})"
    total = in_ascii(count(sum(group.n for group in groups), "row"))
    return f"{names(groups)} ({total} together)"
