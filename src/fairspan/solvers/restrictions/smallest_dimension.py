"""The smallest dimension at which every group keeps a share of its variance."""

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible
from fairspan.solvers.restrictions.restricted import Solved, Task
from fairspan.typing import FloatArray

# A share that is met up to rounding is met.
_ROUNDING = 1e-12
# A group with less than this share of another's variance has none: its rows differ by rounding.
_NO_VARIANCE = 1e-20


def smallest_keeping(task: Task, share: float) -> Solved:
    """Solve for the smallest dimension that keeps this share of every group's variance.

    The share that a criterion leaves to a group need not grow with the dimension, so every
    dimension is tried, from the first at which each group's own best subspace would do.

    Raises
    ------
    Incompatible
        No dimension keeps it, or the solver cannot take the problem.
    """
    last, best = _most_components(task), -np.inf
    obstacle: Incompatible | None = None
    for d in range(min(_least_components(task, share), last), last + 1):
        ready = task.checked(d)
        try:
            solved = task.solved(*ready)
        except Incompatible as error:  # such as equal errors that are out of reach for this d
            obstacle = error
            continue
        least = float(_kept(solved).min())
        if least >= share - _ROUNDING:
            return solved
        best = max(best, least)
    if best == -np.inf and obstacle is not None:
        raise obstacle
    raise Incompatible(
        f"n_components is {share!r}, a share of every group's variance, with the criterion "
        f"{task.problem.criterion.name!r} and restriction {task.posed.restriction!r}",
        f"Allowed here is at most {np.floor(best * 1e6) / 1e6:g}, which the group served worst "
        f"keeps with up to {last} components",
        "Choose a smaller share, another criterion, or a looser restriction",
    )


def _most_components(task: Task) -> int:
    hide = task.posed.restriction
    if hide is None:
        return task.problem.n_features
    return hide.most_components(task.posed.means, task.posed.covariances)


def _least_components(task: Task, share: float) -> int:
    """The first d with t_d(S_g) >= share tr S_g for every group."""
    p, traces = task.problem.n_features, task.problem.second_moments.traces
    needed = 1
    for group in np.flatnonzero(_varying(traces)):
        # Solving for each dimension asks for the same decompositions.
        alone = np.eye(len(traces))[group]
        kept = np.cumsum(task.problem.dense.solved.spectrum(alone).values)
        reached = np.flatnonzero(kept >= (share - _ROUNDING) * traces[group])
        needed = max(needed, int(reached[0]) + 1 if len(reached) else p)
    return needed


def _kept(solved: Solved) -> FloatArray:
    """1 - e_g / tr S_g of each group, shape (k,); 1 for a group without variance."""
    traces = solved.problem.second_moments.traces
    varies = _varying(traces)
    kept = np.ones(len(traces))
    kept[varies] -= solved.problem.errors(solved.basis)[varies] / traces[varies]
    return kept


def _varying(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Which groups have variance."""
    return np.asarray(traces > _NO_VARIANCE * traces.max())
