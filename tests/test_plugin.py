"""Parts of a foreign package, tests/plugin, work wherever built-in ones do."""

import copy
import json
import pickle
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from somebody_elses_parts.first_features import FirstFeatures
from somebody_elses_parts.group_scree import GroupScree
from somebody_elses_parts.largest_share_lost import LargestShareLost
from somebody_elses_parts.sqlite_rows import SqliteRows, SqliteTable
from somebody_elses_parts.weight_grid import WeightGrid

import fairspan as fs
from fairspan import BoundarySearch, FairPCA, GroupMoments, MinimaxError, MinimaxLoss, cli
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, InvalidType
from fairspan.extending import (
    AffinePieces,
    Blocks,
    ConcaveScoresCriterion,
    Criterion,
    LinearCriterion,
    Restriction,
)
from fairspan.registry import builtin_names
from problems import random_moments

SOURCES = Path(__file__).parent / "plugin" / "src"
# How the command line names the parts.
CRITERION = "somebody_elses_parts.largest_share_lost:LargestShareLost"
RESTRICTION = "somebody_elses_parts.first_features:FirstFeatures"
SOLVER = "somebody_elses_parts.weight_grid:WeightGrid"
DISPLAY = "somebody_elses_parts.group_scree:GroupScree.from_estimator"


@pytest.fixture(scope="module")
def patients():
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).data


@pytest.fixture(scope="module")
def moments(patients):
    return GroupMoments.from_rows(patients, "sex")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((80, 6)) * [3, 2, 1, 1, 0.5, 0.2], columns=[*"uvwxyz"])
    frame["group"] = np.where(rng.random(80) < 0.4, "a", "b")
    frame.loc[frame.group == "a", "w"] *= 4
    return frame


@pytest.fixture
def data(table, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def write_file(frame, path):
    with sqlite3.connect(path) as connection:
        frame.to_sql("patients", connection, index=False)
    connection.close()
    return SqliteTable(str(path), "patients")


@pytest.fixture
def rows(table, tmp_path):
    return SqliteRows.of(write_file(table, tmp_path / "hospital.db"), "group")


@pytest.fixture
def run(capfd):
    def run(*words):
        status = cli.run(list(map(str, words)))
        return status, *capfd.readouterr()

    return run


def test_it_imports_public_names_alone():
    for path in SOURCES.rglob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("import fairspan", "from fairspan")):
                assert line.split()[1] in ("fairspan", "fairspan.errors", "fairspan.extending")


def test_fit_transform_verify_audit_and_save(table, tmp_path):
    parts = LargestShareLost(), FirstFeatures(4)
    fair = FairPCA(2, criterion=parts[0], restriction=parts[1])
    fair.fit(table, sensitive_features="group")
    assert fair.solution_.status == "optimal"
    np.testing.assert_allclose(fair.components_[:, 4:], 0, atol=1e-12)
    assert fair.transform(table).shape == (80, 2)
    assert fs.verify(fair, table, "group").holds
    audit_table = fs.audit(fair, table, "group", folds=5).frame()
    assert audit_table["expected_error"].notna().all()
    fair.subspace_.save(tmp_path / "model")
    # The file names criterion and restriction, with their settings; the objects are passed again.
    alone = fs.FairSubspace.load(tmp_path / "model")
    result = fs.verify(alone, table, "group")
    assert not result.holds
    assert "criterion 'largest_share_lost' of another package" in result.messages[0]
    assert not alone.certificate.criterion.bounds_largest_loss  # as far as is known
    assert alone.certificate.to_dict()["criterion"] == fair.solution_.to_dict()["criterion"]
    np.testing.assert_array_equal(alone.transform(table), fair.transform(table))
    model = fs.FairSubspace.load(
        tmp_path / "model", custom_objects=[LargestShareLost(), FirstFeatures()]
    )
    assert fs.verify(model, table, "group").holds
    again = fs.audit(model, table, "group", folds=5).frame()["expected_error"]
    np.testing.assert_allclose(again, audit_table["expected_error"], rtol=1e-12)
    half = fs.FairSubspace.load(tmp_path / "model", custom_objects=parts[1:])
    assert not fs.verify(half, table, "group").holds


def test_a_file_that_names_a_module_imports_nothing(table, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    fair = FairPCA(2, criterion=PlantedError()).fit(table, sensitive_features="group").subspace_
    fair.save(tmp_path / "model")
    result = fs.verify(fs.FairSubspace.load(tmp_path / "model"), table, "group")
    assert not result.holds
    with pytest.raises(InvalidParameter, match="criterion is 'planted:Thing'"):
        FairPCA(2, criterion="planted:Thing").fit(table, sensitive_features="group")


@pytest.mark.long
def test_a_report_of_its_criterion(table, tmp_path):
    facts = fs.write_report(
        *(tmp_path / "page.html", table, "group"),
        n_components=2,
        criterion=LargestShareLost(),
        compare=["error_gap"],
    )
    verification = facts["verification"]
    fair = FairPCA(2, criterion=LargestShareLost()).fit(table, sensitive_features="group")
    verified = fs.verify(fair, GroupMoments.from_rows(table, "group"))
    assert verified.holds
    for name in ("objective", "lower_bound"):
        expected = pytest.approx(verification[name], abs=verification["absolute_tol"])
        assert getattr(verified, name) == expected
    assert "affine" in verification["explanation"][1]
    assert "largest share lost" in (tmp_path / "page.html").read_text().replace("_", " ")


@pytest.mark.slow
def test_a_display_stands_in_the_page_and_its_data_among_the_facts(table, tmp_path):
    fair = FairPCA(2).fit(table, sensitive_features="group")
    display = GroupScree.from_estimator(fair)
    facts = fs.write_report(
        *(tmp_path / "page.html", table, "group"),
        n_components=2,
        compare=[],
        displays=["loadings", display],
        folds=None,
    )
    assert facts["displays"][1] == {
        "name": "GroupScree",
        "data": display.frame().to_dict("list"),
    }
    page = (tmp_path / "page.html").read_text()
    assert page.count("each component holds of") == 1
    assert "displays=['loadings', GroupScree]" in facts["provenance"]["command"]


@pytest.mark.long
def test_displays_of_the_library_are_requested_by_name_too(table, tmp_path):
    names = list(builtin_names("display"))
    facts = fs.write_report(
        *(tmp_path / "page.html", table, "group"),
        n_components=2,
        criterion="error_gap",
        compare=[],
        displays=names,
    )
    assert [display["name"] for display in facts["displays"]] == names
    assert all(display["data"] for display in facts["displays"])
    page = (tmp_path / "page.html").read_text()
    assert 'id="displays"' in page
    # A map of colors is an image, which the page's policy must let it show.
    assert "data:image/png" in page
    assert "img-src data:" in page


@pytest.mark.parametrize(
    ("displays", "error", "expected_text"),
    [
        (["unheard_of"], InvalidParameter, "display is 'unheard_of'.*'loadings'"),
        ([3], InvalidType, "type int"),
        ("loadings", InvalidType, "displays .* str"),
    ],
)
def test_displays_that_are_none_are_refused_before_rows_are_read(
    displays, error, expected_text, tmp_path
):
    with pytest.raises(error, match=expected_text):
        fs.write_report(tmp_path / "page.html", "nowhere.csv", "g", displays=displays)


def shares_lost(basis, matrices):
    captured = np.einsum("pd,gpq,qd->g", basis, matrices, basis)
    return 1 - captured / np.trace(matrices, axis1=1, axis2=2)


@pytest.mark.parametrize("n_groups", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.long) for i in (1, 2))])
def test_the_criterion_is_solved_to_its_bound_without_a_line_in_any_solver(n_groups, seed):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, n_groups, 6)
    moments = GroupMoments.from_covariances(
        matrices, weights=np.ones(n_groups), groups=[*"abcde"[:n_groups]]
    )
    fair = FairPCA(3, criterion=LargestShareLost(), center="none").fit_moments(moments)
    solution = fair.solution_
    total_variance = fair.solution_.total_variance
    largest = shares_lost(fair.components_.T, matrices).max()
    assert solution.objective == pytest.approx(total_variance * largest)
    assert solution.status == "optimal" or n_groups > 2
    for _ in range(200):
        other = np.linalg.qr(rng.standard_normal((6, 3)))[0]
        value = total_variance * shares_lost(other, matrices).max()
        assert value >= solution.lower_bound - 1e-9


@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_a_criterion_of_ones_own_is_passed_as_an_object(center, moments):
    foreign, relative = (
        FairPCA(2, criterion=criterion, center=center).fit_moments(moments)
        for criterion in (LargestShareLost(), MinimaxError(relative=True))
    )
    assert foreign.solution_.status == "optimal"
    assert fs.verify(foreign, moments).holds
    # It is the relative error, times the variance of all rows.
    traces = np.trace(moments.second_moments(center), axis1=1, axis2=2)
    expected = relative.solution_.objective * (moments.proportions @ traces)
    assert foreign.solution_.objective == pytest.approx(expected, rel=1e-7)


def test_a_solver_of_ones_own_is_passed_as_an_object_and_says_what_it_cannot_take(moments):
    fair = FairPCA(3, solver=WeightGrid(), tol=1e-2).fit_moments(moments)
    assert (fair.solver_, fair.solution_.status) == ("weight_grid", "optimal")
    with pytest.raises(IncompatibleParameters, match="two linear pieces only"):
        FairPCA(3, criterion="nash_welfare", solver=WeightGrid()).fit_moments(moments)


@pytest.mark.long
@pytest.mark.parametrize("criterion", [MinimaxLoss(), MinimaxError(), LargestShareLost()])
def test_the_solver_brackets_the_exact_answer_and_never_claims_more(criterion):
    matrices = random_moments(np.random.default_rng(4), 2, 6)
    moments = GroupMoments.from_covariances(matrices, weights=np.ones(2), groups=["a", "b"])
    exact, coarse, fine = (
        FairPCA(2, criterion=criterion, solver=solver, center="none", tol=1e-10)
        .fit_moments(moments)
        .solution_
        for solver in (BoundarySearch(), WeightGrid(11), WeightGrid(1001))
    )
    for grid in (coarse, fine):
        assert grid.lower_bound - 1e-9 <= exact.objective <= grid.objective + 1e-9
        assert (grid.status == "optimal") == (grid.gap <= grid.absolute_tol)
    assert fine.gap <= coarse.gap
    assert fine.gap < 0.02 * exact.total_variance


def test_parameters_of_its_parts_are_parameters_of_the_estimator():
    fair = FairPCA(2, restriction=FirstFeatures(), solver=WeightGrid())
    assert fair.get_params()["restriction__count"] == 3
    fair.set_params(restriction__count=4, solver__n_weights=51)
    assert (fair.restriction, fair.solver) == (FirstFeatures(4), WeightGrid(51))


@dataclass(frozen=True, slots=True)
class DoubledError(Criterion):
    """A criterion with the required members alone, and slots."""

    factor: float = 2.0
    name: ClassVar[str] = "doubled_error"

    def pieces(self, problem):
        return AffinePieces(self.factor * np.eye(problem.n_groups), np.zeros(problem.n_groups))


@dataclass(frozen=True)
class PlantedError(DoubledError):
    """A criterion whose name is that of a module attribute, which a forged file may contain."""

    name: ClassVar[str] = "planted:Thing"


@pytest.mark.parametrize("criterion", [DoubledError(3.0), LargestShareLost()], ids=str)
def test_optional_members_of_parts_have_defaults(criterion, moments):
    """The criterion is not changed, and a fit can be pickled and copied."""
    fair = FairPCA(2, criterion=criterion).fit_moments(moments)
    assert fair.criterion is criterion
    assert type(fair.criterion) is type(criterion)
    assert fs.verify(fair, moments).holds
    for again in (pickle.loads(pickle.dumps(fair)), copy.deepcopy(fair)):
        np.testing.assert_array_equal(again.components_, fair.components_)
    if isinstance(criterion, DoubledError):
        plain = FairPCA(2, criterion="minimax_error").fit_moments(moments)
        assert fair.solution_.objective == pytest.approx(3 * plain.solution_.objective)


@dataclass(frozen=True)
class MeanGroupError(LinearCriterion):
    """The mean of the groups' errors, whatever their numbers of rows."""

    name: ClassVar[str] = "mean_group_error"

    def group_weights(self, problem):
        return np.full(problem.n_groups, 1 / problem.n_groups)


def test_a_weighted_sum_of_errors_needs_its_weights_alone(moments):
    fair = FairPCA(2, criterion=MeanGroupError()).fit_moments(moments)
    assert fs.verify(fair, moments).holds
    eigenvalues = np.linalg.eigvalsh(moments.second_moments().mean(axis=0))
    assert fair.solution_.objective == pytest.approx(eigenvalues[:-2].sum(), rel=1e-9)
    assert fair.solution_.objective == pytest.approx(fair.group_errors_.mean(), rel=1e-9)


@dataclass(frozen=True)
class LargestOfThree(Criterion):
    """The larger error, or 60 % of their sum if that is more."""

    name: ClassVar[str] = "largest_of_three"

    def pieces(self, problem):
        return AffinePieces(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]), np.zeros(3))


@dataclass(frozen=True)
class SumOfMaxima(Criterion):
    """The larger error, plus the larger of 90 % of the first and 30 % of the second."""

    name: ClassVar[str] = "sum_of_maxima"

    def pieces(self, problem):
        coefficients = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.0], [0.0, 0.3]])
        return AffinePieces(coefficients, np.zeros(4), Blocks((0, 2)))


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        (LargestOfThree(), lambda a, b: max(a, b, 0.6 * (a + b))),
        (SumOfMaxima(), lambda a, b: max(a, b) + max(0.9 * a, 0.3 * b)),
    ],
)
def test_two_groups_with_more_than_two_pieces_are_solved_like_a_grid_of_angles(criterion, value):
    rng = np.random.default_rng(3)
    groups = np.repeat(["a", "b"], 40)
    rows = rng.normal(size=(80, 2)) * np.where(groups == "a", 1.0, [[2.0], [0.7]]).T
    moments = GroupMoments.from_rows(rows, groups)
    fit = FairPCA(1, criterion=criterion).fit_moments(moments)
    first, second = moments.second_moments("global")
    angles = np.linspace(0, np.pi, 20_001)
    # The error of a line is the variance along its normal.
    normals = np.stack([-np.sin(angles), np.cos(angles)])
    errors = [np.einsum("in,ij,jn->n", normals, matrix, normals) for matrix in (first, second)]
    least = min(map(value, *errors))
    # The value falls with a slope of about two on each side of its least, between two angles.
    assert least - 4 * np.pi / 20_000 < fit.solution_.objective <= least
    assert fit.solution_.status == "optimal"
    assert fs.verify(fit, moments).holds
    with pytest.raises(IncompatibleParameters, match="affine functions"):
        FairPCA(1, criterion=criterion, solver="boundary").fit_moments(moments)


@dataclass(frozen=True)
class ErrorPlusRoot(ConcaveScoresCriterion):
    """The error over all rows, plus the largest root of an error: one score for each group."""

    name: ClassVar[str] = "error_plus_root"

    def scores(self, errors, problem):
        total_error = errors @ problem.proportions
        return total_error[..., None] + np.sqrt(errors)

    def score_gradients(self, errors, problem):
        return problem.proportions + np.diag(0.5 / np.sqrt(errors))

    def affine_minorant(self, problem):
        # An error e is at most the variance t of its group, so its root is at least e / sqrt(t).
        slopes = np.diag(1 / np.sqrt(problem.second_moments.traces))
        return AffinePieces(problem.proportions + slopes, np.zeros(problem.n_groups))

    def rounding_bound(self, error_rounding, errors, problem):
        of_roots = np.sqrt(errors + error_rounding) - np.sqrt(errors)
        last_digits = np.finfo(float).eps * self.value(errors, problem)
        return float(error_rounding.max() + of_roots.max() + 4 * last_digits)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_concave_scores_of_another_package_are_solved_like_a_grid_of_angles(n_groups):
    rng = np.random.default_rng(5)
    groups = np.arange(120) % n_groups
    scales = np.array([[2.0, 0.5], [0.7, 1.5], [1.0, 1.2]])[groups]
    moments = GroupMoments.from_rows(rng.normal(size=(120, 2)) * scales, groups)
    fit = FairPCA(1, criterion=ErrorPlusRoot()).fit_moments(moments)
    angles = np.linspace(0, np.pi, 20_001)
    # The error of a line is the variance along its normal.
    normals = np.stack([-np.sin(angles), np.cos(angles)])
    matrices = moments.second_moments("global")
    errors = np.array([np.einsum("in,ij,jn->n", normals, matrix, normals) for matrix in matrices])
    values = moments.weights / moments.weights.sum() @ errors + np.sqrt(errors).max(axis=0)
    # The value falls with a slope of less than ten on each side of its least.
    assert values.min() - 20 * np.pi / 20_000 < fit.solution_.objective <= values.min() + 1e-9
    assert fit.solution_.lower_bound <= values.min()
    assert fs.verify(fit, moments).holds
    # Supporting lines close the gap of two groups. The minorant alone bounds that of more.
    assert fit.solution_.status == ("optimal" if n_groups == 2 else "open gap")


def test_a_share_of_variance_within_its_restriction(table):
    fair = fs.FairPCA(0.1, restriction=FirstFeatures()).fit(table, sensitive_features="group")
    assert fair.n_components_ <= 3


def test_few_rows_of_many_features_keep_to_the_first_of_them(monkeypatch):
    """The coordinates in which few rows are solved are no features."""
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 50)
    rows = np.random.default_rng(0).standard_normal((24, 60))
    groups = np.arange(24) % 2
    fair = FairPCA(2, criterion="total_error", restriction=FirstFeatures(5))
    fair.fit(rows, sensitive_features=groups)
    assert not fair.components_[:, 5:].any()
    centered = rows - rows.mean(axis=0)
    captured = (np.linalg.svd(centered[:, :5])[1][:2] ** 2).sum()
    expected = ((centered**2).sum() - captured) / 24
    assert fair.solution_.objective == pytest.approx(expected, rel=1e-9)
    assert fair.solution_.status == "optimal"
    assert fs.verify(fair, rows, groups).holds


def test_rows_of_a_new_source_are_fitted_transformed_and_reconstructed(rows, table):
    X = table.drop(columns="group")
    groups = table["group"]
    ours = fs.FairPCA(2, scale=True).fit(rows)
    theirs = fs.FairPCA(2, scale=True).fit(X, sensitive_features=groups)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-9)
    assert list(ours.feature_names_in_) == list(X.columns)
    assert rows.n_rows == len(table)
    Z = ours.transform(rows)
    np.testing.assert_allclose(Z, theirs.transform(X), atol=1e-9)
    np.testing.assert_allclose(ours.subspace_.transform(rows), Z, atol=1e-12)
    scores = theirs.score_samples(X)
    np.testing.assert_allclose(ours.score_samples(rows), scores, rtol=1e-9)
    assert ours.score(rows) == pytest.approx(scores.mean())
    with pytest.raises(InvalidInput, match="has 6 features"):
        fs.FairPCA(2).fit(X.to_numpy()[:, :5], sensitive_features=groups).transform(rows)


def test_rows_of_a_new_source_are_fitted_in_parts(rows):
    twice = FairPCA(2).partial_fit(rows).partial_fit(rows)
    assert twice.moments_.counts.sum() == 160


def test_rows_of_a_new_source_are_audited_and_verified(rows, table):
    fair = FairPCA(2).fit(rows)
    ours, theirs = (
        fs.audit(fair, *arguments, folds=5).frame() for arguments in ((rows,), (table, "group"))
    )
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-6)
    assert fs.verify(fair, rows).holds


@pytest.mark.slow
def test_rows_of_a_new_source_are_reported(rows, tmp_path):
    arguments = {"n_components": 2, "compare": [], "folds": None}
    facts = fs.write_report(tmp_path / "page.html", rows, None, **arguments)
    assert facts["rows"]["n_rows"] == 80
    assert "input_sha256" in json.dumps(facts)


def test_data_that_cannot_be_used(patients, tmp_path):
    missing = patients.assign(bmi=patients.bmi.where(patients.index != 6))
    source = write_file(missing, tmp_path / "hospital.db")
    for rows, groups, kind, message in (
        (SqliteRows(source, ("age", "bmi"), group="sex"), None, InvalidInput, "bmi"),
        (object(), "group", InvalidType, "is not a table"),
        ("nowhere.sqlite", "group", InvalidInput, "There is no file"),
    ):
        with pytest.raises(kind, match=message):
            GroupMoments.from_rows(rows, groups)


@pytest.mark.slow
def test_the_command_line_takes_criterion_restriction_and_solver(run, data, tmp_path):
    model = tmp_path / "model"
    options = ("--group", "group", "-d", 2, "--json", "--folds", "none")
    status, out, error = run(
        *(
            "fit",
            data,
            *options,
            "-o",
            model,
            "--criterion",
            CRITERION,
            "--restriction",
            RESTRICTION,
        ),
        *("--restriction-param", "count=4", "--solver", SOLVER, "--solver-param", "n_weights=41"),
    )
    assert status == 0, error
    certificate = json.loads(out)["certificate"]
    assert certificate["criterion"] == "largest_share_lost"
    assert certificate["restriction"] == "FirstFeatures(count=4)"
    # Of the first four features, as the restriction says; the solver looks at each weight once.
    assert not fs.FairSubspace.load(model).components[:, 4:].any()
    assert certificate["n_eigenproblems"] == 41
    verify = ("verify", model, data, "--group", "group")
    assert run(*verify)[0] == 1
    status, out, _ = run(*verify, "--custom-object", CRITERION, "--custom-object", RESTRICTION)
    assert (status, out.splitlines()[0]) == (0, "The certificate holds.")
    parts = ("--custom-object", CRITERION, "--custom-object", RESTRICTION)
    audited = ("audit", data, "--group", "group", "--json", "--model", model, *parts)
    status, out, error = run(*audited, "--folds", 5)
    assert status == 0, error
    assert "was not fitted again" not in out


@pytest.mark.slow
def test_the_command_line_reports_with_criterion_and_display(run, data, tmp_path):
    model = tmp_path / "model"
    options = ("--group", "group", "-d", 2, "--json", "--folds", "none")
    status, _, error = run("fit", data, *options, "-o", model, "--criterion", CRITERION)
    assert status == 0, error
    status, out, error = run(
        *("report", data, *options, "--criterion", CRITERION, "--compare", "error_gap"),
        *("--display", DISPLAY, "--model", model, "--custom-object", CRITERION),
    )
    assert status == 0, error
    facts = json.loads(out)
    assert facts["displays"][0]["name"] == "GroupScree"
    assert facts["displays"][0]["data"]["component"] == [1, 2]
    assert "largest share lost" in [model["name"] for model in facts["models"]]


@pytest.mark.parametrize(
    ("words", "expected_text"),
    [
        (("--criterion", "unheard_of"), "is not one of"),
        (("--criterion", "unheard.of:Thing"), "cannot be imported (ModuleNotFoundError"),
        (("--solver", SOLVER + "s"), "cannot be imported (AttributeError"),
        (("--criterion", "fractions:Fraction"), "criterion is of type Fraction"),
        (("--criterion", RESTRICTION), "inherit from Criterion"),
        (("--solver", SOLVER, "--solver-param", "n_weights=1"), "n_weights is 1"),
        (("--solver", SOLVER, "--solver-param", "steps=1"), "received the parameter 'steps'"),
    ],
)
def test_parts_that_the_command_line_cannot_use_are_named(
    run, data, tmp_path, words, expected_text
):
    status, _, error = run("fit", data, "--group", "group", "-o", tmp_path / "model", *words)
    assert status == 2
    assert expected_text in " ".join(error.split())
    assert not (tmp_path / "model").exists()


@pytest.fixture
def hospital(rows, tmp_path, monkeypatch):
    """Write a module that names rows: as an object, and as a function that returns it."""
    lines = (
        "from somebody_elses_parts.sqlite_rows import SqliteRows, SqliteTable",
        f"ROWS = SqliteRows.of(SqliteTable({rows.source.path!r}, 'patients'), 'group')",
        "def rows():",
        "    return ROWS",
        "NUMBERS = [1, 2]",
    )
    (tmp_path / "hospital_rows.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hospital_rows", raising=False)


@pytest.mark.usefixtures("hospital")
@pytest.mark.parametrize(
    "source", ["hospital_rows:ROWS", pytest.param("hospital_rows:rows", marks=pytest.mark.slow)]
)
def test_the_command_line_reads_rows_of_a_new_source(run, rows, table, tmp_path, source):
    model, moments, page = (tmp_path / name for name in ("model", "moments", "page.html"))
    options = ("-d", 2, "-o", page, "--compare", "error_gap", "--folds", "none")
    for words in (
        ("fit", source, "--exclude", "z", "-d", 2, "-o", model, "--folds", "none"),
        ("audit", source, "--model", model, "--folds", "none"),
        ("verify", model, source),
        ("transform", model, source, "-o", tmp_path / "reduced.csv"),
        ("moments", source, "-o", moments),
    ) + (() if source.endswith("ROWS") else (("report", source, *options),)):
        status, _, error = run(*words)
        assert status == 0, error
    subspace = fs.FairSubspace.load(model)
    assert subspace.feature_names == tuple("uvwxy")
    reduced = pd.read_csv(tmp_path / "reduced.csv").to_numpy()
    np.testing.assert_allclose(reduced, subspace.transform(table), atol=1e-9)
    expected = GroupMoments.from_rows(rows, None)
    assert GroupMoments.load(moments).to_bytes() == expected.to_bytes()
    assert not page.exists() or source in page.read_text()


@pytest.mark.usefixtures("hospital")
@pytest.mark.parametrize(
    ("words", "expected_text"),
    [
        (("hospital_rows:ROWS", "--group", "group"), "omit --group"),
        (("hospital_rows:ROWS", "--weight", "u"), "omit --weight"),
        (("hospital_rows:ROWS", "--clusters", "u"), "--clusters is not supported"),
        (("hospital_rows:NUMBERS",), "type list"),
        (("unheard.of:ROWS",), "cannot be imported"),
        (("nowhere.csv", "--group", "group"), "does not exist"),
    ],
)
def test_rows_that_the_command_line_cannot_use(run, words, expected_text):
    status, _, error = run("audit", *words)
    assert status == 2
    assert expected_text in " ".join(error.split())


class EqualMeans(Restriction):
    """Mean parity, by another package."""

    name = "equal_means"
    forbids_mean_differences_only = True

    def allowed_directions(self, means, covariances, n_components):
        differences = means[1:] - means[0]
        return np.linalg.svd(differences)[2][len(differences) :].T


def test_means_that_rounding_keeps_apart_are_refused_for_every_restriction():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6))
    groups = np.repeat(["a", "b"], 150)
    fair = FairPCA(2, criterion="total_error", restriction=EqualMeans())
    reduced = fair.fit(rows, sensitive_features=groups).transform(rows)
    assert np.allclose(reduced[:150].mean(axis=0), reduced[150:].mean(axis=0))
    rows[groups == "b"] += 1e12 * np.arange(1, 7)
    with pytest.raises(IncompatibleParameters, match="double precision misses it"):
        fair.fit(rows, sensitive_features=groups)


class NearlyEqualMeans(EqualMeans):
    """Mean parity that would allow a small distance between any two groups."""

    name = "nearly_equal_means"
    max_mean_distance = 0.5


def test_a_distance_between_means_may_be_allowed_for_any_number_of_groups():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6))
    groups = np.repeat(["a", "b", "c"], 100)
    fair = FairPCA(3, criterion="total_error", restriction=NearlyEqualMeans())
    reduced = fair.fit(rows, sensitive_features=groups).transform(rows)
    assert np.allclose(reduced[:100].mean(axis=0), reduced[200:].mean(axis=0))


class Half:
    """An object that has a name like a criterion, and is none."""

    name = "half"


class WithoutProof(Criterion):
    """A criterion that nothing can prove."""

    name = "without_proof"

    def value(self, errors, problem):
        return float(errors.max()) ** 2

    def pieces(self, problem):
        return None


class LargestRoot(Criterion):
    """The largest root of an error, with a bound of its own: neither pieces nor concave scores."""

    name = "largest_root"

    def value(self, errors, problem):
        return float(np.sqrt(errors.max()))

    def pieces(self, problem):
        return None

    def scores(self, errors, problem):
        return np.sqrt(errors)

    def score_gradients(self, errors, problem):
        return np.diag(0.5 / np.sqrt(errors))

    def dual_feasible_weights(self, weights, problem):
        return np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()

    def lower_bound(self, min_weighted_error, weights, problem):
        return float(np.sqrt(max(min_weighted_error, 0.0)))


class LargestRootOfLoss(LargestRoot):
    """The same criterion of losses, for which solvers compute no pieces."""

    uses_excess_loss = True


@pytest.mark.parametrize("criterion", [LargestRoot(), LargestRootOfLoss()])
@pytest.mark.parametrize("solver", ["auto", "dual_newton"])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_a_criterion_that_no_solver_searches_is_refused(criterion, solver, n_groups):
    """Not handed to the search of another criterion, whose answer would be wrong."""
    rows = np.random.default_rng(0).normal(size=(30, 4))
    fair = FairPCA(2, criterion=criterion, solver=solver)
    with pytest.raises(IncompatibleParameters, match="maxima of affine functions") as error:
        fair.fit(rows, sensitive_features=np.arange(30) % n_groups)
    assert "Solvers that support it" in str(error.value)


@pytest.mark.parametrize(
    ("criterion", "error", "expected_text"),
    [
        (Half(), InvalidType, "Half.* Criterion"),
        (WithoutProof(), IncompatibleParameters, "neither pieces nor"),
        (LargestShareLost, InvalidType, "the class LargestShareLost itself"),
        ("nobody_has_this", InvalidParameter, "Choose one of"),
    ],
)
def test_missing_methods_of_an_object_are_named(criterion, error, expected_text, moments):
    with pytest.raises(error, match=expected_text):
        FairPCA(2, criterion=criterion).fit_moments(moments)
