"""Less information never gives a more favorable verdict: it removes claims and adds none."""

import itertools

import numpy as np
import pytest

import fairspan as fs
from case_selection import ALL_CASES
from simulations.random_tables import draw_table

N_TABLES = 60 if ALL_CASES else 12
LEVELS = (0.95, 0.99, 0.9999)
# Claims of each kind: that PCA does no harm, that the repair lowers a loss, and that nobody pays.
CLAIMS = {
    "no material harm": {"no harm"},
    "no material harm, repair harms": {"no harm"},
    "harm, repair helps": {"gain", "no cost"},
    "harm, repair at a possible cost": {"gain"},
    "harm, repair at a cost": {"gain"},
    "harm, repair shifts it": set(),
    "harm, repair makes it worse": set(),
    "harm, repair not shown to help": set(),
    "harm, no repair tried": set(),
    "inconclusive": set(),
}
# A verdict "shifts it" may lose the claim of new harm, and then says who pays or may pay.
HARSHER = {"harm, repair shifts it"}


def verdict_kinds(table, levels):
    """Verdict of the same rows at each level."""
    fair = fs.FairPCA(table.d).fit(table.X, sensitive_features=table.groups)
    audits = [fs.audit({"fair": fair}, table.X, table.groups, level=level) for level in levels]
    return [audit.verdict.kind for audit in audits]


@pytest.mark.sweep
@pytest.mark.long
def test_a_higher_level_only_takes_claims_away():
    for seed in range(N_TABLES):
        kinds = verdict_kinds(draw_table(seed), LEVELS)
        for kind, thinner in itertools.pairwise(kinds):
            allowed = CLAIMS[kind] | ({"gain"} if kind in HARSHER else set())
            assert CLAIMS[thinner] <= allowed, (seed, kinds)


@pytest.mark.sweep
@pytest.mark.long
def test_fewer_rows_seldom_add_a_claim():
    """Fewer rows may support a claim that all rows do not, but only by chance."""
    n_kinder = 0
    for seed in range(N_TABLES):
        table = draw_table(seed)
        is_kept = np.random.default_rng(seed).random(len(table.X)) < 0.3
        (kind,) = verdict_kinds(table, LEVELS[:1])
        table.X = table.X[is_kept]
        table.groups = table.groups[is_kept]
        (thinner,) = verdict_kinds(table, LEVELS[:1])
        n_kinder += not {"no harm", "no cost"} & CLAIMS[thinner] <= CLAIMS[kind]
    assert n_kinder <= 0.05 * N_TABLES
