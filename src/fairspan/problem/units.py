"""Units in which squares neither overflow nor vanish: powers of two, which lose no digit.

Second moments hold squares, and what is done with them squares again. So features of 1e78 overflow
though every number of the table can be squared. Such tables are solved in another unit, and the
answer is given in their own.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.moments.center import Center
from fairspan.moments.of_rows import Moments
from fairspan.problem.criteria import Criterion, declares
from fairspan.typing import FloatArray

Settings = TypeVar("Settings")

# Powers of two beyond which a table is solved in another unit: about 1e-30 and 1e30.
_MOST_POWER = 100
# A column that is so many times as large as most may leave the others few digits.
_FAR_LARGER = 100.0
# Squares of smaller numbers lose digits, or vanish.
_SMALLEST = 1e-150


def unit_of(moments: Moments, center: Center) -> float:
    """1, unless features are so large or small that fourth powers would leave float64's range."""
    largest = float(spreads_of(moments, center).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0:
        return 1.0
    power = int(np.floor(np.log2(largest)))
    return 1.0 if abs(power) <= _MOST_POWER else float(2.0**power)


def check_squares(moments: Moments, center: Center) -> None:
    """Make sure that the squares of the features have not vanished.

    Raises
    ------
    InvalidInput
        All features are so small that nothing, or little, is left of their squares.
    """
    largest = float(spreads_of(moments, center).max(initial=0.0))
    mean = float(np.abs(moments.mean).max(initial=0.0))
    if largest >= _SMALLEST or (largest == 0 and not 0 < mean < _SMALLEST):
        return
    raise InvalidInput(
        f"All features are smaller than {_SMALLEST:g}: their squares vanish in double precision",
        f"Allowed: tables with a feature that varies by {_SMALLEST:g} or more",
        "Rescale the columns, for example X * 1e200",
    )


def unit_for(moments: Moments, center: Center, divisor: FloatArray | None) -> float:
    """The same where features are divided by their deviations, which needs no other unit."""
    return 1.0 if divisor is not None else unit_of(moments, center)


def in_units(settings: Settings, unit: float) -> Settings:
    """A criterion or restriction for features that are divided by a unit.

    It declares which of its parameters have one: ``powers_of_unit`` maps their names to the power
    of the features' unit that they are measured in.
    """
    powers: Mapping[str, int] = getattr(settings, "powers_of_unit", {})
    if unit == 1 or not powers:
        return settings
    given: Any = settings
    changes = {name: _divided(getattr(given, name), unit, power) for name, power in powers.items()}
    return cast(Settings, replace(given, **changes))


def _divided(value: Any, unit: float, power: int) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {group: _divided(each, unit, power) for group, each in value.items()}
    for _ in range(power):  # the power of a unit itself may leave float64's range
        value = value / unit
    return value


def value_in_features(criterion: Criterion, unit: float) -> tuple[float, float]:
    """What turns a value for features that are divided by a unit into that for the features.

    Returns
    -------
    times, by : float
        It is multiplied by the first, and the second is added.
    """
    if declares(criterion, "is_logarithmic"):
        return 1.0, -2 * math.log(unit)
    return (1.0 if declares(criterion, "is_relative") else unit * unit), 0.0


def largest_column(moments: Moments, center: Center) -> str | None:
    """Which feature is so large that others are rounding beside it, in words; None of none."""
    spreads = spreads_of(moments, center)
    largest = int(np.argmax(spreads))
    names = moments.feature_names or tuple(map(str, range(moments.n_features)))
    others = np.delete(spreads, largest)
    typical = float(np.median(others[others > 0])) if (others > 0).any() else 0.0
    times = float(spreads[largest]) / typical if typical > 0 else np.inf
    if times < _FAR_LARGER:
        return None
    told = f", {times:.0e} times as large as most" if np.isfinite(times) else ""
    return f"the column {names[largest]!r} is the largest{told}"


def spreads_of(moments: Moments, center: Center) -> FloatArray:
    """Root mean square of each feature about the centre, shape (p,)."""
    deviations = moments.standard_deviations
    if center != "none":
        return deviations
    return np.hypot(deviations, moments.mean)
