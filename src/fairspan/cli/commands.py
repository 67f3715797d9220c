"""The commands."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from fairspan.cli import options
from fairspan.cli.outputs import refuse_overwriting
from fairspan.cli.parameters import Value
from fairspan.cli.reading import Reading

if TYPE_CHECKING:
    from fairspan.auditing.audit import Audit
    from fairspan.auditing.models import Audited
    from fairspan.cli.inputs import Table

_OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_MODEL = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Show on real data what PCA does to two groups.")
@click.option(
    "-o",
    "--output",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    default="fairspan-demo.html",
    show_default=True,
    help="Where to write the whole audit as a page.",
)
@options.JSON
def demo(page: Path, as_json: bool) -> None:
    """Show on real data what PCA does to two groups, and what it costs to repair that.

    The whole audit is written as a page, where the extra `report` is installed.
    """
    from fairspan.cli.demo import demo_facts, demo_screen, missing_for_page, write_demo_page
    from fairspan.cli.output import certificate_facts, echo_json

    refuse_overwriting(page)
    missing = missing_for_page(page)
    fit, result, data = demo_facts()
    if not as_json:
        click.echo(demo_screen(fit, result, data))
    if missing is None:
        write_demo_page(page, data)
    if as_json:
        facts = {"data": data.name, "certificate": certificate_facts(fit), **result.to_dict()}
        echo_json({**facts, "page": str(page) if missing is None else None})
    else:
        click.echo(f"The whole audit as a page: {page}" if missing is None else missing)


@click.command()
@options.DATA
@options.reads_rows
@options.chooses_dimension
@click.option(
    "--model",
    "models",
    multiple=True,
    type=_MODEL,
    help="Audit a model that fit wrote, in place of plain PCA (repeatable).",
)
@options.JSON
def audit(
    data: Path | str,
    reading: Reading,
    n_components: int | None,
    center: str,
    standardize: bool,
    models: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show what plain PCA does to each group of DATA.

    DATA is a CSV, Parquet or Arrow file, a folder of Parquet files, or saved moments; it may be
    larger than memory.
    """
    from fairspan.cli.inputs import open_input, plain_model, saved_models
    from fairspan.cli.output import audit_in_words, echo_json

    if models and (reading.features or reading.exclude):
        raise click.UsageError("A saved model brings its features: no --features, no --exclude.")
    table = open_input(data, reading)
    if models:
        # The default centre is not one that was asked for.
        asked = click.get_current_context().get_parameter_source("center")
        given = center if asked is ParameterSource.COMMANDLINE else None
        audited = saved_models(models, n_components, given, standardize)
        table = table.selected(audited[0].subspace.feature_names)
    else:
        audited = [plain_model(table, n_components, center, standardize)]
    result = _audited(table, audited)
    if as_json:
        echo_json(result.to_dict())
    else:
        click.echo(audit_in_words(result))


@click.command(short_help="Fit fair PCA to DATA, save it, and compare it with PCA.")
@options.DATA
@click.option("-o", "--output", "model", type=_OUT, required=True, help="Where to save the model.")
@options.reads_rows
@options.chooses_dimension
@options.fits
@options.JSON
def fit(
    data: Path | str,
    model: Path,
    reading: Reading,
    n_components: int | None,
    center: str,
    standardize: bool,
    criterion: str,
    parameters: dict[str, Value],
    as_json: bool,
) -> None:
    """Fit fair PCA to DATA and save it; print PCA beside it, and the proof of optimality."""
    from fairspan.cli.inputs import fair_models, open_input
    from fairspan.cli.output import (
        audit_in_words,
        certificate_facts,
        certificate_in_words,
        echo_json,
    )
    from fairspan.storage import writing

    if str(model) == "-":
        raise click.UsageError("A model is no text to print; name a file with -o.")
    refuse_overwriting(model, data)
    table = open_input(data, reading)
    fitted, audited = fair_models(table, n_components, center, standardize, criterion, parameters)
    result = _audited(table, audited)
    with writing(model):
        fitted.subspace.save(model)
    if as_json:
        facts = certificate_facts(fitted)
        echo_json({"model": str(model), "certificate": facts, **result.to_dict()})
    else:
        click.echo(f"{audit_in_words(result)}\n\n{certificate_in_words(fitted)}\nSaved to {model}")


@click.command()
@click.argument("model", type=_MODEL)
@options.DATA
@click.option(
    "-o",
    "--output",
    "out",
    type=_OUT,
    required=True,
    help="CSV, Parquet or Arrow file by its ending; - writes CSV to standard output.",
)
@options.JSON
def transform(model: Path, data: Path | str, out: Path, as_json: bool) -> None:
    """Reduce DATA with a saved MODEL. Columns are matched by name; no group column is needed."""
    from fairspan.cli.output import echo_json
    from fairspan.cli.transforming import transform_file

    refuse_overwriting(out, data, model)
    if as_json and str(out) == "-":
        raise click.UsageError("--json and -o - would both write to standard output.")
    n_rows, columns = transform_file(model, data, out)
    if as_json:
        echo_json({"output": str(out), "n_rows": n_rows, "columns": columns})
    elif str(out) != "-":
        click.echo(f"Wrote {n_rows} rows of {len(columns)} components to {out}")


def _audited(table: "Table", audited: "list[Audited]") -> "Audit":
    from fairspan.auditing.audit import audit_moments, audit_rows

    if table.source is None:
        return audit_moments(audited, [table.moments])
    return audit_rows(audited, table.rows("auditing"), table.moments)
