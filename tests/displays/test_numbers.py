"""Displays tell the numbers: against scikit-learn, plain numpy, audits and closed forms."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from sklearn.decomposition import PCA

from by_hand import random_rows
from fairspan import Disparity, ErrorGap, FairPCA, MeanParity, RobustErrorGap, audit
from fairspan.displays import (
    DisparityPathDisplay,
    ErrorCurveDisplay,
    FrontierDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    ReducedRowsDisplay,
    VarianceKeptDisplay,
)
from fairspan.errors import FairspanWarning, InvalidInput
from fairspan.rows.groups import Folds
from losses_by_hand import losses

ROWS = random_rows(0, n=120, p=5)
X, GROUPS = ROWS.X, ROWS.labels
HELD_OUT = random_rows(1, n=80, p=5)
THREE = random_rows(2, n=120, p=4, groups=("a", "b", "c"))
FAIR = FairPCA(2).fit(X, sensitive_features=GROUPS)


def errors_through(model, rows, groups):
    """Mean squared distance to the reconstruction, by the model's own two transforms."""
    squares = ((rows - model.inverse_transform(model.transform(rows))) ** 2).sum(axis=1)
    return np.array([squares[groups == label].mean() for label in np.unique(groups)])


def least_error(rows, point, d):
    """tr S - t_d(S) of one group about a point."""
    values = np.linalg.eigvalsh((rows - point).T @ (rows - point) / len(rows))
    return values[: len(values) - d].sum()


def test_error_curves_are_those_of_scikit_learns_pca_and_of_refits():
    display = ErrorCurveDisplay.from_estimator(FAIR, quantity="error")
    np.testing.assert_array_equal(display.dimensions, range(1, 6))
    for i, d in enumerate(display.dimensions):
        pca = PCA(d).fit(X)
        np.testing.assert_allclose(
            display.plain.values[i], errors_through(pca, X, GROUPS), atol=1e-9
        )
        fair = FairPCA(int(d)).fit(X, sensitive_features=GROUPS)
        np.testing.assert_allclose(
            display.fair.values[i], errors_through(fair, X, GROUPS), atol=1e-9
        )
        best = [least_error(X[label == GROUPS], X.mean(axis=0), d) for label in ("a", "b")]
        np.testing.assert_allclose(display.best[i], best, atol=1e-9)
    assert display.marked == 2
    assert np.isnan([display.plain.low, display.fair.high]).all()
    losses = ErrorCurveDisplay.from_estimator(FAIR, dimensions=[4, 2])
    assert losses.quantity == "loss"
    np.testing.assert_array_equal(losses.dimensions, [2, 4])
    lost = (display.plain.values - display.best)[[1, 3]]
    np.testing.assert_allclose(losses.plain.values, lost, atol=1e-9)
    np.testing.assert_allclose(np.ptp(losses.fair.values, axis=1), 0, atol=1e-6)


def test_curves_of_held_out_rows_are_those_of_audits():
    rows, groups = HELD_OUT.X, HELD_OUT.labels
    display = ErrorCurveDisplay.from_estimator(FAIR, rows, groups, dimensions=[2, 4], on_rows=True)
    errors = ErrorCurveDisplay.from_estimator(
        FAIR, rows, groups, dimensions=[2, 4], quantity="error"
    )
    assert display.quantity == "expected loss"
    assert errors.quantity == "expected error"
    for i, d in enumerate((2, 4)):
        fair = FairPCA(d).fit(X, sensitive_features=GROUPS)
        models = {model.name: model.groups for model in audit(fair, rows, groups).models}
        for name, key in (("PCA", "plain"), ("minimax_loss", "fair")):
            mine = models[name]
            for shown, estimates in (
                (display, [group.expected_loss for group in mine]),
                (errors, [group.expected_error for group in mine]),
            ):
                values = [each.value for each in estimates]
                ends = [(each.low, each.high) for each in estimates]
                found = getattr(shown, key).at(i)
                np.testing.assert_allclose(found.values, values, rtol=1e-9)
                np.testing.assert_allclose([found.low, found.high], np.transpose(ends), rtol=1e-7)
                assert list(found.states) == [group.state for group in mine]
            on_rows = [group.loss_here for group in mine]
            np.testing.assert_allclose(getattr(display, key).on_rows[i], on_rows, rtol=1e-9)
    best = [group.expected_best_error for group in models["PCA"]]
    np.testing.assert_allclose(errors.best[1], best, rtol=1e-9)
    assert np.isnan([errors.plain.on_rows, errors.fair.on_rows]).all()


def test_curves_of_the_rows_of_the_fit_are_refitted_by_folds():
    """Against formulas written out row by row."""
    display = ErrorCurveDisplay.from_estimator(FAIR, X, GROUPS, dimensions=[2])
    mean, folds = X.mean(axis=0), Folds(10, 0).of_positions(0, len(X))
    by_fold = []
    for fold in range(10):
        others = X[folds != fold]
        by_fold.append(PCA(2).fit(others).components_.T)
    basis = PCA(2).fit(X).components_.T
    found = losses(X, GROUPS, basis, point=mean, by_fold=by_fold)
    values = [found[label][1] for label in ("a", "b")]
    np.testing.assert_allclose(display.plain.values[0], values, rtol=1e-9)
    ends = np.transpose([found[label][3:5] for label in ("a", "b")])
    np.testing.assert_allclose([display.plain.low[0], display.plain.high[0]], ends, rtol=1e-7)


def test_the_frame_has_states_and_figures_on_the_rows():
    display = ErrorCurveDisplay.from_estimator(
        FAIR, HELD_OUT.X, HELD_OUT.labels, dimensions=[2], on_rows=True
    )
    frame = display.frame()
    assert list(frame.columns) == [
        *("model", "n_components", "group", "expected loss", "low", "high", "state"),
        *("loss on the rows", "status"),
    ]
    fair_b = frame.query("model == 'minimax_loss' and group == 'b'")
    assert fair_b["expected loss"].item() == display.fair.values[0, 1]
    assert fair_b["high"].item() == display.fair.high[0, 1]
    assert fair_b["state"].item() == display.fair.states[0, 1]
    assert fair_b["loss on the rows"].item() == display.fair.on_rows[0, 1]


def test_rows_that_tell_nothing_show_the_figures_on_them_and_say_so():
    few = np.vstack([X[:3], X[-3:]])
    groups = np.repeat(["a", "b"], 3)
    display = ErrorCurveDisplay.from_estimator(FAIR, few, groups, dimensions=[4])
    assert display.quantity == "loss"
    assert display.why_on_rows
    assert np.isnan(display.plain.low).all()
    display.plot()
    with pytest.raises(InvalidInput, match="give no estimates for new rows"):
        GroupLossDisplay.from_estimator(FairPCA(4).fit(X, sensitive_features=GROUPS), few, groups)


def test_losses_by_group_are_those_of_an_audit():
    display = GroupLossDisplay.from_estimator(FAIR, X, GROUPS, on_rows=True)
    models = {model.name: model.groups for model in audit(FAIR, X, GROUPS).models}
    assert list(display.models) == ["PCA", "minimax_loss"]
    for name, shown in display.models.items():
        estimates = [group.expected_loss for group in models[name]]
        np.testing.assert_allclose(shown.values, [each.value for each in estimates], rtol=1e-9)
        np.testing.assert_allclose(shown.low, [each.low for each in estimates], rtol=1e-7)
        np.testing.assert_allclose(shown.high, [each.high for each in estimates], rtol=1e-7)
        assert list(shown.states) == [group.state for group in models[name]]
        on_rows = [group.loss_here for group in models[name]]
        np.testing.assert_allclose(shown.on_rows, on_rows, atol=1e-9)
    assert list(display.plot().frame().columns) == [
        *("model", "group", "expected loss", "low", "high", "state", "loss on the rows", "bound")
    ]


def test_default_dimensions_hold_the_fitted_one():
    wide = random_rows(3, n=90, p=60)
    for d, most in ((3, 20), (25, 50)):
        fitted = FairPCA(d, criterion="total_error").fit(wide.X, sensitive_features=wide.labels)
        dimensions = ErrorCurveDisplay.from_estimator(fitted).dimensions
        assert d in dimensions
        assert dimensions[[0, -1]].tolist() == [1, most]
        assert len(dimensions) <= 21
        assert (np.diff(dimensions) > 0).all()


def test_a_dimension_without_an_answer_is_a_gap():
    hidden = FairPCA(2, restriction=MeanParity()).fit(X, sensitive_features=GROUPS)
    display = ErrorCurveDisplay.from_estimator(hidden, X, GROUPS)
    # One direction is taken by the difference of the means.
    assert np.isnan(display.fair.values).all(axis=1).tolist() == [False] * 4 + [True]
    assert np.isnan(display.fair.low[4]).all()
    assert list(display.statuses) == ["optimal"] * 4 + ["no answer"]
    assert not np.isnan(display.plain.values).any()
    display.name = "hidden"
    display.plot()


@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("scale", [False, True])
def test_shares_kept_and_losses_are_those_of_an_audit(center, scale):
    fair = FairPCA(2, center=center, scale=scale).fit(THREE.X, sensitive_features=THREE.labels)
    models = {m.name: m.groups for m in audit(fair, THREE.X, THREE.labels, folds=None).models}
    kept = VarianceKeptDisplay.from_estimator(fair)
    losses = GroupLossDisplay.from_estimator(fair)
    for name, shares, lost in (
        ("PCA", kept.plain, losses.models["PCA"].values),
        ("minimax_loss", kept.fair, losses.models["minimax_loss"].values),
    ):
        np.testing.assert_allclose(shares, [g.kept_here for g in models[name]], rtol=1e-9)
        np.testing.assert_allclose(lost, [g.loss_here for g in models[name]], atol=1e-9)
    best = [1 - g.best_error_here / g.total_variance_here for g in models["PCA"]]
    np.testing.assert_allclose(kept.best, best, rtol=1e-9)
    assert losses.bound == fair.solution_.lower_bound
    assert losses.bound <= losses.estimates.values[1].max() + 1e-12
    assert losses.status == fair.solution_.status


def test_shares_of_other_rows_are_those_of_an_audit():
    rows, groups = HELD_OUT.X, HELD_OUT.labels
    display = VarianceKeptDisplay.from_estimator(FAIR, rows, groups)
    audited = {
        m.name: [g.kept_here for g in m.groups]
        for m in audit(FAIR, rows, groups, folds=None).models
    }
    np.testing.assert_allclose(display.fair, audited["minimax_loss"], rtol=1e-9)
    np.testing.assert_allclose(display.plain, audited["PCA"], rtol=1e-9)


def test_only_minimax_loss_proves_a_bound_on_losses():
    other = FairPCA(2, criterion="nash_welfare").fit(X, sensitive_features=GROUPS)
    assert GroupLossDisplay.from_estimator(other).bound is None


def test_a_penalty_of_zero_is_pca_and_a_large_one_closes_the_gap():
    fair = FairPCA(2, criterion=ErrorGap(0.3)).fit(X, sensitive_features=GROUPS)
    display = DisparityPathDisplay.from_estimator(fair)
    assert display.values[0] == 0
    assert 0.3 in display.values
    assert display.current == 0.3
    pca = errors_through(PCA(2).fit(X), X, GROUPS)
    assert display.plain_disparity == pytest.approx(pca[1] - pca[0])
    assert display.disparity[0] == pytest.approx(display.plain_disparity)
    assert display.total_error[0] == pytest.approx(pca @ [np.mean(g == GROUPS) for g in "ab"])
    assert (np.diff(np.abs(display.disparity)) <= 1e-6).all()
    assert (np.diff(display.total_error) >= -1e-6).all()
    assert list(display.frame().columns) == ["penalty", "disparity", "total_error", "status"]
    said = [text.get_text() for text in display.plot().figure_.findobj(Text)]
    assert "chosen: 0.3" in said


@pytest.mark.parametrize(
    ("criterion", "parameter", "values"),
    [
        (Disparity(0.4), "criterion__trade_off", None),
        (RobustErrorGap(0.5, 0.15), "criterion__radius", [0, 1.0]),
        (RobustErrorGap(0.5, {"a": 0.1, "b": 0.2}), "criterion__radius", [0, 1.0]),
        (RobustErrorGap(0.5, 0.15), "criterion__penalty", [0, 1.0]),
    ],
)
def test_paths_are_refits(criterion, parameter, values):
    fair = FairPCA(2, criterion=criterion).fit(X, sensitive_features=GROUPS)
    display = DisparityPathDisplay.from_estimator(fair, parameter, values)
    for i in (0, -1):
        changed = FairPCA(2, criterion=criterion).set_params(
            **{parameter: float(display.values[i])}
        )
        changed.fit(X, sensitive_features=GROUPS)
        assert display.disparity[i] == pytest.approx(changed.disparity_, abs=1e-9)
    own = fair.get_params()[parameter]
    assert display.current == (own if isinstance(own, float) else None)
    if parameter == "criterion__trade_off":
        assert display.values[[0, -1]].tolist() == [0, 1]
        assert not display.logarithmic
        assert display.disparity[-1] == pytest.approx(display.plain_disparity)


def test_loadings_are_the_components():
    display = LoadingsDisplay.from_estimator(FAIR, n_features=3)
    columns = display.columns()
    for i in range(2):
        shown = [FAIR.components_[i, int(name.split()[1])] for name in columns["feature"]]
        assert columns[f"component {i + 1}"] == shown
    image = LoadingsDisplay.from_estimator(FAIR, image_shape=(1, 5), beside_pca=True)
    np.testing.assert_allclose(
        np.abs(image.plain @ PCA(2).fit(X).components_.T), np.eye(2), atol=1e-9
    )


def test_the_numbers_of_a_map_can_be_read_on_their_cells():
    axes = LoadingsDisplay.from_estimator(FAIR, n_features=5).plot().ax_
    (image,) = axes.images
    values = image.get_array()
    assert len(axes.texts) >= values.size
    for text in axes.texts[: values.size]:
        column, row = text.get_position()
        cell = image.to_rgba(values)[round(row), round(column), :3]
        assert contrast(to_rgb(text.get_color()), cell) > 4


def contrast(first, second):
    """As WCAG 2.1 defines it: 1 to 21."""
    light = []
    for colour in (first, second):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        light.append(np.dot(linear, [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(light) / min(light)


def test_the_size_of_an_error_is_seen_from_zero_on():
    low, high = audit(FAIR, X, GROUPS).plot(quantity="error").ax_.get_xlim()
    assert low <= 0 < high


def test_an_axis_of_shares_is_where_the_shares_are():
    picture = audit(FAIR, X, GROUPS).plot(quantity="variance kept")
    shares = picture.frame()["variance kept"]
    low, high = picture.ax_.get_xlim()
    assert low <= shares.min() <= shares.max() <= high
    assert high - low <= 1.2 * max(np.ptp(shares), 0.1)
    kept = VarianceKeptDisplay.from_estimator(FAIR)
    kept.plain, kept.fair, kept.best = (np.full(2, 0.97 + each) for each in (0, 0.01, 0.02))
    low, high = kept.plot().ax_.get_xlim()
    assert 0.85 <= low <= 0.97
    assert 0.99 <= high <= 1.02


def test_long_names_of_groups_are_written_in_full_in_two_lines():
    name = "people of the male sex as recorded in the census of 1994"
    named = np.where(GROUPS == "a", name, "women")
    fair = FairPCA(2).fit(X, sensitive_features=named)
    axes = VarianceKeptDisplay.from_estimator(fair).plot().ax_
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [label.replace("\n", " ") for label in labels] == [name, "women"]


def test_one_group_is_ordinary_pca():
    with pytest.warns(FairspanWarning, match="one group"):
        alone = FairPCA(2).fit(X, sensitive_features=["all"] * len(X))
    curve = ErrorCurveDisplay.from_estimator(alone, X, ["all"] * len(X))  # warns no more
    np.testing.assert_allclose(curve.plain.values, curve.fair.values, atol=1e-9)
    assert GroupLossDisplay.from_estimator(alone).estimates.values[1].tolist() == [0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["thin", "sparse"])
def test_moments_that_refer_to_the_rows_will_do(kind):
    rng = np.random.default_rng(0)
    if kind == "thin":
        wide, groups = rng.standard_normal((40, 600)), np.repeat(["a", "b"], 20)
    else:
        import scipy.sparse

        wide = scipy.sparse.random(120, 1600, density=0.02, random_state=rng).tocsr()
        groups = np.repeat(["a", "b"], 60)
    fair = FairPCA(2).fit(wide, sensitive_features=groups)
    assert type(fair.moments_).__name__.lower().startswith(kind)
    losses = GroupLossDisplay.from_estimator(fair).estimates.values[1]
    np.testing.assert_allclose(losses, fair.group_losses_)
    curve = ErrorCurveDisplay.from_estimator(fair, dimensions=[1, 2], quantity="error")
    np.testing.assert_allclose(curve.fair.values[1], fair.group_errors_, rtol=1e-6)
    kept = VarianceKeptDisplay.from_estimator(fair)
    np.testing.assert_allclose(
        kept.fair, fair.group_explained_variance_ratio_.sum(axis=1), rtol=1e-6
    )


def test_a_group_without_variance_has_no_share():
    still = np.vstack([np.zeros((5, 3)), random_rows(0, n=20, p=3).X])
    groups = np.repeat(["still", "moving"], [5, 20])
    fair = FairPCA(2, center="group").fit(still, sensitive_features=groups)
    kept = VarianceKeptDisplay.from_estimator(fair).plot()
    assert np.isnan(kept.fair).tolist() == [False, True]
    picture = audit(fair, still, groups).plot(quantity="variance kept")
    assert np.isnan(picture.estimates.values).tolist() == [[False, True]] * 2
    for display in (ErrorCurveDisplay, ReducedRowsDisplay):
        display.from_estimator(fair, still, groups).plot()


def test_rows_that_are_all_the_same_are_drawn():
    fair = FairPCA(1).fit(np.ones((6, 2)), sensitive_features=list("aaabbb"))
    for display in (ErrorCurveDisplay, GroupLossDisplay, FrontierDisplay, VarianceKeptDisplay):
        display.from_estimator(fair).plot()


def test_penalties_are_tried_from_a_hundredth_to_ten():
    rows = np.diag([3.0, 2, 1, 1])
    fair = FairPCA(1, criterion=ErrorGap(0.5)).fit(rows, sensitive_features=[*"aabb"])
    values = DisparityPathDisplay.from_estimator(fair).values
    assert (values[0], values[1], values[-1]) == pytest.approx((0.0, 0.01, 10.0))
    assert 0.5 in values
    steps = np.diff(np.log(values[values != 0.5][1:]))
    np.testing.assert_allclose(steps, steps[0])


def test_losses_on_new_rows_are_drawn_with_their_intervals():
    display = GroupLossDisplay.from_estimator(FAIR, X, GROUPS).plot()
    assert display.figure_.findobj(LineCollection)
    title = " ".join(text.get_text() for text in display.figure_.findobj(Text))
    assert "new rows" in title


def test_a_path_over_a_parameter_of_the_estimator_itself_has_its_name():
    display = DisparityPathDisplay.from_estimator(FAIR, parameter="tol", values=[1e-6, 1e-3])
    assert (display.parameter, list(display.values)) == ("tol", [1e-9, 1e-6, 1e-3])
