"""Biplot and correlation circle: their figures, and labels that do not overlap."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import fairspan as fs
from display_cases import HOSTILE, draw_case, drawn_texts, find_overlaps
from fairspan.displays import BiplotDisplay, CorrelationCircleDisplay
from fairspan.errors import IncompatibleParameters, InvalidParameter, InvalidType


def make_rows(p=6, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    groups = rng.choice(["a", "b"], n, p=[0.8, 0.2])
    X[groups == "b"] += np.arange(p)
    return X, groups


def fit(p=6, **settings):
    X, groups = make_rows(p)
    return fs.FairPCA(2, **settings).fit(X, sensitive_features=groups)


SETTINGS = {
    "plain": {},
    "scaled": {"scale": True},
    "rotated": {"rotation": "varimax"},
    "by group": {"center": "group"},
    "mean parity": {"restriction": fs.MeanParity()},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_correlations_are_those_of_the_rows(settings):
    X, _ = make_rows()
    fair = fit(**settings)
    display = CorrelationCircleDisplay.compute(fair)
    coordinates = fair.transform(X)
    correlations = np.corrcoef(X.T, coordinates.T)
    np.testing.assert_allclose(display.correlations, correlations[:6, 6:], atol=1e-9)
    assert display.coordinate_correlation == pytest.approx(correlations[6, 7], abs=1e-9)
    total_variance = 6 if settings.get("scale") else X.var(axis=0).sum()
    shares = coordinates.var(axis=0) / total_variance
    np.testing.assert_allclose(display.variance_shares, shares, rtol=1e-9)
    design = np.column_stack([coordinates, np.ones(len(X))])
    residuals = X - design @ np.linalg.lstsq(design, X, rcond=None)[0]
    explained = 1 - residuals.var(axis=0) / X.var(axis=0)
    np.testing.assert_allclose(display.explained_shares, explained, atol=1e-9)
    assert display.n_represented == (explained >= 0.5).sum()


def test_constant_features_have_no_arrow_and_weights_count():
    X, groups = make_rows()
    X[:, 2] = 7.0
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups, sample_weight=weights)
    display = CorrelationCircleDisplay.compute(fair)
    np.testing.assert_array_equal(display.correlations[2], [0, 0])
    repeated = np.repeat(X, weights, axis=0)
    expected = np.corrcoef(repeated[:, 0], np.repeat(fair.transform(X), weights, axis=0)[:, 0])
    assert display.correlations[0, 0] == pytest.approx(expected[0, 1], abs=1e-9)


@pytest.mark.parametrize("p", [6, 60])
def test_labels_do_not_overlap_and_are_those_of_the_longest_arrows(p):
    picture = CorrelationCircleDisplay.from_estimator(fit(p))
    labels = drawn_texts(picture.figure_)
    assert find_overlaps(labels) == []
    feature_labels = [text for text, _, _ in labels if text.startswith("feature ")]
    assert 3 <= len(feature_labels) <= 15
    lengths = np.hypot(*picture.correlations.T)
    assert f"feature {lengths.argmax()}" in feature_labels
    box = picture.ax_.get_window_extent()
    for text, extent, _ in labels:
        if text in feature_labels:
            assert box.x0 - 1 <= extent.x0 <= extent.x1 <= box.x1 + 1, text
    plt.close(picture.figure_)


def test_the_longest_arrow_has_a_label_even_if_its_name_is_too_long_for_its_side():
    names = ("marital-status=Never-married", "age")
    correlations = np.array([[0.95, -0.2], [-0.6, 0.4]])
    display = CorrelationCircleDisplay(correlations, names, np.array([0.5, 0.2]), np.ones(2))
    figure = Figure(figsize=(4.2, 4.6), layout="constrained")
    axes = display.plot(figure.add_subplot()).ax_
    boxes = {text: box for text, box, _ in drawn_texts(figure)}
    (label,) = (text for text in boxes if text.startswith("marital-status="))
    assert "\n" in label
    box = axes.get_window_extent()
    assert box.x0 <= boxes[label].x0 <= boxes[label].x1 <= box.x1


def test_odd_names_are_drawn_as_they_are():
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, len(HOSTILE), endpoint=False)
    display = CorrelationCircleDisplay(
        np.column_stack([np.cos(angles), np.sin(angles)]),
        tuple(name.replace("\n", "?") for name in HOSTILE),
        np.array([0.5, 0.2]),
        np.ones(len(HOSTILE)),
    )
    _, labels = draw_case(display)
    assert find_overlaps(labels) == []
    texts = {text for text, _, _ in labels}
    assert {"\\$\\frac{", "<b>&amp;", "plain"} & texts
    points = rng.standard_normal((60, 2))
    biplot = BiplotDisplay(
        points, np.arange(60) % 3, HOSTILE[:3], rng.standard_normal((12, 2)), display.features, 60
    )
    assert find_overlaps(draw_case(biplot)[1]) == []


def test_the_points_of_a_biplot_are_reduced_rows_evenly_by_group():
    X, groups = make_rows(n=2000)
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    display = BiplotDisplay.compute(fair, X, groups, max_rows=400)
    assert display.n_rows == 2000
    assert np.bincount(display.codes).tolist() == [200, 200]
    coordinates = fair.transform(X)
    for point, code in zip(display.points, display.codes, strict=True):
        distance = np.abs(coordinates[groups == display.groups[code]] - point).sum(axis=1)
        assert distance.min() < 1e-9
    np.testing.assert_array_equal(display.loadings, fair.components_.T)
    tips = display.arrow_tips()
    np.testing.assert_allclose(tips * display.loadings[0, 0], display.loadings * tips[0, 0])
    assert np.hypot(*tips.T).max() < display.half_range
    picture = display.plot()
    assert "400 of 2,000 rows" in picture.ax_.get_legend().get_title().get_text()
    assert find_overlaps(drawn_texts(picture.figure_)) == []
    plt.close(picture.figure_)


def test_arrows_are_light_on_a_dark_background():
    figure = Figure(facecolor="#16191d", layout="constrained")
    CorrelationCircleDisplay.compute(fit()).plot(figure.add_subplot())
    arrows = [
        collection for collection in figure.axes[0].collections if isinstance(collection, Quiver)
    ]
    assert arrows
    for quiver in arrows:
        assert to_hex(quiver.get_facecolor()[0]) == "#56a9dd"


def test_arrows_that_cannot_be_drawn_are_refused():
    X, groups = make_rows()
    one = fs.FairPCA(1).fit(X, sensitive_features=groups)
    for call in (
        lambda: CorrelationCircleDisplay.from_estimator(one),
        lambda: BiplotDisplay.from_estimator(one, X, groups),
    ):
        with pytest.raises(IncompatibleParameters, match="one component"):
            call()
    with pytest.raises(InvalidType, match="for CorrelationCircleDisplay is"):
        CorrelationCircleDisplay.from_estimator(X)
    with pytest.raises(InvalidParameter, match=r"max_rows is 5001.*at most 5,000"):
        BiplotDisplay.from_estimator(fit(), X, groups, max_rows=5001)


def test_many_features_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2001))
    wide = fs.FairPCA(2).fit(X, sensitive_features=["a", "b"] * 10)
    with pytest.raises(InvalidParameter, match="2,001 features"):
        CorrelationCircleDisplay.from_estimator(wide)


@pytest.mark.parametrize(("n_components", "is_shown"), [(1, False), (2, True)])
@pytest.mark.slow
def test_the_circle_is_on_the_page_of_a_report(tmp_path, n_components, is_shown):
    X, groups = make_rows()
    path = tmp_path / "page.html"
    facts = fs.write_report(path, X, groups, n_components=n_components, compare=[], folds=None)
    page = path.read_text(encoding="utf-8")
    assert ("<summary>Features and the first two components</summary>" in page) is is_shown
    assert "correlation" not in str(facts.keys())
