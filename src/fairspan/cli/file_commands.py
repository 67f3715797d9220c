"""The commands that turn files into files: reduced rows, moments, and moments that are merged."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fairspan.cli import options
from fairspan.cli.help import command, output_option
from fairspan.cli.options import Reading, refuse_text
from fairspan.cli.parameters import FILE, FILE_OR_FOLDER, OUT
from fairspan.formatting.numbers import count, in_ascii
from fairspan.registry import Foreign
from fairspan.report.outputs import refuse_overwriting


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
    one_hot: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Reduce DATA with a saved MODEL. Columns are matched by name; no group column is needed."""
    from fairspan.cli import output, transforming
    from fairspan.storage import is_archive
    from fairspan.subspace import FairSubspace

    if language is not None:
        if data is not None or out is not None or as_json:
            raise click.UsageError("--as sql prints a query of MODEL alone: no DATA, -o or --json.")
        usual = vars(transforming.Transforming())
        if asked := [name for name in chosen if chosen[name] != usual[name]]:
            option = f"--{asked[0].replace('_', '-')}"
            raise click.UsageError(f"--as sql prints a query, and reads no rows: no {option}.")
        click.echo(FairSubspace.load(model).to_sql(one_hot=one_hot))
        return
    if one_hot:
        raise click.UsageError("--one-hot is for --as sql: DATA is encoded as MODEL was fitted.")
    if data is None or out is None:
        raise click.UsageError("Name DATA, and the output with -o; or print a query, --as sql.")
    refuse_overwriting(out, data, model)
    if isinstance(data, Path) and data.is_file() and is_archive(data) and not is_archive(model):
        raise click.UsageError(
            f"{data} holds a model or moments, and {model} does not: the model comes first, as in "
            f"fairspan transform {data} {model} -o {out}."
        )
    if as_json and str(out) == "-":
        raise click.UsageError("--json and -o - would both write to standard output.")
    written = transforming.transform_file(model, data, out, transforming.Transforming(**chosen))
    facts = {"output": str(out), **asdict(written)}
    words = f"Wrote {in_ascii(written.in_words())} to {out}"
    if str(out) != "-":
        click.echo(output.in_json(facts) if as_json else words)


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
    if as_folder and min_group_size > 1:
        raise click.UsageError(
            "--min-group-size counts the rows of all files: name the output NAME.moments."
        )
    refuse_overwriting(out, data, as_folder=as_folder)
    refuse_text(out, "moments are")
    from fairspan.cli import output, writing

    n_left_out = 0
    if as_folder:
        assert isinstance(data, Path)
        made = writing.make_folder_of_moments(data, out, reading)
    else:
        made, n_left_out = writing.make_moments(data, out, reading, min_group_size)
    if as_json:
        facts = {**writing.facts_of(made, out), "groups_left_out": n_left_out}
        click.echo(output.in_json(facts))
        return
    click.echo(writing.in_words(made))
    if n_left_out:
        groups = in_ascii(count(n_left_out, "group"))
        click.echo(f"Left out: {groups} of fewer than {min_group_size} rows")
    click.echo(f"Saved to {out}")


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
    refuse_overwriting(out, *files)
    refuse_text(out, "moments are")
    from fairspan.cli import output, writing

    merged, n_files = writing.merge_moments(files, out, labels_as_text=labels_as == "text")
    facts = {**writing.facts_of(merged, out), "files": list(map(str, files))}
    counted = in_ascii(count(n_files, "file"))
    words = f"{writing.in_words(merged)}\nMerged {counted} into {out}"
    click.echo(output.in_json(facts) if as_json else words)
