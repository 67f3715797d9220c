"""Construction of a report: fits, audits and curves."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fairspan.auditing.models import AuditedModel
from fairspan.errors import InvalidInput
from fairspan.estimator.fit import resolve_n_components
from fairspan.estimator.fit_settings import DEFAULT_VARIANCE_KEPT
from fairspan.linalg.memory import explain_memory_errors
from fairspan.linalg.threads import limit_blas_threads
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.row_spread import with_row_spread_if_singular
from fairspan.progress import overall_progress
from fairspan.report.curves import build_curves
from fairspan.report.dimension_steps import with_dimension_steps
from fairspan.report.fits import audit_fits, fit_criteria
from fairspan.report.provenance import Provenance
from fairspan.report.report import Report
from fairspan.report.report_models import audit_user_models
from fairspan.report.report_settings import ReportSettings
from fairspan.rows.aggregation import Rows

# Progress shares of the stages; drawing is not tracked and takes the remainder.
report_progress = partial(
    overall_progress,
    "making the report",
    reading=10,
    comparing_criteria=15,
    auditing=10,
    refitting_without_each_fold=25,
    comparing_numbers_of_dimensions=15,
    drawing=25,
)


@explain_memory_errors()
def build_report(
    moments: GroupMoments,
    rows: Rows | None,
    settings: ReportSettings,
    provenance: Provenance,
    *,
    models: Sequence[AuditedModel] = (),
    held_out: Rows | None = None,
    max_memory: int | None = None,
) -> Report:
    """Build a report: fit the criteria, audit them, and compute the curves.

    Parameters
    ----------
    moments : GroupMoments
        Moments of the rows.
    rows : Rows or None
        The same rows, read twice for estimates and intervals; None to use moments only.
    settings : ReportSettings
    provenance : Provenance
    models : sequence of AuditedModel
        Models of the user to audit.
    held_out : Rows or None
        Held-out rows for these models; None to use the report's rows.
    max_memory : int, optional
        Memory budget in bytes for moments by fold.

    Raises
    ------
    IncompatibleParameters, InvalidInput, InvalidParameter, UnknownGroup
        There is only one group, or the main criterion is infeasible.
    """
    settings.check_size(moments.n_features)
    if moments.n_groups < 2:
        raise InvalidInput(
            f"All rows belong to one group ({moments.labels[0]!r})",
            "Allowed: two or more groups",
            "Check the group column, or use ordinary PCA",
        )
    if rows is not None:
        # The report fits all dimensions, of which the largest may contain all rows.
        moments = with_row_spread_if_singular(moments, rows)
    requested = DEFAULT_VARIANCE_KEPT if settings.n_components is None else settings.n_components
    estimation = replace(settings.estimation, max_memory=max_memory)
    # None: no BLAS library may use several threads. There are hundreds of small eigenproblems, for
    # which threads would contend for shared cores.
    with limit_blas_threads(None):
        d = resolve_n_components(
            moments, requested, settings.criterion, center=settings.center, scale=settings.scale
        )
        fits, skipped = fit_criteria(moments, settings, d)
    row_audit = audit_fits(fits, rows, moments, settings, estimation)
    with limit_blas_threads(None):
        # Ordinary PCA is always the first fit, and another main criterion the second.
        main_fit = fits[0] if settings.is_pca else fits[1]
        curves = build_curves(
            moments, row_audit.audit, fits[0], main_fit, row_audit.folds, settings.center
        )
    user_models = None
    if models:
        user_models = audit_user_models(models, rows, held_out, moments, estimation)
    report = Report(
        audit=row_audit.audit,
        fits=fits,
        curves=curves,
        provenance=provenance,
        moments=moments,
        settings=settings,
        skipped_criteria=skipped,
        user_models=user_models,
    )
    return replace(report, audit=with_dimension_steps(report))
