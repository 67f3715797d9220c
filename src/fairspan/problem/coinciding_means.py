"""Which means are to coincide: those of intersections, or of each attribute on its own.

Exact mean parity says that some points have the same image in the subspace. Which points these are
is worked out here from the moments of the groups; the rest of the house needs the points alone.
"""

from collections.abc import Sequence

import numpy as np

from fairspan.moments.group_means import GroupMeans
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

ATTRIBUTES = ("intersections", "marginal")


def coinciding_means(moments: GroupMeans, attributes: str) -> FloatArray:
    """Points of the features that a subspace is to map to one point.

    Parameters
    ----------
    moments : GroupMeans
        Weight and mean of each group.
    attributes : {"intersections", "marginal"}
        The means of all groups; or, where labels are tuples of several attributes, the means of the
        categories of each attribute: V'Cov(x, z) = 0 for the indicator z of every category.

    Returns
    -------
    (m, p) array

    Examples
    --------
    >>> from fairspan import GroupMoments
    >>> X, groups = np.eye(4), [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    >>> coinciding_means(GroupMoments.from_rows(X, groups), "intersections").shape
    (4, 4)
    >>> points = coinciding_means(GroupMoments.from_rows(X, groups), "marginal")
    >>> int(np.linalg.matrix_rank(points - points[0]))
    2
    """
    if attributes == "intersections":
        return moments.means
    return _side_by_side(_means_by_attribute(moments.labels, moments.weights, moments.means))


def _means_by_attribute(
    labels: Sequence[Label], weights: FloatArray, means: FloatArray
) -> list[FloatArray]:
    """The means of the categories of each attribute, merged from those of intersections."""
    crossed = [label if isinstance(label, tuple) else (label,) for label in labels]
    found = []
    for column in zip(*crossed, strict=True):
        categories = [np.array([each == value for each in column]) for value in sorted({*column})]
        found.append(np.array([_merged(weights[own], means[own]) for own in categories]))
    return found


def _merged(weights: FloatArray, means: FloatArray) -> FloatArray:
    """The weighted mean, about the first, so that a large common offset costs no digits."""
    return np.asarray(means[0] + (weights / weights.sum()) @ (means - means[0]))


def _side_by_side(families: Sequence[FloatArray]) -> FloatArray:
    """Points that coincide exactly where those of each family do.

    Every family is moved so that all begin at the same point, which changes no difference.
    """
    start = families[0][0]
    return np.vstack([start + (family - family[0]) for family in families])
