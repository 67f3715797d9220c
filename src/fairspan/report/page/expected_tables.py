"""The tables of what new rows would show, with the figures on these rows beside them."""

from __future__ import annotations

from dataclasses import replace

from fairspan.drawing.losses import CANNOT_TELL
from fairspan.formatting.names import called, spoken
from fairspan.formatting.numbers import change, count, decimals_of, interval, number, whole
from fairspan.report.page.columns import (
    Cell,
    Column,
    Table,
    changes_column,
    chosen_of,
    each_of,
    estimates_column,
    figures_column,
    kept_columns,
    names_column,
    shares_column,
    statuses_column,
    title_of,
)
from fairspan.report.page.lookups import Facts, main_of, plain_of, worst_expected


def of_expected_plain(facts: Facts) -> Table:
    """What PCA does to each group on new rows, and beside it the figures on these."""
    groups = plain_of(facts)["groups"]
    return Table(
        f"PCA with {count(facts['settings']['n_components'], 'dimension')} on new rows",
        (
            names_column("group", each_of(groups, "group")),
            Column("rows", [Cell(whole(n), n) for n in each_of(facts["data"]["groups"], "n")]),
            estimates_column("expected loss", groups, "expected_loss"),
            Column("state", [_state(group) for group in groups], is_text=True),
            estimates_column("expected error", groups, "expected_error"),
            replace(
                figures_column("loss on these rows", each_of(groups, "excess_loss")), is_aside=True
            ),
            replace(figures_column("error on these rows", each_of(groups, "error")), is_aside=True),
            replace(
                shares_column("variance kept", each_of(groups, "variance_kept")), is_aside=True
            ),
        ),
        faint=tuple(i for i, group in enumerate(groups) if group["expected_loss"] is None),
    )


def of_changes(facts: Facts) -> Table:
    """Whose error rises and whose falls from PCA to the main answer, on new rows."""
    name = main_of(facts)["name"]
    found = {each["group"]: each for each in facts["changes"] if each["model"] == name}
    groups = facts["data"]["groups"]
    known = [found.get(group["group"]) for group in groups]
    cells = [_change_of(each, group) for each, group in zip(known, groups, strict=True)]
    words = [_in_words(each) for each in known]
    return Table(
        f"Who gains and who pays: from PCA to {spoken(name)}, on new rows",
        (
            names_column("group", each_of(groups, "group")),
            Column("rows", [Cell(whole(n), n) for n in each_of(groups, "n")]),
            shares_column("share of the rows", each_of(groups, "proportion")),
            Column("change in error / variance", cells),
            Column("outcome", [Cell(word, word) for word in words], is_text=True),
        ),
        faint=tuple(i for i, each in enumerate(cells) if each.value is None),
    )


def _change_of(found: Facts | None, group: Facts) -> Cell:
    """A change in error as a share of the group's variance, with its interval."""
    variance = group["total_variance"]
    if found is None or found["change_low"] is None or variance <= 0:
        return Cell(number(None), None, "too few rows")
    ends = (change(found[f"change_{end}"] / variance) for end in ("low", "high"))
    value = found["change"] / variance
    return Cell(change(value), value, " to ".join(ends))


def _in_words(found: Facts | None) -> str:
    """What the interval of a change says."""
    if found is None or found["change_low"] is None:
        return CANNOT_TELL
    if found["change_high"] < 0:
        return "gains"
    return "pays" if found["change_low"] > 0 else "no clear change"


def of_expected_criteria(facts: Facts) -> Table:
    """Under each criterion: the largest loss on new rows, and what is kept of each group."""
    models = facts["models"]
    worst = [worst_expected(facts, model) for model in models]
    groups: list[Facts | None] = [
        None if i is None else model["groups"][i] for i, model in zip(worst, models, strict=True)
    ]
    losses = [None if each is None else each["expected_loss"] for each in groups]
    ends = [
        (None, None) if each is None else (each["expected_loss_low"], each["expected_loss_high"])
        for each in groups
    ]
    whose = [
        Cell("not estimated") if each is None else Cell(called(each["group"]), each["group"])
        for each in groups
    ]
    states = [Cell(number(None)) if each is None else _state(each) for each in groups]
    asked = [Cell(title_of(model), spoken(model["name"]), model["asks"]) for model in models]
    return Table(
        "Ordinary PCA and each fair criterion",
        (
            Column("criterion", asked, is_text=True),
            figures_column("largest expected loss", losses, ends=ends),
            Column("of", whose, is_text=True),
            Column("state", states, is_text=True),
            *kept_columns(models),
            changes_column(models),
            statuses_column(models),
        ),
        chosen_of(models),
    )


def of_expected_losses(facts: Facts) -> Table:
    """The loss of every group on new rows under every model, with interval and state."""
    models = facts["models"]
    decimals = decimals_of(group["expected_loss"] for model in models for group in model["groups"])
    columns = [
        Column(spoken(model["name"]), [_with_state(group, decimals) for group in model["groups"]])
        for model in models
    ]
    names = names_column("group", each_of(models[0]["groups"], "group"))
    unknown = [
        all(model["groups"][i]["expected_loss"] is None for model in models)
        for i in range(len(names.cells))
    ]
    return Table(
        "Expected loss of each group on new rows",
        (names, *columns),
        faint=tuple(i for i, each in enumerate(unknown) if each),
    )


def _with_state(group: Facts, decimals: int | None) -> Cell:
    if group["expected_loss"] is None:
        return Cell(number(None), None, "too few rows" if group["state"] else "not estimated")
    ends = interval(group["expected_loss_low"], group["expected_loss_high"], decimals)
    value = group["expected_loss"]
    return Cell(number(value, decimals), value, f"{ends}; {group['state']}")


def _state(group: Facts) -> Cell:
    """What may be said of a group's loss."""
    said = group["state"] or "not estimated"
    return Cell(
        said, said, "too few rows" if said == CANNOT_TELL and group["expected_loss"] is None else ""
    )
