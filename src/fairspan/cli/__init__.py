"""Command line interface: parse arguments, call the library and print results.

Slow imports happen inside the commands, so that help and usage errors are immediate.
"""

import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import Any

import click

from fairspan.cli.command_terminal import JSON_VERSION, print_message
from fairspan.cli.commands import (
    audit,
    demo,
    fit,
    merge,
    moments,
    report,
    transform,
    verify,
    watch,
)
from fairspan.errors import FairspanError, FairspanWarning, InvalidParameter
from fairspan.progress import show_progress
from fairspan.version import __version__

_OUT_OF_MEMORY = (
    "Out of memory. Allowed: tables whose matrices fit into memory (about 24 k p^2 bytes for k "
    "groups and p features). Use fewer features or groups."
)
_EXIT_BAD_INPUT = 2
_EXIT_INTERRUPTED = 130


@contextmanager
def _handle_stdout_errors() -> Iterator[None]:
    """Exit quietly if standard output is closed early, and report a full disk as an error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        # Redirect the rest of the buffer, which the interpreter would otherwise flush, and fail on,
        # at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from error
    except OSError as error:
        # An error with a file name is about that file, not about standard output.
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        raise InvalidParameter(
            f"standard output cannot be written ({error.strerror})",
            "Allowed: a destination with enough space",
            "Free space, or choose another destination",
        ) from error


@contextmanager
def _escape_unencodable_output() -> Iterator[None]:
    """Escape characters on standard output and error that their encodings lack."""
    with ExitStack() as stack:
        for stream in (sys.stdout, sys.stderr):
            # Group names may not be encodable in the terminal's encoding.
            if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
                stack.callback(_set_error_handler, stream, str(stream.errors))
                stream.reconfigure(errors="backslashreplace")
        yield


def _set_error_handler(stream: io.TextIOWrapper, errors: str) -> None:
    """Set what a stream does with characters that its encoding lacks, unless it is closed."""
    # The stream is flushed, which fails again if the disk is full.
    with suppress(OSError, ValueError):
        stream.reconfigure(errors=errors)


class _CommandGroup(click.Group):
    """Command group that exits quietly on a closed output pipe, where click would fail."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _handle_stdout_errors():
            return super().make_context(*args, **kwargs)

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

    Exit status: 0 success, 1 internal error, 2 invalid usage or input, 3 a condition of --fail-on
    applies, 130 interrupted. For verify: 0 the certificate holds, 1 it does not hold, 2 invalid
    usage or input, 3 internal error.
    """


for _command in (demo, audit, report, fit, verify, watch, transform, moments, merge):
    fairspan.add_command(_command)


def main(
    argv: Sequence[str] | None = None,
    command: click.Command = fairspan,
    name: str = "fairspan",
) -> None:
    """Run a command and exit with its status; by default the whole command line."""
    sys.exit(run(argv, command, name))


def run(
    argv: Sequence[str] | None = None,
    command: click.Command = fairspan,
    name: str = "fairspan",
) -> int:
    """Run a command and return its exit status.

    Errors of input and warnings are printed on standard error; other exceptions are raised.
    Characters that the encoding of a stream lacks are escaped with backslashes.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of this process.
    command : click.Command
        By default the group of all commands.
    name : str
        Name of the program in usage messages.
    """
    with _escape_unencodable_output(), warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            # Reports record the command line, which commands find in the context as `obj`.
            arguments = sys.argv[1:] if argv is None else argv
            with show_progress():
                status = command.main(
                    arguments, prog_name=name, standalone_mode=False, obj=list(arguments)
                )
        except click.ClickException as error:
            error.show()
            print_json_error(arguments, error.format_message(), error.exit_code)
            return error.exit_code
        except click.Abort:
            click.echo("fairspan: interrupted", err=True)
            return _EXIT_INTERRUPTED
        except (FairspanError, OSError, MemoryError) as error:
            from fairspan.rows.labels import printable  # slow import

            message = _OUT_OF_MEMORY if isinstance(error, MemoryError) else str(error)
            # File names may contain terminal control sequences.
            print_message("error", printable(message))
            print_json_error(arguments, message, _EXIT_BAD_INPUT)
            return _EXIT_BAD_INPUT
        # In non-standalone mode, click returns the exit status.
        if not isinstance(status, int):
            return 0
        return status


def print_json_error(argv: Sequence[str], message: str, exit_status: int) -> None:
    """Print the error as JSON on standard output as well if the arguments request JSON."""
    if _requests_json(argv):
        payload = {
            "version": JSON_VERSION,
            "error": {"message": message, "exit_status": exit_status},
        }
        # The exit status is that of the error, even if standard output is closed.
        with suppress(click.exceptions.Exit), _handle_stdout_errors():
            click.echo(json.dumps(payload, indent=2))


def _requests_json(argv: Sequence[str]) -> bool:
    """Whether --json or --format json is among the arguments, which may be invalid."""
    if "--json" in argv or "--format=json" in argv:
        return True
    return ("--format", "json") in pairwise(argv)


def _show_warning(message: Warning | str, *_: object) -> None:
    """Print a warning; its remedy names options if its cause has such a remedy."""
    from fairspan.cli.option_remedies import WARNING_REMEDIES
    from fairspan.rows.labels import printable

    text = str(message)
    if isinstance(message, FairspanWarning) and message.cause in WARNING_REMEDIES:
        text = f"{message.observation} {WARNING_REMEDIES[message.cause]}"
    print_message("warning", printable(text))
