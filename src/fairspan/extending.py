"""The door for other packages: what a part of one's own has, and how to give it a name.

A criterion, a restriction, a solver or a display is an object with the members of its protocol. It
can be passed wherever a built-in one can; :func:`register` lets it be asked for by name, in Python
and on the command line. A package that declares an entry point of the group ``fairspan.plugins``, a
function without arguments that calls :func:`register`, is found when one of its names is used.
"""

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import TracePoint
from fairspan.drawing.picture import Display
from fairspan.problem.criteria import Criterion
from fairspan.problem.limits import Limit
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import Restriction
from fairspan.registry import register
from fairspan.solvers.protocol import Solver

__all__ = [
    "Criterion",
    "Display",
    "Limit",
    "Pieces",
    "Problem",
    "Restriction",
    "Solver",
    "TracePoint",
    "certified",
    "register",
]
