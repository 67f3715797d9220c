"""Moments as a header and arrays, and back: what is in a file of moments, or sent between machines.

Of each scatter only the lower triangle is stored, as it is symmetric.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.intake import Intake
from fairspan.rows.groups import label_array, plain_labels

FloatArray = npt.NDArray[np.float64]


def packed(moments: GroupMoments) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Header and arrays of moments, as archives hold them."""
    names = moments.feature_names
    header = {
        "groups": moments.labels,
        "feature_names": None if names is None else list(names),
        "n_dropped": moments.intake.n_dropped,
        "sampled_from": moments.intake.sampled_from,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "counts": moments.counts,
        "weights": moments.weights,
        "means": moments.means,
        "triangles": np.array([_triangle(scatter) for scatter in moments.scatters]),
    }
    return header, arrays


def unpacked(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> GroupMoments:
    """The moments again.

    Raises
    ------
    ValueError, KeyError, TypeError
        Anything that does not fit together.
    """
    names, means = header["feature_names"], arrays["means"]
    moments = GroupMoments(
        label_array(plain_labels(header["groups"])),
        arrays["counts"],
        arrays["weights"],
        means,
        np.array([_square(triangle, means.shape[1]) for triangle in arrays["triangles"]]),
        None if names is None else tuple(names),
        Intake(header["n_dropped"], header["sampled_from"]),
    )
    _check_consistent(moments)
    return moments


def _triangle(scatter: FloatArray) -> FloatArray:
    # Row by row: the index arrays of the whole triangle would be larger than the matrix.
    return np.concatenate([scatter[row, : row + 1] for row in range(len(scatter))])


def _square(triangle: FloatArray, n_features: int) -> FloatArray:
    if triangle.shape != (n_features * (n_features + 1) // 2,):
        raise ValueError(f"{triangle.size} numbers in the triangle of {n_features} features")
    square = np.empty((n_features, n_features))
    start = 0
    for row in range(n_features):
        entries = triangle[start : start + row + 1]
        square[row, : row + 1] = square[: row + 1, row] = entries
        start += row + 1
    return square


def _check_consistent(moments: GroupMoments) -> None:
    k, p = moments.n_groups, moments.means.shape[1]
    shapes = (moments.counts.shape, moments.weights.shape, moments.means.shape)
    if moments.labels != sorted(set(moments.labels)):
        raise ValueError("the groups are not in order")
    if shapes != ((k,), (k,), (k, p)) or moments.scatters.shape != (k, p, p):
        raise ValueError(f"the arrays do not fit {k} groups of {p} features")
    if moments.feature_names is not None and len(moments.feature_names) != p:
        raise ValueError(f"{len(moments.feature_names)} names for {p} features")
    if not all(np.isfinite(a).all() for a in (moments.weights, moments.means, moments.scatters)):
        raise ValueError("NaN or infinity among the numbers")
    if not (moments.weights > 0).all():
        raise ValueError("a group without weight")
    for number in (moments.intake.n_dropped, moments.intake.sampled_from or 0):
        if type(number) is not int or number < 0:
            raise ValueError(f"{number!r} is no number of rows")
