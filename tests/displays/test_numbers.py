"""Displays tell the numbers: against scikit-learn, plain numpy, audits and closed forms."""

from functools import cache

import numpy as np
import pytest
from sklearn.decomposition import PCA

from case_selection import parametrize_diagonal
from display_cases import display_texts
from expected_loss_reference import reference_losses
from fairspan import Disparity, ErrorGap, FairPCA, MeanParity, RobustErrorGap, audit
from fairspan.displays import (
    DisparityPathDisplay,
    ErrorCurveDisplay,
    FeatureErrorDisplay,
    FrontierDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    ReducedRowsDisplay,
    VarianceKeptDisplay,
)
from fairspan.errors import FairspanWarning, InvalidInput, InvalidParameter
from fairspan.rows.folds import Folds
from numpy_reference import random_rows

ROWS = random_rows(0, n=120, p=5)
X = ROWS.X
GROUPS = ROWS.labels
HELD_OUT = random_rows(1, n=80, p=5)
THREE = random_rows(2, n=120, p=4, groups=("a", "b", "c"))


@cache
def fair_model():
    return FairPCA(2).fit(X, sensitive_features=GROUPS)


@cache
def audit_example():
    return audit(fair_model(), X, GROUPS)


def record_values(records, name):
    return np.array([record[name] for record in records], dtype=float)


def reconstruction_errors(model, rows, groups):
    """Return mean squared distances to the reconstructions by the model's own transforms."""
    squares = ((rows - model.inverse_transform(model.transform(rows))) ** 2).sum(axis=1)
    return np.array([squares[groups == label].mean() for label in np.unique(groups)])


def minimum_error(rows, point, d):
    """tr S - t_d(S) of one group about a point."""
    values = np.linalg.eigvalsh((rows - point).T @ (rows - point) / len(rows))
    return values[: len(values) - d].sum()


def select(display, model, d, name=None):
    """The figures of a model at a dimension, of every group."""
    records = [
        record
        for record in display.records
        if (record["model"], record["n_components"]) == (model, d)
    ]
    return record_values(records, name or display.quantity)


def figures(model, name):
    """A figure of every group of an audited model."""
    return record_values(model.records, name)


def test_error_curves_are_those_of_scikit_learns_pca_and_of_refits():
    display = ErrorCurveDisplay.compute(fair_model(), quantity="error")
    frame = display.frame()
    assert display.quantity == "observed_error"
    assert list(frame.columns) == [
        *("model", "n_components", "group", "observed_error", "observed_total_variance", "status"),
    ]
    assert sorted(set(frame["n_components"])) == [1, 2, 3, 4, 5]
    losses = ErrorCurveDisplay.compute(fair_model(), dimensions=[4, 2])
    assert losses.quantity == "observed_loss"
    assert sorted(set(losses.frame()["n_components"])) == [2, 4]
    for d in range(1, 6):
        errors = reconstruction_errors(PCA(d).fit(X), X, GROUPS)
        np.testing.assert_allclose(select(display, "PCA", d), errors, atol=1e-9)
        fair = reconstruction_errors(FairPCA(d).fit(X, sensitive_features=GROUPS), X, GROUPS)
        np.testing.assert_allclose(select(display, "minimax loss", d), fair, atol=1e-9)
        best = [minimum_error(X[label == GROUPS], X.mean(axis=0), d) for label in ("a", "b")]
        np.testing.assert_allclose(select(display, "best possible", d), best, atol=1e-9)
        if d in (2, 4):
            np.testing.assert_allclose(select(losses, "PCA", d), errors - best, atol=1e-9)
            assert np.ptp(select(losses, "minimax loss", d)) <= 1e-6
    assert display.selected_dimension == 2


@pytest.mark.slow
def test_curves_of_held_out_rows_are_those_of_audits():
    rows = HELD_OUT.X
    groups = HELD_OUT.labels
    options = {"dimensions": [4]}
    display = ErrorCurveDisplay.from_estimator(
        fair_model(), rows, groups, **options, show_observed=True
    )
    errors = ErrorCurveDisplay.compute(fair_model(), rows, groups, **options, quantity="error")
    assert (display.quantity, errors.quantity) == ("expected_loss", "expected_error")
    fair = FairPCA(4).fit(X, sensitive_features=GROUPS)
    models = {model.name: model for model in audit(fair, rows, groups).models}
    for name, model in models.items():
        for either_display in (display, errors):
            for end in ("", "_low", "_high"):
                quantity = f"{either_display.quantity}{end}"
                actual = select(either_display, name, 4, quantity)
                np.testing.assert_allclose(actual, figures(model, quantity), rtol=1e-7)
        losses = select(display, name, 4, "observed_loss")
        np.testing.assert_allclose(losses, figures(model, "observed_loss"), rtol=1e-9)
    best = figures(models["PCA"], "expected_best_error")
    np.testing.assert_allclose(select(errors, "best possible", 4), best, rtol=1e-9)
    frame = display.frame().query("model == 'PCA'")
    assert tuple(frame["state"]) == models["PCA"].states
    assert list(display.frame().columns) == [
        *("model", "n_components", "group", "expected_loss", "expected_loss_low"),
        *("expected_loss_high", "observed_total_variance", "state", "observed_loss", "status"),
    ]


def test_curves_of_the_rows_of_the_fit_are_refitted_by_folds():
    """Against formulas written out row by row."""
    display = ErrorCurveDisplay.compute(fair_model(), X, GROUPS, dimensions=[2])
    mean = X.mean(axis=0)
    folds = Folds(10, 0).folds_of_positions(np.arange(len(X)))
    by_fold = [PCA(2).fit(X[folds != fold]).components_.T for fold in range(10)]
    reference = reference_losses(
        X, GROUPS, PCA(2).fit(X).components_.T, point=mean, learns_point=True, by_fold=by_fold
    )
    for place, name in ((1, ""), (3, "_low"), (4, "_high")):
        values = [reference[label][place] for label in ("a", "b")]
        displayed = select(display, "PCA", 2, f"expected_loss{name}")
        np.testing.assert_allclose(displayed, values, rtol=1e-7 if name else 1e-9)


def test_rows_that_tell_nothing_show_the_figures_on_them_and_say_so():
    few_rows = np.vstack([X[:3], X[-3:]])
    groups = np.repeat(["a", "b"], 3)
    display = ErrorCurveDisplay.from_estimator(fair_model(), few_rows, groups, dimensions=[4])
    assert display.quantity == "observed_loss"
    assert display.no_estimates_reason
    with pytest.raises(InvalidInput, match="no estimates"):
        GroupLossDisplay.from_estimator(
            FairPCA(4).fit(X, sensitive_features=GROUPS), few_rows, groups
        )


def test_losses_by_group_are_those_of_an_audit():
    display = GroupLossDisplay.compute(fair_model(), X, GROUPS, show_observed=True, unit="squared")
    models = {model.name: model for model in audit_example().models}
    assert display.models == ("PCA", "minimax loss")
    for i, name in enumerate(display.models):
        for end in ("", "_low", "_high"):
            expected = figures(models[name], f"expected_loss{end}")
            np.testing.assert_allclose(display.values(end)[i], expected, rtol=1e-7)
        losses = select(display, name, 2, "observed_loss")
        np.testing.assert_allclose(losses, figures(models[name], "observed_loss"), atol=1e-9)
        model_rows = display.frame().query(f"model == '{name}'")
        assert tuple(model_rows["state"]) == models[name].states
    assert list(display.frame().columns) == [
        *("model", "group", "expected_loss", "expected_loss_low", "expected_loss_high"),
        *("observed_total_variance", "state", "observed_loss", "bound"),
    ]


@pytest.mark.parametrize(
    ("d", "max_dimension"), [pytest.param(3, 20, marks=pytest.mark.slow), (25, 50)]
)
def test_default_dimensions_hold_the_fitted_one(d, max_dimension):
    wide = random_rows(3, n=90, p=60)
    model = FairPCA(d, criterion="total_error").fit(wide.X, sensitive_features=wide.labels)
    frame = ErrorCurveDisplay.compute(model).frame()
    dimensions = np.unique(frame["n_components"])
    assert d in dimensions
    assert dimensions[[0, -1]].tolist() == [1, max_dimension]
    assert len(dimensions) <= 21
    assert (np.diff(dimensions) > 0).all()


def test_a_dimension_without_an_answer_is_a_gap():
    hidden = FairPCA(2, restriction=MeanParity()).fit(X, sensitive_features=GROUPS)
    display = ErrorCurveDisplay.from_estimator(hidden, X, GROUPS, dimensions=[4, 5])
    frame = display.frame().set_index(["model", "n_components"])["expected_loss"].isna()
    name = display.records[-1]["model"]
    # One direction is taken by the difference of the means.
    assert [frame[name, d].all() for d in (4, 5)] == [False, True]
    assert not frame["PCA"].any()
    statuses = [record["status"] for record in display.records if record["model"] == name]
    assert statuses[::2] == ["optimal", "infeasible"]


@parametrize_diagonal(center=["group", "global", "none"], scale=[True, False])
def test_shares_kept_and_losses_are_those_of_an_audit(center, scale):
    fair = FairPCA(2, center=center, scale=scale).fit(THREE.X, sensitive_features=THREE.labels)
    models = {m.name: m for m in audit(fair, THREE.X, THREE.labels, folds=None).models}
    kept_display = VarianceKeptDisplay.compute(fair)
    loss_display = GroupLossDisplay.compute(fair, unit="squared")
    for name in ("PCA", "minimax loss"):
        shares = figures(models[name], "observed_variance_kept")
        np.testing.assert_allclose(select(kept_display, name, 2), shares, rtol=1e-9)
        losses = figures(models[name], "observed_loss")
        np.testing.assert_allclose(select(loss_display, name, 2), losses, atol=1e-9)
    best, total = (
        figures(models["PCA"], name) for name in ("observed_best_error", "observed_total_variance")
    )
    np.testing.assert_allclose(
        select(kept_display, "best possible", 2), 1 - best / total, rtol=1e-9
    )
    assert loss_display.bound == fair.solution_.lower_bound
    assert loss_display.bound <= loss_display.values()[1].max() + 1e-12
    assert loss_display.status == fair.solution_.status


def test_shares_of_other_rows_are_those_of_an_audit():
    rows = HELD_OUT.X
    groups = HELD_OUT.labels
    display = VarianceKeptDisplay.compute(fair_model(), rows, groups)
    for model in audit(fair_model(), rows, groups, folds=None).models:
        shares = figures(model, "observed_variance_kept")
        np.testing.assert_allclose(select(display, model.name, 2), shares, rtol=1e-9)


def test_only_minimax_loss_proves_a_bound_on_losses():
    other = FairPCA(2, criterion="nash_welfare").fit(X, sensitive_features=GROUPS)
    assert GroupLossDisplay.compute(other).bound is None


def test_a_penalty_of_zero_is_pca_and_a_large_one_closes_the_gap():
    fair = FairPCA(2, criterion=ErrorGap(0.3)).fit(X, sensitive_features=GROUPS)
    display = DisparityPathDisplay.from_estimator(fair)
    assert display.values[0] == 0
    assert 0.3 in display.values
    assert display.selected_value == 0.3
    pca = reconstruction_errors(PCA(2).fit(X), X, GROUPS)
    assert display.pca_disparity == pytest.approx(pca[1] - pca[0])
    assert display.disparity[0] == pytest.approx(display.pca_disparity)
    assert display.total_error[0] == pytest.approx(pca @ [np.mean(g == GROUPS) for g in "ab"])
    assert (np.diff(np.abs(display.disparity)) <= 1e-6).all()
    assert (np.diff(display.total_error) >= -1e-6).all()
    assert list(display.frame().columns) == ["penalty", "disparity", "total_error", "status"]
    assert "selected: 0.3" in display_texts(display)


@pytest.mark.parametrize(
    ("criterion", "parameter", "values"),
    [
        (Disparity(0.4), "criterion__trade_off", None),
        pytest.param(
            *(RobustErrorGap(0.5, 0.15), "criterion__radius", [0, 1.0]), marks=pytest.mark.slow
        ),
        (RobustErrorGap(0.5, {"a": 0.1, "b": 0.2}), "criterion__radius", [0, 1.0]),
        (RobustErrorGap(0.5, 0.15), "criterion__penalty", [0, 1.0]),
    ],
)
def test_paths_are_refits(criterion, parameter, values):
    fair = FairPCA(2, criterion=criterion).fit(X, sensitive_features=GROUPS)
    display = DisparityPathDisplay.compute(fair, parameter, values)
    for i in (0, -1):
        refit = FairPCA(2, criterion=criterion).set_params(**{parameter: float(display.values[i])})
        refit.fit(X, sensitive_features=GROUPS)
        assert display.disparity[i] == pytest.approx(refit.disparity_, abs=1e-9)
    fitted_value = fair.get_params()[parameter]
    assert display.selected_value == (fitted_value if isinstance(fitted_value, float) else None)
    if parameter == "criterion__trade_off":
        assert display.values[[0, -1]].tolist() == [0, 1]
        assert not display.log_scale
        assert display.disparity[-1] == pytest.approx(display.pca_disparity)


@pytest.mark.slow
def test_errors_by_feature_are_the_squares_that_are_left():
    display = FeatureErrorDisplay.from_estimator(fair_model(), n_features=3)
    frame = display.frame()
    squares = (X - fair_model().inverse_transform(fair_model().transform(X))) ** 2
    assert frame.feature.tolist()[2] == "3 others"
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == list(np.unique(GROUPS))
    for group, group_rows in frame.groupby("group"):
        means = squares[group == GROUPS].mean(axis=0)
        features = [int(name[1:]) for name in group_rows.feature[:2]]
        expected = [*means[features], means.sum() - means[features].sum()]
        assert group_rows.observed_error.to_numpy() == pytest.approx(np.array(expected))
    assert frame.expected_error.isna().all()
    result = audit_example()
    first = FeatureErrorDisplay.compute(fair_model(), X, GROUPS)
    other = FeatureErrorDisplay.from_audit(result)
    assert first.is_expected
    assert first.frame().equals(other.frame())
    plain = FeatureErrorDisplay.from_audit(result, "PCA", unit="squared")
    assert np.ptp(plain.ax_.images[0].get_array() - plain.errors.expected_error.T) == 0
    shares = FeatureErrorDisplay.from_audit(result, "PCA").ax_.images[0].get_array()
    total = [group.observed_total_variance for group in result.models[1].groups]
    np.testing.assert_allclose(shares * total, plain.errors.expected_error.T)
    # All features together make up the error of the group.
    np.testing.assert_allclose(plain.errors.variances, total)
    with pytest.raises(InvalidParameter, match="Allowed"):
        FeatureErrorDisplay.from_audit(result, "ordinary")


def test_loadings_are_the_components():
    display = LoadingsDisplay.from_estimator(fair_model(), n_features=3)
    columns = display.to_columns()
    for i in range(2):
        loadings = [
            fair_model().components_[i, int(name.split()[1])] for name in columns["feature"]
        ]
        assert columns[f"component {i + 1}"] == loadings
    image = LoadingsDisplay.from_estimator(fair_model(), image_shape=(1, 5), show_pca=True)
    np.testing.assert_allclose(
        np.abs(image.pca_components @ PCA(2).fit(X).components_.T), np.eye(2), atol=1e-9
    )


def test_the_numbers_of_a_map_can_be_read_on_their_cells():
    from matplotlib.colors import to_rgb

    axes = LoadingsDisplay.from_estimator(fair_model(), n_features=5).ax_
    (image,) = axes.images
    values = image.get_array()
    assert len(axes.texts) >= values.size
    for text in axes.texts[: values.size]:
        column, row = text.get_position()
        loading = float(text.get_text().replace("\u2212", "-"))
        assert loading == pytest.approx(values[round(row), round(column)], abs=0.006)
        assert "-" not in text.get_text()  # but the sign for minus
        cell = image.to_rgba(values)[round(row), round(column), :3]
        assert contrast(to_rgb(text.get_color()), cell) > 4


def contrast(first, second):
    """Contrast ratio of two colors, 1 to 21, as WCAG 2.1 defines it."""
    light = []
    for color in (first, second):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        light.append(np.dot(linear, [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(light) / min(light)


def test_an_axis_of_shares_is_where_the_shares_are_and_its_ticks_are_what_they_say():
    picture = audit_example().plot(quantity="observed_variance_kept")
    shares = picture.frame()["observed_variance_kept"]
    low, high = picture.ax_.get_xlim()
    assert low <= shares.min() <= shares.max() <= high
    assert high - low <= 1.2 * np.ptp(shares)
    picture.figure_.draw_without_rendering()
    for tick in picture.ax_.get_xticklabels():
        number = tick.get_text().removesuffix(" %").replace("\N{MINUS SIGN}", "-")
        assert float(number) == pytest.approx(100 * tick.get_position()[0])


def test_one_group_is_ordinary_pca():
    with pytest.warns(FairspanWarning, match="one group"):
        pca = FairPCA(2).fit(X, sensitive_features=["all"] * len(X))
    # This warns no more.
    curve = ErrorCurveDisplay.compute(pca, X, ["all"] * len(X), dimensions=[1, 2])
    plain, fair = np.split(record_values(curve.records, "expected_loss"), 2)
    np.testing.assert_allclose(plain, fair, atol=1e-9)
    assert GroupLossDisplay.compute(pca).values()[1].tolist() == [0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["wide", "sparse"])
def test_displays_accept_wide_and_sparse_moments(kind):
    rng = np.random.default_rng(0)
    if kind == "wide":
        wide = rng.standard_normal((40, 600))
        groups = np.repeat(["a", "b"], 20)
    else:
        import scipy.sparse

        wide = scipy.sparse.random(300, 1600, density=0.02, random_state=rng).tocsr()
        groups = np.repeat(["a", "b"], 150)
    fair = FairPCA(2).fit(wide, sensitive_features=groups)
    assert type(fair.moments_).__name__.lower().startswith(kind)
    losses = GroupLossDisplay.from_estimator(fair, unit="squared").values()[1]
    np.testing.assert_allclose(losses, fair.group_losses_)
    curve = ErrorCurveDisplay.from_estimator(fair, dimensions=[1, 2], quantity="error")
    errors = select(curve, "minimax loss", 2)
    np.testing.assert_allclose(errors, fair.group_errors_, rtol=1e-6)
    kept_display = VarianceKeptDisplay.from_estimator(fair)
    np.testing.assert_allclose(
        kept_display.values()[1], fair.group_explained_variance_ratio_.sum(axis=1), rtol=1e-6
    )


@pytest.mark.slow
def test_a_group_without_variance_has_no_share():
    rows = np.vstack([np.zeros((5, 3)), random_rows(0, n=20, p=3).X])
    groups = np.repeat(["still", "moving"], [5, 20])
    fair = FairPCA(2, center="group").fit(rows, sensitive_features=groups)
    kept_display = VarianceKeptDisplay.from_estimator(fair)
    picture = audit(fair, rows, groups, folds=None).plot(quantity="observed_variance_kept")
    for shares in (*kept_display.values(), *picture.values()):
        assert np.isnan(shares).tolist() == [False, True]
    ErrorCurveDisplay.compute(fair, rows, groups, dimensions=[2])
    ReducedRowsDisplay.from_estimator(fair, rows, groups)


def test_rows_that_are_all_the_same_are_drawn():
    fair = FairPCA(1).fit(np.ones((6, 2)), sensitive_features=list("aaabbb"))
    for display in (ErrorCurveDisplay, GroupLossDisplay, FrontierDisplay, VarianceKeptDisplay):
        display.from_estimator(fair)


def test_losses_on_new_rows_are_drawn_with_their_intervals():
    display = GroupLossDisplay.from_estimator(fair_model(), X, GROUPS)
    from matplotlib.collections import LineCollection

    assert display.figure_.findobj(LineCollection)
    assert any("new rows" in text for text in display_texts(display))


def test_a_path_over_a_parameter_of_the_estimator_itself_has_its_name():
    display = DisparityPathDisplay.from_estimator(
        fair_model(), parameter="tol", values=[1e-6, 1e-3]
    )
    assert (display.parameter, list(display.values)) == ("tol", [1e-9, 1e-6, 1e-3])


def test_losses_are_drawn_as_shares_of_each_groups_variance():
    total = [((X - X.mean(axis=0))[label == GROUPS] ** 2).sum(axis=1).mean() for label in "ab"]
    display = GroupLossDisplay.compute(fair_model(), X, GROUPS)
    squared = select(display, "PCA", 2, "expected_loss")
    np.testing.assert_allclose(display.values()[0], squared / total, rtol=1e-9)
    curve = ErrorCurveDisplay.from_estimator(fair_model(), dimensions=[1, 2])
    for g, panel in enumerate(curve.axes_):
        (line,) = (curve_line for curve_line in panel.lines if curve_line.get_gid() == f"PCA-{g}")
        losses = [record["observed_loss"] for record in curve.records_of("PCA", g)]
        np.testing.assert_allclose(line.get_ydata(), np.array(losses) / total[g], rtol=1e-9)
    with pytest.raises(InvalidParameter, match="percent"):
        GroupLossDisplay.compute(fair_model(), unit="percent")


@pytest.mark.parametrize("unit", ["share", "squared"])
def test_the_bound_of_each_group_is_that_on_the_largest_loss(unit):
    display = GroupLossDisplay.from_estimator(fair_model(), unit=unit)
    marks = [line for line in display.ax_.lines if str(line.get_gid()).startswith("bound")]
    positions = [float(line.get_xdata()[0]) for line in marks]
    total = [((X - X.mean(axis=0))[label == GROUPS] ** 2).sum(axis=1).mean() for label in "ab"]
    expected = (
        [display.bound / group_variance for group_variance in total]
        if unit == "share"
        else [display.bound]
    )
    assert positions == pytest.approx(expected)


@pytest.mark.parametrize("unit", ["share", "squared"])
def test_losses_that_do_not_matter_look_small(unit):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 4)) * [4, 2, 1, 1]
    result = audit(
        FairPCA(2).fit(rows, sensitive_features=["a", "b"] * 2000), rows, ["a", "b"] * 2000
    )
    assert set(result.models[1].states) == {"no material harm"}
    display = result.plot(unit=unit)
    thresholds = [0.01] * 2
    if unit == "squared":
        thresholds = [0.01 * group.observed_total_variance for group in result.models[0].groups]
    bars = [patch for patch in display.ax_.patches if "materiality" in str(patch.get_gid())]
    assert [bar.get_width() for bar in bars] == pytest.approx(thresholds)
    start, end = display.ax_.get_xlim()
    assert start <= 0
    assert end >= 4 * max(thresholds)
    # All losses together take less than a quarter of the axis.
    assert np.nanmax(display.values("_high")) < end / 4
    assert any("below the 1 % threshold" in text for text in display_texts(display))
