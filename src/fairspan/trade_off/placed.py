"""Where the answer of a criterion lies beside the frontier."""

from dataclasses import dataclass

import numpy as np

from fairspan.problem.criteria import Criterion
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the answer of a criterion lies beside the frontier.

    Attributes
    ----------
    criterion : Criterion
    errors : (2,) array
        e_g of each group at the criterion's answer.
    on_frontier : bool
        Whether it is Pareto: neither error can fall without the other rising. Criteria that value
        a gap (equal error, error gap, disparity) may go past an end, where both could be less.
    distance : float
        From the polygon through the frontier's vertices, in units of the errors; for an answer on
        the frontier at most `Frontier.largest_height`, up to rounding.
    """

    criterion: Criterion
    errors: FloatArray
    on_frontier: bool
    distance: float

    @property
    def name(self) -> str:
        """The criterion's name."""
        return self.criterion.name


def distance_from(point: FloatArray, polygon: FloatArray) -> float:
    """Least distance of a (2,) point from the line through the (m, 2) vertices."""
    start = polygon[:-1] if len(polygon) > 1 else polygon
    sides = np.diff(polygon, axis=0) if len(polygon) > 1 else np.zeros((1, 2))
    squared = np.einsum("ij,ij->i", sides, sides)
    along = np.einsum("ij,ij->i", point - start, sides)
    share = np.clip(along / np.where(squared > 0, squared, 1.0), 0.0, 1.0)
    return float(np.linalg.norm(point - start - share[:, None] * sides, axis=1).min())
