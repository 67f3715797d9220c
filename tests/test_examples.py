"""Every example runs as it stands."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem.startswith("plot_"):
        pytest.importorskip("matplotlib")
    few_rounds = ["2000"] if path.stem == "plot_ucb1_regret" else []
    monkeypatch.setattr(sys, "argv", [str(path), *few_rounds])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    if path.stem == "federated":
        printed = capsys.readouterr().out
        assert "3 sites, 442 rows, status optimal" in printed
        assert "the same to 1e-9: True" in printed
