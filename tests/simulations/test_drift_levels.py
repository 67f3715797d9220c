"""Rate of false alarms in a year of monthly audits, and detection of a change."""

import numpy as np
import pytest

import fairspan as fs
from case_selection import ALL_CASES, select_cases
from fairspan.auditing.intervals import level_of_look

pytestmark = [pytest.mark.long, pytest.mark.sweep]

N_YEARS = 200 if ALL_CASES else 12
N_MONTHS = 12
LEVEL = 0.95


def draw_rows(rng, n, kind, p=50):
    """Draw rows whose features have variances 1, 1/2, ..., 1/p, half of them of each group."""
    rows = rng.normal(size=(n, p))
    if kind == "t5":
        rows *= np.sqrt(3 / rng.chisquare(5, size=(n, 1)))
    if kind == "lognormal":
        rows = (np.exp(rows) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    if kind == "lognormal size":
        rows *= np.exp(rng.normal(size=(n, 1)) - 1)
    return rows / np.sqrt(np.arange(1, p + 1)), np.where(np.arange(n) % 2, "a", "b")


def drifted_groups(model, rows, groups, look):
    """Return the groups with drift in the audit of one month."""
    result = fs.audit(model, rows, groups, folds=None, level=level_of_look(LEVEL, look))
    return {
        label for finding in result.findings if finding.code == "FS210" for label in finding.groups
    }


SETTINGS = {
    "few rows": ("normal", 1000),
    "normal": ("normal", 5000),
    "t5": ("t5", 5000),
    "lognormal": ("lognormal", 5000),
    "lognormal size": ("lognormal size", 5000),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_few_years_without_a_change_have_an_alarm(name):
    kind, n_training_rows = SETTINGS[name]
    has_alarm = []
    for seed in range(N_YEARS):
        rng = np.random.default_rng([1, seed])
        rows, groups = draw_rows(rng, n_training_rows, kind)
        model = fs.FairPCA(10).fit(rows, sensitive_features=groups).subspace_
        has_alarm.append(
            any(
                drifted_groups(model, *draw_rows(rng, 1000, kind), look)
                for look in range(1, N_MONTHS + 1)
            )
        )
    assert np.mean(has_alarm) <= 0.08


@pytest.mark.parametrize("name", SETTINGS)
def test_a_refit_is_rarely_suggested_for_unchanged_rows(name):
    kind, n_training_rows = SETTINGS[name]
    is_suggested = []
    for seed in range(N_YEARS):
        rng = np.random.default_rng([3, seed])
        rows, groups = draw_rows(rng, n_training_rows, kind)
        model = fs.FairPCA(10).fit(rows, sensitive_features=groups).subspace_
        result = fs.audit(model, *draw_rows(rng, 1000, kind), folds=None)
        is_suggested.append(result.models[0].refit_bound.refit_may_help)
    # Two standard errors above a rate of 5 %.
    assert np.mean(is_suggested) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / N_YEARS)


@pytest.mark.parametrize("name", select_cases(["few rows", "normal"], 2))
def test_a_larger_variance_of_one_group_is_found_in_the_first_month(name):
    kind, n_training_rows = SETTINGS[name]
    for seed in range(N_YEARS):
        rng = np.random.default_rng([2, seed])
        rows, groups = draw_rows(rng, n_training_rows, kind)
        model = fs.FairPCA(10).fit(rows, sensitive_features=groups).subspace_
        rows, groups = draw_rows(rng, 1000, kind)
        rows[groups == "b"] *= np.sqrt(1.5)
        assert "b" in drifted_groups(model, rows, groups, look=1)
