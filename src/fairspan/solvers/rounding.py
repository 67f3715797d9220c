"""From a relaxed solution to exactly d orthonormal components."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairspan.problem.criteria import NashWelfare
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap
from fairspan.solvers.descent import Scores, descend

FloatArray = npt.NDArray[np.float64]


def scores_of(problem: Problem, pieces: Pieces | None = None) -> Scores:
    """The criterion as a largest of smooth functions of the errors.

    Parameters
    ----------
    problem : Problem
    pieces : Pieces, optional
        In place of the criterion's own.
    """
    pieces = problem.pieces if pieces is None else pieces
    criterion = problem.criterion
    if pieces is not None:
        return _affine(pieces)
    if isinstance(criterion, RobustErrorGap):
        robust = criterion
        return lambda errors: (robust.scores(errors, problem), robust.gradients(errors, problem))
    assert isinstance(criterion, NashWelfare), criterion
    traces = problem.second_moments.traces
    return lambda errors: _nash(errors, traces)


def best_rounding(
    problem: Problem,
    projector: FloatArray,
    candidates: Sequence[FloatArray],
    *,
    pieces: Pieces | None = None,
    target: float = -np.inf,
) -> FloatArray:
    """The best subspace found by descent from a relaxed solution and from other subspaces.

    Parameters
    ----------
    problem : Problem
    projector : (p, p) array
        P; its d leading eigenvectors are the first start.
    candidates : sequence of (p, d) arrays
        Further starts, taken until the target is met.
    target : float
        Good enough, for example the lower bound plus the tolerance.

    Returns
    -------
    (p, d) array
        Orthonormal columns.
    """
    _, vectors = np.linalg.eigh(projector)
    starts = [vectors[:, ::-1][:, : problem.n_components], *candidates]
    scores = scores_of(problem, pieces)
    best, value = starts[0], np.inf
    for start in starts:
        found = descend(problem, scores, start, target)
        if found.value < value:
            best, value = found.basis, found.value
        if value <= target:
            break
    return best


def _affine(pieces: Pieces) -> Scores:
    return lambda errors: (pieces.coefficients @ errors - pieces.offsets, pieces.coefficients)


def _nash(errors: FloatArray, traces: FloatArray) -> tuple[FloatArray, FloatArray]:
    captured = np.maximum(traces - errors, np.finfo(np.float64).tiny)
    return np.array([-np.log(captured).mean()]), (1 / (len(traces) * captured))[None, :]
