"""Every error and warning that fairspan raises on purpose.

::

    FairspanError
    ├── InvalidInput        (ValueError)   the rows, labels or weights cannot be used
    │   └── UnknownGroup    (ValueError)   a label that the model or the moments never saw
    ├── InvalidType         (TypeError)    an object of a kind that is not accepted here
    ├── InvalidParameter    (ValueError)   a setting outside its range
    ├── Incompatible        (ValueError)   settings that are each valid, but not together
    ├── CorruptFile         (ValueError)   a file that is truncated, altered or of another kind
    └── MissingDependency   (ImportError, ValueError)   an optional package is not installed

    FairspanWarning         (UserWarning)  the answer holds, but the user should know something
"""

import collections.abc
import sys
import typing
import warnings
from difflib import get_close_matches
from importlib import import_module

from fairspan.progress import clear_line

__all__ = [
    "CorruptFile",
    "FairspanError",
    "FairspanWarning",
    "Incompatible",
    "InvalidInput",
    "InvalidParameter",
    "InvalidType",
    "MissingDependency",
    "UnknownGroup",
]

# How like a name has to be to be meant by another: 'nope' is not 'income'.
_ALIKE = 0.7
# Modules between a user's line and a warning: ours, and those of decorated functions.
_OURS = ("fairspan", "contextlib")


class FairspanError(Exception):
    """Base of all errors: says what came in, what is allowed, and what to do next.

    Parameters
    ----------
    received : str
        What came in.
    allowed : str
        What would have been accepted.
    remedy : str
        What to do next.
    """

    def __init__(self, received: str, allowed: str, remedy: str) -> None:
        # The three parts are the exception's args, so that it survives pickling between processes.
        super().__init__(received, allowed, remedy)

    def __str__(self) -> str:
        return " ".join(f"{part}." for part in self.args)


class InvalidInput(FairspanError, ValueError):
    """The rows, labels or weights cannot be used."""


class UnknownGroup(InvalidInput):
    """A group label that the model or the moments do not know."""


class InvalidType(FairspanError, TypeError):
    """An object of a kind that is not accepted here."""


class InvalidParameter(FairspanError, ValueError):
    """A setting outside its range."""


class Incompatible(FairspanError, ValueError):
    """Settings that are each valid, but not together."""


class CorruptFile(FairspanError, ValueError):
    """A file that is truncated, altered or of another kind."""


class MissingDependency(FairspanError, ImportError, ValueError):
    """An optional package is not installed."""

    @classmethod
    def for_extra(cls, package: str, extra: str, purpose: str) -> "MissingDependency":
        """Name the install command for an optional package."""
        return cls(
            f"{purpose} needs the package {package}, which is not installed",
            f"It comes with the extra '{extra}'",
            f'Install it with: pip install "fairspan[{extra}]"',
        )


def imported(package: str, extra: str, purpose: str) -> typing.Any:
    """A package that comes with an extra.

    Raises
    ------
    MissingDependency
        It is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingDependency.for_extra(package, extra, purpose) from error


class FairspanWarning(UserWarning):
    """The answer holds, but the user should know something about it."""


def warn(message: str) -> None:
    """Issue a FairspanWarning that points at the user's line, not at a line of this package."""
    clear_line()
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FairspanWarning, stacklevel=level)


def nearest(name: str, names: collections.abc.Iterable[str]) -> str | None:
    """The name that was most likely meant; None if there is none like it.

    Examples
    --------
    >>> nearest("Ages", ["wages", "age"]), nearest("nope", ["income"])
    ('wages', None)
    """
    by_spelling = {each.casefold(): each for each in names}
    close = get_close_matches(name.casefold(), by_spelling, n=1, cutoff=_ALIKE)
    return by_spelling[close[0]] if close else None


def kind_of(value: object) -> str:
    """What a value of a wrong type is, for an error message; never its contents, maybe a table.

    Examples
    --------
    >>> kind_of(3), kind_of(dict)
    ('of type int', 'the class dict itself, not an object of it')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} itself, not an object of it"
    return f"of type {type(value).__name__}"
