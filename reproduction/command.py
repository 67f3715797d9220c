"""Reproduce a table or figure of the papers: progress, resumption, and what is written."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import click

from fairspan import cli
from fairspan.cli import options
from fairspan.formatting.terminal import output_width, wrap_text
from fairspan.progress import Stage, clear_progress_bar
from reproduction.registry import EXPERIMENTS, experiment_of

if TYPE_CHECKING:
    from reproduction.experiment import Experiment, Result

# Of everything random in the experiments.
_SEED = 0

_NAME_WIDTH = max(map(len, EXPERIMENTS)) + 4
_EPILOG = "\b\nExperiments:\n" + "\n".join(
    fill(f"  {name:{_NAME_WIDTH - 2}}{entry.title}", 76, subsequent_indent=" " * _NAME_WIDTH)
    for name, entry in EXPERIMENTS.items()
)


@click.command(
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.argument("name")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="FAIRSPAN_DATA",
    metavar="DIR",
    help="Folder with the data files; without it, the folder that FAIRSPAN_DATA names.",
)
@click.option("--quick", is_flag=True, help="A part of it, in under two minutes.")
@click.option("--full", is_flag=True, help="All that the paper did, however long it takes.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="Folder for NAME.csv, NAME.svg and NAME.png; by default the current one.",
)
@options.JSON
def reproduce(
    name: str, data: Path | None, quick: bool, full: bool, folder: Path, as_json: bool
) -> None:
    """Compute the table or figure NAME of the papers, and compare it with the printed one.

    Finished steps are kept in NAME.partial in the output folder: after an interruption the same
    command goes on where it stopped.
    """
    if quick and full:
        raise click.UsageError("Choose --quick or --full, not both.")
    experiment = experiment_of(name)
    effort = "full" if full else "normal"
    if quick:
        effort = "quick"
    result, paths, missing = reproduce_experiment(
        experiment, _data_folder(experiment, data), effort, folder
    )
    if as_json:
        from fairspan.cli.printed_results import to_json

        facts = {
            "name": name,
            "title": result.title,
            "source": experiment.source,
            "effort": effort,
            "columns": result.columns,
            "rows": result.rows,
            "notes": result.notes,
            "files": list(map(str, paths)),
        }
        click.echo(to_json(facts))
    else:
        from reproduction.writing import text_of

        width = output_width(sys.stdout)
        source = "\n".join(wrap_text(f"Source: {experiment.source}.", width, "  "))
        click.echo(f"{text_of(result, width)}\n\n{source}")
        # One below the other: paths are copied, so no line may end inside one.
        click.echo("Wrote " + "\n      ".join(map(str, paths)))
    if missing is not None:
        click.echo(f"fairspan: no figure was drawn. {missing}", err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status, as the command line does."""
    cli.main(arguments, reproduce, "./run reproduce")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return cli.run(arguments, reproduce, "./run reproduce")


def reproduce_experiment(
    experiment: "Experiment", data: Path, effort: str, folder: Path
) -> "tuple[Result, Sequence[Path], str | None]":
    """Run an experiment and write its result.

    Returns
    -------
    result : Result
    written : list of Path
    missing : str or None
        Why there is no figure, where a package is missing.
    """
    from fairspan.version import __version__
    from reproduction.experiment import Effort, Setting
    from reproduction.store import Store
    from reproduction.writing import write_result

    header = {
        "experiment": experiment.name,
        "effort": effort,
        "seed": _SEED,
        "version": __version__,
        "data": _fingerprint(data, experiment.files),
    }
    partial = folder / f"{experiment.name}.partial"
    with Store(partial, header, _print_message) as store, Stage(experiment.name) as stage:

        def show(step: str, n_done: int, total: int) -> None:
            stage.name, stage.total = step, total
            stage.advance(n_done - stage.n_done)

        if store.n_resumed:
            _print_message(f"going on after {store.n_resumed} finished steps kept in {partial}")
        try:
            result = experiment.run(Setting(data, Effort(effort), _SEED, show, store))
            paths, missing = write_result(result, folder, experiment.name)
        except KeyboardInterrupt:
            _print_message(
                f"{len(store)} finished steps are kept in {partial}; run the same command again "
                "to go on from there"
            )
            raise
        store.remove()
    return result, paths, missing


def _data_folder(experiment: "Experiment", data: Path | None) -> Path:
    if not experiment.files:
        return Path()
    if data is None:
        raise click.UsageError(
            f"{experiment.name} reads data files ({', '.join(experiment.files)}); name their "
            "folder with --data DIR, or in the environment variable FAIRSPAN_DATA."
        )
    return data


def _fingerprint(data: Path, names: Sequence[str]) -> str:
    """Return a hash of the contents of files; fail if one is missing."""
    from reproduction.data import data_file

    paths = [data_file(name, data) for name in names]
    return " ".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths)


def _print_message(message: str) -> None:
    clear_progress_bar()
    click.echo(f"fairspan: {message}", err=True)
