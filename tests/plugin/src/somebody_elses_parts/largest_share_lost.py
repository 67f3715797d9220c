"""A criterion: the largest share of its variance that a group loses."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.extending import AffinePieces, Criterion, ProblemView


@dataclass(frozen=True)
class LargestShareLost(Criterion):
    """max_g e_g / tr S_g, times the total variance: in squared units of the features."""

    name: ClassVar[str] = "largest_share_lost"

    def pieces(self, problem: ProblemView) -> AffinePieces:
        """One affine function for each group; a group without variance cannot lose any."""
        traces = problem.second_moments.traces
        varying = traces > 0
        slopes = np.divide(problem.total_variance, traces, out=np.zeros_like(traces), where=varying)
        return AffinePieces(np.diag(slopes), np.zeros(len(traces)))
