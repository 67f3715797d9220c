"""Checks of audits: which conditions apply, and what the exception says."""

import pickle
from functools import cache

import numpy as np
import pytest
from sklearn.decomposition import PCA, KernelPCA

import fairspan as fs
from fairspan.errors import CheckFailed, InvalidInput, InvalidParameter, InvalidType
from known_verdicts import repairable_minority, same_distribution

# PCA with one component follows the wide first feature of 'many' and loses that of 'few'.
SPREADS = {"many": [5.0, 1.0, 0.3], "few": [0.3, 1.0, 3.0]}


@cache
def make_rows(n_many=600, n_few=300, seed=0, factor=1.0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(["many", "few"], [n_many, n_few])
    spread = np.array([SPREADS[group] for group in groups])
    spread[groups == "few", 1] *= factor
    return rng.normal(size=spread.shape) * spread, groups


@cache
def audit_pca(**options):
    X, groups = make_rows()
    pca = fs.FairPCA(1, criterion="total_error").fit(X, sensitive_features=groups)
    return fs.audit(pca, X, groups, **options)


@cache
def audit_fair():
    X, groups = repairable_minority()
    fair = fs.FairPCA(2, criterion=fs.MinimaxLoss(relative=True))
    return fs.audit(fair.fit(X, sensitive_features=groups), X, groups)


def conditions_of(audit, fail_on, **options):
    return [failure.condition for failure in audit.failures(fail_on, **options)]


def test_harm_fails_with_the_groups_that_are_harmed():
    audit = audit_pca()
    states = {group.group: group.state for group in audit.models[0].groups}
    assert states["few"] == "harmed"
    (failure,) = audit.failures("harm")
    assert (failure.condition, failure.model) == ("harm", "PCA")
    assert set(failure.groups) == {group for group, state in states.items() if state == "harmed"}
    with pytest.raises(CheckFailed, match=r"loses .* of 'few'") as error:
        audit.check()
    assert error.value.verdict == audit.verdict
    assert error.value.failures == (failure,)
    assert audit.verdict.recommendation.rstrip(".") in str(error.value)


def test_a_check_is_about_the_fair_models_unless_others_are_named():
    audit = audit_fair()
    pca, fair = sorted(audit.models, key=lambda model: not model.is_pca)
    assert audit.verdict.kind == "harm, repair helps"
    assert "harmed" not in {group.state for group in fair.groups}
    audit.check("harm")
    assert [failure.model for failure in audit.failures("harm", models=[pca.name])] == [pca.name]


def test_inconclusive_applies_where_harm_is_neither_shown_nor_ruled_out():
    X, groups = same_distribution()
    few = np.r_[:40, -40:0]
    audit = fs.audit(PCA(2).fit(X[few]), X[few], groups[few])
    assert audit.verdict.kind == "inconclusive"
    assert conditions_of(audit, ["harm", "inconclusive"]) == ["inconclusive"]
    # Harm that is shown is a conclusion, also if nothing is known of another group.
    assert conditions_of(audit_pca(), ["inconclusive"]) == []


def test_codes_apply_where_the_audit_has_the_finding():
    X, groups = make_rows(300, 4)
    audit = fs.audit(PCA(2).fit(X), X, groups)
    codes = {finding.code for finding in audit.findings}
    assert "FS101" in codes
    assert "FS102" not in codes
    assert conditions_of(audit, "FS101,FS102") == ["FS101"]
    (failure,) = audit.failures("FS101")
    assert failure.groups == ("few",)


@pytest.mark.parametrize(("factor", "expected"), [(1.0, []), (4.0, ["drift"])])
def test_drift_applies_where_an_error_has_changed_since_the_fit(factor, expected):
    X, groups = make_rows(3000, 3000)
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    audit = fs.audit(fair, *make_rows(3000, 3000, seed=1, factor=factor))
    assert conditions_of(audit, "drift") == expected


def test_conditions_that_can_never_apply_are_errors():
    X, groups = make_rows()
    without_estimates = fs.audit(PCA(1).fit(X), X, groups, folds=None)
    with pytest.raises(InvalidInput, match="no estimates for new rows"):
        without_estimates.check("harm")
    without_estimates.check("FS101")
    with pytest.raises(InvalidInput, match="other rows"):
        audit_fair().check("drift")


def test_rows_without_any_harm_pass_every_named_condition():
    X, groups = same_distribution()
    fs.audit(PCA(2).fit(X), X, groups).check(["harm", "inconclusive"])


def test_a_model_about_which_nothing_is_known_is_inconclusive():
    X, groups = make_rows()
    kernel = KernelPCA(1, kernel="rbf", fit_inverse_transform=True).fit(X)
    assert conditions_of(fs.audit(kernel, X, groups), "inconclusive") == ["inconclusive"]


@pytest.mark.parametrize(
    ("fail_on", "error", "words"),
    [
        ("harms", InvalidParameter, "Use 'harm'"),
        ("FS999", InvalidParameter, "unknown condition 'FS999'"),
        ("", InvalidParameter, "no condition"),
        (3, InvalidType, "fail_on is 3"),
        ([1], InvalidType, "codes of findings"),
    ],
)
def test_unknown_conditions_are_refused(fail_on, error, words):
    with pytest.raises(error, match=words):
        audit_pca().check(fail_on)


def test_unknown_models_are_refused():
    with pytest.raises(InvalidParameter, match="names 'fair'"):
        audit_pca().check("harm", models=["fair"])


def test_a_failed_check_survives_the_way_to_another_process():
    with pytest.raises(CheckFailed) as error:
        audit_pca().check("harm")
    copy = pickle.loads(pickle.dumps(error.value))
    assert str(copy) == str(error.value)
    assert (copy.failures, copy.verdict) == (error.value.failures, error.value.verdict)
