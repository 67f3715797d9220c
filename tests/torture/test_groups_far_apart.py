"""Restricted fits to rows that lie far apart, or have very different sizes, are right."""

from fairspan.errors import FairspanError
from torture.far_groups import FarGroupsCase, check, draw_case
from torture.tally import Tally, case_generator


def test_optimal_answers_meet_their_restriction(choose_count, record_property):
    tally = Tally()
    for number in range(choose_count(30, 2_000)):
        case: list[FarGroupsCase] = []
        with tally.count_example(number, lambda: None):
            case.append(draw_case(case_generator("far groups", number)))
            try:
                model = case[0].fit()
            except FairspanError:
                tally.outcomes["refused"] += 1
                continue
            tally.note_disagreement("rows, in deviations, where optimal", 0.0)
            violation = check(case[0], model)
            status = str(model.solution_.status)
            if status == "optimal":
                tally.note_disagreement("rows, in deviations, where optimal", violation)
            tally.outcomes[status] += 1
    tally.conclude(record_property, "restrictions of far groups")
