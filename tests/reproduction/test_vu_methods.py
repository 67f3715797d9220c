"""The methods of the RFPCA experiments, and how one repeat chooses and judges."""

import numpy as np
import pytest

from fairspan import GroupMoments, RobustErrorGap
from fairspan.estimator.fit import fit_subspace
from reproduction.experiment import Effort
from reproduction.vu import methods
from reproduction.vu.data_sets import DATA_SETS, data_set_of
from reproduction.vu.methods import Method
from reproduction.vu.plans import CERTIFIED, PAPERS, plan_of
from reproduction.vu.protocol import errors_of
from reproduction.vu.repeats import (
    Repeat,
    chosen_setting,
    figures_of,
    folded,
    one_repeat,
)
from reproduction.vu.toy import toy_rows


def rows_of_two_groups(seed, p=6, n=(90, 60)):
    generator = np.random.default_rng(seed)
    spread = generator.uniform(0.3, 3, size=(2, p))
    rows = [generator.standard_normal((m, p)) * s for m, s in zip(n, spread, strict=True)]
    return np.concatenate(rows), np.repeat(["a", "b"], n)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("penalty", [0.5, 2.5])
def test_the_certified_answer_is_never_above_the_papers(seed, penalty):
    X, groups = rows_of_two_groups(seed)
    moments = GroupMoments.from_rows(X, groups)
    setting = {"radius": 0.15, "penalty": penalty}
    exact = methods.certified_rfpca(moments, 3, setting, 0)
    theirs = methods.papers_rfpca(3, 200)(moments, 3, setting, 0)
    slack = 1e-6 * exact.problem.total_variance
    assert exact.solution.objective <= theirs.solution.objective + slack
    assert exact.solution.gap <= slack


def test_their_objectives_are_the_robust_error_gap():
    X, groups = rows_of_two_groups(0)
    moments = GroupMoments.from_rows(X, groups)
    fit = methods.certified_rfpca(moments, 3, {"radius": 0.1, "penalty": 1.5}, 0)
    criterion = RobustErrorGap(1.5, 0.1)
    assert fit.solution.objective == pytest.approx(criterion.value(fit.errors, fit.problem))


def test_parity_is_kept():
    X, groups = rows_of_two_groups(3)
    X[groups == "a"] += np.linspace(0, 1, X.shape[1])
    moments = GroupMoments.from_rows(X - X.mean(axis=0), groups)
    difference = moments.means[0] - moments.means[1]
    exact = methods.mean_parity(moments, 3, {}, 0).subspace.components
    assert np.linalg.norm(exact @ difference) < 1e-9
    tolerant = methods.mean_parity(moments, 3, {"tolerance": 0.3}, 0).subspace.components
    assert np.linalg.norm(tolerant @ difference) == pytest.approx(0.3, rel=1e-6)


@pytest.mark.parametrize("share", [0.3, 0.0001])
def test_variances_differ_by_no_more_than_the_limit(share):
    X, groups = rows_of_two_groups(5, p=5)
    moments = GroupMoments.from_rows(X - X.mean(axis=0), groups)
    first, second = moments.second_moments("group")
    limited = methods.limited_covariances(moments, 2, {"share": share}, 0).subspace.components
    closest = methods.closest_covariances(moments, 2, {}, 0).subspace.components

    def differences(components):
        return np.abs(np.linalg.eigvalsh(components @ (first - second) @ components.T)).max()

    difference = moments.means[0] - moments.means[1]
    assert np.linalg.norm(limited @ difference) < 1e-8
    largest = np.abs(np.linalg.eigvalsh(first - second)).max()
    assert differences(limited) <= max(share * largest, 1.1 * differences(closest)) * (1 + 1e-6)
    pooled = np.tensordot(moments.proportions, moments.second_moments("none"), axes=1)
    kept = [np.trace(each @ pooled @ each.T) for each in (limited, closest)]
    assert kept[0] >= kept[1] * (1 - 1e-6)


def test_fair_pca_is_about_each_groups_own_mean():
    X, groups = rows_of_two_groups(2)
    moments = GroupMoments.from_rows(X, groups)
    shifted = GroupMoments.from_rows(X + 5 * (groups == "a")[:, None], groups)
    fits = [methods.exact_fair_pca(each, 2, {}, 0) for each in (moments, shifted)]
    projectors = [fit.subspace.components.T @ fit.subspace.components for fit in fits]
    np.testing.assert_allclose(projectors[0], projectors[1], atol=1e-6)


@pytest.mark.unverified
def test_the_setting_of_least_gap_and_error_is_chosen():
    train = toy_rows((80, 40), np.random.default_rng(0))
    folds = folded(train, 3, seed=0)
    one = Method("axis", None, _axis, ({"axis": 0.0}, {"axis": 1.0}))
    errors = [errors_of(np.eye(2)[[axis]], part) for axis in (0, 1) for _, part in folds]
    sums = [each.gap + each.error for each in errors]
    best = int(np.mean(sums[3:]) < np.mean(sums[:3]))
    assert chosen_setting(one, folds, 0) == {"axis": float(best)}


def _axis(moments, d, setting, seed):
    fit = fit_subspace(moments, 1, criterion="total_error", center="none")
    components = np.eye(moments.n_features)[[int(setting["axis"])]]
    object.__setattr__(fit.subspace, "components", components)
    return fit


def test_a_repeat_follows_judges_and_leaves_out():
    X, groups = rows_of_two_groups(1, n=(150, 100))
    certified = Method("exact", None, methods.certified_rfpca, methods.grid((0.1,), (0.0, 2.0)))
    follower = Method("theirs", None, methods.papers_rfpca(2, 100), follows="exact")
    small = Method("small", None, methods.pca, most_features=5)
    outcomes = one_repeat(X, groups, (certified, follower, small), Repeat(seed=0, leakage=True))
    assert outcomes["small"] == {"left_out": "6 features, over 5"}
    assert outcomes["theirs"]["setting"] == outcomes["exact"]["setting"]
    assert 0 <= outcomes["exact"]["leakage"] <= 1
    # The errors of 75 and 175 rows, of six features of which three are kept.
    assert outcomes["exact"]["train"]["error"] < outcomes["exact"]["test"]["error"]
    assert (
        figures_of([outcomes] * 2, "exact", "test", "gap") == [outcomes["exact"]["test"]["gap"]] * 2
    )
    assert figures_of([outcomes], "small", "test", "gap") == []
    assert figures_of([outcomes], "never run", "test", "gap") == []


def test_the_plans_are_the_papers():
    normal, full = plan_of(Effort.NORMAL), plan_of(Effort.FULL)
    assert len(DATA_SETS) == 15
    assert normal.n_repeats == full.n_repeats == 10
    certified = next(m for m in full.methods(DATA_SETS[0], 0) if m.name == CERTIFIED.name)
    theirs = next(m for m in full.methods(DATA_SETS[0], 0) if m.name == PAPERS.name)
    assert len(certified.settings) == len(theirs.settings) == 18
    assert theirs.follows is None
    assert data_set_of("lfw").n_folds == 2
    assert data_set_of("biodeg").n_folds == 3
