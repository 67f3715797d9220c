"""What the supporting lines of two groups' trade-off prove of concave scores.

Errors (e_1, e_2) of every subspace lie in the polygon that the lines w.e >= b leave of the box
between zero and the groups' total variances. Scores that grow along (1, 1) are least on its
lower-left sides; being concave, on a part of a side each is at least its chord.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
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
    around = [*range(len(corners)), 0] if len(corners) else []
    # A step along (-1, -1) from within may leave through these sides alone: the inner normal of a
    # counterclockwise side (dx, dy) is (-dy, dx).
    every = [(corners[i], corners[j]) for i, j in pairwise(around)]
    sides = [(a, b) for a, b in every if (b - a)[0] - (b - a)[1] >= 0]
    if not sides:
        return -np.inf
    heap = [_part(scores, i, a, b) for i, (a, b) in enumerate(sides)]
    heapify(heap)
    for number in range(len(heap), len(heap) + 2 * _MOST_SPLITS, 2):
        bound, _, least_value, first, last = heap[0]
        if least_value - bound <= precision:
            break
        heappop(heap)
        middle = (first + last) / 2
        heappush(heap, _part(scores, number, first, middle))
        heappush(heap, _part(scores, number + 1, middle, last))
    return heap[0][0]


def _part(
    scores: Callable[[FloatArray], FloatArray], number: int, first: FloatArray, last: FloatArray
) -> tuple[float, int, float, FloatArray, FloatArray]:
    """A part of a side: the least of its chords, and of its ends; equal bounds come by number."""
    values = scores(np.array([first, last]))
    return least_of_largest(values), number, float(values.max(axis=1).min()), first, last


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
            crossing = max(a + share * (b - a) for a, b in zip(u, v, strict=True))
            least = min(least, crossing)
    return float(least)
