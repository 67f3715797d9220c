"""Results that take long to compute, shared by the processes of a test run.

Otherwise each process would compute the audit page of twelve groups, which takes as long as a
hundred other tests. The first process holds a lock while it computes the result and writes it to
the folder that the processes of a run share; the others wait and read it.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

# Set by tests/conftest.py if several processes run the tests.
folder: Path | None = None


def compute_once(name: str, make: Callable[[], Result]) -> Result:
    """Return the value of `make`, computed by this process or another."""
    if folder is None:
        return make()
    import fcntl  # which only POSIX has

    path = folder / name
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_bytes(pickle.dumps(make()))
        result: Result = pickle.loads(path.read_bytes())
    return result
