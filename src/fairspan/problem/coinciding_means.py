"""Which means are to coincide: of intersections or of each attribute, in all rows or each class.

Exact mean parity says that some points have the same image in the subspace. These points are
computed here from the moments of the groups; other modules need only the points.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.moments.group_means import GroupMeans
from fairspan.rows.groups import Label, listed
from fairspan.typing import FloatArray

ATTRIBUTES = ("intersections", "marginal")


def coinciding_means(
    moments: GroupMeans, attributes: str, given_labels: str | Sequence[Label] | None = None
) -> FloatArray:
    """Points of the features that a subspace is to map to one point.

    Parameters
    ----------
    moments : GroupMeans
        Weight and mean of each group.
    attributes : {"intersections", "marginal"}
        The means of all groups; or, where labels are tuples of several attributes, the means of the
        categories of each attribute: V'Cov(x, z) = 0 for the indicator z of every category.
    given_labels : "all", sequence of classes, or None
        Classes of y, among whose rows alone the means are to coincide; None for all rows.

    Returns
    -------
    (m, p) array

    Raises
    ------
    InvalidInput
        The moments do not know the classes, or not this one.

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
    if given_labels is None or moments.n_groups == 1:
        return _side_by_side(_families(moments, attributes))
    by_label = getattr(moments, "by_label", None)
    if by_label is None:
        raise InvalidInput(
            f"given_labels is {given_labels!r}, and y is missing",
            "Allowed: the class of each row: an array, or the name of a column of X",
            "Pass y to fit, labels=y to audit, verify and GroupMoments.from_rows, or --label COL",
        )
    return _side_by_side(
        [
            family
            for part in _chosen(by_label, given_labels)
            for family in _families(part, attributes)
        ]
    )


def _chosen(by_label: Any, given_labels: str | Sequence[Label]) -> list[Any]:
    """The moments of the groups among the rows of each chosen class."""
    classes = [pair[-1] for pair in by_label.labels]
    known = sorted(set(classes))
    wanted = known if given_labels == "all" else given_labels
    unknown = [each for each in wanted if each not in known]
    if unknown:
        raise InvalidInput(
            f"given_labels names {listed(unknown)}, which no row of y has",
            f"Allowed: 'all' and some of the classes {listed(known)}",
            "Correct given_labels, or pass another y",
        )
    return [by_label.of_groups(np.array([each == label for each in classes])) for label in wanted]


def _families(moments: GroupMeans, attributes: str) -> list[FloatArray]:
    """Means that are to coincide with those of their own family."""
    if attributes == "intersections":
        return [moments.means]
    return _means_by_attribute(moments.labels, moments.weights, moments.means)


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
