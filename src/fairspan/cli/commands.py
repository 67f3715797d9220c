"""The commands: each parses, calls what does the work, and prints."""

import traceback
from pathlib import Path

import click
from click.core import ParameterSource

from fairspan.cli import options
from fairspan.cli.options import (
    Fitting,
    Judging,
    Reading,
    check_output,
    command,
    judged_option,
    output_option,
    refuse_if,
)
from fairspan.cli.parameters import FILE, FILE_OR_FOLDER, OUT, Named
from fairspan.errors import FairspanError
from fairspan.formatting.text import count, counted, in_ascii
from fairspan.progress import whole
from fairspan.registry import Foreign
from fairspan.report.outputs import refuse_overwriting

_DOES_NOT_HOLD, _INTERNAL_FAILURE = 1, 3
# About how much of the time each step of an audit takes.
_STEPS = {"reading": 30, "auditing": 30, "fitting again without each part": 40}


@command(
    short_help="Show on real data what PCA does to two groups.",
    examples=("fairspan demo", "fairspan demo -o people.html"),
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
    from fairspan.cli import output, reporting

    refuse_overwriting(page)
    missing = reporting.missing_for_page(page)
    certificate, result, data = reporting.demo_facts()
    if missing is None:
        reporting.write_demo_page(page, data)
    if not as_json:
        click.echo(reporting.demo_screen(certificate, result, data))
    facts = {
        "data": data.name,
        "certificate": certificate.to_dict(),
        **result.to_dict(),
        "page": str(page) if missing is None else None,
    }
    click.echo(
        output.in_json(facts) if as_json else (missing or f"The whole audit as a page: {page}")
    )


@command(
    examples=(
        "fairspan audit patients.csv --group sex --standardize -d 2",
        "fairspan audit patients.csv --group sex --by-dimension --level 0.9",
    )
)
@options.SEVERAL_DATA
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
@judged_option("--test", type=FILE, help="Held-out rows on which the models are audited.")
@options.judges
@options.JSON
def audit(
    data: tuple[Path | Foreign, ...],
    reading: Reading,
    fitting: Fitting,
    models: tuple[Path, ...],
    parts: tuple[Foreign, ...],
    by_dimension: bool,
    test: Path | None,
    judging: Judging,
    as_json: bool,
) -> None:
    """Show what plain PCA does to each group of DATA.

    DATA is a CSV, Parquet or Arrow file, a folder of Parquet files, or saved moments; it may be
    larger than memory. With --test, plain PCA is fitted on DATA and judged on the other rows.
    Several files of saved moments are audited together: their differences give the intervals.
    """
    from fairspan.cli import inputs, output
    from fairspan.cli.reading import reading_for

    options.refuse_without_models((*models, *([test] if test else ())), reading, None)
    refuse_if(by_dimension and test, "--by-dimension looks at the rows of DATA: no --test.")
    refuse_if(by_dimension and models, "A saved model has its own dimensions: no --by-dimension.")
    refuse_if(
        by_dimension and fitting.n_components is not None,
        "--by-dimension looks at several numbers of dimensions: no -d.",
    )
    judging.refuse_without_folds(by_dimension=by_dimension)
    # The default centre is not one that was requested.
    asked = click.get_current_context().get_parameter_source("center")
    has_center = asked is ParameterSource.COMMANDLINE
    audited = inputs.saved_models(models, fitting, parts, has_center=has_center)
    names = audited[0].subspace.feature_names if audited else None
    reading.refuse_beside(names)
    beside = inputs.columns_of_models(audited)
    reading = reading_for([each.subspace for each in audited], data[0], reading)
    table = inputs.open_inputs(data, reading, judging.clusters).selected(names, beside)
    table = table.matched_to(inputs.labels_of_models(audited, has_classes=table.has_labels))
    with whole("auditing", **_STEPS):
        if by_dimension:
            found = inputs.audit_by_dimension(table, fitting, judging)
            facts, words = output.facts_by_dimension(found), output.words_by_dimension(found)
        else:
            audited = audited or [inputs.plain_model(table, fitting)]
            held_out = None
            if test is not None:
                features = table.moments.feature_names
                held_out = inputs.held_out_rows(test, reading, features, beside, judging.clusters)
            result = inputs.audited_table(table, audited, judging, held_out)
            facts, words = result.to_dict(), output.audit_in_words(result)
    click.echo(output.in_json(facts) if as_json else words)


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
@options.fits
@options.judges
@options.JSON
def fit(
    data: Path | Foreign,
    model: Path,
    force: bool,
    reading: Reading,
    fitting: Fitting,
    judging: Judging,
    as_json: bool,
) -> None:
    """Fit fair PCA to DATA and save it; print PCA beside it, and the proof of optimality."""
    from fairspan.cli import inputs, output

    check_output(model, "a model is", data)
    if not force:
        inputs.refuse_replacing(model, fitting)
    judging.refuse_without_folds()
    table = inputs.open_input(data, reading, judging.clusters)
    table = table.selected(None, inputs.columns_of_restriction(fitting))
    with whole("fitting", **_STEPS):
        fair, audited = inputs.fair_models(table, fitting)
        result = inputs.audited_table(table, audited, judging)
    fair.save(model)
    certificate = fair.proven
    facts = {
        "model": str(model),
        "certificate": certificate.to_dict(),
        **result.to_dict(),
    }
    proof = f"{output.certificate_in_words(certificate)}\nSaved to {model}"
    click.echo(output.in_json(facts) if as_json else f"{output.audit_in_words(result)}\n\n{proof}")


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
@options.judges
@output_option("--title", metavar="TEXT", help="Title of the page.")
@options.JSON
def report(
    data: Path | Foreign,
    page: Path | None,
    reading: Reading,
    fitting: Fitting,
    displays: tuple[str | Foreign, ...],
    models: tuple[Path, ...],
    parts: tuple[Foreign, ...],
    criteria: tuple[str | Foreign, ...],
    test: Path | None,
    judging: Judging,
    title: str | None,
    as_json: bool,
) -> None:
    """Write one page on what PCA does to each group of DATA, and what fair criteria would change.

    The page is one HTML file that loads nothing else; the same data and options give an identical
    file. --json prints all that it shows, and then needs no page.
    """
    refuse_if(
        page is None and not as_json, "Name the page with -o, or print its facts with --json."
    )
    options.refuse_without_models(models, reading, test)
    judging.refuse_without_folds()
    if page is not None:
        check_output(page, "a page is", data, *models, test, endings=(".html", ".htm"))
    from fairspan.cli import output, reporting

    settings = {
        "n_components": fitting.n_components,
        "center": fitting.center,
        "scale": fitting.standardize,
        "displays": displays,
        "criteria": criteria or None,
        "estimates": judging.expectations,
    }
    made = reporting.report_of_file(
        data,
        page,
        reading,
        fitting.criterion,
        fitting.parameters,
        settings,
        click.get_current_context().find_root().obj or (),
        models,
        parts,
        test,
        title,
        judging.clusters,
    )
    click.echo(output.in_json(made.to_dict()) if as_json else reporting.summary(made, page))


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
    click.echo(output.in_json({"model": str(model), **vars(found)}) if as_json else str(found))
    if not found.holds:
        raise click.exceptions.Exit(_DOES_NOT_HOLD)


@command(
    examples=(
        "fairspan transform patients.model new.csv -o reduced.parquet",
        "fairspan transform patients.model --as sql",
    )
)
@click.argument("model", type=FILE)
@options.MAYBE_DATA
@output_option(
    "-o",
    "--output",
    "out",
    type=OUT,
    help="CSV, Parquet or Arrow file by its ending; - writes CSV to standard output.",
)
@output_option(
    "--as",
    "language",
    type=click.Choice(["sql"]),
    help="Print the model as one SELECT ... FROM data, in place of reduced rows; takes no DATA.",
)
@output_option(
    "--one-hot",
    is_flag=True,
    help="With --as sql: DATA holds text where MODEL has indicators named column=category.",
)
@options.transforms
@options.JSON
def transform(
    model: Path,
    data: Path | Foreign | None,
    out: Path | None,
    language: str | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Reduce DATA with a saved MODEL. Columns are matched by name; no group column is needed."""
    from fairspan.cli import output
    from fairspan.cli.reading import holds_archive
    from fairspan.cli.writing import transform_file
    from fairspan.model.subspace import FairSubspace

    if language is not None:
        refuse_if(
            data is not None or out is not None or as_json,
            "--as sql prints a query of MODEL alone: no DATA, -o or --json.",
        )
        asked = reading.requested - {"one_hot"}
        reading.refuse("--as sql prints a query, and reads no rows", asked)
        click.echo(FairSubspace.load(model).to_sql(one_hot=reading.one_hot))
        return
    refuse_if(reading.one_hot, "--one-hot is for --as sql: DATA is encoded as MODEL was fitted.")
    if data is None or out is None:
        raise click.UsageError("Name DATA, and the output with -o; or print a query, --as sql.")
    refuse_overwriting(out, data, model)
    refuse_if(
        isinstance(data, Path) and holds_archive(data) and not holds_archive(model),
        f"{data} holds a model or moments, and {model} does not: the model comes first, as in "
        f"fairspan transform {data} {model} -o {out}.",
    )
    refuse_if(as_json and str(out) == "-", "--json and -o - would both write to standard output.")
    facts = transform_file(model, data, out, reading)
    if str(out) != "-":
        click.echo(output.in_json(facts) if as_json else output.transformed_in_words(facts))


@command(
    short_help="Compute the moments of DATA, which are all that a fit needs.",
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
    type=FILE_OR_FOLDER,
    required=True,
    help="Where to save the moments: a file, NAME.moments, or where DATA is a folder, a folder.",
)
@options.reads_rows
@output_option(
    "--min-group-size",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Leave out groups of fewer rows, so that none of their rows can be recovered.",
)
@options.JSON
def moments(
    data: Path | Foreign, out: Path, reading: Reading, min_group_size: int, as_json: bool
) -> None:
    """Make the moments of DATA: rows, weight, mean and covariance of each group, and no rows.

    Where DATA is a folder and OUTPUT is not named NAME.moments, OUTPUT is a folder too: of a
    complete file of moments for each file of rows, and manifest.json. After an interruption the
    same command makes those that are missing; `fairspan merge OUTPUT` adds them.
    """
    as_folder = isinstance(data, Path) and data.is_dir() and out.suffix != ".moments"
    refuse_if(
        as_folder and min_group_size > 1,
        "--min-group-size counts the rows of all files: name the output NAME.moments.",
    )
    check_output(out, "moments are", data, as_folder=as_folder)
    from fairspan.cli import output, writing

    making = writing.make_folder_of_moments if as_folder else writing.make_moments
    made, n_left_out = making(data, out, reading, min_group_size)
    facts = {**writing.facts_of(made, out), "groups_left_out": n_left_out}
    groups = in_ascii(count(n_left_out, "group"))
    left_out = f"\nLeft out: {groups} of fewer than {counted(min_group_size, 'row')}" * bool(
        n_left_out
    )
    words = f"{output.as_text(made.table())}{left_out}\nSaved to {out}"
    click.echo(output.in_json(facts) if as_json else words)


@command(
    short_help="Merge files of moments into the moments of all their rows.",
    examples=(
        "fairspan merge north.moments south.moments -o both.moments",
        "fairspan merge north.moments south.moments -o both.moments --json",
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@output_option("-o", "--output", "out", type=OUT, required=True, help="Where to save the moments.")
@output_option(
    "--labels-as",
    type=click.Choice(["they-are", "text"]),
    default="they-are",
    help="With text, the labels 1 and '1' are the same group.",
)
@options.JSON
def merge(files: tuple[Path, ...], out: Path, labels_as: str, as_json: bool) -> None:
    """Merge FILES of moments of different rows into the moments of all of them.

    A folder that `fairspan moments` made is read as all files in it. None of them may be missing.
    Features are matched by name. The result is what one pass over all the rows would give: `fit`
    and `audit` take it as DATA.
    """
    check_output(out, "moments are", *files)
    from fairspan.cli import output, writing

    merged, n_files = writing.merge_moments(files, out, labels_as_text=labels_as == "text")
    facts = {**writing.facts_of(merged, out), "files": list(map(str, files))}
    words = (
        f"{output.as_text(merged.table())}\nMerged {in_ascii(count(n_files, 'file'))} into {out}"
    )
    click.echo(output.in_json(facts) if as_json else words)
