"""Files read by Spark's workers, and what happens without Java, a master or our package there."""

import os
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from by_hand import assert_moments, moments_by_hand, random_rows
from fairspan import GroupMoments
from fairspan.errors import InvalidInput, InvalidParameter, MissingDependency
from fairspan.moments.accumulate import MomentsFold
from fairspan.moments.of_rows import accumulate
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.spark.engine import OnSpark
from rows.spark_session import session_or_skip

spark = pytest.fixture(scope="module", name="spark")(session_or_skip)

ROWS = random_rows(11, n=560, p=3, groups=("a", "b", "c"))


@pytest.fixture
def folder(tmp_path):
    """Fourteen parts in seven files."""
    return written(tmp_path, rows_of_a_part=40)


def written(folder, rows_of_a_part):
    table = pa.table({f"x{j}": ROWS.X[:, j] for j in range(3)} | {"g": ROWS.labels.tolist()})
    for start in range(0, 560, 80):
        part = table.slice(start, 80)
        parquet.write_table(part, folder / f"{start:03}.parquet", row_group_size=rows_of_a_part)
    return folder


def test_a_folder_read_on_spark_equals_the_same_read_here(spark, folder):
    rows = FileRows.open(folder, ["g"])
    there = replace(rows, engine=OnSpark())
    moments = accumulate(there)
    assert_moments(moments, accumulate(rows), rtol=1e-12)
    assert_moments(moments, moments_by_hand(ROWS.X, ROWS.labels))
    assert moments.to_bytes() == accumulate(there).to_bytes()


def test_results_come_for_waves_of_consecutive_parts(spark, tmp_path):
    parts = FileRows.open(written(tmp_path, rows_of_a_part=8), ["g"]).parts
    results = list(OnSpark().results(MomentsFold(), parts))
    counts = [count for count, _ in results]
    assert sum(counts) == len(parts) == 70
    assert len(counts) == 2
    starts = np.cumsum([0, *counts])
    for start, (count, moments) in zip(starts, results, strict=False):
        rows = slice(8 * start, 8 * (start + count))
        expected = moments_by_hand(ROWS.X[rows], ROWS.labels[rows])
        assert_moments(GroupMoments.of(moments), expected)
    # The session was there before, so it is left running.
    assert spark.range(3).count() == 3


def test_an_error_names_the_file(spark, folder):
    broken = pa.table({f"x{j}": [1.0, np.nan] for j in range(3)} | {"g": ["a", "b"]})
    parquet.write_table(broken, folder / "300.parquet")
    rows = replace(FileRows.open(folder, ["g"]), engine=OnSpark())
    with pytest.raises(
        InvalidInput, match=r"300\.parquet.*NaN, first in row 2 \(index 1\), column 'x0'"
    ):
        accumulate(rows)


def test_one_session_has_one_master(spark, folder):
    with pytest.raises(InvalidParameter, match="'local\\[2,3\\]' is active"):
        next(OnSpark("spark://127.0.0.1:7077").results(MomentsFold(), []), None)


def test_a_worker_without_a_package_says_which(spark):
    from fairspan.rows.spark.jobs import OUTCOME, mapped, merged_there

    def lacking(batches):
        import there_is_no_such_package  # noqa: F401

        yield from batches

    with pytest.raises(MissingDependency, match="workers has no package there_is_no_such_package"):
        merged_there(mapped(spark.range(1), lacking, OUTCOME), MomentsFold())


ALONE = """
import sys
from fairspan.moments.of_rows import accumulate
from fairspan.rows.spark.engine import OnSpark
from fairspan.rows.files.file_rows import FileRows
from dataclasses import replace
from fairspan.errors import FairspanError
rows = replace(FileRows.open(sys.argv[1], ["g"]), engine=OnSpark(sys.argv[2] or None))
try:
    print(accumulate(rows).counts.sum())
except FairspanError as error:
    print(type(error).__name__, error)
"""


def alone(folder, master="", **environment):
    """What another process says that reads the folder on Spark."""
    finished = subprocess.run(
        [sys.executable, "-c", ALONE, str(folder), master],
        capture_output=True,
        text=True,
        timeout=300,
        env={name: value for name, value in {**os.environ, **environment}.items() if value},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_without_a_session_one_is_started_and_stopped(spark, folder):
    assert alone(folder, "local[2,3]", PYSPARK_PYTHON="") == "560\n"


def test_no_pyspark_is_said_plainly(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingDependency, match=r'pip install "fairspan\[spark\]"'):
        accumulate(replace(FileRows.open(folder, ["g"]), engine=OnSpark()))


def test_no_java_is_said_plainly(spark, folder):
    message = alone(folder, PATH=str(folder), JAVA_HOME="")
    assert message.startswith("MissingDependency Spark needs Java 17 or newer, and no java was")


def test_a_master_that_is_not_there_is_named_at_once(spark, folder):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"spark://127.0.0.1:{unused.getsockname()[1]}"
    message = alone(folder, address)
    assert message.startswith(f"InvalidParameter No Spark master answers at '{address}' (")
    assert "Traceback" not in message
    nonsense = alone(folder, "tcp://127.0.0.1:8786")
    assert "that is no address of a master" in nonsense
