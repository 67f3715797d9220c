"""Types of arrays and random numbers used in signatures."""

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
IntegerArray = npt.NDArray[np.int64]
RandomSource = int | np.random.Generator | np.random.RandomState | None
"""Seed or generator of random numbers, as scikit-learn's `random_state`."""
