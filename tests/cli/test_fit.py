"""`fairspan fit`: what is saved, what is printed, and with which solver."""

import re

import numpy as np
import pytest

import fairspan as fs
from case_selection import parametrize_diagonal
from cli.pca_reference import assert_agrees, reference_figures, reference_pca

# No figures for new rows are estimated.
QUICK = ("--folds", "none")


def losses_of(figures):
    return [group.error - group.best_error for group in figures.values()]


@parametrize_diagonal(center=["global", "group", "none"], standardize=[False, True])
def test_the_saved_model_does_to_the_rows_what_was_printed(
    run, data, table, features, tmp_path, center, standardize
):
    model = tmp_path / "m"
    flags = ["--standardize"] if standardize else []
    settings = ("--group", "age", "-d", 2, "--center", center, *flags, *QUICK)
    facts = run("fit", data, *settings, "-o", model, "--json").facts
    X = table[features].to_numpy(dtype=float)
    subspace = fs.FairSubspace.load(model)
    mean = np.zeros(5) if center == "none" else X.mean(axis=0)
    scale = X.std(axis=0) if standardize else np.ones(5)
    np.testing.assert_allclose(subspace.mean, mean, rtol=1e-12, atol=1e-12)
    expected = reference_figures(X, table["age"], subspace.components, mean, scale, center=center)
    plain, fair = facts["models"]
    assert [plain["name"], fair["name"]] == ["PCA", "minimax loss"]
    assert_agrees(fair, expected)
    reference = reference_pca(X, table["age"], 2, center=center, standardize=standardize)
    assert_agrees(plain, reference)
    assert facts["model"] == str(model)
    assert facts["certificate"]["objective"] == pytest.approx(max(losses_of(expected)), rel=1e-9)
    assert max(losses_of(expected)) <= max(losses_of(reference))


def test_nested_components_are_those_of_python_with_a_record_of_each(
    run, data, table, features, tmp_path
):
    model = tmp_path / "m"
    settings = ("--group", "age", "-d", 3, "--nested", *QUICK, "-o", model)
    certificate = run("fit", data, *settings, "--json").facts["certificate"]
    fair = fs.FairPCA(3, nested=True).fit(table[features], sensitive_features=table["age"])
    np.testing.assert_allclose(fs.FairSubspace.load(model).components, fair.components_, atol=1e-9)
    steps = fair.solution_.steps
    for d, (record, step) in enumerate(zip(certificate["nested"], steps, strict=True), start=1):
        first = fair.subspace_.truncate(d).certificate
        assert (record["n_components"], record["objective"]) == (d, pytest.approx(first.objective))
        assert record["step"]["objective"] == pytest.approx(step.objective, rel=1e-9)
        assert record["step"]["status"] == "optimal"
    assert run("verify", model, data, "--group", "age").status == 0
    words = " ".join(run("fit", data, *settings).out.split())
    assert "Certificate: nested minimax loss is" in words
    run("fit", data, *settings, "--criterion", "error_gap", status=2, err="nested")


def test_saved_moments_give_the_same_model_without_intervals(run, data, table, features, tmp_path):
    moments = tmp_path / "table.moments"
    models = (tmp_path / "a", tmp_path / "b")
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    rows = run("fit", data, "--group", "age", "-d", 2, "-o", models[0], "--json").facts
    of_moments = run("fit", moments, "-d", 2, "-o", models[1], "--json").facts
    first, second = map(fs.FairSubspace.load, models)
    np.testing.assert_allclose(first.components, second.components, atol=1e-9)
    assert second.feature_names == tuple(features)
    # Moments have labels, and not the names of the columns that define them.
    assert of_moments["rows"] == {**rows["rows"], "has_intervals": False, "group_columns": []}
    assert {group["observed_error_low"] for group in of_moments["models"][1]["groups"]} == {None}
    assert "FS106" in [finding["code"] for finding in of_moments["findings"]]


OTHERS = {
    "dimensions: 2, now 3": ("-d", 3),
    "standardize: False, now True": ("-d", 2, "--standardize"),
    "center: global, now group": ("-d", 2, "--center", "group"),
    "criterion: minimax_loss, now total_error": ("-d", 2, "--criterion", "total_error"),
}


def test_a_model_of_other_settings_is_replaced_by_force_alone(run, data, tmp_path):
    model = tmp_path / "fair.model"
    first = ("fit", data, "--group", "age", "-o", model, *QUICK)
    run(*first, "-d", 2, status=0, err=None)
    original_bytes = model.read_bytes()
    run(*first, "-d", 2, status=0, err=None)  # the same again
    assert model.read_bytes() == original_bytes
    for message, other in OTHERS.items():
        run(*first, *other, status=2, err=message)
        assert model.read_bytes() == original_bytes
    assert run(*first, *other, "--force").status == 0
    assert model.read_bytes() != original_bytes
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "fair.model"}


def test_a_file_that_is_no_model_is_replaced_by_force_alone(run, data, tmp_path):
    path = tmp_path / "notes"
    path.write_text("do not lose this")
    command = ("fit", data, "--group", "age", "-d", 2, *QUICK, "-o", path)
    assert "is not a model" in run(*command).err
    assert path.read_text() == "do not lose this"
    moments = tmp_path / "age.moments"
    run("moments", data, "--group", "age", "-o", moments)
    assert "not a readable model" in run(*command[:-1], moments).err
    assert (run(*command, "--force").status, fs.FairSubspace.load(path).n_components) == (0, 2)


@pytest.mark.parametrize(
    ("options", "solver", "settings"),
    [
        (["--solver", "dual_newton", "--tol", "1e-6"], "dual_newton", {"tol": 1e-6}),
        (
            ["--solver", "multiplicative", "--solver-param", "max_iter=7"],
            fs.MultiplicativeWeights(max_iter=7),
            {},
        ),
        pytest.param(
            ["--solver", "riemannian", "--solver-param", "n_starts=2", "--criterion", "error_gap"],
            fs.RiemannianSubgradient(n_starts=2),
            {"criterion": "error_gap", "random_state": 0},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["newton", "multiplicative", "riemannian"],
)
def test_a_solver_and_its_parameters_are_those_of_python(
    run, data, table, features, tmp_path, options, solver, settings
):
    command = ("fit", data, "--group", "age", "-d", 2, "--folds", "none", *options)
    facts = run(*command, "-o", tmp_path / "m", "--json").facts["certificate"]
    fair = fs.FairPCA(2, solver=solver, **settings)
    fair.fit(table[features], sensitive_features=table["age"])
    certificate = fair.solution_
    assert facts["n_eigenproblems"] == certificate.n_eigenproblems
    assert facts["absolute_tol"] == pytest.approx(certificate.absolute_tol, rel=1e-6)
    assert facts["objective"] == pytest.approx(certificate.objective, rel=1e-9)
    np.testing.assert_allclose(
        fs.FairSubspace.load(tmp_path / "m").components, fair.components_, atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "objective"),
    # A line along one corner leaves sin^2(pi / 3) of the others; half of the plane, half of all.
    [pytest.param([], 0.75, marks=pytest.mark.slow), (["--allow-extra"], 0.5)],
    ids=["exactly d", "extra"],
)
def test_extra_components_reach_what_exactly_d_do_not(run, tmp_path, options, objective):
    """The corners of a triangle: no line is fair to all, a soft projection is."""
    np.savetxt(
        tmp_path / "three.csv",
        [[x, y, g] for g, angle in enumerate((0, 2, 4)) for s in (1, -1)
         for x, y in [(s * np.cos(angle * np.pi / 3), s * np.sin(angle * np.pi / 3))]],
        delimiter=",", header="x,y,g", comments="",
    )  # fmt: skip
    command = ("fit", tmp_path / "three.csv", "--group", "g", "-d", 1, "--folds", "none")
    command += ("--criterion", "minimax_error", "--json", "-o", tmp_path / "m")
    facts = run(*command, *options).facts["certificate"]
    assert facts["objective"] == pytest.approx(objective, abs=1e-6)


def test_a_fit_is_evaluated_as_requested(run, data, table, features, tmp_path):
    path = tmp_path / "clustered.csv"
    clusters = [f"clinic {i // 4}" for i in range(len(table))]
    table.drop(columns="sex").assign(clinic=clusters).to_csv(path, index=False)
    command = ("fit", path, "--group", "age", "-d", 2, "-o", tmp_path / "m", "--json")
    options = ("--clusters", "clinic", "--folds", 5, "--level", 0.9, "--materiality", 0.05)
    facts = run(*command, *options).facts
    fair = fs.FairPCA(2).fit(table[features], sensitive_features=table["age"])
    expected = fs.audit(
        fair, table[features], table["age"], clusters=clusters, folds=5, level=0.9, materiality=0.05
    )
    assert (facts["level"], facts["materiality"]) == (0.9, 0.05)
    records = (facts["models"][1]["groups"], expected.models[0].records)
    for one, other in zip(*records, strict=True):
        for name in ("expected_loss", "expected_loss_low"):
            assert one[name] == pytest.approx(other[name], rel=1e-6)
    assert run(*command, "--folds", "none", "--exclude", "clinic").facts["verdict"] is None


@pytest.mark.long
def test_a_page_is_evaluated_and_named_as_requested(run, data, table, features, tmp_path):
    command = ("report", data, "--group", "age", "-d", 2, "--level", 0.9, "--materiality", 0.05)
    command += ("--compare", "equal_error", "--title", "Of two ages", "--folds", 5)
    facts = run(*command, "-o", tmp_path / "page.html", "--json").facts
    by_python = fs.write_report(
        tmp_path / "by_python.html", table[features], table["age"], n_components=2,
        compare=["equal_error"], level=0.9, materiality=0.05, folds=5, title="Of two ages",
    )  # fmt: skip
    assert [model_facts["name"] for model_facts in facts["models"]] == [
        "PCA",
        "minimax loss",
        "equal error",
    ]
    for one, other in zip(facts["models"], by_python["models"], strict=True):
        for command_group, python_group in zip(one["groups"], other["groups"], strict=True):
            assert command_group["expected_loss_low"] == pytest.approx(
                python_group["expected_loss_low"], rel=1e-6
            )
    assert facts["title"] == "Of two ages"
    page = (tmp_path / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "90 %" in page
    assert not re.search(r"\b95 %", page)
    assert "level=0.9" in by_python["provenance"]["command"]
    quick = run(*command[:6], "--folds", "none", "--compare", "equal_error", "--json").facts
    assert quick["verdict"] is None


def test_rows_in_few_dimensions_are_fitted_and_verified(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 4))
    lines = [",".join(map(repr, row)) + f",{'xy'[i % 2]}" for i, row in enumerate(rows.tolist())]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(["a,b,c,d,g", *lines]) + "\n")
    settings = ("--group", "g", "-d", 2, *QUICK)
    facts = run("fit", table, *settings, "-o", tmp_path / "m", "--json").facts
    assert facts["certificate"]["status"] == "optimal"
    assert "The certificate holds" in run("verify", tmp_path / "m", table, "--group", "g").out


def test_a_rotation_changes_components_and_no_figure(run, data, table, features, tmp_path):
    command = ("fit", data, "--group", "age", "-d", 3)
    plain = run(*command, "-o", tmp_path / "plain.model", "--json").facts
    path = tmp_path / "rotated.model"
    rotated_facts = run(*command, "-o", path, "--rotation", "varimax", "--json").facts
    assert rotated_facts["certificate"] == plain["certificate"]
    for name in ("observed_error", "expected_loss", "expected_loss_high"):
        expected, actual = (
            [group[name] for group in facts["models"][1]["groups"]]
            for facts in (plain, rotated_facts)
        )
        assert actual == pytest.approx(expected, rel=1e-9)
    fair = fs.FairPCA(3, rotation="varimax").fit(table[features], sensitive_features=table["age"])
    np.testing.assert_allclose(fs.load(path).components, fair.components_, atol=1e-9)
    run("verify", path, data, "--group", "age", status=0)
