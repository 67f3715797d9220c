"""Many processes save to one name and are killed: no reader ever sees half a file, or none."""

import sys

import numpy as np
import pytest

from racing_writers import check_whole, kill_after, names_in, race, save

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")

N_PROCESSES = 4


def told(record_property, name, count):
    facts = {"name": name, "examples": count, "outcomes": {"whole": count}, "worst": {}}
    record_property("torture", facts)


def test_races(tmp_path, how_many, record_property):
    path, n_races = tmp_path / "out", how_many(40, 1000)
    race(path, N_PROCESSES, n_races // N_PROCESSES)
    check_whole(path)
    assert names_in(tmp_path) == ["out"]
    told(record_property, "saves to one name by four processes", n_races)


def test_kills(tmp_path, how_many, record_property):
    path, n_kills = tmp_path / "out", how_many(10, 200)
    random = np.random.default_rng(0)
    save(path, 0)
    for number in range(n_kills):
        kill_after(path, number, random.uniform(0, 0.05))
        check_whole(path)
    save(path, 0)
    assert names_in(tmp_path) == ["out"]
    told(record_property, "writers that were killed", n_kills)
