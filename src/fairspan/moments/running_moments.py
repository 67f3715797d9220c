"""Running moments of groups, which are merged as rows are read, and stacked into arrays."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fairspan.linalg.double_double import exact_sum
from fairspan.rows.labels import Label, label_array
from fairspan.typing import AnyArray, FloatArray, IndexArray

Key = TypeVar("Key", int, Label)


@dataclass(frozen=True, eq=False)
class StackedMoments:
    """Moments of groups as arrays, in label order.

    Attributes
    ----------
    labels : (k,) array
    counts : (k,) array of int
        Number of rows; 0 if unknown.
    weights : (k,) array
    means, mean_corrections : (k, p) arrays
        Means rounded to float64, and exact means minus these.
    scatters : (k, p, p) array
    """

    labels: AnyArray
    counts: IndexArray
    weights: FloatArray
    means: FloatArray
    mean_corrections: FloatArray
    scatters: FloatArray


@dataclass(eq=False)
class RunningMoments:
    """Running moments of one group in one fold; its mean is shift + mean_offset.

    The shift is near the rows, so that the offset keeps full precision even far from zero, and
    merging loses none.

    Attributes
    ----------
    shift : (p,) array
    count : int
        Number of rows; 0 if unknown.
    weight : float
        Total weight of the rows.
    mean_offset : (p,) array, or 0 at first
    scatter : (p, p) array, or 0 at first
    """

    shift: FloatArray
    count: int = 0
    weight: Any = 0.0
    mean_offset: Any = 0.0
    scatter: Any = 0.0

    def multiply_weights(self, factor: float) -> "RunningMoments":
        """Return the moments for weights multiplied by a factor."""
        return replace(self, weight=self.weight * factor, scatter=self.scatter * factor)

    def merge(self, other: "RunningMoments") -> None:
        """Merge the moments of another part of the group."""
        total = self.weight + other.weight
        delta = (other.shift - self.shift) + (other.mean_offset - self.mean_offset)
        self.scatter += other.scatter
        # Not as products of roots, which would round weights and twice the weights differently.
        self.scatter += np.outer(delta, delta) * (self.weight * (other.weight / total))
        self.mean_offset = self.mean_offset + (other.weight / total) * delta
        is_known = self.count > 0 and other.count > 0  # 0 means unknown
        self.count = self.count + other.count if is_known else 0
        self.weight = total


def merge_into(sums: dict[Key, RunningMoments], key: Key, moments: RunningMoments) -> None:
    """Merge moments into those of the same key."""
    if key in sums:
        sums[key].merge(moments)
    else:
        sums[key] = moments


def stack_by_label(sums: dict[Label, RunningMoments], n_features: int) -> StackedMoments:
    """Stack the moments of k groups in label order; `sums` is empty afterwards.

    A mean is the sum of shift and offset; `mean_corrections` are the errors of its rounding.
    """
    labels = sorted(sums)
    k = len(sums)
    counts = np.array([sums[label].count for label in labels], dtype=np.int64)
    weights = np.array([sums[label].weight for label in labels], dtype=np.float64)
    means = np.empty((k, n_features))
    corrections = np.empty((k, n_features))
    for group, label in enumerate(labels):
        means[group], corrections[group] = exact_sum(sums[label].shift, sums[label].mean_offset)
    scatters = np.empty((k, n_features, n_features))
    for group, label in enumerate(labels):  # one by one, to free memory as we go
        scatters[group] = sums.pop(label).scatter
    return StackedMoments(label_array(labels), counts, weights, means, corrections, scatters)
