"""Codes for missing values: found without false alarms, and named so that a verdict is right."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from fairspan import audit
from fairspan.datasets import load_adult

N = 2000
RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(N) < 0.5, "a", "b")
TRUTH = pd.DataFrame(
    RNG.normal(size=(N, 5)) * [6, 5, 4, 3, 3] + 30,
    columns=["age", "income", "visits", "score", "rate"],
)
CHANCE = RNG.random(N)
CODED = TRUTH.assign(
    score=TRUTH["score"].mask((GROUPS == "b") & (CHANCE < 0.04), -99),
    rate=TRUTH["rate"].mask((GROUPS == "b") & (CHANCE > 0.97), 999),
)


def findings(X, groups=None, **settings):
    groups = np.arange(len(X)) % 2 if groups is None else groups
    all_findings = audit(PCA(1).fit(X), X, groups, folds=None, **settings).findings
    return [finding for finding in all_findings if finding.code == "FS412"]


def find_message(values):
    """Return the message about a column next to one of noise, or None."""
    noise = np.random.default_rng(1).standard_normal(len(values))
    matching = findings(pd.DataFrame({"x": np.asarray(values, dtype=float), "noise": noise}))
    return matching[0].message if matching else None


def test_codes_flip_a_verdict_and_are_found():
    truth = audit(PCA(2).fit(TRUTH), TRUTH, GROUPS)
    coded = audit(PCA(2).fit(CODED), CODED, GROUPS)
    assert truth.verdicts[0].kind == "no material harm"
    assert coded.verdicts[0].kind.startswith("harm")
    [finding] = [finding for finding in coded.findings if finding.code == "FS412"]
    assert finding.columns == ("score", "rate")
    assert "'score' holds -99 (" in finding.message
    assert "X.replace({'score': [-99], 'rate': [999]}, np.nan)" in finding.message
    [setting] = finding.settings
    assert setting.name == "na_values"
    assert setting.phrase in finding.message
    assert setting.value == {"score": (-99.0,), "rate": (999.0,)}
    assert not [finding for finding in truth.findings if finding.code == "FS412"]


@pytest.mark.parametrize("code", [-9, -99, -999, 99, 999, 9999, -8888, 777])
def test_codes_far_from_the_rest_are_found(code):
    values = np.r_[np.random.default_rng(2).integers(1, 6, 200), [code] * 5]
    assert f"holds {code} (5 rows)" in find_message(values)
    continuous = np.r_[np.random.default_rng(2).normal(5, 1, 200), [code] * 5]
    assert f"holds {code} (5 rows)" in find_message(continuous)


def test_several_codes_and_zeros_are_found_together():
    values = np.r_[np.linspace(40, 90, 200), [0] * 9, [-99] * 4, [999] * 5]
    assert "-99 (4 rows) and 0 (9 rows) and 999 (5 rows)" in find_message(values)


def test_the_advice_in_python_makes_the_cells_missing():
    message = findings(CODED, GROUPS)[0].message
    advice = message[message.index("X.replace") : message.index(" with on_missing=")]
    frame = eval(advice, {"X": CODED, "np": np})
    assert frame["score"].isna().sum() == (CODED["score"] == -99).sum() > 0
    message = findings(CODED.to_numpy(), GROUPS)[0].message
    array = CODED.to_numpy().copy()
    exec(message[message.index("X[") : message.index(" with on_missing=")], {"X": array, "np": np})
    assert np.isnan(array[:, 3]).sum() == (CODED["score"] == -99).sum()


def test_the_advice_in_python_names_every_column_and_suits_integers():
    rows = CODED.round().astype(int)
    message = findings(rows, GROUPS)[0].message
    advice = message[message.index("X.replace") : message.index(" with on_missing=")]
    frame = eval(advice, {"X": rows, "np": np})
    message = findings(rows.to_numpy(), GROUPS)[0].message
    names = {"X": rows.to_numpy(), "np": np}
    exec(message[message.index("X = ") : message.index(" with on_missing=")], names)
    assert frame["rate"].isna().sum() == (CODED["rate"] == 999).sum() > 0
    np.testing.assert_array_equal(names["X"], frame.to_numpy(dtype=float))


def test_rows_of_codes_are_reported_as_counted_in_the_first_rows_only():
    rows = np.random.default_rng(5).normal(size=(6000, 100))
    rows[::100, 1] = -99
    counts = re.search(
        r"In the first ([\d,]+) rows, x1 holds -99 \((\d+) rows\)", findings(rows)[0].message
    )
    n_seen, n_codes = (int(count.replace(",", "")) for count in counts.groups())
    assert n_seen < len(rows)
    assert n_codes == (rows[:n_seen, 1] == -99).sum()
    assert "values? x1 holds -99 (10 rows)" in findings(rows[:1000])[0].message


INTEGERS = np.random.default_rng(3)
ORDINARY = {
    "ages": INTEGERS.integers(17, 91, 3000),
    "ages up to 99": np.r_[INTEGERS.integers(17, 91, 3000), [99] * 20],
    "counts": INTEGERS.poisson(3, 3000),
    "many counts": INTEGERS.geometric(0.05, 3000),
    "indicators": INTEGERS.random(3000) < 0.01,
    "ratings": INTEGERS.integers(1, 6, 3000),
    "ratings up to 9": INTEGERS.integers(1, 10, 3000),
    "differences": INTEGERS.integers(-9, 10, 3000),
    "capped scores": np.minimum(INTEGERS.normal(80, 20, 3000).round(), 99),
    "percentages": INTEGERS.integers(0, 100, 3000),
    "amounts with zeros": np.where(INTEGERS.random(3000) < 0.3, 0, INTEGERS.lognormal(5, 1, 3000)),
    "years": INTEGERS.integers(1950, 2024, 3000),
    "long tails": np.minimum(INTEGERS.lognormal(3, 2, 3000).round(), 99999),
    "codes that occur twice": np.r_[INTEGERS.normal(0, 1, 3000), [-99, -99]],
    "one value": np.full(3000, 999),
    "two values": np.where(INTEGERS.random(3000) < 0.5, 0, 99),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_columns_give_no_alarm(name):
    assert find_message(ORDINARY[name]) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes", "digits"])
def test_tables_of_scikit_learn_give_no_alarm(name):
    from sklearn import datasets

    assert not findings(getattr(datasets, f"load_{name}")().data)


@pytest.mark.slow
def test_only_the_top_code_of_capital_gains_is_found_in_adult():
    data = load_adult("sex")
    first_rows = data.X[:4000]
    rows = pd.DataFrame(first_rows, columns=data.feature_names)
    [finding] = findings(rows.loc[:, rows.nunique() > 1], data.sensitive_features[:4000])
    assert finding.columns == ("capital-gain",)
