"""Label bias and statistical parity: the published figures, fairlearn's, and their intervals."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import real_data
from case_selection import mark_most_long
from fairspan import metrics
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, UnknownGroup

RNG = np.random.default_rng(5)
N = 600
SEX = RNG.choice(["f", "m"], N, p=[0.4, 0.6])
RACE = RNG.choice(["p", "q", "r"], N, p=[0.5, 0.3, 0.2])
LABELS = (RNG.random(N) < np.where(SEX == "f", 0.3, 0.5)).astype(int)
GRADES = RNG.integers(0, 4, N) * (RACE != "r")
WEIGHTS = RNG.uniform(0.2, 3, N)


def reference_distances(labels, groups):
    """Distributions and distances, one cell at a time."""
    names, outcomes = sorted(set(groups)), sorted(set(labels))
    shares = np.array([[np.mean(labels[groups == g] == y) for y in outcomes] for g in names])
    distances = [[0.5 * sum(abs(p - q)) for q in shares] for p in shares]
    return shares, np.array(distances)


ADULT = {
    "sex": ("female", 0.1963),
    "private_employer": ("private", 0.0731),
    "asian": ("asian_pac_islander", -0.0256),
    "divorced": ("divorced", 0.1582),
}


@pytest.fixture(scope="module")
def adult():
    return pd.read_parquet(real_data.data_path("adult_train.parquet"))


@pytest.mark.parametrize("attribute", ADULT)
def test_adult_label_biases_are_the_published_ones(adult, attribute):
    protected, published = ADULT[attribute]
    labels = adult[next(name for name in adult if name.startswith("label__"))]
    groups = adult[f"group__{attribute}"]
    assert len(adult) == 32561
    bias = metrics.label_bias(labels, groups, protected)
    assert round(bias, 4) == published
    result = metrics.label_bias(labels, groups, protected, return_interval=True)
    assert result.value == bias
    assert result.low < bias < result.high
    p, q = result.protected_rate, result.reference_rate
    n_protected = int((groups == protected).sum())
    n_rest = len(groups) - n_protected
    standard_error = np.sqrt(p * (1 - p) / n_protected + q * (1 - q) / n_rest)
    assert result.high - result.low == pytest.approx(2 * 1.96 * standard_error, rel=0.02)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_two_outcomes_agree_with_fairlearn(weights):
    from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate

    parity = metrics.statistical_parity(LABELS, RACE, sample_weight=weights, n_bootstrap=0)
    theirs = demographic_parity_difference(
        LABELS, LABELS, sensitive_features=RACE, sample_weight=weights
    )
    assert parity.max_distance == pytest.approx(theirs, abs=1e-12)
    frame = MetricFrame(
        metrics=selection_rate,
        y_true=LABELS,
        y_pred=LABELS,
        sensitive_features=RACE,
        sample_params=None if weights is None else {"sample_weight": weights},
    )
    assert list(frame.by_group.index) == list(parity.groups)
    np.testing.assert_allclose(parity.distribution[:, 1], frame.by_group, rtol=1e-12)
    bias = metrics.label_bias(LABELS, SEX, "f", sample_weight=weights)
    two = demographic_parity_difference(
        LABELS, LABELS, sensitive_features=SEX, sample_weight=weights
    )
    assert abs(bias) == pytest.approx(two, abs=1e-12)


def test_intersections_agree_with_fairlearn():
    from fairlearn.metrics import MetricFrame, selection_rate

    features = pd.DataFrame({"sex": SEX, "race": RACE}, index=np.arange(N) + 1000)
    frame = MetricFrame(
        metrics=selection_rate, y_true=LABELS, y_pred=LABELS, sensitive_features=features
    )
    parity = metrics.statistical_parity(pd.Series(LABELS), features, n_bootstrap=0)
    assert list(frame.by_group.index) == list(parity.groups)
    np.testing.assert_allclose(parity.distribution[:, 1], frame.by_group, rtol=1e-12)
    assert parity.max_distance == pytest.approx(frame.difference(), abs=1e-12)


def test_prediction_bias_of_predictions_is_fairlearns_with_a_sign():
    from fairlearn.metrics import demographic_parity_difference

    X = RNG.normal(size=(N, 2)) + (SEX == "m")[:, None]

    def predict(rows):
        return (np.asarray(rows)[:, 0] > 0.5).astype(int)

    theirs = demographic_parity_difference(LABELS, predict(X), sensitive_features=SEX)
    assert metrics.prediction_bias(predict, X, SEX, "f") == pytest.approx(theirs, abs=1e-12)
    assert metrics.prediction_bias(predict, X, SEX, "m") == pytest.approx(-theirs, abs=1e-12)


def test_prediction_bias_takes_models_and_names_of_columns():
    from sklearn.linear_model import LogisticRegression

    frame = pd.DataFrame(RNG.normal(size=(N, 2)) + (SEX == "m")[:, None], columns=["u", "v"])
    model = LogisticRegression().fit(frame, (SEX == "m").astype(int))
    expected = metrics.label_bias(model.predict(frame), SEX, "f")
    assert expected > 0.1
    assert metrics.prediction_bias(model, frame, SEX, "f") == expected
    assert metrics.prediction_bias(model.predict, frame.assign(sex=SEX), "sex", "f") == expected


def test_the_rest_may_be_some_of_the_groups():
    team = ["a"] * 4 + ["b"] * 4 + ["c"] * 2
    hired = [1, 1, 0, 0, 1, 1, 1, 0, 0, 0]
    assert metrics.label_bias(hired, team, "a") == pytest.approx(3 / 6 - 0.5)
    assert metrics.label_bias(hired, team, "a", reference="b") == pytest.approx(0.25)
    assert metrics.label_bias(hired, team, "a", reference=["b", "c"]) == pytest.approx(0.0)
    assert (
        metrics.label_bias(hired, team, "a", reference="c", return_interval=True).reference_rate
        == 0.0
    )
    rows = np.arange(10)[:, None]
    bias = metrics.prediction_bias(
        lambda X: np.array(hired)[X[:, 0]], rows, team, "a", reference="b"
    )
    assert bias == pytest.approx(0.25)
    with pytest.raises(UnknownGroup, match="reference group is 'd'"):
        metrics.label_bias(hired, team, "a", reference="d")
    with pytest.raises(InvalidInput, match="Remove it"):
        metrics.label_bias(hired, team, "a", reference=["a", "b"])


def test_prediction_bias_of_a_models_probabilities_is_of_the_positive_label():
    from sklearn.linear_model import LogisticRegression

    rows = np.random.default_rng(0).standard_normal((60, 2))
    answers = np.where(rows[:, 0] > 0, "yes", "no")
    sex = np.array(["f", "m", "m"] * 20)
    model = LogisticRegression().fit(rows, answers)
    chance = model.predict_proba(rows)[:, 1]
    bias = metrics.prediction_bias(model, rows, sex, "f", "yes", probabilities=True)
    assert bias == pytest.approx(chance[sex == "m"].mean() - chance[sex == "f"].mean())
    assert metrics.prediction_bias(
        model, rows, sex, "f", "no", probabilities=True
    ) == pytest.approx(-bias)
    with pytest.raises(InvalidParameter, match="probability of predict"):
        metrics.prediction_bias(lambda X: X[:, 0], rows, sex, "f", probabilities=True)


def test_prediction_bias_of_a_constant_classifier_is_zero():
    X = np.ones((N, 1))
    assert metrics.prediction_bias(lambda rows: -np.ones(len(rows)), X, SEX, "f") == 0
    with pytest.raises(InvalidInput, match="pos_label is 1"):
        metrics.prediction_bias(lambda rows: ["no"] * len(rows), X, SEX, "f")


def polars_columns():
    import polars as pl

    return pl.Series(LABELS), pl.DataFrame({"s": SEX})


FORMS = {
    "lists": lambda: (list(LABELS), list(SEX)),
    "arrays": lambda: (LABELS, SEX),
    "columns": lambda: (LABELS[:, None], SEX[:, None]),
    "booleans": lambda: (LABELS == 1, SEX),
    "reals": lambda: (LABELS.astype(float), SEX),
    "series": lambda: (pd.Series(LABELS, index=np.arange(N)[::-1] + N), pd.Series(SEX)),
    "frames": lambda: (
        pd.DataFrame({"y": LABELS}),
        pd.DataFrame({"s": SEX}, index=np.arange(N) + N),
    ),
    "categories": lambda: (pd.Series(LABELS), pd.Series(SEX, dtype="category")),
    "polars": polars_columns,
    "mapping": lambda: (LABELS, {"s": list(SEX)}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_columns_gives_the_same(form):
    labels, groups = FORMS[form]()
    assert metrics.label_bias(labels, groups, "f") == metrics.label_bias(LABELS, SEX, "f")
    parity = metrics.statistical_parity(labels, groups, n_bootstrap=0)
    np.testing.assert_array_equal(parity.distribution, reference_distances(LABELS, SEX)[0])


def test_several_groups_and_outcomes_by_hand():
    parity = metrics.statistical_parity(GRADES, RACE, n_bootstrap=50)
    shares, distances = reference_distances(GRADES, RACE)
    assert parity.outcomes == (0, 1, 2, 3)
    np.testing.assert_allclose(parity.distribution, shares, rtol=1e-14)
    np.testing.assert_allclose(parity.distances, distances, atol=1e-14)
    assert parity.max_distance == pytest.approx(distances.max())
    a, b = map(parity.groups.index, parity.max_pair)
    assert parity.distances[a, b] == parity.max_distance
    assert "r" in parity.max_pair
    np.testing.assert_array_equal(parity.counts, [(g == RACE).sum() for g in "pqr"])


def test_weights_equal_repeated_rows_and_zero_means_absent():
    weights = RNG.integers(0, 4, N)
    weighted = metrics.statistical_parity(GRADES, RACE, sample_weight=weights, n_bootstrap=0)
    unweighted = metrics.statistical_parity(
        GRADES.repeat(weights), RACE.repeat(weights), n_bootstrap=0
    )
    np.testing.assert_allclose(weighted.distribution, unweighted.distribution, rtol=1e-12)
    only_r = metrics.statistical_parity(
        GRADES, RACE, sample_weight=(RACE != "q") * 1.0, n_bootstrap=0
    )
    assert only_r.groups == ("p", "r")


def test_groups_that_agree_are_at_distance_zero():
    parity = metrics.statistical_parity([0, 1, 0, 1], ["a", "a", "b", "b"])
    assert (parity.max_distance, parity.max_pair) == (0, ("a", "b"))
    assert (parity.holds(0.0), parity.holds(use_upper_bound=True)) == (True, False)


def test_parity_holds_by_the_estimate_and_by_the_upper_bound():
    parity = metrics.statistical_parity(LABELS, SEX, epsilon=0.5)
    with pytest.raises(InvalidParameter, match=r"epsilon is 1\.5"):
        parity.holds(1.5)
    with pytest.raises(InvalidParameter, match="use_upper_bound is 'no'"):
        parity.holds(use_upper_bound="no")
    assert parity.low < parity.max_distance < parity.high < 0.5
    between = (parity.max_distance + parity.high) / 2
    less = parity.max_distance * 0.99
    for epsilon, of_estimate, of_end in ((None, True, True), (between, True, False), (less, 0, 0)):
        assert parity.holds(epsilon) == of_estimate
        assert parity.holds(epsilon, use_upper_bound=True) == of_end


@pytest.mark.parametrize(
    "weights", [pytest.param(np.ones(N), marks=pytest.mark.slow, id="equal"), WEIGHTS]
)
def test_the_interval_is_as_far_as_resampled_rows_deviate(weights):
    """Compare with a bootstrap that resamples rows one draw at a time."""
    rng = np.random.default_rng(8)
    figures = []
    groups = [np.flatnonzero(g == RACE) for g in "pqr"]
    # Half a row of each outcome, of the group's mean weight: twice as many rows, and one of each.
    padded = [
        (
            np.r_[np.repeat(GRADES[members], 2), range(4)],
            np.r_[np.repeat(weights[members], 2), [w] * 4],
        )
        for members, w in ((members, weights[members].mean()) for members in groups)
    ]

    def shares(grades, weights):
        sums = np.bincount(grades, weights, 4)
        return sums / sums.sum()

    centers = [shares(*sample) for sample in padded]
    for _ in range(800):
        rows = [
            rng.choice(len(g), len(members)) for (g, _), members in zip(padded, groups, strict=True)
        ]
        deviations = [
            shares(grades[sample], sample_weights[sample]) - center
            for (grades, sample_weights), sample, center in zip(padded, rows, centers, strict=True)
        ]
        figures.append(max(0.5 * np.abs(p - q).sum() for p in deviations for q in deviations))
    parity = metrics.statistical_parity(
        GRADES, RACE, sample_weight=weights, n_bootstrap=4000, random_state=3
    )
    expected = np.quantile(figures, 0.95)
    assert parity.high - parity.max_distance == pytest.approx(expected, rel=0.05)
    assert parity.low == pytest.approx(max(2 * parity.max_distance - parity.high, 0))


# Shares of three outcomes in each group, and rows of each.
TRUE_SHARES = {
    "alike": ([[0.5, 0.3, 0.2]] * 2, [60, 200]),
    "five groups alike": ([[0.5, 0.3, 0.2]] * 5, [40, 60, 80, 100, 200]),
    "apart": ([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3]], [100, 100]),
    "far apart": ([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], [50, 400]),
    "a rare outcome": ([[0.97, 0.03, 0.0], [0.99, 0.0, 0.01]], [80, 80]),
}


@pytest.mark.long
@pytest.mark.parametrize("case", TRUE_SHARES)
def test_the_interval_covers_the_true_largest_distance(case):
    shares, sizes = TRUE_SHARES[case]
    truth = max(0.5 * np.abs(np.subtract(p, q)).sum() for p in shares for q in shares)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(5)
    covered = []
    for seed in range(400):
        labels = np.concatenate(
            [rng.choice(3, n, p=chances) for chances, n in zip(shares, sizes, strict=True)]
        )
        result = metrics.statistical_parity(labels, groups, n_bootstrap=300, random_state=seed)
        covered.append(result.low <= truth <= result.high)
    # Of 400 draws .93 is 1.8 standard deviations below .95.
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize(
    ("p", "q", "sizes"),
    mark_most_long([(0.02, 0.1, (40, 60)), (0.3, 0.5, (150, 150)), (0.98, 1.0, (30, 200))], 3),
)
def test_the_interval_of_a_label_bias_covers_the_true_one(p, q, sizes):
    """Its coverage, summed over all that can be observed; .77 were covered by a bootstrap."""
    from scipy import stats

    counts = [np.arange(n + 1) for n in sizes]
    chances = np.outer(*map(stats.binom.pmf, counts, sizes, (p, q)))
    covered = 0.0
    for i, j in zip(*np.nonzero(chances > 1e-6), strict=True):
        labels = [*(np.arange(sizes[0]) < i), *(np.arange(sizes[1]) < j), True]
        # The last row is of a third group: it makes the outcome known where nobody else has it.
        groups = [*np.repeat(["a", "b"], sizes), "c"]
        result = metrics.label_bias(labels, groups, "a", reference="b", return_interval=True)
        covered += chances[i, j] * (result.low <= q - p <= result.high)
    assert 0.93 <= covered <= 0.99


def test_the_interval_of_a_label_bias_is_newcombes():
    """The example of Newcombe (1998), table II: 56/70 against 48/80, method 10."""
    labels = np.r_[np.arange(70) < 56, np.arange(80) < 48]
    result = metrics.label_bias(labels, np.repeat(["b", "a"], [70, 80]), "a", return_interval=True)
    assert [result.low, result.high] == pytest.approx([0.0524, 0.3339], abs=5e-5)
    # Weights of which each counts three times are those of a third of the rows.
    few = np.r_[np.arange(7) < 5, np.arange(8) < 4]
    groups = np.repeat(["b", "a"], [7, 8])
    weights = np.full(15, 3.0)
    weighted = metrics.label_bias(few, groups, "a", sample_weight=weights, return_interval=True)
    plain = metrics.label_bias(few, groups, "a", return_interval=True)
    assert (weighted.low, weighted.high) == pytest.approx((plain.low, plain.high))


def test_the_same_seed_gives_the_same_interval():
    def interval_ends(seed):
        parity = metrics.statistical_parity(GRADES, RACE, n_bootstrap=100, random_state=seed)
        return parity.low, parity.high

    assert interval_ends(1) == interval_ends(1)
    assert interval_ends(1) != interval_ends(2)
    assert interval_ends(np.random.default_rng(1)) == interval_ends(1)
    assert interval_ends(np.random.RandomState(1)) == interval_ends(np.random.RandomState(1))


def test_a_group_of_one_row_has_no_interval():
    rows = [0, 1, 0, 1], ["a", "a", "a", "b"]
    parity = metrics.statistical_parity(*rows)
    bias = metrics.label_bias(*rows, "b", return_interval=True)
    assert (parity.low, parity.high) == (None, None)
    assert bias.high - bias.low > 0.8
    assert not parity.holds(1.0, use_upper_bound=True)
    two_rows = metrics.statistical_parity([*rows[0], 1], [*rows[1], "b"])
    assert two_rows.low <= two_rows.max_distance <= two_rows.high
    with pytest.raises(InvalidParameter, match="return_interval is 'yes'"):
        metrics.label_bias(*rows, "b", return_interval="yes")


def test_frame_and_repr():
    parity = metrics.statistical_parity(GRADES, RACE, n_bootstrap=50)
    frame = parity.frame()
    assert list(frame.columns) == ["group", "n", "outcome", "share"]
    table = frame.pivot(index="group", columns="outcome", values="share")
    np.testing.assert_array_equal(table.to_numpy(), parity.distribution)
    assert "3 groups and 4 outcomes" in repr(parity)
    assert f"{parity.high:.4g}" in repr(parity)


FOUR_LABELS = [0, 1, 1, 0]
GROUPS = ["a", "b", "a", "b"]
REFUSED = {
    "no such group": ((FOUR_LABELS, GROUPS, "c"), UnknownGroup, r"'c'.*'a', 'b'"),
    "one group": ((FOUR_LABELS, ["a"] * 4, "a"), InvalidInput, "same group, 'a'"),
    "too few groups": (
        (FOUR_LABELS, GROUPS[:3], "a"),
        InvalidInput,
        "4 rows in outcomes, 3 labels in sens",
    ),
    "no positive": ((["y", "n", "y", "n"], GROUPS, "a"), InvalidInput, r"pos_label is 1.*'n', 'y'"),
    "missing label": (([0, 1, None, 0], GROUPS, "a"), InvalidInput, "no outcome in row 3 "),
    "NaN": ((np.array([0, 1, np.nan, 0]), GROUPS, "a"), InvalidInput, "no outcome in row 3 "),
    "missing text": (
        (pd.Series(["y", None, "y", "n"]), GROUPS, "a", "y"),
        InvalidInput,
        "no outcome in row 2 ",
    ),
    "missing integer": (
        (pd.Series([0, 1, None, 0], dtype="Int64"), GROUPS, "a"),
        InvalidInput,
        "no outcome in row 3 ",
    ),
    "missing group": (
        (FOUR_LABELS, ["a", None, "b", "a"], "a"),
        InvalidInput,
        "row 2 ",
    ),
    "mixed": (([0, "y", 1, 0], GROUPS, "a"), InvalidInput, "text with numbers"),
    "scores": ((np.zeros((4, 2)), GROUPS, "a"), InvalidInput, r"shape \(4, 2\)"),
    "two columns": (
        (pd.DataFrame({"a": FOUR_LABELS, "b": FOUR_LABELS}), GROUPS, "a"),
        InvalidInput,
        r"\(4, 2\)",
    ),
    "masked": ((np.ma.masked_equal(FOUR_LABELS, 0), GROUPS, "a"), InvalidInput, "masked"),
    "ragged": (([[1], [1, 2]], ["a", "b"], "a"), InvalidInput, "outcomes is not a column"),
    "nothing": (([], [], "a"), InvalidInput, "outcomes is empty"),
    "text": (("labels", GROUPS, "a"), InvalidInput, r"shape \(\)"),
    "name of a column": ((FOUR_LABELS, "sex", "a"), InvalidInput, "sensitive_features is 'sex'"),
    "no groups": ((FOUR_LABELS, None, "a"), InvalidInput, "sensitive_features is None"),
    "dates": (
        (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), GROUPS, "a"),
        InvalidType,
        "outcomes (holds|contains) dates",
    ),
    "sets": (
        ([{1}, {2}, {3}, {4}], GROUPS, "a"),
        InvalidType,
        r"outcomes contains \{1\}, of type set",
    ),
    "uneven mapping": ((FOUR_LABELS, {"s": GROUPS, "t": [1]}, "a"), InvalidInput, "lengths 1, 4"),
    "mapping to a number": ((FOUR_LABELS, {"s": 1}, "a"), InvalidInput, "lengths 0"),
    "uneven tuples": (
        (FOUR_LABELS, [("a", 1), ("b",), ("a", 2), ("b", 1)], "a"),
        InvalidInput,
        "mix",
    ),
    "a scalar": ((FOUR_LABELS, np.array("a"), "a"), InvalidInput, "sensitive_features is array"),
    "another order": (
        (pd.Series(FOUR_LABELS), pd.Series(GROUPS, index=[3, 2, 1, 0]), "a"),
        InvalidInput,
        r"sensitive_features.loc\[outcomes.index\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_suggests_a_remedy(case):
    arguments, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        metrics.label_bias(*arguments)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ({"epsilon": 1.5}, InvalidParameter),
        ({"n_bootstrap": -1}, InvalidParameter),
        ({"n_bootstrap": 10.5}, InvalidType),
        ({"level": 95}, InvalidParameter),
        ({"random_state": "seed"}, InvalidType),
        ({"sample_weight": [1, 1]}, InvalidInput),
        ({"sample_weight": [-1, 1, 1, 1]}, InvalidInput),
    ],
)
def test_bad_settings(setting, kind):
    with pytest.raises(kind, match=next(iter(setting))):
        metrics.statistical_parity(FOUR_LABELS, GROUPS, **setting)


@pytest.mark.parametrize(
    ("predict", "kind", "message"),
    [
        (lambda rows: np.zeros((4, 2)), InvalidInput, r"shape \(4, 2\), expected \(4,\)"),
        (lambda rows: np.zeros((4, 1)), InvalidInput, r"shape \(4, 1\), expected \(4,\)"),
        (lambda rows: [0, 1], InvalidInput, r"shape \(2,\), expected \(4,\)"),
        (lambda rows: [0.2, 0.7, 0.4, 0.1], InvalidInput, "pos_label is 1"),
        (None, InvalidType, "neither a function nor a model"),
    ],
)
def test_bad_predictions(predict, kind, message):
    with pytest.raises(kind, match=message):
        metrics.prediction_bias(predict, np.ones((4, 2)), GROUPS, "a")


@pytest.mark.parametrize(
    ("classifier", "is_fitted", "pos_label", "kind", "message"),
    [
        (LogisticRegression(), True, "x", InvalidInput, "'x', which is no class"),
        (LinearSVC(), True, "a", InvalidType, "predict_proba"),
        (LogisticRegression(), False, "a", InvalidType, "not fitted"),
    ],
    ids=["unknown label", "no probabilities", "not fitted"],
)
def test_classifiers_without_the_probability_are_refused(
    classifier, is_fitted, pos_label, kind, message
):
    model = clone(classifier)
    if is_fitted:
        model.fit(np.eye(4), list("abab"))
    with pytest.raises(kind, match=message):
        metrics.prediction_bias(
            model, np.eye(4), GROUPS, "a", pos_label=pos_label, probabilities=True
        )


def test_huge_weights_and_many_resamples_are_no_trouble():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parity = metrics.statistical_parity(
            LABELS, SEX, sample_weight=WEIGHTS * 1e300, n_bootstrap=2000
        )
    plain = metrics.statistical_parity(LABELS, SEX, sample_weight=WEIGHTS, n_bootstrap=0)
    np.testing.assert_allclose(parity.distribution, plain.distribution, rtol=1e-12)


def test_prediction_bias_of_a_path_is_refused():
    with pytest.raises(InvalidType, match="X is the path 'people"):
        metrics.prediction_bias(len, "people.parquet", "sex", "female")
