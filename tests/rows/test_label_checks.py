"""Labels that most likely are mistakes: which are reported, and which are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from fairspan import FairPCA, GroupMoments, audit
from fairspan.errors import FairspanWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
PLACE = np.arange(120) % 3


def labels(*names):
    groups = np.empty(3, dtype=object)
    groups[:] = names
    return pd.Series(groups[PLACE])


def findings(code, groups):
    all_findings = audit(PCA(1).fit(X), X, groups, folds=None).findings
    return [finding for finding in all_findings if finding.code == code]


@pytest.mark.parametrize(
    "placeholder",
    [
        "",
        "  ",
        "nan",
        "None",
        "?",
        " ? ",
        "-",
        ".",
        "NA",
        "N/A",
        "null",
        "NaT",
        "<NA>",
        "#DIV/0!",
        "\uff1f",
    ],
)
def test_placeholders_of_missing_values_are_named_at_fit_and_in_the_audit(placeholder):
    groups = labels("m", "w", placeholder)
    with pytest.warns(FairspanWarning, match=r"\(40 rows\) counts as a group") as record:
        FairPCA(1).fit(X, sensitive_features=groups)
    assert len(record) == 1
    assert f"'{placeholder}' (40 rows)" in str(record[0].message)
    [finding] = findings("FS413", groups)
    assert finding.groups == (placeholder,)
    assert f"'{placeholder}' (40 rows)" in finding.message
    assert f"labels.isin([{placeholder!r}])" in finding.message
    [setting] = finding.settings
    assert (setting.name, setting.value) == ("missing_group", (placeholder,))
    assert setting.phrase in finding.message


@pytest.mark.parametrize(
    "ordinary",
    [
        ("unknown", "other", "missing"),
        ("no answer", "not stated", "non-binary"),
        ("nana", "Nancy", "N"),
        ("<30", "30-60", "60+"),
        (0, 1, 2),
        (-1.0, 0.5, 1.0),
        ("é", "è", "e"),
        ("A+", "A-", "0"),
    ],
)
def test_ordinary_labels_pass_without_a_word(ordinary):
    groups = labels(*ordinary)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPCA(1).fit(X, sensitive_features=groups)
    assert not findings("FS413", groups)
    assert not findings("FS405", groups)


@pytest.mark.parametrize("blank", ["\u00a0", "\u200b", "\t"])
def test_blanks_of_every_kind_are_placeholders(blank):
    with pytest.warns(FairspanWarning, match="counts as a group") as record:
        FairPCA(1).fit(X, sensitive_features=labels("m", "w", blank))
    assert f"{blank!r} (40 rows)" in str(record[0].message)


def test_each_attribute_of_an_intersection_is_checked():
    groups = pd.DataFrame({"sex": labels("f", "m", "m"), "race": labels("?", "?", "a")})
    with pytest.warns(FairspanWarning, match=r"'\?' \(80 rows\)"):
        FairPCA(1).fit(X, sensitive_features=groups)
    [finding] = findings("FS413", groups)
    assert finding.groups == (("f", "?"), ("m", "?"))


@pytest.mark.parametrize(
    ("names", "expected_text"),
    [
        (("a", "a ", "b"), "'a' and 'a '"),
        (("Male", "male", "f"), "'Male' and 'male'"),
        (("\u00e9", "e\u0301", "f"), r"'e\u0301' and '\xe9'"),
        (("\uff21", "A", "f"), "'A' and '\uff21'"),
        (("m", "m\u200b", "f"), r"'m' and 'm\u200b'"),
        (("m", "\u00a0m", "f"), r"'m' and '\xa0m'"),
    ],
)
def test_labels_that_differ_only_in_spelling_are_named_in_pairs(names, expected_text):
    groups = labels(*names)
    with pytest.warns(FairspanWarning, match="unify them") as record:
        FairPCA(1).fit(X, sensitive_features=groups)
    assert expected_text in str(record[0].message)
    [finding] = findings("FS405", groups)
    assert expected_text in finding.message


def test_spaces_around_labels_are_reported_where_no_label_lacks_them():
    groups = labels(" m", " w", "x y")
    [finding] = findings("FS405", groups)
    assert finding.groups == (" m", " w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPCA(1).fit(X, sensitive_features=groups)


def test_the_advice_of_the_warning_leaves_the_rows_out():
    groups = labels("m", "w", "?")
    with pytest.warns(FairspanWarning, match=r"labels\.mask\(labels\.isin\(\['\?'\]\)\)"):
        FairPCA(1).fit(X, sensitive_features=groups)
    fair = FairPCA(1, on_missing="drop")
    fair.fit(X, sensitive_features=groups.mask(groups.isin(["?"])))
    assert fair.groups_.tolist() == ["m", "w"]
    assert fair.moments_.n_dropped == 40


def test_rows_added_later_are_warned_of_new_labels_alone():
    fair = FairPCA(1)
    groups = labels("m", "w", "?")
    with pytest.warns(FairspanWarning):
        fair.partial_fit(X, sensitive_features=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fair.partial_fit(X, sensitive_features=groups)
    with pytest.warns(FairspanWarning, match="'-' "):
        fair.partial_fit(X, sensitive_features=labels("m", "w", "-"))


def test_moments_are_warned_of_when_they_are_fitted():
    moments = GroupMoments.from_rows(X, labels("m", "w", "?"))
    with pytest.warns(FairspanWarning, match=r"'\?' \(40 rows\)"):
        FairPCA(1).fit_moments(moments)
    from_covariances = GroupMoments.from_covariances([np.eye(2), np.eye(2)], groups=["a", "?"])
    with pytest.warns(FairspanWarning, match=r"^'\?' counts as"):
        FairPCA(1).fit_moments(from_covariances)


MANY = np.random.default_rng(1).standard_normal((620, 3))


@pytest.mark.parametrize(
    ("groups", "expected_text"),
    [
        (np.arange(620) % 62 + 18, "pandas.cut"),
        ((np.arange(620) % 62 + 18).astype(str), "pandas.cut"),
        (np.round(np.arange(620) % 90 / 7, 3), "pandas.cut"),
        (np.array([f"postcode {i}" for i in np.arange(620) % 62]), "not an identifier"),
        (pd.DataFrame({"age": np.arange(620) % 40, "sex": ["f", "m"] * 310}), "pandas.cut"),
    ],
    ids=["ages", "ages as text", "real numbers", "identifiers", "crossed"],
)
def test_many_groups_of_few_rows_are_warned_of_once(groups, expected_text):
    with pytest.warns(FairspanWarning, match=r"groups of \d+\.\d rows on average") as record:
        FairPCA(1).fit(MANY, sensitive_features=groups)
    assert len(record) == 1
    assert expected_text in str(record[0].message)
    findings = audit(PCA(1).fit(MANY), MANY, groups, folds=None).findings
    [finding] = [entry for entry in findings if entry.code == "FS406"]
    assert ("pandas.cut" in finding.message) == (expected_text == "pandas.cut")


def test_few_groups_or_groups_of_many_rows_or_intended_ones_pass_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n_groups in (30, 31):  # of 20 rows each
            FairPCA(1, criterion="total_error").fit(
                MANY, sensitive_features=np.arange(620) % n_groups
            )
        FairPCA(1, criterion="total_error").fit(MANY[:90], sensitive_features=np.arange(90) % 30)
        FairPCA(1, max_groups=62, criterion="total_error").fit(
            MANY, sensitive_features=np.arange(620) % 62
        )


def test_bins_as_the_warning_advises_are_groups():
    ages = pd.Series(np.arange(620) % 62 + 18)
    with pytest.warns(FairspanWarning, match=r"pandas\.cut"):
        FairPCA(1).fit(MANY, sensitive_features=ages)
    fair = FairPCA(1).fit(MANY, sensitive_features=pd.cut(ages, [0, 30, 60, 120]))
    assert len(fair.groups_) == 3


@pytest.mark.long
def test_refits_of_an_audit_do_not_repeat_the_warnings():
    groups = np.where(np.arange(620) % 62 == 0, "?", (np.arange(620) % 62).astype(str))
    with pytest.warns(FairspanWarning) as record:
        fair = FairPCA(1, criterion="total_error").fit(MANY, sensitive_features=groups)
    assert len(record) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(fair, MANY, groups, folds=5)
