"""Contents of a report."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.group_names import format_group
from fairspan.auditing.results import ModelResult
from fairspan.auditing.verdict import Verdict
from fairspan.estimator.fit_settings import DEFAULT_VARIANCE_KEPT
from fairspan.extending import Display
from fairspan.formatting.export import to_json_value
from fairspan.formatting.names import display_name
from fairspan.formatting.numbers import format_level
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.part_parameters import reported_parameters
from fairspan.report.curves import ReportCurves
from fairspan.report.fitted_criterion import FittedCriterion, SkippedCriterion
from fairspan.report.provenance import Provenance
from fairspan.report.report_settings import ReportSettings
from fairspan.report.verification import verification_instructions
from fairspan.rows.labels import printable
from fairspan.typing import Record

# Significant digits in JSON; the last four of float64's sixteen are rounding error.
_JSON_DIGITS = 12


@dataclass(frozen=True, eq=False)
class UserModels:
    """Audit of the user's models.

    Attributes
    ----------
    audit : Audit
    descriptions : tuple of str
        Description of each model.
    held_out : bool
        Whether they were evaluated on held-out rows instead of the report's rows.
    """

    audit: Audit
    descriptions: tuple[str, ...]
    held_out: bool

    def to_dict(self) -> Record:
        """Return the audit's values with the description of each model."""
        return {
            "held_out": self.held_out,
            "descriptions": self.descriptions,
            **self.audit.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Report:
    """Contents of a report.

    Attributes
    ----------
    audit : Audit
        Audit of ordinary PCA and the other models; negligible values are zero.
    fits : tuple of FittedCriterion
        Fits, in the order of the audit's models.
    curves : ReportCurves
        Results by dimension, and the slider's steps.
    provenance : Provenance
    moments : GroupMoments
    settings : ReportSettings
    skipped_criteria : tuple of SkippedCriterion
    user_models : UserModels or None
    displays : tuple of (str, Display)
        Additional displays with their names.
    """

    audit: Audit
    fits: tuple[FittedCriterion, ...]
    curves: ReportCurves
    provenance: Provenance
    moments: GroupMoments
    settings: ReportSettings
    skipped_criteria: tuple[SkippedCriterion, ...] = ()
    user_models: UserModels | None = None
    displays: tuple[tuple[str, Display], ...] = ()

    @property
    def main_index(self) -> int:
        """Index of the main model: 0 if it is ordinary PCA, else 1."""
        if self.settings.is_pca:
            return 0
        return 1

    @property
    def pca(self) -> ModelResult:
        """Results of ordinary PCA."""
        return self.audit.models[0]

    @property
    def main(self) -> ModelResult:
        """Results of the main model."""
        return self.audit.models[self.main_index]

    @property
    def main_fit(self) -> FittedCriterion:
        """Fit of the main model."""
        return self.fits[self.main_index]

    @property
    def verdict(self) -> Verdict | None:
        """Verdict on the main model; None without estimates for new rows."""
        main_verdicts = (
            verdict for verdict in self.audit.verdicts if verdict.model == self.main.name
        )
        return next(main_verdicts, None)

    @property
    def offers_main(self) -> bool:
        """Whether the verdict advises the main model, or offers it on a condition.

        Otherwise its figures are left to the section on repair.
        """
        if self.verdict is None or self.main.is_pca:
            return True
        return self.verdict.advice.offered_model == self.main.name

    @property
    def is_em_estimated(self) -> bool:
        """Whether the moments were estimated from incomplete rows (EM)."""
        return self.moments.is_em_estimated

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Display names of the groups."""
        return tuple(display_name(format_group(group.group)) for group in self.pca.groups)

    @property
    def feature_names(self) -> list[str]:
        """Full names of the features."""
        names = self.moments.feature_names or [f"feature {i}" for i in range(self.n_features)]
        return [printable(name) for name in names]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return not np.array_equal(self.moments.weights, self.moments.counts)

    @property
    def has_estimates(self) -> bool:
        """Whether any group has estimates for new rows."""
        return self.pca.has_estimates

    @cached_property
    def settings_record(self) -> Record:
        """Settings as JSON-serializable values, and how the number of dimensions was chosen."""
        requested = self.settings.n_components
        certificate = self.main_fit.certificate
        dimension_choice = "requested"
        if not isinstance(requested, int):
            share = format_level(DEFAULT_VARIANCE_KEPT if requested is None else requested)
            dimension_choice = f"smallest number that keeps {share} of every group's variance"
        return {
            "n_components": self.pca.n_components,
            "dimension_choice": dimension_choice,
            "center": self.settings.center,
            "scale": self.settings.scale,
            "criterion": self.settings.criterion.name,
            "parameters": reported_parameters(certificate.criterion, certificate.groups),
        }

    def shorten_names(self, text: str, format_name: Callable[[str], str] = str) -> str:
        """Shorten very long names of groups, features and data in a text.

        Parameters
        ----------
        text : str
        format_name : callable
            Converts a name to its form in the text.
        """
        groups = [format_group(group.group) for group in self.pca.groups]
        for name in {*groups, *self.feature_names, self.provenance.name}:
            if name.strip():  # a blank name would match spaces of the text
                text = text.replace(format_name(name), format_name(display_name(name)))
        return text

    @cached_property
    def verification(self) -> Record:
        """Instructions for verifying the certificate of the main model."""
        return {"model": self.main.name, **verification_instructions(self.main_fit)}

    def to_dict(self) -> Record:
        """Return JSON-serializable values: those of the audit, plus the report's own contents."""
        user_models = None if self.user_models is None else self.user_models.to_dict()
        contents: dict[str, Any] = to_json_value(
            {
                "title": printable(self.provenance.title),
                "data": {
                    "name": printable(self.provenance.name),
                    "feature_names": self.feature_names,
                    "has_weights": self.is_weighted,
                },
                "settings": self.settings_record,
                "main_model": self.main.name,
                **self.audit.to_dict(),
                "certificates": [
                    {"model": fit.name, **fit.certificate.to_dict()} for fit in self.fits
                ],
                "skipped_criteria": [skipped._asdict() for skipped in self.skipped_criteria],
                **self.curves.to_dict(self.main.name, self.feature_names),
                "user_models": user_models,
                "verification": self.verification,
                "provenance": {**self.provenance.to_dict(), "parameters": self.settings_record},
            },
            _JSON_DIGITS,
        )
        # Data of displays keep all digits.
        displays = [
            {"name": name, "data": display.frame().to_dict("list")}
            for name, display in self.displays
        ]
        return {**contents, "displays": to_json_value(displays)}
