"""The work of these runs stays as it was recorded."""

import pytest

from costs.cases import CASES
from costs.counting import count_work
from costs.recording import read_costs

# Rounding, and with it the number of iterations, differs between processors and versions of LAPACK;
# a fault that matters changes the work by more.
_MAX_RELATIVE_CHANGE = 0.1
# Changes of small counts that the same differences make.
_MAX_CHANGE = {"MiB at most": 0.5, "calls": 60, "Mflop in products": 0.2}
# A counter makes calls several times slower: `./run test` counts one fit of each kind of solver.
_SLOW_MARKS = {"report": pytest.mark.long} | dict.fromkeys(
    [
        "audit, 100 features",
        "audit, one pass",
        "fairspan fit",
        "fit, 100 features",
        "fit, 20,000 features, dropped rows",
        "fit, 20,000 features, scaled",
        "fit, equal error",
        "fit, error gap",
        "fit, minimax error",
        "fit, missing cells",
        "fit, nearly dependent rows",
        "fit, nested",
        "fit, robust error gap",
        "fit, scaled, by group",
        "fit, share of variance",
        "fit, share of variance, wide",
        "fit, small subspaces",
        "fit, sparse",
        "fit, total error",
        "fit, wide, six groups",
        "partial_fit, ten batches",
    ],
    pytest.mark.slow,
)
_RENEW = "if this is intended, run python -m tests.costs.recording and commit the file"


def test_every_case_is_recorded():
    assert list(read_costs()) == list(CASES)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=_SLOW_MARKS.get(case, ())) for case in CASES]
)
def test_work_is_as_recorded(case):
    record = read_costs()[case]
    counts = count_work(CASES[case])
    changes = []
    for name in sorted(record.keys() | counts.keys()):
        before = record.get(name, 0.0)
        now = counts.get(name, 0.0)
        limit = max(_MAX_RELATIVE_CHANGE * before, _MAX_CHANGE.get(name, 1))
        if abs(now - before) > limit:
            direction = "more" if now > before else "less"
            changes.append(f"{name}: {now:.4g}, {direction} than {before:.4g}")
    assert not changes, f"{'; '.join(changes)}; {_RENEW}"
