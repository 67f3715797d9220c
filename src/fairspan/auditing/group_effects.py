"""Effects on groups of using a fair model in place of ordinary PCA."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupResult
from fairspan.rows.labels import Label

EffectKind = Literal["gains", "pays", "no material cost", "unresolved"]
"""Possible effects; the first that applies is given."""


@dataclass(frozen=True)
class GroupEffect:
    """Effect on a group of using a fair model in place of ordinary PCA.

    Attributes
    ----------
    group : label
    kind : {"gains", "pays", "no material cost", "unresolved"}
        "gains": the error falls beyond chance. "pays": it rises beyond chance, by an estimate above
        the materiality threshold. "no material cost": a rise above the threshold is ruled out.
        "unresolved": otherwise.
    change : Estimate
        Change in the expected error as a share of the group's variance: below zero the group gains,
        above zero it pays. The interval is simultaneous over groups.
    """

    group: Label
    kind: EffectKind
    change: Estimate

    @classmethod
    def from_result(cls, group: GroupResult, materiality: float) -> "GroupEffect":
        """Classify the effect on a group from its results under the fair model."""
        return cls(group.group, _effect_kind(group, materiality), change_share(group))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values."""
        return {"group": self.group, "kind": self.kind, **self.change.to_record("change")}


def group_effects(groups: Sequence[GroupResult], materiality: float) -> tuple[GroupEffect, ...]:
    """Classify the effects on the groups of a fair model."""
    return tuple(GroupEffect.from_result(group, materiality) for group in groups)


def as_variance_share(value: float, group: GroupResult) -> float:
    """Return a value in units of error as a share of the group's variance."""
    return value / (group.observed_total_variance or 1.0)


def change_share(group: GroupResult) -> Estimate:
    """Return the change in expected error as a share of the group's variance."""
    change = group.expected_change
    if change.low is None or change.high is None:
        return Estimate(as_variance_share(change.value, group))
    return Estimate(
        as_variance_share(change.value, group),
        as_variance_share(change.low, group),
        as_variance_share(change.high, group),
    )


def _effect_kind(group: GroupResult, materiality: float) -> EffectKind:
    change = group.expected_change
    if change.high is not None and change.high < -group.observed_rounding:
        return "gains"
    min_material_cost = materiality * group.observed_total_variance
    if group.has_error_rise and change.value > min_material_cost:
        return "pays"
    if _excludes_material_cost(group, max(min_material_cost, group.observed_rounding)):
        return "no material cost"
    return "unresolved"


def _excludes_material_cost(group: GroupResult, max_immaterial_cost: float) -> bool:
    """Whether the interval of the change, or of the loss under the fair model, rules it out.

    The change is at most the loss under the fair model, since no loss under PCA is below zero.
    """
    if group.state == "no material harm":
        return True
    if group.is_heavy_tailed:
        return False
    limits = (group.expected_change.high, group.expected_loss.high)
    return any(limit is not None and limit < max_immaterial_cost for limit in limits)
