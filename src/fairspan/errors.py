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
import contextlib
import enum
import sys
import typing
import warnings
from difflib import get_close_matches
from importlib import import_module

from fairspan.progress import clear_progress_bar

__all__ = [
    "CorruptFile",
    "FairspanError",
    "FairspanWarning",
    "IncompatibleParameters",
    "InvalidInput",
    "InvalidParameter",
    "InvalidType",
    "MissingDependency",
    "UnknownGroup",
]

# How like a name has to be to be meant by another: 'nope' is not 'income'.
_SIMILARITY_CUTOFF = 0.7
# Modules between a user's line and a warning: ours, and those of decorated functions.
_INTERNAL_MODULES = ("fairspan", "contextlib")


class Cause(enum.StrEnum):
    """Why an error was raised, where the remedy depends on the options of the caller.

    Code that reads rows does not know whether a function or a command called it. It raises an error
    with a cause, and each caller phrases the remedy in its own terms (:func:`caller_remedies`).
    """

    MISSING_CELL = "a feature is missing in a row"
    MISSING_LABEL = "the group of a row is missing"
    EMPTY_ROW = "every feature is missing in a row"
    INCOMPLETE_PARTS = "moments of incomplete rows do not add up"
    EMPTY_COLUMN = "columns cost all rows, since their cells are missing"
    MANY_GROUPS = "there are more groups than are usual"
    OVER_MAX_GROUPS = "there are more groups than the caller allowed"
    TEXT_COLUMN = "a column holds no numbers"
    CSV_STYLE = "a CSV file is written in another way than it is read"
    UNOBSERVED_COLUMN = "a group has no value of a feature"
    MISSING_CLASSES = "a restriction needs the class of each row"
    TOO_LARGE = "matrices would take more memory than is allowed"
    UNKNOWN_PART = "a model needs a criterion or restriction of another package"
    NO_INDICATORS = "a model has no indicators of categories"
    EXTREME_WEIGHTS = "the largest weight of all has to be known to scale those of a part"
    UNKNOWN_CATEGORY = "a text is none of the known categories"


class FairspanError(Exception):
    """Base of all errors: says what came in, what is allowed, and what to do next.

    Parameters
    ----------
    received : str
        What came in.
    allowed : str
        What would have been accepted.
    remedy : str
        What to do next, in terms of any caller.
    cause : Cause, optional
        By which callers phrase the remedy in their own terms.
    **details : str or int
        Values for the fields of such a remedy, by name.
    """

    def __init__(
        self,
        received: str,
        allowed: str,
        remedy: str,
        *,
        cause: Cause | None = None,
        **details: str | int,
    ) -> None:
        # The three parts are the exception's args, so that it survives pickling between processes;
        # attributes do too.
        super().__init__(received, allowed, remedy)
        self.cause = cause
        self.details = details

    def __str__(self) -> str:
        return " ".join(f"{part}." for part in self.args)

    def located(self, where: str) -> "FairspanError":
        """Return the same error with the place of the rows in front of what was received."""
        received, allowed, remedy = self.args
        located = type(self)(f"{where}: {received}", allowed, remedy, cause=self.cause)
        located.details = self.details
        return located


@contextlib.contextmanager
def caller_remedies(
    remedies: collections.abc.Mapping[Cause, str],
) -> collections.abc.Iterator[None]:
    """Replace the remedy of errors, by their cause, by one in terms of the caller.

    Parameters
    ----------
    remedies : mapping of Cause to str
        A remedy names only arguments or options that the caller has. Errors of other causes stay
        as they are. Fields in braces are filled with the details of the error. Of nested callers
        the outermost has the last word.

    Examples
    --------
    >>> with caller_remedies({Cause.EMPTY_ROW: "Pass drop_empty=True"}):
    ...     raise InvalidInput("Row 3 is empty", "Allowed: values", "-", cause=Cause.EMPTY_ROW)
    Traceback (most recent call last):
        ...
    fairspan.errors.InvalidInput: Row 3 is empty. Allowed: values. Pass drop_empty=True.
    """
    try:
        yield
    except FairspanError as error:
        if error.cause is not None and error.cause in remedies:
            remedy = remedies[error.cause].format_map(error.details)
            error.args = (*error.args[:2], remedy)
        raise


class InvalidInput(FairspanError, ValueError):
    """The rows, labels or weights cannot be used."""


class UnknownGroup(InvalidInput):
    """A group label that the model or the moments do not know."""


class InvalidType(FairspanError, TypeError):
    """An object of a kind that is not accepted here."""


class InvalidParameter(FairspanError, ValueError):
    """A setting outside its range."""


class IncompatibleParameters(FairspanError, ValueError):
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


def import_optional(package: str, extra: str, purpose: str) -> typing.Any:
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
    clear_progress_bar()
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        _INTERNAL_MODULES
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FairspanWarning, stacklevel=level)


def closest_match(name: str, names: collections.abc.Iterable[str]) -> str | None:
    """The name that was most likely meant; None if there is none like it.

    Examples
    --------
    >>> nearest("Ages", ["wages", "age"]), nearest("nope", ["income"])
    ('wages', None)
    """
    by_casefolded_name = {each.casefold(): each for each in names}
    matches = get_close_matches(name.casefold(), by_casefolded_name, n=1, cutoff=_SIMILARITY_CUTOFF)
    return by_casefolded_name[matches[0]] if matches else None


def describe_type(value: object) -> str:
    """What a value of a wrong type is, for an error message; never its contents, maybe a table.

    Examples
    --------
    >>> describe_type(3), describe_type(dict)
    ('of type int', 'the class dict itself, not an object of it')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} itself, not an object of it"
    return f"of type {type(value).__name__}"
