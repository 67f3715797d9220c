"""The tables of the user's models, and of a classifier on reduced rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairspan.formatting.names import called, spoken
from fairspan.formatting.numbers import count, whole
from fairspan.report.page.columns import (
    Cell,
    Column,
    Table,
    each_of,
    estimates_column,
    figures_column,
    names_column,
    shares_column,
)
from fairspan.report.page.lookups import Facts

_NOT_KNOWN = "carries none"


def of_given(facts: Facts) -> Table:
    """What each model is, and what its certificate says."""
    models = facts["given"]["models"]
    units = ["standardized" if each["standardized"] else "as they came" for each in models]
    proofs = [each["status"] or _NOT_KNOWN for each in models]
    return Table(
        "The models",
        (
            names_column("model", each_of(models, "name")),
            Column("kind", [Cell(each["kind"]) for each in models], is_text=True),
            Column("dimensions", [Cell(whole(n), n) for n in each_of(models, "n_components")]),
            Column("features", list(map(Cell, units)), is_text=True),
            Column("certificate", list(map(Cell, proofs)), is_text=True),
            figures_column("error over all rows", each_of(models, "total_error")),
        ),
    )


def of_given_model(model: Facts) -> Table:
    """What a model does to each group."""
    groups = model["groups"]
    is_estimated = model["why_no_estimates"] is None
    expected = [
        Column("state", [Cell(each["state"] or "cannot tell") for each in groups], is_text=True),
        estimates_column("expected loss", groups, "expected_loss"),
        estimates_column("expected error", groups, "expected_error"),
    ]
    return Table(
        f"{called(model['name'])} with {count(model['n_components'], 'dimension')}",
        (
            names_column("group", each_of(groups, "group")),
            Column("rows", [Cell(whole(n), n) for n in each_of(groups, "n")]),
            *(expected if is_estimated else ()),
            estimates_column("error on these rows", groups, "error"),
            figures_column("best possible", each_of(groups, "best_error")),
            shares_column("variance kept", each_of(groups, "variance_kept")),
        ),
    )


def of_accuracy(facts: Facts) -> Table:
    """Of each group, the accuracy after each reduction, with the change from PCA."""
    outcomes = facts["downstream"]["outcomes"]
    groups = each_of(outcomes[0]["groups"], "group")
    columns = [
        names_column("group", groups),
        Column("rows", [Cell(whole(each["n"]), each["n"]) for each in outcomes[0]["groups"]]),
    ]
    for outcome in outcomes:
        name, own = spoken(outcome["name"]), outcome["groups"]
        columns.append(_estimates(f"accuracy, {name}", each_of(own, "accuracy")))
        if own[0]["change"] is not None:
            columns.append(_estimates(f"change, {name}", each_of(own, "change")))
    return Table("Accuracy of each group on rows left out", tuple(columns))


def of_separation(facts: Facts) -> Table:
    """Parity of predictions and leakage after each reduction."""
    outcomes = facts["downstream"]["outcomes"]
    return Table(
        "Predictions and groups after each reduction",
        (
            names_column("reduced by", [spoken(each["name"]) for each in outcomes]),
            _estimates("parity distance", each_of(outcomes, "parity")),
            _estimates("leakage", each_of(outcomes, "leakage")),
        ),
    )


def changed(facts: Facts) -> list[tuple[str, str, str]]:
    """Whose accuracy changes beyond its interval: the reduction, the group, and which way."""
    return [
        (
            spoken(outcome["name"]),
            each["group"],
            "rises" if each["change"]["value"] > 0 else "falls",
        )
        for outcome in facts["downstream"]["outcomes"]
        for each in outcome["groups"]
        if each["change"] is not None and each["change"]["is_shown"]
    ]


def _estimates(heading: str, found: Sequence[Any]) -> Column:
    ends = [(each["low"], each["high"]) for each in found]
    return figures_column(heading, [each["value"] for each in found], ends=ends)
