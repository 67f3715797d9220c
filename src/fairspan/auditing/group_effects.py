"""Effects on groups of using a fair model in place of ordinary PCA."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupResult
from fairspan.rows.labels import Label

EffectKind = Literal["gain", "cost", "small cost", "no material cost", "unclear"]
"""Possible effects on a group; the first that applies is given.

"gain": the error falls beyond chance. "cost": it rises beyond chance, by an estimate above the
materiality threshold. "small cost": it rises beyond chance, by an estimate below the threshold,
which it may exceed. "no material cost": a rise is not shown, and one above the threshold is ruled
out. "unclear": otherwise.
"""

_UNSHOWN_GAIN = "gain not shown, no material cost"
"""Words for "no material cost" where the estimate is a gain above the materiality threshold."""


@dataclass(frozen=True)
class GroupEffect:
    """Effect on a group of using a fair model in place of ordinary PCA.

    Attributes
    ----------
    group : label
    kind : {"gain", "cost", "small cost", "no material cost", "unclear"}
    change : Estimate
        Change in the expected error as a share of the group's variance: below zero the group gains,
        above zero it pays. The interval is simultaneous over groups and models.
    may_pay : bool
        Whether a cost above the materiality threshold is neither shown nor ruled out.
    is_heavy_tailed : bool
        Whether a few rows dominate the loss, so that the interval of the change rules nothing out.
    """

    group: Label
    kind: EffectKind
    change: Estimate
    may_pay: bool
    is_heavy_tailed: bool = False

    @classmethod
    def from_result(cls, group: GroupResult, materiality: float) -> "GroupEffect":
        """Classify the effect on a group from its results under the fair model."""
        change = group.expected_change_share
        is_excluded = _excludes_material_cost(group, materiality)
        kind = _effect_kind(change, materiality, is_excluded=is_excluded)
        may_pay = kind not in ("gain", "cost") and not is_excluded
        return cls(group.group, kind, change, may_pay, group.is_heavy_tailed)

    def is_limit_doubtful(self, materiality: float) -> bool:
        """Whether only heavy tails keep the interval from ruling out a cost above the threshold."""
        high = self.change.high
        return self.may_pay and self.is_heavy_tailed and high is not None and high < materiality

    def has_unshown_gain(self, materiality: float) -> bool:
        """Whether the estimate is a gain above the threshold that is not shown, without a cost."""
        return self.kind == "no material cost" and self.change.value < -materiality

    def words(self, materiality: float) -> str:
        """Return the words for the kind in tables, which name an estimated gain that is not shown.

        "no material cost" alone would be misleading beside a large estimate of a gain.
        """
        if self.has_unshown_gain(materiality):
            return _UNSHOWN_GAIN
        return self.kind

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values."""
        return {
            "group": self.group,
            "kind": self.kind,
            "may_pay": self.may_pay,
            **self.change.to_record("change"),
        }


def group_effects(groups: Sequence[GroupResult], materiality: float) -> tuple[GroupEffect, ...]:
    """Classify the effects on the groups of a fair model."""
    return tuple(GroupEffect.from_result(group, materiality) for group in groups)


def _effect_kind(change: Estimate, materiality: float, *, is_excluded: bool) -> EffectKind:
    """Classify a change; `is_excluded` is whether a cost above the threshold is ruled out."""
    # Rounding errors are zero already.
    if change.high is not None and change.high < 0:
        return "gain"
    if change.low is not None and change.low > 0:
        return "cost" if change.value > materiality else "small cost"
    return "no material cost" if is_excluded else "unclear"


def _excludes_material_cost(group: GroupResult, materiality: float) -> bool:
    """Whether a cost above the materiality threshold is ruled out for a group.

    The interval of the change rules it out, or that of the loss under the fair model: the change is
    at most this loss, since no loss under PCA is below zero.
    """
    if group.state == "no material harm":
        return True
    if group.is_heavy_tailed:
        return False
    limits = (group.expected_change_share.high, group.expected_loss_share.high)
    return any(limit is not None and (limit <= 0 or limit < materiality) for limit in limits)
