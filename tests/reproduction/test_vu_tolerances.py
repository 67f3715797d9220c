"""CFPCA by its tolerance: the choice, the leakage, and why it differs from the paper's."""

import numpy as np
import pytest

from reproduction.vu.plans import TOLERANT
from reproduction.vu.tolerances import leakages, reason


def test_a_looser_tolerance_leaks_more():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 400)
    X = rng.standard_normal((800, 6)) * [3, 2, 2, 1, 1, 1]
    X[groups == "b", :2] += 1.5
    leakage_of_choice, *by_tolerance = leakages(X, groups, seed=0)
    assert leakage_of_choice in [settings["tolerance"] for settings in TOLERANT.settings]
    assert len(by_tolerance) == len(TOLERANT.settings)
    assert by_tolerance[0] < 0.15 < 0.25 < by_tolerance[-1]


@pytest.mark.parametrize(
    ("printed", "why"), [(0.32, "spread"), (0.11, "choice"), (0.2, "between"), (0.7, "not known")]
)
def test_the_reason_is_what_the_figures_show(printed, why):
    splits = np.array([[0.1, 0.3], [0.12, 0.34], [0.11, 0.32]])
    assert reason(splits.tolist(), splits[:, 1].tolist(), printed) == why
