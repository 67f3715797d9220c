"""From a relaxed solution to exactly d orthonormal components."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fairspan.certificates.optimality import goal
from fairspan.certificates.solution import TracePoint
from fairspan.linalg import eigh
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import LocalOptimum, descend
from fairspan.solvers.exact_rank.descent_model import Scores
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
# Share of a group's variance below which the slope of the robust error gap is taken at it.
_LEAST_ERROR = 1e-9


def affine_scores(pieces: Pieces) -> Scores:
    """Pieces as smooth functions of the errors."""
    return Scores(lambda errors: (pieces.at(errors), pieces.coefficients), pieces.blocks)


def scores_of(problem: Problem) -> Scores:
    """The criterion of a problem as a sum of maxima of smooth functions of the errors."""
    if problem.pieces is not None:
        return affine_scores(problem.pieces)
    criterion: Any = problem.criterion
    traces = problem.second_moments.traces
    floor = np.zeros(len(traces))
    if criterion.has_concave_scores:
        # At an error of zero the slope is infinite; just beyond it is finite and says the same.
        floor = _LEAST_ERROR * np.where(traces > 0, traces, max(float(traces.max()), 1.0))
    return Scores(
        lambda errors: (
            criterion.scores(errors, problem),
            criterion.gradients(np.maximum(errors, floor), problem),
        )
    )


def best_rounding(
    problem: Problem, projector: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """The best subspace found by descent from a relaxed solution and from other subspaces.

    Parameters
    ----------
    problem : Problem
    projector : (p, p) array
        P; its d leading eigenvectors are the first start.
    candidates : sequence of (p, d) arrays
        Further starts.

    Returns
    -------
    (p, d) array
        Orthonormal columns.
    """
    leading = eigh(projector)[1][:, ::-1][:, : problem.n_components]
    scores = scores_of(problem)
    found = [descend(problem, scores, start) for start in (leading, *candidates)]
    return min(found, key=lambda local: local.value).basis


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
    best : LocalOptimum or None
        The best subspace so far.
    proven : float
        The best bound that was noted.
    n_steps : int
        Eigenproblems solved so far.
    """

    def __init__(self, problem: Problem, scores: Scores, share: float) -> None:
        self.problem, self.scores, self.share = problem, scores, share
        self.best: LocalOptimum | None = None
        self.proven, self.n_steps = -np.inf, 0
        self.trace: list[TracePoint] = []

    @property
    def n_eigenproblems(self) -> int:
        """How many were solved so far."""
        return self.n_steps

    @property
    def lower(self) -> float:
        """The best bound: no subspace has a smaller value."""
        return self.proven

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
        local = descend(self.problem, self.scores, start)
        self.n_steps += local.n_eigenproblems
        if local.value < self.upper:
            self.best = local
            self.improved(local)
        self.note()
        return local.value

    def improved(self, local: LocalOptimum) -> None:
        """Take what a new best subspace proves, if anything."""

    def note(self) -> None:
        """Add the bounds so far to the trace."""
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))


def descend_from_each(search: Search, starts: Iterable[FloatArray]) -> None:
    """Descend from one start after another until the gap is closed, or several brought nothing."""
    few = search.problem.n_groups <= _MANY_GROUPS
    patience = _PATIENCE if few else _LITTLE_PATIENCE
    in_vain = 0
    for start in starts:
        if search.closed or in_vain >= patience:
            return
        before = search.upper
        reached = search.descend_from(start)
        if reached < before - search.tolerance:
            in_vain = 0
        else:
            # That many starts lead to the same optimum tells more than that they lead elsewhere.
            in_vain += 2 if reached <= before + search.tolerance else 1


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
        mixed = rng.standard_normal((len(values), n_components))
        yield np.linalg.qr((vectors * np.sqrt(values)) @ mixed)[0]
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
    second, d = problem.second_moments, problem.n_components
    few_groups = min(1.0, _FEW_GROUPS / problem.n_groups)
    n_further = min(int(few_groups * _WORTHWHILE / problem.n_features), _MOST_FURTHER)
    if n_further == 0:
        return
    n_drawn = int(np.clip(_NUMBERS_DRAWN // (problem.n_features * d), _FEWEST_DRAWN, _MOST_DRAWN))
    rng = np.random.default_rng(0)
    drawn = np.linalg.qr(rng.standard_normal((n_drawn, problem.n_features, d)))[0]
    # What each captures of a group; digits that cancel do not matter here.
    columns = drawn.transpose(1, 0, 2).reshape(problem.n_features, -1)
    images = second.applied(columns)
    captured = np.einsum("pn,gpn->gn", columns, images).reshape(-1, n_drawn, d).sum(axis=2)
    order = np.argsort(values_at(second.traces - captured.T), kind="stable")
    taken: list[FloatArray] = []
    for index in order:
        if len(taken) == n_further:
            return
        basis = drawn[index]
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        if all(d - float(np.sum((basis.T @ other) ** 2)) > _APART for other in taken):
            taken.append(basis)
            yield basis
