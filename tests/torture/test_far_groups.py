"""Restrictions of rows that lie far apart, or have very different sizes: none is wrong."""

from fairspan.errors import FairspanError
from torture.far_groups import Drawn, check, drawn_rows
from torture.tally import Tally, generator


def test_none_misses_its_restriction(how_many, record_property):
    tally = Tally()
    for number in range(how_many(30, 2_000)):
        case: list[Drawn] = []
        with tally.example(number, lambda: None):
            case.append(drawn_rows(generator("far groups", number)))
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
    tally.settled(record_property, "restrictions of far groups")
