"""Comparison of a fair model and ordinary PCA by the groups that each of them harms."""

from dataclasses import dataclass

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
    """

    fair: ModelResult
    pca: ModelResult
    harmed_by_pca: list[GroupResult]
    newly_harmed: list[GroupResult]
    harmed_without_rise: list[GroupResult]

    @classmethod
    def from_models(cls, fair: ModelResult, pca: ModelResult) -> "ModelComparison":
        """Compare the groups harmed by two models."""
        harmed_by_pca = harmed_groups(pca)
        labels = labels_of(harmed_by_pca)
        only_by_fair = [group for group in harmed_groups(fair) if group.group not in labels]
        # That one harm is shown and the other is not does not show that they differ.
        newly_harmed = [group for group in only_by_fair if group.has_error_rise]
        without_rise = [group for group in only_by_fair if not group.has_error_rise]
        return cls(fair, pca, harmed_by_pca, newly_harmed, without_rise)

    @property
    def labels_harmed_by_pca(self) -> tuple[Label, ...]:
        """Labels of the groups harmed by PCA."""
        return labels_of(self.harmed_by_pca)
