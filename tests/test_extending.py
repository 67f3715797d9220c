"""What the pages on extending say, done: a criterion, a solver and a source of one's own."""

import sqlite3

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from somebody_elses_parts.largest_share_lost import LargestShareLost
from somebody_elses_parts.sqlite_rows import SqliteRows, SqliteTable, SqliteTables
from somebody_elses_parts.weight_grid import WeightGrid

from fairspan import FairPCA, GroupMoments, audit, registry
from fairspan.errors import Incompatible, InvalidInput, InvalidType
from fairspan.extending import register
from fairspan.problem.criteria import MinimaxError, MinimaxLoss, NashWelfare
from fairspan.solvers.choose import Auto
from fairspan.solvers.two_groups.boundary_search import BoundarySearch
from problems import problem_of, random_moments

PATIENTS = load_diabetes(as_frame=True, scaled=False).data
MOMENTS = GroupMoments.from_rows(PATIENTS, "sex")


@pytest.fixture(autouse=True, scope="module")
def _nothing_stays_registered():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_registered", {kind: {} for kind in registry._registered})
        yield


def shares_lost(basis, matrices):
    kept = np.einsum("pd,gpq,qd->g", basis, matrices, basis)
    return 1 - kept / np.trace(matrices, axis1=1, axis2=2)


@pytest.mark.parametrize("n_groups", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_criterion_is_solved_to_its_bound_without_a_line_in_any_solver(n_groups, seed):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, n_groups, 6)
    problem = problem_of(matrices, 3, LargestShareLost())
    solution = Auto().solve(problem, 1e-9)
    largest = shares_lost(solution.components.T, matrices).max()
    assert solution.objective == pytest.approx(problem.total_variance * largest)
    assert solution.status == "optimal" or n_groups > 2
    for _ in range(200):
        other = np.linalg.qr(rng.standard_normal((6, 3)))[0]
        value = problem.total_variance * shares_lost(other, matrices).max()
        assert value >= solution.lower_bound - 1e-9


def test_groups_of_the_same_variance_make_it_the_minimax_error():
    matrices = random_moments(np.random.default_rng(1), 2, 5)
    matrices /= np.trace(matrices, axis1=1, axis2=2)[:, None, None]
    found = [
        BoundarySearch().solve(problem_of(matrices, 2, each), 1e-10).objective
        for each in (LargestShareLost(), MinimaxError())
    ]
    assert found[0] == pytest.approx(found[1])


def test_a_registered_criterion_is_asked_for_by_name():
    register("criterion", "largest_share_lost", LargestShareLost)
    fair = FairPCA(3, criterion="largest_share_lost", scale=True).fit_moments(MOMENTS)
    other = FairPCA(3, scale=True).fit_moments(MOMENTS)
    kept = fair.group_explained_variance_ratio_.sum(axis=1)
    assert fair.solution_.status == "optimal"
    assert kept.min() >= other.group_explained_variance_ratio_.sum(axis=1).min() - 1e-9
    assert fair.solution_.objective == pytest.approx(
        (1 - kept.min()) * MOMENTS.n_features, rel=1e-9
    )


def test_what_a_registered_factory_makes_must_be_a_criterion():
    register("criterion", "half", object)
    with pytest.raises(InvalidType, match="criterion is"):
        FairPCA(3, criterion="half").fit_moments(MOMENTS)


@pytest.mark.long
@pytest.mark.parametrize("criterion", [MinimaxLoss(), MinimaxError(), LargestShareLost()])
def test_the_solver_brackets_the_exact_answer_and_never_claims_more(criterion):
    matrices = random_moments(np.random.default_rng(4), 2, 6)
    problem = problem_of(matrices, 2, criterion)
    exact = BoundarySearch().solve(problem, 1e-10)
    coarse = WeightGrid(11).solve(problem, 1e-10)
    fine = WeightGrid(1001).solve(problem, 1e-10)
    for grid in (coarse, fine):
        assert grid.lower_bound <= exact.objective + 1e-9
        assert grid.objective >= exact.objective - 1e-9
        assert (grid.status == "optimal") == (grid.gap <= grid.tolerance)
    assert fine.gap <= coarse.gap
    assert fine.gap < 0.02 * problem.total_variance


def test_a_registered_solver_is_asked_for_by_name_and_says_what_it_cannot_take():
    register("solver", "weight_grid", WeightGrid)
    fair = FairPCA(3, solver="weight_grid", tol=1e-2).fit_moments(MOMENTS)
    assert fair.solver_ == "weight_grid"
    assert fair.solution_.status == "optimal"
    with pytest.raises(Incompatible, match="two linear pieces only"):
        FairPCA(3, criterion=NashWelfare(), solver="weight_grid").fit_moments(MOMENTS)


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "hospital.db")
    with sqlite3.connect(path) as opened:
        PATIENTS.to_sql("patients", opened, index=False)
    opened.close()
    return SqliteTable(path, "patients")


def test_opened_rows_of_a_new_source_need_no_registration(database):
    features = tuple(name for name in PATIENTS.columns if name != "sex")
    rows = SqliteRows(database, features, group="sex")
    fair = FairPCA(3, scale=True).fit(rows)
    expected = FairPCA(3, scale=True).fit(PATIENTS, sensitive_features="sex")
    np.testing.assert_allclose(fair.components_, expected.components_, atol=1e-9)
    assert rows.n_rows == len(PATIENTS)
    ours, theirs = audit(fair, rows), audit(expected, PATIENTS, "sex")
    assert ours.models[0].groups == theirs.models[0].groups


def test_a_missing_cell_is_found_with_its_row(database):
    with sqlite3.connect(database.path) as opened:
        opened.execute("UPDATE patients SET bmi = NULL WHERE rowid = 7")
    opened.close()
    with pytest.raises(InvalidInput, match="bmi"):
        GroupMoments.from_rows(SqliteRows(database, ("age", "bmi"), group="sex"), None)


def test_a_registered_source_is_read_by_name_of_its_group(database):
    register("source", "sqlite", SqliteTables)
    moments = GroupMoments.from_rows(database, "sex")
    np.testing.assert_allclose(moments.scatters, MOMENTS.scatters, rtol=1e-9)
    assert list(moments.feature_names) == list(MOMENTS.feature_names)
