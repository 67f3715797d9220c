"""Moments of a single group, and the law by which parts of it merge."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput
from fairspan.rows.groups import Label

FloatArray = npt.NDArray[np.float64]

# Means and deviations beyond this could give infinite sums of squares later.
_LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class OneGroup:
    """Moments of a single group."""

    label: Label
    count: int
    weight: float
    mean: FloatArray
    scatter: FloatArray


def merged(a: OneGroup | None, b: OneGroup | None) -> OneGroup:
    """Chan, Golub and LeVeque (1979): the moments of both parts together."""
    if a is None or b is None:
        only = a or b
        assert only is not None, "a group is in neither part"
        return only
    weight = a.weight + b.weight
    delta = b.mean - a.mean
    # The quotient first: the product of two tiny or huge weights leaves float64's range.
    with np.errstate(over="ignore", invalid="ignore"):  # found by check_magnitude
        between = (a.weight * (b.weight / weight)) * np.outer(delta, delta)
        scatter = a.scatter + b.scatter + between
    mean = a.mean + (b.weight / weight) * delta
    return OneGroup(a.label, a.count + b.count, weight, mean, scatter)


def check_magnitude(parts: Sequence[OneGroup]) -> None:
    """Make sure that second moments of these groups stay within float64.

    Raises
    ------
    InvalidInput
    """
    check_sizes([part.weight for part in parts], [size for part in parts for size in _sizes(part)])


def check_sizes(weights: Sequence[float], sizes: Sequence[FloatArray]) -> None:
    """The same from weights, and from all means and standard deviations.

    Raises
    ------
    InvalidInput
    """
    # NaN compares as false.
    if not np.isfinite(sum(weights)) or not all(bool((size <= _LARGEST).all()) for size in sizes):
        raise InvalidInput(
            "The squares of the numbers in X, times their weights, overflow float64",
            f"Allowed are numbers up to about {_LARGEST:.0e}",
            "Rescale the columns, for example to unit variance",
        )


def _sizes(part: OneGroup) -> tuple[FloatArray, FloatArray]:
    # Off the diagonal nothing is larger than on it.
    return np.abs(part.mean), np.sqrt(np.diag(part.scatter) / part.weight)
