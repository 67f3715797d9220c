"""The report and demo commands."""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fairspan.auditing.audit import audit
from fairspan.auditing.audit_result import Audit, format_finding
from fairspan.auditing.estimates import STATE_MEANINGS
from fairspan.auditing.group_names import ascii_share, format_group
from fairspan.auditing.models import (
    AuditedModel,
    known_labels_of,
    model_name,
    restriction_columns,
)
from fairspan.certificates.certificate import Certificate
from fairspan.cli.command_terminal import painter_for
from fairspan.cli.finding_hints import with_command_hints, with_command_hints_in_report
from fairspan.cli.fitting import with_group_labels
from fairspan.cli.inputs import InputData, open_held_out_rows, open_input
from fairspan.cli.model_auditing import load_models
from fairspan.cli.option_values import AuditOptions, FitOptions, ReadOptions, ReportOptions
from fairspan.cli.printed_results import certificate_text
from fairspan.cli.row_input import read_options_for
from fairspan.datasets import Dataset, load_adult_by_race
from fairspan.errors import MissingDependency
from fairspan.formatting.messages import counted
from fairspan.formatting.numbers import format_level
from fairspan.formatting.terminal import output_width, wrap_text
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.registry import ExternalObject
from fairspan.report.build import build_report, report_progress
from fairspan.report.provenance import Provenance, default_title, without_directories
from fairspan.report.report import Report
from fairspan.report.report_models import read_user_models
from fairspan.report.report_settings import ReportSettings
from fairspan.report.sentence_context import split_findings
from fairspan.report.shares import largest_observed_loss
from fairspan.report.write_report import (
    ReportData,
    build_report_with_displays,
    check_page_path,
    write_page,
)
from fairspan.rows.fingerprint import compute_fingerprint, sha256_of_files
from fairspan.rows.labels import format_label, printable
from fairspan.rows.opening import open_group_rows

_DEMO_DIMENSIONS = 2


@report_progress()
def build_file_report(
    path: Path | ExternalObject,
    page: Path | None,
    read_options: ReadOptions,
    fit_options: FitOptions,
    audit_options: AuditOptions,
    report_options: ReportOptions,
    argv: Iterable[str],
    *,
    has_center: bool,
) -> Report:
    """Build the report of a file, and write the page if a path is given.

    Parameters
    ----------
    path : Path or ExternalObject
        Input as given.
    page : Path or None
    read_options : ReadOptions
    fit_options : FitOptions
    audit_options : AuditOptions
    report_options : ReportOptions
    argv : iterable of str
        Command line arguments, which the page shows.
    has_center : bool
        Whether the center was requested, rather than being the default.

    Returns
    -------
    Report

    Raises
    ------
    FairspanError
        Invalid rows or settings; settings are checked first.
    """
    if page is not None:
        check_page_path(page)
    user_models = load_models(report_options.models, report_options.custom_objects)
    # Saved models fix the features that are read, and need the columns of their restrictions. The
    # features of the first stand for all: models of other features are refused when they are read.
    first_model = next(iter(user_models.values()), None)
    names = None if first_model is None else first_model.feature_names
    read_options.reject_feature_options(names)
    extra_columns = restriction_columns(user_models)
    read_options = read_options_for(user_models.values(), path, read_options)
    clusters = audit_options.clusters
    data = open_input(path, read_options, clusters).select_features(names, extra_columns)
    data = data.matched_to(known_labels_of(user_models))
    parameters = fit_options.criterion_parameters
    if first_model is not None:
        fit_options = _with_model_settings(fit_options, first_model, has_center=has_center)
    # Check the settings before rows are read. They are made again once the rows have been read,
    # when the texts that name groups can be replaced by labels.
    settings = _report_settings(fit_options, audit_options, report_options, parameters)
    if data.row_source is not None:  # else the file holds moments
        settings.check_size(data.row_source.n_features)
    moments = data.moments  # reads the rows, unless the file holds moments
    parameters = with_group_labels(parameters, moments.labels)
    settings = _report_settings(fit_options, audit_options, report_options, parameters)
    rows = None
    if data.row_source is not None:
        rows = data.rows("auditing")
    provenance = _provenance(path, data, report_options.title, argv)
    models: list[AuditedModel] = []
    if user_models:
        models = read_user_models(user_models, moments)
    held_out = None
    if report_options.test_path is not None:
        held_out = open_held_out_rows(
            report_options.test_path, read_options, moments.feature_names, extra_columns, clusters
        )
    report_data = ReportData(moments, rows, held_out, read_options.resources.max_memory)
    report = build_report_with_displays(report_data, settings, provenance, models)
    report = with_command_hints_in_report(report)  # findings name options of the command line
    if page is not None:
        write_page(page, report)
    return report


def _with_model_settings(
    fit_options: FitOptions, model: FairSubspace, *, has_center: bool
) -> FitOptions:
    """Return the options with the settings of a model in place of those that were not given."""
    requested = fit_options.n_components
    return replace(
        fit_options,
        n_components=model.dimension if requested is None else requested,
        center=fit_options.center if has_center else model.center,
        standardize=fit_options.standardize or model.is_scaled,
    )


def _report_settings(
    fit_options: FitOptions,
    audit_options: AuditOptions,
    report_options: ReportOptions,
    criterion_parameters: Mapping[str, object],
) -> ReportSettings:
    """Return the validated settings of a report from the options of the command.

    `criterion_parameters` replace those of `fit_options`: values that name groups are already
    converted to the type of the group labels there.
    """
    return ReportSettings.parse(
        get_criterion(fit_options.criterion, **criterion_parameters),
        n_components=fit_options.n_components,
        center=fit_options.center,
        scale=fit_options.standardize,
        displays=report_options.displays,
        criteria=report_options.criteria or None,  # None for all criteria
        estimation=audit_options.estimation_options,
    )


def _provenance(
    path: Path | ExternalObject, data: InputData, title: str | None, argv: Iterable[str]
) -> Provenance:
    """Return the provenance of a report of a file."""
    if data.row_source is None:
        fingerprint: str | None = sha256_of_files(Path(str(path)), ())
    else:
        fingerprint = compute_fingerprint(data.row_source)
    command = shell_command(["fairspan", *map(without_directories, argv)])
    name = Path(str(path)).name
    return Provenance(name, title or default_title(name), fingerprint, command)


def markdown_origin(
    paths: Sequence[Path | ExternalObject], data: InputData, argv: Iterable[str]
) -> dict[str, str]:
    """Return data, hash and command of an audit, for its provenance in Markdown."""
    origin = {"Data": ", ".join(Path(str(path)).name for path in paths)}
    if data.row_source is not None and len(paths) == 1:
        fingerprint = compute_fingerprint(data.row_source)
        if fingerprint is not None:
            origin["SHA-256"] = fingerprint
    origin["Command"] = shell_command(["fairspan", *map(without_directories, argv)])
    return origin


def report_summary(report: Report, page: Path | None) -> str:
    """Summarize the decision table, the verdict and the findings, wrapped to the terminal width.

    Findings on models other than PCA and the main one are left to the page.
    """
    width = output_width(sys.stdout)
    paint = painter_for(sys.stdout)
    rows = report.audit.rows
    sizes = ", ".join(
        f"{format_group(group.group)} {group.n_rows:,}" for group in report.pca.groups
    )
    # The first of the fits is ordinary PCA.
    criteria = counted(len(report.fits) - 1, "criterion", "criteria")
    dimensions = counted(report.main.n_components, "dimension")
    if rows.group_columns:
        sizes = f"groups by {', '.join(rows.group_columns)}: {sizes}"
    description = (
        f"{counted(rows.n_rows, 'row')} ({sizes}), {counted(rows.n_features, 'feature')}; PCA and "
        f"{criteria} with {dimensions} each. The loss of a group is the share of its variance that "
        f"its own best {counted(report.main.n_components, 'component')} would keep, but the common "
        "ones do not."
    )
    lines = [
        *wrap_text(printable(report.provenance.title), width),
        *wrap_text(description, width),
        "",
    ]
    if report.audit.has_decisions:
        decisions = report.audit.decision_table()
        lines += [decisions.to_text(width, paint), ""]
        for note in decisions.notes:
            lines += [*wrap_text(str(note), width), ""]
    if report.verdict is not None:
        lines += [*report.verdict.to_lines("Verdict", width), ""]
    lines += [*_describe_criteria(report, width), ""]
    if report.has_estimates:
        lines += [*_describe_states(report, width), ""]
    main_findings, _ = split_findings(report)
    for finding in main_findings:
        lines += format_finding(finding.code, finding.severity, finding.message, width, paint)
    if page is not None:
        lines += ["", f"Written to {printable(str(page))}"]
    return "\n".join(lines)


def _describe_criteria(report: Report, width: int) -> list[str]:
    """Say what each model of a report minimizes, a paragraph for each."""
    lines = []
    for fit in report.fits:
        summary = fit.problem.criterion.formula.summary.removeprefix("This criterion ")
        lines += wrap_text(f"{printable(fit.name)}: {summary}", width, "  ")
    return lines


def _describe_states(report: Report, width: int) -> list[str]:
    """Say what each state means that some group has, a paragraph for each."""
    states = {group.state for model in report.audit.models for group in model.groups}
    threshold = format_level(report.audit.materiality)
    lines = []
    for state, meaning in STATE_MEANINGS.items():
        if state in states:
            lines += wrap_text(f"{state}: {meaning}.", width, "  ")
    return [
        *lines,
        *wrap_text(f"The threshold is {threshold} of the variance of the group.", width),
    ]


def shell_command(words: Iterable[str]) -> str:
    r"""Quote a command for the shell as one copyable line.

    Arguments with line breaks, control characters or bidirectional marks are escaped in ANSI-C
    quoting (bash, zsh), since they could end a comment or disguise the command.

    Examples
    --------
    >>> shell_command(["fairspan", "report", "my rows.csv"])
    "fairspan report 'my rows.csv'"
    >>> print(shell_command(["a\nb'c"]))
    $'a\x0ab\'c'
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escape_char, word))}'"
        for word in words
    )


def _escape_char(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


class DemoResult(NamedTuple):
    """Results of the demo.

    Attributes
    ----------
    certificate : Certificate
        Certificate of the fair model.
    audit : Audit
        Audit of ordinary PCA and the fair model.
    data : Dataset
    """

    certificate: Certificate
    audit: Audit
    data: Dataset


def run_demo() -> DemoResult:
    """Fit and audit the demo data."""
    from fairspan.estimator.fair_pca import FairPCA

    data = load_adult_by_race()
    moments = GroupMoments.from_rows(data.X, data.sensitive_features)
    # Estimators carry their moments, from which the audit derives the baseline PCA.
    pca, fair = (
        FairPCA(_DEMO_DIMENSIONS, criterion=criterion, scale=True).fit_moments(moments)
        for criterion in ("total_error", "minimax_loss")
    )
    models = {"PCA": pca, model_name(fair.solution_): fair}
    result = with_command_hints(audit(models, data.X, data.sensitive_features))
    return DemoResult(fair.solution_, result, data)


def install_hint(page: Path) -> str | None:
    """Hint for installing the report extra; None if it is installed."""
    try:
        check_page_path(page)
    except MissingDependency:
        return 'For the full report: pip install "fairspan[report]", then run this again'
    return None


def write_demo_page(page: Path, data: Dataset) -> int:
    """Write the report of the demo data, and return the number of fair models that it compares."""
    rows = open_group_rows(data.X, data.sensitive_features)
    moments = replace(compute_group_moments(rows), feature_names=data.feature_names)
    settings = ReportSettings.parse(
        "minimax_loss", criteria=None, n_components=_DEMO_DIMENSIONS, center="global", scale=True
    )
    origin = Provenance(
        name=data.name,
        title=default_title(data.name),
        input_sha256=compute_fingerprint(rows),
        command="fairspan demo",
    )
    report = build_report(moments, rows, settings, origin)
    write_page(page, report)
    return len(report.audit.models) - 1


def demo_text(certificate: Certificate, result: Audit, data: Dataset) -> str:
    """Format the results of the demo for the terminal.

    Parameters
    ----------
    certificate : Certificate
        Certificate of the fair model.
    result : Audit
        Audit of two models: ordinary PCA and the fair model.
    data : Dataset
    """
    pca, fair = result.models
    sizes = ", ".join(f"{format_label(group.group)}: {group.n_rows:,}" for group in pca.groups)
    pca_loss = largest_observed_loss(pca)
    fair_loss = largest_observed_loss(fair)
    width = output_width(sys.stdout)
    question = "Does PCA harm any of the groups, and does a fair model help?"
    description = f"{data.source}: {result.rows.n_rows:,} people ({sizes})"
    # The certificate that follows is in squared units.
    conclusion = (
        f"On these rows, the largest loss falls from {ascii_share(pca_loss)} to "
        f"{ascii_share(fair_loss)} of a group's variance."
    )
    parts = [
        f"{_wrap(question, width)}\n{_wrap(description, width)}",
        "\n".join(result.verdict.to_lines("Verdict", width)),
        result.table().to_text(width, painter_for(sys.stdout)),
        f"{_wrap(conclusion, width)}\n{certificate_text(certificate)}",
        # Not wrapped, so that it can be copied.
        "Try your own data: fairspan audit DATA.csv --group COLUMN --standardize",
    ]
    return "\n\n".join(parts)


def _wrap(text: str, width: int) -> str:
    return "\n".join(wrap_text(text, width))
