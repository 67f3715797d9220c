"""Published methods, as the benchmarks implement them, against fairspan and their theorems."""

import sys
from dataclasses import astuple
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fairspan import CovarianceParity, FairPCA, GroupMoments, MeanParity
from fairspan.errors import IncompatibleParameters
from problems import minimize_over_angles

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("needs the folder benchmarks", allow_module_level=True)
sys.path.append(str(ROOT))

D = 3


def two_groups(p=8, n=300):
    from benchmarks.rows import make_rows, standardize

    X, group = make_rows(n, p)
    return standardize(X), group, np.random.default_rng(1).integers(0, 2, n)


def reduce_rows(method, X, group, label):
    return method(X, group, label, D)(X, group)


def assert_same_rows_but_for_a_rotation(first, second):
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=1e-9 * (first**2).sum())


def mean_difference(Z, group):
    return np.abs(Z[group == 1].mean(axis=0) - Z[group == 0].mean(axis=0)).max()


def test_mean_parity_is_fair_pca_of_kleindessner_et_al():
    from benchmarks import hiding_methods

    rows = two_groups()
    ours = reduce_rows(partial(hiding_methods.fit_restricted, MeanParity()), *rows)
    theirs = reduce_rows(hiding_methods.fit_kleindessner, *rows)
    assert_same_rows_but_for_a_rotation(ours, theirs)
    assert mean_difference(theirs, rows[1]) < 1e-12


def test_covariance_parity_is_that_of_kleindessner_et_al_in_as_many_directions():
    from benchmarks import hiding_methods

    X, group, label = two_groups()
    theirs = hiding_methods.fit_kleindessner(X, group, label, D, covariances=True)
    as_many = CovarianceParity(n_directions=int(0.85 * X.shape[1]))
    ours = hiding_methods.fit_restricted(as_many, X, group, label, D)
    assert_same_rows_but_for_a_rotation(ours(X, group), theirs(X, group))


@pytest.mark.parametrize("constant", [False, True])
def test_oblique_mean_parity_is_pca_after_leace(constant):
    from benchmarks import hiding_methods

    X, group, label = two_groups()
    if constant:  # a singular covariance
        X = np.column_stack([X, X[:, 0] - X[:, 1]])
    theirs = reduce_rows(hiding_methods.fit_leace, X, group, label)
    ours = reduce_rows(
        partial(hiding_methods.fit_restricted, MeanParity(oblique=True)), X, group, label
    )
    assert_same_rows_but_for_a_rotation(ours, theirs)
    assert mean_difference(theirs, group) < 1e-12


@pytest.mark.parametrize(("p", "n"), [(8, 300), (20, 60), (30, 12)])
def test_oblique_mean_parity_of_full_rank_is_leace(p, n):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    group = np.arange(n) % 2
    new_rows = rng.normal(size=(40, p))
    mean = X.mean(axis=0)
    covariance = (X - mean).T @ (group - 0.5) / n
    precision = np.linalg.pinv(np.cov(X.T, bias=True), rcond=1e-10, hermitian=True)
    normal = precision @ covariance

    def erase(rows):
        return rows - np.outer((rows - mean) @ normal, covariance / (covariance @ normal))

    model = FairPCA(
        min(p, n - 1) - 1, criterion="total_error", restriction=MeanParity(oblique=True)
    )
    model.fit(X, sensitive_features=group)
    reconstruction = model.inverse_transform(model.transform(X))
    assert np.abs(reconstruction - erase(X)).max() <= 2e-13 * np.abs(X).max()
    # Outside the span of the rows of the fit, the model drops what LEACE keeps.
    new_reconstruction = model.inverse_transform(model.transform(new_rows))
    deviation = np.abs(new_reconstruction - erase(new_rows)).max()
    assert (deviation <= 1e-11 * np.abs(X).max()) == (n > p)


def test_every_method_except_pca_makes_group_means_equal():
    from benchmarks import hiding_methods

    X, group, label = two_groups()
    # Exact covariance parity needs a conic solver here; it has tests of its own.
    for name in sorted(set(hiding_methods.METHODS) - {"`CovarianceParity(tolerance=0.0)`"}):
        method = hiding_methods.METHODS[name]
        Z = reduce_rows(method, X, group, label)
        assert Z.shape == (len(X), D)
        if "within_classes" in name:
            differences = [
                mean_difference(Z[label == value], group[label == value]) for value in (0, 1)
            ]
            assert max(differences) < 1e-10
        else:
            assert (mean_difference(Z, group) < 1e-10) == (name != "PCA"), name


def solve_worst_case(p, k, d):
    from benchmarks.rows import make_rows

    moments = GroupMoments.from_rows(*make_rows(400, p, k))
    second_moments = moments.second_moments("group")
    best_traces = np.linalg.eigvalsh(second_moments)[:, -d:].sum(axis=1)
    fair = FairPCA(d, center="group").fit_moments(moments)
    return second_moments, best_traces, fair.solution_.objective


@pytest.mark.slow
def test_published_methods_for_the_worst_case_end_above_the_optimum_and_near_it():
    from benchmarks import worst_case

    second_moments, best_traces, optimum = solve_worst_case(6, 3, 2)
    adam = worst_case.adam_descents(second_moments, best_traces, 2, starts=1, steps=300)
    mirror, lower_bound = worst_case.mirror_prox(second_moments, best_traces, 2, rounds=200)
    for V in (adam, mirror):
        np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-12)
        loss = worst_case.largest_loss(second_moments, best_traces, V)
        assert optimum - 1e-12 <= loss <= 1.3 * optimum
    assert 0.7 * optimum < lower_bound <= optimum + 1e-12


def test_published_methods_find_the_best_angle_in_the_plane():
    from benchmarks import worst_case

    second_moments, best_traces, optimum = solve_worst_case(2, 2, 1)
    largest_loss = partial(worst_case.largest_loss, second_moments, best_traces)
    smallest_of_grid, _ = minimize_over_angles(largest_loss)
    assert optimum == pytest.approx(smallest_of_grid, rel=1e-6)
    V = worst_case.adam_descents(second_moments, best_traces, 1, starts=2, steps=500)
    assert largest_loss(V) == pytest.approx(smallest_of_grid, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_shift_of_mirror_prox_makes_the_trace_d(d):
    from benchmarks import worst_case

    values = np.array([3.0, 2.9, 0.5, -1.0, -4.0])
    shift = worst_case._trace_shift(values, d)
    assert np.minimum(np.exp(values + shift), 1).sum() == pytest.approx(d)


def test_splits_have_the_same_share_of_everything_and_the_units_of_the_first_half():
    from benchmarks import hiding

    X, group, label = two_groups(n=400)
    X = np.column_stack([5 + 3 * X, np.ones(len(X))])
    split = hiding.split_rows(hiding.Rows(X, group, label), seed=0)
    parts = (split.fit, split.attack, split.test)
    assert [part.X.shape for part in parts] == [(200, 8), (100, 8), (100, 8)]
    for part in parts:
        shares = part.group.mean(), part.label.mean()
        assert shares == pytest.approx((group.mean(), label.mean()), abs=0.02)
    np.testing.assert_allclose(split.fit.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.fit.X.std(axis=0), 1)
    together = np.vstack([part.X for part in parts])
    assert len(np.unique(together, axis=0)) == len(np.unique(X, axis=0))


def test_all_components_keep_all_variance_and_the_table_has_a_dash_without_a_solution():
    from benchmarks import hiding, hiding_methods

    X, group, label = two_groups(n=400)
    split = hiding.split_rows(hiding.Rows(X, group, label), seed=0)
    with threadpool_limits(1):  # trees wait for each other with more
        figures = hiding.evaluate(hiding_methods.fit_pca, split, X.shape[1])
    assert figures.kept_variance == pytest.approx(1)
    assert all(0 <= figure <= 1 for figure in astuple(figures)[2:])

    def refuse(X, group, label, d):
        raise IncompatibleParameters("too many", "Allowed: fewer", "Choose fewer")

    methods = {"PCA": hiding_methods.fit_pca, "none": refuse}
    with threadpool_limits(1):
        figures_of_methods = {
            name: hiding.figures_of_splits(fit, [split] * 2, 2) for name, fit in methods.items()
        }
    pca, without_solution, standard_errors = hiding.lines_of_methods(figures_of_methods)
    assert len(pca) == 7
    assert pca[1].endswith("%")
    assert without_solution[1:] == ["-"] * 6
    assert standard_errors[1:] == ["0.00%", "0.0000", "0.000", "0.000", "0.00%", "0.000"]
