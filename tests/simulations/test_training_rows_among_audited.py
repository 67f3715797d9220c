"""Recognition of models that were fitted to a part of the audited rows."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from case_selection import ALL_CASES, select_cases

pytestmark = [pytest.mark.long, pytest.mark.sweep]

N_DRAWS = 200 if ALL_CASES else 12
# Names of the models: an estimator carries the moments of its rows, the others only their mean.
MODELS = ("estimator", "saved", "PCA of scikit-learn")
# Largest share of tables of new rows that may be mistaken for the training rows.
LARGEST_FALSE_SHARE = 0.01


def draw_rows(rng, n, p):
    """Draw normal rows of variances 1, 1/2, ..., 1/p, a quarter of them of a second group."""
    rows = rng.normal(size=(n, p)) / np.sqrt(np.arange(1, p + 1))
    return rows, rng.choice(["many", "few"], n, p=[0.75, 0.25])


def fit_models(rows, groups, d):
    fair = fs.FairPCA(d).fit(rows, sensitive_features=groups)
    return dict(zip(MODELS, (fair, fair.subspace_, PCA(d).fit(rows)), strict=True))


def recognize_training_rows(models, rows, groups):
    """Return for each model whether the audit recognizes it as fitted to these rows."""
    results = fs.audit(models, rows, groups).models
    in_sample = {model.name: model.in_sample for model in results}
    return [in_sample[name] for name in models]


@pytest.mark.parametrize(("n", "p", "d"), [(1000, 40, 8), (600, 50, 10)])
@pytest.mark.parametrize("share", select_cases([0.33, 0.5, 0.67, 0.8], 3))
def test_a_model_fitted_to_a_part_of_the_audited_rows_is_recognized(share, n, p, d):
    outcomes = []
    for seed in range(N_DRAWS):
        rng = np.random.default_rng([1, seed, p, int(100 * share)])
        rows, groups = draw_rows(rng, n, p)
        part = rng.permutation(n)[: int(share * n)]
        outcomes.append(
            recognize_training_rows(fit_models(rows[part], groups[part], d), rows, groups)
        )
    assert min(np.mean(outcomes, axis=0)) >= 0.95


@pytest.mark.parametrize("size_ratio", select_cases([0.33, 1, 3], 2))
def test_new_rows_are_not_recognized_as_those_of_the_fit(size_ratio):
    outcomes = []
    for seed in range(N_DRAWS):
        rng = np.random.default_rng([2, seed, int(100 * size_ratio)])
        models = fit_models(*draw_rows(rng, int(600 * size_ratio), 30), 6)
        outcomes.append(recognize_training_rows(models, *draw_rows(rng, 600, 30)))
    # The share of N_DRAWS tables scatters by its standard error about the share of all tables.
    standard_error = np.sqrt(LARGEST_FALSE_SHARE * (1 - LARGEST_FALSE_SHARE) / N_DRAWS)
    assert max(np.mean(outcomes, axis=0)) <= LARGEST_FALSE_SHARE + 2 * standard_error
