"""Number of times a command reads its file: once to the end, or three times if it is large."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from fairspan import FileRows
from fairspan.rows.files import batch_cache

N = 60_000
COLUMNS = ["x", "y", "z"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("passes") / "rows.csv"
    columns = dict(zip(COLUMNS, np.random.default_rng(0).normal(size=(3, N)), strict=True))
    csv.write_csv(pa.table({**columns, "g": np.where(np.arange(N) % 3, "f", "m")}), path)
    return path


@pytest.fixture
def rows_per_pass(monkeypatch):
    """Rows that each reader of a CSV file has yielded, without the one for the schema."""
    counts = []

    def open_csv(stream, *args, **kwargs):
        reader = csv_open(stream, *args, **kwargs)
        if isinstance(stream, pa.BufferReader):  # the beginning of the file, for the schema
            return reader
        return CountingReader(reader)

    class CountingReader:
        def __init__(self, reader):
            self.reader = reader
            self.position = len(counts)
            counts.append(0)

        def __enter__(self):
            return self

        def __exit__(self, *reason):
            self.reader.close()

        def __iter__(self):
            for batch in self.reader:
                counts[self.position] += batch.num_rows
                yield batch

    csv_open = csv.open_csv
    monkeypatch.setattr(csv, "open_csv", open_csv)
    return counts


COMMANDS = {
    "audit": [],
    "fit": ["-o", "out.model"],
    "report": ["-o", "out.html"],
    "moments": ["-o", "out.moments"],
}


def command_words(command, table, folder):
    options = [folder / word if word.startswith("out") else word for word in COMMANDS[command]]
    dimensions = [] if command == "moments" else ["-d", 1]
    return [command, table, "--group", "g", *dimensions, *options]


def mark_commands_slow(*slow):
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in slow)) for name in COMMANDS]


@pytest.mark.parametrize("command", mark_commands_slow("audit", "report"))
def test_a_small_file_is_read_once(command, run, table, rows_per_pass, tmp_path):
    run(*command_words(command, table, tmp_path), status=0)
    assert rows_per_pass == [N]


@pytest.mark.parametrize("command", mark_commands_slow("fit", "report"))
def test_a_large_file_is_read_at_most_three_times(
    command, run, table, rows_per_pass, tmp_path, monkeypatch
):
    monkeypatch.setattr(batch_cache, "MAX_CACHED_BYTES", 1000)
    run(*command_words(command, table, tmp_path), status=0)
    # For moments, for moments by fold, and for standard errors; the first rows are inspected, too.
    n_full = rows_per_pass.count(N)
    assert n_full == (1 if command == "moments" else 3)
    assert len(rows_per_pass) - n_full <= 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1000, 2**26])
def test_results_are_the_same_whether_batches_are_kept(run, table, limit, monkeypatch):
    monkeypatch.setattr(batch_cache, "MAX_CACHED_BYTES", limit)
    facts = run(*command_words("audit", table, None), "--json").facts
    assert facts == run(*command_words("audit", table, None), "--json").facts
    monkeypatch.undo()
    assert facts == run(*command_words("audit", table, None), "--json").facts


def test_a_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,g\n1,a\n2,b\n")
    rows = FileRows.open(path, ["g"])
    assert [block.values.tolist() for block in rows.blocks()] == [[[1.0], [2.0]]]
    path.write_text("x,g\n10,a\n20,b\n")
    assert [block.values.tolist() for block in rows.blocks()] == [[[10.0], [20.0]]]


def test_fewer_columns_are_taken_from_memory_and_others_are_read(table, rows_per_pass):
    rows = FileRows.open(table, ["g"], exclude=["z"])
    assert sum(len(block.values) for block in rows.blocks()) == N
    first = rows.select_features(("y",))
    second = rows.select_features(("z", "y"))
    values = np.vstack([block.values for block in first.blocks()])
    assert rows_per_pass == [N]
    assert values.shape == (N, 1)
    all_values = np.vstack([block.values for block in second.blocks()])
    assert rows_per_pass == [N, N]
    np.testing.assert_array_equal(all_values[:, 1:], values)


def test_the_copy_for_another_process_holds_no_batches(table):
    rows = FileRows.open(table, ["g"])
    assert sum(len(block.values) for block in rows.blocks()) == N
    assert len(pickle.dumps(rows)) < 10_000
