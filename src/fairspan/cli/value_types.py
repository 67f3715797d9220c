"""Kinds of values that options take: numbers of dimensions and folds, sizes, names, files."""

import re
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem

from fairspan.errors import nearest
from fairspan.registry import Foreign, names_of

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE_OR_FOLDER = click.Path(path_type=Path, allow_dash=True)
OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


class _Data(click.Path):
    """A path that exists, or rows of another package, as package.module:Object."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path, or what makes the rows."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            found = Foreign.named("DATA", str(value))
            if found is None:
                raise
            return found


DATA_PATH = _Data(exists=True, path_type=Path)


class NumberOrShare(click.ParamType):  # type: ignore[type-arg]
    """A whole number from 1 on, or a share above 0 and below 1.

    Examples
    --------
    >>> NumberOrShare().convert("3", None, None), NumberOrShare().convert("0.9", None, None)
    (3, 0.9)
    """

    name = "dimensions"

    def convert(self, value: Any, parameter: Any, context: Any) -> int | float:
        """Read the number."""
        text = str(value).strip()
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        share = float(text) if re.fullmatch(r"0?\.\d+", text) else 0.0
        if not 0 < share < 1:
            self.fail(
                f"{value!r} is not a number of dimensions; write a whole number of at least 1, or "
                "a share of every group's variance, such as 0.9."
            )
        return share


class Size(click.ParamType):  # type: ignore[type-arg]
    """Bytes, as a number or with a unit of 1,000, such as 500MB or 8GB.

    Examples
    --------
    >>> Size().convert("1.5GB", None, None)
    1500000000
    """

    name = "size"
    _UNITS: ClassVar = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

    def convert(self, value: Any, parameter: Any, context: Any) -> int:
        """Read the number and its unit."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?B|)", str(value).strip().upper())
        n_bytes = round(float(found[1]) * self._UNITS[found[2]]) if found else 0
        if n_bytes < 1:
            self.fail(f"{value!r} is not a size; write a number with a unit, such as 500MB or 8GB.")
        return n_bytes


class FoldsOrNone(click.ParamType):  # type: ignore[type-arg]
    """A number of folds; 0 or "none" for no estimates of new rows, which gives 0."""

    name = "folds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, if it can be one."""
        text = "0" if str(value).lower() == "none" else str(value)
        if not text.isdecimal() or int(text) == 1:
            raise click.BadParameter(
                f"{value!r} is not a number of folds: 2 or more, or none for figures on these rows."
            )
        return int(text)


class OfOthers(click.ParamType):  # type: ignore[type-arg]
    """A criterion or restriction of another package: package.module:Object."""

    name = "part"

    def convert(self, value: Any, parameter: Any, context: Any) -> Foreign:
        """What makes the part."""
        found = Foreign.named(self.name, str(value))
        if found is None:
            self.fail(f"{value!r} is not of the form package.module:Object.")
        return found


class Named(click.ParamType):  # type: ignore[type-arg]
    """The name of a criterion or another part, or one of another package: package.module:Object."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | Foreign:
        """The same name if it is known, or what makes the part of another package."""
        names = names_of(self.name)
        if value in names:
            return str(value)
        if (found := Foreign.named(self.name, str(value))) is not None:
            return found
        close = nearest(value, names)
        meant = f" Did you mean {close!r}?" if close else ""
        raise click.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.{meant}")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin like this."""
        names = names_of(self.name)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
