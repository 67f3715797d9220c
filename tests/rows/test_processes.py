"""Parts read in several processes."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from fairspan import FileRows
from fairspan.errors import FairspanError, InvalidInput
from fairspan.moments.accumulate import MomentsFold
from fairspan.moments.of_rows import accumulate
from fairspan.rows.engines import Processes, interruption_held


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
        assert accumulate(replace(rows, engine=Processes(jobs))).to_bytes() == alone


@pytest.mark.long
def test_an_error_comes_back_with_the_place_it_is_about(path):
    frame = pd.read_parquet(path)
    frame.loc[17 * 50 + 3, "y"] = np.nan
    frame.to_parquet(path, row_group_size=50)
    rows = replace(FileRows.open(path, ["g"]), engine=Processes(2))
    with pytest.raises(
        InvalidInput, match=r"row group 17: X contains NaN, first in row 4 \(index 3\), .*'y'"
    ):
        accumulate(rows)


@dataclass(frozen=True)
class Killing(MomentsFold):
    """Kills the process that it runs in."""

    def over(self, rows):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_a_process_that_is_killed_is_an_error_that_says_so(path):
    rows = replace(FileRows.open(path, ["g"]), engine=Processes(2))
    with pytest.raises(FairspanError, match="processes that read files was killed"):
        rows.folded(Killing())


def test_an_interruption_is_held_back_whichever_thread_takes_it():
    """Another thread, which blocks no signal, takes it; the main one is told at the end."""
    is_over, began, reached = threading.Event(), threading.Event(), []

    def other():
        began.set()
        is_over.wait(30)

    waiting = threading.Thread(target=other, daemon=True)
    waiting.start()
    began.wait(30)
    # A test run that a shell has put into the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _interrupted_while_held(reached)
    finally:
        signal.signal(signal.SIGINT, before)
        is_over.set()
        waiting.join()
    assert reached == ["the end"]


def _interrupted_while_held(reached):
    with interruption_held():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        reached.append("the end")


def test_threads_beside_the_main_one_may_hold_it_back_too():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_held).result() is True


def _held():
    with interruption_held():
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
