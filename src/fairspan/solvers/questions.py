"""Two groups: what is asked along a segment of weights, what proves it, and what it is worth.

A subspace is a point (x, y): the variance that it captures of the mixtures at the start and at the
end of the segment. Its cut (R_end - y, R_start - x) bounds the dual: at the weight t the dual is at
most (t, 1 - t) times the cut of any subspace, and it is that of the leading one.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Worth(NamedTuple):
    """What a subspace is worth.

    Attributes
    ----------
    value : float
        What is minimised.
    violation : float
        By how much a constraint is missed; 0 without one.
    cut : tuple of 2 floats
        The dual at t is at most (t, 1 - t) times these.
    excess : float
        Position less target: below zero at the start of the segment.
    """

    value: float
    violation: float
    cut: tuple[float, float]
    excess: float


class Question(Protocol):
    """What is minimised over V, and how weights bound it."""

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The weights w(0) and w(1)."""

    @property
    def references(self) -> tuple[float, float]:
        """R of the end and of the start."""

    @property
    def direction(self) -> FloatArray:
        """h; the position of a subspace is h.c."""

    @property
    def target(self) -> float:
        """The position looked for."""

    @property
    def pole(self) -> float | None:
        """As of :class:`fairspan.solvers.bracket.Bracket`."""

    def bound(self, t: float, dual: float) -> float:
        """Lower bound on the optimum from the dual at a weight."""

    def worth(self, cut: tuple[float, float]) -> Worth:
        """What a subspace with this cut is worth."""


@dataclass(frozen=True, eq=False)
class LargestOfTwo:
    """min over V of max_i (R_i - A_i.c): optimal where both pieces agree, or at an end.

    Attributes
    ----------
    coefficients : (2, 2) array
        A, one row for each piece.
    offsets : (2,) array
        R.
    """

    coefficients: FloatArray
    offsets: FloatArray

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Each piece alone."""
        return self.coefficients[1], self.coefficients[0]

    @cached_property
    def references(self) -> tuple[float, float]:
        """Those of the pieces."""
        return float(self.offsets[0]), float(self.offsets[1])

    @property
    def direction(self) -> FloatArray:
        """The difference of both pieces."""
        return np.asarray(self.coefficients[0] - self.coefficients[1])

    @property
    def target(self) -> float:
        """Where both pieces agree."""
        return self.references[0] - self.references[1]

    @property
    def pole(self) -> None:
        """None: both pieces agree where the dual is level."""

    def bound(self, t: float, dual: float) -> float:
        """The dual: the mixture of the pieces, at its least."""
        return dual

    def worth(self, cut: tuple[float, float]) -> Worth:
        """The larger piece."""
        return Worth(max(cut), 0.0, cut, cut[1] - cut[0])


@dataclass(frozen=True, eq=False)
class Reach:
    """min over V of reference - a.c subject to h.c = target, or >= target.

    Attributes
    ----------
    objective : (2,) array
        a.
    reference : float
    direction : (2,) array
        h, turned so that the optimum without the constraint lies below the target.
    target : float
    exactly : bool
        Whether positions beyond the target are a violation.
    """

    objective: FloatArray
    reference: float
    direction: FloatArray
    target: float
    exactly: bool

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """From the objective alone to the constraint alone."""
        return self.objective, self.direction

    @property
    def references(self) -> tuple[float, float]:
        """The target, and the objective's reference."""
        return self.target, self.reference

    @property
    def pole(self) -> float:
        """The constraint alone."""
        return 1.0

    def bound(self, t: float, dual: float) -> float:
        """Of (1 - t) times the objective plus t times the constraint's slack."""
        return -np.inf if t == 1 else dual / (1 - t)

    def worth(self, cut: tuple[float, float]) -> Worth:
        """The objective, and how far the constraint is from being met."""
        slack, value = cut
        return Worth(value, abs(slack) if self.exactly else max(slack, 0.0), cut, -slack)
