"""What takes long to make, and is the same for all tests, is made by one process of a run of tests.

Each process that runs tests would otherwise make the audit page of twelve groups anew, which takes
as long as a hundred other tests. The first that asks holds a lock while it makes the result, and
leaves it in the folder that the processes of one run share; the others wait, and read it.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

# Where several processes run the tests, tests/conftest.py names their folder.
folder: Path | None = None


def made_once(name: str, make: Callable[[], Result]) -> Result:
    """What `make` returns, from this process or another."""
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
