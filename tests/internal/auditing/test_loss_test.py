"""The test of losses that cross-fitting is too cautious to tell: parts, power and null cases."""

import numpy as np
import pytest
from scipy.linalg import expm

import fairspan as fs
from case_selection import select_cases
from fairspan.auditing import loss_test
from fairspan.auditing.loss_test import LossTest
from fairspan.moments.fold_moments import DenseFoldMoments


def test_eigenvalues_are_shrunk_as_scikit_learn_does():
    from sklearn.covariance import oas

    rows = np.random.default_rng(0).normal(size=(30, 8)) * np.arange(1, 9)
    second = rows.T @ rows / 30
    values = np.linalg.eigvalsh(second)
    expected = np.linalg.eigvalsh(oas(rows, assume_centered=True)[0])
    assert loss_test._shrink_eigenvalues(values, 30) == pytest.approx(expected)


def test_the_order_is_that_of_isotonic_regression():
    from sklearn.isotonic import isotonic_regression

    values = np.random.default_rng(1).normal(size=40)
    expected = isotonic_regression(values, increasing=False)
    assert loss_test._isotonic_decreasing(values) == pytest.approx(expected)


@pytest.mark.parametrize("n", [4.0, 12.0, 40.5, 2_000.0])
def test_draws_have_the_moments_of_normal_rows(n):
    p = 6
    roots = loss_test._wishart_factor(np.random.default_rng(2), 4_000, n, p)
    second = roots @ roots.swapaxes(1, 2)
    assert second.mean(axis=0) == pytest.approx(np.eye(p), abs=6 / np.sqrt(4_000 * n))
    off = second[:, 0, 1].var() * n
    assert off == pytest.approx(1.0, abs=0.1)


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


def make_case(rng, n, angle, p=20, d=3, many=2_000):
    """Rows, groups and PCA's model; the directions of the smaller group are turned."""
    sizes = 1 / np.sqrt(np.arange(1, p + 1))
    X = np.vstack(
        [rng.normal(size=(many, p)) * sizes, rng.normal(size=(n, p)) * sizes @ rotate(p, angle)]
    )
    groups = np.repeat(["many", "few"], [many, n])
    return X, groups, fs.FairPCA(d, criterion="total_error").fit(X, sensitive_features=groups)


def shows_harm(X, groups, model, **options):
    folds = split_into_folds(X, groups, **options)
    test = LossTest([model.subspace_], folds, 0.95, 0)
    return [test.is_significant(0, group) for group in range(2)]


def test_a_loss_is_shown_and_none_where_there_is_none():
    few_first = ["few", "many"]
    X, groups, model = make_case(np.random.default_rng(4), 80, 0.5)
    assert dict(zip(few_first, shows_harm(X, groups, model), strict=True)) == {
        "few": True,
        "many": False,
    }
    assert shows_harm(*make_case(np.random.default_rng(4), 80, 0.0)) == [False, False]


@pytest.mark.parametrize(("n_folds", "expected"), [(5, [True, False]), (4, [False, False])])
def test_five_folds_are_enough(n_folds, expected):
    X, groups, model = make_case(np.random.default_rng(4), 80, 0.5)
    assert shows_harm(X, groups, model, n_folds=n_folds) == expected


def test_copies_of_rows_in_one_fold_add_no_evidence():
    X, groups, model = make_case(np.random.default_rng(5), 25, 0.5, many=600)
    again, clusters = np.repeat(np.arange(len(X)), 8), np.repeat(np.arange(len(X)), 8)
    once = shows_harm(X, groups, model)
    assert shows_harm(X[again], groups[again], model, clusters=clusters) == once
    assert shows_harm(X[again], groups[again], model)[0]  # taken for eight times as many


def test_rotated_rows_are_evaluated_alike():
    X, groups, model = make_case(np.random.default_rng(6), 80, 0.5)
    turn = rotate(20, 2.0, seed=1)
    again = fs.FairPCA(3, criterion="total_error").fit(X @ turn, sensitive_features=groups)
    assert shows_harm(X @ turn, groups, again) == shows_harm(X, groups, model)


def test_an_oblique_model_and_many_features_are_left_to_cross_fitting(monkeypatch):
    X, groups, model = make_case(np.random.default_rng(4), 80, 0.5)
    hide = fs.MeanParity(oblique=True)
    oblique = fs.FairPCA(3, criterion="total_error", restriction=hide)
    assert shows_harm(X, groups, oblique.fit(X, sensitive_features=groups)) == [False, False]
    monkeypatch.setattr(loss_test, "_MAX_FEATURES", 19)
    assert shows_harm(X, groups, model) == [False, False]


def test_an_audit_tells_the_corrected_interval_of_a_loss_that_the_test_shows(monkeypatch):
    X, groups, model = make_case(np.random.default_rng(7), 60, 0.5)

    def few():
        return next(g for g in fs.audit(model, X, groups).models[0].groups if g.group == "few")

    shown = few()
    monkeypatch.setattr(LossTest, "is_significant", lambda *_: False)
    before = few()
    assert (shown.state, before.state) == ("harmed", "inconclusive")
    loss = shown.expected_loss
    assert (loss.value, loss.high) == (before.expected_loss.value, before.expected_loss.high)
    assert loss.low == pytest.approx(2 * loss.value - loss.high)
    assert before.expected_loss.low < 0 < loss.low


def rows_of(rng, n, root, tails):
    p = len(root)
    if tails == "exponential":
        return (rng.exponential(size=(n, p)) - 1) @ root
    if tails == "two values":
        return np.sign(rng.normal(size=(n, p))) @ root
    rows = rng.normal(size=(n, p)) @ root
    return rows if tails == "normal" else rows / np.sqrt(rng.chisquare(4, (n, 1)) / 4)


def falling(p):
    return np.diag(1 / np.sqrt(np.arange(1, p + 1)))


def of_variances(*values):
    return np.diag(np.sqrt(np.concatenate(values)))


# p, d and rows of the smaller group; its square root of the covariance, and that of the others;
# tails; and how far its mean is from the others'. In none does it lose anything by the model.
NULLS = {
    "one distribution": (20, 3, 80, falling(20), falling(20), "normal", 0.0),
    "few rows": (20, 3, 40, falling(20), falling(20), "normal", 0.0),
    "more features": (50, 5, 60, falling(50), falling(50), "normal", 0.0),
    "t4": (20, 3, 160, falling(20), falling(20), "t4", 0.0),
    "skewed": (20, 3, 80, falling(20), falling(20), "exponential", 0.0),
    "two values": (20, 3, 80, falling(20), falling(20), "two values", 0.0),
    "tied": (20, 3, 80, *[of_variances(np.ones(6), np.full(14, 0.1))] * 2, "normal", 0.0),
    "twice the size": (20, 3, 80, 2 * falling(20), falling(20), "normal", 0.0),
    "twice the size, t4": (20, 3, 80, 2 * falling(20), falling(20), "t4", 0.0),
    "another spectrum": (
        *(20, 3, 80),
        of_variances(np.linspace(1, 0.9, 3), np.linspace(0.8, 0.5, 17)),
        *(falling(20), "normal", 0.0),
    ),
    "nearly a ball": (
        *(20, 3, 80),
        of_variances(np.ones(3), np.full(17, 0.99)),
        *(falling(20), "normal", 0.0),
    ),
    "another mean": (20, 3, 80, falling(20), falling(20), "normal", 1.5),
}


def share_harmed(rng, n, root, others, d, draws, tails="normal", offset=0.0):
    harmed = []
    groups = np.repeat(["many", "few"], [2_000, n])
    for _ in draws:
        X = np.vstack([rows_of(rng, 2_000, others, tails), rows_of(rng, n, root, tails)])
        X[2_000:, 0] += offset
        model = fs.FairPCA(d, criterion="total_error").fit(X, sensitive_features=groups)
        found = fs.audit(model, X, groups).models[0].groups
        harmed.append(any(group.state == "harmed" for group in found))
    return np.mean(harmed)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("case", NULLS)
def test_no_group_is_called_harmed_without_losses(case):
    _, d, n, root, others, tails, offset = NULLS[case]
    rng, draws = np.random.default_rng(8), select_cases(range(300), 6)
    assert share_harmed(rng, n, root, others, d, draws, tails, offset) <= 0.03


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("p", "d", "n", "least"),
    [(20, 3, 40, 0.25), (20, 3, 80, 0.85), (50, 5, 60, 0.9), (50, 5, 120, 0.95)],
)
def test_the_power_is_many_times_that_of_cross_fitting(p, d, n, least):
    """With cross-fitting alone it is .00, .10, .00 and .12."""
    root, draws = falling(p), select_cases(range(200), 6)
    rng, few = np.random.default_rng(9), falling(p) @ rotate(p, 0.5, seed=1)
    assert share_harmed(rng, n, few, root, d, draws) >= least
