"""Comparison of a fair model and ordinary PCA by the groups that each of them harms."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.auditing.decision_notes import separate_loss
from fairspan.auditing.group_effects import EffectKind, GroupEffect, group_effects
from fairspan.auditing.results import GroupResult, ModelResult, harmed_groups, labels_of
from fairspan.rows.labels import Label


@dataclass(frozen=True)
class ModelComparison:
    """A fair model and ordinary PCA, with the groups that each of them harms.

    Attributes
    ----------
    fair, pca : ModelResult
    harmed_by_pca : list of GroupResult
        Groups harmed by PCA, the one with the largest relative loss first.
    newly_harmed : list of GroupResult
        Results under the fair model of groups that only it is shown to harm, and whose error is
        shown to rise.
    harmed_without_rise : list of GroupResult
        Results under the fair model of groups that only it is shown to harm, but whose error is not
        shown to rise: both models may harm them.
    effects : tuple of GroupEffect
        Effect of the fair model on each group, in the order of its groups.
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """

    fair: ModelResult
    pca: ModelResult
    harmed_by_pca: list[GroupResult]
    newly_harmed: list[GroupResult]
    harmed_without_rise: list[GroupResult]
    effects: tuple[GroupEffect, ...]
    materiality: float

    @classmethod
    def from_models(
        cls, fair: ModelResult, pca: ModelResult, materiality: float
    ) -> "ModelComparison":
        """Compare the groups harmed by two models, and classify the effects on all groups."""
        harmed_by_pca = harmed_groups(pca)
        labels = labels_of(harmed_by_pca)
        only_by_fair = [group for group in harmed_groups(fair) if group.group not in labels]
        # That one harm is shown and the other is not does not show that they differ.
        newly_harmed = [group for group in only_by_fair if group.has_error_rise]
        without_rise = [group for group in only_by_fair if not group.has_error_rise]
        effects = group_effects(fair.groups, materiality)
        return cls(fair, pca, harmed_by_pca, newly_harmed, without_rise, effects, materiality)

    @property
    def labels_harmed_by_pca(self) -> tuple[Label, ...]:
        """Labels of the groups harmed by PCA."""
        return labels_of(self.harmed_by_pca)

    @property
    def worst_under_fair(self) -> GroupResult:
        """Results under the fair model of the group that PCA harms most."""
        worst = self.harmed_by_pca[0].group
        return next(group for group in self.fair.groups if group.group == worst)

    def result_under_pca(self, group: GroupResult) -> GroupResult:
        """Results under PCA of the same group."""
        return next(candidate for candidate in self.pca.groups if candidate.group == group.group)

    def has_separate_loss(self, group: GroupResult) -> bool:
        """Whether the interval of the loss under the fair model is above that under PCA."""
        return separate_loss(self.result_under_pca(group), group) == "larger"

    @property
    def opens_error_gap(self) -> bool:
        """Whether the errors of two groups are shown to differ only under the fair model."""
        gaps = [
            model.expected_disparity.without_rounding(model.rounding_bound)
            for model in (self.pca, self.fair)
        ]
        under_pca, under_fair = gaps
        is_shown = under_fair.has_interval and not under_fair.contains_zero
        return under_pca.contains_zero and is_shown

    def groups_with_effect(self, kind: EffectKind) -> list[GroupResult]:
        """Results under the fair model of the groups on which it has an effect of this kind."""
        return self._results_of([effect for effect in self.effects if effect.kind == kind])

    @property
    def groups_that_may_pay(self) -> list[GroupResult]:
        """Results under the fair model of the groups whose cost may be material."""
        return self._results_of([effect for effect in self.effects if effect.may_pay])

    @property
    def groups_with_small_cost(self) -> list[GroupResult]:
        """Results under the fair model of the groups whose cost is shown, but immaterial."""
        small = [effect for effect in self.effects if effect.kind == "small cost"]
        return self._results_of([effect for effect in small if not effect.may_pay])

    def _results_of(self, effects: Sequence[GroupEffect]) -> list[GroupResult]:
        """Results under the fair model of the groups of some effects."""
        labels = [effect.group for effect in effects]
        return [group for group in self.fair.groups if group.group in labels]
