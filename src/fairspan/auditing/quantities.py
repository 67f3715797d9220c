"""What is measured of each row: its errors under models, and under the best subspaces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairspan.projector import Projector
from fairspan.typing import FloatArray

QUANTITIES = ("error", "new_error", "cross_fitted_loss", "corrected_loss", "change")
"""What is measured of each row; without folds the first alone.

Let r(V) be the squared residual of a row x about its centre. V is the model, and V_f the same
model without the row's fold, if it was fitted on these rows. U is the best subspace of the row's
group, U_f the same without the row's fold, and w = (K - 1) / (2K - 1). Then the quantities are:
r(V); r(V_f); r(V_f) - r(U_f); r(V_f) - (1 - w) r(U) - w r(U_f); and r(V_f) less that of the model
it is compared with.
"""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """The best subspaces of the groups, of one dimension, about one centre, in one unit.

    Attributes
    ----------
    points : (1, p) or (k, p) array
        About which errors are measured, in all groups or in each; in units of the features.
    scale : (p,) array or None
        What features are divided by.
    own : tuple of k (d, p) arrays
        Found on all rows; empty without folds.
    others : tuple of K tuples of k (d, p) arrays
        Found on all rows but those of a fold.
    """

    points: FloatArray
    scale: FloatArray | None
    own: tuple[FloatArray, ...] = ()
    others: tuple[tuple[FloatArray, ...], ...] = ()

    def centred(self, values: FloatArray, group: int) -> FloatArray:
        """Rows of a group about its centre, in the unit."""
        rows = values - self.points[group if len(self.points) > 1 else 0]
        return np.asarray(rows if self.scale is None else rows / self.scale)


class Reconstructs(Protocol):
    """The distance of each row to its reconstruction."""

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Of centred rows in their unit, shape (n,)."""


@dataclass(frozen=True, eq=False)
class Projection:
    """A model as the rows are judged by it.

    Attributes
    ----------
    benchmark : int
        Position of what it is compared with.
    projector : Projector, or a model that is none
    errors : (k,) array
        Mean error of each group.
    by_fold : tuple of K Projectors
        Fitted again without each fold; empty where it was fitted on other rows.
    baseline : int or None
        Position of the model that it is compared with.
    """

    benchmark: int
    projector: Reconstructs
    errors: FloatArray
    by_fold: tuple[Projector, ...] = ()
    baseline: int | None = None


def measured_by(
    errors: Callable[[Benchmark, Reconstructs], FloatArray],
    benchmarks: Sequence[Benchmark],
    projections: Sequence[Projection],
    group: int,
    fold: int,
    n_folds: int,
) -> FloatArray:
    """All quantities of some rows of one group in one fold, (m, q, r).

    Parameters
    ----------
    errors : callable
        Squared residuals (r,) about the centre of a benchmark, for a projector.
    benchmarks : sequence of Benchmark
    projections : sequence of m Projections
    group, fold : int
    n_folds : int
        K.
    """
    share = (n_folds - 1) / (2 * n_folds - 1)
    best = [
        (
            errors(each, Projector(each.own[group])),
            errors(each, Projector(each.others[fold][group])),
        )
        for each in benchmarks
    ]
    result = np.zeros((len(projections), len(QUANTITIES), len(best[0][0])))
    for each, quantities in zip(projections, result, strict=True):
        benchmark, (inside, outside) = benchmarks[each.benchmark], best[each.benchmark]
        quantities[:2] = errors(benchmark, each.projector)
        if each.by_fold:
            quantities[1] = errors(benchmark, each.by_fold[fold])
        quantities[2] = quantities[1] - outside
        quantities[3] = quantities[1] - (1 - share) * inside - share * outside
    for each, quantities in zip(projections, result, strict=True):
        if each.baseline is not None:
            quantities[4] = quantities[1] - result[each.baseline, 1]
    return result
