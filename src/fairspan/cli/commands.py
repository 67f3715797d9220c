"""The commands."""

import datetime
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fairspan.cli import gate, options
from fairspan.cli.command import (
    audit_option,
    command,
    command_line_arguments,
    is_on_command_line,
    output_option,
    usage_error_if,
)
from fairspan.cli.command_outputs import check_output_file
from fairspan.cli.option_values import (
    AuditOptions,
    FitOptions,
    ModelOptions,
    PairOptions,
    ReadOptions,
    ReportOptions,
    require_models,
)
from fairspan.cli.param_types import INPUT_FILE, OUTPUT_FILE, OUTPUT_FILE_OR_FOLDER
from fairspan.errors import FairspanError
from fairspan.formatting.messages import counted
from fairspan.formatting.numbers import format_count, to_ascii
from fairspan.formatting.units import Unit
from fairspan.progress import overall_progress
from fairspan.registry import ExternalObject
from fairspan.report.report_outputs import check_output_path

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit
    from fairspan.cli.model_auditing import AuditInput

_EXIT_NOT_VERIFIED = 1
_EXIT_INTERNAL_ERROR = 3
_PAGE_SUFFIXES = (".html", ".htm")
# Approximate share of run time of each stage.
_STAGE_SHARES = {"reading": 30, "auditing": 30, "refitting without each fold": 40}


@command(
    short_help="Demonstrate an audit on real data.",
    examples=("fairspan demo", "fairspan demo -o people.html"),
)
@output_option(
    "-o",
    "--output",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    default="fairspan-demo.html",
    help="Path of the HTML report.",
)
@options.JSON
def demo(page: Path, as_json: bool) -> None:
    """Audit PCA and fair PCA for two groups of a real data set.

    The full audit is written as an HTML report if the `report` extra is installed.
    """
    from fairspan.cli import printed_results, reporting

    check_output_path(page)
    install_hint = reporting.install_hint(page)
    certificate, result, data = reporting.run_demo()
    if install_hint is not None:
        last_line = install_hint
    else:
        # The terminal shows one of the fair models.
        n_more = reporting.write_demo_page(page, data) - 1
        last_line = f"Full audit, with {n_more} more fair models and so wider intervals: {page}"
    if not as_json:
        click.echo(reporting.demo_text(certificate, result, data))
    results = {
        "data": data.name,
        "certificate": certificate.to_dict(),
        **result.to_dict(),
        "page": str(page) if install_hint is None else None,
    }
    printed_results.print_results(results, last_line, as_json=as_json)


@command(
    examples=(
        "fairspan audit patients.csv --group sex --standardize -d 2 --repair",
        "fairspan audit patients.csv --group sex --by-dimension --level 0.9",
    )
)
@options.SEVERAL_DATA
@options.with_read_options
@options.UNSEEN_CATEGORIES
@options.with_dimension_options
@options.with_model_options
@options.with_audit_options
@options.UNIT
@options.FAIL_ON
@options.AUDIT_FORMAT
@options.JSON
def audit(
    data: tuple[Path | ExternalObject, ...],
    read_options: ReadOptions,
    fit_options: FitOptions,
    model_options: ModelOptions,
    audit_options: AuditOptions,
    unit: Unit,
    fail_on: tuple[str, ...],
    audit_format: Literal["text", "json", "markdown"],
    as_json: bool,
) -> None:
    """Audit ordinary PCA, or saved models, on each group of DATA.

    DATA is a CSV, Parquet, Arrow or Excel file, a folder, or saved moments, and may be larger than
    memory. With --repair, a fair model is fitted as well and compared with ordinary PCA. With
    --test, both are fitted on DATA and evaluated on the other rows. Several files of saved moments
    are audited together; the variation between them gives the intervals.
    """
    from fairspan.cli import model_auditing, next_commands, printed_results, reporting

    models = model_options.models
    by_dimension = model_options.by_dimension
    test_path = model_options.test_path
    # --unseen requires saved models or held-out rows. --test requires no models, unlike for a
    # report, since ordinary PCA can be audited on other rows.
    if test_path is None:
        require_models(models, read_options, test_path)
    model_options.check_combinations(fit_options)
    audit_options.require_folds(by_dimension=by_dimension)
    _check_output_options(
        audit_format, as_json=as_json, by_dimension=by_dimension, has_conditions=bool(fail_on)
    )
    conditions = gate.parse_fail_on(
        fail_on,
        has_folds=bool(audit_options.folds),
        has_other_rows=bool(models) or test_path is not None,
    )
    # A requested center must be that of the models, unlike the default.
    audit_input = model_auditing.open_audit_input(
        data,
        read_options,
        fit_options,
        model_options,
        audit_options.clusters,
        has_center=is_on_command_line("center"),
    )
    as_json = as_json or audit_format == "json"
    if by_dimension:
        with overall_progress("auditing", **_STAGE_SHARES):
            result = model_auditing.audit_by_dimension(
                audit_input.table, fit_options, audit_options
            )
        record = printed_results.by_dimension_record(result)
        text = printed_results.by_dimension_text(result, unit)
        printed_results.print_results(record, text, as_json=as_json)
        return
    with overall_progress("auditing", **_STAGE_SHARES):
        result = _audit_models(audit_input, fit_options, model_options, audit_options)
    # Raises before results are printed if a condition does not apply to the audit.
    failures = gate.check_failures(result, conditions, has_saved_models=bool(models))
    if audit_format == "markdown":
        origin = reporting.markdown_origin(data, audit_input.table, command_line_arguments())
        text = result.to_markdown(unit, origin=origin).rstrip()
    else:
        text = printed_results.audit_text(result, unit)
        next_command = next_commands.next_command(command_line_arguments(), result, model_options)
        if next_command is not None:
            text += f"\n\n{next_command}"
    printed_results.print_results(result.to_dict(), text, as_json=as_json)
    gate.exit_on_failures(failures)


def _check_output_options(
    audit_format: str, *, as_json: bool, by_dimension: bool, has_conditions: bool
) -> None:
    """Raise a usage error if options of the output of an audit exclude each other."""
    usage_error_if(
        as_json and is_on_command_line("audit_format") and audit_format != "json",
        f"--json cannot be combined with --format {audit_format}.",
    )
    usage_error_if(
        by_dimension and audit_format == "markdown",
        "--by-dimension cannot be combined with --format markdown.",
    )
    usage_error_if(
        by_dimension and has_conditions, "--by-dimension cannot be combined with --fail-on."
    )


def _audit_models(
    audit_input: "AuditInput",
    fit_options: FitOptions,
    model_options: ModelOptions,
    audit_options: AuditOptions,
) -> "Audit":
    """Audit the saved models, PCA with its repair, or PCA alone, on DATA or held-out rows."""
    from fairspan.cli import fitting, inputs, model_auditing

    table = audit_input.table
    models = audit_input.models
    if model_options.repair:
        models = fitting.fit_repair(table, fit_options)
    elif not models:
        models = [model_auditing.fit_pca(table, fit_options)]
    held_out = None
    if model_options.test_path is not None:
        held_out = inputs.open_held_out_rows(
            model_options.test_path,
            audit_input.read_options,
            table.moments.feature_names,
            table.restriction_columns,
            audit_options.clusters,
        )
    return model_auditing.audit_data(table, models, audit_options, held_out)


@command(
    short_help="Fit fair PCA to DATA, save it, and compare it with PCA.",
    examples=(
        "fairspan fit patients.csv --group sex -o patients.model",
        "fairspan fit patients.csv --group sex -d 3 --nested -o nested.model",
    ),
)
@options.DATA
@output_option(
    "-o", "--output", "model", type=OUTPUT_FILE, required=True, help="Path of the model."
)
@output_option(
    "--force", is_flag=True, help="Overwrite a file that is not a model with the same settings."
)
@options.with_read_options
@options.with_fit_options
@options.with_pair_options
@options.with_audit_options
@options.JSON
def fit(
    data: Path | ExternalObject,
    model: Path,
    force: bool,
    read_options: ReadOptions,
    fit_options: FitOptions,
    pair_options: PairOptions,
    audit_options: AuditOptions,
    as_json: bool,
) -> None:
    """Fit fair PCA to DATA and save it.

    A comparison with PCA and the certificate of optimality are printed. Two tables are related by
    fair partial least squares if the columns of the second are named (--targets).
    """
    from fairspan.cli import fitting, inputs, model_auditing, printed_results

    check_output_file(model, "a model is", data)
    pair_options.check_has_targets()
    if pair_options.targets:
        from fairspan.cli import fitting_pairs

        if not force:
            fitting_pairs.check_overwriting_pair(model)
        with overall_progress("fitting", **_STAGE_SHARES):
            paired = fitting_pairs.fit_two_tables(
                data, read_options, fit_options, pair_options, audit_options
            )
        paired.pair.save(model)
        printed_results.print_results(paired.to_dict(model), paired.to_text(model), as_json=as_json)
        return
    if not force:
        fitting.check_overwriting(model, fit_options)
    audit_options.require_folds()
    table = inputs.open_input(data, read_options, audit_options.clusters)
    # All features are kept, and the columns that the restriction needs are set apart.
    restriction_columns = fitting.columns_of_restriction(fit_options)
    table = table.select_features(names=None, attributes=restriction_columns)
    with overall_progress("fitting", **_STAGE_SHARES):
        fair, models_to_audit = fitting.fit_fair_model(table, fit_options)
        result = model_auditing.audit_data(table, models_to_audit, audit_options)
    fair.save(model)
    certificate = fair.require_certificate()
    results = {
        "model": str(model),
        "certificate": certificate.to_dict(),
        **result.to_dict(),
    }
    proof = f"{printed_results.certificate_text(certificate)}\nSaved to {model}"
    text = f"{printed_results.audit_text(result)}\n\n{proof}"
    printed_results.print_results(results, text, as_json=as_json)


@command(
    short_help="Write an HTML report on DATA.",
    examples=(
        "fairspan report patients.csv --group sex -d 2 -o patients.html",
        "fairspan report patients.csv --group sex --model patients.model --json",
    ),
)
@options.DATA
@output_option("-o", "--output", "page", type=OUTPUT_FILE, help="Path of the HTML report.")
@output_option(
    "--format",
    "page_format",
    type=click.Choice(["html", "text"]),
    default="html",
    help="html: write a page to -o; text: print the verdict and what each criterion changes for "
    "each group, without a page.",
)
@options.with_read_options
@options.UNSEEN_CATEGORIES
@options.with_criterion_options
@options.with_report_options
@options.with_audit_options
@options.FAIL_ON
@options.JSON
def report(
    data: Path | ExternalObject,
    page: Path | None,
    page_format: Literal["html", "text"],
    read_options: ReadOptions,
    fit_options: FitOptions,
    report_options: ReportOptions,
    audit_options: AuditOptions,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write an HTML report on how PCA affects each group of DATA.

    It also shows what fair criteria would change. The page is a single self-contained file; the
    same data and options produce an identical file. Its contents can also be printed (--format
    text, or --json), and then no page is needed.
    """
    usage_error_if(
        page is None and page_format == "html" and not as_json,
        "Give the path of the page with -o, or print its contents with --format text or --json.",
    )
    usage_error_if(
        page is not None and page_format == "text",
        "--format text writes no page: omit it, or omit -o.",
    )
    models = report_options.models
    test_path = report_options.test_path
    require_models(models, read_options, test_path)
    audit_options.require_folds()
    conditions = gate.parse_fail_on(
        fail_on, has_folds=bool(audit_options.folds), has_other_rows=bool(models)
    )
    if page is not None:
        check_output_file(page, "a page is", data, *models, test_path, suffixes=_PAGE_SUFFIXES)
    from fairspan.cli import printed_results, reporting

    built_report = reporting.build_file_report(
        data,
        page,
        read_options,
        fit_options,
        audit_options,
        report_options,
        command_line_arguments(),
        has_center=is_on_command_line("center"),
    )
    checked_audit = built_report.audit
    if built_report.user_models is not None:
        checked_audit = built_report.user_models.audit
    failures = gate.check_failures(checked_audit, conditions, has_saved_models=bool(models))
    if as_json:
        click.echo(printed_results.to_json(built_report.to_dict()))
    else:
        click.echo(reporting.report_summary(built_report, page))
    gate.exit_on_failures(failures)


@command(
    short_help="Verify the certificate of a saved model.",
    examples=(
        "fairspan verify patients.model patients.csv --group sex",
        "fairspan verify patients.model patients.csv --group sex --json",
    ),
)
@click.argument("model", type=INPUT_FILE)
@options.DATA
@options.with_read_options
@options.CUSTOM_OBJECTS
@options.JSON
def verify(
    model: Path,
    data: Path | ExternalObject,
    read_options: ReadOptions,
    custom_objects: tuple[ExternalObject, ...],
    as_json: bool,
) -> None:
    """Verify the certificate of a saved MODEL with the rows in DATA.

    DATA are the training rows of the model, or their moments. Errors, objective and lower bound
    are recomputed from second moments; no solver is used. Exit status: 0 the certificate holds, 1
    it does not hold, 2 invalid usage or input, 3 internal error.
    """
    from fairspan.cli import model_auditing, printed_results
    from fairspan.cross_decomposition.file_kind import PAIRED_FILE
    from fairspan.storage.archive import peek_kind

    try:
        if peek_kind(model) == PAIRED_FILE.name:
            from fairspan.cli.fitting_pairs import verify_pair_of_file

            verification = verify_pair_of_file(model, data, read_options)
        else:
            verification = model_auditing.verify_model(model, data, read_options, custom_objects)
    except (FairspanError, OSError, MemoryError, click.ClickException, click.Abort):
        raise  # reported like those of every command
    except Exception:
        # Python would exit with status 1, which means that the certificate does not hold.
        traceback.print_exc()
        raise click.exceptions.Exit(_EXIT_INTERNAL_ERROR) from None
    results = {"model": str(model), **vars(verification)}
    printed_results.print_results(results, str(verification), as_json=as_json)
    if not verification.holds:
        raise click.exceptions.Exit(_EXIT_NOT_VERIFIED)


@command(
    short_help="Look at a saved model on new rows, month after month.",
    examples=(
        "fairspan watch patients.model may.csv --group sex --history looks.json",
        "fairspan watch patients.model june.csv --group sex --history h.json -o h.html",
    ),
)
@click.argument("model", type=INPUT_FILE)
@options.DATA
@output_option(
    "--history",
    "history_path",
    type=OUTPUT_FILE,
    required=True,
    help="JSON file of the looks so far, to which this one is added; created by the first.",
)
@output_option(
    "-o",
    "--output",
    "page",
    type=OUTPUT_FILE,
    help="HTML page with a chart and a table of all looks.",
)
@output_option(
    "--date",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Date of the rows; by default today.",
)
@output_option("--force", is_flag=True, help="Add a look at rows that the history has already.")
@output_option(
    "--fail-on",
    multiple=True,
    metavar="CONDITION[,...]",
    help="Exit with status 3 if the error of a group has risen (drift), or if nothing is known of "
    "a group (inconclusive).",
)
@options.with_read_options
@options.UNSEEN_CATEGORIES
@audit_option(
    "--clusters",
    metavar="COL",
    help="Column that identifies clusters of rows, such as the person of each row.",
)
@audit_option(
    "--level",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    metavar="P",
    help="Confidence level of all looks together; by default that of the history, or 0.95.",
)
@options.CUSTOM_OBJECTS
@options.JSON
def watch(
    model: Path,
    data: Path | ExternalObject,
    history_path: Path,
    page: Path | None,
    date: datetime.datetime | None,
    force: bool,
    fail_on: tuple[str, ...],
    read_options: ReadOptions,
    clusters: str | None,
    level: float | None,
    custom_objects: tuple[ExternalObject, ...],
    as_json: bool,
) -> None:
    """Compare the errors of a saved MODEL on DATA with those at its fit, for each group.

    DATA are rows that came after the fit, such as those of a month. The look is added to the
    history, unless anything is wrong. Look t spends alpha / (t (t + 1)) of alpha = 1 - LEVEL, so
    that the probability of any false alarm is at most alpha, however long the model is watched.
    """
    check_output_file(history_path, "a history is", model, data, suffixes=(".json",))
    if page is not None:
        check_output_file(page, "a page is", model, data, history_path, suffixes=_PAGE_SUFFIXES)
        from fairspan.report.write_report import check_page_path

        check_page_path(page)  # its packages are checked before rows are read
    from fairspan.cli import printed_results, watching

    # Conditions are checked before a look is added.
    conditions = watching.parse_conditions_of_looks(fail_on)
    history = watching.add_look(
        model,
        data,
        history_path,
        read_options,
        date=date,
        clusters=clusters,
        level=level,
        custom_objects=custom_objects,
        force=force,
    )
    results = watching.watch_record(history, history_path)
    text = watching.watch_text(history)
    if page is not None:
        from fairspan.rows.labels import printable

        history.write_report(page)
        results["page"] = str(page)
        text = f"{text}\n\nWritten to {printable(str(page))}"
    printed_results.print_results(results, text, as_json=as_json)
    gate.exit_on_failures(watching.look_failures(history.looks[-1], conditions))


@command(
    examples=(
        "fairspan transform patients.model new.csv -o reduced.parquet",
        "fairspan transform patients.model --as sql",
    )
)
@click.argument("model", type=INPUT_FILE)
@options.OPTIONAL_DATA
@output_option(
    "-o",
    "--output",
    "out",
    type=OUTPUT_FILE,
    help="CSV, Parquet or Arrow file, by extension; - writes CSV to standard output.",
)
@output_option(
    "--as",
    "language",
    type=click.Choice(["sql"]),
    help="Print the model as a SQL query (SELECT ... FROM data) instead of transforming DATA.",
)
@output_option(
    "--one-hot",
    is_flag=True,
    help="With --as sql: encode text columns that MODEL has as indicators column=category.",
)
@options.with_transform_options
@options.JSON
def transform(
    model: Path,
    data: Path | ExternalObject | None,
    out: Path | None,
    language: str | None,
    read_options: ReadOptions,
    as_json: bool,
) -> None:
    """Reduce DATA with a saved MODEL. Columns are matched by name; no group column is needed."""
    from fairspan.cli import printed_results
    from fairspan.cli.row_input import is_archive_file
    from fairspan.cli.transform import transform_file
    from fairspan.model.subspace import FairSubspace

    if language is not None:
        usage_error_if(
            data is not None or out is not None or as_json,
            "--as sql cannot be combined with DATA, -o or --json.",
        )
        rejected = read_options.changed_options - {"one_hot"}
        read_options.reject_options("--as sql reads no rows", rejected)
        click.echo(FairSubspace.load(model).to_sql(one_hot=read_options.columns.one_hot))
        return
    usage_error_if(
        read_options.columns.one_hot,
        "--one-hot requires --as sql; DATA is encoded as in the fit of MODEL.",
    )
    if data is None or out is None:
        raise click.UsageError("Give DATA and the output path -o, or use --as sql.")
    check_output_path(out, data, model)
    usage_error_if(
        isinstance(data, Path) and is_archive_file(data) and not is_archive_file(model),
        f"{data} holds a model or moments, and {model} does not: the model comes first, as in "
        f"fairspan transform {data} {model} -o {out}.",
    )
    usage_error_if(
        as_json and str(out) == "-",
        "--json cannot be combined with -o -: both write to standard output.",
    )
    results = transform_file(model, data, out, read_options)
    if str(out) != "-":
        text = printed_results.transform_text(results)
        printed_results.print_results(results, text, as_json=as_json)


@command(
    short_help="Compute the moments of DATA, which suffice for a fit.",
    examples=(
        "fairspan moments north.csv --group sex -o north.moments",
        "fairspan moments south.csv --group sex --min-group-size 5 -o south.moments",
    ),
)
@options.DATA
@output_option(
    "-o",
    "--output",
    "out",
    type=OUTPUT_FILE_OR_FOLDER,
    required=True,
    help="Path of the moments: NAME.moments, or a folder if DATA is a folder.",
)
@options.with_read_options
@output_option(
    "--min-group-size",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Drop groups with fewer rows, whose rows could be recovered.",
)
@options.JSON
def moments(
    data: Path | ExternalObject,
    out: Path,
    read_options: ReadOptions,
    min_group_size: int,
    as_json: bool,
) -> None:
    """Compute the moments of DATA: number of rows, weight, mean and covariance of each group.

    If DATA is a folder and OUTPUT does not end in .moments, OUTPUT is a folder with one file of
    moments per file of rows and a manifest.json. If interrupted, run the same command again to
    compute the missing ones; `fairspan merge OUTPUT` combines them.
    """
    as_folder = isinstance(data, Path) and data.is_dir() and out.suffix != ".moments"
    usage_error_if(
        as_folder and min_group_size > 1,
        "--min-group-size applies to all files together: use an output NAME.moments.",
    )
    check_output_file(out, "moments are", data, as_folder=as_folder)
    from fairspan.cli import moments_files, printed_results
    from fairspan.cli.moments_folder import write_moments_folder

    if as_folder:
        saved_moments = write_moments_folder(data, out, read_options)
        n_groups_dropped = 0  # a group that is small in one file may be large overall
    else:
        saved_moments, n_groups_dropped = moments_files.write_moments(
            data, out, read_options, min_group_size
        )
    results = {
        **moments_files.moments_record(saved_moments, out),
        "n_groups_dropped": n_groups_dropped,
    }
    groups = to_ascii(format_count(n_groups_dropped, "group"))
    lines = [printed_results.table_text(saved_moments.table())]
    if n_groups_dropped:
        lines.append(f"Left out: {groups} of fewer than {counted(min_group_size, 'row')}")
    text = "\n".join([*lines, f"Saved to {out}"])
    printed_results.print_results(results, text, as_json=as_json)


@command(
    short_help="Merge files of moments.",
    examples=(
        "fairspan merge north.moments south.moments -o both.moments",
        "fairspan merge north.moments south.moments -o both.moments --json",
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@output_option(
    "-o", "--output", "out", type=OUTPUT_FILE, required=True, help="Path of the merged moments."
)
@output_option(
    "--label-type",
    "label_type",
    type=click.Choice(["original", "text"]),
    default="original",
    help="With text, labels 1 and '1' are treated as the same group.",
)
@options.JSON
def merge(files: tuple[Path, ...], out: Path, label_type: str, as_json: bool) -> None:
    """Merge FILES of moments of disjoint rows.

    A folder written by `fairspan moments` stands for all of its files, none of which may be
    missing. Features are matched by name. The result equals the moments of all rows in one pass,
    and can be used as DATA of `fit` and `audit`.
    """
    check_output_file(out, "moments are", *files)
    from fairspan.cli import moments_files, printed_results

    merged, n_files = moments_files.merge_moments_files(
        files, out, labels_as_text=label_type == "text"
    )
    results = {**moments_files.moments_record(merged, out), "files": list(map(str, files))}
    summary = f"Merged {to_ascii(format_count(n_files, 'file'))} into {out}"
    text = f"{printed_results.table_text(merged.table())}\n{summary}"
    printed_results.print_results(results, text, as_json=as_json)
