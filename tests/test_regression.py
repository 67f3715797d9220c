"""Least squares from moments: statsmodels' and scikit-learn's figures, and per-group errors."""

import numpy as np
import pandas as pd
import pytest

import real_data
from fairspan import FairPCA, FairSubspace, GroupMoments, regression
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType

# Data, and the column that is explained.
REAL_DATA = {
    "default_credit": ("default_credit:group__education", "LIMIT_BAL"),
    "wine_quality": ("wine_quality:group__colour", -1),
    "energy": ("energy:group__orientation_lt4", -1),
    "parkinsons": ("parkinsons:group__sex", 0),
    "statlog_landsat": ("statlog_landsat:group__soil", 5),
    "four groups": ("default_credit:group__education_sex4", 3),
}


def design(name):
    """Return X without target, constant and dependent columns, y, groups and names."""
    source, target = REAL_DATA[name]
    rows = real_data.load(source)
    y = rows.feature_names.index(target) if isinstance(target, str) else target
    y %= rows.X.shape[1]
    others = np.delete(rows.X, y, axis=1)
    deviations = others - others.mean(axis=0)
    scale = np.where(others.std(axis=0) > 0, others.std(axis=0), 1)
    # What is left of each column after those before it, as a share of its deviation.
    independent_share = np.abs(np.diag(np.linalg.qr(deviations / scale)[1])) / np.sqrt(len(others))
    return others[:, independent_share > 1e-6], rows.X[:, y], rows.groups


def moments_of(X, y, groups, weights=None):
    """Return moments with the target in the middle, so that positions are tested."""
    return GroupMoments.from_rows(np.column_stack([X[:, :2], y, X[:, 2:]]), groups, weights)


def assert_close(actual, expected, rtol=1e-9):
    """Compare relative to the size of each figure."""
    np.testing.assert_allclose(actual, expected, rtol=rtol)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_DATA)
def test_real_data_give_statsmodels_and_scikit_learns_figures(name):
    import statsmodels.api as sm
    from sklearn.linear_model import LinearRegression

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
    assert_close(fit.standard_errors, errors[:-1], rtol)
    assert_close(fit.intercept_standard_error, errors[-1], rtol)
    np.testing.assert_allclose(
        fit.covariance / np.outer(errors, errors), covariance / np.outer(errors, errors), atol=rtol
    )
    assert_close(fit.intercept, (to_original @ reference.params)[-1], rtol)
    assert_close(fit.r2, reference.rsquared)
    assert_close(fit.residual_variance, reference.scale)
    assert fit.degrees_of_freedom == reference.df_resid
    assert fit.n_rows == len(y)
    # In raw units scikit-learn drops directions of small variance (Parkinsons: 0.6 % off).
    theirs = LinearRegression().fit((X - mean) / scale, y).predict((X - mean) / scale)
    # Predictions near zero are differences of large ones: relative to the target's spread.
    np.testing.assert_allclose(fit.predict(X) / y.std(), theirs / y.std(), rtol=1e-9, atol=1e-9)
    residuals = y - theirs
    assert_close(fit.group_errors, [np.mean(residuals[groups == g] ** 2) for g in fit.groups])


def small(n=400, p=4):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)
    y = X @ rng.normal(size=p) + rng.normal(size=n) + 3
    return X, y, rng.choice(["a", "b", "c"], n)


def fit_model(X, y, groups, weights=None):
    return regression.least_squares(moments_of(X, y, groups, weights), 2)


def assert_same(actual, expected, names=("coefficients", "covariance", "group_errors"), rtol=1e-9):
    for name in names:
        assert_close(getattr(actual, name), getattr(expected, name), rtol)


@pytest.mark.slow
def test_weights_are_those_of_weighted_least_squares():
    import statsmodels.api as sm

    X, y, groups = small()
    weights = np.random.default_rng(1).uniform(0.1, 5, len(y))
    fit = fit_model(X, y, groups, weights)
    reference = sm.WLS(y, sm.add_constant(X), weights=weights).fit()
    assert_close([fit.intercept, *fit.coefficients], reference.params)
    assert_close([fit.intercept_standard_error, *fit.standard_errors], reference.bse)
    assert_close(fit.r2, reference.rsquared)
    assert_close(fit.residual_variance, reference.scale)
    squares = reference.resid**2
    expected = [np.average(squares[groups == g], weights=weights[groups == g]) for g in "abc"]
    assert_close(fit.group_errors, expected)
    assert_close(fit_model(X, y, groups, 2 * weights).covariance, fit.covariance)


def test_integer_weights_repeat_rows_but_add_no_degrees_of_freedom():
    X, y, groups = small()
    weights = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = fit_model(X, y, groups, weights)
    unweighted = fit_model(*(values.repeat(weights, axis=0) for values in (X, y, groups)))
    assert_same(weighted, unweighted, ("coefficients", "group_errors"))
    assert (weighted.n_rows, unweighted.n_rows) == ((weights > 0).sum(), weights.sum())
    ratio = unweighted.degrees_of_freedom / weighted.degrees_of_freedom
    assert_close(weighted.covariance, unweighted.covariance * ratio)


def test_large_offsets_cost_only_what_rounding_the_rows_does():
    X, y, groups = small()
    # On a grid on which float64 holds the rows with their offsets exactly.
    X, y = np.round(X * 2**20) / 2**20, np.round(y * 2**20) / 2**20
    plain = fit_model(X, y, groups)
    far = fit_model(X + 1e6, y - 1e6, groups)
    # The groups' means, near 1e6, are rounded to 1e-10.
    assert_same(far, plain, ("coefficients", "standard_errors", "group_errors"), rtol=1e-8)
    np.testing.assert_allclose(far.predict(X + 1e6) + 1e6, plain.predict(X), rtol=1e-6, atol=1e-6)


def test_frames_name_their_columns():
    from sklearn.linear_model import LinearRegression

    X, y, groups = small()
    frame = pd.DataFrame(X, columns=list("uvwx")).assign(y=y, s=groups)
    moments = GroupMoments.from_rows(frame[["u", "y", "v", "w", "x", "s"]], "s")
    fit = regression.least_squares(moments, "y")
    assert fit.feature_names == tuple("uvwx")
    assert fit.target == "y"
    assert_close(fit.coefficients, regression.least_squares(moments, 1).coefficients)
    assert_close(fit.coefficients, regression.least_squares(moments, -4).coefficients)
    expected = LinearRegression().fit(X, y).predict(X)
    assert_close(fit.predict(frame[["x", "s", "w", "y", "v", "u"]]), expected)
    assert_close(fit.predict(X), expected)


def test_a_perfect_fit_has_no_errors():
    X, _, groups = small()
    fit = fit_model(X, X @ [1.0, 2, 3, 4] + 5, groups)
    assert_close(fit.coefficients, [1, 2, 3, 4])
    assert fit.r2 == pytest.approx(1, abs=1e-12)
    assert (fit.standard_errors < 1e-6).all()
    assert (fit.group_errors >= 0).all()


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.slow
def test_principal_component_regression_is_least_squares_on_the_scores(d):
    import statsmodels.api as sm

    X, y, groups = design("wine_quality")
    d = min(d, X.shape[1])
    fair = FairPCA(d, scale=True).fit(X, sensitive_features=groups)
    fit = regression.principal_component_regression(moments_of(X, y, groups), 2, fair)
    Z = fair.transform(X)
    reference = sm.OLS(y, sm.add_constant(Z)).fit()
    assert_close(fit.component_coefficients, reference.params[1:], rtol=1e-8)
    assert_close(fit.component_standard_errors, reference.bse[1:])
    assert_close(fit.component_intercept, reference.params[0])
    assert_close(fit.r2, reference.rsquared, rtol=1e-8)
    assert fit.degrees_of_freedom == len(y) - d - 1
    assert_close(fit.predict(X), reference.fittedvalues, rtol=1e-8)
    residuals = reference.resid**2
    assert_close(fit.group_errors, [residuals[groups == g].mean() for g in fit.groups])
    assert np.linalg.matrix_rank(fit.covariance[:-1, :-1] * np.outer(fair.scale_, fair.scale_)) == d
    at_rows = np.column_stack([X, np.ones(len(X))])[:50]
    expected = reference.get_prediction(sm.add_constant(Z)[:50]).se_mean
    assert_close(
        np.sqrt(np.einsum("ni,ij,nj->n", at_rows, fit.covariance, at_rows)), expected, rtol=1e-6
    )


def test_all_components_are_ordinary_least_squares():
    from sklearn.decomposition import PCA, TruncatedSVD

    X, y, groups = small()
    fair = FairPCA(4).fit(X, sensitive_features=groups)
    for model in (PCA(4).fit(X), TruncatedSVD(4).fit(X), np.eye(4), fair):
        fit = regression.principal_component_regression(moments_of(X, y, groups), 2, model)
        assert_same(fit, fit_model(X, y, groups), ("coefficients", "covariance", "intercept"))


def test_models_are_matched_by_name():
    from sklearn.decomposition import PCA

    X, y, groups = small()
    frame = pd.DataFrame(X, columns=list("uvwx"))
    moments = GroupMoments.from_rows(frame.assign(y=y), groups)
    reordered = PCA(2).fit(frame[list("xwvu")])
    fit = regression.principal_component_regression(moments, "y", reordered)
    straight = regression.principal_component_regression(moments, "y", PCA(2).fit(X))
    assert_same(fit, straight, ("coefficients", "component_intercept"))
    assert_close(fit.predict(frame), straight.predict(X))


def test_soft_projections_regress_on_their_coordinates():
    from sklearn.linear_model import LinearRegression

    X, y, groups = small()
    u = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    weights = 1 - np.sqrt(1 - np.array([1, 0.6, 0.4]))
    soft = FairSubspace(np.sqrt(weights)[:, None] * u[:3], X.mean(axis=0))
    fit = regression.principal_component_regression(moments_of(X, y, groups), 2, soft)
    reference = LinearRegression().fit(soft.transform(X), y)
    assert_close(fit.component_coefficients, reference.coef_)
    assert_close(fit.predict(X), reference.predict(soft.transform(X)))


def test_dependent_columns_are_named_with_what_they_depend_on():
    import statsmodels.api as sm

    X, y, groups = small()
    frame = pd.DataFrame(X, columns=list("uvwx")).assign(y=y)
    for column, message in (
        (3 * frame["u"] - 2 * frame["w"] + 7, r"'sum' depends on 'u', 'w'\."),
        (4.5, "These columns are constant: 'sum'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            regression.least_squares(GroupMoments.from_rows(frame.assign(sum=column), groups), "y")
    frame["sum"] = frame["u"] + 1e-4 * np.random.default_rng(1).normal(size=len(y))
    reference = sm.OLS(y, sm.add_constant(frame.drop(columns="y"))).fit()
    near = regression.least_squares(GroupMoments.from_rows(frame, groups), "y")
    assert_close(near.standard_errors, reference.bse.iloc[1:], rtol=1e-6)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_dependent_columns_are_found_far_from_the_origin(offset):
    X, y, groups = small()
    X = np.column_stack([X, X[:, 0] + X[:, 1]]) + offset
    parts = sum(moments_of(X[i::3], y[i::3], groups[i::3]) for i in range(3))
    with pytest.raises(InvalidInput, match="linearly dependent: column"):
        regression.least_squares(parts, 2)


def test_fewer_rows_than_columns():
    from sklearn.linear_model import LinearRegression

    X, y, groups = small(n=5)
    for n, message in ((5, "5 rows for 5 coefficients"), (4, "linearly dependent")):
        with pytest.raises(InvalidInput, match=message):
            fit_model(X[:n], y[:n], groups[:n])
    first = regression.principal_component_regression(moments_of(X, y, groups), 2, np.eye(4)[:1])
    assert_close(first.coefficients[0], LinearRegression().fit(X[:, :1], y).coef_[0])
    assert (first.coefficients[1:] == 0).all()


NUMBERS = np.random.default_rng(3).normal(size=(20, 3))


@pytest.fixture(scope="module")
def moments_by_name():
    """Return moments of a frame, of an array, and of one column, by name."""
    frame = pd.DataFrame(NUMBERS, columns=["u", "v", "y"]).assign(still=1.0)
    labels = ["a", "b"] * 10
    return {
        "frame": frame,
        "named": GroupMoments.from_rows(frame, labels),
        "unnamed": GroupMoments.from_rows(NUMBERS, labels),
        "still": GroupMoments.from_rows(frame.to_numpy(), labels),
        "alone": GroupMoments.from_rows(np.ones((4, 1)), ["a"] * 4),
        "rows": np.ones((4, 2)),
    }


@pytest.mark.parametrize(
    ("moments", "target", "kind", "message"),
    [
        ("named", "z", InvalidInput, r"target 'z' is not a column.*'u', 'v', 'y'"),
        ("unnamed", "y", InvalidInput, "3 columns without names"),
        ("unnamed", 3, InvalidInput, "target 3 is not a column"),
        ("unnamed", 1.0, InvalidType, "target is 1.0"),
        ("unnamed", None, InvalidType, "target is None"),
        ("unnamed", True, InvalidType, "target is True"),
        ("named", "still", InvalidInput, "target 'still' is constant"),
        ("alone", 0, InvalidInput, "only column"),
        ("rows", 0, InvalidType, "moments is a ndarray"),
    ],
)
def test_bad_targets(moments_by_name, moments, target, kind, message):
    with pytest.raises(kind, match=message):
        regression.least_squares(moments_by_name[moments], target)


def test_bad_subspaces(moments_by_name):
    from sklearn.decomposition import PCA

    of_two = PCA(1).fit(moments_by_name["frame"][["u", "y"]])
    for moments, target, subspace, kind, message in (
        ("unnamed", 0, np.eye(3)[:1], InvalidInput, "subspace is of 3 features"),
        ("named", "y", of_two, InvalidInput, r"\('u', 'y'\).*\('u', 'v', 'still'\)"),
        ("named", "y", PCA(1), InvalidType, "is not fitted"),
        ("still", 0, np.eye(3)[[0, 2]], InvalidInput, "are constant: component 1"),
    ):
        with pytest.raises(kind, match=message):
            regression.principal_component_regression(moments_by_name[moments], target, subspace)


def draw_uneven_groups(seed, sizes=(30, 70, 100), deviations=(1.0, 2.0, 4.0)):
    """Rows of three groups with other variances about one regression, and sampling weights."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1, 2], sizes)
    X = rng.normal(size=(len(groups), 3)) * [1, 5, 0.1] + [0, 100, 3] + groups[:, None]
    y = X @ [1, 2, 3] + rng.normal(size=len(groups)) * np.array(deviations)[groups]
    return X, y, groups, rng


@pytest.mark.parametrize("is_weighted", [False, True])
def test_variances_by_group_are_those_of_the_rows(is_weighted):
    X, y, groups, rng = draw_uneven_groups(0)
    w = rng.random(200) + 0.2 if is_weighted else np.ones(200)
    fit = regression.least_squares(moments_of(X, y, groups, w), 2, variance="by_group")
    A = np.column_stack([X, np.ones(200)])
    inverse = np.linalg.inv(A.T @ (A * w[:, None]))
    residuals = y - A @ inverse @ A.T @ (w * y)
    spread = np.zeros((4, 4))
    for group in range(3):
        in_group = groups == group
        of_group = A[in_group].T @ (A[in_group] * w[in_group, None])
        freedom = in_group.sum() - np.trace(inverse @ of_group)
        spread += (w[in_group] * residuals[in_group] ** 2).sum() / freedom * of_group
    np.testing.assert_allclose(fit.covariance, inverse @ spread @ inverse, rtol=1e-8)
    # On all components the same, in their coordinates.
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    in_components = regression.principal_component_regression(
        moments_of(X, y, groups, w), 2, axes, variance="by_group"
    )
    np.testing.assert_allclose(in_components.covariance, fit.covariance, rtol=1e-7)
    expected = axes @ fit.covariance[:3, :3] @ axes.T
    np.testing.assert_allclose(in_components.component_covariance, expected, rtol=1e-7, atol=1e-12)


def test_blocks_give_the_jackknifes_covariance():
    from sklearn.linear_model import LinearRegression

    X, y, groups, rng = draw_uneven_groups(1)
    w = rng.random(200) + 0.2
    block = np.arange(200) % 20
    blocks = [moments_of(X[b], y[b], groups[b], w[b]) for b in (block == i for i in range(20))]
    fit = regression.least_squares(blocks, 2)
    all_rows = regression.least_squares(moments_of(X, y, groups, w), 2)
    np.testing.assert_allclose(fit.coefficients, all_rows.coefficients, rtol=1e-9)
    replicates = []
    for i in range(20):
        model = LinearRegression().fit(X[block != i], y[block != i], w[block != i])
        replicates.append([*model.coef_, model.intercept_])
    off = np.array(replicates) - np.mean(replicates, axis=0)
    np.testing.assert_allclose(fit.covariance, 19 / 20 * off.T @ off, rtol=1e-6)


def test_variances_lost_in_rounding_are_refused():
    X, y, groups, _ = draw_uneven_groups(2, sizes=(1, 50, 50))
    X[0] = [1e6, 0, 0]
    moments = moments_of(X, y, groups)
    with pytest.raises(InvalidInput, match="group 0 has too few rows"):
        regression.least_squares(moments, 2, variance="by_group")
    with pytest.raises(InvalidInput, match="at least two blocks"):
        regression.least_squares([moments], 2)
    with pytest.raises(InvalidParameter, match="variance is 'each'"):
        regression.least_squares(moments, 2, variance="each")


@pytest.mark.long
def test_intervals_of_variances_by_group_cover():
    """The group that varies most has the fewest rows: the pooled variance covers too little."""
    covered = {"pooled": [], "by_group": []}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        groups = np.repeat([0, 1, 2], [40, 200, 400])
        X = rng.normal(size=(640, 2)) * np.where(groups == 0, 3.0, 1.0)[:, None]
        y = X @ [1, 2] + rng.normal(size=640) * np.array([8.0, 2.0, 1.0])[groups]
        moments = moments_of(X, y, groups)
        for variance, hits in covered.items():
            fit = regression.least_squares(moments, 2, variance=variance)
            hits.append(np.abs(fit.coefficients - [1, 2]) <= 1.96 * fit.standard_errors)
    assert np.mean(covered["pooled"]) <= 0.8
    assert np.mean(covered["by_group"]) >= 0.92
