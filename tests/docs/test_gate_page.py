"""The workflow and the test file of the page on pipelines run as they stand."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from known_verdicts import repairable_minority

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "gate.md"
TEXT = PAGE.read_text(encoding="utf-8")


pytestmark = pytest.mark.slow


@pytest.fixture(params=["fair", "unfair"])
def folder_and_fairness(request, tmp_path, monkeypatch):
    """Folder with held-out rows and a model, and whether the model harms no group."""
    monkeypatch.chdir(tmp_path)
    X, groups = repairable_minority()
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    training = np.arange(len(X)) % 2 == 0
    criterion = fs.TotalError()
    if request.param == "fair":
        criterion = fs.MinimaxLoss(relative=True)
    model = fs.FairPCA(2, criterion=criterion)
    model.fit(frame[training], sensitive_features=groups[training])
    model.subspace_.save("fair.model")
    frame[~training].assign(sex=groups[~training]).to_csv("holdout.csv", index=False)
    return tmp_path, request.param == "fair"


def test_the_step_of_the_workflow_fails_if_the_model_harms_a_group(folder_and_fairness):
    folder, is_fair = folder_and_fairness
    (line,) = re.findall(r"^ +- run: (fairspan .*)$", TEXT, re.M)
    program = shutil.which("fairspan", path=str(Path(sys.executable).parent))
    command = line.replace("fairspan", shlex.quote(program), 1)
    completed = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    assert completed.returncode == (0 if is_fair else 3), completed.stderr
    assert ("check failed: harm" in completed.stderr) is not is_fair
    assert (folder / "audit.json").read_text().startswith("{")


def test_the_file_of_tests_fails_if_the_model_harms_a_group(folder_and_fairness):
    folder, is_fair = folder_and_fairness
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.S | re.M)
    (folder / "test_fairness.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fairness.py"]
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert completed.returncode == (0 if is_fair else 1), completed.stdout
    assert ("1 failed, 1 passed" in completed.stdout) is not is_fair
    assert ("CheckFailed: The audit fails its check. harm: " in completed.stdout) is not is_fair
