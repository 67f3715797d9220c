"""Registry of built-in components by name.

Registered are criteria, restrictions, solvers, data sources and displays. Names refer to built-in
objects, imported on first use, so that help and usage errors do not wait for numpy. Objects of
other packages are passed as objects, or as ``package.module:Object`` on the command line. Only the
command line imports such paths; names in model files are never imported.
"""

import inspect
import re
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from fairspan.errors import InvalidParameter, InvalidType, closest_match, describe_type

_OBJECT_PATH = re.compile(r"[\w.]+:[\w.]+")
_BUILTINS: dict[str, dict[str, str]] = {
    "criterion": {
        "minimax_loss": "fairspan.problem.criteria:MinimaxLoss",
        "minimax_error": "fairspan.problem.criteria:MinimaxError",
        "least_variance": "fairspan.problem.criteria:LeastVariance",
        "total_error": "fairspan.problem.criteria:TotalError",
        "disparity": "fairspan.problem.criteria:Disparity",
        "equal_error": "fairspan.problem.criteria:EqualError",
        "error_gap": "fairspan.problem.criteria:ErrorGap",
        "robust_error_gap": "fairspan.problem.criteria:RobustErrorGap",
        "nash_welfare": "fairspan.problem.criteria:NashWelfare",
    },
    "restriction": {
        "mean_parity": "fairspan.problem.restrictions:MeanParity",
        "covariance_parity": "fairspan.problem.restrictions:CovarianceParity",
        "uncorrelated": "fairspan.problem.restrictions:Uncorrelated",
    },
    "solver": {
        "auto": "fairspan.solvers.auto:Auto",
        "boundary": "fairspan.solvers.two_groups.boundary_search:BoundarySearch",
        "dual_newton": "fairspan.solvers.many_groups.dual_newton:DualNewton",
        "multiplicative": "fairspan.solvers.published.multiplicative_weights:MultiplicativeWeights",
        "semidefinite": "fairspan.solvers.published.semidefinite:Semidefinite",
        "riemannian": "fairspan.solvers.published.riemannian:RiemannianSubgradient",
    },
    "source": {
        "files": "fairspan.rows.files.file_rows:FileAdapter",
        "sparse": "fairspan.rows.sparse:SparseAdapter",
        "dask": "fairspan.rows.dask:DaskAdapter",
        "spark": "fairspan.rows.spark:SparkAdapter",
        "frames": "fairspan.rows.frames:DataFrameAdapter",
        "arrow": "fairspan.rows.frames:ArrowStreamAdapter",
        "device": "fairspan.rows.devices:DeviceArrayAdapter",
        "arrays": "fairspan.rows.arrays:ArrayAdapter",
    },
    "display": {
        "disparity_path": "fairspan.displays:DisparityPathDisplay.compute",
        "error_curve": "fairspan.displays:ErrorCurveDisplay.compute",
        "feature_error": "fairspan.displays:FeatureErrorDisplay.compute",
        "frontier": "fairspan.displays:FrontierDisplay.compute",
        "group_loss": "fairspan.displays:GroupLossDisplay.compute",
        "loadings": "fairspan.displays:LoadingsDisplay.compute",
        "variance_kept": "fairspan.displays:VarianceKeptDisplay.compute",
    },
    # Displays used by result objects, which are in a lower layer than the displays.
    "result_display": {
        "audit": "fairspan.displays:AuditDisplay.compute",
        "frontier": "fairspan.displays:FrontierDisplay.from_frontier",
    },
}


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
    factory: Callable[..., Any]

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
    return tuple(_BUILTINS[kind])


@cache
def get_factory(kind: str, name: str | ExternalObject) -> Callable[..., Any]:
    """Return the factory registered under a name.

    Raises
    ------
    InvalidParameter
        The name is unknown.
    """
    if isinstance(name, ExternalObject):
        return name.factory
    if name not in _BUILTINS[kind]:
        raise InvalidParameter(f"{kind} is {name!r}", *_allowed_and_remedy(kind, name))
    module, attribute = _BUILTINS[kind][name].split(":")
    factory: Callable[..., Any] = attrgetter(attribute)(import_module(module))
    return factory


def resolve_object(
    kind: str,
    given: object,
    protocol: type,
    parameters: Mapping[str, Any] | None = None,
    *arguments: Any,
) -> Any:
    """Create the object with a name, or check an object that was passed.

    Parameters
    ----------
    kind : str
        Kind of the object, such as "criterion", under which its name is registered.
    given : str, ExternalObject or object
        Name of a built-in object; an object of another package, named by its path on the command
        line; or the object itself.
    protocol : type
        Protocol or ABC that the object must satisfy.
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
    if isinstance(given, str):
        return _create(kind, given, parameters or {}, arguments)  # ours, which conform
    value = given
    if isinstance(given, ExternalObject):
        value = _create(kind, given, parameters or {}, arguments)
    _check_conforms(kind, value, protocol)
    return value


def _create(
    kind: str,
    name: str | ExternalObject,
    parameters: Mapping[str, Any],
    arguments: tuple[Any, ...],
) -> Any:
    """Call the factory with a name; raises InvalidParameter for a parameter that it lacks."""
    factory = get_factory(kind, name)
    if parameters:
        allowed = list(inspect.signature(factory).parameters)
        unexpected = [parameter for parameter in parameters if parameter not in allowed]
        if unexpected:
            raise InvalidParameter(
                f"The {kind} {str(name)!r} received the parameter {unexpected[0]!r}",
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
