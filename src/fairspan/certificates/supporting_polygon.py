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
    sides = _lower_left_sides(_polygon(normals, offsets, traces))
    if not sides:
        return -np.inf
    heap = [_Part.between(scores, a, b).entry(i) for i, (a, b) in enumerate(sides)]
    heapify(heap)
    for number in range(len(heap), len(heap) + 2 * _MOST_SPLITS, 2):
        bound, _, part = heap[0]
        if part.least_value - bound <= precision:
            break
        heappop(heap)
        middle = (part.first + part.last) / 2
        heappush(heap, _Part.between(scores, part.first, middle).entry(number))
        heappush(heap, _Part.between(scores, middle, part.last).entry(number + 1))
    return heap[0][0]


class _Part:
    """A part of a side, with the least of its scores' chords."""

    def __init__(self, first: FloatArray, last: FloatArray, values: FloatArray) -> None:
        self.first, self.last = first, last
        self.least_value = float(values.max(axis=1).min())
        self.bound = least_of_largest(values)

    @classmethod
    def between(
        cls, scores: Callable[[FloatArray], FloatArray], first: FloatArray, last: FloatArray
    ) -> "_Part":
        return cls(first, last, scores(np.array([first, last])))

    def entry(self, number: int) -> "tuple[float, int, _Part]":
        """For a heap: the number decides between equal bounds."""
        return self.bound, number, self


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


def _lower_left_sides(corners: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """The sides that a step along (-1, -1) from within may leave through."""
    around = [*range(len(corners)), 0] if len(corners) else []
    sides = [(corners[i], corners[j]) for i, j in pairwise(around)]
    # The inner normal of a counterclockwise side (dx, dy) is (-dy, dx).
    return [(a, b) for a, b in sides if (b - a)[0] - (b - a)[1] >= 0]


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
