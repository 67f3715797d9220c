"""Hard cases, pairs of settings that may refute each other, and racing writers."""

import sys

import numpy as np
import pytest

from fairspan.errors import FairspanError
from racing_writers import check_whole, kill_after, names_in, race, save
from torture.cases import Case
from torture.hard_cases import HARD_CASES
from torture.judges import Wrong
from torture.pairs import CHANGES, drawn_pair, refutation
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


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("change", CHANGES)
def test_no_two_answers_refute_each_other(change, part, how_many, record_property):
    tally = Tally()
    for number in range(how_many(5, 420)):
        drawn: list[Case] = []
        with tally.example(number, lambda: drawn[0] if drawn else None):  # noqa: B023
            case, twin = drawn_pair(generator(f"{change} {part}", number), change)
            drawn.append(case)
            first, second = case.fit_or_refusal(), twin.case.fit_or_refusal()
            refused = [isinstance(each, FairspanError) for each in (first, second)]
            if any(refused):
                tally.outcomes["both refused" if all(refused) else "one refused"] += 1
                continue
            amount = refutation(first, second, case, twin)
            if amount > 0:
                raise Wrong(
                    f"answers refute each other: by {amount:.2e} beyond rounding; "
                    f"{first.solution_!r}, resolution {first.solution_.resolution:.1e}, and, "
                    f"{twin.factor} times as large, {second.solution_!r}, "
                    f"resolution {second.solution_.resolution:.1e}"
                )
            both = {str(each.solution_.status) for each in (first, second)}
            tally.outcomes["both " + both.pop() if len(both) == 1 else "of two statuses"] += 1
    tally.settled(record_property, f"pairs: {change}, part {part + 1}")


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")

N_PROCESSES = 4


def told(record_property, name, count):
    facts = {"name": name, "examples": count, "outcomes": {"whole": count}, "worst": {}}
    record_property("torture", facts)


def test_races(tmp_path, how_many, record_property):
    path, n_races = tmp_path / "out", how_many(40, 1000)
    race(path, N_PROCESSES, n_races // N_PROCESSES)
    check_whole(path)
    assert names_in(tmp_path) == ["out"]
    told(record_property, "saves to one name by four processes", n_races)


def test_kills(tmp_path, how_many, record_property):
    path, n_kills = tmp_path / "out", how_many(10, 200)
    random = np.random.default_rng(0)
    save(path, 0)
    for number in range(n_kills):
        kill_after(path, number, random.uniform(0, 0.05))
        check_whole(path)
    save(path, 0)
    assert names_in(tmp_path) == ["out"]
    told(record_property, "writers that were killed", n_kills)
