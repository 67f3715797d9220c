"""The door for other packages: what a part of one's own has, to be used as a built-in one is.

A criterion, a restriction, a solver or a display is an object with the members of its protocol. It
is passed wherever a built-in one can be. Rows are an object with the members of
:class:`RowSource`, which is passed as X. The command line takes ``package.module:Object`` where it
takes the name of a built-in part, and in place of a file.
"""

from typing import Any, Protocol, runtime_checkable

from fairspan.certificates.certificate import Solver, TracePoint, certify
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import AffinePieces, ParityLimit, Problem
from fairspan.problem.restrictions import Restriction
from fairspan.progress import Stage
from fairspan.rows.groups import CodedLabels
from fairspan.rows.protocol import RowBlock, RowSource, make_row_block, rows_per_block

__all__ = [
    "AffinePieces",
    "CodedLabels",
    "Criterion",
    "Display",
    "ParityLimit",
    "Problem",
    "Restriction",
    "RowBlock",
    "RowSource",
    "Solver",
    "Stage",
    "TracePoint",
    "certify",
    "make_row_block",
    "rows_per_block",
]


@runtime_checkable
class Display(Protocol):
    """A picture of a fitted model: what is drawn, as a table, and how it is drawn.

    A display that can be requested by name is made by a function that takes a fitted FairPCA, whose
    `moments_` are those of the rows that it was fitted on.
    """

    def frame(self) -> Any:
        """What is drawn, as a pandas DataFrame."""

    def plot(self, ax: Any = None) -> Any:
        """Draw on these matplotlib axes; without them, on a new figure."""
