"""What the supporting lines of two groups' trade-off prove of concave scores.

Errors (e_1, e_2) of every subspace lie in the polygon that the lines w.e >= b leave of the box
between zero and the groups' total variances. Scores that grow along (1, 1) are least on its
lower-left sides; being concave, on a part of a side each is at least its chord.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise

import numpy as np

from fairspan.typing import FloatArray

_MOST_SPLITS = 400


def least_beyond_lines(
    scores: Callable[[FloatArray], FloatArray],
    normals: FloatArray,
    offsets: FloatArray,
    traces: FloatArray,
    precision: float,
) -> float:
    """Lower bound on the largest score of any errors that lie beyond all lines.

    Parameters
    ----------
    scores : function of (n, 2) errors
        Gives (n, m) scores; each concave, and growing along (1, 1).
    normals : (m, 2) array
        w.
    offsets : (m,) array
        b: every subspace has w.e >= b.
    traces : (2,) array
        tr S_g, the largest errors.
    precision : float
        How near the bound should come to the least value on the polygon.

    Returns
    -------
    float
    """
    corners = _polygon(normals, offsets, traces)
    if len(corners) == 0:
        return -np.inf
    ends = np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)
    # A step along (-1, -1) from within may leave through these sides alone: the inner normal of a
    # counterclockwise side (dx, dy) is (-dy, dx).
    along = ends[:, 1] - ends[:, 0]
    ends = ends[along[:, 0] >= along[:, 1]]
    values = scores(ends)
    n_splits = 0
    while True:
        bounds, shares = _least_of_chords(values)
        wide = bounds < values.max(axis=-1).min() - precision
        n_splits += int(np.count_nonzero(wide))
        if not wide.any() or n_splits > _MOST_SPLITS:
            return float(bounds.min())
        # Chords meet near the point where the scores do, which is soon an end of a part.
        first, last = ends[wide, 0], ends[wide, 1]
        between = first + shares[wide, None] * (last - first)
        ends = np.concatenate([ends[~wide], *_halves(ends[wide], between)])
        values = np.concatenate([values[~wide], *_halves(values[wide], scores(between))])


def _halves(ends: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n, 2, m) ends of the parts that (n, m) points between leave of as many."""
    return np.stack([ends[:, 0], between], axis=1), np.stack([between, ends[:, 1]], axis=1)


def _least_of_chords(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least of the largest of the chords of each part, and at which share of it they meet.

    As :func:`least_of_largest` for each of the parts, from (n, 2, m) values at their ends.
    """
    first, last = values[:, 0], values[:, 1]
    before, after = first[:, 0] - first[:, -1], last[:, 0] - last[:, -1]
    meet = before * after < 0
    share = np.divide(before, before - after, out=np.zeros_like(before), where=meet)
    least = values.max(axis=2).min(axis=1)
    meeting = (first + share[:, None] * (last - first)).max(axis=1)
    return np.where(meet, np.minimum(least, meeting), least), share


def _polygon(normals: FloatArray, offsets: FloatArray, traces: FloatArray) -> FloatArray:
    """Corners, counterclockwise, of what the half-planes leave of the box."""
    x, y = traces
    corners = np.array([(0.0, 0.0), (x, 0.0), (x, y), (0.0, y)])
    for normal, offset in zip(normals, offsets, strict=True):
        if len(corners) == 0:
            break
        inside = corners @ normal - offset
        kept = []
        for i, j in pairwise([*range(len(corners)), 0]):
            if inside[i] >= 0:
                kept.append(corners[i])
            if (inside[i] >= 0) != (inside[j] >= 0):
                share = inside[i] / (inside[i] - inside[j])
                kept.append(corners[i] + share * (corners[j] - corners[i]))
        corners = np.array(kept)
    return corners


def least_of_largest(scores: Sequence[Sequence[float]] | FloatArray) -> float:
    """Least of the largest of affine functions on a simplex, from their values at its vertices.

    Parameters
    ----------
    scores : n rows of m numbers
        Value of function j at vertex i; at most two functions.

    Returns
    -------
    float
        Attained at a vertex, or on a side where two functions cross.
    """
    least = min(max(row) for row in scores)
    for u, v in combinations(scores, 2):
        before, after = u[0] - u[-1], v[0] - v[-1]
        if before * after < 0:
            share = before / (before - after)
            least = min(least, max(a + share * (b - a) for a, b in zip(u, v, strict=True)))
    return float(least)
