"""Sample weights of any size, divided by a power of two that brings the largest into range.

Only ratios of weights matter to a fit. Weights of ordinary size are used unchanged. If some are so
large or small that their products with squares of features could overflow or underflow, all weights
are divided by the same power of two, which changes no digit; weights that are then still too small
count as zero, with a warning.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.names import join_truncated
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import Label, is_missing_label, quoted_group, to_python_label
from fairspan.rows.protocol import RowSource
from fairspan.typing import FloatArray

# Binary exponent of the maximum weight of a row, about 1e100. Features are within 1e-75 to 1e75, so
# that weights times their squares, and squares of weights, are normal numbers.
_RANGE_EXPONENT = 332
MIN_WEIGHT = 2.0**-_RANGE_EXPONENT
MAX_WEIGHT = 2.0**_RANGE_EXPONENT
# Maximum number of groups that a warning lists, so that it stays readable.
_MAX_LISTED_GROUPS = 5


def in_units(weights: FloatArray, exponent: int) -> FloatArray:
    """Return weights divided by 2**exponent; those below `MIN_WEIGHT` become zero.

    Examples
    --------
    >>> import numpy as np
    >>> in_units(np.array([2.0**900, 2.0**700, 2.0**-900]), 600).tolist() == [2.0**300, 2.0**100, 0]
    True
    """
    scaled = weights
    if exponent != 0:
        with np.errstate(under="ignore"):
            scaled = np.ldexp(weights, -exponent)
    return np.where(scaled < MIN_WEIGHT, 0.0, scaled)


def exponent_for(largest: float) -> int:
    """Return the even exponent of the unit in which the largest weight is just within range.

    The square root of an even power of two is a power of two.
    """
    exponent = math.frexp(largest)[1] - _RANGE_EXPONENT
    return exponent + exponent % 2


def is_extreme(weights: FloatArray) -> bool:
    """Return whether a positive weight is out of range."""
    if not len(weights):
        return False
    if weights.max() > MAX_WEIGHT:
        return True
    if weights.min() >= MIN_WEIGHT:
        return False
    return bool(((weights > 0) & (weights < MIN_WEIGHT)).any())


def scaled_weights(
    weights: FloatArray | None, labels: CodedLabels | None
) -> tuple[FloatArray | None, int]:
    """Rescale weights by a power of two if sums or squares of them could overflow or underflow.

    Warns about weights that become zero, being negligible beside the largest.

    Parameters
    ----------
    weights : (n,) array or None
    labels : CodedLabels of n rows, or None
        Group of each row, to name groups all of whose weights become zero.

    Returns
    -------
    (n,) array or None
        Rescaled weights.
    int
        Exponent e: the given weights are 2**e times the rescaled ones; 0 if they were in range.
    """
    if weights is None or not is_extreme(weights):
        return weights, 0
    exponent = exponent_for(float(weights.max()))
    scaled = in_units(weights, exponent)
    smallest = float(weights[weights > 0].min())
    _warn_if_negligible(_max_weight_by_group(weights, labels), smallest, exponent)
    return scaled, exponent


def _max_weight_by_group(weights: FloatArray, labels: CodedLabels | None) -> dict[Label, float]:
    """Return the maximum weight of each group that has a positive one.

    Empty without labels. Rows without a group count towards none.
    """
    if labels is None:
        return {}
    by_category = np.zeros(len(labels.categories))
    np.maximum.at(by_category, labels.codes, weights)
    by_group: dict[Label, float] = {}
    groups = map(to_python_label, labels.categories)
    for group, weight in zip(groups, by_category.tolist(), strict=True):
        if weight > 0 and not is_missing_label(group):
            # Categories that are equal as dictionary keys, such as 1 and 1.0, share an entry.
            by_group[group] = max(weight, by_group.get(group, 0.0))
    return by_group


def _warn_if_negligible(max_by_group: dict[Label, float], smallest: float, exponent: int) -> None:
    """Warn if the smallest positive weight counts as zero in this unit."""
    if in_units(np.array([smallest]), exponent)[0] > 0:
        return
    max_in_units = in_units(np.array(list(max_by_group.values())), exponent).tolist()
    lost = [group for group, weight in zip(max_by_group, max_in_units, strict=True) if weight == 0]
    warn_about_negligible("sample_weight", math.ldexp(MIN_WEIGHT, exponent), lost)


def warn_about_negligible(name: str, limit: float, lost_groups: Iterable[Label]) -> None:
    """Warn about weights that count as zero, and about groups that have no other weights.

    Parameters
    ----------
    name : str
        Name of the weights.
    limit : float
        Smaller weights count as zero.
    lost_groups : iterable of labels
        Groups without any other weight.
    """
    groups = [quoted_group(label) for label in lost_groups]
    lost = ""
    if groups:
        group_list = join_truncated(groups, _MAX_LISTED_GROUPS)
        lost = (
            f" No row remains of the group{'s' * (len(groups) > 1)} {group_list}: to keep such a "
            "group, multiply all of its weights by a constant."
        )
    warn(
        f"{name} has weights that are less than about 1e-200 of the largest: those below "
        f"{limit:.3g} count as zero, and their rows as absent.{lost}"
    )


@dataclass(frozen=True)
class WeightSizes:
    """Sizes of the weights of some rows.

    Attributes
    ----------
    max_by_group : dict of label to float
        Maximum weight of each group.
    smallest, largest : float
        The smallest positive weight and the largest one.
    """

    max_by_group: dict[Label, float]
    smallest: float
    largest: float


class WeightAggregator:
    """Aggregator of the sizes of weights."""

    def aggregate(self, rows: RowSource) -> WeightSizes | None:
        """Return the sizes of the weights of some rows; None if no weight is positive.

        These are the smallest positive weight, the largest, and the maximum of each group.
        """
        total: WeightSizes | None = None
        for block in rows.blocks():
            if block.weights is None or not block.weights.any():
                continue
            positive = block.weights[block.weights > 0]
            sizes = WeightSizes(
                max_by_group=_max_weight_by_group(block.weights, block.groups),
                smallest=float(positive.min()),
                largest=float(positive.max()),
            )
            total = sizes if total is None else self.merge(total, sizes)
        return total

    def merge(self, left: WeightSizes, right: WeightSizes) -> WeightSizes:
        """Merge the sizes of two parts."""
        max_by_group = dict(left.max_by_group)
        for label, weight in right.max_by_group.items():
            max_by_group[label] = max(max_by_group.get(label, 0.0), weight)
        smallest = min(left.smallest, right.smallest)
        return WeightSizes(max_by_group, smallest, max(left.largest, right.largest))


class WeightScale:
    """Unit of the weights of partitioned rows, shared by all partitions.

    It is unknown until a partition has a weight out of range. That partition raises an error whose
    cause triggers a pass over all weights, to find the largest, and then a second pass over the
    rows (:func:`fairspan.rows.aggregation.aggregate`).

    Parameters
    ----------
    is_raw : bool
        Whether weights are not scaled, to find their sizes.

    Attributes
    ----------
    exponent : int
        Weights are divided by 2**exponent.
    is_known : bool
        Whether the exponent is that of the largest of all weights.
    """

    def __init__(self, *, is_raw: bool = False) -> None:
        self.is_raw = is_raw
        self.exponent = 0
        self.is_known = False

    def set_from(self, sizes: WeightSizes | None) -> None:
        """Set the exponent from the sizes of all weights; warn about those that count as zero."""
        if sizes is None:
            return
        is_ordinary = sizes.smallest >= MIN_WEIGHT and sizes.largest <= MAX_WEIGHT
        self.exponent = 0 if is_ordinary else exponent_for(sizes.largest)
        self.is_known = True
        _warn_if_negligible(sizes.max_by_group, sizes.smallest, self.exponent)

    def scale(self, weights: FloatArray) -> FloatArray:
        """Return the weights of one partition, divided by a power of two that all partitions share.

        The power follows from the largest of all weights, which is unknown at first. Weights of
        ordinary size are then returned unchanged. The error for others makes the caller read all
        weights to find the largest, and then the rows once more.

        Raises
        ------
        InvalidInput
            A weight is out of range, and the largest of all is unknown or has changed.
        """
        # Raw weights are wanted by the pass that finds the largest.
        if self.is_raw:
            return weights
        # Known, so divide by 2**exponent: the largest is then in range, unless the rows changed.
        if self.is_known:
            scaled = in_units(weights, self.exponent)
            if not len(scaled) or scaled.max() <= MAX_WEIGHT:
                return scaled
        elif not is_extreme(weights):
            return weights
        raise InvalidInput(
            f"The weights range from {weights.min():.3g} to {weights.max():.3g} in one partition "
            "of the rows",
            f"Allowed: zero, and weights from {MIN_WEIGHT:.0e} to {MAX_WEIGHT:.0e}",
            "Divide all weights by the largest one: only their ratios matter",
            cause=Cause.EXTREME_WEIGHTS,
        )
