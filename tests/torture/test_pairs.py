"""The same problem posed in two ways has no two answers that refute each other."""

import pytest

from fairspan.errors import FairspanError
from torture.cases import Case
from torture.judges import Wrong
from torture.pairs import CHANGES, drawn_pair, refutation
from torture.tally import Tally, generator


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
