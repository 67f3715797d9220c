"""Every answer to a hard case is right as 60 digits tell, or refused with an error of fairspan."""

import pytest

from torture.cases import Case
from torture.hard_cases import HARD_CASES
from torture.tally import Tally, answer, generator

# A fit takes a second or half of one.
SLOW = ("a_hundred_groups", "huge_column_of_five_groups")


@pytest.mark.parametrize("name", HARD_CASES)
def test_right_or_refused(name, how_many, record_property):
    tally = Tally()
    for number in range(how_many(12 if name in SLOW else 50, 500)):
        drawn: list[Case] = []
        with tally.example(number, lambda: drawn[0] if drawn else None):  # noqa: B023
            drawn.append(HARD_CASES[name](generator(name, number)))
            answer(drawn[0], tally)
    tally.settled(record_property, name)
