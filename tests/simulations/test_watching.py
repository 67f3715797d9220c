"""Rate of alarms in a stream that never changes, and delay until a change is found."""

import numpy as np
import pytest

import fairspan as fs
from case_selection import ALL_CASES

pytestmark = [pytest.mark.long, pytest.mark.sweep]

N_STREAMS = 200 if ALL_CASES else 12
N_LOOKS = 60
ALPHA = 0.05
SPREADS = {"a": [3, 2, 1], "b": [1, 3, 2], "c": [2, 1, 3]}


def draw_rows(rng, n, p=20):
    """Draw rows of three groups with different principal axes and much noise."""
    groups = rng.choice([*SPREADS], n, p=[0.5, 0.3, 0.2])
    rows = 0.7 * rng.normal(size=(n, p))
    rows[:, :3] *= np.array([SPREADS[group] for group in groups])
    return rows, groups


def start_stream(seed, n_fit=2000):
    rng = np.random.default_rng([4, seed])
    rows, groups = draw_rows(rng, n_fit)
    fair = fs.FairPCA(2).fit(rows, sensitive_features=groups)
    return rng, fs.Monitor(fair.subspace_)


def test_few_streams_without_a_change_ever_have_an_alarm():
    n_with_alarm = 0
    for seed in range(N_STREAMS):
        rng, monitor = start_stream(seed)
        looks = [monitor.add(*draw_rows(rng, 300), date="2026-01-31") for _ in range(N_LOOKS)]
        n_with_alarm += any(look.alarms for look in looks)
        assert monitor.history.spent < ALPHA
    assert n_with_alarm / N_STREAMS <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / N_STREAMS)


def test_a_rise_of_a_fifth_in_one_group_is_found_within_two_looks():
    n_found = 0
    for seed in range(N_STREAMS):
        rng, monitor = start_stream(seed)
        for _ in range(3):
            monitor.add(*draw_rows(rng, 1000), date="2026-01-31")
        alarms = []
        for _ in range(2):
            rows, groups = draw_rows(rng, 1000)
            rows[groups == "c"] *= np.sqrt(1.2)
            alarms += monitor.add(rows, groups, date="2026-02-28").alarms
        n_found += "c" in alarms
        assert set(alarms) <= {"c"}
    # The group has 200 rows of a look, and a tenth may be missed.
    assert n_found >= 0.9 * N_STREAMS
