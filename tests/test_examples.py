"""Every example runs as it stands."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem.startswith("plot_"):
        monkeypatch.setattr(pytest.importorskip("matplotlib.pyplot"), "show", lambda: None)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    if path.stem == "federated":
        printed = capsys.readouterr().out
        assert "3 sites, 442 rows, status optimal" in printed
        assert "the same to 1e-9: True" in printed
