"""Where descents begin, and when enough of them were made."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from fairspan.certificates.certificate import TracePoint
from fairspan.certificates.optimality import goal
from fairspan.linalg import eigh
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import Point, Scores, descend
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
    scores : Scores
        What is minimised.
    share : float
        The gap to reach, as a share of the value.

    Attributes
    ----------
    best : Point or None
        The best subspace so far.
    lower : float
        The best bound: no subspace has a smaller value.
    n_eigenproblems : int
        How many were solved so far.
    """

    def __init__(self, problem: Problem, scores: Scores, share: float) -> None:
        self.problem, self.scores, self.share = problem, scores, share
        self.best: Point | None = None
        self.lower, self.n_eigenproblems = -np.inf, 0
        self.trace: list[TracePoint] = []

    @property
    def upper(self) -> float:
        """The best value of exactly d components so far."""
        return np.inf if self.best is None else self.best.value

    @property
    def tolerance(self) -> float:
        """The gap to reach, absolute."""
        if self.best is None:
            return np.inf
        return goal(self.problem, self.problem.errors(self.best.basis), self.share)

    @property
    def closed(self) -> bool:
        """Whether exactly d components reach the bound."""
        return self.upper - self.lower <= self.tolerance

    def descend_from(self, start: FloatArray) -> float:
        """Take the local optimum below a subspace if it is the best, and return its value."""
        local, n_steps = descend(self.problem, self.scores, start)
        self.n_eigenproblems += n_steps
        if local.value < self.upper:
            self.best = local
            self.improved(local)
        self.note()
        return local.value

    def descend_from_each(self, starts: Iterable[FloatArray]) -> None:
        """Descend from one after another until the gap is closed, or several brought nothing."""
        patience = _PATIENCE if self.problem.n_groups <= _MANY_GROUPS else _LITTLE_PATIENCE
        in_vain = 0
        for start in starts:
            if self.closed or in_vain >= patience:
                return
            before = self.upper
            reached = self.descend_from(start)
            if reached < before - self.tolerance:
                in_vain = 0
            else:
                # That many lead to the same optimum tells more than that they lead elsewhere.
                in_vain += 2 if reached <= before + self.tolerance else 1

    def improved(self, local: Point) -> None:
        """Take what a new best subspace proves, if anything."""

    def note(self) -> None:
        """Add the bounds so far to the trace."""
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))


def starts_around(
    projector: FloatArray, n_components: int, first: FloatArray | None = None
) -> Iterator[FloatArray]:
    """Leading eigenvectors of a relaxed solution P, and random subspaces in its span.

    The eigenvectors may be a saddle point, at which a descent stops at once: where groups vary
    along axes of their own, every choice of axes is one. A basis to start from, if any, comes last.
    """
    values, vectors = eigh(projector)
    values, vectors = np.clip(values[::-1], 0, 1), vectors[:, ::-1]
    yield vectors[:, :n_components]
    # Seeded, so that the same input gives the same answer.
    rng = np.random.default_rng(0)
    for _ in range(_STARTS):
        yield np.linalg.qr(
            (vectors * np.sqrt(values)) @ rng.standard_normal((len(values), n_components))
        )[0]
    if first is not None:
        yield first


def further_starts(
    problem: Problem, values_at: Callable[[FloatArray], FloatArray]
) -> Iterator[FloatArray]:
    """Subspaces for a gap that is still open: the best of many that are spread over all of them.

    In few features the many leave little between them. The sequence is fixed, so that the same
    input gives the same answer.

    Parameters
    ----------
    problem : Problem
    values_at : function of (n, k) errors
        Gives (n,) values.
    """
    p, d = problem.n_features, problem.n_components
    few_groups = min(1.0, _FEW_GROUPS / problem.n_groups)
    n_further = min(int(few_groups * _WORTHWHILE / p), _MOST_FURTHER)
    if n_further == 0:
        return
    n_drawn = int(np.clip(_NUMBERS_DRAWN // (p * d), _FEWEST_DRAWN, _MOST_DRAWN))
    drawn = np.linalg.qr(np.random.default_rng(0).standard_normal((n_drawn, p, d)))[0]
    # What each captures of a group; digits that cancel do not matter here.
    columns = drawn.transpose(1, 0, 2).reshape(p, -1)
    captured = np.einsum("pn,gpn->gn", columns, problem.second_moments.applied(columns))
    captured = captured.reshape(-1, n_drawn, d).sum(axis=2)
    taken: list[FloatArray] = []
    for index in np.argsort(values_at(problem.second_moments.traces - captured.T), kind="stable"):
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        if all(d - float(np.sum((drawn[index].T @ other) ** 2)) > _APART for other in taken):
            taken.append(drawn[index])
            yield drawn[index]
        if len(taken) == n_further:
            return
