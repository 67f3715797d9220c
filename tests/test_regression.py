"""Least squares from moments: statsmodels' and scikit-learn's figures, and per-group errors."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression

import real_data
from fairspan import FairPCA, FairSubspace, GroupMoments, regression
from fairspan.errors import InvalidInput, InvalidType

RNG = np.random.default_rng(11)
_AT_FIRST = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def the_same_numbers_whatever_ran_before():
    RNG.bit_generator.state = _AT_FIRST


# Data, and the column that is explained.
REAL = {
    "default_credit": ("default_credit:group__education", "LIMIT_BAL"),
    "wine_quality": ("wine_quality:group__colour", -1),
    "energy": ("energy:group__orientation_lt4", -1),
    "parkinsons": ("parkinsons:group__sex", 0),
    "statlog_landsat": ("statlog_landsat:group__soil", 5),
    "four groups": ("default_credit:group__education_sex4", 3),
}


def design(name):
    """X without the target, y, groups and names; constant and dependent columns left out."""
    source, target = REAL[name]
    rows = real_data.load(source)
    y = rows.feature_names.index(target) if isinstance(target, str) else target
    y %= rows.X.shape[1]
    others = np.delete(rows.X, y, axis=1)
    deviations = others - others.mean(axis=0)
    scale = np.where(others.std(axis=0) > 0, others.std(axis=0), 1)
    # What is left of each column after those before it, as a share of its deviation.
    left = np.abs(np.diag(np.linalg.qr(deviations / scale)[1])) / np.sqrt(len(others))
    return others[:, left > 1e-6], rows.X[:, y], rows.groups


def moments_of(X, y, groups, weights=None):
    """The target in between, so that positions are put to the test."""
    return GroupMoments.from_rows(np.column_stack([X[:, :2], y, X[:, 2:]]), groups, weights)


def close(found, expected, rtol=1e-9):
    """Relative to the size of each figure."""
    np.testing.assert_allclose(found, expected, rtol=rtol)


@pytest.mark.parametrize("name", REAL)
def test_real_data_give_statsmodels_and_scikit_learns_figures(name):
    X, y, groups = design(name)
    fit = regression.least_squares(moments_of(X, y, groups), 2)
    # In standard units, so that theirs is exact to rounding as well; then back.
    mean, scale = X.mean(axis=0), X.std(axis=0)
    reference = sm.OLS(y, sm.add_constant((X - mean) / scale)).fit()
    to_original = np.zeros((X.shape[1] + 1,) * 2)
    to_original[:-1, 1:] = np.diag(1 / scale)
    to_original[-1] = [1, *-mean / scale]
    standard = np.abs(reference.params[1:]) + reference.bse[1:]
    # Of nearly collinear columns (here to 1e-7), products leave fewer digits than rows do.
    rtol = 2e-8 if name.startswith("parkinsons") else 1e-9
    assert np.max(np.abs(fit.coefficients * scale - reference.params[1:]) / standard) < rtol
    covariance = to_original @ reference.cov_params() @ to_original.T
    errors = np.sqrt(np.diag(covariance))
    close(fit.standard_errors, errors[:-1], rtol)
    close(fit.intercept_standard_error, errors[-1], rtol)
    np.testing.assert_allclose(
        fit.covariance / np.outer(errors, errors), covariance / np.outer(errors, errors), atol=rtol
    )
    close(fit.intercept, (to_original @ reference.params)[-1], rtol)
    close(fit.r2, reference.rsquared)
    close(fit.residual_variance, reference.scale)
    assert fit.degrees_of_freedom == reference.df_resid
    assert fit.n == len(y)
    # In raw units scikit-learn drops directions of small variance (Parkinsons: 0.6 % off).
    theirs = LinearRegression().fit((X - mean) / scale, y).predict((X - mean) / scale)
    # Predictions near zero are differences of large ones: relative to the target's spread.
    np.testing.assert_allclose(fit.predict(X) / y.std(), theirs / y.std(), rtol=1e-9, atol=1e-9)
    residuals = y - theirs
    close(fit.group_errors, [np.mean(residuals[groups == g] ** 2) for g in fit.groups])


def small(n=400, p=4):
    X = RNG.normal(size=(n, p)) @ RNG.normal(size=(p, p)) + RNG.normal(size=p)
    y = X @ RNG.normal(size=p) + RNG.normal(size=n) + 3
    return X, y, RNG.choice(["a", "b", "c"], n)


def test_weights_are_those_of_weighted_least_squares():
    X, y, groups = small()
    weights = RNG.uniform(0.1, 5, len(y))
    fit = regression.least_squares(moments_of(X, y, groups, weights), 2)
    reference = sm.WLS(y, sm.add_constant(X), weights=weights).fit()
    close([fit.intercept, *fit.coefficients], reference.params)
    close([fit.intercept_standard_error, *fit.standard_errors], reference.bse)
    close(fit.r2, reference.rsquared)
    close(fit.residual_variance, reference.scale)
    squares = reference.resid**2
    expected = [np.average(squares[groups == g], weights=weights[groups == g]) for g in "abc"]
    close(fit.group_errors, expected)
    doubled = regression.least_squares(moments_of(X, y, groups, 2 * weights), 2)
    close(doubled.covariance, fit.covariance)


def test_whole_weights_repeat_rows_but_add_no_degrees_of_freedom():
    X, y, groups = small()
    weights = RNG.integers(0, 4, len(y))
    weighted = regression.least_squares(moments_of(X, y, groups, weights), 2)
    repeated = regression.least_squares(
        moments_of(*(each.repeat(weights, axis=0) for each in (X, y, groups))), 2
    )
    close(weighted.coefficients, repeated.coefficients)
    close(weighted.group_errors, repeated.group_errors)
    assert weighted.n == (weights > 0).sum()
    assert repeated.n == weights.sum()
    ratio = repeated.degrees_of_freedom / weighted.degrees_of_freedom
    close(weighted.covariance, repeated.covariance * ratio)


def test_merged_parts_give_the_same():
    X, y, groups = small()
    whole = regression.least_squares(moments_of(X, y, groups), 2)
    cuts = np.split(np.arange(len(y)), [50, 51, 220])
    parts = sum(moments_of(X[cut], y[cut], groups[cut]) for cut in cuts)
    merged = regression.least_squares(parts, 2)
    close(merged.coefficients, whole.coefficients)
    close(merged.covariance, whole.covariance)
    close(merged.group_errors, whole.group_errors)


def test_large_offsets_cost_only_what_rounding_the_rows_does():
    X, y, groups = small()
    # On a grid on which float64 holds the rows with their offsets exactly.
    X, y = np.round(X * 2**20) / 2**20, np.round(y * 2**20) / 2**20
    plain = regression.least_squares(moments_of(X, y, groups), 2)
    far = regression.least_squares(moments_of(X + 1e6, y - 1e6, groups), 2)
    # The groups' means, near 1e6, are rounded to 1e-10.
    close(far.coefficients, plain.coefficients, rtol=1e-8)
    close(far.standard_errors, plain.standard_errors, rtol=1e-8)
    close(far.group_errors, plain.group_errors, rtol=1e-8)
    np.testing.assert_allclose(far.predict(X + 1e6) + 1e6, plain.predict(X), rtol=1e-6, atol=1e-6)


def test_units_of_any_size_make_no_difference():
    X, y, groups = small()
    scale = np.array([1e-9, 1e9, 1.0, 1e5])
    plain = regression.least_squares(moments_of(X, y, groups), 2)
    scaled = regression.least_squares(moments_of(X * scale, y, groups), 2)
    close(scaled.coefficients * scale, plain.coefficients)
    close(scaled.standard_errors * scale, plain.standard_errors)


def test_frames_name_their_columns():
    X, y, groups = small()
    frame = pd.DataFrame(X, columns=list("uvwx")).assign(y=y, s=groups)
    moments = GroupMoments.from_rows(frame[["u", "y", "v", "w", "x", "s"]], "s")
    fit = regression.least_squares(moments, "y")
    assert fit.feature_names == tuple("uvwx")
    assert fit.target == "y"
    close(fit.coefficients, regression.least_squares(moments, 1).coefficients)
    close(fit.coefficients, regression.least_squares(moments, -4).coefficients)
    expected = LinearRegression().fit(X, y).predict(X)
    close(fit.predict(frame[["x", "s", "w", "y", "v", "u"]]), expected)
    close(fit.predict(X), expected)


def test_a_perfect_fit_has_no_errors():
    X, _, groups = small()
    fit = regression.least_squares(moments_of(X, X @ [1.0, 2, 3, 4] + 5, groups), 2)
    close(fit.coefficients, [1, 2, 3, 4])
    assert fit.r2 == pytest.approx(1, abs=1e-12)
    assert (fit.standard_errors < 1e-6).all()
    assert (fit.group_errors >= 0).all()


@pytest.mark.parametrize("d", [1, 3, 10])
def test_principal_component_regression_is_least_squares_on_the_scores(d):
    X, y, groups = design("wine_quality")
    d = min(d, X.shape[1])
    fair = FairPCA(d, scale=True).fit(X, sensitive_features=groups)
    fit = regression.principal_component_regression(moments_of(X, y, groups), 2, fair)
    Z = fair.transform(X)
    reference = sm.OLS(y, sm.add_constant(Z)).fit()
    close(fit.component_coefficients, reference.params[1:], rtol=1e-8)
    close(fit.component_standard_errors, reference.bse[1:])
    close(fit.component_intercept, reference.params[0])
    close(fit.r2, reference.rsquared, rtol=1e-8)
    assert fit.degrees_of_freedom == len(y) - d - 1
    close(fit.predict(X), reference.fittedvalues, rtol=1e-8)
    residuals = reference.resid**2
    close(fit.group_errors, [residuals[groups == g].mean() for g in fit.groups])
    assert np.linalg.matrix_rank(fit.covariance[:-1, :-1] * np.outer(fair.scale_, fair.scale_)) == d
    at_rows = np.column_stack([X, np.ones(len(X))])[:50]
    expected = reference.get_prediction(sm.add_constant(Z)[:50]).se_mean
    close(np.sqrt(np.einsum("ni,ij,nj->n", at_rows, fit.covariance, at_rows)), expected, rtol=1e-6)


def test_all_components_are_ordinary_least_squares():
    X, y, groups = small()
    moments = moments_of(X, y, groups)
    whole = regression.least_squares(moments, 2)
    for model in (PCA(4).fit(X), TruncatedSVD(4).fit(X), np.eye(4), FairPCA(4)):
        if isinstance(model, FairPCA):
            model.fit(X, sensitive_features=groups)
        fit = regression.principal_component_regression(moments, 2, model)
        close(fit.coefficients, whole.coefficients)
        close(fit.covariance, whole.covariance)
        close(fit.intercept, whole.intercept)


def test_models_are_matched_by_name():
    X, y, groups = small()
    frame = pd.DataFrame(X, columns=list("uvwx"))
    moments = GroupMoments.from_rows(frame.assign(y=y), groups)
    turned = PCA(2).fit(frame[list("xwvu")])
    fit = regression.principal_component_regression(moments, "y", turned)
    straight = regression.principal_component_regression(moments, "y", PCA(2).fit(X))
    close(fit.coefficients, straight.coefficients)
    close(fit.component_intercept, straight.component_intercept)
    close(fit.predict(frame), straight.predict(X))


def test_soft_projections_regress_on_their_coordinates():
    X, y, groups = small()
    u = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    weights = 1 - np.sqrt(1 - np.array([1, 0.6, 0.4]))
    soft = FairSubspace(np.sqrt(weights)[:, None] * u[:3], X.mean(axis=0))
    fit = regression.principal_component_regression(moments_of(X, y, groups), 2, soft)
    reference = LinearRegression().fit(soft.transform(X), y)
    close(fit.component_coefficients, reference.coef_)
    close(fit.predict(X), reference.predict(soft.transform(X)))


def test_energys_roof_is_its_surface_without_its_walls():
    rows = real_data.load("energy:group__orientation_lt4")
    frame = pd.DataFrame(rows.X, columns=list(rows.feature_names))
    with pytest.raises(InvalidInput, match=r"'(Roof|Surface)Area' depends on '.*Area', '.*Area'"):
        regression.least_squares(GroupMoments.from_rows(frame, rows.groups), "HeatingLoad")


def test_dependent_columns_are_named_with_what_they_depend_on():
    X, y, groups = small()
    frame = pd.DataFrame(X, columns=list("uvwx")).assign(y=y)
    frame["sum"] = 3 * frame["u"] - 2 * frame["w"] + 7
    with pytest.raises(InvalidInput, match=r"'sum' depends on 'u', 'w'\."):
        regression.least_squares(GroupMoments.from_rows(frame, groups), "y")
    frame["sum"] = 4.5
    with pytest.raises(InvalidInput, match="These do not vary: 'sum'"):
        regression.least_squares(GroupMoments.from_rows(frame, groups), "y")
    frame["sum"] = frame["u"] + 1e-4 * RNG.normal(size=len(y))
    reference = sm.OLS(y, sm.add_constant(frame.drop(columns="y"))).fit()
    near = regression.least_squares(GroupMoments.from_rows(frame, groups), "y")
    close(near.standard_errors, reference.bse.iloc[1:], rtol=1e-6)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_dependent_columns_are_found_far_from_the_origin(offset):
    X, y, groups = small()
    X = np.column_stack([X, X[:, 0] + X[:, 1]]) + offset
    parts = sum(moments_of(X[i::3], y[i::3], groups[i::3]) for i in range(3))
    with pytest.raises(InvalidInput, match="linearly dependent: column"):
        regression.least_squares(parts, 2)


def test_fewer_rows_than_columns():
    X, y, groups = small(n=5)
    with pytest.raises(InvalidInput, match="5 rows for 5 coefficients"):
        regression.least_squares(moments_of(X, y, groups), 2)
    with pytest.raises(InvalidInput, match="linearly dependent"):
        regression.least_squares(moments_of(X[:4], y[:4], groups[:4]), 2)
    first = regression.principal_component_regression(moments_of(X, y, groups), 2, np.eye(4)[:1])
    close(first.coefficients[0], LinearRegression().fit(X[:, :1], y).coef_[0])
    assert (first.coefficients[1:] == 0).all()


def named_moments():
    frame = pd.DataFrame(RNG.normal(size=(20, 3)), columns=["u", "v", "y"]).assign(still=1.0)
    return GroupMoments.from_rows(frame, ["a", "b"] * 10)


UNNAMED = GroupMoments.from_rows(RNG.normal(size=(20, 3)), ["a", "b"] * 10)
REFUSED = {
    "no such name": (named_moments(), "z", InvalidInput, r"no column 'z'.*'u', 'v', 'y'"),
    "no names": (UNNAMED, "y", InvalidInput, "3 columns without names"),
    "too far": (UNNAMED, 3, InvalidInput, "no column 3"),
    "no number": (UNNAMED, 1.0, InvalidType, "target is 1.0"),
    "no target": (UNNAMED, None, InvalidType, "target is None"),
    "truth value": (UNNAMED, True, InvalidType, "target is True"),
    "constant": (named_moments(), "still", InvalidInput, "target 'still' has the same value"),
    "alone": (GroupMoments.from_rows(np.ones((4, 1)), ["a"] * 4), 0, InvalidInput, "only column"),
    "rows": (np.ones((4, 2)), 0, InvalidType, "moments is a ndarray"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_targets(case):
    moments, target, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        regression.least_squares(moments, target)


def test_bad_subspaces():
    with pytest.raises(InvalidInput, match="subspace is of 3 features"):
        regression.principal_component_regression(UNNAMED, 0, np.eye(3)[:1])
    frame = pd.DataFrame(RNG.normal(size=(20, 3)), columns=["u", "v", "y"])
    moments = GroupMoments.from_rows(frame, ["a", "b"] * 10)
    with pytest.raises(InvalidInput, match=r"\('u', 'y'\).*\('u', 'v'\)"):
        regression.principal_component_regression(moments, "y", PCA(1).fit(frame[["u", "y"]]))
    with pytest.raises(InvalidType, match="has not been fitted"):
        regression.principal_component_regression(moments, "y", PCA(1))
    still = GroupMoments.from_rows(np.column_stack([frame, np.ones(20)]), ["a", "b"] * 10)
    with pytest.raises(InvalidInput, match="do not vary: component 1"):
        regression.principal_component_regression(still, 0, np.eye(3)[[0, 2]])


def test_prediction_wants_the_features():
    fit = regression.least_squares(UNNAMED, 0)
    with pytest.raises(InvalidInput, match=r"X has 3 columns.*2 features"):
        fit.predict(np.ones((2, 3)))
    with pytest.raises(InvalidInput, match="NaN"):
        fit.predict(np.full((2, 2), np.nan))
