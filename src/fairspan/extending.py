"""The door for other packages: what a part of one's own has, and how to give it a name.

A criterion, a restriction, a solver or a display is an object with the members of its protocol. It
can be passed wherever a built-in one can; :func:`register` lets it be requested by name, in Python
and on the command line. Rows are an object with the members of :class:`RowSource`, which can be
passed as X; a registered :class:`RowOpener` recognises the data, or texts on the command line,
that it opens. A package that declares an entry point of the group ``fairspan.plugins``, a function
without arguments that calls :func:`register`, is found when a name or a kind of data is not known.
"""

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import TracePoint
from fairspan.drawing.picture import Display
from fairspan.problem.criteria import Criterion
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Limit, Problem
from fairspan.problem.restrictions import Restriction
from fairspan.progress.stages import Stage
from fairspan.registry import register
from fairspan.rows.checks import row_block
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.protocol import RowBlock, RowOpener, RowSource, block_rows
from fairspan.solvers.protocol import Solver

__all__ = [
    "CodedLabels",
    "Criterion",
    "Display",
    "Limit",
    "Pieces",
    "Problem",
    "Restriction",
    "RowBlock",
    "RowOpener",
    "RowSource",
    "Solver",
    "Stage",
    "TracePoint",
    "block_rows",
    "certified",
    "register",
    "row_block",
]
