"""Moments as a JSON header and arrays, and back: what is in a file or sent between machines.

Of each scatter only the lower triangle is stored, as it is symmetric.
"""

from typing import Any

import numpy as np

from fairspan.errors import CorruptFile
from fairspan.moments.group_statistics import GroupStatistics, Intake, OneGroup
from fairspan.rows.groups import plain_labels
from fairspan.storage import Contents, archive_bytes, archive_of_bytes
from fairspan.typing import AnyArray, FloatArray

KIND = "moments"


def packed(moments: GroupStatistics) -> Contents:
    """Header and arrays of moments, as archives hold them."""
    groups, names = moments.groups, moments.feature_names
    header = {
        "groups": moments.labels,
        "feature_names": None if names is None else list(names),
        "n_dropped": moments.intake.n_dropped,
        "sampled_from": moments.intake.sampled_from,
    }
    shape = (len(groups), moments.n_features)
    arrays: dict[str, AnyArray] = {
        "counts": np.array([group.count for group in groups], dtype=np.int64),
        "weights": np.array([group.weight for group in groups], dtype=np.float64),
        "means": np.array([group.mean for group in groups], dtype=np.float64).reshape(shape),
        "triangles": np.array([_triangle(group.scatter) for group in groups]),
    }
    return header, arrays


def unpacked(contents: Contents, name: str) -> GroupStatistics:
    """The moments again.

    Parameters
    ----------
    contents : header and arrays
    name : str
        What they come from, for messages.

    Raises
    ------
    CorruptFile
        Anything that does not fit together.
    """
    try:
        return _consistent(*contents)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptFile(
            f"{name} does not hold consistent moments ({error})",
            "Allowed is a complete file written by GroupMoments.save",
            "Make the file again",
        ) from error


def to_bytes(moments: GroupStatistics) -> bytes:
    """An archive in memory."""
    return archive_bytes(KIND, *packed(moments))


def from_bytes(contents: bytes) -> GroupStatistics:
    """Read what :func:`to_bytes` gave; raises CorruptFile as :func:`unpacked` does."""
    return unpacked(archive_of_bytes(contents, KIND), "The archive that was received")


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


def _consistent(header: dict[str, Any], arrays: dict[str, AnyArray]) -> GroupStatistics:
    labels, names = plain_labels(header["groups"]), header["feature_names"]
    counts, weights, means = arrays["counts"], arrays["weights"], arrays["means"]
    triangles = arrays["triangles"]
    k, p = len(labels), means.shape[1]
    if labels != sorted(set(labels)):
        raise ValueError("the groups are not in order")
    if (counts.shape, weights.shape, means.shape) != ((k,), (k,), (k, p)) or len(triangles) != k:
        raise ValueError(f"the arrays do not fit {k} groups of {p} features")
    if names is not None and len(names) != p:
        raise ValueError(f"{len(names)} names for {p} features")
    if not all(np.isfinite(array).all() for array in (weights, means, triangles)):
        raise ValueError("NaN or infinity among the numbers")
    if not (weights > 0).all():
        raise ValueError("a group without weight")
    intake = Intake(header["n_dropped"], header["sampled_from"])
    for number in (intake.n_dropped, intake.sampled_from or 0):
        if type(number) is not int or number < 0:
            raise ValueError(f"{number!r} is no number of rows")
    scatters = [_square(triangle, p) for triangle in triangles]
    columns = zip(labels, counts.tolist(), weights.tolist(), means, scatters, strict=True)
    groups = [OneGroup(*column) for column in columns]
    return GroupStatistics(groups, p, None if names is None else tuple(names), intake)
