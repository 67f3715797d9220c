"""Files read by the workers of a Dask cluster."""

import socket
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from by_hand import assert_moments, moments_by_hand
from fairspan import GroupMoments
from fairspan.errors import InvalidInput, InvalidParameter, MissingDependency
from fairspan.moments.accumulate import MomentsFold
from fairspan.moments.of_rows import accumulate
from fairspan.rows.dask import engine as on_dask
from fairspan.rows.dask.engine import OnDask
from fairspan.rows.files.file_rows import FileRows
from rows.dask_cluster import rows

X, GROUPS, WEIGHTS = rows()


def folder_of(path, values=X):
    """Four files of three row groups each, which are parts."""
    path.mkdir()
    columns = {name: values[:, j] for j, name in enumerate("abcd")} | {"g": GROUPS, "w": WEIGHTS}
    table = pa.table(columns)
    for number in range(4):
        part = table.slice(150 * number, 150)
        pq.write_table(part, path / f"part-{number}.parquet", row_group_size=50)
    return path


def on(address, path):
    opened = FileRows.open(path, ["g"], weight="w")
    return FileRows(opened.table, opened.chosen, OnDask(address))


@pytest.mark.long
def test_no_cluster_at_hand_means_processes_of_this_machine(tmp_path):
    # The first test, as those below connect this process to a cluster.
    path = folder_of(tmp_path / "rows")
    assert_moments(accumulate(on(None, path)), moments_by_hand(X, GROUPS, WEIGHTS))


@pytest.mark.long
def test_a_folder_of_parquet_gives_what_one_process_gives(client, tmp_path):
    path = folder_of(tmp_path / "rows")
    here = GroupMoments.from_rows(path, "g", "w")
    assert_moments(here, moments_by_hand(X, GROUPS, WEIGHTS))
    given = accumulate(on(client.scheduler.address, path))
    assert_moments(given, here)
    # The cluster that this process is connected to.
    assert accumulate(on(None, path)).to_bytes() == given.to_bytes()


def test_waves_of_parts_come_in_order(client, tmp_path, monkeypatch):
    monkeypatch.setattr(on_dask, "_WAVE", 5)
    parts = on(None, folder_of(tmp_path / "rows")).parts
    results = list(OnDask().results(MomentsFold(), parts))
    counts = [count for count, _ in results]
    assert counts == [5, 5, 2]
    fold = MomentsFold()
    last = fold.over(parts[10]) + fold.over(parts[11])
    assert_moments(GroupMoments.of(results[2][1]), GroupMoments.of(last))
    whole = results[0][1] + results[1][1] + results[2][1]
    assert_moments(GroupMoments.of(whole), moments_by_hand(X, GROUPS, WEIGHTS))


def test_an_error_names_file_and_column(client, tmp_path):
    values = X.copy()
    values[321, 2] = np.nan
    path = folder_of(tmp_path / "rows", values)
    with pytest.raises(InvalidInput, match=r"part-2\.parquet.*X contains NaN.*'c'"):
        accumulate(on(client.scheduler.address, path))


def test_a_scheduler_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("fairspan.rows.dask.engine._SECONDS_TO_CONNECT", 1)
    path = folder_of(tmp_path / "rows")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for wrong in (address, "nonsense", "foo://host:1"):
            with pytest.raises(InvalidParameter, match="No Dask scheduler answers at") as caught:
                accumulate(on(wrong, path))
            assert wrong in str(caught.value)
            assert caught.value.__context__ is None
    with pytest.raises(InvalidParameter, match="No Dask scheduler answers at"):
        accumulate(on(address, path))


def test_without_dask(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependency, match=r"fairspan\[dask\]"):
        accumulate(on("tcp://host:8786", folder_of(tmp_path / "rows")))
