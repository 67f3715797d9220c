"""A package of somebody else, tests/plugin: its parts work wherever built-in ones do."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from somebody_elses_parts.first_features import FirstFeatures
from somebody_elses_parts.group_scree import GroupScree
from somebody_elses_parts.largest_share_lost import LargestShareLost
from somebody_elses_parts.sqlite_rows import SqliteRows, SqliteTable, SqliteTables
from somebody_elses_parts.weight_grid import WeightGrid

import fairspan as fs
from fairspan import cli, registry
from fairspan.errors import Incompatible, InvalidInput, InvalidParameter, InvalidType
from fairspan.extending import register

SOURCES = Path(__file__).parent / "plugin" / "src"
PARTS = {
    "criterion": LargestShareLost,
    "restriction": FirstFeatures,
    "solver": WeightGrid,
    "source": SqliteTables,
}


@pytest.fixture(autouse=True, scope="module")
def _installed():
    """As an installation makes it known."""
    found = EntryPoint("somebody", "somebody_elses_parts:register_all", "fairspan.plugins")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda group: [found] * (group == found.group))
        patch.setattr(registry, "_registered", {kind: {} for kind in registry._registered})
        registry._load_entry_points.cache_clear()
        yield
    registry._load_entry_points.cache_clear()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((80, 6)) * [3, 2, 1, 1, 0.5, 0.2], columns=[*"uvwxyz"])
    frame["group"] = np.where(rng.random(80) < 0.4, "a", "b")
    frame.loc[frame.group == "a", "w"] *= 4
    return frame


def test_it_imports_public_names_alone():
    for path in SOURCES.rglob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("import fairspan", "from fairspan")):
                assert line.split()[1] in ("fairspan", "fairspan.errors", "fairspan.extending")


def test_nothing_of_it_is_loaded_before_an_unknown_name_is_asked_for(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in registry._registered})
    registry._load_entry_points.cache_clear()
    assert fs.FairPCA(2, criterion="error_gap").get_params()["criterion__penalty"] == 0.5
    assert "largest_share_lost" not in registry.names_of("criterion")
    assert registry.factory_of("criterion", "largest_share_lost") is LargestShareLost
    assert "largest_share_lost" in registry.names_of("criterion")
    registry._load_entry_points.cache_clear()


@pytest.mark.parametrize("named", [True, False], ids=["by name", "as an object"])
def test_fit_transform_verify_audit_save_and_report(named, table, tmp_path):
    criterion = "largest_share_lost" if named else LargestShareLost()
    restriction = "first_features" if named else FirstFeatures()
    fair = fs.FairPCA(2, criterion=criterion, restriction=restriction)
    fair.fit(table, sensitive_features="group")
    assert fair.solution_.status == "optimal"
    np.testing.assert_allclose(fair.components_[:, 3:], 0, atol=1e-12)
    assert fair.transform(table).shape == (80, 2)
    assert fs.verify(fair, table, "group").holds
    found = fs.audit(fair, table, "group")
    assert "largest_share_lost" in found.frame().to_string() or named is False
    fair.subspace_.save(tmp_path / "model")
    loaded = fs.FairSubspace.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.components, fair.components_)
    assert fs.verify(loaded, table, "group").holds


@pytest.mark.long
def test_a_report_of_a_registered_criterion(table, tmp_path):
    facts = fs.write_report(
        *(tmp_path / "page.html", table, "group"),
        n_components=2,
        criterion="largest_share_lost",
        criteria=["error_gap"],
    )
    printed, told = facts["verification"], {"given": fs.GroupMoments.from_rows(table, "group")}
    program = re.sub("^moments = .*$", "moments = given", printed["snippet"], flags=re.M)
    exec(compile(program, "the program of a report", "exec"), told)
    assert told["objective"] == pytest.approx(printed["objective"], abs=printed["tolerance"])
    assert told["lower_bound"] == pytest.approx(printed["lower_bound"], abs=printed["tolerance"])
    assert "largest share lost" in (tmp_path / "page.html").read_text().replace("_", " ")


def test_a_display_stands_in_the_page_and_its_data_among_the_facts(table, tmp_path):
    fair = fs.FairPCA(2).fit(table, sensitive_features="group")
    made = GroupScree.from_estimator(fair)
    facts = fs.write_report(
        *(tmp_path / "page.html", table, "group"),
        n_components=2,
        criteria=[],
        displays=["group_scree", made],
    )
    by_name, as_object = facts["displays"]
    assert by_name["name"] == "group_scree"
    assert by_name["data"] == as_object["data"] == made.frame().to_dict("list")
    page = (tmp_path / "page.html").read_text()
    assert page.count("What each component holds of each group") == 2
    assert "displays=['group_scree', GroupScree]" in facts["made"]["command"]


@pytest.mark.long
def test_displays_of_the_library_are_asked_for_by_name_too(table, tmp_path):
    names = list(registry.names_of("display"))
    assert len(names) > 5
    facts = fs.write_report(
        *(tmp_path / "page.html", table, "group"),
        n_components=2,
        criterion="error_gap",
        criteria=[],
        displays=names,
    )
    assert [display["name"] for display in facts["displays"]] == names
    assert all(display["data"] for display in facts["displays"])
    page = (tmp_path / "page.html").read_text()
    assert 'id="displays"' in page
    # A map of colours is an image, which the page's policy must let it show.
    assert "data:image/png" in page
    assert "img-src data:" in page


@pytest.mark.parametrize(
    ("displays", "error", "said"),
    [
        (["unheard_of"], InvalidParameter, "display is 'unheard_of'.*'loadings'"),
        ([3], InvalidType, "display is of type int"),
        ("loadings", InvalidType, "displays is of type str"),
    ],
)
def test_displays_that_are_none_are_refused_before_rows_are_read(displays, error, said, tmp_path):
    with pytest.raises(error, match=said):
        fs.write_report(tmp_path / "page.html", "there is no such file", "g", displays=displays)


def test_the_solver_brackets_the_exact_answer(table):
    exact = fs.FairPCA(2).fit(table, sensitive_features="group").solution_
    for n_weights in (11, 1001):
        solver = WeightGrid(n_weights)
        grid = fs.FairPCA(2, solver=solver).fit(table, sensitive_features="group").solution_
        assert grid.lower_bound <= exact.objective + 1e-9
        assert grid.objective >= exact.objective - 1e-9
        assert grid.solver == "weight_grid"
    with pytest.raises(Incompatible, match="two linear pieces only"):
        fs.FairPCA(2, criterion="nash_welfare", solver="weight_grid").fit(
            table, sensitive_features="group"
        )


def test_parameters_of_its_parts_are_parameters_of_the_estimator(table):
    fair = fs.FairPCA(2, restriction="first_features", solver="weight_grid")
    assert fair.get_params()["restriction__count"] == 3
    fair.set_params(restriction__count=4, solver__n_weights=51)
    assert (fair.restriction, fair.solver) == (FirstFeatures(4), WeightGrid(51))


def test_all_centres_units_and_many_features(table):
    rows = np.random.default_rng(0).standard_normal((30, 50))
    groups = np.repeat(["a", "b"], 15)
    for center in ("global", "group", "none"):
        fair = fs.FairPCA(2, criterion=LargestShareLost(), center=center)
        fair.fit(rows * 1e80, sensitive_features=groups)
        assert fair.solution_.status == "optimal"
        assert fs.verify(fair, rows * 1e80, groups).holds


def test_a_share_of_variance_within_its_restriction(table):
    fair = fs.FairPCA(0.1, restriction=FirstFeatures()).fit(table, sensitive_features="group")
    assert fair.n_components_ <= 3


def test_few_rows_of_many_features_keep_to_the_first_of_them():
    """The coordinates in which few rows are solved are no features."""
    rows, groups = np.random.default_rng(0).standard_normal((24, 620)), np.arange(24) % 2
    fair = fs.FairPCA(2, criterion="total_error", restriction=FirstFeatures(5))
    fair.fit(rows, sensitive_features=groups)
    assert not fair.components_[:, 5:].any()
    centred = rows - rows.mean(axis=0)
    kept = (np.linalg.svd(centred[:, :5])[1][:2] ** 2).sum()
    expected = ((centred**2).sum() - kept) / 24
    assert fair.solution_.objective == pytest.approx(expected, rel=1e-9)
    assert fair.solution_.status == "optimal"
    assert fs.verify(fair, rows, groups).holds


@pytest.fixture
def database(table, tmp_path):
    path = str(tmp_path / "hospital.db")
    with sqlite3.connect(path) as opened:
        table.to_sql("patients", opened, index=False)
    opened.close()
    return SqliteTable(path, "patients")


def test_rows_of_its_source_are_fitted_reduced_and_brought_back(database, table):
    X, features = table.drop(columns="group"), list("uvwxyz")
    ours = fs.FairPCA(2, scale=True).fit(database, sensitive_features="group")
    theirs = fs.FairPCA(2, scale=True).fit(X, sensitive_features=table["group"])
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-9)
    assert list(ours.feature_names_in_) == features
    Z = ours.transform(database)
    np.testing.assert_allclose(Z, theirs.transform(X), atol=1e-9)
    np.testing.assert_allclose(ours.inverse_transform(Z), theirs.inverse_transform(Z), atol=1e-9)
    scores = theirs.score_samples(X)
    np.testing.assert_allclose(ours.score_samples(database), scores, rtol=1e-9)
    assert ours.score(database) == pytest.approx(scores.mean())
    np.testing.assert_allclose(ours.subspace_.transform(database), Z, atol=1e-12)
    opened = SqliteRows(database, tuple(features), "group")
    np.testing.assert_allclose(ours.transform(opened), Z, atol=1e-12)
    np.testing.assert_allclose(ours.score_samples(opened), scores, rtol=1e-9)
    with pytest.raises(InvalidInput, match="has 6 features"):
        fs.FairPCA(2).fit(X.to_numpy()[:, :5], sensitive_features=table["group"]).transform(opened)


def test_rows_of_its_source_in_parts_and_without_groups(database, table):
    X = table.drop(columns="group")
    twice = fs.FairPCA(2)
    for _ in range(2):
        twice.partial_fit(database, sensitive_features="group")
    assert twice.moments_.counts.sum() == 160
    alone = SqliteRows(database, tuple("uvwxyz"), None)
    with pytest.raises(InvalidInput, match="carry no group labels"):
        fs.FairPCA(2).fit(alone)
    with pytest.raises(InvalidInput, match="sensitive_features is missing"):
        fs.FairPCA(2).fit(database)
    with sqlite3.connect(database.path) as opened:
        X.to_sql("numbers", opened, index=False)
    opened.close()
    plain = fs.FairPCA(2, missing_groups="ignore").fit(SqliteTable(database.path, "numbers"))
    expected = fs.FairPCA(2, missing_groups="ignore").fit(X)
    np.testing.assert_allclose(plain.components_, expected.components_, atol=1e-9)


def test_rows_of_its_source_are_audited_verified_and_reported(database, table, tmp_path):
    fair = fs.FairPCA(2).fit(database, sensitive_features="group")
    ours = fs.audit(fair, database, "group").frame()
    theirs = fs.audit(fair, table, "group").frame()
    pd.testing.assert_frame_equal(pd.DataFrame(ours), pd.DataFrame(theirs), rtol=1e-6)
    assert fs.verify(fair, database, "group").holds
    facts = fs.write_report(tmp_path / "page.html", database, "group", n_components=2, criteria=[])
    assert facts["data"]["n_rows"] == 80
    assert "input_sha256" in json.dumps(facts)


def test_data_that_no_source_takes():
    with pytest.raises(InvalidType, match="holds no rows here"):
        fs.GroupMoments.from_rows(object(), "group")
    with pytest.raises(InvalidInput, match="There is no file"):
        fs.GroupMoments.from_rows("nowhere.sqlite", "group")


# Commands in one program, as a start takes a second; before each what was registered is forgotten.
COMMANDS = """
import io, json, sys
from fairspan import cli, registry
told = []
for words in json.load(sys.stdin):
    registry._registered = {kind: {} for kind in registry._registered}
    registry._load_entry_points.cache_clear()
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    status, texts = cli.run(words), []
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    told.append([status, *texts])
sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
print(json.dumps(told))
"""


@pytest.mark.long
def test_the_command_line(table, database, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    information = tmp_path / "somebody_elses_parts-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-elses-parts\n")
    (information / "entry_points.txt").write_text(
        "[fairspan.plugins]\nsomebody_elses_parts = somebody_elses_parts:register_all\n"
    )
    paths = [str(tmp_path), str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    model, data = tmp_path / "model", tmp_path / "rows.csv"
    named = f"sqlite:///{database.path}#{database.table}"
    of_source, page, moments = tmp_path / "model2", tmp_path / "page.html", tmp_path / "moments"
    report = ("report", data, "--group", "group", "-d", "2", "--json", "--display")
    sound = (
        (
            *("fit", data, "--group", "group", "-d", "2", "-o", model, "--json"),
            *("--criterion", "largest_share_lost", "--restriction", "first_features"),
            *("--restriction-param", "count=4", "--solver", "weight_grid"),
            *("--solver-param", "n_weights=41"),
        ),
        (*report, "group_scree"),
        ("verify", model, data, "--group", "group"),
        ("fit", named, "--group", "group", "-d", "2", "-o", of_source),
        ("fit", named, "--group", "group", "--exclude", "z", "-d", "2", "-o", tmp_path / "model3"),
        ("audit", named, "--group", "group", "-d", "2", "--model", of_source),
        ("audit", named, "--group", "group", "-d", "2"),
        ("verify", of_source, named, "--group", "group"),
        ("transform", of_source, named, "-o", tmp_path / "reduced.csv"),
        ("moments", named, "--group", "group", "-o", moments),
        ("report", named, "--group", "group", "-d", "2", "-o", page),
    )
    mistaken = (
        ("fit", data, "--group", "group", "--criterion", "unheard_of"),
        (*report, "unheard_of"),
        ("audit", named, "--group", "group", "--jobs", "2"),
        ("audit", "unheard:///of", "--group", "group"),
    )
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps([list(map(str, words)) for words in (*sound, *mistaken)]),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == len(sound) + len(mistaken)
    for status, _, error in told[: len(sound)]:
        assert status == 0, error
    assert [status for status, _, _ in told[len(sound) :]] == [2] * len(mistaken)
    (_, fitted, _), (_, shown, _) = told[:2]
    certificate = json.loads(fitted)["certificate"]
    assert certificate["criterion"] == "largest_share_lost"
    assert certificate["restriction"] == "FirstFeatures(count=4)"
    # Of the first four features, as the restriction says; the solver looks at each weight once.
    assert not fs.FairSubspace.load(model).components[:, 4:].any()
    assert certificate["n_eigenproblems"] == 41
    assert json.loads(shown)["displays"][0]["data"]["component"] == [1, 2]
    assert "does not exist" in told[-1][2]
    loaded = fs.FairSubspace.load(of_source)
    reduced = pd.read_csv(tmp_path / "reduced.csv").to_numpy()
    np.testing.assert_allclose(reduced, loaded.transform(table), atol=1e-9)
    assert fs.FairSubspace.load(tmp_path / "model3").feature_names == tuple("uvwxy")
    assert fs.GroupMoments.load(moments).counts.sum() == 80
    assert "#patients" in page.read_text()


def test_names_and_factories_that_cannot_be_registered():
    with pytest.raises(InvalidParameter, match="kind is 'colour'"):
        register("colour", "red", LargestShareLost)
    with pytest.raises(InvalidParameter, match="not built in"):
        register("criterion", "minimax_loss", LargestShareLost)
    with pytest.raises(InvalidType, match="a callable"):
        register("criterion", "mine", LargestShareLost())
    with pytest.raises(InvalidParameter, match="Choose one of"):
        fs.FairPCA(criterion="nobody_has_this").fit(np.eye(4), sensitive_features=[*"aabb"])


class Half:
    """A criterion without most of what one has."""

    name = "half"

    def check(self, labels):
        """Accept any groups."""


class WithoutProof(Half):
    """A criterion that nothing can prove."""

    def value(self, errors, problem):
        return float(errors.max()) ** 2

    def pieces(self, problem):
        return None


def test_what_an_object_lacks_is_named(table):
    with pytest.raises(InvalidType, match="which lacks value, pieces"):
        fs.FairPCA(2, criterion=Half()).fit(table, sensitive_features="group")
    with pytest.raises(Incompatible, match="neither pieces nor"):
        fs.FairPCA(2, criterion=WithoutProof()).fit(table, sensitive_features="group")
    with pytest.raises(InvalidType, match="the class LargestShareLost itself"):
        fs.FairPCA(2, criterion=LargestShareLost).fit(table, sensitive_features="group")


@pytest.mark.parametrize(("kind", "part"), PARTS.items())
def test_an_equal_part_registered_again_replaces_the_first(kind, part):
    register(kind, part.name, part)
    register(kind, part.name, lambda: part())
    assert registry.factory_of(kind, part.name) is not part


def test_the_command_line_reduces_rows_of_its_source(database, table, tmp_path, capfd):
    fair = fs.FairPCA(2).fit(table[list("zwu")], sensitive_features=table["group"])
    fair.subspace_.save(tmp_path / "model")
    named = f"sqlite:///{database.path}#{database.table}"
    words = ["transform", str(tmp_path / "model"), named, "-o", str(tmp_path / "reduced.csv")]
    assert cli.run(words) == 0
    reduced = pd.read_csv(tmp_path / "reduced.csv").to_numpy()
    np.testing.assert_allclose(reduced, fair.transform(table[list("zwu")]), atol=1e-9)
    assert cli.run([*words, "--on-missing", "drop"]) == 2
    assert "no file of rows" in capfd.readouterr().err


@dataclass(frozen=True)
class DatabaseFiles(SqliteTables):
    """Takes a path too, as the option of the command line gives one."""

    name = "database_files"

    def takes(self, X):
        return isinstance(X, Path) and X.suffix == ".database"

    def open_rows(self, X, sensitive_features, sample_weight, on_missing):
        table = SqliteTable(str(X), "patients")
        return super().open_rows(table, sensitive_features, sample_weight, on_missing)


def test_the_command_line_opens_files_of_its_source(database, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(
        registry, "_registered", {kind: dict(of) for kind, of in registry._registered.items()}
    )
    register("source", "database_files", DatabaseFiles)
    path = tmp_path / "rows.database"
    path.write_bytes(Path(database.path).read_bytes())
    words = ["moments", str(path), "--group", "group", "-o", str(tmp_path / "moments")]
    assert cli.run(words) == 0, capfd.readouterr().err
    expected = fs.GroupMoments.from_rows(database, "group")
    assert fs.GroupMoments.load(tmp_path / "moments").to_bytes() == expected.to_bytes()
