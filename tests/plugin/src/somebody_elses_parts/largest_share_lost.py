"""A criterion: the largest share of its variance that a group loses."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan.extending import Pieces, Problem


@dataclass(frozen=True)
class LargestShareLost:
    """max_g e_g / tr S_g, times the total variance: in squared units of the features."""

    name: ClassVar[str] = "largest_share_lost"

    def check(self, labels: list[Any]) -> None:
        """Accept any groups."""

    def value(self, errors: np.ndarray, problem: Problem) -> float:
        """At the (k,) errors of a subspace."""
        return self.pieces(problem).value(errors)

    def pieces(self, problem: Problem) -> Pieces:
        """One affine function for each group; a group without variance cannot lose any."""
        traces = problem.second_moments.traces
        varying = traces > 0
        slopes = np.divide(problem.total_variance, traces, out=np.zeros_like(traces), where=varying)
        return Pieces(np.diag(slopes), np.zeros(len(traces)))
