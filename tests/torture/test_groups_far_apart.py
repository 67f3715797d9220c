"""Restrictions of rows that lie far apart, or have very different sizes: none is wrong."""

from fairspan.errors import FairspanError
from torture.far_groups import FarGroupsCase, check, draw_case
from torture.tally import Tally, case_generator


def test_none_misses_its_restriction(how_many, record_property):
    tally = Tally()
    for number in range(how_many(30, 2_000)):
        case: list[FarGroupsCase] = []
        with tally.example(number, lambda: None):
            case.append(draw_case(case_generator("far groups", number)))
            try:
                model = case[0].fit()
            except FairspanError:
                tally.outcomes["refused"] += 1
                continue
            tally.disagreement("rows, in deviations, where optimal", 0.0)
            missed = check(case[0], model)
            status = str(model.solution_.status)
            if status == "optimal":
                tally.disagreement("rows, in deviations, where optimal", missed)
            tally.outcomes[status] += 1
    tally.conclude(record_property, "restrictions of far groups")
