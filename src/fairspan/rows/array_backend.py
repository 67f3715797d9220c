"""Namespace and device of an array, and its conversion to numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

from fairspan.typing import AnyArray


@dataclass(frozen=True)
class ArrayBackend:
    """Array API namespace and device of an array.

    Attributes
    ----------
    xp : module
        Array API namespace.
    device : object
    """

    xp: Any
    device: Any

    def to_device(self, values: AnyArray) -> Any:
        """Copy a numpy array to the device."""
        if not values.flags.writeable:  # torch warns about read-only arrays
            values = values.copy()
        return self.xp.asarray(values, device=self.device)

    def float64(self, array: Any) -> Any:
        """Cast an array to float64."""
        return self.xp.astype(array, self.xp.float64, copy=False)


def is_from_package(X: object, package: str) -> bool:
    """Return whether an object's class comes from a package, without importing it."""
    return any(cls.__module__.split(".")[0] == package for cls in type(X).__mro__)


def is_device_array(X: object) -> bool:
    """Return whether `X` is a non-numpy array, possibly on a GPU."""
    is_numpy = isinstance(X, np.ndarray | np.generic)
    return not is_numpy and (hasattr(X, "__array_namespace__") or is_from_package(X, "torch"))


def to_host(values: object) -> Any:
    """Copy values to the host if they are on a device."""
    return to_numpy(values) if is_device_array(values) else values


def to_numpy(array: Any) -> AnyArray:
    """Convert a device array to numpy.

    Types that numpy lacks (bfloat16) must be converted first.
    """
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    try:
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError):  # arrays that require an explicit transfer
        return np.asarray(np.from_dlpack(array))
