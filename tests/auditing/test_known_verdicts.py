"""Audits of tables with known harm reach the verdict that is true of them."""

import pytest

import fairspan as fs
from known_verdicts import TRUTHS, assert_is_true

MARKS = {
    # Four groups, of which three are alike, take some seconds.
    "an intersection": [pytest.mark.long],
    "two harmed of four": [pytest.mark.slow],
    "harm that moves": [pytest.mark.slow],
}
CASES = [pytest.param(truth, id=truth.name, marks=MARKS.get(truth.name, [])) for truth in TRUTHS]


@pytest.mark.parametrize("truth", CASES)
def test_an_audit_says_what_is_true(truth):
    X, groups = truth.rows()
    fair = fs.FairPCA(truth.d).fit(X, sensitive_features=groups)
    audit = fs.audit({"minimax loss": fair}, X, groups)
    assert_is_true(truth, audit, *audit.models)
