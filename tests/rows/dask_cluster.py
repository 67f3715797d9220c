"""A real Dask cluster of two worker processes, and functions that its workers run."""

import contextlib
import os
import re
import time
from pathlib import Path

import numpy as np

# Seconds that are enough on any machine, however much else it has to do.
DEADLINE = 120
# What its processes do while they wait: without this they look at themselves a hundred times a
# second, for as long as the tests run.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


@contextlib.contextmanager
def running_cluster():
    """Two worker processes of one thread each; those that die are replaced."""
    import dask
    import distributed

    with (
        dask.config.set(QUIET),
        distributed.LocalCluster(
            n_workers=2, processes=True, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
    ):
        yield cluster


def block_that_waits(block, n_first, folder, block_id=None):
    """Record a block in a file; all but the first few wait for the file "killed"."""
    folder = Path(folder)
    (folder / str(block_id[0])).write_text("")
    deadline = time.monotonic() + DEADLINE
    while len(list(folder.iterdir())) > n_first and not (folder / "killed").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody was killed")
        time.sleep(0.01)
    return block


def block_that_fails_once(block, folder, block_id=None):
    """The block, at the second attempt; the first is noted in a file, as workers may change."""
    note = Path(folder) / f"tried-{block_id[0]}"
    if not note.exists():
        note.write_text("")
        raise OSError("the disk was away")
    return block


def block_that_kills_its_worker(block):
    os.kill(os.getpid(), 9)
    return block


def lines_of_docs(first):
    """Return the lines for a collection in docs/scale.md that begin with `first`."""
    page = Path(__file__).parents[2] / "docs" / "scale.md"
    block = re.search(rf"^```py\n({re.escape(first)}.*?)^```", page.read_text("utf-8"), re.S | re.M)
    return block[1]


def part_of(number, frames):
    return frames[number]


def threads_of_linear_algebra():
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def rows(n=600, p=4, seed=0):
    """Draw correlated rows far from zero, three groups, and weights with zeros."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + 100
    groups = rng.choice(["f", "m", "x"], n, p=[0.45, 0.45, 0.1])
    weights = np.where(rng.random(n) < 0.1, 0, rng.uniform(0.2, 3, n))
    return X, groups, weights
