"""Which solver takes a problem."""

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.solvers.boundary import BoundarySearch
from fairspan.solvers.protocol import Solver

_BY_NAME = {"auto": BoundarySearch, BoundarySearch.name: BoundarySearch}


def solver_of(solver: object) -> Solver:
    """A solver from its name, or the object itself.

    "auto" takes the boundary search, which is exact for every criterion there is.

    Raises
    ------
    InvalidParameter
        An unknown name.
    InvalidType
        Neither a name nor a solver.

    Examples
    --------
    >>> solver_of("auto")
    BoundarySearch(eigen='auto')
    """
    remedy = f"Choose one of {', '.join(map(repr, _BY_NAME))}"
    if isinstance(solver, str):
        if solver not in _BY_NAME:
            raise InvalidParameter(
                f"solver is {solver!r}", "Allowed is the name of a solver, or its object", remedy
            )
        return _BY_NAME[solver]()
    if isinstance(solver, BoundarySearch):
        return solver
    raise InvalidType(
        f"solver is a {type(solver).__name__}",
        "Allowed is the name of a solver, or its object",
        remedy,
    )
