"""Verdicts and recommendations for eleven realistic tables are true."""

import numpy as np
import pytest

from eleven_tables import LARGE, SMALL
from true_losses import audit_drawn_table

# Twelve regions, and more features than rows, take some seconds.
LONG = {"survey", "few_genes", "loans"}
CASES = [
    pytest.param(
        case,
        id=case.make.__name__,
        marks=pytest.mark.long if case.make.__name__ in LONG or case in LARGE else pytest.mark.slow,
    )
    for case in (*SMALL, *LARGE)
]


@pytest.mark.parametrize("case", CASES)
def test_verdict_and_recommendation_are_true(case):
    outcome = audit_drawn_table(case.make(np.random.default_rng(0)))
    verdict = outcome.audit.verdict
    recommendation = outcome.recommendation
    assert list(outcome.false_claims()) == []
    assert verdict.kind in case.kinds
    assert recommendation.model in case.recommended
    codes = {finding.code for finding in outcome.audit.findings}
    if case.findings:
        # The verdict is qualified by what is found, and states the remedy of the first finding.
        stated_codes = {code for code in case.findings & codes if f"({code})" in verdict.summary}
        assert stated_codes
        first = next(finding for finding in outcome.audit.findings if finding.code in stated_codes)
        stated_remedy = first.stated_remedy or first.remedy
        assert stated_remedy[1:] in verdict.recommendation
