"""Built-in solvers by name, and how they are looked up.

The classes are registered in :mod:`fairspan.registration`, not imported here: solvers import this
module, to fall back on others, and a fit with one solver does not wait for the imports of all.
"""

from collections.abc import Callable
from typing import Any, cast

from fairspan.class_loaders import load_class
from fairspan.registry import resolve_object
from fairspan.solvers.solver import Solver


def solver_class(name: str) -> Callable[..., Any]:
    """Import and return the class of a built-in solver.

    Parameters
    ----------
    name : str
        One of the names of solvers in :mod:`fairspan.registry`.

    Raises
    ------
    KeyError
        There is no such solver.

    Examples
    --------
    >>> solver_class("boundary")()
    BoundarySearch()
    """
    return load_class("solver", name)


def get_solver(solver: object, **parameters: Any) -> Solver:
    """Get a solver by name, with parameters, or return the given object.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a solver.

    Examples
    --------
    >>> get_solver("boundary")
    BoundarySearch()
    """
    return cast(Solver, resolve_object("solver", solver, Solver, solver_class, parameters))
