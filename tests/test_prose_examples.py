"""Exact sentences, one example for each kind of message; other tests assert the facts in them."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.errors import UnknownGroup
from known_verdicts import harmed_minority


@pytest.fixture(scope="module")
def fair_audit():
    """Audit of a fair model that repairs the harm to a minority."""
    X, groups = harmed_minority()
    model = fs.FairPCA(3).fit(X, sensitive_features=groups)
    return model, fs.audit({"fair": model}, X, groups, folds=5)


def message_of(code, result):
    return next(finding.message for finding in result.findings if finding.code == code)


def test_a_verdict(fair_audit):
    assert str(fair_audit[1].verdict) == (
        "Harm, repair helps. 'few' (400 rows) is harmed by PCA: on new rows it loses 60.9 % to "
        "84.6 % more of its variance than with its own best 3 dimensions. Under fair, 'few' "
        "regains 50.2 % to 69.6 % of its variance on new rows, and no other group becomes harmed. "
        "The cost falls on 'many' (3,000 rows): an estimated 0.9 % of the variance. Use fair, and "
        "document which groups bear the cost."
    )


def test_a_finding_about_models(fair_audit):
    assert message_of("FS302", fair_audit[1]) == (
        "fair versus PCA on new rows: the largest excess loss changes from 5.279 to 0.9314, the "
        "error over all rows from 0.783 to 1.079 (+37.8 %)."
    )


def test_a_finding_about_data():
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [10, 1, 1]
    result = fs.audit(np.eye(3)[:1], rows, ["a", "b"] * 100, folds=None)
    assert message_of("FS403", result) == (
        "feature x0 accounts for 98.1 % of the variance, and array does not scale, so the other "
        "features have little influence. Standardize the features (scale=True), or rescale the "
        "feature."
    )


def test_a_finding_about_a_refit(fair_audit):
    X, groups = harmed_minority()
    result = fs.audit({"fair": fair_audit[0]}, X[::2] + 0.1, groups[::2], folds=None)
    assert message_of("FS209", result) == (
        "fair: on the audited rows, minimax_loss is 0.9071, and by its certificate no refit to "
        "them falls below 0.8264: the optimum is at most 0.08065 (8.9 %) lower. A refit may help."
    )


def test_an_error_about_groups(fair_audit):
    X, groups = harmed_minority()
    with pytest.raises(UnknownGroup) as raised:
        fs.audit(fair_audit[0], X, np.where(groups == "few", "new", groups))
    assert str(raised.value) == (
        "The rows contain groups that model 'minimax_loss' was not fitted on: 'new'. Allowed: its "
        "training groups, 'few', 'many'. Check the group column for misspelled or new values, or "
        "refit with that group."
    )
