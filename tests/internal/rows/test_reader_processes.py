"""Processes that read parts of a file: one that is killed, and an interruption while they start."""

import os
import signal
import threading
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from fairspan import FileRows
from fairspan.errors import FairspanError
from fairspan.moments.group_moments import MomentsAggregator
from fairspan.rows.files.parallel import block_sigint


@pytest.fixture
def file_of_row_groups(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((1_000, 4)), columns=list("wxyz"))
    frame["g"] = rng.choice(["a", "b"], 1_000)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    return tmp_path / "rows.parquet"


@dataclass(frozen=True)
class Killing(MomentsAggregator):
    """Kills the process that it runs in."""

    def aggregate(self, rows):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_a_killed_process_raises_an_error_that_names_it(file_of_row_groups):
    rows = replace(FileRows.open(file_of_row_groups, ["g"]), n_jobs=2)
    with pytest.raises(FairspanError, match="reader processes was killed"):
        rows.aggregate(Killing())


def test_an_interruption_waits_until_workers_are_started():
    reached = []
    # A test run that a shell has put into the background ignores the signal.
    original_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _interrupted_while_blocked(reached)
    finally:
        signal.signal(signal.SIGINT, original_handler)
    assert reached == ["the end"]


def _interrupted_while_blocked(reached):
    with block_sigint():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        reached.append("the end")
