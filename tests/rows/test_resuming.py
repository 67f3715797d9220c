"""Passes over files that are interrupted part by part, in this process."""

import os
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cli.row_folders import made_rows, write_folder
from fairspan.auditing.quantities import Benchmark, Projection
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.errors import CorruptFile, InvalidInput
from fairspan.moments.accumulate import MomentsFold
from fairspan.moments.of_rows import accumulate
from fairspan.projector import Projector
from fairspan.rows.engines import Engine, InThisProcess
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.fingerprint import FileState
from fairspan.rows.resuming import Plan, Record, recorded
from fairspan.storage import HeldFile


class PowerCut(BaseException):
    """Ends a pass as nothing of ours does."""


@dataclass
class Watched:
    """An engine that ends after some parts, or does something after each."""

    engine: Engine
    n_parts: int = 10**9
    n_read: int = 0
    after_each: object = None

    def results(self, fold, parts):
        for count, result in self.engine.results(fold, parts):
            if self.n_read >= self.n_parts:
                raise PowerCut
            self.n_read += count
            if self.after_each is not None:
                self.after_each(self.n_read)
            yield count, result


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "rows", made_rows(4, 300), 3, 20)
    return tmp_path / "rows"


@pytest.fixture
def rows(folder):
    return FileRows.open(folder, ["sex"])


def watched(rows, **how):
    return replace(rows, engine=Watched(rows.engine, **how))


@pytest.mark.parametrize("n_parts", [0, 1, 4, 5, 6, 14])
def test_a_pass_goes_on_after_the_parts_that_were_absorbed(rows, tmp_path, n_parts):
    path = tmp_path / "record"
    with pytest.raises(PowerCut):
        accumulate(recorded(watched(rows, n_parts=n_parts), HeldFile(path)))
    n_done = Record(HeldFile(path), Plan.of(rows)).read(MomentsFold())[0]
    # All of them, but for those whose recording would have cost too much time.
    assert n_done <= n_parts
    assert (n_done > 0) == (n_parts > 0)
    rest = watched(rows)
    moments = accumulate(recorded(rest, HeldFile(path)))
    assert moments.to_bytes() == accumulate(rows).to_bytes()
    assert rest.engine.n_read == len(rows.parts) - n_done == 15 - n_done


def test_recording_takes_a_tenth_of_the_time_at_most(rows, tmp_path, monkeypatch):
    now, writes = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def slow_write(record, fold, n_done, result):
        now[0] += 5.0
        writes.append(n_done)

    def read_for(_):
        now[0] += 10.0

    monkeypatch.setattr(Record, "write", slow_write)
    accumulate(recorded(watched(rows, after_each=read_for), HeldFile(tmp_path / "record")))
    assert writes == [1, 6, 11]


def test_other_passes_are_resumed_too(rows, tmp_path):
    about_zero = Benchmark(np.zeros((1, 5)), None)
    first_axis = Projection(0, Projector(np.eye(1, 5)), np.ones(2))
    fold = RowStatistics(("f", "m"), (about_zero,), (first_axis,), None)
    resumable = recorded(rows, HeldFile(tmp_path / "record"))
    assert resumable.folded(fold).totals[0, 1].sum() == 300


def test_the_rows_are_what_they_were(rows, tmp_path):
    resumable = recorded(rows, HeldFile(tmp_path / "record"))
    assert resumable.feature_names == rows.feature_names == ("x", "y", "z", "age", "w")
    assert (resumable.n_features, resumable.n_rows) == (5, 300)
    assert resumable.selected(("z", "x")).feature_names == ("z", "x")


def test_other_features_are_another_pass(rows, tmp_path):
    accumulate(recorded(rows.selected(("x", "y")), HeldFile(tmp_path / "record")))
    others = recorded(rows.selected(("y", "x")), HeldFile(tmp_path / "record"))
    with pytest.raises(InvalidInput, match="features: was 'x', 'y', is 'y', 'x'"):
        accumulate(others)


@pytest.mark.parametrize("n_read", [1, 7, 14])
def test_a_file_that_changes_while_it_is_read(rows, folder, tmp_path, n_read):
    def grow(number):
        if number == n_read:
            path = folder / f"{(n_read - 1) // 5:02}.parquet"
            path.write_bytes(path.read_bytes() + b" ")

    path = tmp_path / "record"
    with pytest.raises(InvalidInput, match=r"0\d.parquet changed while it was being read"):
        accumulate(recorded(watched(rows, after_each=grow), HeldFile(path)))


def test_a_file_that_is_removed_while_it_is_read(rows, folder, tmp_path):
    def remove(number):
        if number == 5:
            (folder / "01.parquet").unlink()

    with pytest.raises(InvalidInput, match=r"01.parquet changed while it was being read"):
        accumulate(recorded(watched(rows, after_each=remove), HeldFile(tmp_path / "record")))


def test_a_record_that_counts_more_parts_than_there_are(rows, tmp_path):
    record = Record(HeldFile(tmp_path / "record"), Plan.of(rows))
    fold = MomentsFold()
    record.write(fold, 16, fold.over(rows))
    with pytest.raises(CorruptFile, match="16 parts of 15"):
        record.read(fold)


def test_a_record_before_any_row(rows, tmp_path):
    record = Record(HeldFile(tmp_path / "record"), Plan.of(rows))
    assert record.read(MomentsFold()) == (0, None)
    record.write(MomentsFold(), 3, None)
    assert record.read(MomentsFold()) == (3, None)


def test_in_this_process_and_resumed_alike(rows, tmp_path):
    assert isinstance(rows.engine, InThisProcess)
    resumed = accumulate(recorded(rows, HeldFile(tmp_path / "record")))
    assert resumed.to_bytes() == accumulate(rows).to_bytes()


def test_a_file_is_another_when_its_end_differs(tmp_path):
    path, content = tmp_path / "rows", bytearray(200_000)
    path.write_bytes(content)
    before = FileState.of(path)
    content[-1] = 1
    path.write_bytes(content)
    os.utime(path, ns=(before.modified, before.modified))
    assert FileState.of(path)._replace(ends=before.ends) == before
    assert FileState.of(path) != before
