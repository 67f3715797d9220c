"""Every answer to a hard case is right as 60 digits tell, or refused with an error of fairspan."""

import pytest

from torture.cases import Case
from torture.hard_cases import HARD_CASES
from torture.tally import Tally, answer, generator

# Many a fit takes a tenth of a second or more: fewer examples of these by default.
SLOW = (
    "a_hundred_groups",
    "columns_divided_by_their_deviation",
    "columns_of_all_sizes",
    "far_from_zero_about_the_origin",
    "groups_of_very_different_size",
    "huge_column_of_five_groups",
    "huge_column_of_three_groups",
    "nearly_identical_groups_with_equal_errors",
    "nothing_special",
    "rows_of_sixteen_bits",
    "soft_projections",
)


@pytest.mark.parametrize("name", HARD_CASES)
def test_right_or_refused(name, how_many, record_property):
    tally = Tally()
    for number in range(how_many(4 if name in SLOW else 20, 500)):
        drawn: list[Case] = []
        with tally.example(number, lambda: drawn[0] if drawn else None):  # noqa: B023
            drawn.append(HARD_CASES[name](generator(name, number)))
            answer(drawn[0], tally)
    tally.settled(record_property, name)
