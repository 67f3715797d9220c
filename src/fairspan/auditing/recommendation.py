"""Recommendation of a model among those compared with one ordinary PCA."""

from dataclasses import dataclass
from typing import Literal

from fairspan.auditing.advice import Advice
from fairspan.auditing.group_effects import EffectKind, GroupEffect
from fairspan.auditing.intervals import Estimate
from fairspan.rows.labels import Label

RecommendationKind = Literal["use model", "no model, a group pays", "undecided"]


@dataclass(frozen=True)
class ComparedModel:
    """A model in a comparison: the largest loss under it, and who gains and pays.

    Attributes
    ----------
    model : str
    full_name : str
        Name in sentences, which says of what kind it is.
    expected_largest_loss : float
        Largest estimated loss of any group, as a share of its variance.
    expected_group : label
        The group that has this loss.
    largest_loss : Estimate
        Loss, likewise, with the largest upper limit of any group.
    group : label
        The group that has this limit.
    min_largest_loss : float
        Lower limit of the largest loss: the largest lower limit of any group, likewise.
    unknown_groups : tuple of labels
        Groups without estimates, which are left out.
    effects : tuple of GroupEffect
        Effect on each group of using the model in place of ordinary PCA; empty for PCA itself.
    favors_equal_errors : bool
        Whether its criterion aims at equal errors. Such a model is shown, but never recommended.
    materiality : float
        Materiality threshold, as a share of a group's variance; no limit is rounded to it.
    """

    model: str
    full_name: str
    expected_largest_loss: float
    expected_group: Label
    largest_loss: Estimate
    group: Label
    materiality: float
    min_largest_loss: float = 0.0
    unknown_groups: tuple[Label, ...] = ()
    effects: tuple[GroupEffect, ...] = ()
    favors_equal_errors: bool = False

    def effects_of_kind(self, kind: EffectKind) -> tuple[GroupEffect, ...]:
        """Return the effects of one kind."""
        return tuple(effect for effect in self.effects if effect.kind == kind)

    @property
    def possible_costs(self) -> tuple[GroupEffect, ...]:
        """Effects on groups whose cost may be material."""
        return tuple(effect for effect in self.effects if effect.may_pay)

    @property
    def largest_loss_limit(self) -> float:
        """Upper limit of the largest loss."""
        return self.largest_loss.value if self.largest_loss.high is None else self.largest_loss.high

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values."""
        return {
            "model": self.model,
            "expected_largest_loss": self.expected_largest_loss,
            **self.largest_loss.to_record("largest_loss"),
            "group": self.group,
            "min_largest_loss": self.min_largest_loss,
            "unknown_groups": list(self.unknown_groups),
            "effects": [effect.to_dict() for effect in self.effects],
            "favors_equal_errors": self.favors_equal_errors,
        }


@dataclass(frozen=True)
class Recommendation:
    """Recommendation of a model among those compared with one ordinary PCA.

    Attributes
    ----------
    kind : str
        "use model": the largest loss is estimated to be smallest, the group that PCA harms most is
        shown to gain, and no group pays; or ordinary PCA does no material harm. "no model, a group
        pays": the largest loss is estimated to be smallest under a fair model, for which a group is
        shown to pay. "undecided": otherwise.
    model : str or None
        The model to use; None unless the kind is "use model".
    leading_model : str
        The model under which the largest loss is estimated to be smallest, among those that may be
        recommended.
    baseline : str
        Name of ordinary PCA.
    advice : Advice
        What to do. It has figures only of a model that is recommended.
    reason : str
        Why no model is recommended, with the figures of the fair model that comes closest; empty if
        one is.
    compared : tuple of ComparedModel
        Ordinary PCA, followed by the fair models that have estimates.
    questioned_by : tuple of str
        Codes of findings about the data because of which nothing is recommended.
    tied_models : tuple of str
        Other fair models that are shown to help the group that PCA harms most, and whose largest
        loss is not shown to be larger than under the leading model, if that is a fair one.
    """

    kind: RecommendationKind
    model: str | None
    leading_model: str
    baseline: str
    advice: Advice
    compared: tuple[ComparedModel, ...]
    reason: str = ""
    questioned_by: tuple[str, ...] = ()
    tied_models: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The recommendation with its reason, as text."""
        return f"{self.advice} {self.reason}".rstrip()

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values."""
        return {
            "kind": self.kind,
            "model": self.model,
            "leading_model": self.leading_model,
            "baseline": self.baseline,
            "text": self.text,
            "steps": list(self.advice.step_texts),
            "reason": self.reason,
            "compared": [model.to_dict() for model in self.compared],
            "questioned_by": list(self.questioned_by),
            "tied_models": list(self.tied_models),
        }
