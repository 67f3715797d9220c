"""The commands that fit, audit and verify: each parses, calls what does the work, and prints."""

import traceback
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fairspan.cli import options
from fairspan.cli.help import command, judged_option, output_option
from fairspan.cli.options import Fitting, Reading, refuse_text
from fairspan.cli.parameters import FILE, OUT, Named, Value
from fairspan.errors import FairspanError
from fairspan.registry import Foreign
from fairspan.report.outputs import refuse_overwriting

_DOES_NOT_HOLD, _INTERNAL_FAILURE = 1, 3


@command(
    short_help="Show on real data what PCA does to two groups.",
    examples=("fairspan demo", "fairspan demo -o breast-cancer.html"),
)
@output_option(
    "-o",
    "--output",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    default="fairspan-demo.html",
    help="Where to write the whole audit as a page.",
)
@options.JSON
def demo(page: Path, as_json: bool) -> None:
    """Show on real data what PCA does to two groups, and what a repair changes.

    The whole audit is written as a page, where the extra `report` is installed.
    """
    from fairspan.cli import demonstration, output

    refuse_overwriting(page)
    missing = demonstration.missing_for_page(page)
    fit, result, data = demonstration.demo_facts()
    if missing is None:
        demonstration.write_demo_page(page, data)
    if not as_json:
        click.echo(demonstration.demo_screen(fit, result, data))
    certificate = {"certificate": output.certificate_facts(fit), **result.to_dict()}
    written = {"page": str(page) if missing is None else None}
    facts = {"data": data.name, **certificate, **written}
    words = missing or f"The whole audit as a page: {page}"
    click.echo(output.in_json(facts) if as_json else words)


@command(
    examples=(
        "fairspan audit patients.csv --group sex --standardize -d 2",
        "fairspan audit patients.csv --group sex --by-dimension --level 0.9",
    )
)
@options.DATA
@options.reads_rows
@options.UNSEEN
@options.chooses_dimension
@judged_option(
    "--model",
    "models",
    multiple=True,
    type=FILE,
    help="Audit a saved model instead of plain PCA (repeatable).",
)
@options.PARTS
@judged_option(
    "--by-dimension",
    is_flag=True,
    help="Show the expected loss of each group for several numbers of dimensions.",
)
@options.estimates
@options.JSON
def audit(
    data: Path | Foreign,
    reading: Reading,
    n_components: int | float | None,
    center: str,
    standardize: bool,
    models: tuple[Path, ...],
    parts: tuple[Foreign, ...],
    by_dimension: bool,
    folds: int,
    clusters: str | None,
    level: float,
    material: float,
    as_json: bool,
) -> None:
    """Show what plain PCA does to each group of DATA.

    DATA is a CSV, Parquet or Arrow file, a folder of Parquet files, or saved moments; it may be
    larger than memory.
    """
    from fairspan.cli import inputs, output

    options.refuse_without_models(models, reading, None)
    if by_dimension and models:
        raise click.UsageError("A saved model has its own dimensions: no --by-dimension.")
    if by_dimension and n_components is not None:
        raise click.UsageError("--by-dimension looks at several numbers of dimensions: no -d.")
    options.refuse_without_folds(folds, clusters, by_dimension=by_dimension)
    audited = []
    if models:
        # The default centre is not one that was requested.
        asked = click.get_current_context().get_parameter_source("center")
        given = center if asked is ParameterSource.COMMANDLINE else None
        audited = inputs.saved_models(models, n_components, given, standardize, parts)
        reading.refuse_beside(audited[0].subspace.feature_names)
    table = inputs.open_input(data, reading, clusters)
    wanted = inputs.wanted_estimates(folds, level, material, by_cluster=clusters is not None)
    if by_dimension:
        found = inputs.audit_by_dimension(table, center, wanted, standardize=standardize)
        facts, words = output.facts_by_dimension(found), output.table_by_dimension(found)
        click.echo(output.in_json(facts) if as_json else words)
        return
    if audited:
        table = table.selected(audited[0].subspace.feature_names)
    else:
        audited = [inputs.plain_model(table, n_components, center, standardize)]
    result = inputs.audited_table(table, audited, wanted)
    click.echo(output.in_json(result.to_dict()) if as_json else output.audit_in_words(result))


@command(
    short_help="Fit fair PCA to DATA, save it, and compare it with PCA.",
    examples=(
        "fairspan fit patients.csv --group sex -o patients.model",
        "fairspan fit patients.csv --group sex -d 3 --nested -o nested.model",
    ),
)
@options.DATA
@output_option("-o", "--output", "model", type=OUT, required=True, help="Where to save the model.")
@output_option(
    "--force", is_flag=True, help="Replace a file that is not a model of these settings."
)
@options.reads_rows
@options.chooses_dimension
@options.fits
@options.estimates
@options.JSON
def fit(
    data: Path | Foreign,
    model: Path,
    force: bool,
    reading: Reading,
    n_components: int | float | None,
    center: str,
    standardize: bool,
    fitting: Fitting,
    folds: int,
    clusters: str | None,
    level: float,
    material: float,
    as_json: bool,
) -> None:
    """Fit fair PCA to DATA and save it; print PCA beside it, and the proof of optimality."""
    from fairspan.cli import inputs, output
    from fairspan.cli.fitting import fair_models, refuse_replacing
    from fairspan.storage import writing

    refuse_overwriting(model, data)
    refuse_text(model, "a model is")
    if not force:
        refuse_replacing(model, n_components, center, standardize, fitting)
    options.refuse_without_folds(folds, clusters)
    table = inputs.open_input(data, reading, clusters)
    wanted = inputs.wanted_estimates(folds, level, material, by_cluster=clusters is not None)
    fitted, audited = fair_models(table, n_components, center, standardize, fitting)
    result = inputs.audited_table(table, audited, wanted)
    with writing(model):
        fitted.subspace.save(model)
    certificate = {"certificate": output.certificate_facts(fitted)}
    facts = {"model": str(model), **certificate, **result.to_dict()}
    proof = f"{output.certificate_in_words(fitted)}\nSaved to {model}"
    words = f"{output.audit_in_words(result)}\n\n{proof}"
    click.echo(output.in_json(facts) if as_json else words)


@command(
    short_help="Write a page about the effect of PCA on each group of DATA.",
    examples=(
        "fairspan report patients.csv --group sex -d 2 -o patients.html",
        "fairspan report patients.csv --group sex --model patients.model --json",
    ),
)
@options.DATA
@output_option("-o", "--output", "page", type=OUT, help="Where to write the page, as HTML.")
@options.reads_rows
@options.UNSEEN
@options.chooses_dimension
@options.chooses_criterion
@output_option(
    "--display",
    "displays",
    multiple=True,
    type=Named("display"),
    metavar="NAME",
    help="A picture beside those of every page, such as loadings (repeatable).",
)
@judged_option(
    "--model",
    "models",
    multiple=True,
    type=FILE,
    help="A saved model, which gets a section of the page (repeatable).",
)
@options.PARTS
@output_option(
    "--compare",
    "criteria",
    multiple=True,
    type=Named("criterion"),
    metavar="NAME",
    help="A criterion beside the main one (repeatable); by default all.",
)
@judged_option("--test", type=FILE, help="Held-out rows on which the models are audited.")
@options.estimates_of_page
@output_option("--title", metavar="TEXT", help="Title of the page.")
@options.JSON
def report(
    data: Path | Foreign,
    page: Path | None,
    reading: Reading,
    criterion: str | Foreign,
    parameters: dict[str, Value],
    models: tuple[Path, ...],
    parts: tuple[Foreign, ...],
    test: Path | None,
    folds: int,
    level: float,
    material: float,
    title: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Write one page on what PCA does to each group of DATA, and what fair criteria would change.

    The page is one HTML file that loads nothing else; the same data and options give an identical
    file. --json prints all that it shows, and then needs no page.
    """
    if page is None and not as_json:
        raise click.UsageError("Name the page with -o, or print its facts with --json.")
    options.refuse_without_models(models, reading, test)
    if page is not None:
        refuse_overwriting(page, data, *models, *([] if test is None else [test]))
        refuse_text(page, "a page is", ".html", ".htm")
    from fairspan.cli import inputs, output, reporting

    settings["scale"] = settings.pop("standardize")
    settings["criteria"] = settings["criteria"] or None
    settings["estimates"] = inputs.wanted_estimates(folds, level, material)
    typed = click.get_current_context().find_root().obj or ()
    facts = reporting.report_of_file(
        data, page, reading, criterion, parameters, settings, typed, models, parts, test, title
    )
    click.echo(output.in_json(facts) if as_json else reporting.summary(facts, page))


@command(
    short_help="Check the certificate of a model.",
    examples=(
        "fairspan verify patients.model patients.csv --group sex",
        "fairspan verify patients.model patients.csv --group sex --json",
    ),
)
@click.argument("model", type=FILE)
@options.DATA
@options.reads_rows
@options.PARTS
@options.JSON
def verify(
    model: Path, data: Path | Foreign, reading: Reading, parts: tuple[Foreign, ...], as_json: bool
) -> None:
    """Check the certificate of a saved MODEL with the rows in DATA.

    DATA is what the model was fitted on, or moments of it. Errors, objective and lower bound are
    recomputed from second moments; no solver is used.

    Exit status: 0 the certificate holds, 1 it does not, 2 bad usage or bad input, 3 internal
    failure.
    """
    from fairspan.cli import inputs, output

    try:
        found = inputs.verified_model(model, data, reading, parts)
    except (FairspanError, OSError, MemoryError, click.ClickException, click.Abort):
        raise
    except Exception:
        traceback.print_exc()
        raise click.exceptions.Exit(_INTERNAL_FAILURE) from None
    facts = {"model": str(model), **vars(found)}
    click.echo(output.in_json(facts) if as_json else str(found))
    if not found.holds:
        raise click.exceptions.Exit(_DOES_NOT_HOLD)
