"""The README's example runs as it stands and prints what it says."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from sklearn.decomposition import PCA

import real_data

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def example_and_output():
    found = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.S)
    assert found is not None
    return found.groups()


def test_the_example_prints_what_the_readme_shows():
    example, shown = example_and_output()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert printed.getvalue() == shown


def test_the_example_fits_the_first_screen():
    example, _ = example_and_output()
    assert len([line for line in example.splitlines() if line]) <= 8


def test_every_option_in_the_command_lines_exists():
    from fairspan.cli import fairspan

    lines = re.findall(r"^fairspan (\w+) ?(.*?)(?: +#.*)?$", README, re.M)
    assert {command for command, _ in lines} == set(fairspan.commands)
    for command, arguments in lines:
        known = {name for param in fairspan.commands[command].params for name in param.opts}
        assert set(re.findall(r"(?<=\s)-{1,2}\w+", f" {arguments}")) <= known


def first_picture():
    path = ROOT / "docs" / "first_picture.py"
    spec = importlib.util.spec_from_file_location("first_picture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_what_the_readme_says_of_it(monkeypatch):
    monkeypatch.setenv("FAIRSPAN_DATA", str(real_data.path_of("default_credit.parquet").parent))
    display = first_picture().display()
    drawn = dict(zip(display.groups, display.plain, strict=True))
    rows = real_data.load("default_credit:group__education_sex6")
    sizes = {group: int((rows.groups == group).sum()) for group in drawn}
    smallest, largest = (choose(sizes, key=sizes.get) for choose in (min, max))
    assert f"smallest group {drawn[smallest] / drawn[largest]:.0f} times" in README
    assert f"the largest loss below {display.bound:.3f}" in README
    assert display.fair.max() == pytest.approx(display.bound, abs=1e-7)
    X = rows.z_scored(0)
    plain = PCA(display.n_components).fit(X)
    together = ((X - plain.inverse_transform(plain.transform(X))) ** 2).sum(axis=1)
    costs = display.fair - display.plain
    shares = np.array([sizes[group] / len(X) for group in display.groups])
    assert f"{costs @ shares / together.mean():.1%} more error" in README.replace(" %", "%")


def test_the_picture_is_the_one_that_its_program_draws(tmp_path, monkeypatch):
    kept = (ROOT / "docs" / "first-picture.svg").read_bytes()
    if f"Matplotlib v{matplotlib.__version__}".encode() not in kept:
        pytest.skip("another version of matplotlib draws other outlines")
    monkeypatch.setenv("FAIRSPAN_DATA", str(real_data.path_of("default_credit.parquet").parent))
    first_picture().draw(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == kept
