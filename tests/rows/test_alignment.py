"""Pandas indexes of rows and of their labels and weights: equal, disjoint, or refused."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from fairspan import (
    FairPCA,
    GroupMoments,
    MeanParity,
    audit,
    frontier,
    metrics,
    verify,
    write_report,
)
from fairspan.displays import FeatureErrorDisplay, GroupLossDisplay
from fairspan.errors import InvalidInput
from fairspan.selection import UCB1SearchCV

N = 60
FRAME = pd.DataFrame(np.random.default_rng(5).standard_normal((N, 3)), columns=list("pqr"))
GROUPS = pd.Series(["w", "m"] * (N // 2), name="sex")
CLASSES = pd.Series([0, 1, 1, 0] * (N // 4))
WEIGHTS = pd.Series(np.linspace(1, 2, N))
CLUSTERS = pd.Series(np.arange(N) // 2)
# Rows and values that were filtered separately: equally long, and one row apart.
X = FRAME.drop(index=0)
FIRST = 0
LAST = N - 1
BY_CLASS = FairPCA(1, restriction=MeanParity(within_classes="all"))


@cache
def fit_array():
    return FairPCA(1).fit(X.to_numpy(), sensitive_features=GROUPS.drop(index=FIRST).to_numpy())


def predict(rows):
    return (np.asarray(rows)[:, 0] > 0).astype(int)


# Each takes the number of the row that labels, weights, classes or clusters lack.
DOORS = {
    "fit": lambda row: FairPCA(1).fit(X, sensitive_features=GROUPS.drop(index=row)),
    "fit, several attributes": lambda row: FairPCA(1).fit(
        X, sensitive_features=pd.DataFrame({"a": GROUPS, "b": CLASSES}).drop(index=row)
    ),
    "fit, weights": lambda row: FairPCA(1).fit(
        X.assign(sex=GROUPS), sensitive_features="sex", sample_weight=WEIGHTS.drop(index=row)
    ),
    "fit, weights beside an array": lambda row: FairPCA(1).fit(
        X.to_numpy(),
        sensitive_features=GROUPS.drop(index=FIRST),
        sample_weight=WEIGHTS.drop(index=row),
    ),
    "fit, classes": lambda row: BY_CLASS.fit(
        X, CLASSES.drop(index=row), sensitive_features=GROUPS.drop(index=FIRST)
    ),
    "fit, classes and groups beside an array": lambda row: BY_CLASS.fit(
        X.to_numpy(), CLASSES.drop(index=row), sensitive_features=GROUPS.drop(index=FIRST)
    ),
    "partial_fit": lambda row: FairPCA(1).partial_fit(X, sensitive_features=GROUPS.drop(index=row)),
    "from_rows": lambda row: GroupMoments.from_rows(X, GROUPS.drop(index=row)),
    "from_rows, classes": lambda row: GroupMoments.from_rows(
        X, GROUPS.drop(index=FIRST), y=CLASSES.drop(index=row)
    ),
    "audit": lambda row: audit(fit_array(), X, GROUPS.drop(index=row), folds=None),
    "audit, labels": lambda row: audit(
        fit_array(), X, GROUPS.drop(index=FIRST), y=CLASSES.drop(index=row), folds=None
    ),
    "audit, clusters": lambda row: audit(
        fit_array(), X.assign(sex=GROUPS), "sex", clusters=CLUSTERS.drop(index=row), folds=5
    ),
    "verify": lambda row: verify(fit_array(), X, GROUPS.drop(index=row)),
    "frontier": lambda row: frontier(X, 1, sensitive_features=GROUPS.drop(index=row)),
    "excess_loss": lambda row: metrics.excess_loss(fit_array(), X, GROUPS.drop(index=row)),
    "worst_case_error": lambda row: metrics.worst_case_error(
        fit_array(), X, GROUPS.drop(index=row)
    ),
    "leakage": lambda row: metrics.leakage(X, GROUPS.drop(index=FIRST), X, GROUPS.drop(index=row)),
    "mmd": lambda row: metrics.mmd(X, GROUPS.drop(index=row), n_permutations=0),
    "label_bias": lambda row: metrics.label_bias(
        CLASSES.drop(index=FIRST), GROUPS.drop(index=row), protected="w"
    ),
    "label_bias, weights": lambda row: metrics.label_bias(
        CLASSES.drop(index=FIRST).to_numpy(),
        GROUPS.drop(index=FIRST),
        protected="w",
        sample_weight=WEIGHTS.drop(index=row),
    ),
    "prediction_bias": lambda row: metrics.prediction_bias(
        predict, X, GROUPS.drop(index=row), protected="w"
    ),
    "statistical_parity, a mapping": lambda row: metrics.statistical_parity(
        CLASSES.drop(index=FIRST), {"sex": GROUPS.drop(index=row)}, n_bootstrap=0
    ),
    "UCB1SearchCV": lambda row: UCB1SearchCV(
        FairPCA(1), {"n_components": [1]}, n_pulls=1, random_state=0
    ).fit(X, sensitive_features=GROUPS.drop(index=row)),
    "GroupLossDisplay": lambda row: GroupLossDisplay.compute(
        fit_array(), X, GROUPS.drop(index=row)
    ),
    "FeatureErrorDisplay": lambda row: FeatureErrorDisplay.compute(
        fit_array(), X, GROUPS.drop(index=row)
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_rows_and_values_filtered_separately_are_refused(door):
    DOORS[door](FIRST)
    with pytest.raises(InvalidInput, match=r"share labels .*position 0, .* has 1 and .* has 0\b"):
        DOORS[door](LAST)


def test_rows_of_a_page_filtered_separately_are_refused(tmp_path):
    path = tmp_path / "page.html"
    groups = GROUPS.drop(index=FIRST)
    other = GROUPS.drop(index=LAST)
    with pytest.raises(InvalidInput, match="X and sensitive_features share labels"):
        write_report(path, X, other)
    with pytest.raises(InvalidInput, match="X and clusters share labels"):
        write_report(path, X, groups, clusters=CLUSTERS.drop(index=LAST))
    with pytest.raises(InvalidInput, match="X and sensitive_features share labels"):
        write_report(path, X, groups, models=fit_array(), test=(X, other), folds=None)
    assert not path.exists()


def fit_model(rows, groups):
    return GroupMoments.from_rows(rows, groups).means


DATES = pd.date_range("2024-01-01", periods=6, tz="Europe/Berlin")
TWO_LEVEL_INDEX = pd.MultiIndex.from_product([["north", "south"], [0, 1, 2]])
# Two indexes, and the first position at which they contradict each other; None if they do not.
INDEXES = {
    "equal numbers": (range(6), np.arange(6), None),
    "whole and real numbers": (range(6), np.arange(6.0), None),
    "nullable numbers": (pd.Index(range(6), dtype="Int64"), range(6), None),
    "objects": (pd.Index(range(6), dtype=object), range(6), None),
    "no common number": (range(6), range(6, 12), None),
    "numbers and text": (range(6), list("012345"), None),
    "dates and their text": (DATES, DATES.astype(str), None),
    "dates with and without zone": (DATES, DATES.tz_localize(None), None),
    "places and numbers": (TWO_LEVEL_INDEX, range(6), None),
    "equal with duplicates": ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2], None),
    "missing labels": ([0, 1, None, 3, 4, 5], [0, 1, np.nan, 3, 4, 5], None),
    "lists": (pd.Index([[i] for i in range(6)]), pd.Index([[i] for i in range(6, 0, -1)]), None),
    "another order": (range(6), [0, 1, 2, 4, 3, 5], 3),
    "nullable numbers in another order": (pd.Index(range(6), dtype="Int64"), [1, 0, 2, 3, 4, 5], 0),
    "real numbers one later": (range(6), np.arange(6.0) + 1, 0),
    "one common number": (range(6), range(5, 11), 0),
    "dates in another order": (DATES, DATES[::-1], 0),
    "places in another order": (TWO_LEVEL_INDEX, TWO_LEVEL_INDEX[[0, 1, 2, 4, 3, 5]], 3),
    "duplicates in another order": ([0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 1, 2], 3),
    "a missing label elsewhere": ([0, 1, None, 3, 4, 5], [0, None, 1, 3, 4, 5], 1),
    "mixed labels": (["r", 1, 2.5, "s", 4, None], ["r", 1, 2.5, "s", None, 4], 4),
    "categories": (pd.CategoricalIndex(list("abcdef")), list("abcdfe"), 4),
    "intervals": (pd.interval_range(0, 6), pd.interval_range(0, 6)[[0, 1, 2, 3, 5, 4]], 4),
}


@pytest.mark.parametrize("case", INDEXES)
def test_indexes_agree_if_equal_or_without_a_common_label(case):
    first, second, place = INDEXES[case]
    rows, groups = FRAME.iloc[:6].set_axis(first), GROUPS.iloc[:6].set_axis(second)
    if place is None:
        by_position = fit_model(rows.to_numpy(), groups.to_numpy())
        np.testing.assert_array_equal(fit_model(rows, groups), by_position)
    else:
        with pytest.raises(InvalidInput, match=f"not equal: at position {place}, X has"):
            fit_model(rows, groups)


def test_the_advice_for_labels_of_all_rows_matches_them_by_index():
    labels = GROUPS.sample(frac=1, random_state=0)
    with pytest.raises(InvalidInput, match=r"pass sensitive_features\.loc\[X\.index\]; if .*"):
        fit_model(FRAME, labels)
    expected = fit_model(FRAME, GROUPS)
    np.testing.assert_array_equal(fit_model(FRAME, labels.loc[FRAME.index]), expected)


def test_the_advice_for_labels_of_other_rows_keeps_the_common_ones():
    with pytest.raises(InvalidInput, match=r"rows = X\.index\.intersection\(sensitive_features\."):
        fit_model(X, GROUPS.drop(index=LAST))
    rows = X.index.intersection(GROUPS.drop(index=LAST).index)
    expected = fit_model(FRAME.iloc[1:-1], GROUPS.iloc[1:-1])
    np.testing.assert_array_equal(fit_model(X.loc[rows], GROUPS.loc[rows]), expected)


def test_the_advice_for_labels_that_were_reset_takes_them_by_position():
    reset = GROUPS.drop(index=FIRST).reset_index(drop=True)
    with pytest.raises(InvalidInput, match=r"pass sensitive_features\.to_numpy\(\)"):
        fit_model(X, reset)
    expected = fit_model(X, GROUPS.drop(index=FIRST))
    np.testing.assert_array_equal(fit_model(X, reset.to_numpy()), expected)


def test_lengths_that_differ_are_named_first():
    with pytest.raises(InvalidInput, match="Inconsistent lengths: 59 rows in X, 60 labels"):
        fit_model(X, GROUPS)


@pytest.mark.slow
def test_values_next_to_a_dask_data_frame_agree_with_its_index():
    import dask
    import dask.dataframe as dd

    aligned, shifted = GROUPS.drop(index=FIRST), GROUPS.drop(index=LAST)
    weights = WEIGHTS.drop(index=FIRST)
    rows = dd.from_pandas(X, npartitions=3)
    expected = GroupMoments.from_rows(X, aligned, weights).means
    in_parts = dd.from_pandas(aligned, npartitions=3)
    with dask.config.set(scheduler="synchronous"):
        for groups in (aligned, in_parts, aligned.set_axis(range(100, 159))):
            means = GroupMoments.from_rows(rows, groups, weights).means
            np.testing.assert_allclose(means, expected)
        for other in (shifted, dd.from_pandas(shifted, npartitions=3)):
            with pytest.raises(InvalidInput, match=r"partition .*X and sensitive_features share"):
                GroupMoments.from_rows(rows, other)
        with pytest.raises(InvalidInput, match=r"partition .*X and sample_weight share"):
            GroupMoments.from_rows(rows, in_parts, WEIGHTS.drop(index=LAST))


@pytest.mark.slow
def test_searches_of_scikit_learn_cut_rows_and_labels_alike():
    import sklearn
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    order = np.random.default_rng(1).permutation(N)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), FairPCA(1))
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            pipeline,
            {"fairpca__n_components": [1, 2]},
            cv=3,
            scoring=lambda model, rows, y=None: model[-1].score(model[0].transform(rows)),
            error_score="raise",
        )
        search.fit(FRAME.iloc[order], sensitive_features=GROUPS.iloc[order])
        assert search.best_params_ == {"fairpca__n_components": 2}
        search.fit(FRAME, sensitive_features=GROUPS.to_numpy())
        with pytest.raises(InvalidInput, match="share labels"):
            search.fit(X, sensitive_features=GROUPS.drop(index=LAST))
