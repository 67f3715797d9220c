"""Figures of ten real data sets as they were, so that a library's upgrade that moves them is seen.

They prove nothing of themselves: other tests compare with conic solvers, brute force and printed
values. Where a change is meant to move figures, run this file once with FAIRSPAN_WRITE_GOLDEN=1,
look at the difference, and say in CHANGELOG.md under "Numerical results changed" why they moved.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from fairspan import FairPCA, GroupMoments, MinimaxError, MinimaxLoss
from real_data import load

FILE = Path(__file__).with_name("golden_figures.json")
NAMES = (
    "adult_train:group__sex",
    "adult_race5:group__race",
    "bank_marketing:group__age65",
    "compas:group__sex",
    "default_credit:group__education_sex6",
    "german_credit:group__age_lt40",
    "letter:group__vowel",
    "magic:group__gamma",
    "statlog_landsat:group__soil",
    "wine_quality:group__colour",
)
CRITERIA = {
    "total_error": "total_error",
    "minimax_loss": "minimax_loss",
    "relative_loss": MinimaxLoss(relative=True),
    "relative_error": MinimaxError(relative=True),
    "least_variance": "least_variance",
}
D = 3


def figures_of(name):
    rows = load(name)
    moments = GroupMoments.from_rows(rows.X, rows.groups)
    # Directions that no data are made of.
    left, right = (wave(np.arange(1, moments.n_features + 1)) for wave in (np.cos, np.sin))
    figures = {
        "weights": moments.weights.tolist(),
        "means": (moments.means @ left).tolist(),
        "scatters": np.einsum("i,gij,j->g", left, moments.scatters, left).tolist(),
    }
    for key, criterion in CRITERIA.items():
        fair = FairPCA(D, criterion=criterion, scale=True).fit_moments(moments)
        components, solution = fair.components_, fair.solution_
        figures[key] = {
            "objective": solution.objective,
            "lower_bound": solution.lower_bound,
            "projector": float((components @ left) @ (components @ right)),
            "status": solution.status.value,
        }
    return figures


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_what_they_were(name):
    figures = figures_of(name)
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("FAIRSPAN_WRITE_GOLDEN"):
        known[name] = figures
        FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    expected = known[name]
    for moment in ("weights", "means", "scatters"):
        np.testing.assert_allclose(figures[moment], expected[moment], rtol=1e-9, err_msg=moment)
    for criterion in CRITERIA:
        found, before = figures[criterion], expected[criterion]
        assert found["status"] == before["status"] == "optimal"
        for what in ("objective", "lower_bound"):
            assert found[what] == pytest.approx(before[what], rel=1e-9, abs=0), what
        # A gap of 1e-9 leaves a subspace the root of that.
        exact = 1e-9 if criterion == "total_error" else 1e-6
        assert found["projector"] == pytest.approx(before["projector"], abs=exact)
