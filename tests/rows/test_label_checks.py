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
    found = audit(PCA(1).fit(X), X, groups, folds=None).findings
    return [each for each in found if each.code == code]


@pytest.mark.parametrize(
    "placeholder",
    ["", "  ", "nan", "None", "?", " ? ", "-", ".", "NA", "N/A", "null", "NaT", "<NA>", "#DIV/0!"],
)
def test_placeholders_of_missing_values_are_named_at_fit_and_in_the_audit(placeholder):
    groups = labels("m", "w", placeholder)
    with pytest.warns(FairspanWarning, match=r"\(40 rows\) count as groups") as caught:
        FairPCA(1).fit(X, sensitive_features=groups)
    assert len(caught) == 1
    assert f"'{placeholder}' (40 rows)" in str(caught[0].message)
    [finding] = findings("FS413", groups)
    assert finding.groups == (placeholder,)
    assert f"'{placeholder}' (40 rows)" in finding.message
    assert f"--na-values '{placeholder}'" in finding.message


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


def test_each_attribute_of_an_intersection_is_checked():
    groups = pd.DataFrame({"sex": labels("f", "m", "m"), "race": labels("?", "?", "a")})
    with pytest.warns(FairspanWarning, match=r"'\?' \(80 rows\)"):
        FairPCA(1).fit(X, sensitive_features=groups)
    [finding] = findings("FS413", groups)
    assert finding.groups == (("f", "?"), ("m", "?"))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("a", "a ", "b"), "'a' and 'a '"),
        (("Male", "male", "f"), "'Male' and 'male'"),
        (("\u00e9", "e\u0301", "f"), r"'e\u0301' and '\xe9'"),
        (("\uff21", "A", "f"), "'A' and '\uff21'"),
    ],
)
def test_labels_that_differ_only_in_spelling_are_named_in_pairs(names, shown):
    groups = labels(*names)
    with pytest.warns(FairspanWarning, match="spell them alike") as caught:
        FairPCA(1).fit(X, sensitive_features=groups)
    assert shown in str(caught[0].message)
    [finding] = findings("FS405", groups)
    assert shown in finding.message


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
    fair, groups = FairPCA(1), labels("m", "w", "?")
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
    known = GroupMoments.from_covariances([np.eye(2), np.eye(2)], groups=["a", "?"])
    with pytest.warns(FairspanWarning, match=r"^'\?' count as"):
        FairPCA(1).fit_moments(known)
