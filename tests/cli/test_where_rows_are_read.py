"""Audits and fits of rows that are read in processes."""

import numpy as np
import pytest

from by_hand import moments_by_hand
from cli.row_folders import COLUMNS, made_rows, write_folder


@pytest.fixture
def frame():
    return made_rows(6, 900)


@pytest.fixture
def folder(frame, tmp_path):
    write_folder(tmp_path / "rows", frame, 3, 100)
    return tmp_path / "rows"


def assert_same_figures(ours, expected):
    for model, other in zip(ours["models"], expected["models"], strict=True):
        for group, same in zip(model["groups"], other["groups"], strict=True):
            for name in ("value", "low", "high"):
                np.testing.assert_allclose(group["error"][name], same["error"][name], rtol=1e-9)
            assert (group["group"], group["n"]) == (same["group"], same["n"])
    assert ours["rows"] == expected["rows"]


@pytest.mark.long
@pytest.mark.parametrize("command", ["fit", "audit"])
def test_two_processes_give_the_same_figures(run, folder, tmp_path, command):
    out = ["-o", tmp_path / "model"] if command == "fit" else []
    arguments = (command, folder, "--group", "sex", "--weight", "w", "-d", 2, *out, "--json")
    assert_same_figures(run(*arguments, "--jobs", 2).facts, run(*arguments).facts)


def test_weights_are_those_of_the_column(run, folder, frame):
    facts = run("audit", folder, "--group", "sex", "--weight", "w", "-d", 2, "--json").facts
    expected = moments_by_hand(frame[[*COLUMNS, "age"]], frame["sex"], frame["w"])
    total = sum(weight for _, weight, *_ in expected.values())
    for group in facts["models"][0]["groups"]:
        np.testing.assert_allclose(group["proportion"], expected[group["group"]][1] / total)
