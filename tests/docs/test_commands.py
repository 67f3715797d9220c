"""Every command line in README and docs runs as it stands; the README says what is true."""

import contextlib
import importlib.util
import io
import re
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, GroupMoments, audit, cli
from fairspan.datasets import load_adult_by_race
from fairspan.formatting.numbers import format_share, to_ascii
from real_data import data_path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"^```(?:text)?\n(fairspan .*?)^```\n(?:\n+```text\n(Verdict.*?)^```)?", re.S | re.M
)
TEXTS = ("sex", "race", "old", "progressed", "recovered")
# The table of the census, as it is published; these columns come before the encoded ones.
CENSUS = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
CENSUS_TEXT_COLUMNS = ("workclass", "education", "marital_status", "occupation", "relationship")
CENSUS_TEXT_COLUMNS += ("race", "sex", "native_country", "fnlwgt")


def blocks_of(page):
    """Return the commands of each block, and the output of the last one in the page."""
    text = page.read_text(encoding="utf-8")
    return [
        ([line for line in block.replace("\\\n", " ").splitlines() if line], output)
        for block, output in _BLOCK.findall(text)
    ]


def people(words, seed=0):
    """A table with the columns of text that a command names."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(240, 11)), columns=[f"x{i}" for i in range(11)])
    frame.insert(0, "id", np.arange(240))
    frame["x0"] *= np.where(np.arange(240) % 2, 1, 3)
    for name in TEXTS:
        if name in words:
            frame[name] = np.where(rng.random(240) < 0.4, "yes", "no")
    if "person" in words:
        frame["person"] = np.arange(240) // 4
    if {"--one-hot", "--unseen"}.intersection(words):
        frame["job"] = rng.choice(["clerk", "smith"], 240)
        frame.loc[3, "x1"] = np.nan
    return frame


def census(name):
    frame = pd.read_parquet(data_path(f"{name}.parquet"))
    raw = frame[[*CENSUS]].copy()
    for column in CENSUS_TEXT_COLUMNS:
        raw[column] = frame[f"meta__{column}"]
    return raw.assign(income=frame["label__income_gt_50k"])


def write_input(word, words):
    """Write the file that a command reads, unless an earlier command has written it."""
    path = Path(word)
    if path.stem.startswith("adult_"):
        if not path.exists():
            census(path.stem).to_csv(path, index=False)
    elif word.startswith("hospital_rows:"):
        with closing(sqlite3.connect("hospital.db")) as database:
            people(["sex"]).to_sql("patients", database, index=False, if_exists="replace")
        page = (ROOT / "docs" / "extending" / "source.md").read_text(encoding="utf-8")
        module = re.search(r":caption: (hospital_rows\.py)\n(.*?)^```", page, re.S | re.M)
        Path(module[1]).write_text(module[2])
    elif path.suffix == ".csv":
        # Models are watched on rows that they were not fitted to.
        people(words, seed=1 if path.stem == "may" else 0).to_csv(path, index=False)
    elif path.suffix == ".parquet":
        people(words).to_parquet(path)
    elif word == "people/":
        path.mkdir(exist_ok=True)
        for part in range(3):
            people(words).iloc[part::3].to_parquet(path / f"{part}.parquet")
    elif path.suffix == ".moments" and not path.exists():
        GroupMoments.from_rows(people(["sex"]), "sex").save(path)
    elif path.suffix == ".model" and not path.exists():
        moments = GroupMoments.from_rows(people(["sex"]), "sex")
        FairPCA(2).fit_moments(moments).subspace_.save(path)


PAGES_WITH_COMMANDS = [
    # Two pages of 32,561 rows take their time.
    pytest.param(page, id=page.stem, marks=[pytest.mark.long] if page.stem == "decide" else [])
    for page in PAGES
    if blocks_of(page)
]


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS)
def test_every_command_runs(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hospital_rows", raising=False)
    for lines, documented_output in blocks_of(page):
        for line in lines:
            words = shlex.split(line, comments=True)[1:]
            output_path = words[words.index("-o") + 1] if "-o" in words else None
            for word in words[1:]:
                if word != output_path:
                    write_input(word, words)
            capfd.readouterr()
            assert cli.run(words) == 0, (line, capfd.readouterr().err)
        if documented_output:
            assert documented_output in capfd.readouterr().out, lines


def test_commands_are_found():
    commands = {line.split()[1] for page in PAGES for lines, _ in blocks_of(page) for line in lines}
    assert commands == set(cli.fairspan.commands)
    assert (
        sum(bool(documented_output) for page in PAGES for _, documented_output in blocks_of(page))
        >= 3
    )


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_readme_shows():
    example, documented_output = re.search(
        r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.S
    ).groups()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, "README.md", "exec"), {})
    assert output.getvalue() == documented_output


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 80


def first_picture():
    path = ROOT / "docs" / "first_picture.py"
    spec = importlib.util.spec_from_file_location("first_picture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def audits_by_dimension():
    module = first_picture()
    return {d: module.audited(d) for d in module.DIMENSIONS}


def with_interval(group, estimate):
    """Return "2.6 % (1.8 to 3.6)"."""
    share = estimate.relative_to(group.observed_total_variance)
    # No figure is rounded to the threshold.
    value, low, high = (
        to_ascii(format_share(figure, 0.01)) for figure in (share.value, share.low, share.high)
    )
    return f"{value} ({low} to {high})".replace(" % to", " to").replace(" %)", ")")


def describe_picture(audits_by_dimension):
    """The alternative text: losses of both groups by number of components."""
    losses = {
        (model.name, group.group, d): 100
        * group.expected_loss.value
        / group.observed_total_variance
        for d, result in audits_by_dimension.items()
        for model in result.models
        for group in model.groups
    }

    def span(model, group, dimensions=audits_by_dimension):
        values = [losses[model, group, d] for d in dimensions]
        return f"{min(values):.1f} % to {max(values):.1f} %"

    with_1, with_2 = (f"{losses['PCA', 'Black', d]:.1f} %" for d in (1, 2))
    return (
        f"Black people: under PCA {with_1} with 1 component, {with_2} with 2, and "
        f"{span('PCA', 'Black', (3, 4, 5))} with 3 to 5; under fair PCA "
        f"{span('fair PCA', 'Black')}. Other people: under PCA at most "
        f"{max(losses['PCA', 'other', d] for d in audits_by_dimension):.1f} %, under fair PCA "
        f"{span('fair PCA', 'other')}."
    )


def test_the_description_of_the_picture_agrees_with_the_audits(audits_by_dimension):
    fair, plain = audits_by_dimension[2].models
    black_in_pca = plain.groups[0]
    black, other = fair.groups
    loss_in_pca = with_interval(black_in_pca, black_in_pca.expected_loss)
    loss = with_interval(black, black.expected_loss)
    loss_of_others = with_interval(other, other.expected_loss)
    other_in_pca = plain.groups[1]
    most_in_pca = other_in_pca.expected_loss.high / other_in_pca.observed_total_variance
    claims = (
        f"PCA with 2 components loses {loss_in_pca} more of the variance",
        f"nder fair PCA it is {loss}",
        f"ll others then lose {loss_of_others}, under PCA at most "
        f"{to_ascii(format_share(most_in_pca))}",
    )
    for page in ("README.md", "docs/index.md", "paper/paper.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert [claim for claim in claims if claim not in text] == []
    for page in ("README.md", "docs/index.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert describe_picture(audits_by_dimension) in text
        estimate = format_share(black.expected_loss.value / black.observed_total_variance)
        limit = loss.rpartition(" to ")[2].rstrip(")")
        assert f"the estimate, {to_ascii(estimate)} under fair PCA: up to {limit} %" in " ".join(
            text.replace("\n> ", " ").split()
        )
    total = fair.observed_total_error / plain.observed_total_error - 1
    paper = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    assert f"error over all people rises by {100 * total:.2f} %" in " ".join(paper.split())
    assert fair.status == "optimal"
    kinds = [result.verdict.kind for result in audits_by_dimension.values()]
    assert kinds == ["no material harm", *["harm, repair helps"] * 4]
    for result in audits_by_dimension.values():
        assert "harmed" not in {group.state for group in result.models[0].groups}


@pytest.mark.slow
@pytest.mark.parametrize("d", range(1, 6))
def test_the_verdicts_of_the_picture_are_those_on_other_people(audits_by_dimension, d):
    people = load_adult_by_race()
    test_people = census("adult_test")
    features = pd.DataFrame(
        {
            "age": test_people["age"],
            "education-num": test_people["education_num"],
            "hours-per-week": test_people["hours_per_week"],
            "sex=Female": test_people["sex"] == "Female",
            "marital-status=Married-civ-spouse": test_people["marital_status"]
            == "Married-civ-spouse",
            "marital-status=Never-married": test_people["marital_status"] == "Never-married",
            "relationship=Own-child": test_people["relationship"] == "Own-child",
        }
    )
    assert tuple(features) == people.feature_names
    assert len(features) == 16_281
    models = {
        criterion: FairPCA(d, criterion=criterion, scale=True).fit(
            people.X, sensitive_features=people.sensitive_features
        )
        for criterion in ("minimax_loss", "total_error")
    }
    race = np.where(test_people["race"] == "Black", "Black", "other")
    test_audit = audit(models, features.to_numpy(dtype=float), race)
    assert test_audit.verdict.kind == audits_by_dimension[d].verdict.kind


# In points: far less than can be seen, and more than the last digit of a coordinate, which differs
# between processors.
SAME_PLACE = 1e-3
_COORDINATE = re.compile(r"-?\d+\.\d+")


def test_the_picture_is_the_one_that_its_program_draws(tmp_path):
    import matplotlib

    published = (ROOT / "docs" / "first-picture.svg").read_text(encoding="utf-8")
    if f"Matplotlib v{matplotlib.__version__}" not in published:
        pytest.skip("another version of matplotlib draws other outlines")
    first_picture().draw(tmp_path / "again.svg")
    redrawn = (tmp_path / "again.svg").read_text(encoding="utf-8")
    assert _COORDINATE.sub("", redrawn) == _COORDINATE.sub("", published)
    actual, expected = (
        [float(number) for number in _COORDINATE.findall(svg)] for svg in (redrawn, published)
    )
    assert actual == pytest.approx(expected, rel=0, abs=SAME_PLACE)
