"""Where the arrays of another package than numpy lie, and how to compute there."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_cupy_array,
    is_pydata_sparse_array,
    is_torch_array,
)

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.checks import check_shape
from fairspan.typing import AnyArray

# Fewest rows of a block, so that a product of it keeps the device busy.
FEWEST_BLOCK_ROWS = 512
# A library multiplies matrices in tiles of about this many rows and columns.
_TILE = 128


@dataclass(frozen=True)
class Place:
    """The package and the device of an array.

    Attributes
    ----------
    xp : module
        The functions of the Array API standard for it.
    device : object
    """

    xp: Any
    device: Any

    @classmethod
    def of(cls, array: Any) -> "Place":
        """The place of an array.

        Raises
        ------
        InvalidType
            It is no dense array, or its device has no double precision.
        """
        is_strided = not is_torch_array(array) or str(array.layout) == "torch.strided"
        if not is_strided or is_pydata_sparse_array(array):
            raise InvalidType(
                f"X is a sparse {type(array).__name__}",
                "Allowed: dense arrays, and the sparse matrices of scipy",
                "Convert it, for example to scipy.sparse.csr_array",
            )
        try:
            place = cls(array_namespace(array), device(array))
        except (TypeError, AttributeError) as error:
            raise InvalidType(
                f"X is a {type(array).__name__}, which is no array ({error})",
                "Allowed: arrays that follow the Array API standard",
                "Pass the array of numbers itself",
            ) from error
        place._check_double_precision()
        return place

    def _check_double_precision(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns, and gives single precision
            try:
                dtype = self.xp.zeros(1, dtype=self.xp.float64, device=self.device).dtype
            except (TypeError, ValueError, RuntimeError):
                dtype = None
        if dtype != self.xp.float64:
            raise InvalidType(
                f"X lies on {self.device}, where no double precision is available",
                "Allowed: devices with float64, in which sums over many rows stay exact enough",
                "Move X to the CPU first; in JAX, set jax_enable_x64",
            )

    def constant(self, values: AnyArray) -> Any:
        """A numpy array, brought here."""
        if not values.flags.writeable:  # torch warns about those
            values = values.copy()
        return self.xp.asarray(values, device=self.device)

    def float64(self, array: Any) -> Any:
        """An array in double precision."""
        return self.xp.astype(array, self.xp.float64, copy=False)

    def minus(self, rows: Any, point: Any) -> Any:
        """A new array of rows minus a point of double precision, in double precision."""
        # Numbers of any precision are widened in the same pass over memory; integers may not be.
        return (rows if self.is_real(rows) else self.float64(rows)) - point

    def is_real(self, array: Any) -> bool:
        """Whether it holds floating-point numbers, among which may be NaN."""
        return bool(self.xp.isdtype(array.dtype, "real floating"))

    def finite(self, array: Any) -> bool:
        """Whether all numbers are finite; waits for the device."""
        return bool(self.xp.all(self.xp.isfinite(array)))


@dataclass(frozen=True)
class BlockPlan:
    """How much a device is given to do at once.

    Attributes
    ----------
    numbers : int
        Numbers in one block, which takes eight bytes each (twice that with weights).
    chunk_rows : int
        Rows that are sorted by group at once.
    tiles : int
        Tiles of a product that should be under way at once. Few columns make few tiles, and would
        leave most of a GPU idle, so that their rows are multiplied in several strips side by side.
    """

    numbers: int
    chunk_rows: int
    tiles: int

    @classmethod
    def for_place(cls, place: Place) -> "BlockPlan":
        """Blocks that stay in the cache of a CPU, or that keep a GPU busy in 128 MB."""
        is_cpu = "cpu" in str(place.device).lower()
        return cls(2**18, 2**16, 1) if is_cpu else cls(2**24, 2**22, 128)

    def block_rows(self, n_features: int) -> int:
        """Rows of one block."""
        return max(self.numbers // n_features, FEWEST_BLOCK_ROWS)

    def strips(self, n_features: int) -> int:
        """Strips of rows that are multiplied side by side."""
        return max(self.tiles // (-(-n_features // _TILE)) ** 2, 1)


def on_host(array: Any) -> AnyArray:
    """An array as numpy's; what numpy has no name for (bfloat16) must be converted before."""
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    try:
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError):  # those that move only if told to
        return np.asarray(np.from_dlpack(array))


def checked_array(array: Any, place: Place) -> Any:
    """A table of real numbers, free of any record of derivatives.

    Raises
    ------
    InvalidInput
        Complex numbers, no rows, no features, or another number of dimensions.
    """
    check_shape(tuple(array.shape))
    if place.xp.isdtype(array.dtype, "complex floating"):
        raise InvalidInput(
            "X holds complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    return array.detach() if is_torch_array(array) else array


def spans(n_rows: int, size: int) -> Iterator[slice]:
    """Consecutive rows, so many at a time; the standard knows no slices beyond the end."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
