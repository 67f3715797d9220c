"""Directions and limits of restrictions, and what a problem knows of its rows."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan import (
    CovarianceParity,
    GroupMoments,
    MinimaxError,
)
from fairspan.errors import InvalidParameter, InvalidType
from fairspan.moments.base_moments import RowSpread
from fairspan.problem.build_family import build_problem_family
from fairspan.problem.criteria.criterion_catalog import CRITERIA, get_criterion
from fairspan.problem.directions import (
    central_index,
    equal_means_basis,
    mean_difference_directions,
    split_by_variance,
)
from fairspan.problem.disparity import signed_disparity
from fairspan.problem.feature_scale import describe_dominant_feature
from fairspan.problem.limits import MeanDistanceLimit, is_feasible
from fairspan.problem.part_parameters import check_n_components
from fairspan.problem.restrictions.restriction import AllowedDirections
from fairspan.problem.restrictions.restriction_catalog import RESTRICTIONS
from fairspan.registry import builtin_names


@pytest.mark.parametrize("name", builtin_names("criterion"))
def test_names_and_objects_are_the_same(name):
    criterion = get_criterion(name)
    assert criterion.name == name
    assert get_criterion(criterion) is criterion


@pytest.mark.parametrize(
    ("criterion", "parameters", "words"),
    [
        ("fairest", {}, r"'fairest'.*'minimax_loss'"),
        ("total_error", {"penalty": 2.0}, r"'penalty'.*no parameters"),
        (0.5, {}, "of type float"),
    ],
)
def test_unknown_criteria_are_refused(criterion, parameters, words):
    with pytest.raises((InvalidParameter, InvalidType), match=words):
        get_criterion(criterion, **parameters)


@pytest.mark.parametrize("d", [0, -1, 5, True, 2.0, "2", None, np.nan])
def test_dimensions_that_are_none(d):
    with pytest.raises(InvalidParameter, match=r"from 1 to .*\b4\b"):
        check_n_components(d, 4)


@pytest.mark.parametrize("d", [1, 4, np.int64(2)])
def test_dimensions_that_are(d):
    check_n_components(d, 4)


@pytest.mark.parametrize(("errors", "value"), [([3, 1], -2), ([3, 1, 7], 6), ([3], 0)])
def test_disparity_is_signed_for_two_groups_only(errors, value):
    assert signed_disparity(np.array(errors)) == value


def test_a_problem_knows_the_smallest_variance_of_rows_that_lie_in_its_dimensions():
    X = np.array([[1.0, 2.0, 0.1], [1.0, -2.0, -0.1], [1.0, 0.0, 0.1], [1.0, 0.0, -0.1]])
    moments = GroupMoments.from_rows(X, ["a", "b", "a", "b"])
    deviations = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) / 2
    moments = replace(moments, row_spread=RowSpread(2, 1.0))
    problem = build_problem_family(moments, 2, MinimaxError()).template
    assert problem.rounding.row_rank.maximum == 2
    assert problem.smallest_row_variance == pytest.approx(deviations[1] ** 2)
    # One dimension does not hold them, and rows that do not vary are held by any.
    assert replace(problem, n_components=1).smallest_row_variance == 0
    constant = GroupMoments.from_rows(np.ones((4, 3)), ["a", "b", "a", "b"])
    constant_problem = build_problem_family(constant, 1, MinimaxError()).template
    assert constant_problem.smallest_row_variance == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_two_groups_differ_along_one_direction_at_any_offset(seed):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((2, 4)) + 1e7 * rng.standard_normal(4)
    free = equal_means_basis(means, np.array([np.eye(4)] * 2), 2)
    assert free.shape == (4, 3)
    assert np.abs((means[1] - means[0]) @ free).max() <= 1e-12


def test_means_that_differ_by_rounding_alone_are_the_same():
    means = np.array([[1e8, 3.0], [np.nextafter(1e8, 2e8), 3.0]])
    assert mean_difference_directions(means, np.full((2, 2), 1e-8)).size == 0


def test_a_limit_on_means_holds_up_to_a_share_of_it():
    limit = MeanDistanceLimit(np.array([2.0, 0.0]), 1e-3)
    for beyond, is_met in ((0.0, True), (1e-10, True), (1e-6, False)):
        angle = np.arcsin(0.5e-3 * (1 + beyond))
        basis = np.array([[np.sin(angle)], [np.cos(angle)]])
        assert is_feasible(limit, basis) == is_met


def test_rounding_of_large_means_is_within_a_limit_of_any_size():
    limit = MeanDistanceLimit(np.array([1e6, 0.0, 0.0]), 1e-12)
    basis = np.array([[1e-16], [1.0], [0.0]])
    assert limit.excess(basis) > 0
    assert is_feasible(limit, basis)
    assert not is_feasible(limit, np.array([[1e-9], [1.0], [0.0]]))


def test_the_largest_column_is_compared_with_most_of_the_others_in_any_unit():
    spreads = np.array([1e-3, 2e-3, 3e-3, 1e12])
    X = np.array([[1.0], [-1.0]]) * spreads
    moments = GroupMoments.from_rows(X, ["a", "a"])
    description = describe_dominant_feature(moments, "global")
    assert "'3'" in description
    assert "5e+14 times" in description
    assert describe_dominant_feature(GroupMoments.from_rows(X[:, :3], ["a", "a"]), "global") is None


@pytest.mark.parametrize("kind", ["criterion", "restriction", "display"])
def test_every_name_of_a_kind_has_its_class(kind):
    from fairspan.displays.by_name import DISPLAYS

    tables = {
        "criterion": list(CRITERIA),
        "restriction": list(RESTRICTIONS),
        "display": list(DISPLAYS),
    }
    assert tables[kind] == list(builtin_names(kind))


@pytest.mark.parametrize(
    ("points", "expected"),
    [([5.0], 0), ([5.0, 9.0], 0), ([1e9, 1.0, 2.0], 2), ([0.0, 1e9, 5.0, 6.0, 7.0], 3)],
)
def test_differences_are_taken_from_the_group_in_the_middle(points, expected):
    assert central_index(np.array(points)[:, None]) == expected


@pytest.mark.parametrize(("variance", "counts"), [(1e-10, (3, 3)), (1e-13, (2, 3)), (0.0, (2, 2))])
def test_variances_of_rounding_size_leave_the_number_of_directions_open(variance, counts):
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    covariance = (rotation * [2.0, 1.0, variance]) @ rotation.T
    split = split_by_variance(np.eye(3), np.array([covariance] * 2))
    assert (split.min_varying, split.max_varying) == counts
    # A single small column is no rounding error, except in row coordinates, where no matrix of the
    # features would show it.
    graded = np.array([np.diag([2.0, 1.0, 1e-16])] * 2)
    assert split_by_variance(np.eye(3), graded).min_varying == 3
    assert split_by_variance(np.eye(3), graded, in_row_coordinates=True).min_varying == 2


@pytest.mark.parametrize("seed", range(5))
def test_rotated_directions_change_errors_within_their_bound(seed):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((2, 7, 7))
    matrices = factors @ factors.transpose(0, 2, 1)
    offsets = rng.standard_normal((2, 7))
    second = matrices + offsets[:, :, None] * offsets[:, None, :]
    basis = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    axes, neighbors = basis[:, :4], basis[:, 4:6]
    for angle in (1e-9, 1e-6, 1e-3, 0.1):
        rotation = angle * rng.uniform(-1, 1, (2, 4))
        rotated = np.linalg.qr(axes + neighbors @ rotation)[0]
        rotated = rotated @ (rotated.T @ axes)  # the nearest directions
        allowed = AllowedDirections(axes, neighbors, np.abs(rotation))
        bounds = allowed.largest_change(matrices, offsets)
        chosen = np.linalg.qr(rng.standard_normal((4, 2)))[0]
        changes = [
            np.trace(chosen.T @ (rotated.T @ matrix @ rotated - axes.T @ matrix @ axes) @ chosen)
            for matrix in second
        ]
        assert (np.abs(changes) <= bounds + 1e-13).all()
        assert (bounds <= 100 * angle * np.trace(second, axis1=1, axis2=2)).all()
    unresolved = AllowedDirections(axes, neighbors, np.zeros((2, 4)), is_resolved=False)
    inside = basis[:, :6]
    expected = np.einsum("ij,gik,kj->g", inside, second, inside)
    assert unresolved.largest_change(matrices, offsets) == pytest.approx(expected)


def test_forbidden_directions_without_variance_leave_the_rank_of_the_rows():
    # Eight rows vary along few of twenty features, most of which are forbidden for their number.
    X = np.random.default_rng(0).standard_normal((8, 20))
    moments = GroupMoments.from_rows(X, np.arange(8) % 2)
    criterion = get_criterion("total_error")
    family = build_problem_family(moments, 2, criterion, restriction=CovarianceParity(3))
    problem = family.reduction_at(2).problem
    pooled = problem.dense_moments.matrices.mean(axis=0)
    assert np.linalg.matrix_rank(pooled) == 3
    assert problem.rounding.row_rank.maximum >= 3
    assert problem.smallest_row_variance < np.inf
