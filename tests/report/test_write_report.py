"""write_report: what it reads, what it writes, and what it says of how it was made."""

import hashlib
import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fairspan as fs
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, MissingDependency
from fairspan.extending import CodedLabels, make_row_block
from report_cases import generate_rows

X, LABELS = generate_rows(2, 4)
NAMES = ["age", "income", "debt", "<b>"]
SETTINGS = {"n_components": 2, "compare": ["minimax_error"]}
# Without estimates for new rows.
FAST = {"n_components": 2, "compare": [], "folds": None}


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(X, columns=NAMES).assign(sex=LABELS)


@pytest.fixture
def without_figures(monkeypatch):
    """Pages are written as a word, for tests that look at facts alone: drawing takes seconds."""
    monkeypatch.setattr("fairspan.report.page.render_page", lambda report: "a page")


def figures(facts):
    return [model["groups"] for model in facts["models"]]


@pytest.mark.long
def test_the_page_shows_the_facts_that_are_returned(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("an earlier page")
    facts = fs.write_report(path, X, LABELS, **SETTINGS)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert facts["verdict"]["summary"] in page
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert facts["title"].endswith("these rows")
    assert facts["provenance"]["command"] == (
        "fairspan.write_report(path, X, sensitive_features, n_components=2, "
        "compare=['minimax_error'])"
    )


@pytest.mark.long
def test_the_same_rows_give_the_same_figures_wherever_they_are(frame, tmp_path, without_figures):
    csv = tmp_path / "rows.csv"
    parquet = tmp_path / "rows.parquet"
    page = tmp_path / "page.html"
    frame.to_csv(csv, index=False, float_format="%.17g")
    frame.to_parquet(parquet)
    facts = {
        "array": fs.write_report(page, X, LABELS, **SETTINGS),
        "frame": fs.write_report(page, frame, "sex", **SETTINGS),
        "sparse": fs.write_report(page, sparse.csr_matrix(X), LABELS, **SETTINGS),
        "csv": fs.write_report(page, csv, "sex", **SETTINGS),
        "parquet": fs.write_report(page, str(parquet), "sex", **SETTINGS),
    }
    for source_facts in facts.values():
        for model, expected in zip(figures(source_facts), figures(facts["array"]), strict=True):
            for group, other in zip(model, expected, strict=True):
                assert group["observed_error"] == pytest.approx(other["observed_error"], rel=1e-9)
                assert group["observed_error_low"] == pytest.approx(
                    other["observed_error_low"], rel=1e-9
                )
    assert facts["frame"]["data"]["feature_names"] == NAMES
    assert facts["array"]["data"]["feature_names"][0] == "feature 0"
    assert facts["csv"]["data"]["name"] == "rows.csv"
    provenances = {name: source_facts["provenance"] for name, source_facts in facts.items()}
    for name, file in (("csv", csv), ("parquet", parquet)):
        assert provenances[name]["input_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert provenances["array"]["input_sha256"] == provenances["frame"]["input_sha256"]
    assert "'rows.parquet', 'sex'" in provenances["parquet"]["command"]
    assert str(tmp_path) not in json.dumps(facts["parquet"])
    assert "write_report(path, X, 'sex', " in provenances["frame"]["command"]


def test_the_hash_of_rows_is_of_their_numbers_groups_and_weights(tmp_path, without_figures):
    page = tmp_path / "page.html"
    weights = np.arange(len(X), dtype=float)
    provenance = fs.write_report(page, X, LABELS, sample_weight=weights, **FAST)["provenance"]
    parts = (X.tobytes(), "".join(f"{label}\n" for label in LABELS).encode(), weights.tobytes())
    lines = [f"{len(X)} {X.shape[1]}", *(hashlib.sha256(part).hexdigest() for part in parts), ""]
    assert provenance["input_sha256"] == hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert "sample_weight=sample_weight" in provenance["command"]
    changed_rows = X.copy()
    changed_rows[3, 2] += 1e-12
    other = fs.write_report(page, changed_rows, LABELS, sample_weight=weights, **FAST)["provenance"]
    assert other["input_sha256"] != provenance["input_sha256"]


def test_the_hash_of_a_folder_is_of_its_files_by_name(frame, tmp_path, without_figures):
    folder = tmp_path / "rows"
    (folder / "b").mkdir(parents=True)
    frame[:40].to_parquet(folder / "b" / "1.parquet")
    frame[40:].to_parquet(folder / "2.parquet")
    facts = fs.write_report(tmp_path / "page.html", folder, "sex", **FAST)
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("2.parquet", "b/1.parquet")
    ]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert facts["provenance"]["input_sha256"] == expected


@pytest.mark.long
def test_rows_that_were_opened_bring_their_groups_and_what_was_dropped(
    frame, tmp_path, without_figures
):
    holes = frame.assign(age=frame["age"].where(frame.index % 10 > 0))
    holes.to_csv(tmp_path / "rows.csv", index=False)
    rows = fs.FileRows.open(tmp_path / "rows.csv", ["sex"], on_missing="drop")
    facts = fs.write_report(tmp_path / "page.html", rows, **SETTINGS)
    assert facts["rows"]["n_dropped"] == holes["age"].isna().sum() > 0
    assert facts["rows"]["n_rows"] == holes["age"].notna().sum()


@dataclass(frozen=True, eq=False)
class CountedRows:
    """A source of rows in one block, which counts how often they are read."""

    X: np.ndarray
    labels: list[str]
    feature_names: tuple[str, ...] = ("a", "b", "c", "d")
    passes: list[str] = field(default_factory=list)

    n_features = property(lambda self: self.X.shape[1])
    n_rows = property(lambda self: len(self.X))

    def select_features(self, names):
        assert names == self.feature_names
        return self

    def blocks(self):
        self.passes.append("read")
        labels = CodedLabels.from_labels(self.labels)
        yield make_row_block(0, self.X, labels, None, self.feature_names, "error")


@pytest.mark.long
def test_rows_are_read_five_times_and_again_only_where_subspaces_are_unstable(
    tmp_path, without_figures
):
    rng = np.random.default_rng(0)
    rows = CountedRows(rng.normal(size=(400, 4)) * [9, 6, 2, 1], ["a", "b"] * 200)
    fs.write_report(tmp_path / "page.html", rows, **SETTINGS)
    # For moments, a hash, moments by fold and spreads; and the first of them for repeated rows.
    assert len(rows.passes) == 5
    # So few rows that every assignment to folds finds other best subspaces.
    rows = CountedRows(X, list(LABELS))
    fs.write_report(tmp_path / "page.html", rows, **SETTINGS)
    assert len(rows.passes) == 9


AGAIN = """
import sys, numpy as np, fairspan as fs
rng = np.random.default_rng(0)
X = rng.normal(size=(150, 6)) @ rng.normal(size=(6, 6))
asked = {"n_components": 2, "compare": ["minimax_error", "error_gap"]}
fs.write_report(sys.argv[1], X, ["a", "b"] * 75, **asked)
fs.write_report(sys.argv[2], X, rng.choice(["a", "b", "c", "d"], 150), **asked)
"""


@pytest.mark.long
def test_writing_again_gives_the_same_bytes(tmp_path):
    pages = []
    for seed in ("1", "2"):
        page_paths = [tmp_path / f"page {seed} {k}.html" for k in (2, 4)]
        # Other orders of sets, and another number of threads.
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": seed}
        environment["OMP_NUM_THREADS"] = seed
        subprocess.run([sys.executable, "-c", AGAIN, *page_paths], check=True, env=environment)
        pages.append([page.read_bytes() for page in page_paths])
    assert pages[0] == pages[1]
    text = b"".join(pages[0]).decode()
    for word in (str(tmp_path), os.environ.get("USER", ""), str(Path.home()), os.uname().nodename):
        # Short names occur by chance in the hashes of the page.
        assert len(word) < 4 or word == "root" or word not in text


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("an earlier page")

    def raise_error(report):
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr("fairspan.report.page.render_page", raise_error)
    with pytest.raises(RuntimeError):
        fs.write_report(page, X, LABELS, **FAST)
    assert page.read_text() == "an earlier page"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_the_extra_it_says_how_to_install_it_before_reading(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=rf'{package}.*pip install "fairspan\[report\]"'):
        fs.write_report("page.html", "no such file", "sex")


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "expected_text"),
    [
        (
            ("no/folder/page.html", X, LABELS),
            {},
            InvalidParameter,
            "folder no/folder does not exist",
        ),
        ((".", X, LABELS), {}, InvalidParameter, "not a regular file"),
        ((X, LABELS), {}, InvalidType, "path is .*ndarray"),
        (("page.html",), {}, InvalidInput, "neither X nor moments"),
        (("page.html", X, LABELS), {"moments": 3}, InvalidInput, "both moments and rows"),
        (("page.html",), {"moments": 3}, InvalidType, "moments is .*int"),
        (("page.html", X, LABELS), {"name": 3}, InvalidType, "name is .*int"),
        (("page.html", X, LABELS), {"scale": "yes"}, InvalidParameter, "scale is 'yes'"),
        (("page.html", X, LABELS), {"n_components": 5}, InvalidParameter, "n_components is 5"),
        (("page.html", X, LABELS), {"criterion": "fairest"}, InvalidParameter, "fairest"),
        (("page.html", X[:60], LABELS[:40]), {}, InvalidInput, "40"),
        (("page.html", X, ["all"] * len(X)), {}, InvalidInput, "one group"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(
    arguments, settings, error, expected_text, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=expected_text):
        fs.write_report(*arguments, **settings)
    assert not list(tmp_path.iterdir())


def test_the_file_that_is_read_is_never_replaced(frame, tmp_path):
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    original_bytes = path.read_bytes()
    with pytest.raises(InvalidParameter, match="is also an input"):
        fs.write_report(path, str(path), "sex")
    assert path.read_bytes() == original_bytes


def test_more_dimensions_than_features_are_refused_before_rows_are_read(tmp_path, monkeypatch):
    def read(*_, **__):
        raise AssertionError("the rows were read")

    monkeypatch.setattr("fairspan.report.write_report.compute_group_moments", read)
    with pytest.raises(InvalidParameter, match="n_components is 9"):
        fs.write_report(tmp_path / "page.html", np.ones((4, 3)), list("abab"), n_components=9)


@pytest.mark.parametrize(
    "on_missing",
    [
        "drop",
        pytest.param("em", marks=pytest.mark.slow),
        pytest.param("em-drop-empty", marks=pytest.mark.slow),
    ],
)
def test_rows_with_missing_values_are_read_as_an_audit_reads_them(
    on_missing, frame, tmp_path, without_figures
):
    incomplete = frame.copy()
    incomplete.loc[3, "age"] = np.nan
    incomplete.loc[10, "sex"] = None
    if on_missing == "em-drop-empty":
        incomplete.loc[20, NAMES] = np.nan
    settings = {"folds": None, "on_missing": on_missing}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[12] rows? (was|were) dropped")
        facts = fs.write_report(
            tmp_path / "page.html", incomplete, "sex", n_components=2, compare=[], **settings
        )
        moments = fs.GroupMoments.from_rows(incomplete, "sex", on_missing=on_missing)
        fair = fs.FairPCA(2, criterion="minimax_loss").fit_moments(moments)
        result = fs.audit(fair, incomplete, "sex", **settings)
    assert facts["certificates"][1]["objective"] == pytest.approx(fair.solution_.objective)
    assert facts["rows"]["n_rows"] == moments.counts.sum()
    assert facts["rows"]["n_dropped"] == {"drop": 2, "em": 1, "em-drop-empty": 2}[on_missing]
    assert f'on_missing="{on_missing}", n_components=2' in facts["provenance"]["command"]
    errors = [group.observed_error.value for group in result.models[0].groups]
    assert [group["observed_error"] for group in figures(facts)[1]] == pytest.approx(errors)


def test_held_out_rows_may_have_missing_values_too(frame, tmp_path, without_figures):
    fair = fs.FairPCA(2).fit(frame, sensitive_features="sex")
    incomplete = frame.copy()
    incomplete.loc[3, "age"] = np.nan
    options = {"models": fair, "test": (incomplete, "sex"), "compare": [], "folds": None}
    path = tmp_path / "page.html"
    with pytest.raises(InvalidInput, match=r'NaN.*\(on_missing="drop"\)'):
        fs.write_report(path, frame, "sex", **options)
    facts = fs.write_report(path, frame, "sex", **options, on_missing="drop")
    assert facts["user_models"]["rows"]["n_rows"] == len(frame) - 1


@pytest.mark.slow
def test_a_verdict_says_in_how_many_assignments_to_folds_it_was_found(tmp_path, without_figures):
    options = {"repeats": 2, "folds": 5}
    facts = fs.write_report(
        tmp_path / "page.html", X, LABELS, **options, compare=[], n_components=2
    )
    fair = fs.FairPCA(2).fit(X, sensitive_features=LABELS)
    result = fs.audit(fair, X, LABELS, **options)
    assert result.verdict.n_repeats == 2
    assert facts["verdict"]["n_repeats"] == 2
    assert facts["verdict"]["n_agreeing"] == result.verdict.n_agreeing
    assert "repeats=2" in facts["provenance"]["command"]


def test_moments_are_not_assigned_to_folds_again(tmp_path):
    moments = fs.GroupMoments.from_rows(X, LABELS)
    with pytest.raises(InvalidInput, match="repeats is 2, but moments"):
        fs.write_report(tmp_path / "page.html", moments=moments, repeats=2)
