"""The tables of the audit page, and parts of the facts that several sections need."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairspan.displays.groups import CANNOT_TELL
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    estimates_column,
    figures_column,
    names_column,
    shares_column,
)
from fairspan.formatting.text import (
    called,
    change,
    count,
    decimals_of,
    interval,
    number,
    relative,
    settings,
    sharers,
    spoken,
    whole,
)

Facts = Mapping[str, Any]

# These are to be copied and run as they are.
_WHOLE = ("verification", "made")

# What a fit brings together to its tolerance shares a figure; no table shows so many digits.
ALIKE = 1e-6


def plain_of(facts: Facts) -> Any:
    """The facts of ordinary PCA."""
    return facts["models"][0]


def main_of(facts: Facts) -> Any:
    """The facts of the main criterion's answer."""
    return facts["models"][chosen_of(facts["models"])]


def has_estimates(facts: Facts) -> bool:
    """Whether it is known what new rows would show of any group."""
    return any(group["expected_loss"] is not None for group in plain_of(facts)["groups"])


def worst_expected(facts: Facts, model: Facts) -> int | None:
    """Position of the group that loses most of its variance on new rows, of those it harms if any.

    None where nothing was estimated. Groups of too few rows have no estimate.
    """
    sizes = [group["total_variance_here"] for group in facts["data"]["groups"]]
    known = [i for i, group in enumerate(model["groups"]) if group["expected_loss"] is not None]
    harmed = [i for i in known if model["groups"][i]["state"] == "harmed"]
    return max(
        harmed or known,
        key=lambda i: model["groups"][i]["expected_loss"] / (sizes[i] or 1.0),
        default=None,
    )


def harmed_by_dimension(facts: Facts) -> list[tuple[int, str, float]]:
    """Where PCA harms a group on new rows: d, and whom it costs most, with the expected loss."""
    expected = facts["by_dimension"]["expected"]
    if expected is None:
        return []
    names = [group["group"] for group in facts["data"]["groups"]]
    figures = expected["plain"]
    return [
        (d, *max(harmed, key=lambda each: each[1]))
        for d, states, losses in zip(
            expected["dimensions"], figures["states"], figures["expected_losses"], strict=True
        )
        if (
            harmed := [
                (name, loss)
                for name, state, loss in zip(names, states, losses, strict=True)
                if state == "harmed"
            ]
        )
    ]


def most_lost(model: Facts) -> Any:
    """The group with the largest excess loss; the first of those that share it."""
    return model["groups"][sharing_largest(each_of(model["groups"], "loss_here"))[0]]


def sharing_largest(values: Sequence[float]) -> list[int]:
    """Positions of the largest value: of several where they differ by no more than a fit does.

    Examples
    --------
    >>> sharing_largest([0.2, 0.5, 0.1, 0.5000000001])
    [1, 3]
    """
    largest = max(values)
    return [i for i, value in enumerate(values) if value >= largest - ALIKE * abs(largest)]


def findings_about_the_answer(facts: Facts) -> tuple[list[Facts], list[Facts]]:
    """Findings about the rows, ordinary PCA and the main answer; and those about other criteria."""
    asked = {None, plain_of(facts)["name"], main_of(facts)["name"]}
    return [each for each in facts["findings"] if each["model"] in asked], [
        each for each in facts["findings"] if each["model"] not in asked
    ]


def with_short_names(facts: Facts) -> Facts:
    """The same facts, very long names of groups and features without their middles."""
    data = facts["data"]
    names = [data["name"], *data["feature_names"], *(each["group"] for each in data["groups"])]
    text = json.dumps(facts)
    for name in names:
        if name.strip():
            text = text.replace(json.dumps(name)[1:-1], json.dumps(called(name))[1:-1])
    return {**json.loads(text), **{key: facts[key] for key in _WHOLE}}


def counts_column(heading: str, values: Sequence[int]) -> Column:
    """Whole numbers."""
    return Column(heading, [Cell(whole(n), n) for n in values])


def kept_columns(models: Sequence[Facts]) -> list[Column]:
    """The variance kept of both groups; of more, the least, and of which group it is."""
    kept = [each_of(model["groups"], "kept_here") for model in models]
    names = each_of(models[0]["groups"], "group")
    if len(names) == 2:
        return [
            replace(shares_column("variance kept,", each), group=name)
            for name, each in zip(names, zip(*kept, strict=True), strict=True)
        ]
    least = [
        min(
            ((value, name) for value, name in zip(row, names, strict=True) if value is not None),
            key=lambda each: each[0],
            default=(None, number(None)),
        )
        for row in kept
    ]
    return [
        shares_column("least variance kept", [value for value, _ in least]),
        names_column("of", [name for _, name in least]),
    ]


def changes_column(models: Sequence[Facts]) -> Column:
    """What each model costs over all rows."""
    decimals = decimals_of(each_of(models, "total_error_here"))
    cells = [
        Cell(change(total), total, number(model["total_error_here"], decimals))
        for model in models
        for total in [model["total_change_here"]]
    ]
    return Column("error over all rows", cells)


def statuses_column(models: Sequence[Facts]) -> Column:
    """How each fit ended."""
    statuses = [model["certificate"]["status"] for model in models]
    cells = [Cell("proven" if each == "optimal" else each, each) for each in statuses]
    return Column("status", cells, is_text=True)


def each_of(parts: Sequence[Facts], what: str) -> list[Any]:
    """The same figure of each part."""
    return [part[what] for part in parts]


def chosen_of(models: Sequence[Facts]) -> int:
    """Position of the main answer."""
    return next(i for i, model in enumerate(models) if model["is_main"])


def title_of(model: Facts) -> str:
    """The model's name, and its parameters if the name does not contain them."""
    told = settings(model["parameters"])
    name = spoken(model["name"])
    return name if not told or "(" in name else f"{name} ({told})"


# The group of a model that has no estimates.
_NOT_ESTIMATED = {
    **{f"expected_loss{end}": None for end in ("", "_low", "_high")},
    "group": "not estimated",
    "state": number(None),
}
# As a share of the total variance: less than fits resolve.
_SAME = 1e-9


def of_facts(facts: Facts, steps: Sequence[str]) -> dict[str, Table]:
    """Every table of the page, by the name that the template uses."""
    tables = {
        "groups": of_groups(facts),
        "plain": of_plain(facts),
        "criteria": of_criteria(facts),
        "losses": of_groups_by_model(facts, "loss_here", "Excess loss of each group"),
        "errors": of_groups_by_model(facts, "error_here", "Error of each group"),
        "certificates": of_certificates(facts),
        "steps": of_steps(facts, steps),
    }
    if facts["given"] is not None:
        tables["given"] = of_given(facts)
    if has_estimates(facts):
        tables |= {
            "expected_plain": of_expected_plain(facts),
            "expected_criteria": of_expected_criteria(facts),
            "expected_losses": of_expected_losses(facts),
        }
        if not main_of(facts)["is_plain_pca"]:
            tables["changes"] = of_changes(facts)
    return tables


def of_groups(facts: Facts) -> Table:
    """How many rows and how much variance each group has."""
    groups = facts["data"]["groups"]
    return Table(
        "The groups",
        (
            names_column("group", each_of(groups, "group")),
            counts_column("rows", each_of(groups, "n")),
            shares_column(
                "share of the weight" if facts["data"]["weighted"] else "share",
                each_of(groups, "proportion"),
            ),
            figures_column("total variance", each_of(groups, "total_variance_here")),
        ),
    )


def of_plain(facts: Facts) -> Table:
    """What PCA does to each group."""
    model = plain_of(facts)
    groups = model["groups"]
    above = [
        group["loss_here"] / group["best_error_here"] if group["best_error_here"] > 0 else None
        for group in groups
    ]
    return Table(
        f"PCA with {count(facts['settings']['n_components'], 'dimension')}",
        (
            names_column("group", each_of(groups, "group"), total="all rows"),
            estimates_column("error", groups, "error_here", total=model["total_error_here"]),
            figures_column("best possible", each_of(groups, "best_error_here")),
            figures_column("excess loss", each_of(groups, "loss_here")),
            Column("loss / best", [Cell(relative(each), each) for each in above]),
            shares_column("variance kept", each_of(groups, "kept_here")),
        ),
    )


def of_criteria(facts: Facts) -> Table:
    """What each criterion changes and costs: two groups in full, of more the worst."""
    models = facts["models"]
    errors, losses = (
        [each_of(model["groups"], what) for model in models] for what in ("error_here", "loss_here")
    )
    found = [(each["disparity_here"], each["certificate"]["total_variance"]) for each in models]
    gaps = [0.0 if abs(gap) <= _SAME * variance else gap for gap, variance in found]
    ends = [(each["disparity_here_low"], each["disparity_here_high"]) for each in models]
    names = each_of(models[0]["groups"], "group")
    return _of_models(
        models,
        *(_by_group(names, errors, losses) if len(names) == 2 else _worst(names, "loss", losses)),
        # Beside estimates, the table of these shows what is kept.
        *([] if has_estimates(facts) else kept_columns(models)),
        figures_column("disparity", gaps, ends=ends),
    )


def _of_models(models: Sequence[Facts], *columns: Column) -> Table:
    """What each criterion asks, some columns, and how each fit ended at which cost."""
    asked = [Cell(title_of(model), spoken(model["name"]), model["asks"]) for model in models]
    return Table(
        "Ordinary PCA and each fair criterion",
        (
            Column("criterion", asked, is_text=True),
            *columns,
            changes_column(models),
            statuses_column(models),
        ),
        chosen=chosen_of(models),
    )


def of_groups_by_model(facts: Facts, what: str, caption: str) -> Table:
    """One figure of every group under every model."""
    models = facts["models"]
    columns = [
        figures_column(spoken(each["name"]), each_of(each["groups"], what)) for each in models
    ]
    return Table(caption, (names_column("group", each_of(models[0]["groups"], "group")), *columns))


def of_certificates(facts: Facts) -> Table:
    """Objective and bound of every model."""
    models = facts["models"]
    proofs = [model["certificate"] for model in models]
    titles = [Cell(title_of(model), spoken(model["name"])) for model in models]
    return Table(
        "Certificates",
        (
            Column("criterion", titles, is_text=True),
            *(
                figures_column(what.replace("_", " "), each_of(proofs, what))
                for what in ("objective", "lower_bound", "gap", "tolerance")
            ),
            statuses_column(models),
            Column(
                "solver",
                [Cell(spoken(each), each) for each in each_of(proofs, "solver")],
                is_text=True,
            ),
            counts_column("eigenproblems", each_of(proofs, "n_eigenproblems")),
        ),
        chosen=chosen_of(models),
    )


def of_steps(facts: Facts, labels: Sequence[str]) -> Table:
    """Every step of the walk: two groups in full, of more the worst."""
    names = each_of(facts["data"]["groups"], "group")
    points = facts["steps"]["points"]
    errors, losses = each_of(points, "errors_here"), each_of(points, "losses_here")
    by_group = (
        _by_group(names, errors, losses)
        if len(names) == 2
        else (*_worst(names, "error", errors), *_worst(names, "loss", losses))
    )
    total = figures_column("error over all rows", each_of(points, "total_error_here"))
    return Table("All steps", (names_column("step", labels), *by_group, total))


def of_given(facts: Facts) -> Table:
    """What each model is, and what its certificate says."""
    models = facts["given"]["models"]
    units = ["standardized" if each["standardized"] else "as they came" for each in models]
    return Table(
        "The models",
        (
            names_column("model", each_of(models, "name")),
            names_column("kind", each_of(models, "kind")),
            counts_column("dimensions", each_of(models, "n_components")),
            names_column("features", units),
            names_column("certificate", [each["status"] or "carries none" for each in models]),
            figures_column("error over all rows", each_of(models, "total_error_here")),
        ),
    )


def of_given_model(model: Facts) -> Table:
    """What a model does to each group."""
    groups = model["groups"]
    expected = [
        names_column("state", [each["state"] or "cannot tell" for each in groups]),
        estimates_column("expected loss", groups, "expected_loss"),
        estimates_column("expected error", groups, "expected_error"),
    ]
    return Table(
        f"{called(model['name'])} with {count(model['n_components'], 'dimension')}",
        (
            names_column("group", each_of(groups, "group")),
            counts_column("rows", each_of(groups, "n")),
            *(expected if model["why_no_estimates"] is None else ()),
            estimates_column("error on these rows", groups, "error_here"),
            figures_column("best possible", each_of(groups, "best_error_here")),
            shares_column("variance kept", each_of(groups, "kept_here")),
        ),
    )


def _by_group(
    names: Sequence[str], errors: Sequence[Sequence[float]], losses: Sequence[Sequence[float]]
) -> list[Column]:
    """Error and loss of both groups, which are compared with each other."""
    return [
        Column(what, [Cell(number(value, decimals), value) for value in values], called(name))
        for what, rows in (("error,", errors), ("loss,", losses))
        for decimals in [decimals_of(value for row in rows for value in row)]
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    ]


def _worst(names: Sequence[str], what: str, rows: Sequence[Sequence[float]]) -> list[Column]:
    """The largest of each row, and which group has it."""
    short = [called(name) for name in names]
    whose = [
        sharers(short, sharing_largest(values)) if max(values) > 0 else number(None)
        for values in rows
    ]
    return [
        figures_column(f"largest {what}", [max(values) for values in rows]),
        names_column("of", whose),
    ]


def of_expected_plain(facts: Facts) -> Table:
    """What PCA does to each group on new rows, and beside it the figures on these."""
    groups = plain_of(facts)["groups"]
    return Table(
        f"PCA with {count(facts['settings']['n_components'], 'dimension')} on new rows",
        (
            names_column("group", each_of(groups, "group")),
            counts_column("rows", each_of(facts["data"]["groups"], "n")),
            estimates_column("expected loss", groups, "expected_loss"),
            Column("state", [_state(group) for group in groups], is_text=True),
            estimates_column("expected error", groups, "expected_error"),
            replace(
                figures_column("loss on these rows", each_of(groups, "loss_here")), is_aside=True
            ),
            replace(
                figures_column("error on these rows", each_of(groups, "error_here")), is_aside=True
            ),
            replace(shares_column("variance kept", each_of(groups, "kept_here")), is_aside=True),
        ),
        faint=tuple(i for i, group in enumerate(groups) if group["expected_loss"] is None),
    )


def of_changes(facts: Facts) -> Table:
    """Whose error rises and whose falls from PCA to the main answer, on new rows."""
    name = main_of(facts)["name"]
    found = {each["group"]: each for each in facts["changes"] if each["model"] == name}
    groups = facts["data"]["groups"]
    known = [_change_of(found.get(group["group"]), group) for group in groups]
    return Table(
        f"Who gains and who pays: from PCA to {spoken(name)}, on new rows",
        (
            names_column("group", each_of(groups, "group")),
            counts_column("rows", each_of(groups, "n")),
            shares_column("share of the rows", each_of(groups, "proportion")),
            Column("change in error / variance", [cell for cell, _ in known]),
            names_column("outcome", [said for _, said in known]),
        ),
        faint=tuple(i for i, (cell, _) in enumerate(known) if cell.value is None),
    )


def _change_of(found: Facts | None, group: Facts) -> tuple[Cell, str]:
    """A change in error as a share of the group's variance with its interval, and what it says."""
    variance = group["total_variance_here"]
    if found is None or found["change_low"] is None or variance <= 0:
        return Cell(number(None), None, "too few rows"), CANNOT_TELL
    low, value, high = (found[each] / variance for each in ("change_low", "change", "change_high"))
    said = "gains" if high < 0 else "pays" if low > 0 else "no clear change"
    return Cell(change(value), value, f"{change(low)} to {change(high)}"), said


def of_expected_criteria(facts: Facts) -> Table:
    """Under each criterion: the largest loss on new rows, and what is kept of each group."""
    models = facts["models"]
    worst = [
        _NOT_ESTIMATED if i is None else model["groups"][i]
        for model in models
        for i in [worst_expected(facts, model)]
    ]
    return _of_models(
        models,
        estimates_column("largest expected loss", worst, "expected_loss"),
        names_column("of", each_of(worst, "group")),
        Column("state", [_state(each) for each in worst], is_text=True),
        *kept_columns(models),
    )


def of_expected_losses(facts: Facts) -> Table:
    """The loss of every group on new rows under every model, with interval and state."""
    models = facts["models"]
    decimals = decimals_of(group["expected_loss"] for model in models for group in model["groups"])
    columns = [
        Column(spoken(model["name"]), [_with_state(group, decimals) for group in model["groups"]])
        for model in models
    ]
    groups = zip(*each_of(models, "groups"), strict=True)
    return Table(
        "Expected loss of each group on new rows",
        (names_column("group", each_of(models[0]["groups"], "group")), *columns),
        faint=tuple(
            i
            for i, group in enumerate(groups)
            if all(each["expected_loss"] is None for each in group)
        ),
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
