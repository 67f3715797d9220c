"""Parts read in several processes."""

import os
import signal
import threading
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from fairspan import FileRows
from fairspan.errors import FairspanError, InvalidInput
from fairspan.moments.group_moments import MomentsTally, accumulate
from fairspan.rows.files.file_rows import sigint_blocked
from fairspan.rows.protocol import GroupLimit


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((1_000, 4)), columns=list("wxyz"))
    frame["g"] = rng.choice(["a", "b"], 1_000)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    return tmp_path / "rows.parquet"


@pytest.mark.long
def test_any_number_of_processes_gives_the_same_bits(path):
    rows = FileRows.open(path, ["g"])
    alone = accumulate(rows).to_bytes()
    for jobs in (1, 3):
        assert accumulate(replace(rows, jobs=jobs)).to_bytes() == alone


@pytest.mark.long
def test_an_error_comes_back_with_the_place_it_is_about(path):
    frame = pd.read_parquet(path)
    frame.loc[17 * 50 + 3, "y"] = np.nan
    frame.to_parquet(path, row_group_size=50)
    rows = replace(FileRows.open(path, ["g"]), jobs=2)
    with pytest.raises(
        InvalidInput, match=r"row group 17: X contains NaN, first in row 4 \(index 3\), .*'y'"
    ):
        accumulate(rows)


@dataclass(frozen=True)
class Killing(MomentsTally):
    """Kills the process that it runs in."""

    def over(self, rows):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_a_process_that_is_killed_is_an_error_that_says_so(path):
    rows = replace(FileRows.open(path, ["g"]), jobs=2)
    with pytest.raises(FairspanError, match="processes that read files was killed"):
        rows.tallied(Killing())


def test_an_interruption_waits_until_workers_are_started():
    reached = []
    # A test run that a shell has put into the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _interrupted_while_blocked(reached)
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == ["the end"]


def _interrupted_while_blocked(reached):
    with sigint_blocked():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        reached.append("the end")


@pytest.mark.long
def test_results_that_nobody_takes_end_the_processes_without_a_word(path):
    """Two parts have more groups together than each of them, so that merging fails."""
    frame = pd.read_parquet(path)
    frame.loc[frame.index[:50], "g"] = "c"
    frame.to_parquet(path, row_group_size=50)
    rows = replace(FileRows.open(path, ["g"]), jobs=2)
    with pytest.raises(InvalidInput, match="3 groups among 100 rows so far"):
        accumulate(rows, GroupLimit(max_groups=2))
