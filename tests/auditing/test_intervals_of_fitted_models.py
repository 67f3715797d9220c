"""Intervals for a model that was fitted to the audited rows, by formulas and by simulation."""

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm, subspace_angles
from sklearn.decomposition import PCA

import fairspan as fs
from case_selection import select_cases
from expected_loss_reference import residuals
from fairspan.rows.folds import Folds

P = 12


def make_case(n=700, seed=0):
    rng = np.random.default_rng(seed)
    sizes = np.r_[3.0, 2.6, 2.2, 1.9, np.linspace(0.9, 0.4, P - 4)]
    groups = np.where(rng.random(n) < 0.4, "b", "a")
    X = rng.normal(size=(n, P)) * sizes
    X[groups == "b"] = X[groups == "b"] @ np.linalg.qr(rng.normal(size=(P, P)))[0] + 0.3
    return X, groups


def jackknife_error(figures):
    """The delete-a-fold jackknife, from its formula."""
    k = len(figures)
    return np.sqrt((k - 1) / k * ((figures - np.mean(figures)) ** 2).sum())


def standard_error(values):
    return values.std(ddof=1) / np.sqrt(len(values))


@pytest.fixture(scope="module")
def reference():
    """Both models of an audit, and their residuals with and without refits, by numpy alone.

    Its rows are nearer to the mean of all rows than new ones, by the product of two residuals.
    """
    X, groups = make_case()
    folds = Folds(10, 0).folds_of_positions(np.arange(len(X)))
    settings = {"criterion": "error_gap"}
    model = fs.FairPCA(3, **settings).fit(X, sensitive_features=groups)
    rows = X - X.mean(axis=0)
    refits = {"m": [], "PCA": []}
    for fold in range(10):
        in_training = folds != fold
        refit = fs.FairPCA(3, **settings).fit(
            X[in_training], sensitive_features=groups[in_training]
        )
        refits["m"].append(refit.components_.T)
        refits["PCA"].append(PCA(3).fit(X[in_training]).components_.T)
    cross_fitted = {}
    corrected_errors = {}
    over_all = {}
    for name, bases in refits.items():
        under = np.array([residuals(rows, basis) for basis in bases])
        cross_fitted[name] = under[folds, np.arange(len(X))]
        corrected_errors[name] = np.empty(len(X))
        for fold, basis in enumerate(bases):
            in_fold = folds == fold
            shift = X.mean(axis=0) - X[~in_fold].mean(axis=0)
            shift = shift - basis @ (basis.T @ shift)
            corrected_errors[name][in_fold] = under[fold, in_fold] + 2 * rows[in_fold] @ shift
        over_all[name] = {g: under[:, groups == g].mean(axis=1) for g in "ab"}
    result = fs.audit({"m": model}, X, groups)
    return (
        result,
        groups,
        cross_fitted,
        corrected_errors,
        over_all,
        model.components_.T,
        refits["m"],
    )


def assert_close(actual, expected):
    # Fits without a fold stop at a gap that rows cannot tell.
    assert actual == pytest.approx(expected, rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("group", ["a", "b"])
def test_changes_and_errors_allow_for_how_the_model_varies_with_its_rows(reference, group):
    result, groups, cross_fitted, corrected_errors, over_all, _, _ = reference
    in_group = groups == group
    figures = {audited_group.group: audited_group for audited_group in result.models[0].groups}[
        group
    ]
    differences = (cross_fitted["m"] - cross_fitted["PCA"])[in_group]
    j = jackknife_error(over_all["m"][group] - over_all["PCA"][group])
    t = stats.t.ppf(1 - 0.05 / 4, in_group.sum() - 1)  # two groups at once
    change = figures.expected_change
    assert_close(change.value, (corrected_errors["m"] - corrected_errors["PCA"])[in_group].mean())
    assert_close((change.high - change.low) / 2, t * np.hypot(standard_error(differences), j))
    errors = cross_fitted["m"][in_group]
    t = stats.t.ppf(0.975, in_group.sum() - 1)
    half = t * np.hypot(standard_error(errors), jackknife_error(over_all["m"][group]))
    assert_close(figures.expected_error.high - corrected_errors["m"][in_group].mean(), half)


def test_the_disparity_allows_for_it_too(reference):
    result, groups, cross_fitted, corrected_errors, over_all, _, _ = reference
    disparity = result.models[0].expected_disparity
    first, second = (cross_fitted["m"][groups == g] for g in "ab")
    assert_close(
        disparity.value,
        corrected_errors["m"][groups == "b"].mean() - corrected_errors["m"][groups == "a"].mean(),
    )
    variances = np.array([standard_error(group_errors) ** 2 for group_errors in (first, second)])
    freedom = variances.sum() ** 2 / (variances**2 / [len(first) - 1, len(second) - 1]).sum()
    j = jackknife_error(over_all["m"]["b"] - over_all["m"]["a"])
    half = stats.t.ppf(0.975, freedom) * np.hypot(np.sqrt(variances.sum()), j)
    assert_close((disparity.high - disparity.low) / 2, half)


def test_instability_is_the_spread_over_the_half_width_and_the_least_cosine(reference):
    result, groups, _, _, over_all, basis, refits = reference
    model = result.models[0]
    ratios = []
    for figures in model.groups:
        loss = figures.expected_loss
        j = jackknife_error(over_all["m"][figures.group])
        # The high end without the spread of the model.
        t = stats.t.ppf(1 - 0.05 / 4, (groups == figures.group).sum() - 1)
        high = loss.value + np.sqrt((loss.high - loss.value) ** 2 - (t * j) ** 2)
        ratios.append(j / ((high - loss.low) / 2))
    assert_close(model.instability, max(ratios))
    cosine = min(np.cos(subspace_angles(basis, refit).max()) for refit in refits)
    assert_close(model.min_cosine, cosine)
    record = result.to_records()[0]
    assert record["instability"] == model.instability
    assert record["min_cosine"] == model.min_cosine


def test_held_out_rows_evaluate_the_model_without_refits():
    X, groups = make_case(1_400)
    model = fs.FairPCA(3).fit(X[:700], sensitive_features=groups[:700])
    for audited_model in fs.audit(model, X[700:], groups[700:]).models:
        assert audited_model.instability is None
        assert audited_model.min_cosine is None


def test_blocks_of_moments_tell_the_same_spread():
    X, groups = make_case()
    folds = Folds(10, 0).folds_of_positions(np.arange(len(X)))
    blocks = [fs.GroupMoments.from_rows(X[folds == f], groups[folds == f]) for f in range(10)]
    model = fs.FairPCA(3).fit(X, sensitive_features=groups)
    by_rows = fs.audit(model, X, groups)
    by_blocks = fs.audit(model, moments=blocks)
    for by_rows_model, by_blocks_model in zip(by_rows.models, by_blocks.models, strict=True):
        assert by_blocks_model.min_cosine == pytest.approx(by_rows_model.min_cosine, rel=1e-5)
        assert by_blocks_model.instability > 0


# Rows of the smaller group, degrees of freedom of Student's t (None: normal), and whether eight
# equal eigenvalues are followed by small ones, of which three directions are kept.
CASES = {
    "normal, 80": (80, None, False),
    "normal, 300": (300, None, False),
    "normal, 1000": (1_000, None, False),
    "t3, 300": (300, 3, False),
    "t3, 1000": (1_000, 3, False),
    "t4, 1000": (1_000, 4, False),
    "flat, normal, 300": (300, None, True),
    "flat, t4, 1000": (1_000, 4, True),
}


def draw_case(rng, n, root, freedom):
    rows = rng.normal(size=(n, len(root))) @ root
    if freedom is None:
        return rows
    return rows / np.sqrt(rng.chisquare(freedom, size=(n, 1)) / freedom)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_the_change_of_the_saved_model_is_in_its_interval(case):
    """The truth is computed for the very model at hand: 300 draws take ten minutes, 50 two.

    The error of one group changes from PCA to minimax loss, of 30 features and 5 dimensions, with
    2,000 rows in the other group.
    """
    n, freedom, is_flat = CASES[case]
    rng = np.random.default_rng(0)
    p = 30
    d = 3 if is_flat else 5
    variances = np.r_[np.ones(8), np.full(p - 8, 0.1)] if is_flat else 1 / np.arange(1, p + 1)
    skew = rng.normal(size=(p, p))
    turn = expm(0.5 * (skew - skew.T) / np.sqrt(2 * p))
    roots = [np.diag(np.sqrt(variances)), np.sqrt(variances)[:, None] * turn]
    wider = 1.0 if freedom is None else freedom / (freedom - 2)
    groups = np.repeat(["many", "few"], [2_000, n])
    is_covered = []
    for _ in select_cases(range(300), 6):
        X = np.vstack(
            [
                draw_case(rng, size, root, freedom)
                for size, root in zip((2_000, n), roots, strict=True)
            ]
        )
        model = fs.FairPCA(d).fit(X, sensitive_features=groups)
        fair = model.components_
        plain = PCA(d).fit(X).components_
        truth = wider * roots[1].T @ roots[1] + np.outer(model.mean_, model.mean_)
        change = np.trace(plain @ truth @ plain.T) - np.trace(fair @ truth @ fair.T)
        audited_groups = fs.audit(model, X, groups).models[0].groups
        interval = next(group.expected_change for group in audited_groups if group.group == "few")
        is_covered.append(interval.low <= change <= interval.high)
    assert np.mean(is_covered) >= 0.91


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("random_labels", [False, True])
def test_no_group_is_called_harmed_if_labels_are_random(random_labels):
    """One distribution for all, or labels of two distributions in random order."""
    rng = np.random.default_rng(3)
    has_harm = []
    sizes = 1 / np.sqrt(np.arange(1, 21))
    for _ in select_cases(range(300), 5):
        X = rng.normal(size=(1_200, 20)) * sizes
        if random_labels:
            X[:300] = X[:300, ::-1]
        groups = rng.permutation(np.repeat(["many", "few"], [1_000, 200]))
        model = fs.FairPCA(4).fit(X, sensitive_features=groups)
        plain = fs.audit(model, X, groups).models[1]
        has_harm.append(any(group.state == "harmed" for group in plain.groups))
    assert np.mean(has_harm) <= 0.05
