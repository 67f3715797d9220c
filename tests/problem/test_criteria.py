import numpy as np
import pytest

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.problem.criteria import (
    CRITERION_NAMES,
    MinimaxError,
    MinimaxLoss,
    TotalError,
    criterion_of,
)
from fairspan.problem.disparity import signed_disparity
from fairspan.problem.problem import check_n_components

ERRORS, BEST, SHARES = np.array([3.0, 5.0]), np.array([1.0, 4.0]), np.array([0.25, 0.75])


@pytest.mark.parametrize(
    ("criterion", "value"),
    [(TotalError(), 0.25 * 3 + 0.75 * 5), (MinimaxLoss(), 2.0), (MinimaxError(), 5.0)],
)
def test_values_by_hand(criterion, value):
    assert criterion.value(ERRORS, BEST, SHARES) == value


def test_a_loss_is_never_negative_through_rounding():
    assert MinimaxLoss().value(np.array([1.0 - 1e-16]), np.array([1.0]), np.ones(1)) == 0.0


@pytest.mark.parametrize("name", CRITERION_NAMES)
def test_names_and_objects_are_the_same(name):
    criterion = criterion_of(name)
    assert criterion.name == name
    assert criterion_of(criterion) is criterion


def test_what_is_not_a_criterion():
    with pytest.raises(InvalidParameter, match=r"'fairest'.*'minimax_loss'"):
        criterion_of("fairest")
    with pytest.raises(InvalidParameter, match=r"'penalty'.*no parameters"):
        criterion_of("minimax_loss", penalty=2.0)
    with pytest.raises(InvalidType, match="a float"):
        criterion_of(0.5)


@pytest.mark.parametrize("d", [0, -1, 5, True, 2.0, "2", None, np.nan])
def test_dimensions_that_are_none(d):
    with pytest.raises(InvalidParameter, match="whole number from 1 to the number of features, 4"):
        check_n_components(d, 4)


@pytest.mark.parametrize("d", [1, 4, np.int64(2)])
def test_dimensions_that_are(d):
    check_n_components(d, 4)


def test_disparity_is_signed_for_two_groups_only():
    assert signed_disparity(np.array([3.0, 1.0])) == -2.0
    assert signed_disparity(np.array([3.0, 1.0, 7.0])) == 6.0
    assert signed_disparity(np.array([3.0])) == 0.0
