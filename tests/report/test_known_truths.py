"""What the page says of tables whose truth is known: verdict, action, who is named, who pays."""

import pytest

from fairspan.report.page.rendering import page_of
from known_truths import TRUTHS
from page_tree import tree_of
from report_rows import facts_by, model_of

# Four groups, of which three are alike, take some seconds.
SLOW = "an intersection"
CASES = [
    pytest.param(each, id=each.name, marks=[pytest.mark.long] if each.name == SLOW else [])
    for each in TRUTHS
]


@pytest.mark.parametrize("truth", CASES)
def test_the_page_says_what_is_true(truth):
    facts = facts_by(*truth.rows(), truth.d, criteria=["total_error"])
    verdict = facts["verdict"]
    assert verdict["kind"] == truth.kind
    assert set(verdict["groups"]) == set(truth.groups)
    assert verdict["action"].startswith(truth.action)
    for name in truth.groups:
        assert name in verdict["sentence"]
    harmed = [each["group"] for each in model_of(facts, "PCA")["groups"] if is_harmed(each)]
    assert set(harmed) == set(truth.harmed)
    assert truth.finding is None or truth.finding in {each["code"] for each in facts["findings"]}
    if truth.kind == "harm, and repair helps":
        told = {each["group"]: each for each in facts["changes"] if each["model"] == "minimax_loss"}
        assert {name for name in told if told[name]["change_high"] < 0} == set(truth.harmed)
        # Those whom PCA served pay for it, and the verdict says so.
        assert all(each["change_low"] > 0 for name, each in told.items() if name not in harmed)
        assert all(f"'{name}'" in verdict["sentence"] for name in told)
    summary = " ".join(tree_of(page_of(facts)).with_id("summary").text.split())
    assert verdict["sentence"] in summary
    assert verdict["action"] in summary


def is_harmed(group):
    return group["state"] == "harmed"
