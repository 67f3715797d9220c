"""Sample weights of any size, divided by a power of two that brings the largest into range.

Only ratios of weights matter to a fit. Weights of ordinary size are used as they are. If some are
so large or small that their products with squares of features would leave float64, all weights are
divided by the same power of two, which changes no digit; weights that are then still too small
count as zero, with a warning.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.text import join_truncated
from fairspan.rows.groups import CodedLabels, Label, is_missing_label, to_python_label
from fairspan.rows.label_checks import quoted
from fairspan.rows.protocol import RowSource
from fairspan.typing import FloatArray

# Binary exponent of the largest weight of a row; about 1e100. Features lie within 1e-75 to 1e75, so
# that weights times their squares, and squares of weights, are normal numbers.
_RANGE_EXPONENT = 332
SMALLEST_WEIGHT = 2.0**-_RANGE_EXPONENT
LARGEST_WEIGHT = 2.0**_RANGE_EXPONENT
# Groups that a warning names.
_MOST_NAMED = 5


def in_units(weights: FloatArray, exponent: int) -> FloatArray:
    """Return weights divided by 2**exponent; those below the smallest weight become zero.

    Examples
    --------
    >>> import numpy as np
    >>> in_units(np.array([2.0**900, 2.0**700, 2.0**-900]), 600).tolist() == [2.0**300, 2.0**100, 0]
    True
    """
    if exponent == 0:
        scaled = weights
    else:
        with np.errstate(under="ignore"):
            scaled = np.ldexp(weights, -exponent)
    return np.where(scaled < SMALLEST_WEIGHT, 0.0, scaled)


def exponent_for(largest: float) -> int:
    """Return the even exponent of the unit in which the largest weight is just within range.

    Square roots of an even power of two are powers of two.
    """
    exponent = math.frexp(largest)[1] - _RANGE_EXPONENT
    return exponent + exponent % 2


def is_extreme(weights: FloatArray) -> bool:
    """Return whether a positive weight is out of range."""
    if not len(weights):
        return False
    if weights.max() > LARGEST_WEIGHT:
        return True
    if weights.min() >= SMALLEST_WEIGHT:
        return False
    return bool(((weights > 0) & (weights < SMALLEST_WEIGHT)).any())


def scaled_weights(
    weights: FloatArray | None, labels: CodedLabels | None
) -> tuple[FloatArray | None, int]:
    """Return the weights of all rows within range, and the binary exponent of their unit.

    Warns of weights that count as zero.

    Parameters
    ----------
    weights : (n,) array or None
    labels : CodedLabels of n rows, or None
        Groups, for the warning.

    Returns
    -------
    (n,) array or None
    int
        0 for weights of ordinary size.
    """
    if weights is None or not is_extreme(weights):
        return weights, 0
    exponent = exponent_for(float(weights.max()))
    scaled = in_units(weights, exponent)
    _warn_of_negligible(_largest_of_groups(weights, labels), weights[weights > 0].min(), exponent)
    return scaled, exponent


def _largest_of_groups(weights: FloatArray, labels: CodedLabels | None) -> dict[Label, float]:
    """Return the largest weight of each group that has a positive one."""
    if labels is None:
        return {}
    largest = np.zeros(len(labels.categories))
    np.maximum.at(largest, labels.codes, weights)
    found: dict[Label, float] = {}
    for label, weight in zip(
        map(to_python_label, labels.categories), largest.tolist(), strict=True
    ):
        if weight > 0 and not is_missing_label(label):
            found[label] = max(weight, found.get(label, 0.0))
    return found


def _warn_of_negligible(largest: dict[Label, float], smallest: float, exponent: int) -> None:
    if in_units(np.array([smallest]), exponent)[0] > 0:
        return
    warn_of_negligible(
        "sample_weight",
        math.ldexp(SMALLEST_WEIGHT, exponent),
        [label for label, each in largest.items() if in_units(np.array([each]), exponent)[0] == 0],
    )


def warn_of_negligible(name: str, limit: float, lost: Iterable[Label]) -> None:
    """Warn of weights that count as zero, and of groups that have no other weights.

    Parameters
    ----------
    name : str
        Of the weights.
    limit : float
        Smaller weights count as zero.
    lost : iterable of labels
    """
    groups = [quoted(label) for label in lost]
    absent = ""
    if groups:
        named = join_truncated(groups, _MOST_NAMED)
        absent = (
            f" No row remains of the group{'s' * (len(groups) > 1)} {named}: to keep such a "
            "group, multiply all of its weights by a constant."
        )
    warn(
        f"{name} has weights that are less than about 1e-200 of the largest: those below "
        f"{limit:.3g} count as zero, and their rows as absent.{absent}"
    )


@dataclass(frozen=True)
class WeightSizes:
    """Sizes of the weights of some rows.

    Attributes
    ----------
    largest : dict of label to float
        The largest weight of each group.
    extremes : tuple of two floats
        The smallest positive weight and the largest one.
    """

    largest: dict[Label, float]
    extremes: tuple[float, float]


class WeightTally:
    """The pass over rows that finds the sizes of their weights."""

    def aggregate(self, rows: RowSource) -> WeightSizes | None:
        """Return the sizes of the weights of some rows; None without a positive one."""
        found: WeightSizes | None = None
        for block in rows.blocks():
            if block.weights is None or not block.weights.any():
                continue
            positive = block.weights[block.weights > 0]
            largest = _largest_of_groups(block.weights, block.group_labels)
            more = WeightSizes(largest, (float(positive.min()), float(positive.max())))
            found = more if found is None else self.merge(found, more)
        return found

    def merge(self, left: WeightSizes, right: WeightSizes) -> WeightSizes:
        """Return the sizes of both parts."""
        largest = dict(left.largest)
        for label, weight in right.largest.items():
            largest[label] = max(largest.get(label, 0.0), weight)
        extremes = (
            min(left.extremes[0], right.extremes[0]),
            max(left.extremes[1], right.extremes[1]),
        )
        return WeightSizes(largest, extremes)


@dataclass
class WeightScale:
    """The unit of the weights of rows that are read in parts; all parts share one.

    It is not known before a part has a weight out of range. Such a part raises an error by whose
    cause all weights are read once, to find the largest, and then the rows again.

    Attributes
    ----------
    exponent : int
        Weights are divided by 2**exponent.
    is_known : bool
        Whether the exponent is that of the largest of all weights.
    is_raw : bool
        Whether weights stay as they are, to find their sizes.
    """

    exponent: int = 0
    is_known: bool = False
    is_raw: bool = False

    def set_by(self, sizes: WeightSizes | None) -> None:
        """Choose the exponent by the sizes of all weights; warn of those that count as zero."""
        if sizes is None:
            return
        smallest, largest = sizes.extremes
        is_ordinary = smallest >= SMALLEST_WEIGHT and largest <= LARGEST_WEIGHT
        self.exponent = 0 if is_ordinary else exponent_for(largest)
        self.is_known = True
        _warn_of_negligible(sizes.largest, smallest, self.exponent)

    def scaled(self, weights: FloatArray) -> FloatArray:
        """Return the weights of a part in the unit of all.

        Raises
        ------
        InvalidInput
            A weight is out of range, and the largest of all is not known, or is another now.
        """
        if self.is_raw:
            return weights
        if self.is_known:
            scaled = in_units(weights, self.exponent)
            if not len(scaled) or scaled.max() <= LARGEST_WEIGHT:
                return scaled
        elif not is_extreme(weights):
            return weights
        raise InvalidInput(
            f"The weights go from {weights.min():.3g} to {weights.max():.3g} in one part of the "
            "rows",
            f"Allowed here: zero, and weights from {SMALLEST_WEIGHT:.0e} to {LARGEST_WEIGHT:.0e}",
            "Divide all weights by the largest one: only their ratios matter",
            cause=Cause.EXTREME_WEIGHTS,
        )
