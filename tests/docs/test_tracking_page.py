"""The example for MLflow runs, with a stand-in that stores metrics as MLflow's file store does."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.decomposition import NMF

from fairspan import audit

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "tracking.md"


class _Run:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def file_store(folder):
    """A module with the functions of MLflow that the page calls, which write to a folder."""
    module = ModuleType("mlflow")

    def log_metrics(metrics):
        for name, value in metrics.items():
            path = folder / "metrics" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"0 {value!r} 0\n")

    def log_params(params):
        (folder / "params").write_text(repr(params))

    def log_text(text, name):
        (folder / name).write_text(text, encoding="utf-8")

    def log_dict(values, name):
        import json

        (folder / name).write_text(json.dumps(values, default=str))

    module.set_tracking_uri = lambda uri: None
    module.start_run = lambda run_name: _Run()
    for function in (log_metrics, log_params, log_text, log_dict):
        setattr(module, function.__name__, function)
    return module


def test_the_example_for_mlflow_logs_every_metric(tmp_path, monkeypatch, capsys):
    page = PAGE.read_text(encoding="utf-8")
    (example, *_) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    (logging,) = re.findall(r"^```py\n(.*?)^```", page, re.S | re.M)
    monkeypatch.setitem(sys.modules, "mlflow", file_store(tmp_path))
    names = {}
    exec(compile(example, "tracking.md", "exec"), names)
    exec(compile(logging, "tracking.md", "exec"), names)
    logged_metrics = {
        path.relative_to(tmp_path / "metrics").as_posix(): float(path.read_text().split()[1])
        for path in (tmp_path / "metrics").rglob("*")
        if path.is_file()
    }
    assert logged_metrics == pytest.approx(names["result"].metrics())
    assert (tmp_path / "audit.md").read_text(encoding="utf-8").startswith("**Verdict")
    assert "largest_loss" in capsys.readouterr().out


def test_the_table_of_the_page_names_every_metric(monkeypatch):
    page = PAGE.read_text(encoding="utf-8")
    (example, *_) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    names = {}
    exec(compile(example, "tracking.md", "exec"), names)
    documented_names = set(
        re.findall(r"`([\w/]+)`", "".join(re.findall(r"^\| `.*?\|", page, re.M)))
    )
    X = np.abs(names["X"])
    decoder = audit(NMF(2, init="nndsvda", max_iter=50, tol=0.1).fit(X), X, names["sex"])
    figures = {name.split("/")[0] for name in names["result"].metrics() | decoder.metrics()}
    figures = {figure.removesuffix("_low").removesuffix("_high") for figure in figures}
    assert figures <= {name.split("/")[0] for name in documented_names}
