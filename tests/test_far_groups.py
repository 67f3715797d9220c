"""Restrictions on groups or columns many deviations apart, evaluated from the rows.

What is negligible is decided for each column and each difference in its own units. A group that
lies far away, or a column of large numbers, hides no difference of others; and what double
precision cannot make equal is refused.
"""

from contextlib import nullcontext, suppress

import numpy as np
import pandas as pd
import pytest

from fairspan import CovarianceParity, FairPCA, MeanParity, Uncorrelated
from fairspan.errors import IncompatibleParameters
from measured_parity import (
    coordinates,
    largest_correlation,
    largest_mean_distance,
    transformed_mean_distance,
)

# Of a standard deviation: what equal means of transformed rows may differ by.
ALLOWED = 1e-6


def rows_with_a_far_group(far, *, columns=slice(None), spread=1.0, k=3, n=300, p=6, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    groups = np.array(list("abcdefg"[:k]) * (n // k))
    X[groups == "b", 0] += 0.5
    last = groups == "abcdefg"[k - 1]
    X[last] *= spread
    X[np.ix_(last, np.arange(p)[columns])] += far
    return X, groups


def hide_groups(X, groups, d=2, *, y=None, **settings):
    settings = {"criterion": "total_error", "restriction": MeanParity()} | settings
    return FairPCA(d, **settings).fit(X, y, sensitive_features=groups)


@pytest.mark.parametrize("center", ["group", "global", "none"])
@pytest.mark.parametrize("far", [1e6, 1e8, 5e8])
def test_a_far_group_hides_no_difference_of_others(far, center):
    X, groups = rows_with_a_far_group(far)
    assert transformed_mean_distance(hide_groups(X, groups, center=center), X, groups) <= ALLOWED


@pytest.mark.parametrize("center", ["group", "global", "none"])
def test_a_group_of_three_billion_deviations_hides_nothing_or_is_refused(center):
    X, groups = rows_with_a_far_group(3e9)
    with suppress(IncompatibleParameters):
        assert (
            transformed_mean_distance(hide_groups(X, groups, center=center), X, groups) <= ALLOWED
        )


@pytest.mark.parametrize("restriction", [MeanParity(), MeanParity(oblique=True)], ids=repr)
@pytest.mark.parametrize("offset", [1e10, 1.7e15])
def test_a_common_offset_costs_no_digits(offset, restriction):
    rng = np.random.default_rng(0)
    # Whole numbers, which are exact at these offsets.
    X = np.round(1000 * rng.standard_normal((200, 5)))
    groups = np.array(list("ab") * 100)
    X[groups == "b", 0] += 500
    near, far = (hide_groups(X + shift, groups, restriction=restriction) for shift in (0.0, offset))
    assert transformed_mean_distance(far, X + offset, groups) <= ALLOWED
    assert far.solution_.objective == pytest.approx(near.solution_.objective, rel=1e-9)


@pytest.mark.parametrize("far", [1e10, 1e12, 1e15])
def test_a_far_group_that_rounding_obscures_is_refused(far):
    X, groups = rows_with_a_far_group(far)
    with pytest.raises(IncompatibleParameters, match=r"double precision.*along component"):
        hide_groups(X, groups)


def test_the_refusal_names_the_column_that_is_too_large():
    X, groups = rows_with_a_far_group(0.0)
    X[groups == "c", 1:3] += 1e12
    frame = pd.DataFrame(X, columns=["age", "income", "code", "height", "weight", "size"])
    frame[["income", "code"]] = frame[["income", "code"]].to_numpy() @ [[0.6, 0.8], [-0.8, 0.6]]
    with pytest.raises(
        IncompatibleParameters, match=r"numbers in column '(income|code)' are so large"
    ):
        hide_groups(frame, groups, 4)


@pytest.mark.parametrize("far", [1e9, 1e12, 1e15])
def test_one_far_column_leaves_the_digits_of_others(far):
    X, groups = rows_with_a_far_group(far, columns=slice(0, 1))
    assert transformed_mean_distance(hide_groups(X, groups), X, groups) <= 1e-12


@pytest.mark.parametrize("criterion", ["total_error", "minimax_loss"])
@pytest.mark.parametrize("spread", [1e-10, 1e5, 1e10])
def test_a_group_of_another_spread(spread, criterion):
    X, groups = rows_with_a_far_group(0.0, spread=spread)
    assert (
        transformed_mean_distance(hide_groups(X, groups, criterion=criterion), X, groups) <= ALLOWED
    )


def test_two_far_groups_that_lie_close_to_each_other():
    X, groups = rows_with_a_far_group(0.0, k=4, n=400)
    X[(groups == "c") | (groups == "d")] += 1e8
    X[groups == "d", 2] += 0.25
    assert transformed_mean_distance(hide_groups(X, groups), X, groups) <= ALLOWED


def test_groups_on_one_line_take_one_direction_away():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    groups = np.array(list("abcd") * 100)
    for label in "abcd":
        X[groups == label] -= X[groups == label].mean(axis=0)
    X += np.outer(np.select([groups == group for group in "bcd"], [1.0, 3.0, 1e6]), np.ones(5))
    assert transformed_mean_distance(hide_groups(X, groups, 4), X, groups) <= ALLOWED
    with pytest.raises(IncompatibleParameters, match="removes 1 of"):
        hide_groups(X, groups, 5)


@pytest.mark.parametrize("far", [1e15, 1e10])
def test_a_tolerance_that_rounding_exceeds_is_refused(far):
    X, groups = rows_with_a_far_group(far, k=2)
    with pytest.raises(IncompatibleParameters, match="double precision misses it"):
        hide_groups(X, groups, restriction=MeanParity(1e-7))


def test_a_tolerance_next_to_a_far_column():
    X, groups = rows_with_a_far_group(1e9, columns=slice(0, 1), k=2)
    model = hide_groups(X, groups, restriction=MeanParity(1e-3))
    Z = coordinates(model, X)
    distance = np.linalg.norm(Z[groups == "a"].mean(axis=0) - Z[groups == "b"].mean(axis=0))
    assert float(distance) <= 1e-3 + ALLOWED


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({"tolerance": 0.1}, marks=pytest.mark.slow), {"n_directions": 3}],
)
def test_covariance_parity_of_a_far_group(settings):
    X, groups = rows_with_a_far_group(5e8, k=2)
    restriction = CovarianceParity(**settings)
    assert (
        transformed_mean_distance(hide_groups(X, groups, restriction=restriction), X, groups)
        <= ALLOWED
    )
    X, groups = rows_with_a_far_group(1e12, k=2)
    with pytest.raises(IncompatibleParameters, match="double precision misses it"):
        hide_groups(X, groups, restriction=restriction)


@pytest.mark.parametrize(("scale", "offset"), [(3e9, 0.0), (1e-9, 0.0), (1e12, 0.0), (1.0, 1e9)])
def test_uncorrelated_within_each_group(scale, offset):
    rng = np.random.default_rng(1)
    z = rng.standard_normal(300)
    groups = np.array(list("abc") * 100)
    X = rng.standard_normal((300, 8)) + np.outer(z, rng.standard_normal(8))
    X[groups == "c"] = X[groups == "c"] * scale + offset
    frame = pd.DataFrame(np.column_stack([X, z]), columns=[*"rstuvwxyz"])
    restriction = Uncorrelated(["z"], within_groups=True)
    model = hide_groups(frame, groups, restriction=restriction, center="group")
    assert largest_correlation(model, X, z, groups) <= ALLOWED


def test_a_column_over_all_rows_of_a_far_group():
    rng = np.random.default_rng(1)
    z = rng.standard_normal(60)
    groups = np.array(list("abc") * 20)
    X = rng.standard_normal((60, 8)) + np.outer(z, rng.standard_normal(8))
    for far in (1e5, 3e15):
        X[groups == "c"] += far
        frame = pd.DataFrame(np.column_stack([X, z]), columns=[*"rstuvwxyz"])
        with suppress(IncompatibleParameters) if far > 1e9 else nullcontext():
            model = hide_groups(frame, groups, restriction=Uncorrelated(["z"]), center="group")
            assert largest_correlation(model, X, z) <= ALLOWED


def test_two_attributes_and_one_far_category():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((600, 8))
    a = rng.integers(0, 2, 600)
    b = rng.integers(0, 3, 600)
    X[a == 1, 1] += 0.7
    X[b == 1, 2] += 0.4
    X[b == 2] += 1e8
    pairs = pd.DataFrame({"a": a, "b": b})
    for attributes, columns in (("marginal", (a, b)), ("intersections", (3 * a + b,))):
        model = hide_groups(X, pairs, restriction=MeanParity(attributes=attributes))
        assert max(transformed_mean_distance(model, X, column) for column in columns) <= ALLOWED


def test_classes_of_y_and_one_far_group():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 8))
    y = rng.integers(0, 2, 600)
    groups = rng.integers(0, 3, 600)
    X[(groups == 1) & (y == 1), 2] += 0.4
    X[groups == 2] += 1e8
    model = hide_groups(X, groups, y=y, restriction=MeanParity(within_classes="all"))
    encoder = model.subspace_.encoder
    Z = model.transform(X)
    for in_class in (y == 0, y == 1):
        assert largest_mean_distance(Z[in_class], X[in_class], groups[in_class], encoder) <= ALLOWED


@pytest.mark.parametrize("columns", [slice(None), slice(0, 1)], ids=["all", "one"])
def test_few_rows_of_a_far_group(columns):
    X, groups = rows_with_a_far_group(1e6, columns=columns, n=60, p=600)
    assert transformed_mean_distance(hide_groups(X, groups, center="group"), X, groups) <= ALLOWED
    X, groups = rows_with_a_far_group(1e12, columns=columns, n=60, p=600)
    with pytest.raises(IncompatibleParameters, match="some column"):
        hide_groups(X, groups, center="group")


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("sizes", [(1e9, 1, 1, 1), (1e5, 1e5, 1e-5, 1e-5), (1e7, 1, 1e-7, 1)])
def test_columns_of_very_different_sizes(sizes, d):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 6))
    groups = np.array(list("ab") * 150)
    X[groups == "b"] += rng.standard_normal(6)
    X *= [*sizes, 1, 1]
    assert transformed_mean_distance(hide_groups(X, groups, d), X, groups) <= 1e-12


def test_no_coordinate_distinguishes_groups_of_equal_rows():
    X = np.repeat(np.random.default_rng(0).standard_normal((3, 5)), 10, axis=0)
    groups = np.repeat(list("abc"), 10)
    Z = hide_groups(X, groups).transform(X)
    assert np.ptp(Z, axis=0).max() <= 1e-14
