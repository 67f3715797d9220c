"""The exact trade-off of two groups."""

import sys
from itertools import pairwise

import numpy as np
import pytest

import real_data
from fairspan import Disparity, EqualError, ErrorGap, FairPCA, GroupMoments, frontier
from fairspan.errors import (
    FairspanWarning,
    IncompatibleParameters,
    InvalidParameter,
    InvalidType,
    MissingDependency,
)
from fairspan.registry import builtin_names
from numpy_reference import projector_distance, random_rows, reference_errors
from problems import basis_errors, random_basis, random_moments, top_sum

PARETO = ("minimax_loss", "minimax_error", "total_error", "nash_welfare")
SEEDS = (0, 1, 2, 5)
# Even seeds make smooth curves, odd ones flat edges.
SHAPES = [(seed, d) for seed in SEEDS for d in (1, 3)]


def moments_of(matrices, proportions=(0.5, 0.5)):
    """Moments about the origin whose second moments are these matrices."""
    weights = 1000 * np.array(proportions)
    return GroupMoments.from_covariances(matrices, weights=weights, groups=["a", "b"])


def curve_of(matrices, d, proportions=(0.5, 0.5), **settings):
    return frontier(moments_of(matrices, proportions), d, "none", **settings)


def random_matrices(seed, p=5):
    """Two groups: of full rank, and for odd seeds diagonal, so that the curve has flat edges."""
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, p)
    return (
        matrices if seed % 2 == 0 else np.array([np.diag(np.diag(matrix)) for matrix in matrices])
    )


def distances_to(polygon, points):
    """Distance of each point from the line through the vertices, side by side."""
    nearest = np.full(len(points), np.inf)
    for a, b in pairwise(polygon):
        share = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)[:, None]
        nearest = np.minimum(nearest, np.linalg.norm(points - a - share * (b - a), axis=1))
    return nearest


def test_two_lines_trade_one_for_the_other():
    curve = curve_of([np.diag([3.0, 0.0]), np.diag([0.0, 2.0])], 1)
    np.testing.assert_allclose(curve.errors, [[0, 2], [3, 0]], atol=1e-14)
    np.testing.assert_allclose(curve.weights, [[1, 0], [0, 1]], atol=1e-14)
    assert curve.max_deviation <= 1e-14


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_two_lines_at_an_angle_make_an_ellipse(tolerance):
    # Rank one along angles 0 and a: a line at angle t leaves sin^2 t and sin^2 (a - t).
    angle = np.pi / 3
    axis = np.array([np.cos(angle), np.sin(angle)])
    matrices = [np.diag([1.0, 0.0]), np.outer(axis, axis)]
    curve = curve_of(matrices, 1, tol=tolerance)
    at = np.arcsin(np.sqrt(np.clip(curve.errors[:, 0], 0, 1)))
    np.testing.assert_allclose(curve.errors[:, 1], np.sin(angle - at) ** 2, atol=1e-7)
    between = np.linspace(0, angle, 500)
    exact = np.stack([np.sin(between) ** 2, np.sin(angle - between) ** 2], axis=1)
    furthest = distances_to(curve.errors, exact).max()
    assert furthest <= curve.max_deviation + 1e-12
    assert curve.max_deviation <= tolerance
    assert len(curve.errors) <= 3 + 3 / np.sqrt(tolerance)


def test_both_ends_of_a_tie_are_vertices():
    curve = curve_of([np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 2.0, 0.5])], 1)
    np.testing.assert_allclose(curve.errors, [[1.5, 2.5], [2.5, 1.5]], atol=1e-12)
    np.testing.assert_allclose(curve.locate("minimax_loss").errors, [2, 2], atol=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "errors"),
    [
        # Two directions are equally good for one group; one of them helps the other.
        ([1.0, 1.0, 0.0], [0.0, 1.0, 3.0], [[1, 3], [2, 1]]),
        ([0.0, 1.0, 3.0], [1.0, 1.0, 0.0], [[1, 2], [3, 1]]),
        # The middle direction is the answer for a whole range of weights.
        ([3.0, 2.5, 0.0], [0.0, 2.5, 3.0], [[2.5, 5.5], [3, 3], [5.5, 2.5]]),
    ],
)
def test_an_end_that_is_tied_and_a_corner_are_one_vertex(first, second, errors):
    curve = curve_of([np.diag(first), np.diag(second)], 1)
    np.testing.assert_allclose(curve.errors, errors, atol=1e-12)


@pytest.mark.parametrize("matrix", [np.diag([2.0, 1.0]), np.zeros((2, 2))])
def test_groups_without_conflict_have_a_single_point(matrix):
    curve = curve_of([matrix, matrix], 1)
    np.testing.assert_allclose(curve.errors, [[matrix[1, 1]] * 2], atol=1e-14)
    np.testing.assert_array_equal(curve.losses, [[0, 0]])
    assert curve.locate("minimax_loss").on_frontier


@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_no_subspace_lies_below_the_curve(seed, d):
    matrices = random_matrices(seed)
    curve = curve_of(matrices, d, tol=1e-3)
    rng = np.random.default_rng(seed)
    others = [random_basis(rng, 5, d) for _ in range(200)]
    # Near the curve, where a hole would show.
    for i in range(0, len(curve.errors), 3):
        near = curve.subspace(i).components.T + 0.05 * rng.standard_normal((5, d))
        others.append(np.linalg.qr(near)[0])
    errors = np.array([basis_errors(matrices, basis) for basis in others])
    supports = np.einsum("ij,ij->i", curve.weights, curve.errors)
    slack = 1e-12 * np.trace(matrices.sum(axis=0))
    assert (errors @ curve.weights.T >= supports - slack).all()


@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_it_is_pareto_and_convex_and_its_weights_turn_one_way(seed, d):
    curve = curve_of(random_matrices(seed), d)
    assert len(curve.errors) > 1
    steps = np.diff(curve.errors, axis=0)
    assert (steps * [1, -1] > 0).all()
    turns = steps[:-1, 0] * steps[1:, 1] - steps[:-1, 1] * steps[1:, 0]
    lengths = np.linalg.norm(steps, axis=1)
    # On points far closer to each other than the errors are large, rounding decides the turn.
    assert (turns >= -1e-13 * curve.errors.max() * lengths.max()).all()
    assert (curve.weights >= 0).all()
    np.testing.assert_allclose(curve.weights.sum(axis=1), 1, rtol=1e-15)
    assert (np.diff(curve.weights[:, 1]) >= 0).all()
    assert curve.weights[[0, -1]].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_its_ends_are_the_optima_of_each_group(seed, d):
    matrices = random_matrices(seed)
    curve = curve_of(matrices, d)
    best = [np.trace(matrix) - top_sum(matrix, d) for matrix in matrices]
    np.testing.assert_allclose(np.diag(curve.errors[[0, -1]]), best, rtol=1e-12)
    np.testing.assert_allclose(np.diag(curve.losses[[0, -1]]), 0, atol=1e-12)
    np.testing.assert_allclose(curve.losses, curve.errors - best, atol=1e-10)


@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_swapping_the_groups_mirrors_it(seed, d):
    matrices = random_matrices(seed)
    curve = curve_of(matrices, d, (0.3, 0.7))
    mirrored = curve_of(matrices[::-1], d, (0.7, 0.3))
    np.testing.assert_allclose(mirrored.errors[::-1, ::-1], curve.errors, rtol=1e-6)
    assert mirrored.max_deviation == pytest.approx(curve.max_deviation, rel=1e-4, abs=1e-10)


@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_rotating_the_features_changes_nothing(seed, d):
    matrices = random_matrices(seed)
    turn = random_basis(np.random.default_rng(seed), 5, 5)
    curve = curve_of(matrices, d)
    rotated = curve_of(turn @ matrices @ turn.T, d)
    np.testing.assert_allclose(rotated.errors, curve.errors, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_a_finer_curve_is_within_the_height_of_a_coarse_one(seed, d):
    matrices = random_matrices(seed)
    total = np.trace(matrices.mean(axis=0))
    coarse, fine = (curve_of(matrices, d, tol=tol) for tol in (1e-3, 1e-4))
    assert max(fine.max_deviation, coarse.max_deviation / 10) <= 1e-4 * total
    assert len(coarse.errors) <= len(fine.errors) <= fine.n_eigenproblems * 2
    slack = 1e-12 * total
    assert distances_to(coarse.errors, fine.errors).max() <= coarse.max_deviation + slack


@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("scale", [False, True])
def test_each_vertex_is_a_subspace_of_d_dimensions(center, scale):
    rows = random_rows(3, n=80)
    X, labels = rows.X, rows.labels
    moments = GroupMoments.from_rows(X, labels)
    curve = frontier(moments, 2, center, scale=scale, tol=1e-3)
    fair = FairPCA(2, criterion="total_error", center=center, scale=scale)
    mean = fair.fit_moments(moments).subspace_.mean
    divisor = X.std(axis=0) if scale else np.ones(5)
    for i in (0, len(curve.errors) // 2, -1):
        subspace = curve.subspace(i)
        np.testing.assert_allclose(
            subspace.components @ subspace.components.T, np.eye(2), atol=1e-12
        )
        point = {"global": subspace.mean / divisor, "group": None, "none": np.zeros(5)}[center]
        reference = reference_errors(X / divisor, labels, subspace.components, point)
        np.testing.assert_allclose(curve.errors[i], reference, rtol=1e-9)
        np.testing.assert_array_equal(subspace.mean, mean)
        assert (subspace.center, subspace.certificate) == (center, None)
        assert (subspace.scale is not None) == scale
        if scale:
            np.testing.assert_allclose(subspace.scale, divisor, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("criterion", PARETO)
@pytest.mark.parametrize(("seed", "d"), SHAPES)
def test_criteria_that_grow_with_both_errors_lie_on_it(seed, d, criterion):
    curve = curve_of(random_matrices(seed), d, (0.3, 0.7), tol=1e-7)
    placed = curve.locate(criterion)
    assert placed.on_frontier
    assert placed.distance <= curve.max_deviation + 1e-9
    assert placed.name == criterion


def test_ordinary_pca_is_a_vertex():
    matrices = random_matrices(0)
    curve = curve_of(matrices, 2, (0.2, 0.8), tol=1e-2)
    assert curve.locate("total_error").distance <= 1e-12 * np.trace(matrices.sum(axis=0))
    assert curve.total_errors.min() == pytest.approx(
        np.array([0.2, 0.8]) @ np.trace(matrices, axis1=1, axis2=2)
        - top_sum(np.tensordot([0.2, 0.8], matrices, axes=1), 2)
    )


def test_answers_past_an_end_are_not_on_it():
    # Directions leave (2, 9.4), (3.2, 4.4), (5.2, 5); the second is the best of the second group.
    # Equal errors are found between the second and the third, where both errors grow.
    curve = curve_of([np.diag([3.2, 2.0, 0.0]), np.diag([0.0, 5.0, 4.4])], 1)
    np.testing.assert_allclose(curve.errors, [[2, 9.4], [3.2, 4.4]], atol=1e-12)
    share = 1.2 / 1.4
    for criterion in ("equal_error", ErrorGap(penalty=50.0)):
        placed = curve.locate(criterion)
        np.testing.assert_allclose(placed.errors, 3.2 + 2 * share, rtol=1e-8)
        assert not placed.on_frontier
        assert placed.distance == pytest.approx(
            share * (2 * 5 + 0.6 * 1.2) / np.hypot(1.2, 5), rel=1e-8
        )
    overshot = curve.locate(Disparity(trade_off=0.0, protected="b"))
    np.testing.assert_allclose(overshot.errors, [5.2, 5], atol=1e-12)
    assert not overshot.on_frontier
    assert curve.locate(Disparity(trade_off=1.0)).on_frontier
    # On the same edge e_1 - e_2 goes from -1.2 to 0.2.
    near = curve.locate(EqualError(0.6))
    share = 0.6 / 1.4
    np.testing.assert_allclose(near.errors, [3.2 + 2 * share, 4.4 + 0.6 * share], rtol=1e-8)


def test_landmarks_are_all_criteria_that_have_an_answer():
    feasible = curve_of(random_matrices(0), 2)
    names = [placed.name for placed in feasible.locate_all()]
    assert names == list(builtin_names("criterion"))
    # The first group always has the larger error: there is no answer with equal errors.
    apart = curve_of([np.diag([9.0, 8.0, 7.0]), np.diag([0.1, 0.2, 0.3])], 1)
    landmarks = {placed.name: placed for placed in apart.locate_all()}
    assert set(builtin_names("criterion")) - set(landmarks) == {"equal_error"}
    assert all(landmarks[name].on_frontier for name in PARETO)
    with pytest.raises(IncompatibleParameters, match="smallest achievable gap"):
        apart.locate("equal_error")


def test_a_constant_column_is_reported_once():
    rows = random_rows(1)
    rows.X[:, 2] = 4.0
    moments = GroupMoments.from_rows(rows.X, rows.labels)
    with pytest.warns(FairspanWarning, match="Constant columns") as warned:
        curve = frontier(moments, 2, scale=True)
    assert len(warned) == 1
    assert len(curve.locate_all()) >= 6  # a warning would be an error here


def test_the_frame_holds_the_figures():
    curve = curve_of(random_matrices(2), 2, tol=1e-2)
    frame = curve.frame()
    for figure, name in (("weight", "weights"), ("error", "errors"), ("loss", "losses")):
        figures = getattr(curve, name)
        np.testing.assert_array_equal(frame[[f"{figure} of a", f"{figure} of b"]], figures)
    np.testing.assert_array_equal(frame["total error"], curve.total_errors)
    assert frame.shape == (len(curve.errors), 7)


def test_without_pandas_the_frame_says_what_to_install(monkeypatch):
    curve = curve_of(random_matrices(2), 2, tol=1e-2)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match=r"fairspan\[pandas\]"):
        curve.frame()


@pytest.mark.parametrize(
    ("n_groups", "settings", "kind", "words"),
    [
        (1, {}, IncompatibleParameters, r"1 group\b.*exactly two.*audit"),
        (3, {}, IncompatibleParameters, "3 groups.*exactly two.*audit"),
        (0, {}, InvalidType, "of type ndarray.*sensitive_features"),
        (2, {"tol": 0.0}, InvalidParameter, "tol is 0.0"),
        (2, {"tol": float("nan")}, InvalidParameter, "tol is nan"),
        (2, {"n_components": 6}, InvalidParameter, "n_components is 6"),
        (2, {"n_components": 0.9}, InvalidParameter, "n_components is 0.9"),
        (2, {"center": "median"}, InvalidParameter, "'median'"),
        (2, {"scale": "yes"}, InvalidParameter, "scale is 'yes'"),
    ],
    ids=str,
)
def test_problems_without_a_frontier_are_refused(n_groups, settings, kind, words):
    rows = random_rows(0, groups=tuple("abc"[: n_groups or 2]))
    moments = GroupMoments.from_rows(rows.X, rows.labels) if n_groups else rows.X
    with pytest.raises(kind, match=words):
        frontier(moments, **{"n_components": 2, **settings})


def test_rows_give_the_frontier_of_their_moments():
    rows = random_rows(2)
    expected = frontier(GroupMoments.from_rows(rows.X, rows.labels), 2, scale=True)
    curve = frontier(rows.X, 2, sensitive_features=rows.labels, scale=True)
    np.testing.assert_array_equal(curve.errors, expected.errors)


@pytest.mark.parametrize("i", [99, -99, "first", 0.5])
def test_vertices_that_are_not_there(i):
    curve = curve_of(random_matrices(1), 1)
    with pytest.raises(InvalidParameter, match="Allowed: an integer from -"):
        curve.subspace(i)
    last = curve.subspace(-1)
    by_index = curve.subspace(len(curve.errors) - 1)
    np.testing.assert_array_equal(last.components, by_index.components)


@pytest.mark.parametrize(
    "name",
    [
        "compas:group__sex",
        pytest.param("default_credit:group__education", marks=pytest.mark.slow),
        pytest.param("german_credit:group__age_lt40", marks=pytest.mark.slow),
    ],
)
def test_real_data(name):
    rows = real_data.load(name)
    moments = GroupMoments.from_rows(rows.X, rows.groups)
    curve = frontier(moments, 3, scale=True)
    fine = frontier(moments, 3, scale=True, tol=1e-5)
    total = rows.X.shape[1]  # every scaled column varies by one
    assert fine.max_deviation <= 1e-5 * total
    assert curve.max_deviation <= 1e-4 * total
    assert distances_to(curve.errors, fine.errors).max() <= curve.max_deviation + 1e-9 * total
    landmarks = {placed.name: placed for placed in curve.locate_all()}
    for criterion in PARETO:
        fit = FairPCA(3, criterion=criterion, scale=True).fit_moments(moments)
        np.testing.assert_allclose(landmarks[criterion].errors, fit.group_errors_, rtol=1e-7)
        assert landmarks[criterion].on_frontier
    # The whole row of weights is proven on the rows themselves.
    i = len(curve.errors) // 2
    w = curve.weights[i]
    components = curve.subspace(i).components
    second = moments.divided_by(rows.X.std(axis=0)).second_moments()
    _, vectors = np.linalg.eigh(np.tensordot(w, second, axes=1))
    assert projector_distance(components, vectors[:, -3:].T) < 1e-8


def test_a_picture_is_fine_however_short_the_frontier_is():
    from fairspan.displays import FrontierDisplay

    # Two dimensions that neither group can do without hide a trade-off a millionth their size.
    large = np.full(2, 1e3)
    small = random_matrices(0, 4) * 1e-3
    matrices = np.zeros((2, 6, 6))
    matrices[:, :2, :2] = np.diag(large)
    matrices[:, 2:, 2:] = small
    moments = moments_of(matrices)
    coarse = frontier(moments, 3, "none")
    fair = FairPCA(3, center="none", criterion="total_error").fit_moments(moments)
    fine = FrontierDisplay.compute(fair, criteria=[])
    extent = np.ptp(fine.errors, axis=0).max()
    assert coarse.max_deviation > 1e-2 * extent
    alone = curve_of(small, 1, tol=1e-6)
    assert distances_to(alone.errors, fine.errors).max() <= 1e-3 * extent
    assert distances_to(fine.errors, alone.errors).max() <= 2e-4 * extent
