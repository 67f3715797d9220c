"""The guide has a page for each criterion, and the theory page's table of bounds is true."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import real_data
from fairspan import Disparity, ErrorGap, FairPCA, GroupMoments, audit
from fairspan.datasets import (
    load_adult,
    load_adult_by_race,
    load_adult_by_sex,
    load_breast_cancer_by_diagnosis,
    load_diabetes_by_sex,
)
from problems import top_sum
from public_parts import CRITERIA
from reproduction.data import load

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "guide").glob("*.md")}
PENALTY = 0.3
TRADE_OFF = 0.8


@pytest.mark.parametrize("name", CRITERIA)
def test_every_criterion_has_a_page(name):
    page = GUIDE[name.replace("_", "-")]
    assert f'`criterion="{name}"`' in page
    assert f"`{CRITERIA[name].__name__}(" in page


def reference_bound(name, second, weights, d):
    """The second column of the table of bounds."""
    mixture = np.tensordot(weights, second, axes=1)
    if name == "nash_welfare":
        k = len(weights)
        return np.log(weights).mean() + np.log(k) - np.log(top_sum(mixture, d))
    if name == "least_variance":
        return -top_sum(mixture, d)
    if name == "minimax_loss":
        return weights @ [top_sum(matrix, d) for matrix in second] - top_sum(mixture, d)
    value = weights @ np.trace(second, axis1=1, axis2=2) - top_sum(mixture, d)
    return value / weights.sum() if name == "equal_error" else value


def weights_prove(name, weights, shares):
    """The third column."""
    beyond = weights - shares
    if name == "total_error":
        return np.allclose(beyond, 0)
    if name == "disparity":
        return np.allclose(weights, TRADE_OFF * shares + (1 - TRADE_OFF) * np.array([1, -1]))
    if name == "error_gap":
        return abs(beyond.sum()) < 1e-9 and np.abs(beyond).sum() <= 2 * PENALTY + 1e-9
    if name == "equal_error":
        return weights.sum() > 0
    return (weights >= 0).all() and (name == "nash_welfare" or abs(weights.sum() - 1) < 1e-9)


# Every bound but that of robust_error_gap follows from one weighted sum.
BOUNDED = {name: kind() for name, kind in CRITERIA.items() if name != "robust_error_gap"} | {
    "error_gap": ErrorGap(PENALTY),
    "disparity": Disparity(TRADE_OFF, protected="sex 1"),
}


@pytest.mark.parametrize("d", [1, 3, 5, 7])
@pytest.mark.parametrize("name", BOUNDED)
def test_the_bound_of_each_criterion_can_be_computed_by_hand(name, d):
    """The bound follows from the weights alone, by theory.md, without the solver."""
    patients = load_diabetes_by_sex()
    rows = (patients.X - patients.X.mean(axis=0)) / patients.X.std(axis=0)
    groups = patients.sensitive_features
    rows_by_group = [rows[groups == g] for g in np.unique(groups)]
    second = np.array([group_rows.T @ group_rows / len(group_rows) for group_rows in rows_by_group])
    shares = np.array([len(group_rows) / len(rows) for group_rows in rows_by_group])
    moments = GroupMoments.from_rows(patients.X, groups)
    solution = FairPCA(d, criterion=BOUNDED[name], scale=True).fit_moments(moments).solution_
    assert weights_prove(name, solution.weights, shares)
    bound = reference_bound(name, second, solution.weights, d)
    assert bound == pytest.approx(solution.lower_bound, abs=1e-8)
    assert solution.objective - bound < 1e-7


@pytest.mark.parametrize("k", range(2, 21))
def test_the_table_of_extra_dimensions_is_the_formula(k):
    page = (DOCS / "theory.md").read_text(encoding="utf-8")
    heads, extras = (
        re.search(rf"^\| {title} \|(.*)\|$", page, re.M)[1].split("|")
        for title in ("groups", "extra dimensions at most")
    )
    ranges = [[int(end) for end in head.split(" to ")] for head in map(str.strip, heads)]
    n_extra = next(int(extra) for ends, extra in zip(ranges, extras, strict=True) if k <= ends[-1])
    assert n_extra == np.floor(np.sqrt(2 * k + 0.25) - 1.5)


def test_the_figures_of_the_comparison_are_those_measured():
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    results = (DOCS.parent / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    measured = re.search(r"^## Measured\n(.*?)(?=^## |\Z)", page, re.S | re.M)[1]
    figures = re.findall(r"\| ([\d,.]+) \|$", measured, re.M) + re.findall(
        r"\d+\.\d+\S*\d%?", measured
    )
    rows = re.findall(r"^\|.*?\| `(.*?)`.*\|", measured, re.M)
    assert figures
    assert rows
    unknown = [
        figure
        for figure in figures
        if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", results)
    ]
    assert unknown + [row for row in rows if f"| {row} |" not in results] == []


def measured_rows(title, pattern):
    """The cells of those lines of a section of the results that begin in a certain way."""
    results = (DOCS.parent / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    body = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", results, re.S | re.M)[1]
    lines = [line for line in body.splitlines() if re.match(pattern, line)]
    return [line.strip("| ").replace("**", "").split(" | ") for line in lines]


def test_the_summary_of_the_results_is_what_they_say():
    summary = (DOCS / "results.md").read_text(encoding="utf-8")
    headline = measured_rows("Fair PCA beside plain PCA", r"\|.*\*\*")
    six = [cells[2] for cells in headline if "six groups" in cells[0]]
    two = sorted((cells[2] for cells in headline if "six groups" not in cells[0]), key=float)
    assert len(two) == 6
    vu = measured_rows("The papers' algorithms", r"\| [a-z_]+ \| \d+ \| \d\.")
    ratios = sorted(int(cells[6]) for cells in vu)
    above = [cells[8] for cells in vu]
    shares = [float(text.removesuffix(" %")) for text in above if text.endswith(" %")]
    memory = measured_rows("Peak memory", r"\| (Faces|wide)")
    for message in (
        f"{two[0]} to {two[-1]} times as long in six cases",
        f"| {six[0]} times |",
        f"{ratios[0]} to {ratios[-1]} times on {len(vu) // 2} data sets",
        f"not at all on {above.count('equal')} of {len(vu)} problems",
        f"at worst {max(shares)} %",
        *(
            f"{our_row[3]} MB beside {min(int(other[3]) for other in other_rows)} MB"
            for our_row, *other_rows in (memory[:3], memory[3:])
        ),
    ):
        assert message in summary


def test_the_tables_of_hiding_are_those_measured():
    page = (DOCS / "comparison.md").read_text(encoding="utf-8").split("\n\n")
    results = (DOCS.parent / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").split("\n\n")
    tables = [block.splitlines() for block in page if "| variance kept | MMD² |" in block]
    assert len(tables) == 2
    for head, _, *lines in tables:
        case = head.split(" | ")[0].removeprefix("| ")
        place = next(i for i, block in enumerate(results) if block.startswith(f"**{case}.**"))
        assert lines == results[place + 1].splitlines()[2:]


def loader_of_folder(name, group=None, without=()):
    return lambda: load(name, real_data.data_path(f"{name}.parquet").parent, group, without)


REAL_DATA_LOADERS = {
    "people": load_adult_by_sex,
    "tumors": load_breast_cancer_by_diagnosis,
    "wine quality": loader_of_folder("wine_quality"),
    "COMPAS": loader_of_folder("compas", "sex", ("sex_male",)),
    "letters": loader_of_folder("letter"),
    "credit": loader_of_folder("default_credit"),
    "diabetes": load_diabetes_by_sex,
    "StarCraft": loader_of_folder("skillcraft"),
}
NEW_ROWS = {
    re.match("[^:]*", cells[0])[0]: cells
    for line in re.findall(r"^\| (.*,? \| \d+ \| .*) \|$", GUIDE["new-rows"], re.M)
    for cells in [line.split(" | ")]
}


@pytest.mark.parametrize("name", REAL_DATA_LOADERS)
def test_the_table_of_real_data_says_what_an_audit_says(name):
    data = REAL_DATA_LOADERS[name]()
    rows, d, harmed_groups, verdict = NEW_ROWS[name]
    fair = FairPCA(int(d), scale=True).fit(data.X, sensitive_features=data.sensitive_features)
    result = audit({"fair": fair}, data.X, data.sensitive_features)
    sizes = sorted(int(size.replace(",", "")) for size in re.findall(r"[\d,]*\d(?=,|$)", rows))
    assert sizes == sorted(group.n_rows for group in result.models[1].groups)
    assert result.verdict.kind == verdict
    states = [group.state for group in result.models[1].groups]
    assert states.count("harmed") == (
        0 if harmed_groups == "nobody shown" else len(harmed_groups.split(", "))
    )
    assert "FS401" not in {finding.code for finding in result.findings}


def choices_of_features():
    """The features and groups of each row of the tutorial's table."""
    people = load_adult_by_race()
    all_adults = load_adult("race")
    features = pd.DataFrame(people.X, columns=people.feature_names)
    columns = pd.DataFrame(all_adults.X, columns=all_adults.feature_names)
    groups = people.sensitive_features
    yield features, groups
    is_black_or_white = np.isin(all_adults.sensitive_features, ["Black", "White"])
    yield features[is_black_or_white], all_adults.sensitive_features[is_black_or_white]
    yield features.assign(**{"hours-per-week": np.log(features["hours-per-week"])}), groups
    has_gain, has_loss = (columns[f"capital-{name}"] > 0 for name in ("gain", "loss"))
    yield features.assign(gain=has_gain.astype(float), loss=has_loss.astype(float)), groups
    for name in ("native-country=United-States", "workclass=Private", "marital-status=Divorced"):
        yield features.assign(**{name: columns[name]}), groups
    for name in ("marital-status=Never-married", "relationship=Own-child", "sex=Female"):
        yield features.drop(columns=name), groups


_SHORT_VERDICTS = {"no material harm": "no harm"}


@pytest.mark.long
def test_the_choice_of_the_example_is_as_the_tutorial_says():
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .*\((\d+)\) \| (.*) \|$", page, re.M)
    for (X, groups), (width, message) in zip(choices_of_features(), rows, strict=True):
        kinds = []
        for d in range(1, 6):
            fair = FairPCA(d, scale=True).fit(X, sensitive_features=groups)
            kind = audit({"fair": fair}, X, groups).verdict.kind
            kinds.append(_SHORT_VERDICTS.get(kind, kind.removeprefix("harm, repair ")))
        assert (X.shape[1], kinds) == (int(width), ["no harm", *message.split(" | ")])


@pytest.mark.long
def test_the_verdict_of_the_example_is_that_on_the_other_half_of_the_people():
    people = load_adult_by_race()
    half = np.random.default_rng(0).permutation(len(people.X)) % 2 == 0
    for in_training in (half, ~half):
        rows = people.X[in_training]
        race = people.sensitive_features[in_training]
        models = {
            name: FairPCA(2, criterion=name, scale=True).fit(rows, sensitive_features=race)
            for name in ("minimax_loss", "total_error")
        }
        result = audit(models, people.X[~in_training], people.sensitive_features[~in_training])
        assert result.verdict.kind == "harm, repair helps"


def test_the_tumors_show_harm_at_three_dimensions_only():
    assert set(NEW_ROWS) == set(REAL_DATA_LOADERS)
    data = load_breast_cancer_by_diagnosis()
    for d in (1, 2, 4, 5, 6):
        plain = FairPCA(d, criterion="total_error", scale=True)
        plain.fit(data.X, sensitive_features=data.sensitive_features)
        audited_model = audit({"PCA": plain}, data.X, data.sensitive_features).models[0]
        assert {group.state for group in audited_model.groups} == {"inconclusive"}


@pytest.mark.long
def test_the_caption_of_losses_against_rows_says_what_the_picture_shows():
    page = GUIDE["new-rows"]
    code = re.search(r"^```\{plot\}\n(?::[^\n]*\n)*(.*?)^```", page, re.S | re.M)[1]
    namespace = {}
    exec(compile(code, "new-rows.md", "exec"), namespace)
    on_rows, cross_fitted, corrected = namespace["losses_by_estimate"].mean(axis=2)
    truth = namespace["truth"]
    assert f"The true loss is {truth:.2f}," in page
    assert 1.8 * truth < on_rows[0] < 2 * truth
    assert cross_fitted[0] < 0
    assert np.abs(corrected - truth).max() < 0.1 * truth
    assert (np.diff(on_rows) < 0).all()
    assert (np.diff(cross_fitted) > 0).all()
