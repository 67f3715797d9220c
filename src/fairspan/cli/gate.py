"""The option --fail-on, with which a command ends with an exit status of its own."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fairspan.cli.command import usage_error_if
from fairspan.cli.command_terminal import painter_for
from fairspan.progress import clear_progress_bar

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit
    from fairspan.auditing.gate import CheckFailure

EXIT_CHECK_FAILED = 3


def parse_fail_on(
    texts: Sequence[str], *, has_folds: bool = True, has_other_rows: bool = True
) -> tuple[str, ...]:
    """Return the conditions of --fail-on, none if it was not given; rows are not read yet.

    Parameters
    ----------
    texts : sequence of str
        Values of the option.
    has_folds : bool
        Whether there will be estimates for new rows, which "harm" and "inconclusive" need.
    has_other_rows : bool
        Whether a model may be audited on other rows than those of its fit, which "drift" needs.

    Raises
    ------
    InvalidParameter
        Unknown condition.
    click.UsageError
        A condition can never apply.
    """
    if not texts:
        return ()
    from fairspan.auditing.gate import parse_conditions  # slow to import

    conditions = parse_conditions(texts, "--fail-on")
    for condition in ("harm", "inconclusive"):
        usage_error_if(
            condition in conditions and not has_folds,
            f"--fail-on {condition} requires estimates for new rows and cannot be combined with "
            "--folds none.",
        )
    usage_error_if(
        "drift" in conditions and not has_other_rows,
        "--fail-on drift requires a saved model, --model, or held-out rows, --test.",
    )
    return conditions


def check_failures(
    audit: "Audit", conditions: Sequence[str], *, has_saved_models: bool
) -> "tuple[CheckFailure, ...]":
    """Return the failures of saved models, or of ordinary PCA if there are none.

    A fair model that a command fits by itself is a proposal: that it helps does not mean that PCA,
    which the rows are audited for, does no harm.
    """
    if not conditions:
        return ()
    names = None
    if not has_saved_models:
        names = [model.name for model in audit.models if model.is_pca]
    return audit.failures(conditions, models=names)


def exit_on_failures(failures: "Sequence[CheckFailure]") -> None:
    """Print the failures on standard error and exit with their status, if there are any."""
    if not failures:
        return
    clear_progress_bar()
    mark = painter_for(sys.stderr)("fairspan: check failed:", "error")
    from fairspan.rows.labels import printable

    for failure in failures:
        click.echo(f"{mark} {printable(str(failure))}", err=True)
    raise click.exceptions.Exit(EXIT_CHECK_FAILED)
