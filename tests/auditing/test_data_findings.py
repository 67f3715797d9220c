"""Findings about the data: where each must appear, and where it must not."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.decomposition import PCA

import real_data
from fairspan import FairPCA, GroupMoments, audit
from fairspan.errors import FairspanWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
GROUPS = np.repeat(["a", "b"], 150)


def find(code, models, *arguments, **options):
    """Return the findings of one code; those about the data need no cross-fitting."""
    findings = audit(models, *arguments, folds=None, **options).findings
    return [finding for finding in findings if finding.code == code]


def audit_frame(code, rows, groups, **settings):
    fair = FairPCA(2, **settings).fit(rows, sensitive_features=groups)
    return find(code, fair, rows, groups)


def with_column(values, name="SEX"):
    return pd.DataFrame(X, columns=["w", "x", "y", "z"]).assign(**{name: values})


def find_in_real_data(name, code, d=2, without=(), **settings):
    """A finding of a real data set, from its moments."""
    rows = real_data.load(name)
    columns = [i for i, feature in enumerate(rows.feature_names) if feature not in without]
    frame = pd.DataFrame(rows.X[:, columns], columns=[rows.feature_names[i] for i in columns])
    moments = GroupMoments.from_rows(frame, rows.groups)
    return find(code, FairPCA(d, **settings).fit_moments(moments), moments=moments)


# A feature that is the group


@pytest.mark.parametrize("scale", [False, True])
def test_a_column_that_is_the_group_is_named(scale):
    rows = with_column(np.where(GROUPS == "a", 1.0, 2.0))
    [finding] = audit_frame("FS401", rows, GROUPS, scale=scale)
    assert finding.message.startswith("feature 'SEX' encodes the group")
    assert finding.message.endswith("Exclude every such feature (drop the column).")
    assert finding.columns == ("SEX",)
    assert not audit_frame("FS401", rows.drop(columns="SEX"), GROUPS, scale=scale)


def test_columns_without_names_are_numbered():
    rows = np.column_stack([X, GROUPS == "a", GROUPS == "b"]).astype(float)
    [finding] = find("FS401", PCA(1).fit(rows), rows, GROUPS)
    assert finding.message.startswith("features x4, x5 encode the group")
    assert finding.columns == ("x4", "x5")


def test_names_cannot_command_the_terminal():
    rows = with_column(np.where(GROUPS == "a", 1.0, 2.0), "sex\x1b[2J\n")
    [finding] = audit_frame("FS401", rows, GROUPS)
    assert "'sex?[2J?'" in finding.message
    assert finding.columns == ("sex\x1b[2J\n",)


def test_one_of_two_crossed_attributes_is_named():
    sex = np.where(np.arange(300) % 2, "f", "m")
    groups = np.column_stack([GROUPS, sex])
    rows = with_column((sex == "f") * 1.0)
    [finding] = find("FS401", PCA(2).fit(rows), rows, groups)
    assert finding.columns == ("SEX",)


@pytest.mark.parametrize(("within", "is_reported"), [(0.01, True), (0.03, False)])
def test_nearly_constant_is_less_than_two_percent_of_the_variance(within, is_reported):
    noise = RNG.standard_normal(300)
    for group in ("a", "b"):
        group_rows = np.flatnonzero(group == GROUPS)
        noise[group_rows] = (noise[group_rows] - noise[group_rows].mean()) / noise[group_rows].std()
    between = np.where(GROUPS == "a", 1.0, -1.0)
    column = np.sqrt(1 - within) * between + np.sqrt(within) * noise
    assert bool(audit_frame("FS401", with_column(column), GROUPS)) == is_reported


def test_a_constant_column_and_many_groups_of_two_rows_are_not_the_group():
    assert not audit_frame("FS401", with_column(7.0), GROUPS)
    assert not audit_frame("FS401", with_column(0.1 + 1e9), GROUPS)
    pairs = np.arange(60) // 2
    fair = FairPCA(1, criterion="total_error").fit(X[:60], sensitive_features=pairs)
    assert not find("FS401", fair, X[:60], pairs)
    # Of eleven rows in ten groups nothing can be said.
    assert not find("FS401", PCA(1).fit(X[:11]), X[:11], np.minimum(np.arange(11), 9))


@pytest.mark.long
def test_real_columns_that_are_the_group_and_their_absence():
    for name, column in (
        ("compas:group__sex", "sex_male"),
        ("default_credit:group__sex", "SEX"),
        ("adult_train:group__sex", "sex_male"),
        ("german_credit:group__sex", "A9_2"),
    ):
        [finding] = find_in_real_data(name, "FS401")
        assert finding.columns == (column,)
        assert not find_in_real_data(name, "FS401", without=[column])


@pytest.mark.parametrize(
    "name", ["image_segmentation:group__class", "wine_quality:group__colour", "compas:group__race"]
)
def test_real_columns_that_only_differ_much_between_groups_are_not_named(name):
    assert not find_in_real_data(name, "FS401")


# A row number


def swap_neighbors(values, position):
    values = values.copy()
    values[[position, position + 1]] = values[[position + 1, position]]
    return values


UP = np.arange(300.0)
COLUMNS = {
    "rises": UP,
    "falls": 1e9 - UP,
    "uneven": np.cumsum(RNG.random(300)),
    "back": swap_neighbors(UP, 50),
    "back at the end": swap_neighbors(UP, 298),
    "a tie": np.where(UP == 151, 150, UP),
    "shuffled": RNG.permutation(300).astype(float),
    "constant": np.ones(300),
}


@pytest.mark.parametrize("parts", [None, [150], [40, 150, 299]])
def test_columns_whose_values_differ_and_are_in_order_are_named(parts, tmp_path):
    rows = pd.DataFrame(COLUMNS)
    groups = np.resize(["a", "b"], 300)
    model = PCA(1).fit(rows.to_numpy())
    if parts is None:
        [finding] = find("FS402", model, rows, groups)
    else:
        rows = rows.assign(group=groups)
        for number, part in enumerate(np.split(np.arange(300), parts)):
            rows.iloc[part].to_parquet(tmp_path / f"{number}.parquet")
        [finding] = find("FS402", model, str(tmp_path), "group")
    assert finding.columns == ("rises", "falls", "uneven")
    assert finding.message.startswith("features 'rises', 'falls', 'uneven': strictly monotone")


def test_a_shuffled_column_that_is_named_like_an_identifier_is_named():
    names = ["patient_id", "PatientID", "caseId", "fluid", "idle", "humidity", "id_repeated"]
    rows = pd.DataFrame({name: RNG.permutation(300).astype(float) for name in names})
    rows["id_repeated"] //= 2
    model = PCA(1).fit(rows.to_numpy())
    groups = np.resize(["a", "b"], 300)
    [finding] = find("FS402", model, rows, groups)
    assert finding.columns == ("patient_id", "PatientID", "caseId")
    assert finding.qualifies_verdict
    assert not find("FS402", model, rows[:19], groups[:19])


def test_the_order_is_unknown_with_few_rows_shuffled_parts_or_moments(tmp_path):
    rows = pd.DataFrame(X).rename(columns=str).assign(rising=UP, group=GROUPS)
    model = PCA(1).fit(rows[["0", "1", "2", "3", "rising"]].to_numpy())
    assert find("FS402", model, rows[:20].assign(group=["a", "b"] * 10), "group")
    assert not find("FS402", model, rows[:19], "group")
    assert not find("FS402", model, moments=GroupMoments.from_rows(rows, "group"))
    for number, start in enumerate((150, 0)):
        rows[start : start + 150].to_parquet(tmp_path / f"{number}.parquet")
    assert not find("FS402", model, str(tmp_path), "group")


# One feature with most of the variance


@pytest.mark.parametrize(("share", "is_reported"), [(0.61, True), (0.59, False)])
def test_a_column_with_most_of_the_variance_is_named_unless_scaled(share, is_reported):
    flat = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = flat * np.sqrt([share, *[(1 - share) / 3] * 3])
    assert bool(find("FS403", PCA(1).fit(rows), rows, GROUPS)) == is_reported
    scaled = FairPCA(1, scale=True).fit(rows, sensitive_features=GROUPS)
    assert not find("FS403", scaled, rows, GROUPS)
    if is_reported:
        [finding] = find("FS403", {"mine": PCA(1).fit(rows), "s": scaled}, rows, GROUPS)
        assert "feature x0 accounts for 61.0 %" in finding.message
        assert "mine does not scale" in finding.message
        assert finding.message.endswith("(scale=True), or rescale the feature.")


@pytest.mark.parametrize(
    ("n_features", "share", "is_reported"),
    [(2, 0.81, True), (2, 0.79, False), (3, 0.68, True), (3, 0.65, False)],
)
def test_one_of_two_or_three_columns_may_have_more_of_the_variance(n_features, share, is_reported):
    flat = (X - X.mean(axis=0)) / X.std(axis=0)
    other_shares = [(1 - share) / (n_features - 1)] * (n_features - 1)
    rows = flat[:, :n_features] * np.sqrt([share, *other_shares])
    assert bool(find("FS403", PCA(1).fit(rows), rows, GROUPS)) == is_reported


def test_nearly_all_is_not_called_all():
    rows = X * [1e6, 1, 1, 1]
    assert (
        "accounts for more than 99.9 %" in find("FS403", PCA(1).fit(rows), rows, GROUPS)[0].message
    )


def test_variance_is_measured_about_the_models_center():
    rows = X + np.array([100, 0, 0, 0])
    for center, is_reported in (("global", False), ("group", False), ("none", True)):
        fair = FairPCA(1, center=center).fit(rows, sensitive_features=GROUPS)
        assert bool(find("FS403", fair, rows, GROUPS)) == is_reported
    apart = X + np.where(GROUPS == "a", 100, 0)[:, None] * [1, 0, 0, 0]
    for center, is_reported in (("global", True), ("group", False)):
        fair = FairPCA(1, center=center).fit(apart, sensitive_features=GROUPS)
        assert bool(find("FS403", fair, apart, GROUPS)) == is_reported


def test_single_columns_and_rows_without_variance_have_no_findings():
    assert not find("FS403", np.eye(1), X[:, :1], GROUPS)
    assert not find("FS403", np.eye(4)[:1], np.zeros((300, 4)), GROUPS)


# Rare indicators


def test_a_component_of_a_rare_indicator_is_named_where_it_is_scaled():
    for rare in (np.arange(300) == 7, np.arange(300) != 7):
        rows = with_column(rare * 1.0, "rare").drop(columns=["w", "x", "y"])
        [finding] = audit_frame("FS404", rows.assign(z2=X[:, 3] + X[:, 0] / 9), GROUPS, scale=True)
        assert finding.columns == ("rare",)
        assert "components of minimax loss" in finding.message
        assert not audit_frame("FS404", rows.assign(z2=X[:, 3]), GROUPS, scale=False)


def test_a_frequent_indicator_and_other_rare_numbers_are_not_named():
    for column in (np.arange(300) % 2, np.arange(300) % 99 == 7, (np.arange(300) == 7) * 2.0):
        rows = with_column(column * 1.0).drop(columns=["w", "x", "y"])
        assert not audit_frame("FS404", rows.assign(z2=X[:, 3] + X[:, 0] / 9), GROUPS, scale=True)


def test_an_indicator_that_makes_no_component_is_not_named():
    rows = with_column((np.arange(300) == 7) * 1.0).to_numpy()
    assert not find("FS404", np.eye(5)[:2], moments=GroupMoments.from_rows(rows, GROUPS))


@pytest.mark.long
def test_rare_indicators_of_countries_are_named_where_features_are_scaled():
    [finding] = find_in_real_data("adult_train:group__race", "FS404", d=8, scale=True)
    assert "country=Laos" in finding.columns
    assert not find_in_real_data("adult_train:group__race", "FS404", d=8, scale=False)
    assert not find_in_real_data("default_credit:group__sex", "FS404", d=8, scale=True)


# Labels


@pytest.mark.parametrize(
    ("labels", "similar_labels"),
    [
        ([" Female", "female"], (" Female", "female")),
        (["female", "female\t"], ("female", "female\t")),
        (["high school", "highschool"], ("high school", "highschool")),
        (["fe\u00a0male", "fe male"], ("fe male", "fe\u00a0male")),
        (["female", "male"], ()),
        ([1, 2], ()),
        ([True, False], ()),
    ],
)
def test_labels_that_differ_only_by_case_or_blanks_are_reported(labels, similar_labels):
    groups = np.array(labels, dtype=object)[np.arange(300) % 2].tolist()
    findings = find("FS405", PCA(1).fit(X), X, groups)
    assert tuple(label for finding in findings for label in finding.groups) == similar_labels


def test_labels_of_crossed_attributes_are_compared_part_by_part():
    groups = np.array([["f", "old"], ["F", "old"], ["f", "young"]])[np.arange(300) % 3]
    [finding] = find("FS405", PCA(1).fit(X), X, groups)
    assert finding.groups == (("F", "old"), ("f", "old"))
    assert "'F / old' and 'f / old'" in finding.message


def test_many_groups_of_few_rows_are_reported():
    rows = RNG.standard_normal((4200, 3))
    for n_groups, is_reported in ((20, False), (21, False), (60, True)):
        groups = np.arange(4200) % n_groups
        assert bool(find("FS406", PCA(1).fit(rows), rows, groups)) == is_reported
    half = np.r_[np.arange(11 * 99) % 11, 11 + np.arange(4200 - 11 * 99) % 10]
    [finding] = find("FS406", PCA(1).fit(rows), rows, half)
    assert "21 groups, 11 of them" in finding.message


# All of them


def test_findings_about_the_data_come_first_in_the_order_of_their_codes_and_the_same_twice():
    rows = with_column(np.where(GROUPS == "a", 1e6, 2e6))
    labels = np.where(GROUPS == "a", "x", np.where(np.arange(300) % 2, "Y", "y"))
    with pytest.warns(FairspanWarning, match="unify them"):
        models = [FairPCA(1).fit(rows, sensitive_features=labels) for _ in range(2)]
    results = [audit(model, rows, labels, folds=None) for model in models]
    codes = [finding.code for finding in results[0].findings]
    assert codes[:3] == ["FS401", "FS403", "FS405"]
    assert results[0].findings == results[1].findings
    assert json.loads(json.dumps(results[0].to_dict()))["findings"][0]["columns"] == ["SEX"]


def test_rows_that_stand_for_their_matrices_give_the_same_findings():
    column = np.where(GROUPS == "a", 300.0, 0.0)
    rows = np.column_stack([X, column])
    thin = np.hstack([rows, np.zeros((300, 600))])
    dense = audit(np.eye(605)[:1], moments=GroupMoments.from_rows(thin, GROUPS)).findings
    assert [finding.code for finding in dense][:2] == ["FS401", "FS403"]
    for source in (thin, sparse.csr_matrix(np.hstack([thin, np.zeros((300, 1000))]))):
        axis = np.eye(source.shape[1])[:1]
        codes = [finding.code for finding in audit(axis, source, GROUPS, folds=None).findings]
        assert codes[:2] == ["FS401", "FS403"]
