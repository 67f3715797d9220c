"""Processes of their own, so that what one case holds in memory slows down no other."""

import contextlib
import multiprocessing
import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from benchmarks.effort import SkippedError

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")


def process() -> ProcessPoolExecutor:
    """A process of its own: rows held in memory slow down whatever else a process does."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def alone(
    limit: float,
    function: Callable[_Parameters, _Value],
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Value:
    """Call a function in a fresh process, which ends with it.

    Raises
    ------
    SkippedError
        It did not end within the limit (seconds), or asked for more than half of the memory.
    """
    with multiprocessing.get_context("spawn").Pool(1, _limit_memory) as pool:
        try:
            return pool.apply_async(function, args, kwargs).get(limit)
        except multiprocessing.TimeoutError:
            raise SkippedError(f"did not end within {limit:.0f} s") from None
        except MemoryError:
            raise SkippedError("needs more than half of the memory") from None


def _limit_memory() -> None:
    """Let a case that needs too much fail, not the machine."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    # Not every system lets a process limit itself.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (half, half))
