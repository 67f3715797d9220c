"""Reports of rows as objects, and reports whose figures and certificates are replaced."""

from dataclasses import replace

from certificate_claims import replace_claims
from fairspan.auditing.estimation_options import DEFAULT_OPTIONS
from fairspan.moments.group_moments import compute_group_moments
from fairspan.report.build import build_report
from fairspan.report.provenance import Provenance
from fairspan.report.report_settings import ReportSettings
from fairspan.rows.opening import open_group_rows

ORIGIN = Provenance("rows", "a report", None, "a command")


def make_report(
    X,
    labels,
    n_components=None,
    *,
    criterion="minimax_loss",
    compare=None,
    center="global",
    scale=False,
    weights=None,
    origin=ORIGIN,
    folds=10,
):
    rows = open_group_rows(X, labels, weights)
    estimation = replace(DEFAULT_OPTIONS, folds=folds)
    report_settings = ReportSettings.parse(
        criterion, compare, n_components, center, scale, estimation=estimation
    )
    return build_report(compute_group_moments(rows), rows, report_settings, origin)


def replace_figures(report, place, groups=None, **figures):
    """Return the report with other figures of one model, and of each of its groups."""
    models = list(report.audit.models)
    if groups is not None:
        figures["groups"] = tuple(
            replace(group, **group_figures)
            for group, group_figures in zip(models[place].groups, groups, strict=True)
        )
    models[place] = replace(models[place], **figures)
    return replace(report, audit=replace(report.audit, models=tuple(models)))


def replace_certificate(report, place, **figures):
    """Return the report with other claims in the certificate of one fit."""
    fits = list(report.fits)
    proof = replace_claims(fits[place].certificate, **figures)
    subspace = replace(fits[place].subspace, certificate=proof)
    fits[place] = replace(fits[place], subspace=subspace)
    return replace(report, fits=tuple(fits))
