"""The test of losses below the power of cross-fitting: parts, power and null cases."""

import numpy as np
import pytest
from scipy.linalg import expm

import fairspan as fs
from fairspan.auditing import kept_rows, loss_statistics, loss_test, null_simulation
from fairspan.auditing.kept_rows import GroupRows
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.null_bootstrap import NullRows
from fairspan.moments.fold_moments import DenseFoldMoments


def test_eigenvalues_are_shrunk_as_scikit_learn_does():
    from sklearn.covariance import oas

    rows = np.random.default_rng(0).normal(size=(30, 8)) * np.arange(1, 9)
    second = rows.T @ rows / 30
    values = np.linalg.eigvalsh(second)
    expected = np.linalg.eigvalsh(oas(rows, assume_centered=True)[0])
    assert loss_statistics.shrink_eigenvalues(values, 30) == pytest.approx(expected)


def test_the_order_is_that_of_isotonic_regression():
    from sklearn.isotonic import isotonic_regression

    values = np.random.default_rng(1).normal(size=40)
    expected = isotonic_regression(values, increasing=False)
    assert loss_statistics.isotonic_decreasing(values) == pytest.approx(expected)


@pytest.mark.parametrize("n", [4.0, 12.0, 40.5, 2_000.0])
def test_draws_have_the_moments_of_normal_rows(n):
    p = 6
    roots = null_simulation.wishart_factors(np.random.default_rng(2), 4_000, n, p)
    second = roots @ roots.swapaxes(1, 2)
    assert second.mean(axis=0) == pytest.approx(np.eye(p), abs=6 / np.sqrt(4_000 * n))
    off = second[:, 0, 1].var() * n
    assert off == pytest.approx(1.0, abs=0.1)


def test_the_correction_of_eigenvalues_removes_their_bias():
    truth = np.array([8.0, 4.0, 1.0])
    n = 60
    rng = np.random.default_rng(10)
    rows = rng.normal(size=(2_000, n, 3)) * np.sqrt(truth)
    values = np.linalg.eigvalsh(rows.swapaxes(1, 2) @ rows / n)[:, ::-1]
    corrected = np.array(
        [loss_statistics.correct_eigenvalues(eigenvalues, n) for eigenvalues in values]
    )
    assert corrected.sum(axis=1) == pytest.approx(values.sum(axis=1))
    bias = np.abs(values.mean(axis=0) - truth)
    assert (np.abs(corrected.mean(axis=0) - truth)[:2] < bias[:2] / 2).all()


def null_rows(rng, n=50, p=6, d=2):
    rows = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    return rows, np.linspace(3.0, 1.0, p), d


def test_rows_under_the_null_hypothesis_have_its_second_moment():
    rows, spectrum, d = null_rows(np.random.default_rng(11))
    weights = np.random.default_rng(12).uniform(1, 2, len(rows))
    null = NullRows.impose(rows, weights, np.arange(len(rows)), spectrum, d)
    second = null.products.sum(axis=0) / null.weights.sum()
    for block in (slice(0, d), slice(d, None)):
        assert second[block, block] == pytest.approx(np.diag(spectrum[block]), abs=1e-12)


def test_directions_without_variance_leave_theirs_to_the_others():
    rows, spectrum, d = null_rows(np.random.default_rng(13))
    rows[:, -1] = 0.0
    null = NullRows.impose(rows, np.ones(len(rows)), np.arange(len(rows)), spectrum, d)
    second = null.products.sum(axis=0) / null.weights.sum()
    assert np.trace(second) == pytest.approx(spectrum.sum())


def test_copies_of_a_row_in_one_cluster_are_drawn_as_one_row_of_their_weight():
    rows, spectrum, d = null_rows(np.random.default_rng(14))
    copies = np.random.default_rng(15).integers(1, 5, len(rows))
    persons = np.repeat(np.arange(len(rows)), copies)
    weighted = NullRows.impose(rows, 1.0 * copies, np.arange(len(rows)), spectrum, d)
    clustered = NullRows.impose(rows[persons], np.ones(len(persons)), persons, spectrum, d)
    of_weighted, of_copies = (
        null.draw_losses(20, np.random.default_rng(16)) for null in (weighted, clustered)
    )
    assert of_copies == pytest.approx(of_weighted)


def test_drawn_second_moments_have_no_covariance_between_the_model_and_the_rest():
    """The mean of the draws is the null hypothesis, and a loss of one axis is that of two."""
    rows, _, _ = null_rows(np.random.default_rng(17), n=200, p=2)
    null = NullRows.impose(rows, np.ones(200), np.arange(200), np.array([2.0, 1.0]), 1)
    losses = null.draw_losses(4_000, np.random.default_rng(18))
    # To first order, a covariance c changes the largest eigenvalue by c^2 / (2 - 1).
    variance_of_covariance = (null.products[:, 0, 1] ** 2).sum() / 200**2
    assert losses.mean() == pytest.approx(variance_of_covariance, rel=0.15)


@pytest.mark.parametrize("copies", [1, 4])
def test_normal_rows_count_once_however_often_they_are_repeated(copies):
    rng = np.random.default_rng(19)
    n = 4_000
    p = 8
    d = 3
    n_folds = 100
    rows = rng.normal(size=(n, p)) * np.linspace(3, 1, p)
    folds = np.arange(n) % n_folds
    by_fold = np.array([rows[folds == f].T @ rows[folds == f] for f in range(n_folds)])
    by_fold /= n / n_folds
    shares = np.full(n_folds, 1 / n_folds)
    effective = null_simulation.effective_sample_size(
        by_fold.mean(axis=0), by_fold, shares, d, float(n * copies)
    )
    assert effective == pytest.approx(n, rel=0.25)


def test_heavy_tails_of_the_complement_count_as_fewer_rows():
    rng = np.random.default_rng(20)
    n = 4_000
    p = 8
    d = 3
    n_folds = 100
    rows = rng.normal(size=(n, p)) * np.linspace(3, 1, p)
    rows[:, d:] *= np.sqrt(3 / rng.chisquare(5, (n, 1)))
    by_fold = np.array([rows[f::n_folds].T @ rows[f::n_folds] for f in range(n_folds)])
    by_fold /= n / n_folds
    shares = np.full(n_folds, 1 / n_folds)
    effective = null_simulation.effective_sample_size(
        by_fold.mean(axis=0), by_fold, shares, d, float(n)
    )
    assert effective < 0.6 * n


def split_into_folds(X, groups, clusters=None, n_folds=10):
    rng = np.random.default_rng(3)
    ids = np.arange(len(X)) if clusters is None else clusters
    folds = rng.permutation(ids.max() + 1)[ids] % n_folds
    return DenseFoldMoments(
        tuple(fs.GroupMoments.from_rows(X[folds == f], groups[folds == f]) for f in range(n_folds))
    )


def rotate(p, angle, seed=0):
    skew = np.random.default_rng(seed).normal(size=(p, p))
    return expm(angle * (skew - skew.T) / np.sqrt(2 * p))


def make_case(rng, n, angle, p=20, d=3, n_many=2_000):
    """Rows, groups and PCA's model; the directions of the smaller group are turned."""
    sizes = np.sqrt(np.concatenate([np.arange(d + 1, 1, -1), np.linspace(0.8, 0.2, p - d)]))
    X = np.vstack(
        [rng.normal(size=(n_many, p)) * sizes, rng.normal(size=(n, p)) * sizes @ rotate(p, angle)]
    )
    groups = np.repeat(["many", "few"], [n_many, n])
    return X, groups, fs.FairPCA(d, criterion="total_error").fit(X, sensitive_features=groups)


def shows_harm(X, groups, model, with_rows=True, clusters=None, n_folds=10):
    folds = split_into_folds(X, groups, clusters, n_folds)
    rows = {}
    for i, label in enumerate(folds.total.labels):
        mask = groups == label
        if with_rows and mask.sum() <= kept_rows.MAX_ROWS_PER_GROUP:
            keys = [] if clusters is None else list(map(str, clusters[mask]))
            rows[i] = GroupRows(X[mask], np.ones(mask.sum()), keys)
    test = LossTest([model.subspace_], folds, 0.95, 0, rows)
    return [test.is_significant(0, group, n_tests=2) for group in range(2)]


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_loss_is_shown_and_none_where_there_is_none(with_rows):
    few_first = ["few", "many"]
    X, groups, model = make_case(np.random.default_rng(4), 80, 0.5)
    assert dict(zip(few_first, shows_harm(X, groups, model, with_rows), strict=True)) == {
        "few": True,
        "many": False,
    }
    assert shows_harm(*make_case(np.random.default_rng(4), 80, 0.0), with_rows) == [False, False]


@pytest.mark.parametrize(("n_folds", "expected"), [(5, [True, False]), (4, [False, False])])
def test_five_folds_are_enough(n_folds, expected):
    X, groups, model = make_case(np.random.default_rng(4), 80, 0.5)
    assert shows_harm(X, groups, model, n_folds=n_folds) == expected


@pytest.mark.parametrize("with_rows", [True, False])
def test_copies_of_rows_in_one_cluster_add_no_evidence(with_rows):
    X, groups, model = make_case(np.random.default_rng(5), 25, 0.4, n_many=600)
    copies = np.repeat(np.arange(len(X)), 8)
    clusters = np.repeat(np.arange(len(X)), 8)
    of_rows = shows_harm(X, groups, model, with_rows)
    assert shows_harm(X[copies], groups[copies], model, with_rows, clusters) == of_rows
    # Without clusters, the copies count as eight times as many rows.
    assert shows_harm(X[copies], groups[copies], model, with_rows)[0]


def test_rotated_rows_are_evaluated_alike():
    X, groups, model = make_case(np.random.default_rng(6), 80, 0.5)
    turn = rotate(20, 2.0, seed=1)
    rotated_model = fs.FairPCA(3, criterion="total_error").fit(X @ turn, sensitive_features=groups)
    assert shows_harm(X @ turn, groups, rotated_model) == shows_harm(X, groups, model)


def test_an_oblique_model_and_many_features_are_left_to_cross_fitting(monkeypatch):
    X, groups, model = make_case(np.random.default_rng(4), 80, 0.5)
    hide = fs.MeanParity(oblique=True)
    oblique = fs.FairPCA(3, criterion="total_error", restriction=hide)
    assert shows_harm(X, groups, oblique.fit(X, sensitive_features=groups)) == [False, False]
    monkeypatch.setattr(loss_test, "MAX_FEATURES", 19)
    assert shows_harm(X, groups, model) == [False, False]


def test_an_audit_tells_the_corrected_interval_of_a_loss_that_the_test_shows(monkeypatch):
    X, groups, model = make_case(np.random.default_rng(7), 60, 0.5)

    def audit_few():
        return next(g for g in fs.audit(model, X, groups).models[0].groups if g.group == "few")

    group = audit_few()
    monkeypatch.setattr(LossTest, "is_significant", lambda *_: False)
    uncorrected = audit_few()
    assert (group.state, uncorrected.state) == ("harmed", "inconclusive")
    loss = group.expected_loss
    assert (loss.value, loss.high) == (
        uncorrected.expected_loss.value,
        uncorrected.expected_loss.high,
    )
    assert loss.low == pytest.approx(2 * loss.value - loss.high)
    assert uncorrected.expected_loss.low < 0 < loss.low
