"""The commands that make and merge files of moments."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairspan.cli import options
from fairspan.cli.outputs import refuse_overwriting
from fairspan.cli.reading import Reading
from fairspan.formatting.numbers import count, in_ascii

if TYPE_CHECKING:
    from fairspan.moments.group_moments import GroupMoments

_OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_WIDTH = 80
# Longer names are cut, or stand above their figures where they would look the same.
_LONGEST_NAME = 30
_MOMENTS = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Make the moments of DATA, all that a fit needs.")
@options.DATA
@click.option("-o", "--output", "out", type=_OUT, required=True, help="Where to save the moments.")
@options.reads_rows
@click.option(
    "--min-group-size",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Leave out groups of fewer rows, so that none of their rows can be read off.",
)
@options.JSON
def moments(
    data: Path | str, out: Path, reading: Reading, min_group_size: int, as_json: bool
) -> None:
    """Make the moments of DATA: rows, weight, mean and covariance of each group, and no rows.

    What was absorbed is recorded in OUTPUT.partial after each file and row group. After an
    interruption the same command goes on where it stopped, and writes the same bytes.
    """
    from fairspan.cli.making_moments import make_moments
    from fairspan.cli.output import echo_json

    _check_output(out, data)
    made, n_left_out = make_moments(data, out, reading, min_group_size)
    if as_json:
        echo_json({**_facts(made, out), "groups_left_out": n_left_out})
        return
    click.echo(_in_words(made))
    if n_left_out:
        groups = in_ascii(count(n_left_out, "group"))
        click.echo(f"Left out: {groups} of fewer than {min_group_size} rows")
    click.echo(f"Saved to {out}")


@click.command(short_help="Merge files of moments: the moments of all their rows.")
@click.argument("files", nargs=-1, required=True, type=_MOMENTS)
@click.option("-o", "--output", "out", type=_OUT, required=True, help="Where to save the moments.")
@options.JSON
def merge(files: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Merge FILES of moments of different rows into the moments of all of them.

    The result is what one pass over all the rows would give: `fit` and `audit` take it as DATA.
    """
    from fairspan.cli.making_moments import merge_moments
    from fairspan.cli.output import echo_json

    _check_output(out, *files)
    merged = merge_moments(files, out)
    if as_json:
        echo_json({**_facts(merged, out), "files": list(map(str, files))})
    else:
        counted = in_ascii(count(len(files), "file"))
        click.echo(f"{_in_words(merged)}\nMerged {counted} into {out}")


def _check_output(out: Path, *inputs: Path | str) -> None:
    if str(out) == "-":
        raise click.UsageError("Moments are no text to print; name a file with -o.")
    refuse_overwriting(out, *inputs)


def _facts(moments: "GroupMoments", out: Path) -> dict[str, Any]:
    names = moments.feature_names
    return {
        "output": str(out),
        "n_rows": int(moments.counts.sum()),
        "n_dropped": moments.intake.n_dropped,
        "sampled_from": moments.intake.sampled_from,
        "n_features": moments.n_features,
        "feature_names": None if names is None else list(names),
        "groups": [
            {"group": label, "n": count, "weight": weight}
            for label, count, weight in zip(
                moments.labels, moments.counts.tolist(), moments.weights.tolist(), strict=True
            )
        ],
    }


def _in_words(moments: "GroupMoments") -> str:
    """One line for each group under a heading, and what is not in."""
    from fairspan.auditing.wording import group_name
    from fairspan.formatting.terminal_text import cut_names, terminal_width, wrapped

    whole = [group_name(label) for label in moments.labels]
    cut = cut_names(whole, _LONGEST_NAME)
    figures = [
        (f"{count:,}", f"{weight:,.10g}")
        for count, weight in zip(moments.counts.tolist(), moments.weights.tolist(), strict=True)
    ]
    lines = [("group", "rows", "weight")]
    lines += [(name, *each) for name, each in zip(cut or [""] * len(whole), figures, strict=True)]
    widths = [max(terminal_width(line[i]) for line in lines) for i in range(3)]
    text: list[str] = []
    for above, (name, rows, weight) in zip(["", *whole], lines, strict=True):
        if cut is None:
            text += wrapped(above, _WIDTH, "  ")
        padded = name + " " * (widths[0] - terminal_width(name))
        text.append(f"{padded}  {rows:>{widths[1]}}  {weight:>{widths[2]}}")
    n_rows = int(moments.counts.sum())
    counted, features = count(n_rows, "row"), count(moments.n_features, "feature")
    intake = f"; {moments.intake}" if str(moments.intake) else ""
    return "\n".join([*text, "", *wrapped(in_ascii(f"{counted}, {features}") + intake, _WIDTH)])
