"""How a fit is solved and judged, said on the command line: as Python fits and audits."""

import re

import numpy as np
import pytest

import fairspan as fs

THREE = ("--group", "age", "--group", "sex", "-d", 2)


@pytest.mark.parametrize(
    ("options", "solver", "settings"),
    [
        (["--solver", "dual_newton", "--tol", "1e-6"], "dual_newton", {"tol": 1e-6}),
        (
            ["--solver", "multiplicative", "--solver-param", "max_iter=7"],
            fs.MultiplicativeWeights(max_iter=7),
            {},
        ),
        (
            ["--solver", "riemannian", "--solver-param", "n_starts=2", "--criterion", "error_gap"],
            fs.RiemannianSubgradient(n_starts=2),
            {"criterion": "error_gap", "random_state": 0},
        ),
    ],
    ids=["newton", "multiplicative", "riemannian"],
)
def test_a_solver_with_its_parameters(
    run, data, table, features, tmp_path, options, solver, settings
):
    command = ("fit", data, "--group", "age", "-d", 2, "--folds", "none", *options)
    found = run(*command, "-o", tmp_path / "m", "--json").facts["certificate"]
    fair = fs.FairPCA(2, solver=solver, **settings)
    fair.fit(table[features], sensitive_features=table["age"])
    certificate = fair.solution_
    assert found["n_eigenproblems"] == certificate.n_eigenproblems
    assert found["tolerance"] == pytest.approx(certificate.tolerance, rel=1e-6)
    assert found["objective"] == pytest.approx(certificate.objective, rel=1e-9)
    np.testing.assert_allclose(
        fs.FairSubspace.load(tmp_path / "m").components, fair.components_, atol=1e-6
    )


def test_extra_components_reach_what_exactly_d_do_not(run, tmp_path):
    """The corners of a triangle: no line is fair to all, a soft projection is."""
    np.savetxt(
        tmp_path / "three.csv",
        [[x, y, g] for g, angle in enumerate((0, 2, 4)) for s in (1, -1)
         for x, y in [(s * np.cos(angle * np.pi / 3), s * np.sin(angle * np.pi / 3))]],
        delimiter=",", header="x,y,g", comments="",
    )  # fmt: skip
    command = ("fit", tmp_path / "three.csv", "--group", "g", "-d", 1, "--folds", "none")
    command += ("--criterion", "minimax_error", "--json", "-o", tmp_path / "m")
    whole, soft = (run(*command, *more).facts["certificate"] for more in ([], ["--allow-extra"]))
    # A line along one corner leaves sin^2(pi / 3) of the others; half of the plane, half of all.
    assert whole["objective"] == pytest.approx(0.75, abs=1e-6)
    assert soft["objective"] == pytest.approx(0.5, abs=1e-6)


def test_a_fit_is_judged_as_asked(run, data, table, features, tmp_path):
    path = tmp_path / "clustered.csv"
    clusters = [f"clinic {i // 4}" for i in range(len(table))]
    table.drop(columns="sex").assign(clinic=clusters).to_csv(path, index=False)
    command = ("fit", path, "--group", "age", "-d", 2, "-o", tmp_path / "m", "--json")
    judged = ("--clusters", "clinic", "--folds", 5, "--level", 0.9, "--material", 0.05)
    found = run(*command, *judged).facts
    fair = fs.FairPCA(2).fit(table[features], sensitive_features=table["age"])
    expected = fs.audit(
        fair, table[features], table["age"], clusters=clusters, folds=5, level=0.9, material=0.05
    )
    assert (found["level"], found["material"]) == (0.9, 0.05)
    losses = [group["expected"]["loss"] for group in found["models"][1]["groups"]]
    in_python = [group.expected.loss for group in expected.models[0].groups]
    for one, other in zip(losses, in_python, strict=True):
        assert one["value"] == pytest.approx(other.value, rel=1e-6)
        assert one["low"] == pytest.approx(other.low, rel=1e-6)
    assert run(*command, "--folds", "none", "--exclude", "clinic").facts["verdict"] is None


@pytest.mark.long
def test_a_page_is_judged_and_named_as_asked(run, data, table, features, tmp_path):
    command = ("report", data, "--group", "age", "-d", 2, "--level", 0.9, "--material", 0.05)
    command += ("--compare", "equal_error", "--title", "Of two ages", "--folds", 5)
    found = run(*command, "-o", tmp_path / "page.html", "--json").facts
    by_python = fs.write_report(
        tmp_path / "by_python.html", table[features], table["age"], n_components=2,
        criteria=["equal_error"], level=0.9, material=0.05, folds=5, title="Of two ages",
    )  # fmt: skip
    assert [each["name"] for each in found["models"]] == ["PCA", "minimax_loss", "equal_error"]
    for one, other in zip(found["models"], by_python["models"], strict=True):
        for here, there in zip(one["groups"], other["groups"], strict=True):
            assert here["expected_loss_low"] == pytest.approx(there["expected_loss_low"], rel=1e-6)
    assert found["title"] == "Of two ages"
    page = (tmp_path / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "at 90 % confidence" in page
    assert not re.search(r"\b95 %", page)
    assert "level=0.9" in by_python["made"]["command"]
    quick = run(*command[:6], "--folds", "none", "--compare", "equal_error", "--json").facts
    assert quick["verdict"] is None
