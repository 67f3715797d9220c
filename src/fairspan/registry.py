"""Names of built-in components, and components that are given by name or path.

Named are criteria, restrictions, solvers and displays. The names are here, so that help and usage
errors do not wait for numpy; the classes are where they are defined. Objects of other packages are
passed as objects, or as ``package.module:Object`` on the command line. Only the command line
imports such paths; names in model files are never imported.
"""

import inspect
import re
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

from fairspan.errors import InvalidParameter, InvalidType, closest_match, describe_type

_OBJECT_PATH = re.compile(r"[\w.]+:[\w.]+")
# Names of the built-in objects of each kind. The module that defines a kind has their classes.
_NAMES = {
    "criterion": (
        "minimax_loss",
        "minimax_error",
        "least_variance",
        "total_error",
        "disparity",
        "equal_error",
        "error_gap",
        "robust_error_gap",
        "nash_welfare",
    ),
    "restriction": ("mean_parity", "covariance_parity", "uncorrelated"),
    "solver": (
        "auto",
        "boundary",
        "dual_newton",
        "multiplicative",
        "semidefinite",
        "riemannian",
    ),
    "display": (
        "correlation_circle",
        "disparity_path",
        "error_curve",
        "feature_error",
        "frontier",
        "group_loss",
        "loadings",
        "variance_kept",
    ),
}
FactoryLookup = Callable[[str], Callable[..., object]]
"""Lookup of the class or function that creates the built-in object with a name."""


@dataclass(frozen=True)
class ExternalObject:
    """Object of another package, given by path on the command line.

    Attributes
    ----------
    path : str
        Such as "package.module:Object".
    factory : callable
        Creates the object: the named class or function, or a function that returns the named
        object.
    """

    path: str
    factory: Callable[..., object]

    @classmethod
    def from_path(cls, kind: str, path: str) -> "ExternalObject | None":
        """Import an object by path; None if the text is not a path.

        Raises
        ------
        InvalidParameter
            The module or object does not exist or cannot be imported.
        """
        if not _OBJECT_PATH.fullmatch(path):
            return None
        module, attribute = path.split(":")
        try:
            value = attrgetter(attribute)(import_module(module))
        except Exception as error:  # any exception: this runs third-party code
            raise InvalidParameter(
                f"{kind} is {path!r}, which cannot be imported ({type(error).__name__}: {error})",
                "Allowed: package.module:Object, an object in a module that Python can import",
                "Check both names; install the package, or add its folder to PYTHONPATH",
            ) from error
        return cls(path, value if callable(value) else lambda: value)

    def __str__(self) -> str:
        return self.path


class LazyModule:
    """Proxy that imports a slow module on first use.

    Examples
    --------
    >>> LazyModule("math").gcd(12, 18)
    6
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def builtin_names(kind: str) -> tuple[str, ...]:
    """Return the names of the built-in objects of a kind.

    Examples
    --------
    >>> builtin_names("restriction")
    ('mean_parity', 'covariance_parity', 'uncorrelated')
    """
    return _NAMES[kind]


def get_factory(
    kind: str, name: str | ExternalObject, builtin_factory: FactoryLookup
) -> Callable[..., object]:
    """Return the factory with a name, or that of an object of another package.

    Parameters
    ----------
    kind : str
        Kind of the object, such as "criterion".
    name : str or ExternalObject
        Name of a built-in object, or an object named by its path on the command line.
    builtin_factory : callable
        Returns the factory for a name among :func:`builtin_names` of the kind.

    Raises
    ------
    InvalidParameter
        The name is unknown.
    """
    if isinstance(name, ExternalObject):
        return name.factory
    if name not in builtin_names(kind):
        raise InvalidParameter(f"{kind} is {name!r}", *_allowed_and_remedy(kind, name))
    return builtin_factory(name)


def resolve_object(
    kind: str,
    given: object,
    protocol: type,
    builtin_factory: FactoryLookup,
    parameters: Mapping[str, object] | None = None,
    *arguments: object,
) -> object:
    """Create the object with a name, or check an object that was passed.

    Parameters
    ----------
    kind : str
        Kind of the object, such as "criterion".
    given : str, ExternalObject or object
        Name of a built-in object; an object of another package, named by its path on the command
        line; or the object itself.
    protocol : type
        Protocol or ABC that the object must satisfy.
    builtin_factory : callable
        Returns the factory for a name among :func:`builtin_names` of the kind.
    parameters : mapping, optional
        Keyword arguments of the factory, if a name is given.
    *arguments : objects
        Positional arguments of the factory.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor an object that conforms.
    """
    value = given
    if isinstance(given, str | ExternalObject):
        factory = get_factory(kind, given, builtin_factory)
        value = _create(kind, str(given), factory, parameters or {}, arguments)
    if not isinstance(given, str):  # ours conform
        _check_conforms(kind, value, protocol)
    return value


def _create(
    kind: str,
    name: str,
    factory: Callable[..., object],
    parameters: Mapping[str, object],
    arguments: tuple[object, ...],
) -> object:
    """Call the factory with a name; raises InvalidParameter for a parameter that it lacks."""
    if parameters:
        allowed = list(inspect.signature(factory).parameters)
        unexpected = [parameter for parameter in parameters if parameter not in allowed]
        if unexpected:
            raise InvalidParameter(
                f"The {kind} {name!r} received the parameter {unexpected[0]!r}",
                f"Allowed: {', '.join(allowed)}" if allowed else "It has no parameters",
                f"Omit this parameter or choose another {kind}",
            )
    return factory(*arguments, **parameters)


def _check_conforms(kind: str, value: object, protocol: type) -> None:
    """Raise InvalidType if an object does not inherit from an ABC, or lacks members of a protocol.

    `kind` is that of the object in messages, such as "criterion".
    A class is not accepted in place of its instance.
    """
    if issubclass(protocol, ABC):
        conforms = isinstance(value, protocol)
        reason = f", which does not inherit from {protocol.__name__}"
    else:
        # Only abstract members are required, if there are any; others have defaults.
        required = getattr(protocol, "__abstractmethods__", None) or vars(protocol)
        members = [name for name in vars(protocol) if name in required and name[0] != "_"]
        missing = [name for name in members if not hasattr(value, name)]
        conforms = not missing and not isinstance(value, type)
        # An object without any of the members is of another kind: its type says enough.
        reason = f", which lacks {', '.join(missing)}" if 0 < len(missing) < len(members) else ""
    if not conforms:
        raise InvalidType(f"{kind} is {describe_type(value)}{reason}", *_allowed_and_remedy(kind))


def _allowed_and_remedy(kind: str, name: str = "") -> tuple[str, str]:
    """Return the "allowed" and "remedy" parts of an error."""
    names = builtin_names(kind)
    match = closest_match(name, names)
    suggestion = f"; the closest match is {match!r}" if match else ""
    allowed = f"Allowed: the name of a {kind}, or a {kind} object"
    return allowed, f"Choose one of {', '.join(map(repr, names))}{suggestion}"
