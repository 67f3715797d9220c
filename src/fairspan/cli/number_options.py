"""Advice on numbers in text columns, with options of the command line."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairspan.rows.files.number_format_advice import NumberAdvice, StyleReading

# Separators as values of options in a shell.
_SHELL_VALUES = {"'": '"\'"', " ": "space"}


def command_advice(advice: "NumberAdvice") -> str:
    """Return the advice with options of the command line."""
    parts = [advice.file_remedy] if advice.file_remedy else []
    if advice.readings:
        parts.append(_style_advice(advice))
    if advice.codes:
        options = " ".join(_na_option(name, texts) for name, texts in advice.codes.items())
        parts.append(f"{advice.condition_of_codes}, add {options} and --on-missing drop or em")
    return ". ".join(parts)


def _style_advice(advice: "NumberAdvice") -> str:
    """Return which options make the numbers readable, or which one to omit.

    A reading is a style of numbers in which the column can be read, such as a decimal comma.
    Several are possible for texts such as "1,234"; then the advice says what each would mean.
    """

    def options(reading: "StyleReading") -> str:
        # Options that differ from the style with which the file is read now.
        changes = reading.changes_from(advice.current)
        return " ".join(
            f"--{name} {_SHELL_VALUES.get(value, value)}" for name, value in changes.items()
        )

    if len(advice.readings) > 1:
        return advice.each_reading(options)
    added = options(advice.readings[0])
    # Nothing to add: the numbers have the default style, and a given option prevents reading them.
    return f"Add {added} to the command" if added else f"Omit --{advice.superfluous_option}"


def _na_option(name: str, texts: Sequence[str]) -> str:
    """Return codes as the option `--na-values`, quoted for a shell."""
    values = ",".join(text or " " for text in texts)
    if name:
        values = f"{name}={values}"
    return f"--na-values {shlex.quote(values)}"
