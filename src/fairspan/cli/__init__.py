"""The command line: parses, calls, prints; computes nothing.

Everything slow is imported inside the commands, so that help and usage errors come at once.
"""

import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from fairspan.cli.commands import audit, demo, fit, merge, moments, report, transform, verify
from fairspan.cli.terminal import JSON_VERSION, print_message
from fairspan.errors import FairspanError, InvalidParameter
from fairspan.progress import show_progress
from fairspan.version import __version__

_OUT_OF_MEMORY = (
    "Memory ran out. Allowed: tables whose matrices, of k groups and p features, fit into it: "
    "about 24 k p^2 bytes. Choose fewer features or groups."
)
_EXIT_BAD_INPUT, _EXIT_INTERRUPTED = 2, 130


@contextmanager
def _handle_stdout_errors() -> Iterator[None]:
    """Within this it is no failure that the reader of our output has had enough, as of ``head``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        # What is left in the buffer would be written, and complained of, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from error
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        raise InvalidParameter(
            f"standard output cannot be written ({error.strerror})",
            "Allowed: a place with room for all of it",
            "Make room, or name another place",
        ) from error


class _CommandGroup(click.Group):
    """A group that ends quietly where its output is not read to the end; click would fail."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _handle_stdout_errors():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _handle_stdout_errors():
            return super().invoke(ctx)


@click.group(
    cls=_CommandGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 80,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="fairspan", message="%(prog)s %(version)s")
def fairspan() -> None:
    """Fair principal component analysis: audit what PCA does to each group, and repair it.

    Exit status: 0 done, 2 bad usage or bad input, 1 internal failure, 130 interrupted; of verify 0
    the certificate holds, 1 it does not, 3 internal failure.
    """


for _command in (demo, audit, report, fit, verify, transform, moments, merge):
    fairspan.add_command(_command)


def main(
    argv: Sequence[str] | None = None,
    command: click.Command = fairspan,
    name: str = "fairspan",
) -> None:
    """Run the command line, or another command in its manner, and exit with its status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Groups may have names that the terminal's encoding cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(argv, command, name))


def run(
    arguments: Sequence[str] | None = None,
    command: click.Command = fairspan,
    name: str = "fairspan",
) -> int:
    """Run the command line, or another command in its manner, and return its exit status."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            # A report tells the command that made it.
            typed = sys.argv[1:] if arguments is None else arguments
            with show_progress():
                status = command.main(typed, prog_name=name, standalone_mode=False, obj=list(typed))
        except click.ClickException as error:
            error.show()
            print_json_error(typed, error.format_message(), error.exit_code)
            return error.exit_code
        except click.Abort:
            click.echo("fairspan: interrupted", err=True)
            return _EXIT_INTERRUPTED
        except (FairspanError, OSError, MemoryError) as error:
            from fairspan.rows.groups import printable  # takes its time

            message = _OUT_OF_MEMORY if isinstance(error, MemoryError) else str(error)
            # Names of files may hold what a terminal would obey.
            print_message("error", printable(message))
            print_json_error(typed, message, _EXIT_BAD_INPUT)
            return _EXIT_BAD_INPUT
        # A status that a command exits with is what click returns.
        return status if isinstance(status, int) else 0


def print_json_error(argv: Sequence[str], message: str, exit_status: int) -> None:
    """Print an error as JSON, too, where results were requested in JSON."""
    if "--json" in argv:
        payload = {
            "version": JSON_VERSION,
            "error": {"message": message, "exit_status": exit_status},
        }
        with suppress(click.exceptions.Exit), _handle_stdout_errors():
            click.echo(json.dumps(payload, indent=2))


def _show_warning(message: Warning | str, *_: object) -> None:
    from fairspan.rows.groups import printable

    print_message("warning", printable(str(message)))
