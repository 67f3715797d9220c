"""Built-in solvers by name, and how they are looked up.

A solver is imported when it is asked for. The modules of some solvers import this one, to fall back
on others, and a fit with one solver does not wait for the imports of all.
"""

from collections.abc import Callable
from typing import Any, cast

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
    if name == "auto":
        from fairspan.solvers.auto import Auto

        return Auto
    if name == "boundary":
        from fairspan.solvers.two_groups.boundary_search import BoundarySearch

        return BoundarySearch
    if name == "dual_newton":
        from fairspan.solvers.many_groups.dual_newton import DualNewton

        return DualNewton
    if name == "multiplicative":
        from fairspan.solvers.published.multiplicative_weights import MultiplicativeWeights

        return MultiplicativeWeights
    if name == "semidefinite":
        from fairspan.solvers.published.semidefinite import Semidefinite

        return Semidefinite
    if name == "riemannian":
        from fairspan.solvers.published.riemannian import RiemannianSubgradient

        return RiemannianSubgradient
    raise KeyError(name)


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
