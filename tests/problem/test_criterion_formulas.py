"""Criteria by their formulas, and directions in which the means agree."""

import numpy as np
import pytest

from fairspan import (
    CovarianceParity,
    Disparity,
    EqualError,
    ErrorGap,
    FairPCA,
    LeastVariance,
    MeanParity,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
    TotalError,
)
from fairspan.errors import IncompatibleParameters, InvalidParameter, InvalidType, UnknownGroup
from problems import build_problem, random_moments

# Errors 3 and 5 where the least are 1 and 4: the one kept direction holds 6 and 11 of variance.
ERRORS = np.array([3.0, 5.0])
SHARES = [0.25, 0.75]
MATRICES = [np.diag([8.0, 1.0]), np.diag([4.0, 12.0])]


def value_at(criterion, errors=ERRORS):
    return criterion.value(errors, build_problem(MATRICES, 1, criterion, SHARES))


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        (TotalError(), 4.5),
        (MinimaxLoss(), 2.0),
        (MinimaxError(), 5.0),
        (MinimaxLoss(relative=True), 2 / 9),
        (MinimaxError(relative=True), 1 / 3),
        (LeastVariance(), -6.0),
        (Disparity(0.5, protected="group 1"), 0.5 * 4.5 + 0.5 * 2),
        (Disparity(0.5, protected="group 0"), 0.5 * 4.5 - 0.5 * 2),
        (EqualError(), 4.5),
        (ErrorGap(2.0), 4.5 + 2 * 2),
        (RobustErrorGap(2.0, 0.0), 4.5 + 2 * 2),
        (NashWelfare(), -(np.log(6) + np.log(11)) / 2),
    ],
)
def test_values_by_hand(criterion, value):
    assert value_at(criterion) == pytest.approx(value, rel=1e-14)


def test_the_robust_error_gap_is_the_supremum_over_both_balls():
    # Each error may be anything whose root is within sqrt(eps) of the error's root.
    radii = {"group 0": 0.3, "group 1": 7.0}
    criterion = RobustErrorGap(2.0, radii)
    reach = [
        np.linspace(max(np.sqrt(e) - np.sqrt(r), 0), np.sqrt(e) + np.sqrt(r), 801) ** 2
        for e, r in zip(ERRORS, radii.values(), strict=True)
    ]
    x, y = np.meshgrid(*reach)
    supremum = (0.25 * x + 0.75 * y + 2 * np.abs(x - y)).max()
    assert value_at(criterion) == pytest.approx(supremum, rel=1e-12)


def test_a_number_as_radius_shrinks_with_the_root_of_the_rows():
    problem = build_problem(MATRICES, 1, RobustErrorGap(0.5, 3.0), SHARES)
    assert problem.group_weights.tolist() == [250, 750]
    np.testing.assert_allclose(problem.criterion.radii(problem), 3 / np.sqrt([250, 750]))


@pytest.mark.parametrize("errors", [[3.0, 5.0], [0.02, 5.0], [4.0, 0.5]])
def test_slopes_are_those_of_the_scores(errors):
    criterion = RobustErrorGap(1.5, {"group 0": 0.3, "group 1": 1.0})
    errors = np.array(errors)
    problem = build_problem(MATRICES, 1, criterion, SHARES)
    for g, step in enumerate(np.eye(2) * 1e-6):
        ahead, behind = (criterion.scores(errors + sign * step, problem) for sign in (1, -1))
        slopes = criterion.score_gradients(errors, problem)[:, g]
        np.testing.assert_allclose(slopes, (ahead - behind) / 2e-6, rtol=1e-6)


def test_a_group_of_no_weight_adds_no_slope_even_where_its_error_is_zero():
    # The penalty is the first group's share: in one of the two pairs nothing depends on its error.
    problem = build_problem(MATRICES, 1, RobustErrorGap(0.25, 1.0), SHARES)
    slopes = problem.criterion.score_gradients(np.array([0.0, 5.0]), problem)[:, 0]
    assert sorted(slopes) == [0, np.inf]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ErrorGap(-1.0), r"penalty is -1\.0.*at least 0"),
        (lambda: ErrorGap(np.nan), "penalty is nan"),
        (lambda: RobustErrorGap(0.5, -0.1), "radius is -0.1"),
        (lambda: RobustErrorGap(0.5, {"a": -0.1}), "radius of 'a'"),
        (lambda: Disparity(1.5), r"trade_off is 1\.5.*from 0 to 1"),
        (lambda: ErrorGap("much"), "penalty is 'much'"),
        (
            lambda: build_problem(MATRICES, 1, Disparity(0.5, "nobody")),
            r"protected is 'nobody'.*'group 0', 'group 1'",
        ),
        (
            lambda: build_problem(MATRICES, 1, RobustErrorGap(0.5, {"a": 0.1})),
            r"radius.*'a'",
        ),
        (
            lambda: build_problem([np.eye(2)] * 3, 1, Disparity()),
            r"'disparity' received 3 groups.*'error_gap'",
        ),
    ],
)
def test_parameters_out_of_range(make, words):
    with pytest.raises(
        (InvalidParameter, InvalidType, UnknownGroup, IncompatibleParameters), match=words
    ):
        make()


def test_the_protected_group_is_by_default_the_one_that_pca_serves_worse():
    problem = build_problem(MATRICES, 1, Disparity(0.5), SHARES)
    # PCA keeps the second feature: errors 8 and 4.
    assert problem.criterion.with_defaults(problem).protected == "group 0"
    np.testing.assert_allclose(problem.pieces.coefficients, [[0.5 * 0.25 + 0.5, 0.5 * 0.75 - 0.5]])


@pytest.mark.parametrize("noise", [0.0, 1e-15, -1e-15])
def test_rounding_does_not_choose_the_protected_group(noise):
    # PCA keeps the first two features and leaves both groups without error.
    first = np.diag([3.0, 1.0, noise / 2, 0.0])
    second = np.diag([2.0, 5.0, -noise / 2, 0.0])
    problem = build_problem([first, second], 2, Disparity(0.5))
    assert problem.criterion.with_defaults(problem).protected == "group 1"


@pytest.mark.parametrize(
    ("penalty", "radius", "expected"), [(0.2, 9.0, True), (0.5, 0.9, True), (0.5, 9.0, False)]
)
def test_the_condition_of_theorem_3_2(penalty, radius, expected):
    # The least errors are 1 and 4, the shares .25 and .75.
    criterion = RobustErrorGap(penalty, {"group 0": radius, "group 1": 0.0})
    assert criterion.theorem_3_2_holds(build_problem(MATRICES, 1, criterion, SHARES)) is expected


def test_a_loss_is_never_negative_through_rounding():
    assert value_at(MinimaxLoss(), np.array([1.0 - 1e-16, 4.0])) == 0.0


def test_the_rounding_of_a_difference_is_that_of_both_its_parts():
    matrices = random_moments(np.random.default_rng(0), 2, 4)
    roundings = np.array([1.0, 3.0])
    for criterion, parts in ((MinimaxError(), 1), (MinimaxLoss(), 2)):
        problem = build_problem(matrices, 2, criterion)
        bound = criterion.rounding_bound(roundings, np.ones(2), problem)
        assert bound == pytest.approx(3 * parts)


def test_the_rounding_of_the_robust_error_gap_is_that_of_the_two_largest():
    # The weights of a pair are q + 1.5 and q - 1.5; only the sizes of these matter.
    for roundings, expected in (
        ([1.0, 3.0], 2 * 3 + 1),
        ([1.0, 3.0, 2.0], (11 * 3 + 7 * 2 + 2) / 6),
    ):
        k = len(roundings)
        problem = build_problem([np.eye(4)] * k, 2, RobustErrorGap(1.5, 0.0))
        bound = RobustErrorGap(1.5, 0.0).rounding_bound(np.array(roundings), np.ones(k), problem)
        assert bound == pytest.approx(expected)


VALUES = {
    TotalError(): lambda q, e, best, total: q @ e,
    LeastVariance(): lambda q, e, best, total: max(e - total),
    MinimaxError(): lambda q, e, best, total: max(e),
    MinimaxError(relative=True): lambda q, e, best, total: max(e / total),
    MinimaxLoss(): lambda q, e, best, total: max(e - best),
    MinimaxLoss(relative=True): lambda q, e, best, total: max((e - best) / total),
}


@pytest.mark.parametrize("criterion", VALUES, ids=repr)
def test_the_value_is_that_of_its_formula(criterion):
    matrices = random_moments(np.random.default_rng(0), 3, 4)
    proportions = np.array([0.2, 0.3, 0.5])
    problem = build_problem(matrices, 2, criterion, proportions)
    best = np.linalg.eigvalsh(matrices)[:, :2].sum(axis=1)
    errors = best + np.array([0.3, 0.1, 0.2])
    traces = np.trace(matrices, axis1=1, axis2=2)
    expected = VALUES[criterion](proportions, errors, best, traces)
    assert criterion.value(errors, problem) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_mean_parity_does_not_depend_on_where_zero_is(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 4)) * [1, 2, 3, 1]
    groups = np.arange(60) % 2
    far = X + np.round(1e7 * rng.standard_normal(4))
    near = far - far[0]
    fair = FairPCA(2, criterion="total_error", restriction=MeanParity())
    values = [fair.fit(rows, sensitive_features=groups).solution_.objective for rows in (far, near)]
    assert values[0] == pytest.approx(values[1], rel=1e-7)


def test_one_direction_may_remain_for_equal_covariances():
    means = np.array([[0.0, 0.0], [1.0, 0.0]])
    parity = CovarianceParity(tolerance=0.0)
    for of_second in (1.0, 3.0):
        covariances = np.array([np.eye(2), np.diag([1.0, of_second])])
        np.testing.assert_allclose(
            np.abs(parity.allowed_directions(means, covariances, 1)), [[0], [1]]
        )
