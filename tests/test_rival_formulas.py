"""Formulas of others, as the benchmarks have them, against ours and what they promise."""

import sys
from dataclasses import astuple
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fairspan import CovarianceParity, FairPCA, GroupMoments, MeanParity
from fairspan.errors import IncompatibleParameters
from problems import least_of_angles

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks are in the repository only", allow_module_level=True)
sys.path.append(str(ROOT))
from benchmarks import hiders, hiding, worst_case  # noqa: E402
from benchmarks.rows import made, standardized  # noqa: E402

D = 3


def two_groups(p=8, n=300):
    X, group = made(n, p)
    return standardized(X), group, np.random.default_rng(1).integers(0, 2, n)


def reduced(method, X, group, label):
    return method(X, group, label, D)(X, group)


def assert_same_rows_but_for_a_rotation(first, second):
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=1e-9 * (first**2).sum())


def apart(Z, group):
    return np.abs(Z[group == 1].mean(axis=0) - Z[group == 0].mean(axis=0)).max()


def test_mean_parity_is_fair_pca_of_kleindessner_et_al():
    rows = two_groups()
    ours = reduced(partial(hiders.ours, MeanParity()), *rows)
    theirs = reduced(hiders.kleindessner, *rows)
    assert_same_rows_but_for_a_rotation(ours, theirs)
    assert apart(theirs, rows[1]) < 1e-12


def test_covariance_parity_is_that_of_kleindessner_et_al_in_as_many_directions():
    X, group, label = two_groups()
    theirs = hiders.kleindessner(X, group, label, D, covariances=True)
    as_many = CovarianceParity(n_directions=int(0.85 * X.shape[1]))
    ours = hiders.ours(as_many, X, group, label, D)
    assert_same_rows_but_for_a_rotation(ours(X, group), theirs(X, group))


@pytest.mark.parametrize("constant", [False, True])
def test_oblique_mean_parity_is_pca_of_what_leace_leaves(constant):
    X, group, label = two_groups()
    if constant:  # a singular covariance
        X = np.column_stack([X, X[:, 0] - X[:, 1]])
    theirs = reduced(hiders.erased, X, group, label)
    ours = reduced(partial(hiders.ours, MeanParity(oblique=True)), X, group, label)
    assert_same_rows_but_for_a_rotation(ours, theirs)
    assert apart(theirs, group) < 1e-12


@pytest.mark.parametrize(("p", "n"), [(8, 300), (20, 60), (30, 12)])
def test_oblique_mean_parity_of_full_rank_is_leace(p, n):
    rng = np.random.default_rng(p)
    X, group = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)), np.arange(n) % 2
    new = rng.normal(size=(40, p))
    mean, along = X.mean(axis=0), (X - X.mean(axis=0)).T @ (group - 0.5) / n
    across = np.linalg.pinv(np.cov(X.T, bias=True), rcond=1e-10, hermitian=True) @ along

    def erased(rows):
        return rows - np.outer((rows - mean) @ across, along / (along @ across))

    whole = FairPCA(
        min(p, n - 1) - 1, criterion="total_error", restriction=MeanParity(oblique=True)
    )
    whole.fit(X, sensitive_features=group)
    again = whole.inverse_transform(whole.transform(X))
    assert np.abs(again - erased(X)).max() <= 2e-13 * np.abs(X).max()
    # Beside the span of the rows of the fit, it drops what LEACE leaves.
    new_again = whole.inverse_transform(whole.transform(new))
    assert (np.abs(new_again - erased(new)).max() <= 1e-11 * np.abs(X).max()) == (n > p)


def test_every_method_but_pca_makes_the_means_agree():
    X, group, label = two_groups()
    # Exact covariance parity needs a conic solver here; it has tests of its own.
    for name in sorted(set(hiders.METHODS) - {"`CovarianceParity(tolerance=0.0)`"}):
        method = hiders.METHODS[name]
        Z = reduced(method, X, group, label)
        assert Z.shape == (len(X), D)
        if "within_classes" in name:
            of_class = [apart(Z[label == each], group[label == each]) for each in (0, 1)]
            assert max(of_class) < 1e-10
        else:
            assert (apart(Z, group) < 1e-10) == (name != "PCA"), name


def worst_case_of(p, k, d):
    moments = GroupMoments.from_rows(*made(400, p, k))
    second = moments.second_moments("group")
    best = np.linalg.eigvalsh(second)[:, -d:].sum(axis=1)
    fair = FairPCA(d, center="group").fit_moments(moments)
    return second, best, fair.solution_.objective


def test_rivals_of_the_worst_case_end_above_the_optimum_and_near_it():
    second, best, least = worst_case_of(6, 3, 2)
    V = worst_case.descents(second, best, 2, starts=1, steps=300)
    W, bound = worst_case.mirror_prox(second, best, 2, rounds=200)
    for each in (V, W):
        np.testing.assert_allclose(each.T @ each, np.eye(2), atol=1e-12)
        assert least - 1e-12 <= worst_case.largest_loss(second, best, each) <= 1.3 * least
    assert 0.7 * least < bound <= least + 1e-12


def test_rivals_find_the_best_angle_in_the_plane():
    second, best, least = worst_case_of(2, 2, 1)
    by_hand, _ = least_of_angles(lambda line: worst_case.largest_loss(second, best, line))
    assert least == pytest.approx(by_hand, rel=1e-6)
    V = worst_case.descents(second, best, 1, starts=2, steps=500)
    assert worst_case.largest_loss(second, best, V) == pytest.approx(by_hand, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_level_of_mirror_prox_makes_the_trace_d(d):
    values = np.array([3.0, 2.9, 0.5, -1.0, -4.0])
    level = worst_case._level(values, d)
    assert np.minimum(np.exp(values + level), 1).sum() == pytest.approx(d)


def test_splits_have_the_same_share_of_everything_and_the_units_of_the_first_half():
    X, group, label = two_groups(n=400)
    X = np.column_stack([5 + 3 * X, np.ones(len(X))])
    parts = hiding.split(hiding.Rows(X, group, label), seed=0)
    three = (parts.fit, parts.look, parts.judge)
    assert [each.X.shape for each in three] == [(200, 8), (100, 8), (100, 8)]
    for each in three:
        shares = each.group.mean(), each.label.mean()
        assert shares == pytest.approx((group.mean(), label.mean()), abs=0.02)
    np.testing.assert_allclose(parts.fit.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(parts.fit.X.std(axis=0), 1)
    together = np.vstack([each.X for each in three])
    assert len(np.unique(together, axis=0)) == len(np.unique(X, axis=0))


def test_all_components_keep_all_variance_and_the_table_has_a_dash_without_an_answer():
    X, group, label = two_groups(n=400)
    parts = hiding.split(hiding.Rows(X, group, label), seed=0)
    with threadpool_limits(1):  # trees wait for each other with more
        found = hiding.judged(partial(hiders.plain, d=X.shape[1]), parts)
    assert found.kept == pytest.approx(1)
    assert all(0 <= each <= 1 for each in astuple(found)[2:])

    def refuses(X, group, label, d):
        raise IncompatibleParameters("too many", "Allowed: fewer", "Choose fewer")

    methods = {"PCA": hiders.plain, "none": refuses}
    with threadpool_limits(1):
        figures = {name: hiding.figures_of(fit, [parts] * 2, 2) for name, fit in methods.items()}
    plain, none, errors = hiding.lines_of(figures)
    assert len(plain) == 7
    assert plain[1].endswith("%")
    assert none[1:] == ["-"] * 6
    assert errors[1:] == ["0.00%", "0.0000", "0.000", "0.000", "0.00%", "0.000"]
