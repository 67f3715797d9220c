"""Arrays of packages other than numpy, on devices that numpy cannot read."""

from functools import partial

import pytest

# The second lies on a device that numpy cannot read without an explicit request, as those of a GPU.
KINDS = ["strict", "strict elsewhere", "torch", "jax"]


def device_of(kind):
    """Return a function that moves a numpy array to the device."""
    if kind == "torch":
        return pytest.importorskip("torch").asarray
    if kind == "jax":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
        return pytest.importorskip("jax.numpy").asarray
    strict = pytest.importorskip("array_api_strict")
    name = "CPU_DEVICE" if kind == "strict" else "device1"
    return partial(strict.asarray, device=strict.Device(name))
