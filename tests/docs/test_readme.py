"""The README's example runs as it stands and prints what it says."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parents[2]
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


def first_picture():
    path = ROOT / "docs" / "first_picture.py"
    spec = importlib.util.spec_from_file_location("first_picture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def audited():
    return first_picture().audited()


def shares(group, *values):
    return [f"{value / group.total_variance:.1%}".replace("%", " %") for value in values]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_is_said_of_the_picture_is_what_the_audit_shows(audited, page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    fair, plain = audited.models
    (benign, malignant), (benign_fair, malignant_fair) = plain.groups, fair.groups
    assert audited.verdict.kind == "harm, and repair helps"
    assert (benign.state, malignant.state) == ("harmed", "cannot tell")
    assert sum(group.n for group in plain.groups) == 569
    low, high = shares(benign, benign.expected.loss.low, benign.expected.loss.high)
    assert f"those with a benign tumour lose {low} to {high} more of their variance" in text
    change = benign_fair.expected.change
    least, most = shares(benign, -change.high, -change.low)
    assert f"Fair PCA lowers this loss by {least} to {most} of the variance" in text
    change = malignant_fair.expected.change
    assert change.low > 0
    raised = shares(malignant, change.value)[0]
    assert f"raises that of patients with a malignant tumour by {raised}" in text


def test_what_is_said_of_the_rows_is_what_they_show(audited):
    text = " ".join(README.split())
    fair, plain = audited.models
    benign, malignant = plain.groups
    times = malignant.total_variance / benign.total_variance
    assert f"Malignant tumours vary {times:.1f} times as much as benign ones" in text
    assert fair.status == "optimal"
    assert f"the larger loss below {fair.largest_loss:.3f}" in text


def test_the_alternative_text_of_the_picture_tells_its_figures(audited):
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    fair, plain = (model.groups[0] for model in audited.models)
    before, after = (shares(group, group.expected.loss.value)[0] for group in (plain, fair))
    assert f"lose {before} of their variance, under fair PCA {after}" in text
    assert all(model.groups[1].expected.loss.low < 0 for model in audited.models)


def test_the_picture_is_the_one_that_its_program_draws(tmp_path):
    kept = (ROOT / "docs" / "first-picture.svg").read_bytes()
    if f"Matplotlib v{matplotlib.__version__}".encode() not in kept:
        pytest.skip("another version of matplotlib draws other outlines")
    first_picture().draw(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == kept
