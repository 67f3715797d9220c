"""Application of all rules to an audit.

A rule yields no finding, one or several. The messages are in
:mod:`fairspan.auditing.findings.finding_catalog`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from fairspan.auditing.audited_rows import AuditedRows
from fairspan.auditing.findings.dependence_rules import dependent_rows
from fairspan.auditing.findings.drift_rules import drift_since_fit
from fairspan.auditing.findings.feature_rules import FeatureNames, feature_findings
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.findings.label_rules import label_findings
from fairspan.auditing.findings.missing_value_rules import (
    codes_for_missing_values,
    imputed_cells,
    largely_missing_groups,
    uneven_missingness,
)
from fairspan.auditing.findings.one_model_rules import in_sample_models, one_model_findings
from fairspan.auditing.findings.reliability_rules import reliability_findings
from fairspan.auditing.findings.repair_rules import repair_findings
from fairspan.auditing.first_rows import FirstRowsSummary
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.results import ModelResult
from fairspan.moments.compute import Moments


@dataclass(frozen=True, eq=False)
class AuditedData:
    """The data of an audit, about which there are findings whatever the results of the models.

    Attributes
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the audited rows, unscaled.
    audited_rows : AuditedRows
    first_rows : FirstRowsSummary or None
        Summary of the first rows; None if rows were not given, or their clusters were.
    """

    moments: Moments
    audited_rows: AuditedRows
    first_rows: FirstRowsSummary | None = None


def find_in_data(
    models: Sequence[AuditedModel], data: AuditedData, monotone_columns: Sequence[int] = ()
) -> tuple[Finding, ...]:
    """Apply all rules about the data: features and labels, missing values and dependent rows.

    Parameters
    ----------
    models : sequence of AuditedModel
    data : AuditedData
    monotone_columns : sequence of int
        Columns that are strictly monotone in row order.
    """
    moments = data.moments
    columns = FeatureNames.from_data(models, moments)
    return (
        *feature_findings(models, moments, columns, monotone_columns),
        *label_findings(moments),
        *_find_in_rows(data),
    )


def _find_in_rows(data: AuditedData) -> Iterator[Finding]:
    """Yield the findings about missing values and dependent rows."""
    moments = data.moments
    missing = data.audited_rows.missing
    if missing is not None:
        yield from uneven_missingness(missing, is_completed=moments.is_em_estimated)
        yield from largely_missing_groups(missing)
    if moments.em_summary is not None:
        yield from imputed_cells(moments, moments.em_summary)
    if data.first_rows is not None:
        yield from dependent_rows(data.first_rows, moments.labels)
        yield from codes_for_missing_values(
            data.first_rows,
            has_names=moments.feature_names is not None,
            are_all_rows=data.first_rows.n_rows >= moments.counts.sum(),
        )


def find_in_results(models: Sequence[ModelResult], rows: AuditedRows) -> tuple[Finding, ...]:
    """Apply all rules about results: about the groups, about each model, and across models."""
    baselines = {model.baseline for model in models}
    return (
        *reliability_findings(models, rows),
        *in_sample_models(models, rows),
        *chain.from_iterable(
            one_model_findings(model, models, is_baseline=model.name in baselines)
            for model in models
        ),
        *drift_since_fit(models),
        *repair_findings(models),
    )
