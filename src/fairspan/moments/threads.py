"""Several threads of one process, where single matrix products are too small to use them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from threading import Lock
from typing import TypeVar

import threadpoolctl

Item = TypeVar("Item")
Result = TypeVar("Result")

# Limits on threads hold for the whole process, so that two at a time would undo each other's.
_LIMITING = Lock()


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of each item, in order; in as many threads as linear algebra may use.

    Meanwhile each of them computes alone, so that together they take no more cores than allowed.
    """
    if len(items) < 2 or not _LIMITING.acquire(blocking=False):
        return [function(item) for item in items]
    with ExitStack() as stack:
        stack.callback(_LIMITING.release)
        libraries = _linear_algebra()
        allowed = max((each["num_threads"] for each in libraries.info()), default=1)
        workers = min(allowed, len(items))
        if workers < 2:
            return [function(item) for item in items]
        stack.enter_context(libraries.limit(limits=1))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        return list(pool.map(function, items))


@cache
def _linear_algebra() -> threadpoolctl.ThreadpoolController:
    # Looking for libraries takes milliseconds; numpy's and scipy's are there once they are used.
    return threadpoolctl.ThreadpoolController().select(user_api="blas")
