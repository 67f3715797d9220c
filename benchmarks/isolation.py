"""Calls in a process of their own, where memory that another case holds does not slow them down."""

import contextlib
import multiprocessing
import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from benchmarks.effort import SkippedError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def single_process_pool() -> ProcessPoolExecutor:
    """Return a pool of one process: rows that another process holds do not slow it down."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def run_in_process(
    limit: float,
    function: Callable[_Parameters, _Result],
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Result:
    """Call a function in a new process, which ends with the call.

    Raises
    ------
    SkippedError
        The call takes longer than `limit` seconds, or more than half of the memory.
    """
    with multiprocessing.get_context("spawn").Pool(1, _limit_memory) as pool:
        try:
            return pool.apply_async(function, args, kwargs).get(limit)
        except multiprocessing.TimeoutError:
            raise SkippedError(f"did not end within {limit:.0f} s") from None
        except MemoryError:
            raise SkippedError("needs more than half of the memory") from None


def _limit_memory() -> None:
    """Make this process fail, rather than the machine, if it needs over half of the memory."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    # Not every system lets a process limit itself.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (half, half))
