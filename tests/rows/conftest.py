"""One Dask cluster for all tests of rows, and files whose blocks are small.

Each file of tests connects to the cluster anew.
"""

import pytest

from csv_blocks import shrink_csv_blocks
from rows.dask_cluster import running_cluster


@pytest.fixture(scope="package")
def cluster():
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def small_csv_blocks(monkeypatch):
    shrink_csv_blocks(monkeypatch)


@pytest.fixture(scope="module")
def client(cluster):
    """Connect this process to the cluster until the last test of the file."""
    import distributed

    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        yield client
