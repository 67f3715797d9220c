"""A search of exactly d components: its bounds, where descents begin, and when they are enough."""

from collections.abc import Iterable, Iterator

import numpy as np

from fairspan.certificates.certificate import TracePoint
from fairspan.certificates.optimality import goal
from fairspan.linalg import eigh
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import Point, descend
from fairspan.typing import FloatArray

# Descents in a row that bring nothing, after which a gap is left open; those that lead to the best
# optimum again count twice.
_PATIENCE = 8
# Of so many groups a descent takes long, and its end tells nearly all.
_MANY_GROUPS, _LITTLE_PATIENCE = 20, 2
# How many random subspaces in the span of the relaxed solution are tried.
_STARTS = 12
# Further starts: so many, this far apart, of so many that are drawn, with so many numbers in all.
_MOST_FURTHER, _APART = 8, 0.1
# In many features, or of many groups, they find next to nothing, and a descent takes long: so many
# over the number of features, and less in proportion beyond so many groups.
_WORTHWHILE, _FEW_GROUPS = 100.0, 10.0
_FEWEST_DRAWN, _MOST_DRAWN, _NUMBERS_DRAWN = 32, 2000, 20_000


class Search:
    """Bounds from both sides, narrowed from above by descents at exactly d components.

    Parameters
    ----------
    problem : Problem
    share : float
        The gap to reach, as a share of the value.

    Attributes
    ----------
    best : Point
        The best subspace so far.
    upper, lower : float
        Its value, and the best bound: no subspace has a smaller value.
    tolerance : float
        The gap to reach, absolute.
    weights : (k,) array
        Those that prove the bound.
    n_eigenproblems : int
        How many were solved so far.
    """

    best: Point
    weights: FloatArray

    def __init__(self, problem: Problem, share: float) -> None:
        self.problem, self.share = problem, share
        self.upper, self.lower, self.tolerance, self.n_eigenproblems = np.inf, -np.inf, np.inf, 0
        self.trace: list[TracePoint] = []

    @property
    def closed(self) -> bool:
        """Whether exactly d components reach the bound."""
        return self.upper - self.lower <= self.tolerance

    def prove(self, lower: float, weights: FloatArray) -> None:
        """Take a bound if it is the best so far."""
        if lower > self.lower:
            self.lower, self.weights = lower, weights

    def take(self, point: Point) -> None:
        """Take a point if it is the best so far, and add the bounds to the trace."""
        if point.value < self.upper:
            self.best, self.upper = point, point.value
            self.tolerance = self.sought(point)
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    def sought(self, point: Point) -> float:
        """The gap to reach at a point, absolute."""
        return goal(self.problem, point.errors, self.share)

    def improved(self, local: Point) -> None:
        """Take what a new best subspace proves, if anything."""

    def descend_from(self, start: FloatArray) -> float:
        """Take the local optimum below a subspace if it is the best, and return its value."""
        local, n_steps = descend(self.problem, start)
        self.n_eigenproblems += n_steps
        if local.value < self.upper:
            self.improved(local)
        self.take(local)
        return local.value

    def best_or(self, soft: FloatArray) -> FloatArray:
        """The best basis, or a soft one if it is better and may have so many dimensions."""
        problem = self.problem
        allowed = problem.allow_extra or soft.shape[1] == problem.n_components
        better = allowed and not self.closed and problem.value(soft) < self.upper
        return soft if better else self.best.basis

    def descend_from_each(self, starts: Iterable[FloatArray], *, patiently: bool = False) -> None:
        """Descend from one after another until the gap is closed, or several brought nothing.

        Parameters
        ----------
        starts : iterable of (p, d) arrays
        patiently : bool
            Whether to go on all the same.
        """
        patience = _PATIENCE if self.problem.n_groups <= _MANY_GROUPS else _LITTLE_PATIENCE
        in_vain = 0
        for start in starts:
            if self.closed or (in_vain >= patience and not patiently):
                return
            best = self.upper
            reached = self.descend_from(start)
            # That many lead to the same optimum tells more than that they lead elsewhere.
            in_vain += 2 if reached <= best + self.tolerance else 1
            if reached < best - self.tolerance:
                in_vain = 0


def starts_around(soft: FloatArray, n_components: int) -> Iterator[FloatArray]:
    """Leading eigenvectors of a relaxed solution P, and random subspaces in its span.

    The eigenvectors may be a saddle point, at which a descent stops at once: where groups vary
    along axes of their own, every choice of axes is one.

    Parameters
    ----------
    soft : (p, r) array
        Columns sqrt(lb_j) u_j, of P = sum_j lb_j u_j u_j'.
    n_components : int
    """
    values, vectors = eigh(soft @ soft.T)
    values, vectors = np.clip(values[::-1], 0, 1), vectors[:, ::-1]
    yield vectors[:, :n_components]
    # Seeded, so that the same input gives the same answer.
    rng = np.random.default_rng(0)
    for _ in range(_STARTS):
        drawn = rng.standard_normal((len(values), n_components))
        yield np.linalg.qr((vectors * np.sqrt(values)) @ drawn)[0]


def further_starts(problem: Problem, pieces: Pieces) -> list[FloatArray]:
    """Subspaces for a gap that is still open: the best of many that are spread over all of them.

    In few features the many leave little between them. The sequence is fixed, so that the same
    input gives the same answer.
    """
    p, d = problem.n_features, problem.n_components
    few_groups = min(1.0, _FEW_GROUPS / problem.n_groups)
    n_further = min(int(few_groups * _WORTHWHILE / p), _MOST_FURTHER)
    taken = list[FloatArray]()
    if n_further == 0:
        return taken
    n_drawn = int(np.clip(_NUMBERS_DRAWN // (p * d), _FEWEST_DRAWN, _MOST_DRAWN))
    drawn = np.linalg.qr(np.random.default_rng(0).standard_normal((n_drawn, p, d)))[0]
    # What each captures of a group; digits that cancel do not matter here.
    columns = drawn.transpose(1, 0, 2).reshape(p, -1)
    captured = np.einsum("pn,gpn->gn", columns, problem.second_moments.applied(columns))
    errors = problem.second_moments.traces - captured.reshape(-1, n_drawn, d).sum(axis=2).T
    values = pieces.blocks.largest(pieces.at(errors)).sum(axis=1)
    for basis in drawn[np.argsort(values, kind="stable")]:
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        if all(d - float(np.sum((basis.T @ other) ** 2)) > _APART for other in taken):
            taken.append(basis)
        if len(taken) == n_further:
            break
    return taken
