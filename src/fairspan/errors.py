"""Exceptions and warnings of fairspan.

::

    FairspanError
    ├── InvalidInput             (ValueError)   invalid rows, labels or weights
    │   └── UnknownGroup         (ValueError)   unknown group label
    ├── InvalidType              (TypeError)    unsupported type
    ├── InvalidParameter         (ValueError)   parameter out of range
    ├── IncompatibleParameters   (ValueError)   parameters that are valid only separately
    ├── CorruptFile              (ValueError)   truncated, modified or foreign file
    ├── CheckFailed              (AssertionError)   an audit that does not pass a check
    └── MissingDependency        (ImportError, ValueError)   optional package not installed

    FairspanWarning              (UserWarning)  the result is valid but needs attention
"""

import collections.abc
import contextlib
import enum
import re
import sys
import types
import typing
import warnings
from difflib import get_close_matches
from importlib import import_module

from fairspan.progress import clear_progress_bar

__all__ = [
    "CheckFailed",
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

# Similarity, from 0 to 1, from which a name is suggested: 'nope' does not suggest 'income'.
_SIMILARITY_CUTOFF = 0.7
# Modules skipped when a warning is attributed to a line of the user: contextlib has the wrappers of
# decorated functions.
_INTERNAL_MODULES = ("fairspan", "contextlib")


class Cause(enum.StrEnum):
    """Cause of an error whose remedy depends on the options of the caller.

    Code that reads rows does not know whether a function or a command called it. It raises an error
    with a cause, and each caller states the remedy in its own terms (:func:`caller_remedies`).
    """

    MISSING_CELL = "a feature is missing in a row"
    MISSING_LABEL = "the group of a row is missing"
    EMPTY_ROW = "every feature is missing in a row"
    INCOMPLETE_PARTS = "moments of incomplete rows do not add up"
    EMPTY_COLUMN = "every row lacks a cell of some columns"
    MANY_GROUPS = "there are more groups than usual"
    OVER_MAX_GROUPS = "there are more groups than the caller allows"
    TEXT_COLUMN = "a column is not numeric"
    CSV_FORMAT = "a CSV file does not have the expected format"
    CSV_ENCODING = "a CSV file has another encoding"
    CSV_TITLE = "lines above the header of a CSV file, or another delimiter"
    CSV_COLUMNS_OF_A_ROW = "column names of a CSV file are most likely cells of its first row"
    CSV_NAMES_IN_A_ROW = "two columns of a CSV file have one name, which may be a cell"
    DECIMAL_IS_DELIMITER = "the decimal point is the delimiter of the file"
    DECIMAL_IS_THOUSANDS = "the thousands separator is the default decimal point"
    NUMBER_FORMAT = "a column of text has numbers in another format, or codes for missing values"
    IDENTIFIER_COLUMN = "a column of text has nearly as many values as rows"
    NO_NUMERIC_COLUMN = "no column is numeric"
    MIXED_FOLDER = "a folder has no files of rows, or files of several formats"
    DIFFERENT_MOMENTS = "moments differ in their features, or in the types of their labels"
    UNOBSERVED_COLUMN = "a group has no value of a feature"
    MISSING_CLASSES = "a restriction needs the class of each row"
    TOO_LARGE = "matrices need more memory than allowed"
    UNKNOWN_PART = "a model needs a criterion or restriction of another package"
    NO_INDICATORS = "a model has no indicators of categories"
    EXTREME_WEIGHTS = "weights of a part cannot be scaled without the largest weight of all parts"
    UNKNOWN_CATEGORY = "a value is not a known category"
    REPEATED_ROWS = "a history has a look at these rows already"


class FairspanError(Exception):
    """Base class of all errors: states what was received, what is allowed, and a remedy.

    Parameters
    ----------
    received : str
        What was received.
    allowed : str
        What is accepted.
    remedy : str
        What to do, in terms that fit any caller.
    cause : Cause, optional
        Lets callers replace the remedy by one in their own terms.
    **details : object
        Values of the fields in such a remedy, by name.
    """

    def __init__(
        self,
        received: str,
        allowed: str,
        remedy: str,
        *,
        cause: Cause | None = None,
        **details: object,
    ) -> None:
        # Unpickling calls the class with the args, which are therefore exactly the three parts of
        # the message, and restores the attributes. Callers that replace the remedy because of the
        # cause fill its fields with the details.
        super().__init__(received, allowed, remedy)
        self.cause = cause
        self.details = details

    def __str__(self) -> str:
        return " ".join(f"{part}." for part in self.args)

    def located(self, where: str) -> "FairspanError":
        """Return the same error with the location of the rows in front of its message."""
        received, allowed, remedy = self.args
        located = type(self)(f"{where}: {received}", allowed, remedy, cause=self.cause)
        located.details = self.details
        return located


Remedy = str | collections.abc.Callable[[collections.abc.Mapping[str, typing.Any]], str]
"""Remedy of a caller: a text with fields in braces, or a function of the details of the error."""


@contextlib.contextmanager
def caller_remedies(
    remedies: collections.abc.Mapping[Cause, Remedy],
) -> collections.abc.Iterator[None]:
    """Replace the remedies of errors, depending on their cause, by those of the caller.

    Parameters
    ----------
    remedies : mapping of Cause to Remedy
        Remedies that name only arguments or options of the caller. Errors of other causes are
        unchanged. Fields in braces are filled with the details of the error. If callers are
        nested, the remedy of the outermost is used.

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
            remedy = remedies[error.cause]
            if isinstance(remedy, str):
                text = remedy.format_map(error.details)
            else:
                text = remedy(error.details)
            # The first two parts of the message say what was received and what is allowed.
            error.args = (*error.args[:2], text)
        raise


@contextlib.contextmanager
def caller_argument_names(
    names: collections.abc.Mapping[str, str],
) -> collections.abc.Iterator[None]:
    """Replace the names of arguments in errors by those that the caller has for them.

    Parameters
    ----------
    names : mapping of str to str
        Name of the argument that the user passed, by its name in the code that raises the error.

    Examples
    --------
    >>> with caller_argument_names({"sensitive_features": "attributes"}):
    ...     raise InvalidInput("sensitive_features is 5", "Allowed: labels", "Pass some")
    Traceback (most recent call last):
        ...
    fairspan.errors.InvalidInput: attributes is 5. Allowed: labels. Pass some.
    """
    try:
        yield
    except FairspanError as error:
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
        error.args = tuple(pattern.sub(lambda match: names[match[0]], text) for text in error.args)
        raise


class InvalidInput(FairspanError, ValueError):
    """Invalid rows, labels or weights."""


class UnknownGroup(InvalidInput):
    """Unknown group label."""


class InvalidType(FairspanError, TypeError):
    """Unsupported type."""


class InvalidParameter(FairspanError, ValueError):
    """Parameter out of range."""


class IncompatibleParameters(FairspanError, ValueError):
    """Parameters that are valid separately but not together."""


class CorruptFile(FairspanError, ValueError):
    """Truncated, modified or foreign file."""


class CheckFailed(FairspanError, AssertionError):
    """Audit that does not pass a check; test runners report it as a failed assertion.

    Attributes
    ----------
    failures : tuple of CheckFailure
        Conditions that apply, each with its evidence.
    verdict : Verdict or None
        Verdict of the audit; None without estimates for new rows.
    """

    # Lower layers do not know the records of audits, which are therefore of any type here.
    failures: tuple[typing.Any, ...] = ()
    verdict: typing.Any = None


class MissingDependency(FairspanError, ImportError, ValueError):
    """Optional package that is not installed."""

    @classmethod
    def for_extra(cls, package: str, extra: str, purpose: str) -> "MissingDependency":
        """Make the error for a package of an optional extra."""
        return cls(
            f"{purpose} needs the package {package}, which is not installed",
            f"It is part of the extra '{extra}'",
            f'Install it with: pip install "fairspan[{extra}]"',
        )


def import_optional(package: str, extra: str, purpose: str) -> typing.Any:
    """Import and return an optional package.

    Parameters
    ----------
    package : str
    extra : str
        Extra of fairspan that installs it, as in ``pip install "fairspan[EXTRA]"``.
    purpose : str
        What needs the package: the subject of the error message.

    Raises
    ------
    MissingDependency
        The package is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingDependency.for_extra(package, extra, purpose) from error


class FairspanWarning(UserWarning):
    """The result is valid but needs attention.

    Parameters
    ----------
    message : str
        What was observed, with the remedy unless it is given separately.
    remedy : str
        What to do, in terms of Python.
    cause : Cause, optional
        Lets the command line replace the remedy by one in its own terms.
    """

    def __init__(self, message: str, remedy: str = "", cause: Cause | None = None) -> None:
        super().__init__(f"{message} {remedy}" if remedy else message)
        self.observation = message
        self.cause = cause


def warn(message: str, remedy: str = "", cause: Cause | None = None) -> None:
    """Issue a FairspanWarning attributed to the user's code.

    That is the nearest caller outside of this library, whose line Python shows. See
    :class:`FairspanWarning` for the parameters.
    """
    clear_progress_bar()  # the warning would otherwise continue its line
    stack_level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_internal(frame):
        frame = frame.f_back
        stack_level += 1
    warnings.warn(FairspanWarning(message, remedy, cause), stacklevel=stack_level)


def _is_internal(frame: types.FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return bool(module.startswith(_INTERNAL_MODULES))


def closest_match(name: str, names: collections.abc.Iterable[str]) -> str | None:
    """Return the closest match to a name, ignoring case; None if nothing is similar.

    Examples
    --------
    >>> closest_match("Ages", ["wages", "age"]), closest_match("nope", ["income"])
    ('wages', None)
    """
    by_casefolded_name = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(name.casefold(), by_casefolded_name, n=1, cutoff=_SIMILARITY_CUTOFF)
    return by_casefolded_name[matches[0]] if matches else None


def describe_type(value: object) -> str:
    """Describe the type of a value for an error message, without its contents.

    Examples
    --------
    >>> describe_type(3), describe_type(dict)
    ('of type int', 'the class dict itself, not an instance')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} itself, not an instance"
    return f"of type {type(value).__name__}"
