"""One thread for small matrices."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")


def on_one_thread(
    function: Callable[_Parameters, _Value],
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Value:
    """Call a function while linear algebra keeps to one thread.

    Eigenproblems of a few dozen features are over before threads have met: on a busy machine two
    threads take thirty times as long as one.
    """
    # scikit-learn brings it along.
    threadpoolctl: Any = import_module("threadpoolctl")
    with threadpoolctl.threadpool_limits(limits=1):
        return function(*args, **kwargs)
