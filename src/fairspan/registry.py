"""Criteria, restrictions, solvers, data sources and displays by name, and those of other packages.

A name means a part of this library, which is imported when it is used, so that help and usage
errors need not wait for numpy. A part of another package is passed as an object; on the command
line it is written ``package.module:Object``. Only the command line imports what such a text names:
the name in a model file never does.
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

from fairspan.errors import InvalidParameter, InvalidType, kind_of, nearest

_DOTTED = re.compile(r"[\w.]+:[\w.]+")
_BUILT_IN: dict[str, dict[str, str]] = {
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
    },
    "solver": {
        "auto": "fairspan.solvers.solve:Auto",
        "boundary": "fairspan.solvers.two_groups.boundary:BoundarySearch",
        "dual_newton": "fairspan.solvers.many_groups.dual_newton:DualNewton",
        "multiplicative": "fairspan.solvers.published.samadi_et_al:MultiplicativeWeights",
        "semidefinite": "fairspan.solvers.published.samadi_et_al:Semidefinite",
        "riemannian": "fairspan.solvers.published.riemannian:RiemannianSubgradient",
    },
    "source": {
        "files": "fairspan.rows.files.file_rows:Files",
        "sparse": "fairspan.rows.sparse:SparseMatrices",
        "dask": "fairspan.rows.dask:DaskCollections",
        "spark": "fairspan.rows.spark:SparkFrames",
        "frames": "fairspan.rows.frames:DataFrames",
        "arrow": "fairspan.rows.frames:ArrowStreams",
        "device": "fairspan.rows.device:DeviceArrays",
        "arrays": "fairspan.rows.arrays:Arrays",
    },
    "display": {
        "disparity_path": "fairspan.displays:DisparityPathDisplay.from_estimator",
        "error_curve": "fairspan.displays:ErrorCurveDisplay.from_estimator",
        "frontier": "fairspan.displays:FrontierDisplay.from_estimator",
        "group_loss": "fairspan.displays:GroupLossDisplay.from_estimator",
        "loadings": "fairspan.displays:LoadingsDisplay.from_estimator",
        "variance_kept": "fairspan.displays:VarianceKeptDisplay.from_estimator",
    },
}


@dataclass(frozen=True)
class Foreign:
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
    def named(cls, kind: str, path: str) -> "Foreign | None":
        """Import what a text names; None for a text of another form.

        Raises
        ------
        InvalidParameter
            No such module, a module that cannot be imported, or no such object in it.
        """
        if not _DOTTED.fullmatch(path):
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


def names_of(kind: str) -> tuple[str, ...]:
    """The names of the library's own parts of a kind.

    Examples
    --------
    >>> names_of("restriction")
    ('mean_parity', 'covariance_parity')
    """
    return tuple(_BUILT_IN[kind])


@cache
def factory_of(kind: str, given: str | Foreign) -> Callable[..., Any]:
    """What makes the object of a name.

    Raises
    ------
    InvalidParameter
        There is no such name.
    """
    if isinstance(given, Foreign):
        return given.factory
    if given not in _BUILT_IN[kind]:
        raise InvalidParameter(f"{kind} is {given!r}", *_advice(kind, given))
    module, attribute = _BUILT_IN[kind][given].split(":")
    factory: Callable[..., Any] = attrgetter(attribute)(import_module(module))
    return factory


def object_of(
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
    if isinstance(given, str | Foreign):
        factory, parameters = factory_of(kind, given), parameters or {}
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
        raise InvalidType(f"{kind} is {kind_of(value)}{lacking}", *_advice(kind))
    return value


def _advice(kind: str, name: str = "") -> tuple[str, str]:
    """What is allowed, and what to do next."""
    close = nearest(name, names_of(kind))
    closest = f"; the closest is {close!r}" if close else ""
    allowed = f"Allowed: the name of a {kind}, or a {kind} object"
    return allowed, f"Choose one of {', '.join(map(repr, names_of(kind)))}{closest}"
