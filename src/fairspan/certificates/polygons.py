"""Geometry of the plane of two errors: clipped polygons, and minima of concave scores over them."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from fairspan.linalg.rounding import EPS
from fairspan.typing import FloatArray

# Rounding error, relative to the largest errors, by which clipping may move a corner inwards.
CLIPPING_ROUNDING = 32 * EPS
# Largest number of segments that are split to refine the bound beyond the lines. A search that
# stops here returns a valid bound that is not tight.
_MAX_SPLITS = 400


def lower_bound_beyond_lines(
    scores: Callable[[FloatArray], FloatArray],
    normals: FloatArray,
    offsets: FloatArray,
    max_errors: FloatArray,
    tol: float,
) -> float:
    """Lower bound, over all errors beyond all supporting lines, on the largest of several scores.

    The errors (e_1, e_2) of every subspace lie in the polygon that the lines w.e >= b cut from the
    box between zero and the largest errors. Scores that increase along (1, 1) attain their minimum
    on its lower-left sides; being concave, each score is at least its chord on every segment of a
    side.

    Parameters
    ----------
    scores : function of (n, 2) errors
        Returns (n, m) scores for (n, 2) errors; each is concave and increases along (1, 1).
    normals : (m, 2) array
        w.
    offsets : (m,) array
        b, such that every subspace has w.e >= b.
    max_errors : (2,) array
        Upper ends of the box: errors that no subspace of interest exceeds.
    tol : float
        Largest allowed distance of the bound from the minimum on the polygon.

    Returns
    -------
    float
        The bound; -inf if nothing is left of the box.
    """
    x, y = max_errors
    corners = np.array([(0.0, 0.0), (x, 0.0), (x, y), (0.0, y)])
    for normal, offset in zip(normals, offsets, strict=True):
        corners = clip_polygon(corners, normal, offset)
    if len(corners) == 0:
        # The polygon contains the errors of some subspace, so only rounding can have emptied it.
        return -np.inf
    return _min_over_segments(scores, _lower_left_sides(corners), tol)


def _lower_left_sides(corners: FloatArray) -> FloatArray:
    """Sides (n, 2, 2) through which a step along (-1, -1) leaves a counterclockwise polygon."""
    segments = np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)
    # The inner normal of a side (dx, dy) is (-dy, dx), which points along (1, 1) if dx >= dy.
    sides = segments[:, 1] - segments[:, 0]
    return np.asarray(segments[sides[:, 0] >= sides[:, 1]])


def _min_over_segments(
    scores: Callable[[FloatArray], FloatArray], segments: FloatArray, tol: float
) -> float:
    """Lower bound on the minimum over n segments of the largest of m scores.

    The axes of `segments`, (n, 2, 2), are segment, end and coordinate. Each score is concave, so it
    is at least its chord between the ends of a segment, and the minimum of the largest chord bounds
    the scores on the segment from below. An upper limit of the minimum is the smallest value at any
    end. Segments whose bound is more than `tol` below that are split, until there are none or too
    many were split; the bound is valid in either case.
    """
    values = scores(segments)  # axes: segment, end, score
    n_splits = 0
    while True:
        bounds, fractions = _min_of_chord_maxima(values)
        needs_split = bounds < values.max(axis=-1).min() - tol
        n_splits += int(np.count_nonzero(needs_split))
        if not needs_split.any() or n_splits > _MAX_SPLITS:
            return float(bounds.min())
        # The chords cross near the point where the scores do, which soon becomes an end of a
        # segment.
        starts = segments[needs_split, 0]
        stops = segments[needs_split, 1]
        split_points = starts + fractions[needs_split, None] * (stops - starts)
        split_segments = _split_segments(segments[needs_split], split_points)
        split_values = _split_segments(values[needs_split], scores(split_points))
        segments = np.concatenate([segments[~needs_split], *split_segments])
        values = np.concatenate([values[~needs_split], *split_values])


def _split_segments(ends: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split (n, 2, m) segments, or values at their ends, at (n, m) points between them."""
    first_halves = np.stack([ends[:, 0], between], axis=1)
    second_halves = np.stack([between, ends[:, 1]], axis=1)
    return first_halves, second_halves


def _min_of_chord_maxima(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minimum over each segment of the largest chord, and where on the segment the chords cross.

    Vectorized :func:`min_of_max_affine`, from (n, 2, m) values of m scores at the ends of the
    segments, m at most two. The second array holds fractions of the segment; it is zero if the
    chords do not cross.
    """
    starts = values[:, 0]
    stops = values[:, 1]
    before = starts[:, 0] - starts[:, -1]
    after = stops[:, 0] - stops[:, -1]
    crosses = before * after < 0
    fraction = np.divide(before, before - after, out=np.zeros_like(before), where=crosses)
    end_minimum = values.max(axis=2).min(axis=1)
    crossing_value = (starts + fraction[:, None] * (stops - starts)).max(axis=1)
    return np.where(crosses, np.minimum(end_minimum, crossing_value), end_minimum), fraction


def clip_polygon(corners: FloatArray, normal: FloatArray, offset: float) -> FloatArray:
    """Clip a convex polygon to the half-plane normal.e >= offset; corners of shape (m, 2).

    Returns its corners in the same order; an empty (0, 2) array if nothing is left.
    """
    signed_distances = corners @ normal - offset
    if (signed_distances >= 0).all():
        return corners.reshape(-1, 2)
    # Polygons have few corners, for which Python's floats are faster than arrays.
    points = corners.tolist()
    heights = signed_distances.tolist()
    clipped = []
    for i, (x, y) in enumerate(points):
        following = (i + 1) % len(points)
        if heights[i] >= 0:
            clipped.append((x, y))
        if (heights[i] >= 0) != (heights[following] >= 0):
            # The side crosses the line: its crossing point is a new corner.
            fraction = heights[i] / (heights[i] - heights[following])
            next_x, next_y = points[following]
            clipped.append((x + fraction * (next_x - x), y + fraction * (next_y - y)))
    return np.array(clipped, dtype=np.float64).reshape(-1, 2)


def min_of_max_affine(scores: Sequence[Sequence[float]] | FloatArray) -> float:
    """Minimum over a simplex of the maximum of affine functions, from their values at its vertices.

    Parameters
    ----------
    scores : n rows of m numbers
        Value of function j at vertex i, m at most two: the first and the last number of a row.

    Returns
    -------
    float
        The minimum is attained at a vertex, or on an edge where two functions cross.
    """
    minimum = min(max(row) for row in scores)
    for u, v in combinations(scores, 2):
        before = u[0] - u[-1]
        after = v[0] - v[-1]
        crosses = before * after < 0
        if not crosses:
            continue
        fraction = before / (before - after)
        ends = (u, v)
        if fraction > 0.5:
            # Start at the nearer vertex: values at a distant one have larger rounding errors.
            fraction = after / (after - before)
            ends = (v, u)
        crossing_value = max(a + fraction * (b - a) for a, b in zip(*ends, strict=True))
        minimum = min(minimum, crossing_value)
    return float(minimum)
