"""Certificates of pairs of subspaces against exact arithmetic."""

from torture.paired_cases import PairedCase, check, draw_case
from torture.tally import Tally, case_generator


def test_claims_about_pairs_are_right(choose_count, record_property):
    tally = Tally()
    for number in range(choose_count(60, 3_000)):
        case: list[PairedCase] = []
        with tally.count_example(number, lambda: None):
            case.append(draw_case(case_generator("pairs", number)))
            tally.outcomes[check(case[0])] += 1
    tally.conclude(record_property, "pairs of subspaces")
