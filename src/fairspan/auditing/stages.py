"""Stages of an audit: evaluation of models, examination of the data, findings and verdicts.

:func:`fairspan.audit` reads its arguments and leaves the rest to these functions, which take models
and rows that are already open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.audited_rows import AuditedRows, MissingValues
from fairspan.auditing.estimation_options import DEFAULT_OPTIONS, EstimationOptions
from fairspan.auditing.evaluation import Evaluation, evaluate_on_moments, evaluate_on_rows
from fairspan.auditing.findings.all_rules import AuditedData, find_in_data, find_in_results
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.first_rows import summarize_first_rows
from fairspan.auditing.missing_values import summarize_missing_values
from fairspan.auditing.models import AuditedModel, lacks_baseline, with_pca_baselines
from fairspan.auditing.results import ModelResult
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_rules import Conclusions, draw_conclusions
from fairspan.linalg.memory import explain_memory_errors
from fairspan.moments.compute import Moments, compute_moments
from fairspan.moments.fold_moments import FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.aggregation import Rows, with_row_offsets
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import printable
from fairspan.rows.missing import count_missing
from fairspan.rows.protocol import row_metadata

# Difference between the seeds of two repeats. One audit uses its seed and the next four at most.
_SEED_STRIDE = 10


def audit_rows(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None = None,
    *,
    options: EstimationOptions = DEFAULT_OPTIONS,
    max_groups: int | None = None,
    adds_baselines: bool = False,
) -> Audit:
    """Audit models on rows in two passes: one for moments, one for standard errors.

    See :func:`audit_rows_with_folds` for the parameters; it returns the moments by fold as well.
    """
    return audit_rows_with_folds(
        models,
        rows,
        moments,
        options=options,
        max_groups=max_groups,
        adds_baselines=adds_baselines,
    ).audit


@dataclass(frozen=True, eq=False)
class RowAudit:
    """Audit of rows, with their moments by fold.

    Attributes
    ----------
    audit : Audit
        Of the first fold assignment with the most frequent verdict.
    folds : FoldMoments or None
        Of that assignment; None if nothing was estimated for new rows.
    """

    audit: Audit
    folds: FoldMoments | None


@explain_memory_errors()
def audit_rows_with_folds(
    models: Sequence[AuditedModel],
    source: Rows,
    moments: Moments | None = None,
    *,
    options: EstimationOptions = DEFAULT_OPTIONS,
    max_groups: int | None = None,
    adds_baselines: bool = False,
) -> RowAudit:
    """Audit models on rows, and return the moments by fold as well.

    Parameters
    ----------
    models : sequence of AuditedModel
    source : Rows
        Features are selected by the models' names, if they have any.
    moments : GroupMoments, SparseMoments or WideMoments, optional
        Moments of the same rows, if already known.
    options : EstimationOptions
    max_groups : int, optional
        Maximum number of groups; by default 100, or the number of groups a model was fitted on if
        that is larger.
    adds_baselines : bool
        Whether fair models that come without ordinary PCA are compared with that of these rows,
        which takes a pass of its own.
    """
    feature_names = (model.subspace.feature_names for model in models)
    names = next(filter(None, feature_names), None)
    if names is not None:
        source = source.select_features(names)
    limit = GroupLimit(
        max_groups,
        n_fitted_groups=max(len(model.training_groups) for model in models),
        max_memory=options.max_memory,
    )
    if adds_baselines and lacks_baseline(models):
        if moments is None:
            moments = compute_moments(source, limit)
        models = with_pca_baselines(models, moments)
    rows = source
    if options.folds is not None and not options.has_clusters:
        rows = with_row_offsets(source)  # rows are assigned to folds by their positions
    evaluations = _evaluate_repeatedly(models, rows, moments, limit, options)
    data = _examine_data(models, rows, evaluations[0].moments, options)
    # The columns that rise or fall throughout the table are the same for every assignment.
    data_findings = find_in_data(models, data, evaluations[0].monotone_columns)
    audits = [
        _assemble_audit(evaluation.results, data.audited_rows, data_findings, options)
        for evaluation in evaluations
    ]
    # Of several fold assignments, take the first one with the most frequent verdict, and state how
    # many agree with it.
    selected = _index_of_modal_verdict(
        [[verdict.kind for verdict in audit.verdicts] for audit in audits]
    )
    audit = replace(audits[selected], verdicts=_with_agreement(audits, selected))
    return RowAudit(audit, evaluations[selected].folds)


def _evaluate_repeatedly(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> list[Evaluation]:
    """Evaluate models on rows under each of the requested fold assignments.

    The parameters are those of :func:`evaluate_on_rows`.
    """
    evaluations: list[Evaluation] = []
    for repeat in range(options.repeats):
        # Seeds in between are used for the additional assignments within one audit.
        run_options = replace(options, seed=options.seed + _SEED_STRIDE * repeat)
        evaluations.append(evaluate_on_rows(models, rows, moments, limit, run_options))
        # Further assignments reuse the moments of the first.
        moments = evaluations[0].moments
    return evaluations


def _examine_data(
    models: Sequence[AuditedModel], rows: Rows, moments: Moments, options: EstimationOptions
) -> AuditedData:
    """Examine the first rows, and count missing cells if rows were dropped or cells imputed.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the rows, with the number of dropped ones.
    options : EstimationOptions
    """
    first_rows = summarize_first_rows(models, rows, moments)
    missing_cells = None
    if moments.n_dropped > 0 or moments.is_em_estimated:
        missing_cells = count_missing(rows)
    columns = rows.feature_names or tuple(f"x{j}" for j in range(rows.n_features))
    missing = summarize_missing_values(missing_cells, first_rows, moments, columns)
    # With clusters, dependence between rows is accounted for.
    if options.has_clusters:
        first_rows = None
    group_columns = tuple(printable(str(name)) for name in row_metadata(rows).group_columns)
    audited_rows = _describe_rows(moments, options, missing, group_columns)
    return AuditedData(moments, audited_rows, first_rows)


def _describe_rows(
    moments: Moments,
    options: EstimationOptions,
    missing: MissingValues | None = None,
    group_columns: tuple[str, ...] = (),
    *,
    has_intervals: bool = True,
) -> AuditedRows:
    """Return the numbers of audited rows and features, with the missing values of rows."""
    return AuditedRows(
        n_rows=int(moments.counts.sum()),
        n_features=moments.n_features,
        has_intervals=has_intervals,
        n_dropped=moments.n_dropped,
        missing=missing,
        has_clusters=options.has_clusters,
        group_columns=group_columns,
    )


def _index_of_modal_verdict(verdict_kinds: Sequence[Sequence[str]]) -> int:
    """Index of the first audit whose first verdict is of the most frequent kind.

    Zero for audits without verdicts.

    Parameters
    ----------
    verdict_kinds : sequence of sequences of str
        Kinds of the verdicts of each audit.
    """
    first_kinds = [next(iter(kinds), "") for kinds in verdict_kinds]
    return first_kinds.index(max(first_kinds, key=first_kinds.count))


def _with_agreement(audits: Sequence[Audit], selected: int) -> tuple[Verdict, ...]:
    """Return the verdicts of `audits[selected]`, each with the number of audits that agree."""
    verdicts_by_model = zip(*(audit.verdicts for audit in audits), strict=True)
    return tuple(
        replace(
            verdicts[selected],
            n_agreeing=sum(verdict.kind == verdicts[selected].kind for verdict in verdicts),
            n_repeats=len(audits),
        )
        for verdicts in verdicts_by_model
    )


@explain_memory_errors()
def audit_moments(
    models: Sequence[AuditedModel],
    blocks: Sequence[GroupMoments],
    options: EstimationOptions = DEFAULT_OPTIONS,
    *,
    adds_baselines: bool = False,
) -> Audit:
    """Audit models on moments; two or more blocks give jackknife intervals.

    `adds_baselines` says whether fair models that come without ordinary PCA are compared with that
    of these moments.
    """
    pooled = sum(blocks[1:], start=blocks[0])
    if adds_baselines and lacks_baseline(models):
        models = with_pca_baselines(models, pooled)
    results = evaluate_on_moments(models, pooled, blocks, options)
    data = AuditedData(pooled, _describe_rows(pooled, options, has_intervals=len(blocks) > 1))
    return _assemble_audit(results, data.audited_rows, find_in_data(models, data), options)


def _assemble_audit(
    results: Sequence[ModelResult],
    rows: AuditedRows,
    data_findings: Sequence[Finding],
    options: EstimationOptions,
) -> Audit:
    """Apply the rules for findings and verdicts to the results, and return them as an audit.

    `data_findings` are those about the data, which do not depend on the results.
    """
    findings = [*data_findings, *find_in_results(results, rows)]
    conclusions = Conclusions()
    if options.folds is not None and rows.has_intervals:
        conclusions = draw_conclusions(results, findings, options.level, options.materiality)
    return Audit(
        models=tuple(results),
        findings=tuple(sorted(findings, key=lambda finding: finding.severity != "warning")),
        rows=rows,
        verdicts=conclusions.verdicts,
        recommendations=conclusions.recommendations,
        level=options.level,
        materiality=options.materiality,
    )
