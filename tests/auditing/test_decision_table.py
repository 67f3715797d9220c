"""The decision table: what each group gains or pays under each fair model."""

import re
from functools import cache

import numpy as np
import pytest

from fairspan import FairPCA, audit
from fairspan.errors import InvalidInput
from fairspan.formatting.terminal import display_width
from known_verdicts import harmed_minority


@cache
def audit_example():
    X, groups = harmed_minority()
    models = {
        name: FairPCA(3, criterion=name).fit(X, sensitive_features=groups)
        for name in ("minimax_loss", "total_error")
    }
    return audit(models, X, groups, folds=5)


def test_effects_are_the_changes_in_error_as_shares_of_the_variance():
    result = audit_example()
    table = result.decision_table()
    names = [cell.text for cell in table.columns[0].cells]
    by_name = {model.name: model for model in result.models}
    assert [column.group for column in table.columns[1:]] == ["few", "many"]
    baseline = by_name[by_name["minimax_loss"].baseline]
    for g, column in enumerate(table.columns[1:]):
        cells = dict(zip(names, column.cells, strict=True))
        loss = baseline.groups[g]
        assert cells[baseline.name].sort_value == pytest.approx(
            loss.expected_loss.value / loss.observed_total_variance
        )
        fair = by_name["minimax_loss"].groups[g]
        change = fair.expected_change
        cell = cells["minimax_loss"]
        assert cell.sort_value == pytest.approx(change.value / fair.observed_total_variance)
        assert cell.attributes["data-state"] == fair.state
        # The state is that of the loss, which is printed next to it.
        word, loss_text, _, state = cell.detail.replace("\xa0", " ").split(" ", 3)
        assert (word, state) == ("loss", fair.state)
        left_share = fair.expected_loss.value / fair.observed_total_variance
        assert float(loss_text) == pytest.approx(100 * left_share, abs=0.05)
        assert change.low > 0 or change.high < 0
        is_material = abs(change.value) > 0.01 * fair.observed_total_variance
        cost = "cost" if is_material else "small cost"
        outcome = "gain" if change.high < 0 else cost
        assert cell.attributes["data-outcome"] == outcome
        change_text, word = cell.text.replace("\u2212", "-").split(": ")
        assert word == outcome
        displayed_values = re.fullmatch(
            r"change (\S+)\s% \((\S+)\sto\s(\S+)\)", change_text
        ).groups()
        for text, value in zip(
            displayed_values, (change.value, change.low, change.high), strict=True
        ):
            share = 100 * value / fair.observed_total_variance
            assert text[0] == ("+" if value > 0 else "-")
            assert float(text) == pytest.approx(share, abs=0.05)


def test_the_table_comes_before_all_others_and_fits_the_terminal():
    result = audit_example()
    for width in (80, 50):
        text = result.to_text(width)
        assert max(map(display_width, text.splitlines())) <= width
        assert result.decision_table().to_text(width).isascii()
        table = result.decision_table().to_text(width)
        assert text.index(table) < text.index(result.table().to_text(width))


def test_an_audit_without_fair_models_has_no_decision():
    X = np.random.default_rng(0).normal(size=(100, 3))
    result = audit(np.eye(3)[:1], X, ["a", "b"] * 50)
    assert not result.has_decisions
    with pytest.raises(InvalidInput, match="no fair model"):
        result.decision_table()
