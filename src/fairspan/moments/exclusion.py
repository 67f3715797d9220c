"""Moments of all rows except those of one part, by subtraction where few digits cancel.

Let a group have weight W, mean m and scatter T in all rows, and weight w, mean m + d and scatter F
in the part. Without the part its weight is W - w, its mean m - w d / (W - w), and its scatter
T - F - w W / (W - w) dd'. Entries of the difference are rounded relative to those of T. Where less
scatter is left of a feature in any group, as without the part that has its only large value, the
other parts are merged instead.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from fairspan.linalg.double_double import exact_sum
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.merging import merge_moments, sum_over_classes
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray

# Largest ratio of weight, and of the scatter of any feature, in all rows to that without the part,
# so that rounding errors grow by less than one bit. Of ten equal parts it is 1.1, of five 1.25.
_MAX_CANCELLATION = 1.5


class _GroupMoments(NamedTuple):
    """Moments of one group; its mean is the sum of `mean` and `mean_correction`."""

    n_rows: int
    weight: float
    mean: FloatArray
    mean_correction: FloatArray
    scatter: FloatArray


def exclude_part(
    total: GroupMoments, parts: Sequence[GroupMoments | None], index: int
) -> GroupMoments:
    """Return the moments of all parts except one, without groups that only it has.

    Parameters
    ----------
    total : DenseMoments
        Moments of all parts together.
    parts : sequence of DenseMoments or None
        None for a part without rows.
    index : int
        Position of the part to exclude.
    """
    part = parts[index]
    others = [other for i, other in enumerate(parts) if i != index and other is not None]
    if part is None or part.weight_exponent != total.weight_exponent:
        return merge_moments(others)
    # As parts are merged: with attributes the moments of all columns, with classes those by class.
    if total.all_columns is not None:
        all_columns_by_part = [None if other is None else other.all_columns for other in parts]
        all_columns = exclude_part(total.all_columns, all_columns_by_part, index)
        features = all_columns.select_features(range(total.n_features))
        return replace(features, all_columns=all_columns, skip_validation=True)
    if total.by_class is not None:
        classes_by_part = [None if other is None else other.by_class for other in parts]
        return sum_over_classes(exclude_part(total.by_class, classes_by_part, index))
    return _exclude_by_group(total, part, others)


def _exclude_by_group(
    total: GroupMoments, part: GroupMoments, others: Sequence[GroupMoments]
) -> GroupMoments:
    """Exclude a part of moments without classes and attributes; `others` are all other parts."""
    part = part.reorder_features(total.feature_names)
    other_labels = {label for other in others for label in other.labels}
    indices = [group for group, label in enumerate(total.labels) if label in other_labels]
    groups: list[_GroupMoments] = []
    for index in indices:
        label = total.labels[index]
        group = _group_of(total, label)
        if label in part.labels:
            difference = _subtract(group, _group_of(part, label))
            if difference is None:
                return merge_moments(others)
            group = difference
        groups.append(group)
    return replace(
        total,
        groups=total.groups[indices],
        counts=np.array([group.n_rows for group in groups], dtype=np.int64),
        weights=np.array([group.weight for group in groups]),
        means=np.array([group.mean for group in groups]),
        mean_corrections=np.array([group.mean_correction for group in groups]),
        scatters=np.array([group.scatter for group in groups]),
        n_dropped=sum(other.n_dropped for other in others),
        skip_validation=True,
    )


def _group_of(moments: GroupMoments, label: Label) -> _GroupMoments:
    group = moments.labels.index(label)
    corrections = moments.mean_corrections
    return _GroupMoments(
        int(moments.counts[group]),
        float(moments.weights[group]),
        moments.means[group],
        np.zeros(moments.n_features) if corrections is None else corrections[group],
        moments.scatters[group],
    )


def _subtract(total: _GroupMoments, part: _GroupMoments) -> _GroupMoments | None:
    """Moments of a group without a part of it; None if more than rounding errors are lost."""
    weight = total.weight - part.weight
    # A count of zero is unknown.
    if not (total.n_rows > part.n_rows > 0 and total.weight <= _MAX_CANCELLATION * weight):
        return None
    deviation = (part.mean - total.mean) + (part.mean_correction - total.mean_correction)
    removed = np.sqrt(part.weight * (total.weight / weight)) * deviation
    diagonal = np.diagonal(total.scatter)
    remaining = diagonal - np.diagonal(part.scatter) - removed**2
    if not (diagonal <= _MAX_CANCELLATION * remaining).all():
        return None
    scatter = total.scatter - part.scatter
    # In place: scatter -= removed removed'.
    blas.dger(-1.0, removed, removed, a=scatter.T, overwrite_a=1)
    offset = total.mean_correction - (part.weight / weight) * deviation
    mean, correction = exact_sum(total.mean, offset)
    return _GroupMoments(total.n_rows - part.n_rows, weight, mean, correction, scatter)
