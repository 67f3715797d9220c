"""Leakage: the Kolmogorov-Smirnov statistic of a linear classifier's held-out scores."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import real_data
from fairspan import FairPCA, MeanParity
from fairspan.errors import FairspanWarning, InvalidInput, InvalidType, UnknownGroup
from fairspan.metrics import leakage

RNG = np.random.default_rng(3)


def split(rows, share=0.3):
    order = np.random.default_rng(0).permutation(len(rows.X))
    n_train = int(share * len(order))
    train = order[:n_train]
    test = order[n_train:]
    mean, scale = rows.X[train].mean(axis=0), rows.X[train].std(axis=0)
    scale = np.where(scale > 0, scale, 1)
    X = (rows.X - mean) / scale
    return X[train], rows.groups[train], X[test], rows.groups[test]


@pytest.mark.parametrize(
    "name",
    [
        "biodeg:group__ready_biodegradable",
        "german_credit:group__age_lt40",
        "energy:group__orientation_lt4",
    ],
)
def test_two_groups_are_scipys_statistic_of_the_held_out_scores(name):
    train, g_train, test, g_test = split(real_data.load(name))
    pca = PCA(3).fit(train)
    Z_train, Z_test = pca.transform(train), pca.transform(test)
    value = leakage(Z_train, g_train, Z_test, g_test)
    svm = make_pipeline(StandardScaler(), LinearSVC(dual=False, tol=1e-10, max_iter=10**5))
    scores = svm.fit(Z_train, g_train).decision_function(Z_test)
    first = g_test == svm.classes_[0]
    assert value == pytest.approx(ks_2samp(scores[first], scores[~first]).statistic, abs=1e-12)


def test_more_groups_are_the_worst_of_one_against_the_rest():
    rows = real_data.load("default_credit:group__education3")
    train, g_train, test, g_test = (part[:1500] for part in split(rows))
    value = leakage(train, g_train, test, g_test)
    by_group = [leakage(train, g_train == g, test, g_test == g) for g in np.unique(g_train)]
    assert value == pytest.approx(max(by_group), abs=1e-12)
    assert value > min(by_group)


def leakage_of_halves(Z, groups, n, **settings):
    return leakage(Z[:n], groups[:n], Z[n:], groups[n:], **settings)


def test_hiding_the_groups_mean_lowers_it():
    train, g_train, test, g_test = split(real_data.load("wine_quality:group__colour"))
    figures = []
    for model in (
        FairPCA(3),
        FairPCA(3, criterion="total_error", restriction=MeanParity()),
    ):
        model.fit(train, sensitive_features=g_train)
        figures.append(leakage(model.transform(train), g_train, model.transform(test), g_test))
    assert figures[0] > 0.4
    assert figures[1] < figures[0] / 2


def test_same_distribution_gives_the_size_of_chance():
    Z = RNG.normal(size=(4000, 3))
    groups = RNG.integers(0, 2, 4000)
    # The statistic's 99.9 % point for two groups of 1000 is 1.95 * sqrt(2 / 1000).
    assert leakage_of_halves(Z, groups, 2000) < 0.088


def test_it_is_evaluated_on_held_out_rows():
    # More columns than rows: the training rows are always separated.
    Z = RNG.normal(size=(400, 150))
    groups = RNG.integers(0, 2, 400)
    assert leakage(Z[:100], groups[:100], Z[:100], groups[:100]) == 1
    assert leakage_of_halves(Z, groups, 100) < 0.35


def test_units_offsets_and_constant_columns_do_not_matter():
    Z = RNG.normal(size=(600, 3))
    groups = RNG.integers(0, 2, 600)
    Z[groups == 1] += 0.5
    in_other_units = np.column_stack([Z * [1e-3, 1, 1e5] + [1e3, -7, 1e8], np.full(600, 0.1)])
    assert leakage_of_halves(in_other_units, groups, 300) == pytest.approx(
        leakage_of_halves(Z, groups, 300), abs=1e-12
    )


def test_any_classifier_is_shown_both_parts_in_the_units_of_the_training_rows():
    from sklearn.neighbors import KNeighborsClassifier

    Z = np.random.default_rng(4).normal(size=(200, 2))
    groups = np.arange(200) % 2
    Z[groups == 1, 0] += 1
    train = Z[:100]
    test = Z[100:]
    neighbors = KNeighborsClassifier(15)
    in_other_units = Z * [1e-3, 1e3] + [50.0, -7e4]
    value = leakage_of_halves(in_other_units, groups, 100, classifier=neighbors)
    standard = StandardScaler().fit(train)
    classifier = neighbors.fit(standard.transform(train), groups[:100])
    scores = classifier.predict_proba(standard.transform(test))[:, 1]
    expected = ks_2samp(scores[groups[100:] == 1], scores[groups[100:] == 0]).statistic
    assert value == pytest.approx(expected, abs=1e-12)
    assert 0.2 < value < 0.6


def test_a_constant_representation_leaks_nothing():
    groups = np.repeat(["a", "b"], 20)
    with pytest.warns(FairspanWarning, match="constant columns 0, 1 of Z_train"):
        assert leakage(np.full((40, 2), 3.3), groups, np.full((40, 2), 3.3), groups) == 0


def test_columns_that_do_not_vary_change_nothing_and_are_named():
    groups = np.arange(80) % 2
    Z = pd.DataFrame({"u": RNG.normal(size=80) + groups, "flat": 7.1})
    expected = leakage_of_halves(Z[["u"]], groups, 40)
    with pytest.warns(FairspanWarning, match="constant column 'flat' of Z_train"):
        assert leakage_of_halves(Z, groups, 40) == expected


def test_frames_are_matched_by_name_and_lists_are_taken():
    Z = RNG.normal(size=(200, 2))
    groups = RNG.integers(0, 2, 200)
    Z[groups == 1, 0] += 2
    expected = leakage_of_halves(Z, groups, 100)
    train = pd.DataFrame(Z[:100], columns=["u", "v"])
    test = pd.DataFrame(Z[100:], columns=["u", "v"], index=np.arange(100, 200))
    value = leakage(train, pd.Series(groups[:100]), test[["v", "u"]], list(groups[100:]))
    assert value == expected
    assert leakage(Z[:100].tolist(), groups[:100], Z[100:].tolist(), groups[100:]) == expected


@pytest.mark.long
def test_scikit_learn_is_loaded_on_call_only():
    code = (
        "import sys, fairspan.metrics as m; print('sklearn' in sys.modules);"
        "m.leakage([[0.], [1.]], [0, 1], [[0.], [1.]], [0, 1]); print('sklearn' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["False", "True"]


Z = np.array([[0.0, 1], [1, 0], [2, 2], [3, 5]])
G = ["a", "a", "b", "b"]
REFUSED = {
    "one group": (
        (Z, ["a"] * 4, Z, G),
        InvalidInput,
        "features_train .*same group, 'a'",
    ),
    "unknown group": (
        (Z, G, Z, ["a", "a", "b", "c"]),
        UnknownGroup,
        "features_test .*without training rows: 'c'",
    ),
    "missing group": (
        (Z, G, Z, ["a"] * 4),
        InvalidInput,
        "features_test .*no rows of 'b'",
    ),
    "short train": (
        (Z, G[:3], Z, G),
        InvalidInput,
        "4 rows in Z_train, 3 labels in sens",
    ),
    "short test": (
        (Z, G, Z, G[:3]),
        InvalidInput,
        "4 rows in Z_test, 3 labels in sens",
    ),
    "columns": ((Z, G, Z[:, :1], G), InvalidInput, "Z_train has 2 columns, Z_test 1"),
    "NaN": ((Z * np.nan, G, Z, G), InvalidInput, "contains NaN"),
    "one dimension": ((Z[:, 0], G, Z, G), InvalidInput, "1 dimension"),
    "missing label": (
        (Z, ["a", None, "b", "b"], Z, G),
        InvalidInput,
        "row 2 ",
    ),
    "missing column": (
        (pd.DataFrame(Z, columns=["u", "v"]), G, pd.DataFrame(Z, columns=["u", "w"]), G),
        InvalidInput,
        "no column 'v'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_suggests_a_remedy(case):
    arguments, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        leakage(*arguments)


def test_another_classifier_may_be_requested():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(4)
    Z = rng.standard_normal((400, 2))
    # A ring around a core: no line tells them apart, a forest does.
    groups = np.where((Z**2).sum(axis=1) > 1.4, "ring", "core")
    forest = RandomForestClassifier(20, random_state=0)
    assert leakage_of_halves(Z, groups, 200) < 0.4
    for classifier in (forest, SVC()):
        assert leakage_of_halves(Z, groups, 200, classifier=classifier) > 0.8
    assert not hasattr(forest, "estimators_")
    with pytest.raises(InvalidType, match="decision_function or predict_proba"):
        leakage_of_halves(Z, groups, 200, classifier="svm")
