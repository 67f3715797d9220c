"""The command that verifies a saved model's certificate."""

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairspan.cli import options
from fairspan.cli.reading import Reading

if TYPE_CHECKING:
    from fairspan.certificates.verification import Verification
    from fairspan.subspace import FairSubspace

_MODEL = click.Path(exists=True, dir_okay=False, path_type=Path)
_DOES_NOT_HOLD, _INTERNAL_FAILURE = 1, 3


@click.command(short_help="Work out anew what a model's certificate claims.")
@click.argument("model", type=_MODEL)
@options.DATA
@options.reads_rows
@options.JSON
def verify(model: Path, data: Path | str, reading: Reading, as_json: bool) -> None:
    """Work out anew what the certificate of a saved MODEL claims, from the rows in DATA.

    DATA is what the model was fitted on, or moments of it. Errors, objective and lower bound are
    recomputed from second moments; no solver is used.

    Exit status: 0 the certificate holds, 1 it does not, 2 bad usage or bad input, 3 internal
    failure.
    """
    from fairspan.cli.output import echo_json
    from fairspan.errors import FairspanError
    from fairspan.subspace import FairSubspace

    try:
        found = _verified(FairSubspace.load(model), data, reading)
    except (FairspanError, OSError, click.ClickException, click.Abort):
        raise
    except Exception:
        traceback.print_exc()
        raise click.exceptions.Exit(_INTERNAL_FAILURE) from None
    if as_json:
        echo_json(
            {
                "model": str(model),
                "holds": found.holds,
                "objective": found.objective,
                "lower_bound": found.lower_bound,
                "gap": found.gap,
                "messages": list(found.messages),
            }
        )
    else:
        click.echo(str(found))
    if not found.holds:
        raise click.exceptions.Exit(_DOES_NOT_HOLD)


def _verified(subspace: "FairSubspace", data: Path | str, reading: Reading) -> "Verification":
    from fairspan.certificates.verification import not_verified
    from fairspan.certificates.verification import verify as verified
    from fairspan.cli.inputs import open_input

    table = open_input(data, reading)
    names = subspace.feature_names
    if names is not None and table.source is not None:
        missing = sorted(set(names) - set(table.source.feature_names or ()))
        if missing:
            return not_verified(f"The data lack the model's feature {missing[0]!r}.")
        table = table.selected(names)
    return verified(subspace, table.moments)
