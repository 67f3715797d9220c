"""What this package and others have: criteria, restrictions, solvers, data sources, displays.

Built-in ones are imported when they are used, so that help and usage errors need not wait for
numpy. Parts of another package are registered by a call of :func:`register`, or by an entry point
of the group ``fairspan.plugins``: a function without arguments that calls :func:`register`. Entry
points are loaded only where a name is unknown.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from fairspan.errors import InvalidParameter, InvalidType, kind_of, nearest

Factory = Callable[..., Any]

_ENTRY_POINTS = "fairspan.plugins"
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
        "auto": "fairspan.solvers.choose:Auto",
        "boundary": "fairspan.solvers.two_groups.boundary_search:BoundarySearch",
        "dual_newton": "fairspan.solvers.many_groups.dual_newton:DualNewton",
        "multiplicative": "fairspan.solvers.published.multiplicative:MultiplicativeWeights",
        "semidefinite": "fairspan.solvers.published.semidefinite:Semidefinite",
        "riemannian": "fairspan.solvers.published.riemannian:RiemannianSubgradient",
    },
    "source": {
        "files": "fairspan.rows.files.file_rows:Files",
        "sparse": "fairspan.rows.sparse:SparseMatrices",
        "dask": "fairspan.rows.dask.collections:DaskCollections",
        "spark": "fairspan.rows.spark.frames:SparkFrames",
        "frames": "fairspan.rows.frames:DataFrames",
        "arrow": "fairspan.rows.frames:ArrowStreams",
        "device": "fairspan.rows.device.arrays:DeviceArrays",
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
_registered: dict[str, dict[str, Factory]] = {kind: {} for kind in _BUILT_IN}


def register(kind: str, name: str, factory: Factory) -> None:
    """Register a part of another package, so that it can be used by its name.

    Parameters
    ----------
    kind : {"criterion", "restriction", "solver", "source", "display"}
    name : str
        The name; registered again, it replaces what was registered before.
    factory : callable
        Makes the object; its parameters can be set by name, as ``criterion__penalty``. What makes
        a source takes no parameters: the object says which data it takes. What makes a display is
        called with a fitted FairPCA, which holds the moments of its rows.

    Raises
    ------
    InvalidParameter
        An unknown kind, or the name of something built in.
    InvalidType
        A name that is no text, or a factory that cannot be called.

    Examples
    --------
    >>> from functools import partial
    >>> from fairspan import FairPCA, MeanParity
    >>> from fairspan.extending import register
    >>> register("restriction", "loose_parity", partial(MeanParity, 0.5))
    >>> FairPCA(1, restriction="loose_parity").get_params()["restriction__tolerance"]
    0.5
    """
    if kind not in _BUILT_IN:
        raise InvalidParameter(
            f"kind is {kind!r}",
            f"Allowed: {', '.join(map(repr, _BUILT_IN))}",
            "Choose one of these",
        )
    if not isinstance(name, str) or not callable(factory):
        raise InvalidType(
            f"register received the name {name!r} and a factory of type {type(factory).__name__}",
            "Allowed: a text and a callable",
            "Pass the class itself, such as register('criterion', 'my_name', MyCriterion)",
        )
    if name in _BUILT_IN[kind]:
        raise InvalidParameter(
            f"The name {name!r} was registered as a {kind}",
            "Allowed: names that are not built in",
            "Choose another name",
        )
    _registered[kind][name] = factory


def names_of(kind: str) -> tuple[str, ...]:
    """The names that are known so far: built-in ones first.

    Examples
    --------
    >>> names_of("restriction")[:2]
    ('mean_parity', 'covariance_parity')
    """
    return (*_BUILT_IN[kind], *_registered[kind])


def factory_of(kind: str, name: str) -> Factory | None:
    """What makes the object of a name; None if no package knows the name."""
    if name in _BUILT_IN[kind]:
        module, attribute = _BUILT_IN[kind][name].split(":")
        factory: Factory = attrgetter(attribute)(import_module(module))
        return factory
    if name not in _registered[kind]:
        _load_entry_points()
    return _registered[kind].get(name)


def each_of(kind: str, protocol: type) -> Iterator[Any]:
    """All objects of a kind with their defaults; entry points are loaded after built-in ones."""
    for name in _BUILT_IN[kind]:
        yield object_of(kind, name, protocol)
    for name in registered(kind):
        yield object_of(kind, name, protocol)


def registered(kind: str) -> dict[str, Factory]:
    """What other packages have of a kind, by name."""
    _load_entry_points()
    return dict(_registered[kind])


def known_factory(kind: str, name: str) -> Factory:
    """What makes the object of a name.

    Raises
    ------
    InvalidParameter
        No package knows the name.
    """
    factory = factory_of(kind, name)
    if factory is None:
        raise InvalidParameter(f"{kind} is {name!r}", _allowed(kind), _remedy(kind, name))
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
    given : str or object
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
    if not isinstance(given, str):
        _check_conforms(kind, given, protocol)
        return given
    factory = known_factory(kind, given)
    parameters = parameters or {}
    known = list(inspect.signature(factory).parameters) if parameters else []
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise InvalidParameter(
            f"The {kind} {given!r} received the parameter {unknown[0]!r}",
            f"Allowed: {', '.join(known)}" if known else "It has no parameters",
            f"Leave this parameter out or choose another {kind}",
        )
    made = factory(*arguments, **parameters)
    _check_conforms(kind, made, protocol)
    return made


def _check_conforms(kind: str, value: object, protocol: type) -> None:
    members = [name for name in vars(protocol) if not name.startswith("_")]
    missing = [name for name in members if not hasattr(value, name)]
    if not missing and not isinstance(value, type):
        return
    lacking = "" if len(missing) in (0, len(members)) else f", which lacks {', '.join(missing)}"
    raise InvalidType(f"{kind} is {kind_of(value)}{lacking}", _allowed(kind), _remedy(kind))


def _allowed(kind: str) -> str:
    return f"Allowed: the name of a {kind}, or a {kind} object"


def _remedy(kind: str, name: str = "") -> str:
    close = nearest(name, names_of(kind))
    closest = f"; the closest is {close!r}" if close else ""
    return f"Choose one of {', '.join(map(repr, names_of(kind)))}{closest}"


@cache
def _load_entry_points() -> None:
    for entry_point in entry_points(group=_ENTRY_POINTS):
        entry_point.load()()
