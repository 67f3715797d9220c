"""Parts of the library by name, and checks of the parameters that users pass.

Parts are criteria, restrictions, solvers, data sources and displays. A name means a part of this
library, which is imported when it is used, so that help and usage errors need not wait for numpy. A
part of another package is passed as an object; on the command line it is written
``package.module:Object``. Only the command line imports what such a text names: the name in a model
file never does.
"""

import inspect
import math
import numbers
import re
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
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
        "auto": "fairspan.solvers.solve:AutoSolver",
        "boundary": "fairspan.solvers.two_groups.boundary:BoundarySearch",
        "dual_newton": "fairspan.solvers.many_groups.dual_newton:DualNewton",
        "multiplicative": "fairspan.solvers.published.samadi_et_al:MultiplicativeWeights",
        "semidefinite": "fairspan.solvers.published.samadi_et_al:Semidefinite",
        "riemannian": "fairspan.solvers.published.riemannian:RiemannianSubgradient",
    },
    "source": {
        "files": "fairspan.rows.files.file_rows:FileAdapter",
        "sparse": "fairspan.rows.matrices:SparseAdapter",
        "dask": "fairspan.rows.dask:DaskAdapter",
        "spark": "fairspan.rows.spark:SparkAdapter",
        "frames": "fairspan.rows.frames:DataFrameAdapter",
        "arrow": "fairspan.rows.frames:ArrowStreamAdapter",
        "device": "fairspan.rows.matrices:DeviceArrayAdapter",
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
    # What results draw of themselves: they stand below the displays, which know them.
    "picture": {
        "audit": "fairspan.displays:AuditDisplay.compute",
        "frontier": "fairspan.displays:FrontierDisplay.of",
    },
}


@dataclass(frozen=True)
class ExternalObject:
    """A part of another package, as the command line names it.

    Attributes
    ----------
    path : str
        Such as "package.module:Object".
    factory : callable
        Makes the object: the class or function of that name, or what returns the object itself.
    """

    path: str
    factory: Callable[..., Any]

    @classmethod
    def from_path(cls, kind: str, path: str) -> "ExternalObject | None":
        """Import what a text names; None for a text of another form.

        Raises
        ------
        InvalidParameter
            No such module, a module that cannot be imported, or no such object in it.
        """
        if not _OBJECT_PATH.fullmatch(path):
            return None
        module, attribute = path.split(":")
        try:
            found = attrgetter(attribute)(import_module(module))
        except Exception as error:  # of any kind: it is the code of somebody else that runs here
            raise InvalidParameter(
                f"{kind} is {path!r}, which cannot be imported ({type(error).__name__}: {error})",
                "Allowed: package.module:Object, an object in a module that Python can import",
                "Check both names; install the package, or add its folder to PYTHONPATH",
            ) from error
        return cls(path, found if callable(found) else lambda: found)

    def __str__(self) -> str:
        return self.path


class LazyModule:
    """A module that is imported when something of it is first used: it takes its time.

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
    """The names of the library's own parts of a kind.

    Examples
    --------
    >>> names_of("restriction")
    ('mean_parity', 'covariance_parity', 'uncorrelated')
    """
    return tuple(_BUILTINS[kind])


@cache
def get_factory(kind: str, name: str | ExternalObject) -> Callable[..., Any]:
    """What makes the object of a name.

    Raises
    ------
    InvalidParameter
        There is no such name.
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
    """The object with a name, or the given object itself if it conforms.

    Parameters
    ----------
    kind : str
    given : str, Foreign or object
    protocol : type
        What an object of this kind has.
    parameters : mapping, optional
        For the factory, where a name is given.
    *arguments : objects
        For the factory, before the parameters.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor an object that conforms.
    """
    value = given
    if isinstance(given, str | ExternalObject):
        factory, parameters = get_factory(kind, given), parameters or {}
        known = list(inspect.signature(factory).parameters) if parameters else []
        if unknown := [name for name in parameters if name not in known]:
            raise InvalidParameter(
                f"The {kind} {str(given)!r} received the parameter {unknown[0]!r}",
                f"Allowed: {', '.join(known)}" if known else "It has no parameters",
                f"Leave this parameter out or choose another {kind}",
            )
        value = factory(*arguments, **parameters)
    if issubclass(protocol, ABC):
        conforms = isinstance(value, protocol)
        lacking = f", which does not inherit from {protocol.__name__}"
    else:
        # Where some members are required, the others have defaults.
        required = getattr(protocol, "__abstractmethods__", None) or vars(protocol)
        members = [name for name in vars(protocol) if name in required and name[0] != "_"]
        missing = [name for name in members if not hasattr(value, name)]
        conforms = not missing and not isinstance(value, type)
        lacking = f", which lacks {', '.join(missing)}" if 0 < len(missing) < len(members) else ""
    if not conforms:
        raise InvalidType(f"{kind} is {describe_type(value)}{lacking}", *_allowed_and_remedy(kind))
    return value


def _allowed_and_remedy(kind: str, name: str = "") -> tuple[str, str]:
    """What is allowed, and what to do next."""
    close = closest_match(name, builtin_names(kind))
    closest = f"; the closest is {close!r}" if close else ""
    allowed = f"Allowed: the name of a {kind}, or a {kind} object"
    return allowed, f"Choose one of {', '.join(map(repr, builtin_names(kind)))}{closest}"


def check_number(
    name: str,
    value: Any,
    least: float,
    most: float = math.inf,
    *,
    whole: bool = False,
    also: str = "",
) -> None:
    """Make sure that a parameter is a finite number in a range, or a whole one.

    `also` names what the caller allows besides, such as "'auto', or ".

    Raises
    ------
    InvalidType
        No number, or no whole one.
    InvalidParameter
        Out of range, infinite or NaN.
    """
    kind: Any = numbers.Integral if whole else numbers.Real
    allowed = f"Allowed: {also}a {'whole' if whole else 'finite'} number of at least {least:g}"
    if most < math.inf:
        allowed = f"Allowed: a number from {least:g} to {most:g}"
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidType(f"{name} is {value!r}", allowed, f"Pass a {'whole ' * whole}number")
    try:
        # A comparison in half precision would overflow.
        plain = plain_value(value)
        is_allowed = math.isfinite(plain) and least <= plain <= most
    except OverflowError:  # a whole number or a fraction beyond float64
        is_allowed = False
    if not is_allowed:
        raise InvalidParameter(f"{name} is {value!r}", allowed, "Choose a number in that range")


def plain_value(value: Any) -> Any:
    """Return a number of another package as Python's own, and anything else as it is.

    Parameters are saved with a model, and JSON knows Python's numbers alone.

    Examples
    --------
    >>> from fractions import Fraction
    >>> plain_value(Fraction(1, 2)), plain_value("auto")
    (0.5, 'auto')
    """
    # The checks against abstract classes below are slow.
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def make_plain(settings: Any) -> None:
    """Convert the numbers among the fields of a frozen dataclass, in place, to Python's own."""
    for name, value in init_parameters(settings).items():
        object.__setattr__(settings, name, plain_value(value))


def check_bool(name: str, value: object) -> None:
    """Make sure that a parameter is True or False.

    Raises
    ------
    InvalidParameter
    """
    if type(value).__name__ not in ("bool", "bool_"):  # numpy's too, which is not imported here
        raise InvalidParameter(
            f"{name} is {value!r}", "Allowed: True and False", "Use one of these"
        )


def check_integer(name: str, value: object, minimum: int = 1) -> None:
    """Make sure that a parameter is a whole number of at least `least`.

    Raises
    ------
    InvalidType, InvalidParameter
    """
    check_number(name, value, minimum, whole=True)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Make sure that a parameter is one of a few words.

    Raises
    ------
    InvalidParameter
    """
    if value not in choices:
        words = ", ".join(map(repr, choices))
        raise InvalidParameter(f"{name} is {value!r}", f"Allowed: {words}", "Use one of these")


def init_parameters(settings: object) -> dict[str, Any]:
    """The fields of a settings object that can be chosen; none of anything else.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap
    >>> init_parameters(ErrorGap(2.0)), init_parameters("error_gap")
    ({'penalty': 2.0}, {})
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        return {}
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.init}


def non_default_parameters(settings: Any) -> dict[str, Any]:
    """The fields of a settings object that are not at their defaults.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap
    >>> non_default_parameters(ErrorGap(2.0)), non_default_parameters(ErrorGap())
    ({'penalty': 2.0}, {})
    """
    defaults = {field.name: field.default for field in fields(settings)}
    return {
        name: value for name, value in init_parameters(settings).items() if value != defaults[name]
    }
