"""The experiments themselves, quick, on the real data."""

import math

import numpy as np
import pytest
import scipy.optimize

import real_data
from reproduction.experiment import Effort, Setting
from reproduction.notes_example import NOTES_EXAMPLE
from reproduction.samadi import ERRORS, LOSSES
from reproduction.store import Store
from reproduction.tantipongpipat import TANTIPONGPIPAT

CREDIT = ["default_credit"]


def table(result):
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


@pytest.fixture(scope="module")
def notes():
    return NOTES_EXAMPLE.run(Setting(None, Effort.NORMAL, 0, lambda *_: None, Store()))


def test_the_toy_of_the_notes(notes):
    rows = table(notes)
    found = {(row["step"][2:], row["quantity"]): row["ours"] for row in rows}
    assert found["ordinary PCA", "error of A"] == 0
    assert found["ordinary PCA", "error of B"] == pytest.approx(14 / 3)
    assert found["sign flip", "t"] == pytest.approx(86 / 101, abs=1e-9)
    assert found["equal error", "error of A"] == pytest.approx(found["equal error", "error of B"])
    for row in rows:
        assert row["relative difference"] == pytest.approx(0, abs=1e-3)


def test_the_disparity_of_the_toy_flips_once(notes):
    sweep = [row["ours"] for row in table(notes) if row["quantity"].startswith("disparity at")]
    assert sweep == sorted(sweep)
    assert sweep[0] == pytest.approx(-29 / 3)
    assert sweep[-1] == pytest.approx(14 / 3)


def test_errors_of_pca_on_credit_are_the_expected_ones(quick):
    result = quick(ERRORS, CREDIT)
    rows = table(result)
    assert [(row["d"], row["group"]) for row in rows] == [
        (d, group) for d in range(1, 21) for group in ("higher", "lower")
    ]
    for row in rows:
        assert row["PCA error"] == pytest.approx(row["expected"], abs=5.01e-5)
        assert row["over 10 %"] == ""
    assert any("larger error is that of higher at d = 1-6, 15-20" in note for note in result.notes)


def test_fair_losses_on_credit_are_equal_certified_and_below_the_worst_of_pca(quick):
    rows = table(quick(LOSSES, CREDIT))
    for higher, lower in zip(rows[::2], rows[1::2], strict=True):
        assert higher["fair PCA loss"] == pytest.approx(lower["fair PCA loss"], abs=1e-8)
        worst = max(higher["PCA loss"], lower["PCA loss"])
        assert 0 <= lower["fair PCA loss"] <= worst
        assert lower["status"] == "optimal"
        assert 0 <= lower["gap"] <= 1e-7
    for d in (1, 8):
        assert rows[2 * d - 1]["fair PCA loss"] == pytest.approx(dual_optimum(d), abs=1e-7)


def dual_optimum(d):
    """The fair loss on credit from its rows by numpy alone: the maximum of the concave dual."""
    rows = real_data.load("default_credit:group__education")
    X = np.delete(rows.z_scored(ddof=1), rows.feature_names.index("PAY_AMT6"), axis=1)
    second = [np.cov(X[rows.groups == group].T, ddof=0) for group in ("higher", "lower")]

    def top(matrix):
        return np.linalg.eigvalsh(matrix)[-d:].sum()

    def minus_dual(t):
        a, b = second
        return top(t * a + (1 - t) * b) - t * top(a) - (1 - t) * top(b)

    return -scipy.optimize.minimize_scalar(minus_dual, bounds=(0, 1), options={"xatol": 1e-9}).fun


def test_relaxations_of_three_to_six_groups(quick):
    rows = table(quick(TANTIPONGPIPAT))
    assert [(row["k"], row["d"]) for row in rows] == [
        (k, d) for k in range(3, 7) for d in (1, 3, 10)
    ]
    for row in rows:
        assert row["relaxation"] == pytest.approx(row["expected"], abs=6e-7)
        assert row["d"] <= row["reduced"] <= row["at most"]
        assert row["at most"] == row["d"] + math.floor(math.sqrt(2 * row["k"] + 0.25) - 1.5)
        assert row["reduced"] <= row["rank"]
        # No subspace is better than the relaxation; on these data some are as good.
        assert row["exactly d"] >= row["relaxation"] - 1e-9
        assert row["status"] == "optimal"


@pytest.mark.parametrize("experiment", [ERRORS, LOSSES, TANTIPONGPIPAT], ids=lambda e: e.name)
def test_figures_are_drawn(experiment, quick):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    quick(experiment, experiment.files if experiment is TANTIPONGPIPAT else CREDIT).draw(figure)
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_legend() is not None
