"""Protocols and helpers for extensions by other packages.

A criterion, restriction, solver or display that implements its protocol can be passed wherever a
built-in one can. A data source that implements :class:`RowSource` can be passed as X. On the
command line write ``package.module:Object`` in place of a built-in name or a file.
"""

from typing import Any, Protocol, runtime_checkable

from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.evaluate_solution import certify
from fairspan.model.linear_decoder import LinearDecoder
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion, Criterion, LinearCriterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.limits import ParityLimit
from fairspan.problem.piecewise import AffinePieces, Blocks
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.progress import Stage
from fairspan.rows.blocks import RowBlock, make_row_block, rows_per_block
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.protocol import RowSource
from fairspan.solvers.solver import Solver

__all__ = [
    "AffinePieces",
    "Blocks",
    "CodedLabels",
    "ConcaveScoresCriterion",
    "Criterion",
    "Display",
    "LinearCriterion",
    "LinearDecoder",
    "ParityLimit",
    "Problem",
    "ProblemView",
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
    """Display of a fitted model: its data as a table, and a plot.

    A display requested by name is created by a function of the fitted FairPCA, whose `moments_` are
    those of the training rows.
    """

    def frame(self) -> Any:
        """Return the plotted data as a pandas DataFrame."""

    def plot(self, ax: object = None) -> Any:
        """Draw on the given matplotlib axes, or on a new figure."""
