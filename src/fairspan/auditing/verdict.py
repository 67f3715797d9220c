"""The verdict of an audit: whether ordinary PCA harms anybody, and whether a fair model helps.

It is based on estimates for new rows, with intervals that hold for all groups at once; if too
little is known, it says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairspan.auditing.results import GroupAudit, ModelAudit, names
from fairspan.formatting.text import count, in_ascii, percent, share
from fairspan.rows.groups import Label

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
    if not before:
        if newly:
            # Of all kinds this alone says that somebody becomes harmed, whom to warn of.
            return Verdict(
                "harm, and repair moves it",
                f"The repair itself does harm: under {fair.name}, {_with_rows(newly)} "
                f"{_are(newly)} harmed, while {plain.name} is not shown to harm any group.",
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
            f"{said} Under {fair.name}, {_with_rows(newly)} {_are(newly)} harmed, whom "
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


def _are(groups: Sequence[GroupAudit]) -> str:
    return "is" if len(groups) == 1 else "are"


def _share_lost(group: GroupAudit) -> float:
    if group.expected is None or group.total_variance <= 0:
        return 0.0
    return group.expected.loss.value / group.total_variance


def _with_rows(groups: Sequence[GroupAudit]) -> str:
    if len(groups) == 1:
        return f"{names(groups)} ({in_ascii(count(groups[0].n, 'row'))})"
    total = in_ascii(count(sum(group.n for group in groups), "row"))
    return f"{names(groups)} ({total} together)"
