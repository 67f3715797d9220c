"""The walk of the slider: along the frontier of two groups, over the dimension of more."""

from itertools import pairwise

import numpy as np
import pytest

from cli.by_hand import figures_by_hand
from fairspan.report.facts.walks import Step, Walk, aligned, spread_along, telling_features
from report_rows import column, facts_by, made_rows

FEW = ["minimax_error"]


@pytest.mark.long
@pytest.mark.parametrize(("k", "p", "d"), [(2, 30, 8), (2, 2, 1), (3, 30, 8), (12, 6, 2)])
def test_it_is_never_larger_than_a_page_can_show(k, p, d):
    steps = facts_by(*made_rows(k, p), d, criteria=FEW)["steps"]
    assert steps["walk"] == ("frontier" if k == 2 else "dimension")
    assert 1 <= len(steps["points"]) <= 40
    assert len(steps["features"]) == min(p, 20)
    for point in steps["points"]:
        loadings = np.array(point["components"])
        assert loadings.shape == (min(point["n_components"], 5), min(p, 20))
        assert len(point["variances"]) == len(loadings)
        assert len(point["errors"]) == len(point["losses"]) == len(point["kept"]) == k


def test_each_step_of_the_frontier_has_the_errors_of_its_components():
    X, labels = made_rows(2, 6)
    facts = facts_by(X, labels, 2, criteria=FEW)
    steps = facts["steps"]
    assert steps["features"] == [f"feature {i}" for i in range(6)]
    for point in steps["points"]:
        components = np.array(point["components"])
        by_hand = figures_by_hand(X, labels, components, X.mean(axis=0), 1.0, center="global")
        errors = [each.error for each in by_hand.values()]
        np.testing.assert_allclose(point["errors"], errors, rtol=2e-3)
        kept = [1 - each.error / each.total_variance for each in by_hand.values()]
        np.testing.assert_allclose(point["kept"], kept, atol=2e-3)
        best = [each.best_error for each in by_hand.values()]
        np.testing.assert_allclose(point["losses"], np.array(point["errors"]) - best, atol=1e-8)
        variances = ((X - X.mean(axis=0)) @ components.T).var(axis=0)
        np.testing.assert_allclose(point["variances"], variances, rtol=2e-3)
    first = np.array([point["errors"] for point in steps["points"]])
    assert (np.diff(first[:, 0] - first[:, 1]) > 0).all()


@pytest.mark.parametrize("criterion", ["minimax_loss", "equal_error", "disparity", "total_error"])
def test_pca_and_the_main_answer_are_steps_of_their_own(criterion):
    facts = facts_by(*made_rows(2, 5), 2, criterion=criterion, criteria=[])
    steps, points = facts["steps"], facts["steps"]["points"]
    main = next(model for model in facts["models"] if model["is_main"])
    assert points[steps["start"]]["errors"] == column(main, "error").tolist()
    np.testing.assert_allclose(
        points[steps["plain"]]["errors"], column(facts["models"][0], "error"), rtol=1e-9
    )
    assert points[steps["start"]]["label"] == main["name"]
    assert points[steps["plain"]]["label"].startswith("PCA")


def test_where_both_answers_are_the_same_it_is_one_step():
    rows = np.vstack([np.eye(3), np.eye(3)]) * [3, 2, 1]
    steps = facts_by(rows, ["a"] * 3 + ["b"] * 3, 1)["steps"]
    assert [point["label"] for point in steps["points"]] == ["PCA, minimax_loss"]
    assert (steps["start"], steps["plain"]) == (0, 0)


def test_over_the_dimension_it_starts_at_the_one_that_was_asked_for():
    facts = facts_by(*made_rows(3, 6), 4, criteria=FEW)
    steps, curve = facts["steps"], facts["by_dimension"]
    assert [point["n_components"] for point in steps["points"]] == curve["dimensions"]
    assert steps["points"][steps["start"]]["n_components"] == 4
    assert [point["errors"] for point in steps["points"]] == curve["fair"]["errors"]
    assert steps["plain"] is None


@pytest.mark.parametrize("k", [2, 3])
def test_neighbouring_steps_have_components_of_the_same_sign_and_order(k):
    points = facts_by(*made_rows(k, 6, seed=3), 3, criteria=FEW)["steps"]["points"]
    for before, after in pairwise(points):
        m = min(len(before["components"]), len(after["components"]))
        agreement = np.array(before["components"][:m]) @ np.array(after["components"][:m]).T
        assert (np.diag(agreement) >= -1e-3).all()


def test_alignment_undoes_signs_and_order():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(7, 3)))[0].T
    none = np.zeros(2)
    shuffled = basis[[2, 0, 1]] * np.array([[-1.0], [1.0], [-1.0]])
    steps = tuple(Step("", each, none, none) for each in (shuffled, basis, -basis, basis[:2]))
    walk = aligned(Walk("frontier", steps, 1, None))
    for step in walk.steps[:3]:
        np.testing.assert_array_equal(step.components, basis)
    np.testing.assert_array_equal(walk.steps[3].components, basis[:2])


def test_points_are_spread_and_keep_both_ends():
    angles = np.linspace(0, np.pi / 2, 500) ** 3
    curve = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles)]) * [1e6, 1e-3]
    kept = spread_along(curve, 20)
    assert (kept[0], kept[-1], len(kept)) == (0, 499, 20)
    lengths = np.linalg.norm(np.diff(curve[kept] / np.ptp(curve, axis=0), axis=0), axis=1)
    assert lengths.max() < 2 * lengths.min()


def test_telling_features_are_the_largest_anywhere():
    components = np.zeros((3, 2, 50))
    for step, feature in enumerate((49, 7, 30)):
        components[step, 1, feature] = -1.0 + 0.1 * step
    chosen = telling_features(list(components))
    assert chosen == sorted({49, 7, 30} | set(range(7)) | set(range(8, 18)))
