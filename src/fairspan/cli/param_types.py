"""Click parameter types: paths, sizes, shares, names and KEY=VALUE parameters."""

import math
import re
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from fairspan.errors import closest_match
from fairspan.registry import ExternalObject, builtin_names

_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}

INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT_FILE_OR_FOLDER = click.Path(path_type=Path, allow_dash=True)
OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


# First bytes of file formats, with the suffixes of their files.
_MAGIC_BYTES = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"PK": ".moments",
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
}


class _DataType(click.Path):
    """Existing path, standard input (-), or rows from another package (package.module:Object)."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert to a path, or to an external row source if there is no such path."""
        if value == "-":
            return _copy_stdin(ctx)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            row_source = ExternalObject.from_path("DATA", str(value))
            if row_source is None:
                raise
            return row_source


def _copy_stdin(context: click.Context) -> Path:
    """Copy standard input to a temporary file, since rows are read more than once.

    The file exists while the command runs; its suffix is that of the format of the content.
    """
    if sys.stdin.isatty():
        raise click.UsageError(
            "- reads standard input, but it is a terminal: pipe a table into it."
        )
    folder = Path(context.with_resource(TemporaryDirectory()))
    path = folder / "input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with path.open("rb") as file:
        magic = file.read(max(map(len, _MAGIC_BYTES)))
    suffixes = (suffix for first, suffix in _MAGIC_BYTES.items() if magic.startswith(first))
    return path.rename(folder / f"standard-input{next(suffixes, '.csv')}")


DATA_PATH = _DataType(exists=True, path_type=Path)


def dimensions_or_share(value: str) -> int | float:
    """Parse a positive integer, or a share in (0, 1).

    Examples
    --------
    >>> dimensions_or_share("3"), dimensions_or_share("0.9")
    (3, 0.9)
    """
    text = value.strip()
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    share = float(text) if re.fullmatch(r"0?\.\d+", text) else 0.0  # which is not allowed
    if not 0 < share < 1:
        raise click.BadParameter(
            f"{value!r} is not a number of dimensions; write a whole number of at least 1, or "
            "a share of every group's variance, such as 0.9."
        )
    return share


def memory_size(value: str) -> int:
    """Parse a size in bytes with an optional decimal unit, such as 500MB or 8GB.

    Examples
    --------
    >>> memory_size("1.5GB")
    1500000000
    """
    n_bytes = 0  # which is not allowed
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)B?", value.strip().upper())
    if match:
        power = " KMGT".index(match[2] or " ")
        n_bytes = round(float(match[1]) * 1000**power)
    if n_bytes < 1:
        raise click.BadParameter(
            f"{value!r} is not a size; write a number with a unit, such as 500MB or 8GB."
        )
    return n_bytes


def bin_edges(value: str) -> tuple[str, tuple[float, ...]]:
    """Parse a column name, which may contain equals signs, and increasing bin edges.

    Examples
    --------
    >>> bin_edges("age=30,60")
    ('age', (30.0, 60.0))
    """
    column, _, text = value.rpartition("=")
    try:
        edges = tuple(map(float, text.split(",")))
    except ValueError:
        edges = ()
    is_increasing = all(low < high for low, high in pairwise(edges))
    if not (column and edges and is_increasing and all(map(math.isfinite, edges))):
        raise click.BadParameter(
            f"{value!r} is not a column with increasing numbers at which it is cut, such as "
            "age=30,60."
        )
    return column, edges


def folds_or_none(value: str | int) -> int:
    """Parse a number of folds; "none" or 0 gives 0 (no estimates)."""
    text = "0" if str(value).lower() == "none" else str(value)
    if not text.isdecimal() or int(text) == 1:
        raise click.BadParameter(
            f"{value!r} is not a number of folds: 2 or more, or none for figures on these rows."
        )
    return int(text)


def custom_object(value: str) -> ExternalObject:
    """Parse a criterion or restriction from another package (package.module:Object)."""
    part = ExternalObject.from_path("part", value)
    if part is None:
        raise click.BadParameter(f"{value!r} is not of the form package.module:Object.")
    return part


class NameOrObject(click.Choice):  # type: ignore[type-arg]
    """Name of a built-in component, or package.module:Object of an external one."""

    def __init__(self, kind: str) -> None:
        super().__init__(builtin_names(kind))
        self.kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | ExternalObject:
        """Convert to a known name or an external object."""
        if value in self.choices:
            return str(value)
        external_object = ExternalObject.from_path(self.kind, str(value))
        if external_object is not None:
            return external_object
        suggestion = closest_match(value, self.choices)
        hint = f" Did you mean {suggestion!r}?" if suggestion else ""
        choices = ", ".join(map(repr, self.choices))
        raise click.BadParameter(f"{value!r} is not one of {choices}.{hint}")


def parse_parameters(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse KEY=VALUE arguments; the component validates the keys.

    Parameters
    ----------
    arguments : sequence of str
        Such as "penalty=2", "protected=female" or "radius.female=0.2".

    Returns
    -------
    dict
        Values by parameter: number, bool, string, list of strings, or mapping from group names to
        values.

    Raises
    ------
    click.BadParameter
        An argument is malformed or repeated.

    Examples
    --------
    >>> parse_parameters(["penalty=2", "radius.a=0.1", "radius.b=0.2"])
    {'penalty': 2, 'radius': {'a': 0.1, 'b': 0.2}}
    >>> parse_parameters(["oblique=yes", "within_classes=hired,refused"])
    {'oblique': True, 'within_classes': ['hired', 'refused']}
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        # A dot before the first equals sign makes the argument one of a mapping by group, such as
        # radius.GROUP=0.1. GROUP may contain equals signs, so the value follows the last one;
        # otherwise the value, which may name a group, follows the first.
        name, is_nested, _ = argument.partition("=")[0].partition(".")
        key, separator, text = argument.partition("=")
        if is_nested:
            key, separator, text = argument.rpartition("=")
        if not key or not separator or not text:
            raise click.BadParameter(f"{argument!r} is not of the form KEY=VALUE.")
        target = values.setdefault(name, {}) if is_nested else values
        subkey = key.removeprefix(f"{name}.") if is_nested else key
        # A parameter has one value, or one per group, but not both.
        if not isinstance(target, dict) or subkey in target:
            raise click.BadParameter(
                f"{key!r} is given twice; give {name} once for all groups, or once per group."
            )
        target[subkey] = _parse_value(key, text)
    return values


def _parse_value(key: str, text: str) -> Any:
    """Parse a value: a list of strings, bool, int, float or string, depending on key and text."""
    # The values of these keys name columns, classes or a group, even if they look like numbers.
    if key == "columns" or (key == "within_classes" and text != "all"):
        return text.split(",")
    if key == "protected":
        return text
    if text.lower() in _YES_OR_NO:
        return _YES_OR_NO[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
