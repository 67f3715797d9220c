"""How many eigenproblems five named fits take, times 1.5, so that a slow-down shows."""

import pytest

from fairspan import FairPCA, GroupMoments, MinimaxLoss, NashWelfare, RobustErrorGap
from real_data import load

# Measured counts.
COUNTS = [
    ("default_credit:group__education", 5, MinimaxLoss(), 5),
    ("wine_quality:group__colour", 3, RobustErrorGap(2.5, 0.15), 20),
    ("german_credit:group__age_lt40", 3, "equal_error", 5),
    ("default_credit:group__education_sex6", 10, MinimaxLoss(), 9),
    ("adult_race5:group__race", 3, NashWelfare(), 11),
]


@pytest.mark.counts
@pytest.mark.parametrize(("name", "d", "criterion", "count"), COUNTS)
def test_the_count_is_not_much_more_than_it_was(name, d, criterion, count):
    rows = load(name)
    moments = GroupMoments.from_rows(rows.z_scored(ddof=0), rows.groups)
    solution = FairPCA(d, criterion=criterion, center="group").fit_moments(moments).solution_
    assert solution.status == "optimal"
    assert solution.trace[-1].n_eigenproblems <= solution.n_eigenproblems
    assert 1 <= solution.n_eigenproblems <= 1.5 * count
